"""Tables with named columns, read with pyarrow: which columns are features, and which names the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spherepair.errors import InvalidDataError, MissingDependencyError

CSV_SUFFIXES = (".csv", ".csv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES)
_SHOWN_NAMES = 8

#: Up to this share of words among numbers, a column is taken for numbers with slips.
RARE_SHARE = 0.1


@dataclass(frozen=True)
class Rows:
    """Number of rows of a file and, where they have any, their names."""

    n_rows: int
    ids: Any


@dataclass(frozen=True)
class Columns:
    """An Arrow table of numbers, and the column that names its rows."""

    features: Any
    ids: Any


def read_columns(
    path: Path, *, id_column: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> Columns:
    """The numeric columns of a file, and the ids of its rows.

    Parameters
    ----------
    path : Path
    id_column : str or None
        Column that names the rows.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str or None
        If given, exactly these columns are taken, in this order.
    """
    header = column_names(path)
    for name in (*drop, *([id_column] if id_column is not None else [])):
        _require_column(name, header, path)
    _refuse_repeated(header, path)
    if features is not None:
        _refuse_features(features, id_column=id_column, drop=drop)
    left_out = {*drop, id_column}
    wanted = [name for name in header if name not in left_out] if features is None else list(features)
    _refuse_missing(wanted, header, path)
    _refuse_unnamed(wanted, header, path)
    table = _read(path, [*wanted, *([id_column] if id_column is not None else [])], text=id_column)
    numbers = table.select(wanted)
    _refuse_text(numbers, path, needed=features is not None)
    return Columns(numbers, None if id_column is None else table[id_column])


def read_ids(path: Path, id_column: str | None) -> Rows:
    """The number of rows, and their names; one column is read."""
    header = column_names(path)
    if id_column is not None:
        _require_column(id_column, header, path)
    name = id_column if id_column is not None else header[0]
    # As text: what stands in the column does not matter for counting rows.
    table = _read(path, [name], text=name)
    return Rows(table.num_rows, None if id_column is None else table[id_column])


def column_names(path: Path) -> list[str]:
    """Names of the columns."""
    pa = _pyarrow(path)
    try:
        if _is_csv(path):
            names = list(_open_csv(path).schema.names)
        else:
            import pyarrow.parquet as pq

            names = list(pq.read_schema(path).names)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    if _is_csv(path):
        _refuse_numbers_as_names(names, path)
        _refuse_other_separator(names, path)
    return names


def _read(path: Path, names: list[str], *, text: str | None) -> Any:
    pa = _pyarrow(path)
    try:
        if _is_csv(path):
            return _read_csv(path, names, text=text)
        import pyarrow.parquet as pq

        return pq.read_table(path, columns=names)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _read_csv(path: Path, names: list[str], *, text: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    # Types are guessed from the first block: a column that begins with whole numbers or with
    # nothing may go on with fractions, so both are read as floating point numbers.
    guessed = _open_csv(path).schema
    types = {
        name: pa.float64() if pa.types.is_integer(kind) or pa.types.is_null(kind) else kind
        for name, kind in zip(guessed.names, guessed.types, strict=True)
    }
    if text is not None:
        types[text] = pa.string()  # an id such as 007 must stay what it is
    options = pa_csv.ConvertOptions(include_columns=names, column_types={n: types[n] for n in names})
    return pa_csv.read_csv(path, convert_options=options)


def _open_csv(path: Path) -> Any:
    import pyarrow.csv as pa_csv

    return pa_csv.open_csv(path)


def _is_csv(path: Path) -> bool:
    return path.name.lower().endswith(CSV_SUFFIXES)


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            f'{path.name} needs pyarrow; pip install "spherepair[files]".'
        ) from error
    return pyarrow


def _require_column(name: str, header: list[str], path: Path) -> None:
    if name not in header:
        raise InvalidDataError(f"{path} has no column {name!r}; it has {_listed(header)}.")


def _refuse_features(features: Sequence[str], *, id_column: str | None, drop: Sequence[str]) -> None:
    """What a model was fitted on can be neither left out nor the names of the rows."""
    for option, names in (("--drop", drop), ("--id", [] if id_column is None else [id_column])):
        for name in names:
            if name in features:
                raise InvalidDataError(
                    f"{option} {name}: the model was fitted on this column and needs it; leave the option "
                    "out, or fit without the column."
                )


def _refuse_missing(wanted: list[str], header: list[str], path: Path) -> None:
    missing = [name for name in wanted if name not in header]
    if missing:
        raise InvalidDataError(
            f"{path} lacks {len(missing)} of the {len(wanted)} columns that the model was fitted on: "
            f"{_listed(missing)}."
        )
    if not wanted:
        raise InvalidDataError(f"{path} has no column left to be a feature; it has {_listed(header)}.")


def _refuse_repeated(header: list[str], path: Path) -> None:
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise InvalidDataError(f"{path} has the column {repeated[0]!r} more than once; rename one of them.")


def _refuse_unnamed(wanted: list[str], header: list[str], path: Path) -> None:
    if "" in wanted:
        raise InvalidDataError(
            f"{path}: column {header.index('') + 1} has no name; if it is the index of a table, save the "
            "table without it, or leave it out with --drop ''."
        )


def _refuse_numbers_as_names(names: list[str], path: Path) -> None:
    """A file without a header would lose its first row; names 0, 1, 2, ... are fine."""
    if names != [str(place) for place in range(len(names))] and all(map(_is_number, names)):
        raise InvalidDataError(
            f"{path} begins with numbers ({_listed(names)}); its first line must name the columns."
        )


def _refuse_other_separator(names: list[str], path: Path) -> None:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InvalidDataError(f"{path} has one column only, {names[0]!r}; separate its columns by commas.")


def _refuse_text(table: Any, path: Path, *, needed: bool) -> None:
    import pyarrow.types as kinds

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if not any(test(kind) for test in tests):
            raise InvalidDataError(
                f"{path}: column {name!r} is not numeric {_why(table[name], name, needed=needed)}"
            )


def _why(column: Any, name: str, *, needed: bool) -> str:
    """A column of words wants another role; a few words among numbers, or what a model needs, mending."""
    values = column.to_pylist()
    strange = [
        row for row, value in enumerate(values) if value not in (None, "") and not _is_number(str(value))
    ]
    if strange and len(strange) <= RARE_SHARE * len(values):
        first = f"the first being {values[strange[0]]!r} in row {strange[0]}, counting from 0"
        remedy = "mend them" if needed else f"mend them, or leave out the column with --drop {name}"
        return f"({len(strange)} of its {len(values)} values are no numbers, {first}); {remedy}."
    example = values[0] if values else None
    if needed:
        return (
            f"(its type is {column.type}, its first value {example!r}), but the model was fitted on numbers."
        )
    return (
        f"(its type is {column.type}, its first value {example!r}); give --id {name} if it names the rows, "
        f"leave it out with --drop {name}, or encode it."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"


def _unreadable(path: Path, error: Exception) -> InvalidDataError:
    reason = " ".join(str(error).split()).rstrip(".")
    kind = "csv" if _is_csv(path) else "parquet"
    return InvalidDataError(f"{path} cannot be read as {kind} ({reason}); mend or write the file again.")

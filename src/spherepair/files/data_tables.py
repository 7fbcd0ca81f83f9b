"""Tables from files: arrays (``array_files.py``), named columns (.csv, .parquet, .xlsx), and folders.

Messages speak of the command line's options --id and --drop, which choose the columns.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spherepair.errors import LISTED_NAMES, InvalidDataError, InvalidParameterError, listed, quoted
from spherepair.files.array_files import ARRAY_SUFFIXES, read_array_file
from spherepair.files.columns import (
    CSV_SUFFIXES,
    PARQUET_SUFFIXES,
    SHEET_SUFFIXES,
    ColumnFile,
    open_columns,
    suffix_of,
)
from spherepair.files.untrusted import Fail

COLUMN_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *SHEET_SUFFIXES)
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
#: Name of the only column of a folder of pictures.
FILE_COLUMN = "file"
#: Of so many names of pictures some must be there.
MANY_PICTURES = 10
#: Up to this share of words, a column is taken for numbers with typing errors.
RARE_SHARE = 0.1


@dataclass(frozen=True)
class Table:
    """Rows of features, with their names.

    Attributes
    ----------
    X : memory map, ndarray, CSR matrix or Arrow table of shape (n_rows, n_features)
    ids : Arrow array of shape (n_rows,) or None
        ID of each row.
    names : tuple of str or None
        Name of each feature.
    id_name : str or None
        Name of the ID column.
    file : ColumnFile or None
        Where named columns come from.
    raw : the rows as they were read, where `X` holds what an encoder made of them
    """

    X: Any
    ids: Any = None
    names: tuple[str, ...] | None = None
    id_name: str | None = None
    file: ColumnFile | None = field(default=None, repr=False)
    raw: Any = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def locate(self, row: int) -> str:
        """Where a row is found: the line of the file, as editors count, and its ID."""
        place = f"row {row}" if self.file is None else f"line {self.file.rows(self.n_rows)[row]}"
        return place if self.ids is None else f"{place} (id {quoted(self.ids[row].as_py())})"


@dataclass(frozen=True)
class Rows:
    """Number of rows of a file, and their IDs if it has any."""

    n_rows: int
    ids: Any


def read_table(
    path: Path,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    mixed: bool = False,
    text: Sequence[str] = (),
) -> Table:
    """Read rows of features; the ending of the name says what the file is.

    Parameters
    ----------
    path : Path
    id_column : str, optional
        ID column of a csv or parquet file; not a feature.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str, optional
        Columns that a model was fitted on: exactly these are read, in this order.
    n_features : int, optional
        Number of features of a sparse file; its last ones may be zero in all rows.
    mixed : bool
        Whether columns may hold anything, not only numbers.
    text : sequence of str
        Columns of a csv file that are text, whatever they look like.
    """
    if path.is_dir():
        return _read_folder(path)
    suffix = _suffix_of(path)
    if suffix in COLUMN_SUFFIXES:
        file = open_table(path)
        table = _read_columns(file, id_column=id_column, drop=drop, features=features, text=text)
        if not mixed:
            _refuse_text(table, path, needed=features is not None)
        return table
    _refuse_named_columns(path, id_column, drop)
    return Table(read_array_file(path, n_features=n_features))


def read_rows(path: Path, *, id_column: str | None = None) -> Rows:
    """Count the rows of a file and read their IDs; features are not read where that can be avoided."""
    if path.is_dir():
        folder = _read_folder(path)
        return Rows(folder.n_rows, folder.ids)
    if _suffix_of(path) not in COLUMN_SUFFIXES:
        return Rows(read_table(path, id_column=id_column).n_rows, None)
    file = open_table(path)
    if id_column is not None:
        _require_column(id_column, file)
    name = id_column if id_column is not None else file.names[0]
    # As text: rows can be counted whatever stands in the column.
    table = file.read([name], text=[name])
    ids = None if id_column is None else known_ids(table[id_column], id_column, file.fail)
    return Rows(table.num_rows, ids)


def has_named_columns(path: Path) -> bool:
    """Whether a file is of a kind whose columns have names."""
    return _suffix_of(path) in COLUMN_SUFFIXES


def column_names(path: Path) -> list[str]:
    """Names of the columns of a csv, parquet or xlsx file."""
    return [FILE_COLUMN] if path.is_dir() else open_table(path).names


def picture_files(folder: Path) -> list[Path]:
    """All picture files of a folder and of the folders inside, sorted by name."""
    files = (file for file in folder.rglob("*") if file.suffix.lower() in PICTURE_SUFFIXES)
    found = sorted(file for file in files if not file.name.startswith(".") and file.is_file())
    if not found:
        endings = ", ".join(PICTURE_SUFFIXES)
        raise InvalidDataError(f"{folder} is a folder without pictures; their names must end in {endings}.")
    return found


def locate_pictures(table: Any, names: Sequence[str], folder: Path, data: object) -> Any:
    """An Arrow table with full paths in its columns of pictures; those that hold the contents stay.

    Where none of many names is there, the folder is wrong; a few are left to the encoder, which names them.

    Parameters
    ----------
    table : Arrow table
    names : sequence of str
        Columns of pictures; their files are named from `folder`.
    folder : Path
    data : object
        What the table was read from, for messages.
    """
    import pyarrow as pa

    for name in (name for name in names if not holds_bytes(table[name].type)):
        try:
            told = table[name].cast(pa.string()).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            problem = f"of type {table[name].type} holds neither names nor contents of pictures"
            raise InvalidDataError(f"{data}: column {quoted(name)} {problem}.") from error
        files = [str(folder / file) if file else None for file in told]
        some = [file for file in files if file is not None][:1000]
        if len(some) >= MANY_PICTURES and not any(map(os.path.isfile, some)):
            raise InvalidDataError(
                f"{data}: none of the pictures in column {quoted(name)} is there, such as {quoted(some[0])}; "
                "names are taken from the folder of the data."
            )
        table = table.set_column(table.column_names.index(name), name, pa.array(files, pa.string()))
    return table


def holds_bytes(kind: Any) -> bool:
    """Whether an Arrow type is one of bytes, such as the contents of pictures."""
    import pyarrow.types as kinds

    is_kind = (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary, kinds.is_binary_view)
    return any(is_one(kind) for is_one in is_kind)


def _read_folder(folder: Path) -> Table:
    """A folder of pictures as a table with one column, the files; their names inside are the IDs."""
    import pyarrow as pa

    files = picture_files(folder)
    ids = pa.array([file.relative_to(folder).as_posix() for file in files])
    return Table(pa.table({FILE_COLUMN: list(map(str, files))}), ids, (FILE_COLUMN,), FILE_COLUMN)


def _fail(path: Path) -> Any:
    return lambda reason: InvalidDataError(f"{path} {reason}")


def _suffix_of(path: Path) -> str:
    return suffix_of(path, (*COLUMN_SUFFIXES, *ARRAY_SUFFIXES), _fail(path))


def open_table(path: Path) -> ColumnFile:
    """Open a csv, parquet or xlsx file; a csv file without a header is refused."""
    file = open_columns(path, suffixes=COLUMN_SUFFIXES, fail=_fail(path))
    if file.kind == "csv":
        _refuse_numbers_as_names(file)
    return file


def _read_columns(
    file: ColumnFile,
    *,
    id_column: str | None,
    drop: Sequence[str],
    features: Sequence[str] | None,
    text: Sequence[str],
) -> Table:
    wanted = feature_columns(file, id_column=id_column, drop=drop, features=features)
    ids = [] if id_column is None else [id_column]
    table = file.read([*wanted, *ids], text=[*ids, *(name for name in text if name in wanted)])
    given = None if id_column is None else known_ids(table[id_column], id_column, file.fail)
    return Table(table.select(wanted), given, tuple(wanted), id_column, file)


def known_ids(ids: Any, name: str, fail: Fail) -> Any:
    """The IDs of rows, bytes as texts; refused where they are neither numbers nor texts."""
    import pyarrow as pa

    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    try:
        if pa.types.is_nested(ids.type):
            raise ValueError("lists and objects are no IDs")
        return ids.cast(pa.string()) if any(test(ids.type) for test in tests) else ids
    except ValueError as error:  # of Arrow, too
        what = f"{quoted(name)} of type {quoted(str(ids.type))}"
        raise fail(
            f"cannot use the ID column {what} ({quoted(error)}); IDs must be numbers or texts."
        ) from error


def feature_columns(
    file: ColumnFile, *, id_column: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> list[str]:
    """Columns of a file that are features; takes what :func:`read_table` does, and refuses what it does."""
    ids = [] if id_column is None else [id_column]
    drop = split_names(drop, file.names)
    for name in (*drop, *ids):
        _require_column(name, file)
    _refuse_repeated(file)
    if features is None:
        wanted = [name for name in file.names if name not in {*drop, *ids}]
    else:
        _refuse_features(features, ids=ids, drop=drop)
        wanted = list(features)
    _refuse_missing(wanted, file)
    _refuse_unnamed(wanted, file)
    return wanted


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names that may be listed with commas, as in ``--drop a,b``.

    Examples
    --------
    >>> split_names(["a,b", "price, EUR"], ["a", "b", "price, EUR"])
    ['a', 'b', 'price, EUR']
    """
    parts = ([name] if name in known else [part.strip() for part in name.split(",")] for name in given)
    return [name for part in parts for name in part]


def _require_column(name: str, file: ColumnFile) -> None:
    if name not in file.names:
        raise InvalidDataError(f"{file.path} has no column {quoted(name)}; it has {listed(file.names)}.")


def _refuse_features(features: Sequence[str], *, ids: Sequence[str], drop: Sequence[str]) -> None:
    """A column that the model was fitted on can be neither dropped nor the ID column."""
    for option, names in (("--drop", drop), ("--id", ids)):
        for name in names:
            if name in features:
                raise InvalidDataError(
                    f"{option} {name}: the model was fitted on this column and needs it; leave the option "
                    "out, or fit without the column."
                )


def _refuse_missing(wanted: list[str], file: ColumnFile) -> None:
    known = set(file.names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InvalidDataError(
            f"{file.path} lacks {len(missing)} of the {len(wanted)} columns that the model was fitted on: "
            f"{listed(missing)}."
        )
    if not wanted:
        raise InvalidDataError(
            f"{file.path} has no column left to be a feature; it has {listed(file.names)}."
        )


def _refuse_repeated(file: ColumnFile) -> None:
    repeated = [name for name, count in Counter(file.names).items() if count > 1]
    if repeated:
        raise InvalidDataError(
            f"{file.path} has the column {quoted(repeated[0])} more than once; rename one of them."
        )


def _refuse_unnamed(wanted: list[str], file: ColumnFile) -> None:
    if "" in wanted:
        raise InvalidDataError(
            f"{file.path}: column {file.names.index('') + 1} has no name; if it is the index of a table, "
            "save the table without it, or leave it out with --drop ''."
        )


def _refuse_numbers_as_names(file: ColumnFile) -> None:
    """A file without a header would lose its first row; names 0, 1, 2, ... are fine."""
    names = file.names
    if names != [str(place) for place in range(len(names))] and all(map(_is_number, names)):
        raise InvalidDataError(
            f"{file.path} begins with numbers ({listed(names)}); its first line must name the columns."
        )


def _refuse_text(table: Table, path: Path, *, needed: bool) -> None:
    """Name the columns that are no numbers, at once."""
    names = not_numeric(table.X)
    if not names:
        return
    shown = names[:LISTED_NAMES]
    said = [f"column {quoted(name)} is not numeric {_why(table, name, needed=needed)}" for name in shown]
    if len(names) > len(shown):
        said.append(f"{len(names) - len(shown)} more columns are not numeric.")
    raise InvalidDataError(f"{path}: {' '.join(said)}")


def not_numeric(table: Any) -> list[str]:
    """Names of the columns of an Arrow table, or of its schema, that hold no numbers."""
    import pyarrow.types as kinds

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    schema = getattr(table, "schema", table)
    typed = zip(schema.names, schema.types, strict=True)
    return [name for name, kind in typed if not any(test(kind) for test in tests)]


def _why(table: Table, name: str, *, needed: bool) -> str:
    """What a column holds instead of numbers, and the remedy; a `needed` column cannot be dropped."""
    values = table.X[name].to_pylist()
    words = [
        row for row, value in enumerate(values) if value not in (None, "") and not _is_number(str(value))
    ]
    if words and len(words) <= RARE_SHARE * len(values):
        first = f"the first being {quoted(values[words[0]])} in {table.locate(words[0])}"
        remedy = "correct them" if needed else f"correct them, or leave out the column with --drop {name}"
        return f"({len(words)} of its {len(values)} values are no numbers, {first}); {remedy}."
    holds = f"(its type is {table.X[name].type}, its first value {quoted(values[0] if values else None)})"
    if needed:
        return f"{holds}, but the model was fitted on numbers."
    return f"{holds}; give --id {name} if it is the ID column, or drop it with --drop {name}."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_named_columns(path: Path, id_column: str | None, drop: Sequence[str]) -> None:
    for option, wanted in (("--id", id_column), ("--drop", drop)):
        if wanted:
            raise InvalidParameterError(
                f"{option} needs a file with named columns (.csv, .parquet); {path.name} has none. "
                "Leave the option out; its rows are numbered from 0."
            )

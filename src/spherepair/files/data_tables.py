"""Tables of features from files: arrays (.npy, .npz), named columns (.csv, .parquet) and .svmlight.

Messages speak of the command line's options --id and --drop, which choose the columns.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.files.columns import CSV_SUFFIXES, PARQUET_SUFFIXES, ColumnFile, open_columns, suffix_of

ARRAY_SUFFIXES = (".npy", ".npz", ".svmlight", ".svm", ".libsvm")
COLUMN_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES)
#: Up to this share of words, a column is taken for numbers with typing errors.
RARE_SHARE = 0.1
_SPARSE_PARTS = frozenset({"indices", "indptr", "shape", "format"})
_SHOWN_NAMES = 8


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
    """

    X: Any
    ids: Any = None
    names: tuple[str, ...] | None = None
    id_name: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])


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
    """
    suffix = _suffix_of(path)
    if suffix in COLUMN_SUFFIXES:
        return _read_columns(_open(path), id_column=id_column, drop=drop, features=features)
    _refuse_named_columns(path, id_column, drop)
    if suffix == ".npy":
        return Table(_checked(_open_npy(path), path))
    if suffix == ".npz":
        return Table(_checked(_read_npz(path), path))
    return Table(_read_svmlight(path, n_features))


def read_rows(path: Path, *, id_column: str | None = None) -> Rows:
    """Count the rows of a file and read their IDs; features are not read where that can be avoided."""
    if _suffix_of(path) not in COLUMN_SUFFIXES:
        return Rows(read_table(path, id_column=id_column).n_rows, None)
    file = _open(path)
    if id_column is not None:
        _require_column(id_column, file)
    name = id_column if id_column is not None else file.names[0]
    # As text: rows can be counted whatever stands in the column.
    table = file.read([name], text=[name])
    return Rows(table.num_rows, None if id_column is None else table[id_column])


def column_names(path: Path) -> list[str]:
    """Names of the columns of a csv or parquet file."""
    return _open(path).names


def _fail(path: Path) -> Any:
    return lambda reason: InvalidDataError(f"{path} {reason}")


def _suffix_of(path: Path) -> str:
    return suffix_of(path, (*COLUMN_SUFFIXES, *ARRAY_SUFFIXES), _fail(path))


def _open(path: Path) -> ColumnFile:
    file = open_columns(path, suffixes=COLUMN_SUFFIXES, fail=_fail(path))
    if file.kind == "csv":
        _refuse_numbers_as_names(file)
        _refuse_other_separator(file)
    return file


def _read_columns(
    file: ColumnFile, *, id_column: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> Table:
    ids = [] if id_column is None else [id_column]
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
    table = file.read([*wanted, *ids], text=ids)
    numbers = table.select(wanted)
    _refuse_text(numbers, file.path, needed=features is not None)
    return Table(numbers, None if id_column is None else table[id_column], tuple(wanted), id_column)


def _require_column(name: str, file: ColumnFile) -> None:
    if name not in file.names:
        raise InvalidDataError(f"{file.path} has no column {name!r}; it has {_listed(file.names)}.")


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
    missing = [name for name in wanted if name not in file.names]
    if missing:
        raise InvalidDataError(
            f"{file.path} lacks {len(missing)} of the {len(wanted)} columns that the model was fitted on: "
            f"{_listed(missing)}."
        )
    if not wanted:
        raise InvalidDataError(
            f"{file.path} has no column left to be a feature; it has {_listed(file.names)}."
        )


def _refuse_repeated(file: ColumnFile) -> None:
    repeated = [name for name, count in Counter(file.names).items() if count > 1]
    if repeated:
        raise InvalidDataError(
            f"{file.path} has the column {repeated[0]!r} more than once; rename one of them."
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
            f"{file.path} begins with numbers ({_listed(names)}); its first line must name the columns."
        )


def _refuse_other_separator(file: ColumnFile) -> None:
    if len(file.names) == 1 and any(mark in file.names[0] for mark in ";\t|"):
        raise InvalidDataError(
            f"{file.path} has one column only, {file.names[0]!r}; separate its columns by commas."
        )


def _refuse_text(table: Any, path: Path, *, needed: bool) -> None:
    import pyarrow.types as kinds

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if not any(test(kind) for test in tests):
            raise InvalidDataError(
                f"{path}: column {name!r} is not numeric {_why(table[name], name, needed=needed)}"
            )


def _why(column: Any, name: str, *, needed: bool) -> str:
    """What a column holds instead of numbers, and the remedy; a `needed` column cannot be dropped."""
    values = column.to_pylist()
    words = [
        row for row, value in enumerate(values) if value not in (None, "") and not _is_number(str(value))
    ]
    if words and len(words) <= RARE_SHARE * len(values):
        first = f"the first being {values[words[0]]!r} in row {words[0]}, counting from 0"
        remedy = "correct them" if needed else f"correct them, or leave out the column with --drop {name}"
        return f"({len(words)} of its {len(values)} values are no numbers, {first}); {remedy}."
    holds = f"(its type is {column.type}, its first value {values[0] if values else None!r})"
    if needed:
        return f"{holds}, but the model was fitted on numbers."
    return f"{holds}; give --id {name} if it is the ID column, drop it with --drop {name}, or encode it."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"


def _refuse_named_columns(path: Path, id_column: str | None, drop: Sequence[str]) -> None:
    for option, wanted in (("--id", id_column), ("--drop", drop)):
        if wanted:
            raise InvalidParameterError(
                f"{option} needs a file with named columns (.csv, .parquet); {path.name} has none. "
                "Leave the option out; its rows are numbered from 0."
            )


def _open_npy(path: Path) -> Any:
    try:
        # A map of the file: rows are read when they are needed, however many there are.
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _unreadable(path, "a NumPy array of numbers", error) from error


def _read_npz(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            arrays = np.load(stream, allow_pickle=False)
            if isinstance(arrays, np.ndarray):
                return arrays
            if set(arrays.files) >= _SPARSE_PARTS:
                return _read_sparse(path)
            return arrays[_main_array(path, arrays.files)]
    except InvalidDataError:
        raise
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise _unreadable(path, "a NumPy archive of numbers", error) from error


def _read_sparse(path: Path) -> Any:
    from scipy import sparse

    return sparse.csr_matrix(sparse.load_npz(path))


def _main_array(path: Path, names: list[str]) -> str:
    for name in ("X", "data", names[0] if len(names) == 1 else "X"):
        if name in names:
            return name
    raise InvalidDataError(
        f"{path} holds {', '.join(names) or 'no array'}; save the rows of features under the name X."
    )


def _read_svmlight(path: Path, n_features: int | None) -> Any:
    from sklearn.datasets import load_svmlight_file

    try:
        rows, _ = load_svmlight_file(str(path), n_features=n_features)
    except (ValueError, UnicodeDecodeError) as error:
        raise _unreadable(path, "svmlight text with lines of 'label index:value ...'", error) from error
    return rows


def _checked(array: Any, path: Path) -> Any:
    if array.ndim != 2:
        raise InvalidDataError(
            f"{path} holds an array of shape {array.shape}; rows of features are needed, of shape "
            "(n_rows, n_features)."
        )
    if array.dtype.kind not in "biuf":
        raise InvalidDataError(f"{path} holds values of type {array.dtype}; features must be numbers.")
    return array


def _unreadable(path: Path, what: str, error: Exception) -> InvalidDataError:
    reason = " ".join(str(error).split()).rstrip(".")
    return InvalidDataError(f"{path} cannot be read as {what} ({reason}); write the file again.")

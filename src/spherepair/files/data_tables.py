"""Tables from files: arrays (.npy, .npz, .svmlight), named columns (.csv, .parquet, .xlsx), and folders.

Messages speak of the command line's options --id and --drop, which choose the columns.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.files.columns import (
    CSV_SUFFIXES,
    PARQUET_SUFFIXES,
    SHEET_SUFFIXES,
    ColumnFile,
    open_columns,
    suffix_of,
)

ARRAY_SUFFIXES = (".npy", ".npz", ".svmlight", ".svm", ".libsvm")
COLUMN_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *SHEET_SUFFIXES)
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
#: Name of the only column of a folder of pictures.
FILE_COLUMN = "file"
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
    file : ColumnFile or None
        Where named columns come from.
    """

    X: Any
    ids: Any = None
    names: tuple[str, ...] | None = None
    id_name: str | None = None
    file: ColumnFile | None = field(default=None, repr=False)

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
        return place if self.ids is None else f"{place} (id {self.ids[row].as_py()!r})"


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
        file = _open(path)
        table = _read_columns(file, id_column=id_column, drop=drop, features=features, text=text)
        if not mixed:
            _refuse_text(table, path, needed=features is not None)
        return table
    _refuse_named_columns(path, id_column, drop)
    if suffix == ".npy":
        return Table(_checked(_open_npy(path), path))
    if suffix == ".npz":
        return Table(_checked(_read_npz(path), path))
    return Table(_read_svmlight(path, n_features))


def read_rows(path: Path, *, id_column: str | None = None) -> Rows:
    """Count the rows of a file and read their IDs; features are not read where that can be avoided."""
    if path.is_dir():
        folder = _read_folder(path)
        return Rows(folder.n_rows, folder.ids)
    if _suffix_of(path) not in COLUMN_SUFFIXES:
        return Rows(read_table(path, id_column=id_column).n_rows, None)
    file = _open(path)
    if id_column is not None:
        _require_column(id_column, file)
    name = id_column if id_column is not None else file.names[0]
    # As text: rows can be counted whatever stands in the column.
    table = file.read([name], text=[name])
    return Rows(table.num_rows, None if id_column is None else table[id_column])


def has_named_columns(path: Path) -> bool:
    """Whether a file is of a kind whose columns have names."""
    return _suffix_of(path) in COLUMN_SUFFIXES


def column_names(path: Path) -> list[str]:
    """Names of the columns of a csv, parquet or xlsx file."""
    return [FILE_COLUMN] if path.is_dir() else _open(path).names


def picture_files(folder: Path) -> list[Path]:
    """All picture files of a folder and of the folders inside, sorted by name."""
    files = (file for file in folder.rglob("*") if file.suffix.lower() in PICTURE_SUFFIXES)
    found = sorted(file for file in files if not file.name.startswith(".") and file.is_file())
    if not found:
        endings = ", ".join(PICTURE_SUFFIXES)
        raise InvalidDataError(f"{folder} is a folder without pictures; their names must end in {endings}.")
    return found


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


def _open(path: Path) -> ColumnFile:
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
    table = file.read([*wanted, *ids], text=[*ids, *(name for name in text if name in wanted)])
    given = None if id_column is None else table[id_column]
    return Table(table.select(wanted), given, tuple(wanted), id_column, file)


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


def _refuse_text(table: Table, path: Path, *, needed: bool) -> None:
    """Name all columns that are no numbers, at once."""
    names = not_numeric(table.X)
    if not names:
        return
    said = " ".join(f"column {name!r} is not numeric {_why(table, name, needed=needed)}" for name in names)
    raise InvalidDataError(f"{path}: {said}")


def not_numeric(table: Any) -> list[str]:
    """Names of the columns of an Arrow table that hold no numbers."""
    import pyarrow.types as kinds

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    typed = zip(table.column_names, table.schema.types, strict=True)
    return [name for name, kind in typed if not any(test(kind) for test in tests)]


def _why(table: Table, name: str, *, needed: bool) -> str:
    """What a column holds instead of numbers, and the remedy; a `needed` column cannot be dropped."""
    values = table.X[name].to_pylist()
    words = [
        row for row, value in enumerate(values) if value not in (None, "") and not _is_number(str(value))
    ]
    if words and len(words) <= RARE_SHARE * len(values):
        first = f"the first being {values[words[0]]!r} in {table.locate(words[0])}"
        remedy = "correct them" if needed else f"correct them, or leave out the column with --drop {name}"
        return f"({len(words)} of its {len(values)} values are no numbers, {first}); {remedy}."
    holds = f"(its type is {table.X[name].type}, its first value {values[0] if values else None!r})"
    if needed:
        return f"{holds}, but the model was fitted on numbers."
    return f"{holds}; give --id {name} if it is the ID column, or drop it with --drop {name}."


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

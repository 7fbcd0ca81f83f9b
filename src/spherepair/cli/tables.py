"""Files of rows: arrays (.npy, .npz), tables with named columns (.csv, .parquet) and .svmlight."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.cli import columns
from spherepair.errors import InvalidDataError, InvalidParameterError

ARRAY_SUFFIXES = (".npy", ".npz", ".svmlight", ".svm", ".libsvm")
_SPARSE_PARTS = frozenset({"indices", "indptr", "shape", "format"})


@dataclass(frozen=True)
class Table:
    """Rows of features, and what they are called.

    Attributes
    ----------
    X : memory map, ndarray, CSR matrix or Arrow table of shape (n_rows, n_features)
    ids : Arrow array of shape (n_rows,) or None
        The name of each row.
    names : tuple of str or None
        The name of each feature.
    id_name : str or None
        The column that held the ids.
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
        Column of a csv or parquet file that names the rows; it is no feature.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str, optional
        The columns a model was fitted on: these are taken, in this order, and others ignored.
    n_features : int, optional
        Number of features of a sparse file, whose last ones may be zero in all of its rows.
    """
    kind = _kind_of(path)
    if kind in columns.SUFFIXES:
        found = columns.read_columns(path, id_column=id_column, drop=drop, features=features)
        return Table(found.features, found.ids, tuple(found.features.column_names), id_column)
    _refuse_named_columns(path, id_column, drop)
    if kind == ".npy":
        return Table(_checked(_open_npy(path), path))
    if kind == ".npz":
        return Table(_checked(_read_npz(path), path))
    return Table(_read_svmlight(path, n_features))


def read_rows(path: Path, *, id_column: str | None = None) -> columns.Rows:
    """How many rows a file has and, where a column names them, their names; no features are kept."""
    if _kind_of(path) in columns.SUFFIXES:
        return columns.read_ids(path, id_column)
    return columns.Rows(read_table(path, id_column=id_column).n_rows, None)


def _kind_of(path: Path) -> str:
    name = path.name.lower()
    for suffix in (*columns.SUFFIXES, *ARRAY_SUFFIXES):
        if name.endswith(suffix):
            _require_file(path)
            return suffix
    known = ", ".join((*ARRAY_SUFFIXES, *columns.SUFFIXES))
    raise InvalidDataError(f"{path} is of an unknown kind; the name of a file of rows must end in {known}.")


def _require_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist; check the path"
        raise InvalidDataError(f"{path} {what}.")


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

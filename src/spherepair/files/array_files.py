"""Rows of features in files of arrays: .npy, .npz (dense or a sparse matrix) and svmlight text."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spherepair.errors import InvalidDataError
from spherepair.files.untrusted import (
    SPARSE_COLUMNS,
    UNPACKED_BYTES,
    UNPACKED_RATIO,
    Fail,
    FilePlace,
    SourceFile,
    check_npy,
    decoding,
    limit,
    refuse_above,
    refuse_zip_bomb,
    size_of,
)

ARRAY_SUFFIXES = (".npy", ".npz", ".svmlight", ".svm", ".libsvm")
_ARRAY = "a NumPy array of numbers"
#: What every sparse matrix of scipy has in its archive, and what the formats that are read have besides.
_SPARSE_MARKS, _SPARSE_PARTS = frozenset({"shape", "format", "data"}), frozenset({"indices", "indptr"})


def read_array_file(path: FilePlace, *, n_features: int | None = None) -> Any:
    """Rows of features as a memory map, an array or a CSR matrix; the ending says what the file is.

    Of a .npy file that is elsewhere, rows are read once they are asked for, as of a memory map.

    Parameters
    ----------
    path : Path or SourceFile
    n_features : int, optional
        Number of features of svmlight text; its last ones may be zero in all rows.
    """

    def fail(reason: str) -> InvalidDataError:
        return InvalidDataError(f"{path} {reason}")

    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _checked(open_npy(path, fail), path)
    if suffix == ".npz":
        return _checked(_read_npz(path, fail), path)
    return _read_svmlight(path, n_features, fail)


def read_array_files(paths: Sequence[FilePlace]) -> Any:
    """The rows of several files one after the other, in memory; they must have as many features."""
    arrays = [read_array_file(path) for path in paths]
    for path, array in zip(paths, arrays, strict=True):
        if array.shape[1] != arrays[0].shape[1]:
            raise InvalidDataError(
                f"{path} has {array.shape[1]} features, but {paths[0]} has {arrays[0].shape[1]}."
            )
    if len(arrays) == 1:
        return arrays[0][:] if isinstance(arrays[0], RowsElsewhere) else arrays[0]
    joined = np.empty((sum(map(len, arrays)), arrays[0].shape[1]), np.result_type(*(a.dtype for a in arrays)))
    for array, stop in zip(arrays, np.cumsum([len(array) for array in arrays]), strict=True):
        joined[stop - len(array) : stop] = array[:]
    return joined


@dataclass(frozen=True)
class RowsElsewhere:
    """The rows of a .npy file that is not on this machine: each is read when it is asked for.

    Attributes
    ----------
    file : SourceFile
    shape : tuple of int
    by_columns : bool
        Whether the columns are stored one after another, not the rows.
    dtype : numpy.dtype
    start : int
        Where the first number stands in the file.
    fail : callable
        Makes the error to raise of what is wrong with the file.
    """

    file: SourceFile
    shape: tuple[int, ...]
    by_columns: bool
    dtype: Any
    start: int
    fail: Fail

    @property
    def ndim(self) -> int:
        """Number of its axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Any:
        first, stop, _ = rows.indices(len(self))
        n_rows, n_columns = self.shape
        with decoding(_ARRAY, self.fail), self.file.stream() as stream:
            if not self.by_columns:
                found = self._read(stream, first * n_columns, stop * n_columns)
                return found.reshape(stop - first, n_columns)
            found = np.empty((stop - first, n_columns), self.dtype)
            for place in range(n_columns):
                found[:, place] = self._read(stream, place * n_rows + first, place * n_rows + stop)
            return found

    def _read(self, stream: Any, first: int, stop: int) -> Any:
        """The numbers from one place up to another."""
        stream.seek(self.start + first * self.dtype.itemsize)
        content = stream.read((stop - first) * self.dtype.itemsize)
        if len(content) < (stop - first) * self.dtype.itemsize:
            raise ValueError("it has become shorter since it was opened")
        return np.frombuffer(content, self.dtype)


def open_npy(path: FilePlace, fail: Fail, mode: Literal["r", "c"] = "r") -> Any:
    """Map a .npy file whose header fits it; see ``mmap_mode`` of ``numpy.load``."""
    with decoding(_ARRAY, fail):
        with path.open("rb") as stream:
            described = check_npy(stream, size_of(path))
            if isinstance(path, SourceFile):
                return RowsElsewhere(path, *described, stream.tell(), fail)
        # A map of the file: rows are read when they are needed, however many there are.
        return np.load(path, mmap_mode=mode, allow_pickle=False)


def read_archive(path: Path, fail: Fail) -> dict[str, Any]:
    """All arrays of a .npz file, by name."""
    what = "a NumPy archive"
    refuse_zip_bomb(path, what, fail)
    with decoding(what, fail):
        _check_members(path)
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def _read_npz(path: FilePlace, fail: Fail) -> Any:
    with path.open("rb") as stream:
        is_array = stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX
    if is_array:
        return open_npy(path, fail)
    what = "a NumPy archive of numbers"
    refuse_zip_bomb(path, what, fail)
    with decoding(what, fail):
        _check_members(path)
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            if set(arrays.files) >= _SPARSE_MARKS:
                rows = sparse_rows({name: arrays[name] for name in arrays.files})
                refuse_above(rows.shape[1], SPARSE_COLUMNS, "columns", fail)
                return rows
            return arrays[_main_array(path, arrays.files)]


def _check_members(path: FilePlace) -> None:
    with path.open("rb") as packed, zipfile.ZipFile(packed) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                check_npy(stream, member.file_size)


def sparse_rows(parts: dict[str, Any]) -> Any:
    """A CSR matrix of the arrays that ``scipy.sparse.save_npz`` writes, or ``ValueError``.

    SciPy's compiled code follows the indices wherever they point, so they are checked before it sees them.

    Examples
    --------
    >>> shape, ends, columns, values = np.array([2, 3]), np.array([0, 1, 2]), np.array([2, 0]), np.ones(2)
    >>> named = {"format": np.array("csr"), "shape": shape, "indptr": ends, "data": values}
    >>> sparse_rows(named | {"indices": columns}).toarray().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    >>> sparse_rows(named | {"indices": columns + 1})
    Traceback (most recent call last):
    ValueError: its indices point outside of the matrix
    """
    from scipy import sparse

    kinds = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix, "bsr": sparse.bsr_matrix}
    name = str(np.asarray(parts["format"]).astype(str))
    if name not in kinds or not parts.keys() >= _SPARSE_PARTS:
        raise ValueError(f"its format is none of {', '.join(kinds)}; save the matrix.tocsr() of scipy")
    shape = _shape(parts["shape"])
    data, indices, indptr = (np.asarray(parts[part]) for part in ("data", "indices", "indptr"))
    block = _block(data, shape) if name == "bsr" else (1, 1)
    along, across = (size // part for size, part in zip(shape, block, strict=True))
    _check_indices(data, indices, indptr, (across, along) if name == "csc" else (along, across))
    if name == "csc" and 8 * along > max(limit(UNPACKED_BYTES), UNPACKED_RATIO * indices.nbytes):
        raise ValueError("it has far more rows than values")  # as CSR each row takes eight bytes
    return sparse.csr_matrix(kinds[name]((data, indices, indptr), shape=shape))


def _shape(found: Any) -> tuple[int, int]:
    shape = np.asarray(found)
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError("its shape must be two whole numbers")
    n_rows, n_columns = map(int, shape)
    if not (0 <= n_rows < 2**48 and 0 <= n_columns < 2**48):
        raise ValueError("its shape is negative or too large")
    return n_rows, n_columns


def _block(data: Any, shape: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the blocks of a BSR matrix."""
    if data.ndim != 3 or 0 in data.shape[1:] or shape[0] % data.shape[1] or shape[1] % data.shape[2]:
        raise ValueError("its blocks do not fill its shape")
    return int(data.shape[1]), int(data.shape[2])


def _check_indices(data: Any, indices: Any, indptr: Any, sizes: tuple[int, int]) -> None:
    """Refuse what points outside; `sizes` are those along and across the compressed axis."""
    if not all(part.ndim == 1 and part.dtype.kind in "iu" for part in (indices, indptr)):
        raise ValueError("its indices must be whole numbers")
    if data.dtype.kind not in "biuf" or len(data) != len(indices) or len(indptr) != sizes[0] + 1:
        raise ValueError("its parts are not as long as its shape needs")
    if indptr[0] != 0 or indptr[-1] > len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("its rows do not follow each other")
    if len(indices) and not (indices.min() >= 0 and indices.max() < sizes[1]):
        raise ValueError("its indices point outside of the matrix")


def _main_array(path: FilePlace, names: list[str]) -> str:
    for name in ("X", "data", names[0] if len(names) == 1 else "X"):
        if name in names:
            return name
    shown = ", ".join(names[:8]) or "no array"
    raise InvalidDataError(f"{path} holds {shown[:80]}; save the rows of features under the name X.")


def _read_svmlight(path: FilePlace, n_features: int | None, fail: Fail) -> Any:
    from sklearn.datasets import load_svmlight_file

    what = "svmlight text with lines of 'label index:value ...'"
    with decoding(what, fail), path.open("rb") as stream:
        rows, _ = load_svmlight_file(stream, n_features=n_features)
    refuse_above(rows.shape[1], SPARSE_COLUMNS, "columns", fail)
    return rows


def _checked(array: Any, path: FilePlace) -> Any:
    if array.ndim != 2:
        raise InvalidDataError(
            f"{path} holds an array of shape {array.shape}; rows of features are needed, of shape "
            "(n_rows, n_features)."
        )
    if array.dtype.kind not in "biuf":
        raise InvalidDataError(f"{path} holds values of type {array.dtype}; features must be numbers.")
    return array

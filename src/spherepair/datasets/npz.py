"""Data sets in NumPy's ``.npz`` files: the form of local files and of our own cache.

Arrays: ``X_train, y_train, X_test, y_test``, or ``X, y`` where there is no split. A CSR matrix
``X`` is stored as ``X_data, X_indices, X_indptr, X_shape``. Optional: ``scale_low, scale_high``
(features stored as bytes) and ``target_names``. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.datasets.raw import Quantisation, RawData, Rows
from spherepair.errors import InvalidDataError

Arrays = Mapping[str, NDArray[Any]]

_CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path: Path) -> RawData:
    """Read a data set; a ``.sha256`` file next to it, if there is one, must agree with it."""
    _check_digest(path)
    arrays = _load(path)
    names = tuple(str(name) for name in arrays.get("target_names", ()))
    if "y_train" not in arrays:
        X, y, n_train = _table(arrays, "X", path), _array(arrays, "y", path), None
    else:
        X = _stack(_table(arrays, "X_train", path), _table(arrays, "X_test", path), path=path)
        y = np.concatenate([_array(arrays, "y_train", path), _array(arrays, "y_test", path)])
        n_train = len(arrays["y_train"])
    return RawData(X, y, n_train, names, _quantisation(arrays, path))


def write_npz(path: Path, raw: RawData) -> None:
    """Write rows and labels, whole or not at all, and their digest into ``<path>.sha256``."""
    parts = {"": slice(None)}
    if raw.n_train is not None:
        parts = {"_train": slice(raw.n_train), "_test": slice(raw.n_train, None)}
    arrays: dict[str, Any] = {"target_names": np.array(raw.target_names, dtype=np.str_)}
    for suffix, rows in parts.items():
        arrays |= _named_parts(f"X{suffix}", raw.X[rows]) | {f"y{suffix}": raw.y[rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    digest_path(path).unlink(missing_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)
        digest = _sha256(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    digest_path(path).write_text(f"{digest}  {path.name}\n", encoding="ascii")


def digest_path(path: Path) -> Path:
    """Return the file that holds the SHA-256 of `path`, in the form ``sha256sum -c`` reads."""
    return path.with_name(f"{path.name}.sha256")


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here, because NumPy leaves a damaged archive open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("a single array")
            return {name: archive[name] for name in archive.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidDataError(
            f"{path}: not a whole .npz file of plain arrays ({error}); delete it and get it again."
        ) from error


def _array(arrays: Arrays, name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise InvalidDataError(
            f"{path}: has no array {name!r}, only {', '.join(sorted(arrays)) or 'none at all'}; "
            "needed are X_train, y_train, X_test, y_test, or X and y."
        )
    return arrays[name]


def _table(arrays: Arrays, name: str, path: Path) -> Rows:
    if f"{name}_data" not in arrays:
        return _array(arrays, name, path)
    data, indices, indptr, shape = (_array(arrays, f"{name}_{part}", path) for part in _CSR_PARTS)
    try:
        matrix = sparse.csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise InvalidDataError(f"{path}: {name} is not a CSR matrix ({error}).") from error
    return matrix


def _stack(train: Rows, test: Rows, *, path: Path) -> Rows:
    if train.ndim < 2 or train.shape[1:] != test.shape[1:]:
        raise InvalidDataError(
            f"{path}: X_train and X_test must be tables with the same columns, got shapes "
            f"{train.shape} and {test.shape} instead."
        )
    if sparse.issparse(train):
        return sparse.vstack([train, test], format="csr")
    return np.concatenate([train, test])


def _quantisation(arrays: Arrays, path: Path) -> Quantisation | None:
    if not {"scale_low", "scale_high"} & arrays.keys():
        return None
    low, high = (_array(arrays, name, path) for name in ("scale_low", "scale_high"))
    return Quantisation(low.astype(np.float32), high.astype(np.float32))


def _named_parts(name: str, X: Rows) -> dict[str, NDArray[Any]]:
    if not sparse.issparse(X):
        return {name: X}
    parts = (X.data, X.indices, X.indptr, np.array(X.shape))
    return {f"{name}_{part}": array for part, array in zip(_CSR_PARTS, parts, strict=True)}


def _check_digest(path: Path) -> None:
    if not digest_path(path).is_file():
        return
    expected = digest_path(path).read_text(encoding="utf-8", errors="replace").split()[:1]
    found = _sha256(path)
    if expected != [found]:
        raise InvalidDataError(
            f"{path}: its SHA-256 {found[:12]}... is not the one in {digest_path(path).name}; the "
            "file was cut or changed. Delete both and load again."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Dataset files as stored: NumPy archives (.npz), IDX images and Parquet documents.

``.npz``: arrays ``X_train, y_train, X_test, y_test``, or ``X, y`` where there is no split. A CSR matrix
``X`` is stored as ``X_data, X_indices, X_indptr, X_shape``. Optional: ``scale_low, scale_high``
(features stored as bytes) and ``target_names``. Nothing is ever unpickled.

IDX, as MNIST and FashionMNIST were published: two zero bytes, a type code, the number of dimensions, one
big-endian uint32 per dimension, values.

Parquet: labeled documents with the columns ``split, label, label_name, text``.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.errors import InvalidDataError, MissingDependencyError, quoted
from spherepair.files import atomic_write, atomic_write_text

Rows: TypeAlias = Any
"""Dense array (n_rows, n_features), SciPy CSR matrix of that shape, or documents (n_rows,)."""

Arrays = Mapping[str, NDArray[Any]]

_CSR_PARTS = ("data", "indices", "indptr", "shape")
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_DOCUMENT_COLUMNS = ("split", "label", "label_name", "text")


@dataclass(frozen=True)
class Quantization:
    """Features stored as bytes: value = low + byte / 255 * (high - low), each (n_features,)."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RawData:
    """All rows of a dataset as stored, training rows first.

    Attributes
    ----------
    X : array, CSR matrix or array of str
        Features (n_rows, n_features), images (n_rows, height, width) or documents (n_rows,).
    y : ndarray of shape (n_rows,)
        Classes.
    n_train : int or None
        Number of training rows; None if the source has no split.
    target_names : tuple of str
        Class names, if the source gives them.
    quantization : Quantization or None
        How to decode features stored as bytes.
    """

    X: Rows
    y: NDArray[np.int64]
    n_train: int | None
    target_names: tuple[str, ...] = ()
    quantization: Quantization | None = None


def read_dataset_file(path: Path) -> RawData:
    """Read a dataset from a folder of IDX files, a Parquet file or an .npz file."""
    if path.is_dir():
        return read_idx_folder(path)
    return read_documents(path) if path.suffix == ".parquet" else read_npz(path)


def read_npz(path: Path) -> RawData:
    """Read an .npz file; if there is a ``.sha256`` file beside it, the digests must agree."""
    _check_digest(path)
    arrays = _load_arrays(path)
    names = tuple(str(name) for name in arrays.get("target_names", ()))
    if "y_train" not in arrays:
        X, y, n_train = _table(arrays, "X", path), _array(arrays, "y", path), None
    else:
        X = _stack(_table(arrays, "X_train", path), _table(arrays, "X_test", path), path=path)
        y = np.concatenate([_array(arrays, "y_train", path), _array(arrays, "y_test", path)])
        n_train = len(arrays["y_train"])
    return RawData(X, y, n_train, names, _quantization(arrays, path))


def write_npz(path: Path, raw: RawData) -> None:
    """Write rows and labels atomically, and their digest to ``<path>.sha256``."""
    parts = {"": slice(None)}
    if raw.n_train is not None:
        parts = {"_train": slice(raw.n_train), "_test": slice(raw.n_train, None)}
    arrays: dict[str, Any] = {"target_names": np.array(raw.target_names, dtype=np.str_)}
    for suffix, rows in parts.items():
        arrays |= _named_parts(f"X{suffix}", raw.X[rows]) | {f"y{suffix}": raw.y[rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    digest_path(path).unlink(missing_ok=True)
    with atomic_write(path) as temporary:
        with temporary.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
        digest = _sha256(temporary)
    atomic_write_text(digest_path(path), f"{digest}  {path.name}\n")


def digest_path(path: Path) -> Path:
    """The file with the SHA-256 of `path`, in the form that ``sha256sum -c`` reads."""
    return path.with_name(f"{path.name}.sha256")


def _load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here because NumPy leaves a damaged archive open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("a single array")
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive makes NumPy raise almost anything
        raise InvalidDataError(
            f"{path}: not a whole .npz file of plain arrays ({quoted(error)}); delete it and get it again."
        ) from error


def _array(arrays: Arrays, name: str, path: Path) -> NDArray[Any]:
    if name not in arrays:
        raise InvalidDataError(
            f"{path}: has no array {quoted(name)}, only {', '.join(sorted(arrays)) or 'none at all'}; "
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
        raise InvalidDataError(f"{path}: {name} is not a CSR matrix ({quoted(error)}).") from error
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


def _quantization(arrays: Arrays, path: Path) -> Quantization | None:
    if not {"scale_low", "scale_high"} & arrays.keys():
        return None
    low, high = (_array(arrays, name, path) for name in ("scale_low", "scale_high"))
    return Quantization(low.astype(np.float32), high.astype(np.float32))


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


def read_idx(path: Path) -> NDArray[Any]:
    """Read one IDX file, gzipped if its name ends in ``.gz``.

    Returns
    -------
    ndarray
        Shape and type as in the header, in native byte order.
    """
    content = _read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise InvalidDataError(
            f"{path}: not an IDX file (it starts with {content[:4].hex() or 'nothing'}); get it again."
        )
    dtype, n_dims = np.dtype(_IDX_TYPES[content[2]]), content[3]
    start = 4 + 4 * n_dims
    if len(content) < start:
        raise InvalidDataError(f"{path}: cut off inside its header; get it again.")
    shape = [int(size) for size in np.frombuffer(content, ">u4", count=n_dims, offset=4)]
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise InvalidDataError(
            f"{path}: shape {tuple(shape)} needs {expected} bytes, got {len(content)} instead; get it again."
        )
    values = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def find_idx_files(folder: Path) -> tuple[Path, ...] | None:
    """Training images and labels, test images and labels; None unless all four are in `folder`."""
    found: list[Path] = []
    for name in IDX_FILES:
        found += [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()][:1]
    return tuple(found) if len(found) == len(IDX_FILES) else None


def read_idx_folder(folder: Path) -> RawData:
    """Read the four IDX files of `folder`."""
    paths = find_idx_files(folder)
    if paths is None:
        raise InvalidDataError(f"{folder}: must hold {', '.join(IDX_FILES)}, each with or without .gz.")
    train, train_labels, test, test_labels = (read_idx(path) for path in paths)
    for images, labels, path in ((train, train_labels, paths[1]), (test, test_labels, paths[3])):
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise InvalidDataError(
                f"{path}: labels of shape {labels.shape} do not match images of shape {images.shape}."
            )
    if train.shape[1:] != test.shape[1:]:
        raise InvalidDataError(
            f"{paths[2]}: test images of {test.shape[1:]} pixels do not match training images of "
            f"{train.shape[1:]}."
        )
    labels = np.concatenate([train_labels, test_labels])
    return RawData(np.concatenate([train, test]), labels, len(train))


def _read_bytes(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidDataError(f"{path}: cannot be read ({quoted(error)}); get it again.") from error


def read_documents(path: Path) -> RawData:
    """Read documents and their classes: training rows first, otherwise in file order."""
    columns = _read_document_columns(path)
    split = np.array(columns["split"], dtype=np.str_)
    is_train, is_test = split == "train", split == "test"
    if not ((is_train | is_test).all() and is_train.any() and is_test.any()):
        raise InvalidDataError(
            f"{path}: column 'split' must hold 'train' and 'test', got "
            f"{sorted(set(split.tolist()))[:5]} instead."
        )
    order = np.argsort(is_test, kind="stable")
    labels = np.array(columns["label"])
    names = _target_names(columns["label"], columns["label_name"], path=path)
    texts = np.array(columns["text"], dtype=object)
    return RawData(texts[order], labels[order], int(is_train.sum()), names)


def _read_document_columns(path: Path) -> dict[str, list[Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingDependencyError(
            f'{path.name} needs pyarrow to be read: pip install "spherepair[files]".'
        ) from error
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidDataError(
            f"{path}: not a whole Parquet file ({quoted(error)}); delete it and get it again."
        ) from error
    missing = [name for name in _DOCUMENT_COLUMNS if name not in table.column_names]
    if missing:
        raise InvalidDataError(
            f"{path}: must have the columns {', '.join(_DOCUMENT_COLUMNS)}; {', '.join(missing)} not found."
        )
    _check_no_gaps(table, path=path)
    return {name: table[name].to_pylist() for name in _DOCUMENT_COLUMNS}


def _check_no_gaps(table: Any, *, path: Path) -> None:
    for name in _DOCUMENT_COLUMNS:
        if table[name].null_count:
            raise InvalidDataError(
                f"{path}: column {quoted(name)} is empty in {table[name].null_count} rows; remove them."
            )


def _target_names(labels: list[int], names: list[str], *, path: Path) -> tuple[str, ...]:
    pairs = sorted(set(zip(labels, names, strict=True)))
    if [label for label, _ in pairs] != list(range(len(pairs))):
        raise InvalidDataError(
            f"{path}: labels must be 0, 1, 2, ... with one name each, got {pairs[:3]} ... instead."
        )
    return tuple(name for _, name in pairs)

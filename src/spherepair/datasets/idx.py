"""The IDX format in which MNIST and FashionMNIST were first published.

Two zero bytes, a type code, the number of dimensions, one big-endian uint32 per dimension, values.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.datasets.raw import RawData
from spherepair.errors import InvalidDataError

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_idx(path: Path) -> NDArray[Any]:
    """Read one IDX file, gzipped when its name ends in ``.gz``.

    Returns
    -------
    ndarray
        With the shape and type that the header tells, in the byte order of this machine.
    """
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise InvalidDataError(
            f"{path}: not an IDX file (it starts with {content[:4].hex() or 'nothing'}); get it again."
        )
    dtype, n_dims = np.dtype(_TYPES[content[2]]), content[3]
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
    """Return training images and labels, test images and labels, if all four are in `folder`."""
    found = []
    for name in IDX_FILES:
        paths = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
        found.extend(paths[:1])
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
                f"{path}: labels of shape {labels.shape} do not go with images of shape {images.shape}."
            )
    if train.shape[1:] != test.shape[1:]:
        raise InvalidDataError(
            f"{paths[2]}: test images of {test.shape[1:]} pixels do not go with training images of "
            f"{train.shape[1:]}."
        )
    labels = np.concatenate([train_labels, test_labels])
    return RawData(np.concatenate([train, test]), labels, len(train))


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidDataError(f"{path}: cannot be read ({error}); get it again.") from error

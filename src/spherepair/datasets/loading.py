"""Load a benchmark: find it or fetch it, check it, split it, prepare it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spherepair.datasets.catalogue import DatasetSpec, find_spec
from spherepair.datasets.documents import read_documents
from spherepair.datasets.fetching import FETCHERS, KEPT_AS_NPZ
from spherepair.datasets.idx import read_idx_folder
from spherepair.datasets.locating import find_local, not_found, search_folders
from spherepair.datasets.npz import read_npz, write_npz
from spherepair.datasets.preparing import Preprocessing, prepare
from spherepair.datasets.raw import RawData, Rows, check_raw, keep_classes
from spherepair.errors import InvalidParameterError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set ready for use.

    Attributes
    ----------
    X_train, X_test : ndarray or CSR matrix of shape (n_rows, n_features)
        Features, float32 unless ``preprocessing="raw"``.
    y_train, y_test : ndarray of shape (n_rows,)
        Classes, int64, positions in `target_names`.
    feature_kind : str
        "pixels", "features", "text tf-idf", or "text documents" (raw text).
    source : str
        The file or service that the rows came from.
    """

    name: str
    X_train: Rows = field(repr=False)
    y_train: NDArray[np.int64] = field(repr=False)
    X_test: Rows = field(repr=False)
    y_test: NDArray[np.int64] = field(repr=False)
    target_names: tuple[str, ...] = field(repr=False)
    feature_kind: str
    description: str
    source: str

    @property
    def n_classes(self) -> int:
        """Number of classes in the training part."""
        return len(np.unique(self.y_train))


def load_dataset(
    name: str,
    *,
    preprocessing: Preprocessing = "paper",
    classes: Sequence[int] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Dataset:
    """Load one of the data sets of :func:`list_datasets`.

    Looked for in this order: files in `data_home`, in the folder named by the environment variable
    ``SPHEREPAIR_DATA``, in the user's cache folder (``~/.cache/spherepair``); IDX files there and
    where Debian installs them; then scikit-learn's downloads, kept in the first of those folders.

    Parameters
    ----------
    name : str
        For example "mnist"; case and punctuation do not matter.
    preprocessing : {"paper", "raw"}
        "paper" splits and scales as in the paper's experiments: MNIST and FashionMNIST times 0.02;
        CIFAR, STL-10, ImageNet-10 and RCV1-10 pooled, split 80/20 (stratified, seed 0) and
        standardised on the training part; documents as tf-idf of the 2,000 most frequent words,
        rows of mean square one. "raw" keeps the stored split and values: bytes for pixels, unscaled
        features, the documents themselves.
    classes : sequence of int, optional
        Keep the rows of these classes only, before anything is split or fitted.
    data_home : path, optional
        Folder to look in first.
    download : bool
        Whether to download what is not found.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetNotFoundError
        With the name of the missing file, its arrays and the folder to put it in.
    InvalidDataError
        When a file is cut off, changed, or does not hold what it should.

    Examples
    --------
    >>> digits = load_dataset("digits")
    >>> digits.X_train.shape, digits.X_test.shape, digits.n_classes
    ((1437, 64), (360, 64), 10)
    """
    spec = find_spec(name)
    if preprocessing not in ("paper", "raw"):
        raise InvalidParameterError(f"preprocessing must be 'paper' or 'raw', got {preprocessing!r} instead.")
    raw, source = _obtain(spec, data_home=data_home, download=download)
    raw = check_raw(raw, source=source)
    if classes is not None:
        raw = keep_classes(raw, classes)
    parts = prepare(raw, spec, preprocessing=preprocessing)
    is_text = preprocessing == "raw" and spec.recipe == "tf-idf"
    return Dataset(
        name=spec.name,
        X_train=parts.X_train,
        y_train=parts.y_train,
        X_test=parts.X_test,
        y_test=parts.y_test,
        target_names=raw.target_names or spec.target_names or _numbered(raw.y),
        feature_kind="text documents" if is_text else spec.feature_kind,
        description=spec.description,
        source=source,
    )


def _obtain(
    spec: DatasetSpec, *, data_home: str | os.PathLike[str] | None, download: bool
) -> tuple[RawData, str]:
    path = find_local(spec, data_home)
    if path is not None:
        return _read(path), str(path)
    folder = search_folders(data_home)[0]
    if spec.name not in FETCHERS or not (download or spec.is_built_in):
        raise not_found(spec, folder)
    try:
        raw = FETCHERS[spec.name]()
    except OSError as error:
        raise not_found(spec, folder, reason=str(error)) from error
    if spec.name in KEPT_AS_NPZ:
        _keep(folder / spec.files[0], raw)
    return raw, spec.download or "scikit-learn"


def _read(path: Path) -> RawData:
    if path.is_dir():
        return read_idx_folder(path)
    return read_documents(path) if path.suffix == ".parquet" else read_npz(path)


def _keep(path: Path, raw: RawData) -> None:
    try:
        write_npz(path, raw)
    except OSError as error:
        # A read-only or full disk costs the next call time, not this one its data.
        logger.warning("%s could not be kept for next time: %s", path, error)


def _numbered(y: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(str(label) for label in range(int(y.max()) + 1))

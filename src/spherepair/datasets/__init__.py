"""The paper's eight benchmark datasets and four more, with the paper's splits and preprocessing.

Loading one: find its file or download it, check, split and preprocess it.

Downloads go through scikit-learn, into its own data folder, and are verified there (SHA-256, or MD5 for
OpenML). Network failures are raised as OSError.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

from spherepair.datasets.catalog import (
    DatasetInfo,
    DatasetSpec,
    find_local,
    find_spec,
    list_datasets,
    not_found,
    search_folders,
)
from spherepair.datasets.dataset_files import RawData, Rows, read_dataset_file, write_npz
from spherepair.datasets.preprocessing import Preprocessing, check_raw, keep_classes, prepare
from spherepair.errors import InvalidDataError, InvalidParameterError, quoted

__all__ = ["Dataset", "DatasetInfo", "list_datasets", "load_dataset"]


logger = logging.getLogger(__name__)

# SHA-256 of the official files: bytes of training images, training labels, test images, test labels.
OFFICIAL_SHA256 = {
    "mnist": "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    "fashion_mnist": "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset ready for use.

    Attributes
    ----------
    X_train, X_test : ndarray or CSR matrix of shape (n_rows, n_features)
        Features, float32 unless ``preprocessing="raw"``.
    y_train, y_test : ndarray of shape (n_rows,)
        Classes, int64, positions in `target_names`.
    feature_kind : str
        "pixels", "features", "text tf-idf", or "text documents" (raw text).
    source : str
        File or service the rows came from.
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
    """Load one of the datasets of :func:`list_datasets`.

    Searched in this order: files in `data_home`, in the folder named by the environment variable
    ``SPHEREPAIR_DATA``, in the user's cache folder (``~/.cache/spherepair``); IDX files there and
    where Debian installs them; then scikit-learn's downloads, cached in the first of those folders.

    Parameters
    ----------
    name : str
        For example "mnist"; case and punctuation are ignored.
    preprocessing : {"paper", "raw"}
        "paper" splits and scales as in the paper's experiments: MNIST and FashionMNIST times 0.02;
        CIFAR, STL-10, ImageNet-10 and RCV1-10 pooled, split 80/20 (stratified, seed 0) and
        standardized on the training part; documents as tf-idf of the 2,000 most frequent words,
        rows of mean square one. "raw" keeps the stored split and values: bytes for pixels, unscaled
        features, the documents themselves.
    classes : sequence of int, optional
        Keep the rows of these classes only, before anything is split or fitted.
    data_home : path, optional
        Folder to search first.
    download : bool
        Whether to download a dataset that is not found.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetNotFoundError
        Names the missing file, its arrays and the folder to put it in.
    InvalidDataError
        If a file is truncated, changed, or lacks an array.

    Examples
    --------
    >>> from spherepair.datasets import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.X_train.shape, digits.X_test.shape, digits.n_classes
    ((1437, 64), (360, 64), 10)
    """
    spec = find_spec(name)
    if preprocessing not in ("paper", "raw"):
        raise InvalidParameterError(
            f"preprocessing must be 'paper' or 'raw', got {quoted(preprocessing)} instead."
        )
    raw, source = _read_or_download(spec, data_home=data_home, download=download)
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


def _read_or_download(
    spec: DatasetSpec, *, data_home: str | os.PathLike[str] | None, download: bool
) -> tuple[RawData, str]:
    path = find_local(spec, data_home)
    if path is not None:
        return read_dataset_file(path), str(path)
    folder = search_folders(data_home)[0]
    if spec.name not in FETCHERS or not (download or spec.is_built_in):
        raise not_found(spec, folder)
    try:
        raw = FETCHERS[spec.name]()
    except OSError as error:
        raise not_found(spec, folder, reason=str(error)) from error
    if spec.name in CACHED_AS_NPZ:
        _cache(folder / spec.files[0], raw)
    return raw, spec.download or "scikit-learn"


def _cache(path: Path, raw: RawData) -> None:
    try:
        write_npz(path, raw)
    except OSError as error:
        # On a read-only or full disk the data can still be used; they are only not cached.
        logger.warning("%s could not be cached: %s", path, error)


def _numbered(y: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(str(label) for label in range(int(y.max()) + 1))


def fetch_digits() -> RawData:
    """1,797 digits of 8 x 8 pixels that ship with scikit-learn."""
    bunch = sklearn_datasets.load_digits()
    return RawData(bunch.data.astype(np.float32), bunch.target, None)


def fetch_mnist() -> RawData:
    """MNIST from OpenML."""
    return _fetch_images("mnist", data_id=554)


def fetch_fashion_mnist() -> RawData:
    """FashionMNIST from OpenML."""
    return _fetch_images("fashion_mnist", data_id=40996)


def fetch_rcv1_10() -> RawData:
    """RCV1 documents with exactly one of ten topics, and the 2,000 most frequent stems."""
    bunch = _download(sklearn_datasets.fetch_rcv1, n_retries=1)
    names = find_spec("rcv1_10").target_names
    columns = np.searchsorted(bunch.target_names.astype(str), names)
    topics = bunch.target.tocsr()[:, columns]
    single = np.asarray(topics.sum(axis=1)).ravel() == 1
    X = bunch.data.tocsr()[single]
    frequency = X.getnnz(axis=0)
    kept = np.sort(np.argsort(-frequency, kind="stable")[:2000])
    labels = np.asarray(topics[single].argmax(axis=1)).ravel()
    return RawData(X[:, kept].astype(np.float32), labels, None, names)


def fetch_20newsgroups() -> RawData:
    """20 Newsgroups with headers, quotes and signatures, in the order of the archive."""
    train, test = (
        _download(sklearn_datasets.fetch_20newsgroups, subset=subset, shuffle=False, n_retries=1)
        for subset in ("train", "test")
    )
    texts = np.array([*train.data, *test.data], dtype=object)
    labels = np.concatenate([train.target, test.target])
    return RawData(texts, labels, len(train.data), tuple(train.target_names))


FETCHERS: dict[str, Callable[[], RawData]] = {
    "digits": fetch_digits,
    "mnist": fetch_mnist,
    "fashion_mnist": fetch_fashion_mnist,
    "rcv1_10": fetch_rcv1_10,
    "20newsgroups": fetch_20newsgroups,
}

# Slow to parse and compact as .npz; scikit-learn caches the documents itself.
CACHED_AS_NPZ = frozenset({"mnist", "fashion_mnist", "rcv1_10"})


def _fetch_images(name: str, *, data_id: int) -> RawData:
    # Without pandas the slower parser still works.
    parser = "auto" if importlib.util.find_spec("pandas") else "liac-arff"
    bunch = _download(
        sklearn_datasets.fetch_openml, data_id=data_id, as_frame=False, parser=parser, n_retries=1
    )
    X, y = bunch.data.astype(np.uint8), bunch.target.astype(np.int64)
    raw = RawData(X, y, len(X) - find_spec(name).n_test)
    _check_official(name, raw)
    return raw


def _check_official(name: str, raw: RawData) -> None:
    digest = hashlib.sha256()
    for rows in (slice(raw.n_train), slice(raw.n_train, None)):
        digest.update(np.ascontiguousarray(raw.X[rows]).data)
        digest.update(raw.y[rows].astype(np.uint8).data)
    if digest.hexdigest() != OFFICIAL_SHA256[name]:
        raise InvalidDataError(
            f"{name}: the download is not the official training and test set (SHA-256 "
            f"{digest.hexdigest()[:12]}...); put {find_spec(name).files[0]} into the data folder."
        )


def _download(fetch: Callable[..., Any], **options: Any) -> Any:
    logger.info("%s(%s)", fetch.__name__, options)
    try:
        with warnings.catch_warnings():
            # "Retry downloading ...": the error below says it.
            warnings.simplefilter("ignore", UserWarning)
            return fetch(**options)
    except (HTTPException, ValueError) as error:
        raise OSError(str(error)) from error

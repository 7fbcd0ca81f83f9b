"""Data sets that scikit-learn ships or knows how to download.

Downloads go to scikit-learn's own data folder and are verified there (SHA-256, or MD5 for OpenML).
Failures of the network come out as OSError.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import warnings
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

import numpy as np
from sklearn import datasets as sklearn_datasets

from spherepair.datasets.catalogue import find_spec
from spherepair.datasets.raw import RawData
from spherepair.errors import InvalidDataError

logger = logging.getLogger(__name__)

# Of the official files: bytes of training images, training labels, test images, test labels.
OFFICIAL_SHA256 = {
    "mnist": "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    "fashion_mnist": "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
}


def fetch_digits() -> RawData:
    """1,797 digits of 8 x 8 pixels that ship inside scikit-learn."""
    bunch = sklearn_datasets.load_digits()
    return RawData(bunch.data.astype(np.float32), bunch.target, None)


def fetch_mnist() -> RawData:
    """MNIST from OpenML."""
    return _fetch_images("mnist", data_id=554)


def fetch_fashion_mnist() -> RawData:
    """FashionMNIST from OpenML."""
    return _fetch_images("fashion_mnist", data_id=40996)


def fetch_rcv1_10() -> RawData:
    """RCV1 documents with exactly one of ten topics, and the 2,000 stems that most of them hold."""
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

# Slow to parse and dense enough in an .npz file; the documents are cached by scikit-learn itself.
KEPT_AS_NPZ = frozenset({"mnist", "fashion_mnist", "rcv1_10"})


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
            f"{name}: what was downloaded is not the official training and test set (SHA-256 "
            f"{digest.hexdigest()[:12]}...); put {find_spec(name).files[0]} into the data folder."
        )


def _download(fetch: Callable[..., Any], **options: Any) -> Any:
    logger.info("%s(%s)", fetch.__name__, options)
    try:
        with warnings.catch_warnings():
            # "Retry downloading ...": the error below says it once and for all.
            warnings.simplefilter("ignore", UserWarning)
            return fetch(**options)
    except (HTTPException, ValueError) as error:
        raise OSError(str(error)) from error

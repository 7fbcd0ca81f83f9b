"""Which data sets there are, which of them are on this machine, and how to get the others."""

from __future__ import annotations

import os
from dataclasses import dataclass

from spherepair.datasets.catalogue import CATALOGUE, DatasetSpec
from spherepair.datasets.locating import find_local, how_to_get, search_folders


@dataclass(frozen=True)
class DatasetInfo:
    """One line of the list of data sets.

    Attributes
    ----------
    rows, features, classes : int
        Size of the whole data set after the paper's preprocessing.
    in_paper : bool
        Whether it is one of the paper's eight benchmarks.
    available : bool
        Whether it can be loaded without a download.
    location : str
        The file or folder it would be read from; empty when not available.
    how_to_get : str
        What to do when it is not available.
    """

    name: str
    rows: int
    features: int
    classes: int
    feature_kind: str
    in_paper: bool
    available: bool
    location: str
    how_to_get: str
    description: str


def list_datasets(*, data_home: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Return all known data sets, the paper's first; nothing is read or downloaded.

    Parameters
    ----------
    data_home : path, optional
        Folder to look in first, as for :func:`load_dataset`.

    Examples
    --------
    >>> [info.name for info in list_datasets() if info.in_paper][:3]
    ['mnist', 'fashion_mnist', 'reuters']
    """
    return [_info(spec, data_home) for spec in CATALOGUE]


def _info(spec: DatasetSpec, data_home: str | os.PathLike[str] | None) -> DatasetInfo:
    path = find_local(spec, data_home)
    location = "scikit-learn" if spec.is_built_in else str(path or "")
    return DatasetInfo(
        name=spec.name,
        rows=spec.n_train + spec.n_test,
        features=spec.n_features,
        classes=spec.n_classes,
        feature_kind=spec.feature_kind,
        in_paper=spec.in_paper,
        available=bool(location),
        location=location,
        how_to_get=how_to_get(spec, search_folders(data_home)[0]),
        description=spec.description,
    )

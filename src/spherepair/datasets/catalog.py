"""Known datasets: their sizes and file names, where they are on this machine, and how to get them.

Sizes, splits and preprocessing are those of the paper's appendix ("Datasets", "Protocol").
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spherepair.datasets.dataset_files import find_idx_files
from spherepair.errors import DatasetNotFoundError, InvalidParameterError, quoted
from spherepair.files import DATA_VARIABLE, data_folders

# Debian's package dataset-fashion-mnist installs into a folder of this one.
SYSTEM_FOLDER = Path("/usr/share/datasets")

Recipe = Literal["pixels", "standardize", "as stored", "tf-idf"]


@dataclass(frozen=True)
class DatasetSpec:
    """One dataset of the catalog.

    Attributes
    ----------
    recipe : str
        "pixels": official split, times 0.02. "standardize": pooled, stratified 80/20 split with
        seed 0, zero mean and unit variance on the training part. "as stored": nothing is done.
        "tf-idf": documents to tf-idf of the 2,000 most frequent words of the training part, rows of
        mean square one.
    files : tuple of str
        File names to look for, the preferred one first.
    stored : str
        Arrays or columns of that file, for the message that asks for it.
    download : str
        Where scikit-learn downloads it from; empty if it must be given as a file.
    idx_folder : str
        Folder of the four IDX files as first published; empty if there are none.
    """

    name: str
    n_train: int
    n_test: int
    n_features: int
    n_classes: int
    feature_kind: str
    recipe: Recipe
    files: tuple[str, ...]
    stored: str
    description: str
    download: str = ""
    idx_folder: str = ""
    in_paper: bool = True
    is_built_in: bool = False
    stop_words: str | None = None
    target_names: tuple[str, ...] = ()


def find_spec(name: str) -> DatasetSpec:
    """Look up a dataset; case and punctuation are ignored (``"CIFAR-100-20"``).

    Examples
    --------
    >>> find_spec("Fashion-MNIST").name
    'fashion_mnist'
    """
    wanted = _key(str(name))
    found = {_key(spec.name): spec for spec in CATALOG}
    found |= {alias: found[_key(target)] for alias, target in _ALIASES.items()}
    if wanted in found:
        return found[wanted]
    close = difflib.get_close_matches(wanted, found, n=1)
    hint = f" Did you mean {found[close[0]].name!r}?" if close else ""
    names = ", ".join(spec.name for spec in CATALOG)
    raise InvalidParameterError(f"name must be one of {names}, got {quoted(name)} instead.{hint}")


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class DatasetInfo:
    """One entry of :func:`list_datasets`.

    Attributes
    ----------
    rows, features, classes : int
        Size of the whole dataset after the paper's preprocessing.
    in_paper : bool
        Whether it is one of the paper's eight benchmarks.
    available : bool
        Whether it can be loaded without a download.
    location : str
        File or folder it is read from; empty if not available.
    how_to_get : str
        What to do if it is not available.
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
    """List all known datasets, the paper's first; nothing is read or downloaded.

    Parameters
    ----------
    data_home : path, optional
        Folder to search first, as for :func:`load_dataset`.

    Returns
    -------
    list of DatasetInfo

    Examples
    --------
    >>> from spherepair.datasets import list_datasets
    >>> [info.name for info in list_datasets() if info.in_paper][:3]
    ['mnist', 'fashion_mnist', 'reuters']
    """
    return [_info(spec, data_home) for spec in CATALOG]


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
        how_to_get=_how_to_get(spec, search_folders(data_home)[0]),
        description=spec.description,
    )


def search_folders(data_home: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders to search, in order; downloads are cached in the first."""
    return [*([Path(data_home).expanduser()] if data_home else []), *data_folders()]


def find_local(spec: DatasetSpec, data_home: str | os.PathLike[str] | None = None) -> Path | None:
    """The file of a dataset, or the folder of its four IDX files, or None."""
    folders = search_folders(data_home)
    for folder in folders:
        for name in spec.files:
            if (folder / name).is_file():
                return folder / name
    if spec.idx_folder:
        for folder in [*folders, SYSTEM_FOLDER]:
            if find_idx_files(folder / spec.idx_folder):
                return folder / spec.idx_folder
    return None


def not_found(spec: DatasetSpec, folder: Path, *, reason: str = "") -> DatasetNotFoundError:
    """The error that says which file to put where, and why the download failed."""
    failed = f" Downloading it failed: {reason.rstrip('.')}." if reason else ""
    return DatasetNotFoundError(f"{spec.name} is not on this machine.{failed} {_which_file(spec, folder)}")


def _how_to_get(spec: DatasetSpec, folder: Path) -> str:
    if spec.is_built_in:
        return "Ships with scikit-learn."
    download = f"Downloaded on first use: {spec.download}. Otherwise: " if spec.download else ""
    return download + _which_file(spec, folder)


def _which_file(spec: DatasetSpec, folder: Path) -> str:
    idx = f" Or put the four IDX files into {folder / spec.idx_folder}." if spec.idx_folder else ""
    return (
        f"Put {spec.files[0]} into {folder} (or into the folder given as data_home or "
        f"{DATA_VARIABLE}). It holds {spec.stored}.{idx}"
    )


_ALIASES = {"fmnist": "fashion_mnist", "reuters10k": "reuters", "r8": "reuters_r8"}

_IMAGES = (
    "X_train uint8 (60000, 28, 28), y_train int64 (60000,), X_test uint8 (10000, 28, 28), "
    "y_test int64 (10000,)"
)
_DOCUMENTS = "the columns split ('train' or 'test'), label (int64), label_name and text"


def _features(n_rows: int) -> str:
    return (
        f"X float32 ({n_rows}, 512) and y int64 ({n_rows},), or the same rows as X_train, y_train, "
        "X_test, y_test; uint8 features need scale_low and scale_high, float32 (512,)"
    )


CATALOG = (
    DatasetSpec(
        name="mnist",
        n_train=60_000,
        n_test=10_000,
        n_features=784,
        n_classes=10,
        feature_kind="pixels",
        recipe="pixels",
        files=("mnist.npz",),
        stored=_IMAGES,
        description="Handwritten digits, 28 x 28 gray pixels.",
        download="OpenML dataset 554",
        idx_folder="mnist",
    ),
    DatasetSpec(
        name="fashion_mnist",
        n_train=60_000,
        n_test=10_000,
        n_features=784,
        n_classes=10,
        feature_kind="pixels",
        recipe="pixels",
        files=("fashion_mnist.npz", "fmnist.npz"),
        stored=_IMAGES,
        description="Photographs of clothes, 28 x 28 gray pixels.",
        download="OpenML dataset 40996",
        idx_folder="fashion-mnist",
        target_names=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
    ),
    DatasetSpec(
        name="reuters",
        n_train=10_000,
        n_test=2_000,
        n_features=2_000,
        n_classes=4,
        feature_kind="text tf-idf",
        recipe="as stored",
        files=("reuters.npz", "reuters10k.npz"),
        stored=(
            "X_train float32 (10000, 2000), y_train int64 (10000,), X_test float32 (2000, 2000), "
            "y_test int64 (2000,)"
        ),
        description="Newswire of four root categories, tf-idf as prepared for DEC (Xie 2016).",
    ),
    DatasetSpec(
        name="cifar10",
        n_train=48_000,
        n_test=12_000,
        n_features=512,
        n_classes=10,
        feature_kind="features",
        recipe="standardize",
        files=("cifar10_features.npz", "cifar10.npz"),
        stored=_features(60_000),
        description="CIFAR-10 as 512 features of a network trained without labels.",
        target_names=(
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
    ),
    DatasetSpec(
        name="cifar100_20",
        n_train=48_000,
        n_test=12_000,
        n_features=512,
        n_classes=20,
        feature_kind="features",
        recipe="standardize",
        files=("cifar100_20_features.npz", "cifar100_20.npz"),
        stored=_features(60_000),
        description="CIFAR-100 with its 20 superclasses, 512 features as for CIFAR-10.",
    ),
    DatasetSpec(
        name="stl10",
        n_train=10_400,
        n_test=2_600,
        n_features=512,
        n_classes=10,
        feature_kind="features",
        recipe="standardize",
        files=("stl10_features.npz", "stl10.npz"),
        stored=_features(13_000),
        description="STL-10 as 512 features of a network trained without labels.",
    ),
    DatasetSpec(
        name="imagenet10",
        n_train=10_400,
        n_test=2_600,
        n_features=512,
        n_classes=10,
        feature_kind="features",
        recipe="standardize",
        files=("imagenet10_features.npz", "imagenet10.npz"),
        stored=_features(13_000),
        description="Ten classes of ImageNet as 512 features of a network trained without labels.",
    ),
    DatasetSpec(
        name="rcv1_10",
        n_train=142_135,
        n_test=35_534,
        n_features=2_000,
        n_classes=10,
        feature_kind="text tf-idf",
        recipe="standardize",
        files=("rcv1_10.npz",),
        stored=("X_data, X_indices, X_indptr and X_shape of a CSR matrix (177669, 2000), y int64 (177669,)"),
        description=(
            "Newswire that carries exactly one of ten RCV1 topics, very unequal. Differs from the "
            "paper's file when downloaded: the weights are RCV1-v2's own log tf-idf, scaled to "
            "unit length over all 47,236 stems, of which the 2,000 in most documents are kept; "
            "the paper computed tf-idf on 2,000 stems."
        ),
        download="the RCV1-v2 vectors",
        target_names=(
            *("C14", "C18", "C313", "C42", "E21"),
            *("E311", "GDEF", "GODD", "GWELF", "M13"),
        ),
    ),
    DatasetSpec(
        name="digits",
        n_train=1_437,
        n_test=360,
        n_features=64,
        n_classes=10,
        feature_kind="pixels",
        recipe="as stored",
        files=(),
        stored="",
        description="Handwritten digits, 8 x 8 gray values from 0 to 16.",
        in_paper=False,
        is_built_in=True,
    ),
    DatasetSpec(
        name="reuters_r8",
        n_train=5_485,
        n_test=2_189,
        n_features=2_000,
        n_classes=8,
        feature_kind="text tf-idf",
        recipe="tf-idf",
        files=("reuters_r8.parquet",),
        stored=_DOCUMENTS,
        description="Reuters-21578 newswire, the eight largest topics, very unequal.",
        in_paper=False,
        stop_words="english",
    ),
    DatasetSpec(
        name="20newsgroups",
        n_train=11_293,
        n_test=7_528,
        n_features=2_000,
        n_classes=20,
        feature_kind="text tf-idf",
        recipe="tf-idf",
        files=("20newsgroups.parquet",),
        stored=_DOCUMENTS,
        description="Posts of twenty newsgroups, split by date (downloaded: 11,314 / 7,532).",
        download="the 20 Newsgroups archive",
        in_paper=False,
        stop_words="english",
    ),
    DatasetSpec(
        name="banking77",
        n_train=10_003,
        n_test=3_080,
        n_features=2_000,
        n_classes=77,
        feature_kind="text tf-idf",
        recipe="tf-idf",
        files=("banking77.parquet",),
        stored=_DOCUMENTS,
        # Stop words stay: in questions of ten words "how", "why" and "not" carry the intent.
        description="Short questions to a bank, 77 intents (CC BY 4.0).",
        in_paper=False,
    ),
)

"""What is known of every data set: sizes, file names, and which recipe prepares it.

Sizes, splits and preprocessing are those of the paper's appendix ("Datasets", "Protocol").
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from spherepair.errors import InvalidParameterError

Recipe = Literal["pixels", "standardise", "as stored", "tf-idf"]


@dataclass(frozen=True)
class DatasetSpec:
    """One data set of the catalogue.

    Attributes
    ----------
    recipe : str
        "pixels": official split, times 0.02. "standardise": pooled, stratified 80/20 split with
        seed 0, zero mean and unit variance on the training part. "as stored": nothing is done.
        "tf-idf": documents to tf-idf of the 2,000 most frequent words of the training part, rows of
        mean square one.
    files : tuple of str
        File names looked for, the preferred one first.
    stored : str
        What that file holds, for the message that asks for it.
    download : str
        Where scikit-learn gets it from; empty when only a file will do.
    idx_folder : str
        Folder of the four IDX files as first published; empty when there are none.
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
    """Look up a data set; case and punctuation do not matter (``"CIFAR-100-20"``).

    Examples
    --------
    >>> find_spec("Fashion-MNIST").name
    'fashion_mnist'
    """
    wanted = _key(str(name))
    found = {_key(spec.name): spec for spec in CATALOGUE}
    found |= {alias: found[_key(target)] for alias, target in _ALIASES.items()}
    if wanted in found:
        return found[wanted]
    close = difflib.get_close_matches(wanted, found, n=1)
    hint = f" Did you mean {found[close[0]].name!r}?" if close else ""
    names = ", ".join(spec.name for spec in CATALOGUE)
    raise InvalidParameterError(f"name must be one of {names}, got {name!r} instead.{hint}")


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


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


CATALOGUE = (
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
        description="Handwritten digits, 28 x 28 grey pixels.",
        download="OpenML data set 554",
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
        description="Photographs of clothes, 28 x 28 grey pixels.",
        download="OpenML data set 40996",
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
        recipe="standardise",
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
        recipe="standardise",
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
        recipe="standardise",
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
        recipe="standardise",
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
        recipe="standardise",
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
        description="Handwritten digits, 8 x 8 grey values from 0 to 16.",
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

"""Options that several commands share, and the words they are given in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DATA_KINDS = ".npy, .npz, .csv, .parquet or .svmlight"
PAIR_KINDS = ".csv, .parquet or .jsonl with left, right, link and perhaps weight"

DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help=f"Rows of features: {DATA_KINDS}.", show_default=False)
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)
]
PairsArgument = Annotated[
    Path, typer.Argument(metavar="PAIRS", help=f"Pairs: {PAIR_KINDS}.", show_default=False)
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DATA", help=f"The rows that the pairs are about: {DATA_KINDS}."),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="Column that names the rows; no feature, and what pairs name."
    ),
]
DropOption = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be given several times."),
]
OutOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="LABELS", help="File to write: .csv, .parquet or .npy.")
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, ...")]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="The same number, the same result.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, also for errors.")]


class OnConflict(StrEnum):
    """What to do with pairs that contradict each other."""

    RAISE = "raise"
    DROP = "drop"
    KEEP = "keep"


class Clustering(StrEnum):
    """What cuts the embedding into clusters."""

    KMEANS = "kmeans"
    WARD = "ward"


class Pretraining(StrEnum):
    """How the network is prepared before it sees pairs."""

    JOINT = "joint"
    STACKED = "stacked"
    NONE = "none"


class Preset(StrEnum):
    """Settings to start from."""

    DEFAULT = "default"
    PAPER = "paper"


class Method(StrEnum):
    """How the number of clusters is inferred."""

    CONSENSUS = "consensus"
    TAIL_ANGLE = "tail-angle"
    SILHOUETTE = "silhouette"
    LIFETIME = "lifetime"


def count_or_auto(text: str, option: str) -> int | str:
    """A whole number of at least one, or "auto".

    Examples
    --------
    >>> count_or_auto("7", "--clusters"), count_or_auto("auto", "--clusters")
    (7, 'auto')
    """
    if text.strip().lower() == "auto":
        return "auto"
    if text.strip().isdecimal() and int(text) >= 1:
        return int(text)
    raise typer.BadParameter(
        f"it must be a whole number of at least 1 or 'auto', got {text!r} instead.", param_hint=option
    )


def layer_sizes(text: str, option: str = "--hidden-dims") -> str | tuple[int, ...]:
    """Sizes of hidden layers by name or as numbers.

    Examples
    --------
    >>> layer_sizes("compact"), layer_sizes("32,16")
    ('compact', (32, 16))
    """
    from spherepair.networks import ARCHITECTURES  # which loads torch

    if text in ARCHITECTURES:
        return text
    sizes = [part.strip() for part in text.split(",")]
    if all(size.isdecimal() and int(size) >= 1 for size in sizes):
        return tuple(int(size) for size in sizes)
    raise typer.BadParameter(
        f"it must be one of {', '.join(ARCHITECTURES)} or sizes such as 500,500,2000, got {text!r} instead.",
        param_hint=option,
    )

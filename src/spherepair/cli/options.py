"""Command-line options, the values they accept, and checks of output paths; loads without torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from spherepair.errors import InvalidParameterError, quoted
from spherepair.files import try_to_create
from spherepair.files.places import Source, refuse_overwritten

DATA_KINDS = ".csv, .parquet, .npy, a folder, glob or URI of these; .xlsx, .npz, .svmlight; a picture folder"
PAIR_KINDS = ".csv, .parquet or .jsonl with left, right, link and optionally weight"
LABEL_SUFFIXES = (".csv", ".parquet", ".npy")


class Engine(StrEnum):
    """Who does work that comes in parts: processes of this machine, or Ray."""

    LOCAL = "local"
    RAY = "ray"


class OnConflict(StrEnum):
    """What to do with pairs that contradict each other."""

    WEIGH = "weigh"
    RAISE = "raise"
    DROP = "drop"
    KEEP = "keep"


class Clustering(StrEnum):
    """How the embedding is clustered."""

    KMEANS = "kmeans"
    WARD = "ward"


class Pretraining(StrEnum):
    """How the network is pretrained."""

    JOINT = "joint"
    STACKED = "stacked"
    NONE = "none"


class Preset(StrEnum):
    """Settings to start from."""

    DEFAULT = "default"
    PAPER = "paper"


DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help=f"Rows of features: {DATA_KINDS}.", show_default=False)
]
ManyArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...", help=f"Rows of features: {DATA_KINDS}; or several.", show_default=False
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)
]
PairsArgument = Annotated[
    Path, typer.Argument(metavar="PAIRS", help=f"Pairs: {PAIR_KINDS}.", show_default=False)
]
DataOption = Annotated[
    str | None, typer.Option("--data", metavar="DATA", help=f"Rows the pairs refer to: {DATA_KINDS}.")
]
IdOption = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="ID column: not a feature; pairs refer to it."),
]
DropOption = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COLUMNS", help="Columns to leave out: a,b; can be repeated."),
]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text", metavar="COLUMN", help="Text column. With it, only columns named by an option are features."
    ),
]
ImagesOption = Annotated[
    list[str] | None,
    typer.Option("--images", metavar="COLUMN", help="Column with picture files; or . for a folder."),
]
AsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        metavar="KIND:COLUMN",
        help="What a column is: number, category, date, boolean, text or image.",
    ),
]
KeepEmptyOption = Annotated[
    bool, typer.Option("--keep-empty", help="Keep empty texts and unreadable pictures as rows.")
]
SampleOption = Annotated[
    str | None,
    typer.Option(
        "--sample-rows",
        metavar="N|auto",
        help="Train on the rows in pairs and N others, or as many as help; the model is saved without rows.",
        show_default="1,000,000 of a data set with more rows",
    ),
]
EngineOption = Annotated[
    Engine | None, typer.Option("--engine", help="Who does the parts.", show_default="local")
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT|auto", help="Ray cluster.", show_default="RAY_ADDRESS"),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Processes.", show_default="one for each core"),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Random seed.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, also for errors.")]

ConstraintsOption = Annotated[
    Path, typer.Option("--constraints", "-c", metavar="PAIRS", help=f"Pairs: {PAIR_KINDS}.")
]
OptionalPairsOption = Annotated[
    Path | None,
    typer.Option(
        "--constraints",
        "-c",
        metavar="PAIRS",
        help=f"Pairs: {PAIR_KINDS}, or a record of spherepair ask.",
        show_default="none: clusters follow the features alone",
    ),
]
ModelOption = Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Folder for the model.")]
RowOption = Annotated[
    str, typer.Option("--row", metavar="ID", help="The row: its ID with --id, else its position from 0.")
]
ClustersOption = Annotated[
    str, typer.Option("--clusters", "-k", metavar="K|auto", help="Number of clusters.")
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels-out",
        metavar="FILE",
        help="Also write the labels: .csv, .parquet, .npy; of samples a folder.",
    ),
]
EscapeOption = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="In csv, write ' before cells that a spreadsheet would take for a formula; such IDs no longer "
        "join back.",
    ),
]
ConflictOption = Annotated[
    OnConflict, typer.Option("--on-conflict", help="What to do with contradictory pairs.")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Folder for progress; run the same command again to continue an interrupted fit.",
    ),
]
PresetOption = Annotated[
    Preset, typer.Option("--preset", help="Start from our defaults or from the paper's settings.")
]
DimensionOption = Annotated[
    str, typer.Option("--embedding-dim", metavar="D|auto", help="Dimensions of the embedding.")
]
HiddenOption = Annotated[
    str | None,
    typer.Option(
        "--hidden-dims",
        metavar="SIZES",
        help="Hidden layers: auto, small, compact, standard, deep, or sizes such as 500,500,2000.",
        show_default="from the preset: auto follows the table",
    ),
]
WrongAnswersOption = Annotated[
    str | None,
    typer.Option(
        "--wrong-answers",
        metavar="auto|SHARE|none",
        help="How many answers are wrong, which then count less: estimated, a share, or none.",
        show_default="auto; none with --preset paper",
    ),
]
EpochsOption = Annotated[
    int | None,
    typer.Option(
        "--max-epochs",
        metavar="N",
        min=1,
        help="Maximum number of epochs on pairs.",
        show_default="from the preset",
    ),
]
ClusteringOption = Annotated[
    Clustering | None,
    typer.Option("--clustering", help="How the embedding is clustered.", show_default="from the preset"),
]
PretrainingOption = Annotated[
    Pretraining | None,
    typer.Option("--pretraining", help="How the network is pretrained.", show_default="from the preset"),
]

RecordOption = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="FILE", help="Record of answers, .jsonl; continued if it exists."),
]
KnownPairsOption = Annotated[
    Path | None,
    typer.Option("--constraints", "-c", metavar="PAIRS", help=f"Pairs known before: {PAIR_KINDS}."),
]
AgainOption = Annotated[
    Path | None,
    typer.Option(
        "--again",
        metavar="PAIRS",
        help="Ask about the pairs of this file first, such as those of check --suspects.",
    ),
]
ByOption = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Who answers.", show_default="the name of the answerer"),
]
AnswererOption = Annotated[
    str | None,
    typer.Option(
        "--answerer", metavar="COMMAND", help="Program that reads questions and writes answers as JSON lines."
    ),
]
AnswerSecondsOption = Annotated[
    float,
    typer.Option("--answer-seconds", metavar="S", min=0.1, help="Longest wait for an answer of the program."),
]
AnswersOption = Annotated[
    int | None,
    typer.Option("--answers", metavar="N", min=1, help="Stop when the record has so many answers."),
]
MinutesOption = Annotated[
    float | None,
    typer.Option("--minutes", metavar="M", min=0.0, help="Stop when its answers have taken so long."),
]
SettledOption = Annotated[
    bool, typer.Option("--stop-when-settled", help="Stop when going on is not worth it.")
]
StrategyOption = Annotated[
    str, typer.Option("--strategy", metavar="NAME", help="How questions are chosen; cards is best.")
]
FinalModelOption = Annotated[
    Path | None, typer.Option("--model", metavar="DIR", help="At the end, fit a model and save it here.")
]
FinalLabelsOption = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="At the end, write the labels: .csv, .parquet or .npy."),
]


def count_or_auto(text: str, option: str) -> int | str:
    """Parse a whole number of at least 1, or "auto".

    Examples
    --------
    >>> count_or_auto("7", "--clusters"), count_or_auto("auto", "--clusters")
    (7, 'auto')
    """
    if text.strip().lower() == "auto":
        return "auto"
    if _is_count(text):
        return int(text)
    raise typer.BadParameter(
        f"must be a whole number of at least 1 or 'auto', got {quoted(text)} instead.", param_hint=option
    )


def _is_count(text: str) -> bool:
    """Whether a text is a whole number of at least 1; Python refuses to read one of thousands of digits."""
    return text.strip().isdecimal() and len(text) < 20 and int(text) >= 1


def share_or_auto(text: str, option: str = "--wrong-answers") -> float | str | None:
    """Parse a share between 0 and 1, "auto" or "none".

    Examples
    --------
    >>> share_or_auto("0.1"), share_or_auto("auto"), share_or_auto("none")
    (0.1, 'auto', None)
    """
    if (name := text.strip().lower()) in ("auto", "none"):
        return "auto" if name == "auto" else None
    with suppress(ValueError):
        if 0 < float(text) < 1:
            return float(text)
    raise typer.BadParameter(
        f"must be 'auto', 'none' or a share such as 0.1, got {quoted(text)} instead.", param_hint=option
    )


def layer_sizes(text: str, option: str = "--hidden-dims") -> str | tuple[int, ...]:
    """Parse the hidden layers: a name, or sizes separated by commas.

    Examples
    --------
    >>> layer_sizes("compact"), layer_sizes("32,16")
    ('compact', (32, 16))
    """
    from spherepair.networks import ARCHITECTURES  # loads torch

    if text in (names := ["auto", *ARCHITECTURES]):
        return text
    if all(map(_is_count, text.split(","))):
        return tuple(map(int, text.split(",")))
    raise typer.BadParameter(
        f"must be one of {', '.join(names)} or sizes such as 500,500,2000, got {quoted(text)} instead.",
        param_hint=option,
    )


def check_label_file(path: Path, inputs: Iterable[Source | None]) -> None:
    """Refuse a label file with an unknown ending, in a missing folder, or that is also an input."""
    if path.suffix.lower() not in LABEL_SUFFIXES:
        raise InvalidParameterError(f"{path}: the name of a label file must end in .csv, .parquet or .npy.")
    check_output(path, inputs)


def check_output(path: Path, inputs: Iterable[Source | None] = ()) -> None:
    """Refuse an output that is a folder, cannot be written, or would overwrite an input."""
    if path.is_dir():
        raise InvalidParameterError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InvalidParameterError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameterError(f"{path} cannot be written: no permission to write to {path.parent}.")
    _try(path)
    for given in inputs:
        if given is not None:
            refuse_overwritten(path, given)


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that a model could not be saved to."""
    from spherepair.persistence import refuse_foreign_folder  # loads torch

    refuse_foreign_folder(folder)
    _refuse_locked(folder)
    _try(folder, folder=True)


def check_checkpoint_folder(folder: Path, model: Path) -> None:
    """Refuse a checkpoint folder that cannot be written or that shares its place with the model."""
    refuse_within(folder, model, option="--checkpoint")
    refuse_within(model, folder, option="--out")
    if folder.exists() and not folder.is_dir():
        raise InvalidParameterError(f"--checkpoint {folder} is a file; give the name of a folder.")
    _refuse_locked(folder)
    _try(folder, folder=True)


def refuse_within(path: Path, folder: Path, *, option: str) -> None:
    """Refuse a path inside a folder that a model or checkpoint needs for itself."""
    if path.resolve().is_relative_to(folder.resolve()):
        raise InvalidParameterError(
            f"{option} {path} is inside {folder}, which holds another output; choose another place."
        )


def _refuse_locked(folder: Path) -> None:
    if ":/" in str(folder):
        raise InvalidParameterError(f"{folder} names a place elsewhere; give a folder of this machine.")
    nearest = next(parent for parent in [folder, *folder.absolute().parents] if parent.exists())
    if not nearest.is_dir():
        raise InvalidParameterError(f"{folder} cannot be written: {nearest} is a file, not a folder.")
    if not os.access(nearest, os.W_OK):
        raise InvalidParameterError(f"{folder} cannot be written: no permission to write to {nearest}.")


def _try(path: Path, *, folder: bool = False) -> None:
    """Refuse what cannot be made, whatever the reason, before any work is done for it."""
    try:
        try_to_create(path, folder=folder)
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be written: {error.strerror}.") from error

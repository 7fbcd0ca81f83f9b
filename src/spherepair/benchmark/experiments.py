"""An experiment is a document: which table or figure, the command, what to expect, then the grid.

It is written in TOML. Those of the paper ship with the package (``configs/``) and go by their names; any
other is a path.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from spherepair.benchmark.checking import DATASET, EXPERIMENT, METHOD, check_entries
from spherepair.errors import InvalidParameterError

#: What a run can be asked for beyond its scores.
MEASURES = ("scores", "n_clusters", "clustering", "tail_angles", "snapshots", "projection")
METRICS = ("ACC", "NMI", "ARI")
PARTS = ("train", "test")
#: The experiments of the paper in the order in which they are listed and reported; others follow.
ORDER = (
    *("main", "ward", "imbalance", "tsne", "number", "tail_ratio", "embedding_dim", "cifar100"),
    *("reconstruction", "networks", "times", "sphere", "terms", "digits"),
)
#: How results can be laid out in the report.
LAYOUTS = ("comparison", "sweep", "imbalance", "n_clusters", "tail_angles", "times", "pictures")


@dataclass(frozen=True)
class DatasetChoice:
    """A data set of the grid, perhaps some of its classes only, with parameters for all methods."""

    name: str
    label: str
    classes: tuple[int, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodChoice:
    """A method of the grid.

    Attributes
    ----------
    label : str
        Its name in tables.
    estimator : str
        Name of an estimator, ``"SpherePair"``, or of one of its protocols, ``"SpherePair.paper"``.
    paper : str or None
        The row of the paper's tables it stands beside.
    parameters : mapping
        Overrides; ``"none"`` stands for None, and a table with ``kind`` for a pretraining of its own.
    for_dataset : mapping
        Overrides for one data set each.
    """

    label: str
    estimator: str
    paper: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    for_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One experiment: a document and a grid.

    Attributes
    ----------
    pairs : tuple of int
        Numbers of random pairs.
    imbalanced : tuple of int
        Sizes n of IMB0; each stands for three sets, of n, 5 n and 10 n pairs.
    levels : tuple of int
        Which of the three.
    sweep : mapping
        Values of parameters that are tried one after another.
    stand_ins : mapping
        Data sets that only stand in for one of the paper's, and for which; rankings are compared there.
    """

    id: str
    title: str
    paper: str
    command: str
    expected_time: str
    expected_result: str
    layout: str
    datasets: tuple[DatasetChoice, ...]
    methods: tuple[MethodChoice, ...]
    seeds: tuple[int, ...]
    pairs: tuple[int, ...] = ()
    imbalanced: tuple[int, ...] = ()
    levels: tuple[int, ...] = (0, 1, 2)
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    measure: tuple[str, ...] = ("scores",)
    metrics: tuple[str, ...] = ("ACC",)
    parts: tuple[str, ...] = ("test",)
    tail_ratios: tuple[float, ...] = (0.05,)
    paper_table: str = ""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        # The id becomes a file name in the folder of results, and must not lead out of it.
        if not re.fullmatch("[A-Za-z0-9_-]+", self.id):
            raise InvalidParameterError(
                f"id must be of letters, digits, _ and - only, got {self.id!r} instead; it names a file."
            )


def list_experiments() -> list[Experiment]:
    """The experiments that ship with the package, in the order of the paper.

    Examples
    --------
    >>> "toy" in [experiment.id for experiment in list_experiments()]
    True
    """
    return in_order([_parse(name, text) for name, text in _shipped().items()])


def in_order(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Experiments in the order of the paper, others after them by name."""
    return sorted(experiments, key=lambda e: (ORDER.index(e.id) if e.id in ORDER else len(ORDER), e.id))


def read_experiment(name: str | os.PathLike[str]) -> Experiment:
    """An experiment by its name in the package, or from a TOML file.

    Examples
    --------
    >>> read_experiment("toy").datasets[0].name
    'digits'
    """
    shipped = _shipped()
    if str(name) in shipped:
        return _parse(str(name), shipped[str(name)])
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        return _parse(str(path), _read_text(path))
    close = difflib.get_close_matches(str(name), shipped, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise InvalidParameterError(
        f"experiment must be one of {', '.join(sorted(shipped))} or a .toml file, got {str(name)!r} "
        f"instead.{hint}"
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidParameterError(f"{path} is not UTF-8 text ({error}); save it as UTF-8.") from error


def _shipped() -> dict[str, str]:
    folder = resources.files("spherepair.benchmark") / "configs"
    files = (entry for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8") for entry in files}


def _parse(source: str, text: str) -> Experiment:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameterError(f"{source} is not TOML: {error}.") from error
    except RecursionError as error:
        raise InvalidParameterError(f"{source} nests its entries too deeply; flatten them.") from error
    try:
        return _experiment(content, text)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{source}: {error}") from error


def _experiment(content: dict[str, Any], text: str) -> Experiment:
    check_entries(content, EXPERIMENT, where="the experiment", needed=_NEEDED)
    fields = {name: _frozen(value) for name, value in content.items()}
    fields["datasets"] = tuple(_dataset(*entry) for entry in enumerate(content["datasets"], start=1))
    fields["methods"] = tuple(_method(*entry) for entry in enumerate(content["methods"], start=1))
    experiment = Experiment(**fields, text=text)
    _check_words(experiment)
    return experiment


#: What every document must say.
_NEEDED = (
    *("id", "title", "paper", "command", "expected_time", "expected_result"),
    *("layout", "datasets", "methods", "seeds"),
)


def _dataset(place: int, entry: str | dict[str, Any]) -> DatasetChoice:
    if isinstance(entry, str):
        return DatasetChoice(entry, entry)
    check_entries(entry, DATASET, where=f"data set {place}", needed=("name",))
    fields = {"label": entry["name"], **{name: _frozen(value) for name, value in entry.items()}}
    return DatasetChoice(**fields)


def _method(place: int, entry: dict[str, Any]) -> MethodChoice:
    check_entries(entry, METHOD, where=f"method {place}", needed=("label", "estimator"))
    return MethodChoice(**entry)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_words(experiment: Experiment) -> None:
    words = (
        ("layout", (experiment.layout,), LAYOUTS),
        ("measure", experiment.measure, MEASURES),
        ("metrics", experiment.metrics, METRICS),
        ("parts", experiment.parts, PARTS),
    )
    for name, given, known in words:
        unknown = [word for word in given if word not in known]
        if unknown:
            raise InvalidParameterError(f"{name} must be of {', '.join(known)}, got {unknown[0]!r} instead.")
    if not (experiment.pairs or experiment.imbalanced):
        raise InvalidParameterError("pairs or imbalanced must name at least one number of pairs.")
    if not set(experiment.levels) <= {0, 1, 2}:
        raise InvalidParameterError(f"levels must be of 0, 1, 2, got {list(experiment.levels)} instead.")
    labels = [method.label for method in experiment.methods]
    if len(set(labels)) < len(labels):
        raise InvalidParameterError(f"methods need different labels, got {labels} instead.")

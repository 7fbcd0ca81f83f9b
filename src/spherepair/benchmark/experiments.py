"""Experiment files: what is compared, the command, what to expect, then the grid of runs.

They are written in TOML. The paper's experiments ship with the package (``configs/``) and are known by name;
any other is given as a path.
"""

from __future__ import annotations

import difflib
import os
import re
import reprlib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from spherepair.asking import STRATEGIES
from spherepair.errors import InvalidParameterError, quoted

#: What a run can measure besides its scores.
MEASURES = ("scores", "n_clusters", "clustering", "tail_angles", "snapshots", "projection")
METRICS = ("ACC", "NMI", "ARI")
PARTS = ("train", "test")
#: How the report can show results.
LAYOUTS = ("comparison", "sweep", "imbalance", "n_clusters", "tail_angles", "times", "asking", "pictures")
#: Order of the paper's experiments in lists and reports; others follow.
ORDER = (
    *("main", "ward", "imbalance", "tsne", "number", "tail_ratio", "embedding_dim", "cifar100"),
    *("reconstruction", "networks", "times", "sphere", "terms", "asking", "asking-digits", "digits"),
)


@dataclass(frozen=True)
class DatasetChoice:
    """A dataset of the grid, perhaps only some of its classes, with parameters for all methods."""

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
        Name in tables.
    estimator : str
        An estimator, ``"SpherePair"``, or its protocol of the paper, ``"SpherePair.paper"``.
    paper : str or None
        Row of the paper's tables to compare with.
    parameters : mapping
        Constructor parameters. ``"none"`` stands for None, the tables ``terms`` and ``schedule`` for
        those settings objects, and a ``pretraining`` table with ``kind`` for a pretraining.
    for_dataset : mapping
        Further parameters by dataset.
    strategy : str
        What chooses the questions, where the experiment asks for answers.
    """

    label: str
    estimator: str
    paper: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    for_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    strategy: str = "cards"


@dataclass(frozen=True)
class Experiment:
    """An experiment: its description and its grid.

    Attributes
    ----------
    pairs : tuple of int
        Numbers of random pairs.
    imbalanced : tuple of int
        Sizes n of IMB0; each stands for three sets of n, 5 n and 10 n pairs.
    levels : tuple of int
        Which of the three sets.
    answers : tuple of int
        Instead of pairs: numbers of answers after which an interview is measured, in rising order.
    wrong_answers : tuple of float
        Shares of wrong answers; each is a set of pairs or an interview of its own.
    sweep : mapping
        Parameters and the values to try; a name like ``"terms.neighbor_weight"`` sets one entry of a table.
    stand_ins : mapping
        Datasets that replace one of the paper's, and which; only rankings are compared there.
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
    answers: tuple[int, ...] = ()
    wrong_answers: tuple[float, ...] = (0.0,)
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    measure: tuple[str, ...] = ("scores",)
    metrics: tuple[str, ...] = ("ACC",)
    parts: tuple[str, ...] = ("test",)
    tail_ratios: tuple[float, ...] = (0.05,)
    paper_table: str = ""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        # The id becomes a file name in the results folder and must not lead out of it.
        if not re.fullmatch("[A-Za-z0-9_-]+", self.id):
            raise InvalidParameterError(
                f"id names a file: it may have letters, digits, _ and -, got {quoted(self.id)} instead."
            )


def list_experiments() -> list[Experiment]:
    """The experiments that ship with the package, in the order of the paper.

    Examples
    --------
    >>> from spherepair.benchmark import list_experiments
    >>> "toy" in [experiment.id for experiment in list_experiments()]
    True
    """
    return sort_experiments([_parse(name, text) for name, text in _shipped().items()])


def sort_experiments(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Sort in the order of the paper, others after them by name."""
    return sorted(experiments, key=lambda e: (ORDER.index(e.id) if e.id in ORDER else len(ORDER), e.id))


def read_experiment(name: str | os.PathLike[str]) -> Experiment:
    """Read an experiment by its name in the package or from a TOML file.

    Parameters
    ----------
    name : str or path
        One of :func:`list_experiments`, or a ``.toml`` file.

    Returns
    -------
    Experiment

    Examples
    --------
    >>> from spherepair.benchmark import read_experiment
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
        f"experiment must be one of {', '.join(sorted(shipped))} or a .toml file, got {quoted(str(name))} "
        f"instead.{hint}"
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidParameterError(f"{path} is not UTF-8 ({quoted(error)}); save it as UTF-8.") from error


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
    check_entries(content, EXPERIMENT, where="the experiment", required=_REQUIRED)
    fields = {name: _frozen(value) for name, value in content.items()}
    fields["datasets"] = tuple(_dataset(*entry) for entry in enumerate(content["datasets"], start=1))
    fields["methods"] = tuple(_method(*entry) for entry in enumerate(content["methods"], start=1))
    experiment = Experiment(**fields, text=text)
    _check_values(experiment)
    return experiment


def _dataset(place: int, entry: str | dict[str, Any]) -> DatasetChoice:
    if isinstance(entry, str):
        return DatasetChoice(entry, entry)
    check_entries(entry, DATASET, where=f"dataset {place}", required=("name",))
    fields = {"label": entry["name"], **{name: _frozen(value) for name, value in entry.items()}}
    return DatasetChoice(**fields)


def _method(place: int, entry: dict[str, Any]) -> MethodChoice:
    check_entries(entry, METHOD, where=f"method {place}", required=("label", "estimator"))
    return MethodChoice(**entry)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_values(experiment: Experiment) -> None:
    words = (
        ("layout", (experiment.layout,), LAYOUTS),
        ("measure", experiment.measure, MEASURES),
        ("metrics", experiment.metrics, METRICS),
        ("parts", experiment.parts, PARTS),
        ("strategy", [method.strategy for method in experiment.methods], tuple(STRATEGIES)),
    )
    for name, given, known in words:
        unknown = [word for word in given if word not in known]
        if unknown:
            raise InvalidParameterError(
                f"{name} must be one of {', '.join(known)}, got {quoted(unknown[0])} instead."
            )
    _check_pairs(experiment)
    if not set(experiment.levels) <= {0, 1, 2}:
        raise InvalidParameterError(f"levels must be from 0, 1, 2, got {list(experiment.levels)} instead.")
    labels = [method.label for method in experiment.methods]
    if len(set(labels)) < len(labels):
        raise InvalidParameterError(f"methods must have different labels, got {labels} instead.")


def _check_pairs(experiment: Experiment) -> None:
    if not (experiment.pairs or experiment.imbalanced or experiment.answers):
        raise InvalidParameterError("pairs or imbalanced must name at least one number of pairs.")
    if bool(experiment.answers) != (experiment.layout == "asking"):
        raise InvalidParameterError('answers and layout = "asking" go together; give both or neither.')
    if experiment.answers and (experiment.pairs or experiment.imbalanced or experiment.sweep):
        raise InvalidParameterError("answers cannot stand beside pairs, imbalanced or sweep.")
    if list(experiment.answers) != sorted(set(experiment.answers)):
        raise InvalidParameterError(f"answers must rise, got {list(experiment.answers)} instead.")


@dataclass(frozen=True)
class Kind:
    """Kind of an entry: in words, by an example, and as a test."""

    words: str
    example: str
    fits: Callable[[Any], bool]


def check_entries(
    content: Any, kinds: Mapping[str, Kind], *, where: str, required: Iterable[str] = ()
) -> None:
    """Refuse a table with entries that are unknown, missing or of the wrong kind.

    Parameters
    ----------
    content : dict
        As read from TOML.
    kinds : mapping
        The entries that are allowed.
    where : str
        Name of the table in the message.
    required : iterable of str
        The entries that must be there.

    Examples
    --------
    >>> check_entries({"pairs": 100}, EXPERIMENT, where="the experiment")
    Traceback (most recent call last):
        ...
    spherepair.errors.InvalidParameterError: pairs of the experiment must be a list of whole numbers from 1, \
got 100 instead; for example pairs = [1000, 5000].
    """
    if not isinstance(content, dict):
        raise InvalidParameterError(f"{where} must be a table, got {reprlib.repr(content)} instead.")
    unknown = sorted(set(content) - set(kinds))
    if unknown:
        raise InvalidParameterError(
            f"{where} has no {quoted(unknown[0])}; it may have {', '.join(sorted(kinds))}."
        )
    for name in required:
        if name not in content:
            raise InvalidParameterError(
                f"{name} is missing in {where}; add it, for example {name} = {kinds[name].example}."
            )
    for name, value in content.items():
        if not kinds[name].fits(value):
            raise InvalidParameterError(
                f"{name} of {where} must be {kinds[name].words}, got {reprlib.repr(value)} instead; for "
                f"example {name} = {kinds[name].example}."
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any, *, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_json(value: Any) -> bool:
    """Whether JSON can hold it. TOML has dates, which no parameter takes and no key can be made of."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, (str, int, float))


def _lists(fits: Callable[[Any], bool], *, least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(fits, value))


def _tables(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


_TEXT = Kind("a text", '"..."', _is_text)
_TEXTS = Kind("a list of texts", '["..."]', _lists(_is_text, least=1))
_COUNTS = Kind(
    "a list of whole numbers from 1", "[1000, 5000]", _lists(lambda value: _is_whole(value, least=1))
)
_INDICES = Kind("a list of whole numbers from 0", "[0, 1, 2]", _lists(_is_whole, least=1))
_PARAMETERS = Kind("a table of numbers, texts, lists and tables", "{ omega = 2.0 }", _tables(_is_json))

#: Entries of an experiment.
EXPERIMENT: Mapping[str, Kind] = {
    **dict.fromkeys(("id", "title", "paper", "command", "expected_time", "expected_result"), _TEXT),
    **dict.fromkeys(("layout", "paper_table"), _TEXT),
    **dict.fromkeys(("measure", "metrics", "parts"), _TEXTS),
    **dict.fromkeys(("pairs", "imbalanced", "answers"), _COUNTS),
    "wrong_answers": Kind("a list of shares from 0 to 1", "[0.0, 0.1]", _lists(_is_share, least=1)),
    **dict.fromkeys(("seeds", "levels"), _INDICES),
    "datasets": Kind(
        "a list of names or tables",
        '["mnist"]',
        _lists(lambda value: isinstance(value, (str, dict)), least=1),
    ),
    "methods": Kind(
        "a list of tables",
        '[{ label = "SpherePair", estimator = "SpherePair" }]',
        _lists(lambda value: isinstance(value, dict), least=1),
    ),
    "tail_ratios": Kind("a list of numbers", "[0.05, 0.1]", _lists(_is_number, least=1)),
    "sweep": Kind(
        "a table of lists, each with values of a parameter",
        "{ omega = [1.5, 2.0] }",
        _tables(_lists(_is_json, least=1)),
    ),
    "stand_ins": Kind("a table of texts", '{ reuters_r8 = "Reuters" }', _tables(_is_text)),
}
_REQUIRED = (
    *("id", "title", "paper", "command", "expected_time", "expected_result"),
    *("layout", "datasets", "methods", "seeds"),
)
#: Entries of a dataset.
DATASET: Mapping[str, Kind] = {
    "name": _TEXT,
    "label": _TEXT,
    "classes": _INDICES,
    "parameters": _PARAMETERS,
}
#: Entries of a method.
METHOD: Mapping[str, Kind] = {
    **dict.fromkeys(("label", "estimator", "paper", "strategy"), _TEXT),
    "parameters": _PARAMETERS,
    "for_dataset": Kind("a table of tables", "{ mnist = { omega = 2.0 } }", _tables(_tables(_is_json))),
}

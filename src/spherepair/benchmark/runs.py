"""The runs of an experiment: the key and the estimator of each.

The key is a hash of everything that decides the result, including the version of the code, so a finished
run is recognized in any experiment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from spherepair import __version__
from spherepair.benchmark.experiments import DatasetChoice, Experiment, MethodChoice
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError, quoted
from spherepair.estimators import ESTIMATORS
from spherepair.terms import Terms
from spherepair.training.batches import Schedule
from spherepair.training.pretraining import PRETRAINING

#: Part of every key. Raise it in the commit that changes results (a loss, a default, a stopping rule, how
#: pairs are drawn, data prepared or scores computed), so that tables never mix results of two versions.
#: Leave it for changes within rounding.
PROTOCOL = 2
#: Likewise for a single estimator (or its protocol) whose defaults changed, and for a single dataset.
REVISIONS = {
    "SpherePair": 8, "CIDEC": 4, "SDEC": 4, "AutoEmbedder": 4,
    "SpherePair.paper": 1, "CIDEC.paper": 1, "SDEC.paper": 1, "AutoEmbedder.paper": 1,
}  # fmt: skip
#: Likewise for interviews: raise it with a change to a strategy, to refits or to the simulated person.
ASKING_REVISION = 1
DATA_REVISIONS = {"reuters_r8": 1, "20newsgroups": 1, "banking77": 1}
#: Parameters that are settings objects; a table in the experiment stands for one.
SETTINGS: dict[str, Callable[..., Any]] = {"terms": Terms, "schedule": Schedule}
#: Pairs of IMB0, IMB1 and IMB2 for each pair of IMB0.
IMBALANCE = (1, 5, 10)


@dataclass(frozen=True)
class PairChoice:
    """Which pairs: ``n_pairs`` random ones, or IMB1 or IMB2 grown from that many; a share is wrong."""

    n_pairs: int
    level: int = 0
    wrong_answers: float = 0.0

    @property
    def count(self) -> int:
        """Number of pairs.

        Examples
        --------
        >>> PairChoice(1000, level=2).count
        10000
        """
        return self.n_pairs * IMBALANCE[self.level]


@dataclass(frozen=True)
class InterviewChoice:
    """Pairs that a simulated person is asked for.

    Attributes
    ----------
    strategy : str
        What chooses the questions, one of ``spherepair.asking.STRATEGIES``.
    answers : tuple of int
        Numbers of answers after which the model is measured, in rising order.
    wrong_answers : float
        Share of the answers that are wrong.
    """

    strategy: str
    answers: tuple[int, ...]
    wrong_answers: float = 0.0


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides the result of one run. Its pairs are drawn at random or asked for."""

    dataset: str
    classes: tuple[int, ...] | None
    estimator: str
    parameters: Mapping[str, Any]
    pairs: PairChoice | InterviewChoice
    seed: int
    measure: tuple[str, ...] = ("scores",)
    tail_ratios: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = asdict(self)
        if isinstance(self.pairs, PairChoice) and not self.pairs.wrong_answers:
            del found["pairs"]["wrong_answers"]  # runs that are stored have no such entry
        return found

    @property
    def key(self) -> str:
        """Twenty hexadecimal digits: equal for equal runs of the same version, on any machine.

        Examples
        --------
        >>> spec = RunSpec("digits", None, "SpherePair", {}, PairChoice(100), seed=0)
        >>> spec.key == RunSpec("digits", None, "SpherePair", {}, PairChoice(100), seed=1).key
        False
        """
        found = {
            "revision": REVISIONS.get(self.estimator),
            "data revision": DATA_REVISIONS.get(self.dataset),
            "asking revision": ASKING_REVISION if isinstance(self.pairs, InterviewChoice) else None,
        }
        return content_key(self.to_dict() | {name: n for name, n in found.items() if n is not None})


@dataclass(frozen=True)
class PlannedRun:
    """A run and its labels in the tables of its experiment."""

    spec: RunSpec
    dataset: str
    method: str
    pairs: str
    swept: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The run in words, for progress and lists of failures."""
        swept = "".join(f", {name}={value}" for name, value in self.swept.items())
        told = self.pairs if isinstance(self.spec.pairs, InterviewChoice) else f"{self.pairs} pairs"
        return f"{self.dataset}, {self.method}{swept}, {told}, seed {self.spec.seed}"


def draw_pairs(y: Any, pairs: PairChoice, seed: int) -> Constraints:
    """Draw the pairs of a run: the same for all methods, each set within the next larger one.

    A share of the answers is turned round, each with the same probability.

    Examples
    --------
    >>> y = np.arange(60) % 3
    >>> [len(draw_pairs(y, PairChoice(20, level), seed=0)) for level in (0, 1, 2)]
    [20, 100, 200]
    """
    if pairs.level == 0:
        drawn = Constraints.from_labels(y, pairs.n_pairs, random_state=seed)
    else:
        drawn = Constraints.imbalanced(y, pairs.n_pairs, random_state=seed)[pairs.level]
    is_wrong = np.random.default_rng([seed, 7]).random(len(drawn)) < pairs.wrong_answers
    return replace(drawn, is_must_link=drawn.is_must_link ^ is_wrong)


def content_key(content: Any) -> str:
    """Hash of plain values, the version and the protocol; the order of names does not matter.

    Examples
    --------
    >>> content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    True
    """
    made_by = {"protocol": PROTOCOL, "version": __version__, "content": content}
    canonical = json.dumps(made_by, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:20]


def expand(experiment: Experiment) -> list[PlannedRun]:
    """All runs of an experiment, grouped by dataset so that each is loaded once.

    Examples
    --------
    >>> from spherepair.benchmark.experiments import read_experiment
    >>> run = expand(read_experiment("toy"))[0]
    >>> run.dataset, run.method, run.spec.seed
    ('digits', 'SpherePair', 0)
    """
    cells = product(experiment.datasets, experiment.methods, _swept(experiment))
    return [
        _plan(experiment, cell, pairs=pairs, label=label, seed=seed)
        for cell in cells
        for pairs, label in _pairs(experiment, cell[1])
        for seed in experiment.seeds
    ]


def select(
    experiment: Experiment,
    *,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    pairs: tuple[int, ...] = (),
    wrong_answers: tuple[float, ...] = (),
    seeds: tuple[int, ...] = (),
) -> Experiment:
    """The part of an experiment with these datasets, methods, pairs and seeds; empty means all.

    ``pairs`` are numbers of pairs; for imbalanced sets, those of IMB0. ``wrong_answers`` are shares.
    """
    _check_known("dataset", datasets, [d.label for d in experiment.datasets])
    _check_known("method", methods, [m.label for m in experiment.methods])
    sizes = [str(n) for n in (*experiment.pairs, *experiment.imbalanced)]
    _check_known("pairs", tuple(map(str, pairs)), sizes)
    has_wrong = experiment.answers or experiment.wrong_answers != (0.0,)
    shares = [f"{share:g}" for share in experiment.wrong_answers if has_wrong]
    _check_known("wrong_answers", tuple(f"{share:g}" for share in wrong_answers), shares)
    _check_known("seed", tuple(map(str, seeds)), [str(seed) for seed in experiment.seeds])
    return replace(
        experiment,
        datasets=tuple(d for d in experiment.datasets if not datasets or d.label in datasets),
        methods=tuple(m for m in experiment.methods if not methods or m.label in methods),
        pairs=tuple(n for n in experiment.pairs if not pairs or n in pairs),
        imbalanced=tuple(n for n in experiment.imbalanced if not pairs or n in pairs),
        wrong_answers=tuple(w for w in experiment.wrong_answers if not wrong_answers or w in wrong_answers),
        seeds=tuple(seed for seed in experiment.seeds if not seeds or seed in seeds),
    )


def pair_label(pairs: PairChoice, *, imbalanced: bool = False) -> str:
    """Name of a set of pairs in tables.

    Examples
    --------
    >>> pair_label(PairChoice(5000)), pair_label(PairChoice(1000, level=2), imbalanced=True)
    ('5k', 'IMB2 (10k)')
    >>> pair_label(PairChoice(1000, wrong_answers=0.2))
    '1k, 20 % wrong'
    """
    count = f"{pairs.count // 1000}k" if pairs.count % 1000 == 0 else str(pairs.count)
    wrong = f", {100 * pairs.wrong_answers:g} % wrong" if pairs.wrong_answers else ""
    return f"IMB{pairs.level} ({count}){wrong}" if imbalanced else count + wrong


def answers_label(wrong_answers: float) -> str:
    """Name of a person's answers in tables.

    Examples
    --------
    >>> answers_label(0.0), answers_label(0.1)
    ('right answers', '10 % wrong answers')
    """
    return f"{100 * wrong_answers:g} % wrong answers" if wrong_answers else "right answers"


def _check_known(what: str, asked: tuple[str, ...], known: list[str]) -> None:
    unknown = [name for name in asked if name not in known]
    if unknown and not known:
        raise InvalidParameterError(
            f"this experiment has no {what} to choose from, got {quoted(unknown[0])}."
        )
    if unknown:
        raise InvalidParameterError(
            f"{what} must be one of {', '.join(known)} in this experiment, got {quoted(unknown[0])} instead."
        )


def _swept(experiment: Experiment) -> list[dict[str, Any]]:
    names = list(experiment.sweep)
    return [dict(zip(names, values, strict=True)) for values in product(*experiment.sweep.values())]


def _pairs(
    experiment: Experiment, method: MethodChoice
) -> Iterator[tuple[PairChoice | InterviewChoice, str]]:
    for count, share in product(experiment.pairs, experiment.wrong_answers):
        pairs = PairChoice(count, wrong_answers=share)
        yield pairs, pair_label(pairs)
    for count, level, share in product(experiment.imbalanced, experiment.levels, experiment.wrong_answers):
        pairs = PairChoice(count, level, share)
        yield pairs, pair_label(pairs, imbalanced=True)
    for share in experiment.wrong_answers if experiment.answers else ():
        yield InterviewChoice(method.strategy, experiment.answers, share), answers_label(share)


def _plan(
    experiment: Experiment,
    cell: tuple[DatasetChoice, MethodChoice, Mapping[str, Any]],
    *,
    pairs: PairChoice | InterviewChoice,
    label: str,
    seed: int,
) -> PlannedRun:
    dataset, method, swept = cell
    overrides = method.for_dataset.get(dataset.label, {})
    spec = RunSpec(
        dataset=dataset.name,
        classes=dataset.classes,
        estimator=method.estimator,
        parameters=_merged(dataset.parameters, method.parameters, overrides, swept),
        pairs=pairs,
        seed=seed,
        measure=tuple(sorted(experiment.measure)),
        tail_ratios=experiment.tail_ratios if "tail_angles" in experiment.measure else (),
    )
    return PlannedRun(spec, dataset.label, method.label, label, swept)


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """One table in which later entries win; tables within are merged, and "a.b" is entry b of table a."""
    merged: dict[str, Any] = {}
    for name, value in (entry for table in tables for entry in table.items()):
        outer, _, inner = name.partition(".")
        entry = {inner: value} if inner else value
        is_nested = isinstance(entry, Mapping) and isinstance(merged.get(outer), Mapping)
        merged[outer] = {**merged[outer], **entry} if is_nested else entry
    return merged


def build_method(name: str, n_clusters: int, *, parameters: Mapping[str, Any], seed: int) -> Any:
    """Build an unfitted estimator.

    Parameters
    ----------
    name : str
        An estimator, or an estimator and its protocol with a dot between them.
    n_clusters : int
        Used unless the parameters give another.
    parameters : mapping
        As written in an experiment.
    seed : int
        The ``random_state``.

    Examples
    --------
    >>> model = build_method("SpherePair.paper", 10, parameters={"pretraining": "none"}, seed=0)
    >>> model.pretraining is None, model.stopping
    (True, 'released-code')
    """
    settings: dict[str, Any] = {"n_clusters": n_clusters, "random_state": seed, "progress": False}
    try:
        decoded = {key: _decode(key, value) for key, value in parameters.items()}
        return find_method(name)(**(settings | decoded))
    except TypeError as error:
        raise InvalidParameterError(f"{name} does not take these parameters: {error}.") from error


def find_method(name: str) -> Callable[..., Any]:
    """The estimator class, or its ``paper`` class method, of that name."""
    estimator, _, protocol = name.partition(".")
    if estimator not in ESTIMATORS:
        raise InvalidParameterError(
            f"estimator must be one of {', '.join(sorted(ESTIMATORS))}, got {quoted(name)} instead."
        )
    if protocol not in ("", "paper") or (protocol and not hasattr(ESTIMATORS[estimator], protocol)):
        raise InvalidParameterError(f"{estimator} has no protocol {protocol!r}; write {estimator!r}.")
    found: Callable[..., Any] = ESTIMATORS[estimator]
    return getattr(found, protocol) if protocol else found


def check_methods(names: Iterable[str]) -> None:
    """Refuse unknown methods before anything is run."""
    for name in names:
        find_method(name)


def _decode(name: str, value: Any) -> Any:
    """TOML has neither None nor objects: "none" and tables stand for them."""
    if isinstance(value, Mapping) and name in SETTINGS:
        return SETTINGS[name](**value)
    if name != "pretraining":
        return value
    if isinstance(value, Mapping):
        settings = dict(value)
        kind = settings.pop("kind", None)
        if kind not in PRETRAINING:
            raise InvalidParameterError(
                f"pretraining: kind must be one of {', '.join(PRETRAINING)}, got {quoted(kind)} instead."
            )
        make: Callable[..., Any] = PRETRAINING[kind]
        return make(**settings)
    return None if value == "none" else value

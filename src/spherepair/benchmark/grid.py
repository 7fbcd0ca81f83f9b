"""From an experiment to a flat list of runs, each with a key that says what it is.

The key is a hash of everything that decides the result, the code included, so a run that is finished is
known as such whichever experiment asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

from spherepair.benchmark.environment import DATA_REVISIONS, PROTOCOL, REVISIONS
from spherepair.benchmark.experiments import DatasetChoice, Experiment, MethodChoice
from spherepair.errors import InvalidParameterError
from spherepair.version import __version__

#: Pairs of IMB0, IMB1 and IMB2 for each pair of IMB0.
IMBALANCE = (1, 5, 10)


@dataclass(frozen=True)
class PairChoice:
    """Which pairs: ``n_pairs`` random ones, or those of IMB1 or IMB2 made out of so many."""

    n_pairs: int
    level: int = 0

    @property
    def count(self) -> int:
        """How many pairs there are.

        Examples
        --------
        >>> PairChoice(1000, level=2).count
        10000
        """
        return self.n_pairs * IMBALANCE[self.level]


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides the result of one run."""

    dataset: str
    classes: tuple[int, ...] | None
    estimator: str
    parameters: Mapping[str, Any]
    pairs: PairChoice
    seed: int
    measure: tuple[str, ...] = ("scores",)
    tail_ratios: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @property
    def key(self) -> str:
        """Twenty hexadecimal digits: the same for the same run of the same code, on any machine.

        Examples
        --------
        >>> spec = RunSpec("digits", None, "SpherePair", {}, PairChoice(100), seed=0)
        >>> spec.key == RunSpec("digits", None, "SpherePair", {}, PairChoice(100), seed=1).key
        False
        """
        found = {
            "revision": REVISIONS.get(self.estimator),
            "data revision": DATA_REVISIONS.get(self.dataset),
        }
        return content_key(self.to_dict() | {name: n for name, n in found.items() if n is not None})


@dataclass(frozen=True)
class PlannedRun:
    """A run and its place in the tables of its experiment."""

    spec: RunSpec
    dataset: str
    method: str
    pairs: str
    swept: Mapping[str, Any] = field(default_factory=dict)


def content_key(content: Any) -> str:
    """A hash of plain values and of the code's version and protocol; the order of names does not matter.

    Examples
    --------
    >>> content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})
    True
    """
    made_by = {"protocol": PROTOCOL, "version": __version__, "content": content}
    canonical = json.dumps(made_by, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:20]


def expand(experiment: Experiment) -> list[PlannedRun]:
    """All runs of an experiment, data set by data set, so that each is loaded once.

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
        for pairs, label in _pairs(experiment)
        for seed in experiment.seeds
    ]


def select(
    experiment: Experiment,
    *,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    pairs: tuple[int, ...] = (),
    seeds: tuple[int, ...] = (),
) -> Experiment:
    """The part of an experiment with these data sets, methods, pairs and seeds; all where none are named.

    ``pairs`` are numbers of pairs; of imbalanced ones, those of IMB0.
    """
    chosen = replace(
        experiment,
        datasets=tuple(d for d in experiment.datasets if not datasets or d.label in datasets),
        methods=tuple(m for m in experiment.methods if not methods or m.label in methods),
        pairs=tuple(n for n in experiment.pairs if not pairs or n in pairs),
        imbalanced=tuple(n for n in experiment.imbalanced if not pairs or n in pairs),
        seeds=tuple(seed for seed in experiment.seeds if not seeds or seed in seeds),
    )
    _check_known("data set", datasets, [d.label for d in experiment.datasets])
    _check_known("method", methods, [m.label for m in experiment.methods])
    sizes = [str(n) for n in (*experiment.pairs, *experiment.imbalanced)]
    _check_known("pairs", tuple(map(str, pairs)), sizes)
    _check_known("seed", tuple(map(str, seeds)), [str(seed) for seed in experiment.seeds])
    return chosen


def pair_label(pairs: PairChoice, *, imbalanced: bool = False) -> str:
    """How tables name a set of pairs.

    Examples
    --------
    >>> pair_label(PairChoice(5000)), pair_label(PairChoice(1000, level=2), imbalanced=True)
    ('5k', 'IMB2 (10k)')
    """
    count = f"{pairs.count // 1000}k" if pairs.count % 1000 == 0 else str(pairs.count)
    return f"IMB{pairs.level} ({count})" if imbalanced else count


def _check_known(what: str, asked: tuple[str, ...], known: list[str]) -> None:
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise InvalidParameterError(
            f"{what} must be one of {', '.join(known)}, got {unknown[0]!r} instead; these are the ones of "
            "this experiment."
        )


def _swept(experiment: Experiment) -> list[dict[str, Any]]:
    names = list(experiment.sweep)
    return [dict(zip(names, values, strict=True)) for values in product(*experiment.sweep.values())]


def _pairs(experiment: Experiment) -> Iterator[tuple[PairChoice, str]]:
    for count in experiment.pairs:
        pairs = PairChoice(count)
        yield pairs, pair_label(pairs)
    for count, level in product(experiment.imbalanced, experiment.levels):
        pairs = PairChoice(count, level)
        yield pairs, pair_label(pairs, imbalanced=True)


def _plan(
    experiment: Experiment,
    cell: tuple[DatasetChoice, MethodChoice, Mapping[str, Any]],
    *,
    pairs: PairChoice,
    label: str,
    seed: int,
) -> PlannedRun:
    dataset, method, swept = cell
    overrides = method.for_dataset.get(dataset.label, {})
    spec = RunSpec(
        dataset=dataset.name,
        classes=dataset.classes,
        estimator=method.estimator,
        parameters={**dataset.parameters, **method.parameters, **overrides, **swept},
        pairs=pairs,
        seed=seed,
        measure=tuple(sorted(experiment.measure)),
        tail_ratios=experiment.tail_ratios if "tail_angles" in experiment.measure else (),
    )
    return PlannedRun(spec, dataset.label, method.label, label, swept)

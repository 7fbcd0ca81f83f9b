"""Runs gathered into cells: mean and spread over seeds, beside the paper's number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spherepair.benchmark.experiments import Experiment
from spherepair.benchmark.grid import PlannedRun, expand
from spherepair.benchmark.paper import PaperCell, paper_score
from spherepair.benchmark.store import Record, Store

#: The paper's names of the scores and ours.
SCORES = {"ACC": "accuracy", "NMI": "nmi", "ARI": "ari"}


@dataclass(frozen=True)
class Place:
    """A cell of the grid: everything but the seed."""

    dataset: str
    method: str
    pairs: str
    swept: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Cell:
    """A number over seeds, and the paper's.

    Attributes
    ----------
    values : tuple of float
        One per finished run.
    n_expected : int
        Runs that were asked for.
    paper : float or None
        The paper's number.
    is_stand_in : bool
        Whether the data set only stands in for the paper's, so that numbers are not to be compared.
    """

    values: tuple[float, ...]
    n_expected: int
    paper: float | None = None
    is_stand_in: bool = False

    @property
    def mean(self) -> float | None:
        """Mean over seeds; ``None`` where no run is finished.

        Examples
        --------
        >>> Cell((90.0, 92.0), 3, paper=92.0).difference
        -1.0
        """
        return float(np.mean(self.values)) if self.values else None

    @property
    def spread(self) -> float:
        """Standard deviation over seeds."""
        return float(np.std(self.values)) if self.values else 0.0

    def text(self, mean: str = ".1f", spread: str = ".1f") -> str:
        """Mean ± spread in these formats; one run has no spread.

        Examples
        --------
        >>> Cell((90.0, 92.0), 2).text(), Cell((90.0,), 1).text()
        ('91.0 ± 1.0', '90.0')
        """
        return format(self.mean, mean) + (f" ± {self.spread:{spread}}" if len(self.values) > 1 else "")

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, where they can be compared."""
        if self.mean is None or self.paper is None or self.is_stand_in:
            return None
        return self.mean - self.paper

    @property
    def is_below(self) -> bool:
        """Whether we are below the paper in the last digit that is shown."""
        return self.difference is not None and round(self.difference, 1) < 0


@dataclass(frozen=True, eq=False)
class Summary:
    """All runs of an experiment, finished or not, by their places."""

    experiment: Experiment
    runs: Mapping[Place, list[PlannedRun]]
    records: Mapping[str, Record]
    failures: Mapping[str, Record]

    @property
    def n_expected(self) -> int:
        """Runs asked for."""
        return len({run.spec.key for runs in self.runs.values() for run in runs})

    def done(self, place: Place) -> list[Record]:
        """The finished runs of a place, in the order of their seeds."""
        keys = (run.spec.key for run in self.runs.get(place, []))
        return [self.records[key] for key in keys if key in self.records]

    def cell(self, place: Place, metric: str = "ACC", part: str = "test") -> Cell:
        """A score in percent beside the paper's."""
        values = (100 * record["scores"][part][SCORES[metric]] for record in self.done(place))
        return self._cell(place, values, self._paper(place, metric, part))

    def numbers(
        self, place: Place, read: Callable[[Record], float | None], paper: float | None = None
    ) -> Cell:
        """Any number of the records."""
        values = (read(record) for record in self.done(place))
        return self._cell(place, (value for value in values if value is not None), paper)

    def values_of(self, name: str) -> list[Any]:
        """The different values of ``dataset``, ``method``, ``pairs`` or ``swept``, in order."""
        return list(dict.fromkeys(getattr(place, name) for place in self.runs))

    def paper_name(self, method: str) -> str | None:
        """The row of the paper's tables that a method stands beside."""
        return next(choice.paper for choice in self.experiment.methods if choice.label == method)

    def paper_dataset(self, dataset: str) -> str:
        """The paper's data set that this one is, or stands in for."""
        return self.experiment.stand_ins.get(dataset, dataset)

    def _cell(self, place: Place, values: Iterable[float], paper: float | None) -> Cell:
        is_stand_in = place.dataset in self.experiment.stand_ins
        return Cell(tuple(values), len(self.runs.get(place, [])), paper, is_stand_in)

    def _paper(self, place: Place, metric: str, part: str) -> float | None:
        name, runs = self.paper_name(place.method), self.runs.get(place)
        if name is None or not runs:
            return None
        spec = runs[0].spec
        if spec.pairs.level:
            return None
        size = spec.parameters.get("embedding_dim")
        dataset = self.paper_dataset(place.dataset)
        cell = PaperCell(dataset, spec.pairs.count, name, metric, part, size)
        return paper_score(self.experiment.paper_table, cell)


def summarise(experiment: Experiment, store: Store) -> Summary:
    """Gather what is there of an experiment."""
    runs: dict[Place, list[PlannedRun]] = {}
    for run in expand(experiment):
        place = Place(run.dataset, run.method, run.pairs, tuple(run.swept.items()))
        runs.setdefault(place, []).append(run)
    keys = {run.spec.key for planned in runs.values() for run in planned}
    records = {key: record for key in keys if (record := store.record(key)) is not None}
    failed = {key: record for key in keys - set(records) if (record := store.failure(key)) is not None}
    return Summary(experiment, runs, records, failed)


def rank_agreement(ours: list[float], theirs: list[float]) -> float | None:
    """Spearman's rank correlation of two lists of scores; ``None`` where it says nothing.

    Examples
    --------
    >>> rank_agreement([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """
    from scipy.stats import rankdata

    if len(ours) < 3:
        return None
    a, b = rankdata(ours), rankdata(theirs)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.round(np.corrcoef(a, b)[0, 1], 6))

"""Results beside the paper's: mean and spread over seeds, the paper's number, and the cells of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from spherepair.benchmark.experiments import Experiment
from spherepair.benchmark.measure import Record
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import PairChoice, PlannedRun, expand

#: The paper's names of the scores and ours.
SCORES = {"ACC": "accuracy", "NMI": "nmi", "ARI": "ari"}
PAPER_TABLES = ("main", "ward", "embedding_dim")


@dataclass(frozen=True)
class PaperCell:
    """Position of a number in the paper's tables: percent, mean of five runs."""

    dataset: str
    n_pairs: int
    method: str
    metric: str = "ACC"
    part: str = "test"
    embedding_dim: int | None = None


def paper_score(table: str, cell: PaperCell) -> float | None:
    """A score in percent as printed in the paper; ``None`` if it has none.

    Examples
    --------
    >>> paper_score("main", PaperCell("mnist", 10_000, "SpherePair"))
    97.0
    >>> paper_score("main", PaperCell("digits", 10_000, "SpherePair")) is None
    True
    """
    if table not in PAPER_TABLES:
        return None
    # Methods without an embedding have one row for all sizes.
    sizes = (cell.embedding_dim, None) if table == "embedding_dim" else (None,)
    for size in sizes:
        found = _paper_scores(table).get((cell.dataset, cell.n_pairs, cell.method, size, cell.metric))
        if found is not None:
            return found[cell.part]
    return None


def paper_seconds(what: str, name: str, dataset: str) -> Any:
    """Seconds on one Tesla V100 with 10k pairs, of ``training``, ``clustering`` or ``n_clusters``.

    Examples
    --------
    >>> paper_seconds("training", "SpherePair", "mnist")
    2062
    >>> paper_seconds("clustering", "SpherePair", "mnist")["ward"]
    83
    """
    return _paper()[f"{what}_seconds"].get(name, {}).get(dataset)


def paper_source() -> str:
    """Title of the paper and the units of its numbers."""
    return f"{_paper()['source']} ({_paper()['unit']})"


@cache
def _paper() -> dict[str, Any]:
    text = (resources.files("spherepair.benchmark") / "paper.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


@cache
def _paper_scores(table: str) -> dict[tuple[Any, ...], dict[str, float]]:
    names = _paper()["columns"]
    rows = [dict(zip(names, row, strict=True)) for row in _paper()[table]]
    keys = ("dataset", "n_pairs", "method", "embedding_dim", "metric")
    return {tuple(row[key] for key in keys): {"train": row["train"], "test": row["test"]} for row in rows}


@dataclass(frozen=True)
class Setting:
    """What a cell of a table is about: everything but the seed."""

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
        Number of planned runs.
    paper : float or None
        The paper's number.
    is_stand_in : bool
        Whether the dataset only replaces the paper's, so that numbers are not comparable.
    """

    values: tuple[float, ...]
    n_expected: int
    paper: float | None = None
    is_stand_in: bool = False

    @property
    def mean(self) -> float | None:
        """Mean over seeds; ``None`` if no run is finished.

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
        """Ours minus the paper's, if they can be compared."""
        if self.mean is None or self.paper is None or self.is_stand_in:
            return None
        return self.mean - self.paper

    @property
    def is_below(self) -> bool:
        """Whether ours is below the paper's in the last digit shown."""
        return self.difference is not None and round(self.difference, 1) < 0


@dataclass(frozen=True, eq=False)
class Summary:
    """All runs of an experiment, finished or not, by setting."""

    experiment: Experiment
    runs: Mapping[Setting, list[PlannedRun]]
    records: Mapping[str, Record]
    failures: Mapping[str, Record]

    @property
    def n_expected(self) -> int:
        """Number of planned runs."""
        return len({run.spec.key for runs in self.runs.values() for run in runs})

    def done(self, setting: Setting) -> list[Record]:
        """The finished runs of a setting, in the order of their seeds."""
        keys = (run.spec.key for run in self.runs.get(setting, []))
        return [self.records[key] for key in keys if key in self.records]

    def cell(self, setting: Setting, metric: str = "ACC", part: str = "test") -> Cell:
        """A score in percent beside the paper's."""
        values = (100 * record["scores"][part][SCORES[metric]] for record in self.done(setting))
        return self._cell(setting, values, self._paper(setting, metric, part))

    def numbers(
        self, setting: Setting, read: Callable[[Record], float | None], paper: float | None = None
    ) -> Cell:
        """Any number of the records."""
        values = (read(record) for record in self.done(setting))
        return self._cell(setting, (value for value in values if value is not None), paper)

    def values_of(self, name: str) -> list[Any]:
        """The different values of ``dataset``, ``method``, ``pairs`` or ``swept``, in order."""
        return list(dict.fromkeys(getattr(setting, name) for setting in self.runs))

    def paper_name(self, method: str) -> str | None:
        """Row of the paper's tables that a method is compared with."""
        return next(choice.paper for choice in self.experiment.methods if choice.label == method)

    def paper_dataset(self, dataset: str) -> str:
        """The paper's dataset that this one is or replaces."""
        return self.experiment.stand_ins.get(dataset, dataset)

    def _cell(self, setting: Setting, values: Iterable[float], paper: float | None) -> Cell:
        is_stand_in = setting.dataset in self.experiment.stand_ins
        return Cell(tuple(values), len(self.runs.get(setting, [])), paper, is_stand_in)

    def _paper(self, setting: Setting, metric: str, part: str) -> float | None:
        name, runs = self.paper_name(setting.method), self.runs.get(setting)
        if name is None or not runs:
            return None
        spec = runs[0].spec
        if not isinstance(spec.pairs, PairChoice) or spec.pairs.level:
            return None
        size = spec.parameters.get("embedding_dim")
        dataset = self.paper_dataset(setting.dataset)
        cell = PaperCell(dataset, spec.pairs.count, name, metric, part, size)
        return paper_score(self.experiment.paper_table, cell)


def summarize(experiment: Experiment, results: ResultsFolder) -> Summary:
    """Gather the results of an experiment."""
    runs: dict[Setting, list[PlannedRun]] = {}
    for run in expand(experiment):
        setting = Setting(run.dataset, run.method, run.pairs, tuple(run.swept.items()))
        runs.setdefault(setting, []).append(run)
    keys = {run.spec.key for planned in runs.values() for run in planned}
    records = {key: record for key in keys if (record := results.record(key)) is not None}
    failed = {key: record for key in keys - set(records) if (record := results.failure(key)) is not None}
    return Summary(experiment, runs, records, failed)


@dataclass(frozen=True)
class Entry:
    """One cell of a printed table.

    Attributes
    ----------
    text : str
    tone : str
        "below" if ours is below the paper's, "clearly below" if by more than the spread over seeds,
        "best" for the best of a column, "missing" for what was not run; else empty.
    """

    text: str
    tone: str = ""


MISSING = Entry("missing", "missing")
EMPTY = Entry("")


@dataclass(frozen=True)
class Heading:
    """A heading of level 1, 2 or 3."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Command:
    """A command line to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of entries under a header; the first column names the rows."""

    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure in a file beside the report."""

    file: str
    caption: str
    content: bytes = field(repr=False)


#: Parts of a report, rendered to Markdown and to HTML.
Block = Heading | Paragraph | Command | Table | Picture

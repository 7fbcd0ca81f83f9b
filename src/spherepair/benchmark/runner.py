"""A grid of runs: finished ones are skipped, failed ones are noted, and nobody does another's work.

Any number of processes may work on one folder, and each may be killed at any moment: what is lost are the
runs in flight.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from spherepair.benchmark.claims import claim
from spherepair.benchmark.environment import describe_environment
from spherepair.benchmark.experiments import Experiment
from spherepair.benchmark.grid import PlannedRun, expand, select
from spherepair.benchmark.measuring import measure_run
from spherepair.benchmark.methods import require_known
from spherepair.benchmark.store import Record, Store
from spherepair.benchmark.workbench import Shelf
from spherepair.errors import SpherePairError


@dataclass(frozen=True)
class GridOutcome:
    """How a grid ended.

    Attributes
    ----------
    n_runs : int
        Runs of the grid.
    n_skipped : int
        Finished before.
    n_done : int
        Finished now.
    n_elsewhere : int
        In the hands of other processes when this one had nothing left to do.
    failures : tuple of (str, str)
        What failed, and why.
    """

    n_runs: int
    n_skipped: int
    n_done: int
    n_elsewhere: int
    failures: tuple[tuple[str, str], ...]

    def sentence(self) -> str:
        """The outcome in words.

        Examples
        --------
        >>> GridOutcome(5, 2, 3, 0, ()).sentence()
        '5 runs: 3 done now, 2 done before.'
        """
        counts = [(self.n_done, "done now"), (self.n_skipped, "done before")]
        counts += [(self.n_elsewhere, "in the hands of other processes"), (len(self.failures), "failed")]
        return f"{self.n_runs} runs: " + ", ".join(f"{n} {what}" for n, what in counts if n) + "."


@dataclass(frozen=True)
class Step:
    """What is being done: the run, and how many of the grid are settled."""

    name: str
    n_settled: int
    n_runs: int


def run_grid(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    pairs: tuple[int, ...] = (),
    seeds: tuple[int, ...] = (),
    watch: Callable[[Step], None] | None = None,
) -> GridOutcome:
    """Do all runs of an experiment that are not done yet.

    Parameters
    ----------
    experiment : Experiment
    folder : path
        Of the results; made where it is not there.
    datasets, methods, pairs, seeds : tuples
        Only these of the experiment; all where none are named.
    watch : callable, optional
        Called before each run that is done here, and at the end.
    """
    planned = expand(select(experiment, datasets=datasets, methods=methods, pairs=pairs, seeds=seeds))
    require_known({run.spec.estimator for run in planned})
    store = Store.create(folder)
    store.keep_experiment(experiment)
    worker = _Worker(store, {run.spec.key: run for run in planned}, watch)
    outcome = worker.work()
    store.write_lines()
    return outcome


def run_name(run: PlannedRun) -> str:
    """A run in words, for progress and for lists of failures."""
    swept = "".join(f", {name}={value}" for name, value in run.swept.items())
    return f"{run.dataset}, {run.method}{swept}, {run.pairs} pairs, seed {run.spec.seed}"


class _Worker:
    """Goes through the runs until all are settled or in other hands."""

    def __init__(
        self, store: Store, runs: dict[str, PlannedRun], watch: Callable[[Step], None] | None
    ) -> None:
        self._store, self._runs, self._watch = store, runs, watch
        self._shelf, self._environment = Shelf(), describe_environment()
        self._started = time.time()
        self._n_done = self._n_skipped = 0
        self._failures: list[tuple[str, str]] = []

    def work(self) -> GridOutcome:
        pending = list(self._runs)
        n_before = len(pending) + 1
        # Again as long as that helps: a process that held a run may have died meanwhile.
        while 0 < len(pending) < n_before:
            n_before = len(pending)
            pending = [key for key in pending if not self._settle(key)]
        self._tell("")
        return GridOutcome(
            len(self._runs), self._n_skipped, self._n_done, len(pending), tuple(self._failures)
        )

    def _settle(self, key: str) -> bool:
        """Do a run unless it is done; False where another process is at it."""
        if self._is_settled(key):
            return True
        with claim(self._store.claim_path(key)) as is_mine:
            if not is_mine:
                return False
            # It may have been finished between the look and the claim.
            if not self._is_settled(key):
                self._tell(run_name(self._runs[key]))
                self._do(key)
        return True

    def _is_settled(self, key: str) -> bool:
        if self._store.record(key) is not None:
            self._n_skipped += 1
            return True
        failure = self._store.failure(key)
        # A failure from before this start is tried again; a fresh one is another process's news.
        if failure is None or failure["time"] < self._started:
            return False
        self._failures.append((run_name(self._runs[key]), failure["error"]))
        return True

    def _do(self, key: str) -> None:
        spec = self._runs[key].spec
        frame: Record = {"key": key, "spec": spec.to_dict(), **self._environment}
        try:
            measured = measure_run(spec, self._shelf.rows(spec), self._store.pretrained)
        except Exception as error:
            self._note_failure(key, frame, error)
            return
        self._store.keep(key, {**frame, **measured.record, "finished": _now()}, measured.arrays)
        self._n_done += 1

    def _note_failure(self, key: str, frame: Record, error: Exception) -> None:
        words = str(error) if isinstance(error, SpherePairError) else f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        self._store.keep_failure(key, {**frame, "error": words, "traceback": trace, "time": time.time()})
        self._failures.append((run_name(self._runs[key]), words))

    def _tell(self, name: str) -> None:
        if self._watch is not None:
            settled = self._n_done + self._n_skipped + len(self._failures)
            self._watch(Step(name, settled, len(self._runs)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Do the runs of a grid: finished ones are skipped, failed ones noted, and none is done twice.

Any number of processes may share one results folder, and each may be killed at any time: only the runs in
progress are lost. The folder holds

experiments/ID.toml   the experiments              runs/KEY.json     results, written atomically
failed/KEY.json       errors                       locks/KEY         runs in progress
arrays/KEY.npz        rows for pictures            pretrained/       shared autoencoders
results.jsonl         all results, one per line
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from spherepair import __version__
from spherepair.benchmark.experiments import Experiment
from spherepair.benchmark.interviews import measure_interview
from spherepair.benchmark.measure import Record, Rows, measure_run
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import (
    PROTOCOL,
    InterviewChoice,
    PlannedRun,
    RunSpec,
    check_methods,
    expand,
    select,
)
from spherepair.datasets import load_dataset
from spherepair.errors import SpherePairError
from spherepair.files import file_lock

#: Names the commit of sources that are not in a checkout (a copy on another machine).
COMMIT_VARIABLE = "SPHEREPAIR_COMMIT"
#: Sparse rows that take no more than this when dense are made dense, so that a GPU can hold them.
DENSE_BYTES = 4 * 2**30
#: Seconds by which clocks of machines that share a folder may differ.
CLOCK_SKEW = 600
#: Does something with each of several things, and gives what came out as it comes.
Carrier = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "safetensors")


@dataclass(frozen=True)
class GridOutcome:
    """How a grid ended.

    Attributes
    ----------
    n_runs : int
        Runs of the grid.
    n_skipped : int
        Runs finished before.
    n_done : int
        Runs finished now.
    n_elsewhere : int
        Runs still in progress in other processes when this one had nothing left to do.
    failures : tuple of (str, str)
        Failed runs and their errors.
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
        counts += [(self.n_elsewhere, "running in other processes"), (len(self.failures), "failed")]
        return f"{self.n_runs} runs: " + ", ".join(f"{n} {what}" for n, what in counts if n) + "."


@dataclass(frozen=True)
class GridProgress:
    """The run that starts now (empty at the end), and how many runs are finished or failed."""

    title: str
    n_finished: int
    n_runs: int


def run_grid(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    datasets: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    pairs: tuple[int, ...] = (),
    wrong_answers: tuple[float, ...] = (),
    seeds: tuple[int, ...] = (),
    progress: Callable[[GridProgress], None] | None = None,
    carry: Carrier | None = None,
) -> GridOutcome:
    """Do all runs of an experiment that are not done yet.

    Parameters
    ----------
    experiment : Experiment
        From :func:`read_experiment`.
    folder : path
        Results folder; created if missing.
    datasets, methods, pairs, wrong_answers, seeds : tuples
        Run only these of the experiment; empty means all.
    progress : callable, optional
        Called before each run that is done here, and at the end; with `carry` after each run.
    carry : callable, optional
        Does something with each of several runs in processes or on machines that share the folder, such as
        ``spherepair.scale.engines.carrier("ray")``; by default this process does one after another.

    Returns
    -------
    GridOutcome
    """
    asked: dict[str, Any] = {"pairs": pairs, "wrong_answers": wrong_answers, "seeds": seeds}
    planned = expand(select(experiment, datasets=datasets, methods=methods, **asked))
    check_methods({run.spec.estimator for run in planned})
    results = ResultsFolder.create(folder)
    results.save_experiment(experiment)
    runs = {run.spec.key: run for run in planned}
    if carry is None:
        outcome = _Worker(results, runs, progress).work()
    else:
        outcome = _carry_runs(results, list(runs.values()), carry, progress)
    results.write_lines()
    return outcome


def _carry_runs(
    results: ResultsFolder,
    runs: Sequence[PlannedRun],
    carry: Carrier,
    progress: Callable[[GridProgress], None] | None,
) -> GridOutcome:
    found: list[GridOutcome] = []
    for outcome in carry(partial(_do_run, str(results.folder.absolute())), runs):
        found.append(outcome)
        if progress is not None:
            progress(GridProgress("", len(found), len(runs)))
    return GridOutcome(
        n_runs=len(runs),
        n_skipped=sum(one.n_skipped for one in found),
        n_done=sum(one.n_done for one in found),
        n_elsewhere=sum(one.n_elsewhere for one in found),
        failures=tuple(failure for one in found for failure in one.failures),
    )


def _do_run(folder: str, run: PlannedRun) -> GridOutcome:
    return _Worker(ResultsFolder(folder), {run.spec.key: run}, None, _shared_datasets()).work()


@cache
def _shared_datasets() -> DatasetCache:
    """Of all runs that a process does for others."""
    return DatasetCache()


class _Worker:
    """Goes through the runs until all are finished, failed or locked by other processes."""

    def __init__(
        self,
        results: ResultsFolder,
        runs: dict[str, PlannedRun],
        progress: Callable[[GridProgress], None] | None,
        datasets: DatasetCache | None = None,
    ) -> None:
        self._results, self._runs, self._progress = results, runs, progress
        self._datasets, self._environment = datasets or DatasetCache(), describe_environment()
        self._started = time.time()
        self._n_done = self._n_skipped = 0
        self._failures: list[tuple[str, str]] = []

    def work(self) -> GridOutcome:
        pending = list(self._runs)
        n_before = len(pending) + 1
        # Again as long as that helps: a process that held a run may have died meanwhile.
        while 0 < len(pending) < n_before:
            n_before = len(pending)
            pending = [key for key in pending if not self._finish(key)]
        self._report("")
        return GridOutcome(
            len(self._runs), self._n_skipped, self._n_done, len(pending), tuple(self._failures)
        )

    def _finish(self, key: str) -> bool:
        """Do a run unless it is done; False if another process is doing it."""
        if self._is_finished(key):
            return True
        with file_lock(self._results.lock_path(key)) as is_mine:
            if not is_mine:
                return False
            # Another process may have finished it between the check and the lock.
            if not self._is_finished(key):
                self._report(self._runs[key].title)
                self._do(key)
        return True

    def _is_finished(self, key: str) -> bool:
        if self._results.record(key) is not None:
            self._n_skipped += 1
            return True
        failure = self._results.failure(key)
        # Older failures and those of a wrong clock are tried again; newer ones are another process's.
        when = None if failure is None else failure.get("time")
        latest = time.time() + CLOCK_SKEW
        if failure is None or not isinstance(when, float) or not self._started <= when <= latest:
            return False
        self._failures.append((self._runs[key].title, str(failure.get("error"))))
        return True

    def _do(self, key: str) -> None:
        spec = self._runs[key].spec
        header: Record = {"key": key, "spec": spec.to_dict(), **self._environment}
        try:
            measure = measure_interview if isinstance(spec.pairs, InterviewChoice) else measure_run
            measured = measure(spec, self._datasets.rows(spec), self._results.pretrained)
        except Exception as error:
            self._note_failure(key, header, error)
            return
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        self._results.save_record(key, {**header, **measured.record, "finished": finished}, measured.arrays)
        self._n_done += 1

    def _note_failure(self, key: str, header: Record, error: Exception) -> None:
        words = str(error) if isinstance(error, SpherePairError) else f"{type(error).__name__}: {error}"
        trace = "".join(traceback.format_exception(error))
        failure = {**header, "error": words, "traceback": trace, "time": time.time()}
        self._results.save_failure(key, failure)
        self._failures.append((self._runs[key].title, words))

    def _report(self, title: str) -> None:
        if self._progress is not None:
            n_finished = self._n_done + self._n_skipped + len(self._failures)
            self._progress(GridProgress(title, n_finished, len(self._runs)))


class DatasetCache:
    """Holds the dataset that was used last."""

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], Rows | SpherePairError] = {}

    def rows(self, spec: RunSpec) -> Rows:
        """The rows of a run. A dataset that cannot be loaded is tried once, not once per run."""
        name = (spec.dataset, spec.classes)
        if name not in self._held:
            self._held.clear()  # frees the memory before the next one is loaded
            self._held[name] = _load(spec)
        found = self._held[name]
        if isinstance(found, SpherePairError):
            raise found
        return found


def _load(spec: RunSpec) -> Rows | SpherePairError:
    try:
        data = load_dataset(spec.dataset, classes=spec.classes)
    except SpherePairError as error:
        return error
    return Rows(_dense(data.X_train), data.y_train, _dense(data.X_test), data.y_test)


def _dense(X: Any) -> Any:
    if sparse.issparse(X) and 4 * X.shape[0] * X.shape[1] <= DENSE_BYTES:
        return X.toarray().astype(np.float32, copy=False)
    return X


def describe_environment() -> dict[str, object]:
    """Protocol, versions, device and commit as plain values.

    Examples
    --------
    >>> sorted(describe_environment())
    ['commit', 'device', 'protocol', 'threads', 'versions']
    """
    versions = {"spherepair": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"
    threads = torch.get_num_threads()
    described = {"protocol": PROTOCOL, "versions": versions, "device": device, "threads": threads}
    return {**described, "commit": current_commit()}


def current_commit() -> str | None:
    """Commit of the sources: of their checkout, else as the variable says, else None.

    A checkout with changed sources is no commit: there the variable comes first, and without it "+" marks
    the change.
    """
    here, stated = Path(__file__), os.environ.get(COMMIT_VARIABLE) or None
    # Tracked: a package installed inside another project's checkout is not that commit.
    if _git("ls-files", "--error-unmatch", here.name) is not None:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
        if head is not None:
            return (stated or f"{head}+") if changed else head
    return stated


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

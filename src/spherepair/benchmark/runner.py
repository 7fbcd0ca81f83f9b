"""Do the runs of a grid: finished ones are skipped, failed ones noted, and none is done twice.

Any number of processes may share one results folder, and each may be killed at any time: only the runs in
progress are lost. The folder holds

experiments/ID.toml   the experiments              runs/KEY.json     results, written atomically
failed/KEY.json       errors                       locks/KEY         runs in progress
arrays/KEY.npz        rows for pictures            pretrained/       shared autoencoders
results.jsonl         all results, one per line
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from spherepair import __version__
from spherepair.benchmark.experiments import Experiment, read_experiment, sort_experiments
from spherepair.benchmark.interviews import measure_interview
from spherepair.benchmark.measure import Arrays, Record, Rows, measure_run
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
from spherepair.errors import InvalidDataError, InvalidParameterError, SpherePairError
from spherepair.files import atomic_write, atomic_write_text, file_lock
from spherepair.files.array_files import read_archive

#: Names the commit of sources that are not in a checkout (a copy on another machine).
COMMIT_VARIABLE = "SPHEREPAIR_COMMIT"
#: Sparse rows that take no more than this when dense are made dense, so that a GPU can hold them.
DENSE_BYTES = 4 * 2**30
#: Seconds by which clocks of machines that share a folder may differ.
CLOCK_SKEW = 600
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
        Called before each run that is done here, and at the end.

    Returns
    -------
    GridOutcome
    """
    asked: dict[str, Any] = {"pairs": pairs, "wrong_answers": wrong_answers, "seeds": seeds}
    planned = expand(select(experiment, datasets=datasets, methods=methods, **asked))
    check_methods({run.spec.estimator for run in planned})
    results = ResultsFolder.create(folder)
    results.save_experiment(experiment)
    outcome = _Worker(results, {run.spec.key: run for run in planned}, progress).work()
    results.write_lines()
    return outcome


class _Worker:
    """Goes through the runs until all are finished, failed or locked by other processes."""

    def __init__(
        self,
        results: ResultsFolder,
        runs: dict[str, PlannedRun],
        progress: Callable[[GridProgress], None] | None,
    ) -> None:
        self._results, self._runs, self._progress = results, runs, progress
        self._datasets, self._environment = DatasetCache(), describe_environment()
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


class ResultsFolder:
    """The folder of results.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> ResultsFolder:
        """Create the folder and its subfolders, or use those that are there."""
        results = cls(folder)
        for name in ("experiments", "runs", "failed", "locks", "arrays", "pretrained"):
            (results.folder / name).mkdir(parents=True, exist_ok=True)
        return results

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> ResultsFolder:
        """Open a folder that ``bench run`` created."""
        results = cls(folder)
        if not (results.folder / "experiments").is_dir():
            raise InvalidParameterError(
                f"{folder} holds no results; make some with: spherepair bench run toy --out {folder}"
            )
        return results

    def lock_path(self, key: str) -> Path:
        """File to lock while a run is in progress."""
        return self.folder / "locks" / key

    @property
    def pretrained(self) -> Path:
        """Folder of the shared autoencoders."""
        return self.folder / "pretrained"

    def save_experiment(self, experiment: Experiment) -> None:
        """Save the experiment, so that the report knows which runs are missing."""
        atomic_write_text(self.folder / "experiments" / f"{experiment.id}.toml", experiment.text)

    def experiments(self) -> list[Experiment]:
        """The saved experiments."""
        return sort_experiments(map(read_experiment, (self.folder / "experiments").glob("*.toml")))

    def record(self, key: str) -> Record | None:
        """Result of a run; ``None`` if it is not done or its file is damaged."""
        return _read(self.folder / "runs" / f"{key}.json", key)

    def failure(self, key: str) -> Record | None:
        """Error of a run that failed and was not done since."""
        return _read(self.folder / "failed" / f"{key}.json", key)

    def save_record(self, key: str, record: Record, arrays: Arrays | None = None) -> None:
        """Save the result of a run; arrays first, since the record says that everything is there."""
        if arrays:
            named: dict[str, Any] = dict(arrays)
            path = self.folder / "arrays" / f"{key}.npz"
            with atomic_write(path) as temporary, temporary.open("wb") as stream:
                np.savez_compressed(stream, **named)
        atomic_write_text(self.folder / "runs" / f"{key}.json", _line(record))
        (self.folder / "failed" / f"{key}.json").unlink(missing_ok=True)

    def save_failure(self, key: str, record: Record) -> None:
        """Save the error of a run."""
        atomic_write_text(self.folder / "failed" / f"{key}.json", _line(record))

    def arrays(self, key: str) -> Arrays:
        """Rows saved for pictures."""
        path = self.folder / "arrays" / f"{key}.npz"
        if not path.exists():
            return {}
        return read_archive(path, lambda reason: InvalidDataError(f"{path} {reason}"))

    def write_lines(self) -> Path:
        """Write all records to one file of JSON lines."""
        path = self.folder / "results.jsonl"
        keys = sorted(file.stem for file in (self.folder / "runs").glob("*.json"))
        atomic_write_text(path, "".join(_line(record) for record in self._records(keys)))
        return path

    def _records(self, keys: Iterable[str]) -> Iterable[Record]:
        return (record for record in map(self.record, keys) if record is not None)


def _line(record: Record) -> str:
    return json.dumps(record, sort_keys=True) + "\n"


def _read(path: Path, key: str) -> Record | None:
    """The record of the key; anything else in the file counts as nothing."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("key") == key else None


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

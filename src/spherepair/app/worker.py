"""Training in a process of its own: one job at a time a project, beside the questions.

A :class:`Trainer` lives in the server: it starts a job when one is due, ends one that newer answers have
made useless, starts the process again when it dies, and hands finished versions over. The process keeps the
pretraining between jobs and gives way to everything else on the machine.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.app.versions import Placed, latest_version, write_version
from spherepair.errors import SpherePairError, SpherePairWarning

FEATURES, ENCODER = "features.npy", "encoder.npz"
#: Seconds without an answer after which what was answered is learned, however little it is.
QUIET_SECONDS = 15.0
#: How often in a row a process that died is started again, and a job cancelled.
MOST_CRASHES, MOST_CANCELLED = 3, 1
_TICK = 0.25


@dataclass(frozen=True)
class TrainingStatus:
    """What the page says about training."""

    status: str = "idle"
    epoch: int | None = None
    epochs: int | None = None
    message: str | None = None
    version: int = 0


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes
    ----------
    version : int
        Number that its result gets.
    task : TrainingTask
    placed : Placed
    """

    version: int
    task: Any
    placed: Placed


class Trainer:
    """Keeps the model of one project up to date.

    Parameters
    ----------
    folder : Path
        Of the project.
    seed : int
    is_due : callable
        Whether a training is due; gets the task of the running job or of the latest version, or ``None``.
    make_job : callable
        The next job.
    finished : callable
        Called with the job when its version is there.
    changed : callable
        Called when the status has changed.
    version : int
        The latest version that there is.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        is_due: Callable[[Any], bool],
        make_job: Callable[[int], Job],
        finished: Callable[[Job], None],
        changed: Callable[[], None],
        version: int,
    ) -> None:
        self._folder, self._seed = folder, seed
        self._is_due, self._make_job, self._finished, self._changed = is_due, make_job, finished, changed
        self.status = TrainingStatus(version=version)
        self._process: Any = None
        self._pipe: Any = None
        self._job: Job | None = None
        self._crashes = self._cancelled = 0
        self._is_cancelling = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"trainer of {folder.name}")

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """End the process; what it had not finished is done again the next time."""
        self._closing.set()
        self._thread.join(timeout=5)
        self._stop_process()

    @property
    def pid(self) -> int | None:
        """Of the process, for tests."""
        return None if self._process is None else self._process.pid

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self._job is None:
                    self._start_if_due()
                else:
                    self._follow()
            except Exception as error:
                self._fail(f"{type(error).__name__}: {error}")
            if self._job is None:
                self._closing.wait(_TICK)

    def _start_if_due(self) -> None:
        if not self._is_due(None):
            return
        job = self._make_job(self.status.version + 1)
        self._ensure_process()
        self._pipe.send(job)
        self._job, self._is_cancelling = job, False
        self._set(status="running", epoch=None, epochs=None, message=None)

    def _follow(self) -> None:
        """Read what the process says for a moment."""
        assert self._job is not None
        try:
            if not self._pipe.poll(_TICK):
                if not self._process.is_alive():
                    raise EOFError
                self._cancel_if_useless()
                return
            kind, content = self._pipe.recv()
        except (EOFError, OSError):
            self._after_crash()
            return
        if kind == "epoch":
            self._set(epoch=content[0], epochs=content[1])
        elif kind == "failed":
            self._fail(content)
        elif kind == "cancelled":
            self._cancelled += 1
            self._job = None
            self._set(status="waiting", epoch=None)
        else:
            self._done(self._job)

    def _done(self, job: Job) -> None:
        self._job, self._crashes, self._cancelled = None, 0, 0
        self._finished(job)
        self._set(status="idle", epoch=None, message=None, version=job.version)

    def _cancel_if_useless(self) -> None:
        assert self._job is not None
        may = not self._is_cancelling and self._cancelled < MOST_CANCELLED
        if may and self._is_due(self._job.task):
            self._is_cancelling = True
            self._pipe.send("cancel")

    def _after_crash(self) -> None:
        self._stop_process()
        self._crashes += 1
        self._job = None
        if self._crashes >= MOST_CRASHES:
            self._fail("the training process ended several times; it is tried again after further answers.")
        else:
            self._set(status="waiting", epoch=None, message="the training process ended; it starts again.")

    def _fail(self, message: str) -> None:
        self._job, self._crashes = None, 0
        self._set(status="failed", epoch=None, message=message[:300])
        self._closing.wait(5.0)

    def _set(self, **fields: Any) -> None:
        fresh = replace(self.status, **fields)
        if fresh != self.status:
            self.status = fresh
            self._changed()

    def _ensure_process(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=work, args=(str(self._folder), self._seed, theirs), daemon=True, name="spherepair trainer"
        )
        self._process.start()
        theirs.close()

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(timeout=5)
            self._pipe.close()
            self._process = None


class _CancelledError(Exception):
    """Newer answers came."""


def work(folder: str, seed: int, pipe: Connection) -> None:
    """The process: fit what comes through the pipe until it is closed."""
    threading.Thread(target=_end_with_server, daemon=True).start()
    os.nice(10)
    import torch

    threads = max(1, (os.cpu_count() or 2) - 1)
    torch.set_num_threads(threads)
    fitter = _Fitter(Path(folder), seed, pipe)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        if job != "cancel":  # one that came after the end of its job
            try:
                pipe.send(fitter.run(job))
            except (EOFError, OSError, KeyboardInterrupt):
                return


def _end_with_server() -> None:
    """A server that was killed tells nobody; its process must not go on training for nobody."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)


class _Fitter:
    """Fits and writes versions; the pretraining of the first job serves all later ones."""

    def __init__(self, folder: Path, seed: int, pipe: Connection) -> None:
        self._folder, self._pipe = folder, pipe
        self._last_word = 0.0
        self._X = np.load(folder / FEATURES, mmap_mode="r", allow_pickle=False)
        self._training = self._new_training(seed)

    def run(self, job: Job) -> tuple[str, Any]:
        """Fit and write a version; what happened."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SpherePairWarning)
                model = self._training.fit(job.task)
            before = latest_version(self._folder, self._X.shape[0])
            n_answers = job.task.n_answers if len(job.placed.ids) else 0
            write_version(
                self._folder, job.version, model, n_answers=n_answers, placed=job.placed, before=before
            )
            return "done", job.version
        except _CancelledError:
            return "cancelled", None
        except (SpherePairError, MemoryError, RuntimeError, OSError, ValueError) as error:
            return "failed", f"{type(error).__name__}: {error}"

    def _new_training(self, seed: int) -> Any:
        from spherepair.asking.training import Training, default_model
        from spherepair.training.hardware import choose_effort, choose_hardware

        def hear(state: Any) -> None:  # not the method: clone copies its object, and with it the pipe
            self._hear(state)

        # An encoder has weighed the columns already.
        scaling = "none" if (self._folder / ENCODER).exists() else "auto"
        template = default_model(seed, scaling=scaling, progress=hear)
        # On a CPU the network of a small table, however many rows there are: people wait for it.
        template.set_params(hidden_dims=choose_effort(1, choose_hardware()).hidden_dims)
        return Training(self._X, template, seed=seed)

    def _hear(self, state: Any) -> None:
        """After every epoch: say where it stands, hear whether to stop."""
        if self._pipe.poll():
            self._pipe.recv()  # raises EOFError when the server is gone
            raise _CancelledError
        if time.monotonic() - self._last_word > _TICK:
            self._last_word = time.monotonic()
            self._pipe.send(("epoch", (int(state.epoch), _epochs(state))))


def _epochs(state: Any) -> int | None:
    found = getattr(state, "max_epochs", None)
    return None if found is None else int(found)

"""What ``chaos.py`` kills: commands on tiny data, what each must leave behind, and processes to kill.

Commands run in forks of a process that has loaded everything they need. So most of the time until a kill is
spent on work, not on imports, and what is on the disk afterwards is the same.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import make_blobs

from spherepair import Constraints, load
from spherepair.cli import main as run_command
from spherepair.errors import ModelFileError

BRIEF = ("--hidden-dims", "8", "--pretraining", "none", "--max-epochs", "15", "--seed", "0", "--quiet")
N_ROWS, N_ANSWERS, N_FILES = 90, 6, 4
ANSWERER = f"{sys.executable} -S {Path(__file__).with_name('chaos_answerer.py')}"
#: Trials that write a model over an old one.
OF_MODELS = ("save once", "fit over a model", "refine")
TINY_GRID = """
id = "tiny"
title = "Tiny grid"
paper = "nothing"
command = "spherepair bench run tiny.toml"
expected_time = "Seconds."
expected_result = "Records."
layout = "comparison"
datasets = ["digits"]
pairs = [50]
seeds = [0, 1, 2]
metrics = ["ACC"]
parts = ["train"]

[[methods]]
label = "SpherePair"
estimator = "SpherePair"
parameters = { hidden_dims = [8], max_epochs = 1, stopping = "fixed", pretraining = "none" }
"""


class Run:
    """A command, or a function, in a fork of this process.

    Parameters
    ----------
    work : list of words of the command line, or callable
    log : Path
        Gets what it prints.
    most_bytes : int, optional
        No file may become longer.
    """

    def __init__(self, work: Any, log: Path, *, most_bytes: int | None = None) -> None:
        sys.stdout.flush()
        self.log, self.started = log, time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._work(work, most_bytes)

    def _work(self, work: Any, most_bytes: int | None) -> None:
        code = 99
        try:
            os.setsid()
            stream = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for descriptor in (1, 2):
                os.dup2(stream, descriptor)
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
            code = work() or 0 if callable(work) else run_command([str(word) for word in work])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def kill_after(self, seconds: float) -> bool:
        """Kill it and its children unless it has ended before; whether it was killed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return False
            time.sleep(min(0.002, max(0.0, end - time.monotonic())))
        self._kill()
        os.waitpid(self.pid, 0)
        return True

    def wait(self, seconds: float = 120.0) -> int:
        """Its exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        self._kill()
        os.waitpid(self.pid, 0)
        raise TimeoutError(f"{self.log.name} did not end within {seconds:.0f} s")

    def _kill(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it is not yet the first of its group
            os.kill(self.pid, signal.SIGKILL)

    @property
    def said(self) -> str:
        """What it printed."""
        return self.log.read_text(errors="replace")


@dataclass
class Trial:
    """A command, and whether what it has left is whole."""

    work: Any
    #: Raises or returns False if something is half-written.
    is_whole: Callable[[], bool]
    #: Whether an uninterrupted run has left all it should.
    is_complete: Callable[[], bool]
    #: Called before every run.
    prepare: Callable[[], None] = lambda: None
    #: Runs until it is killed.
    is_endless: bool = False
    #: Exit codes of a second run at the same time: done, or told that there is another.
    second: tuple[int, ...] = (0, 2)


class Workshop:
    """Rows, pairs, two models, a data set, and the results of uninterrupted runs.

    Parameters
    ----------
    folder : Path
        For the inputs.
    """

    def __init__(self, folder: Path) -> None:
        self.at, self.log = folder, folder / "log.txt"
        X, y = make_blobs(N_ROWS, centers=3, n_features=4, random_state=0)
        np.save(folder / "rows.npy", X)
        Constraints.from_labels(y, 60, random_state=0).write(folder / "pairs.csv")
        Constraints.from_labels(y, 70, random_state=1).write(folder / "more.csv")
        (folder / "tiny.toml").write_text(TINY_GRID)
        (folder / "set").mkdir()
        for part in range(N_FILES):
            rows = np.ascontiguousarray(X[part::N_FILES].T)
            table = pa.table({f"x{place}": column for place, column in enumerate(rows)})
            pq.write_table(table, folder / "set" / f"{part}.parquet")
        for seed, name in enumerate(("one", "other")):
            self.do(self.fit(folder / name, "--seed", seed))
        (folder / "old.html").write_text("<html>an older report</html>")
        self.known = [load(folder / name).embedding_ for name in ("one", "other")]
        self.out = folder / "expected"
        self.out.mkdir()
        self.expected: dict[str, Any] = {}
        for name, trial in self.trials(self.out).items():
            if not trial.is_endless:
                trial.prepare()
                self.do(trial.work)
                self.expected[name] = self.result(name, self.out)

    def do(self, work: Any) -> None:
        """Run without interruption."""
        run = Run(work, self.log)
        if run.wait():
            raise RuntimeError(run.said)

    def fit(self, out: Path, *further: object) -> list[object]:
        """The words of a fit."""
        return [
            "fit",
            self.at / "rows.npy",
            "-c",
            self.at / "pairs.csv",
            "-k",
            3,
            "-o",
            out,
            *BRIEF,
            *further,
        ]

    def trials(self, out: Path) -> dict[str, Trial]:
        """All commands, with their outputs in a folder."""
        at = self.at
        model, labels, results, record = (out / n for n in ("model", "labels", "results", "answers.jsonl"))

        def start_refine() -> None:
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(at / "one", model)

        def start_report() -> None:
            shutil.copy(at / "old.html", out / "report.html")

        def fresh(folder: Path, count: int, pattern: str) -> Callable[[], None]:
            """Begin anew once all is done."""
            return lambda: (
                shutil.rmtree(folder, ignore_errors=True)
                if len(list(folder.glob(pattern))) >= count
                else None
            )

        def trial(name: str, work: Any, prepare: Callable[[], None] = lambda: None, **further: Any) -> Trial:
            return Trial(
                work,
                lambda: self.is_whole(name, out),
                lambda: self.result(name, out) == self.expected[name],
                prepare,
                **further,
            )

        predict = ["predict", at / "one", at / "set", "--out", labels, "-q", "--device", "cpu", "--engine"]
        report = ["report", at / "one", "--data", at / "rows.npy", "-c", at / "pairs.csv", "-q"]
        ask = ["ask", at / "rows.npy", "-o", record, "--answers", N_ANSWERS, "-q", "--answerer", ANSWERER]
        grid = ["bench", "run", at / "tiny.toml", "--out", results, "-q"]
        refine = ["refine", model, at / "rows.npy", "-c", at / "more.csv", "-o", model, "-q"]
        return {
            "fit --checkpoint": trial(
                "fit --checkpoint",
                self.fit(out / "fitted", "--checkpoint", out / "checkpoint"),
                lambda: self.forget_fit(out),
            ),
            "save": Trial(
                lambda: self.save_for_ever(model),
                lambda: self.is_known(model),
                lambda: True,
                lambda: start_refine() if not model.exists() else None,
                is_endless=True,
            ),
            "save once": trial("save once", lambda: self.save_over(model), start_refine, second=(0,)),
            "fit over a model": trial(
                "fit over a model", self.fit(model, "--seed", 1), start_refine, second=(0,)
            ),
            "refine": trial("refine", refine, start_refine),
            "bench run": trial("bench run", grid, fresh(results / "runs", 3, "*.json"), second=(0,)),
            "report": trial("report", [*report, "-o", out / "report.html"], start_report, second=(0,)),
            "ask": trial("ask", [*ask, *BRIEF[:6]], lambda: self.forget_answers(record)),
            "predict": trial(
                "predict",
                [*predict, "local", "--workers", 1],
                fresh(labels, N_FILES, "*.parquet"),
            ),
        }

    def result(self, name: str, out: Path) -> Any:
        """What a run of a command has left, as plain data; what does not belong to it is not looked at."""
        if name == "fit --checkpoint":
            return load(out / "fitted").labels_.tolist()
        if name in OF_MODELS:
            return load(out / "model").embedding_.tolist()
        if name == "bench run":
            records = [json.loads(file.read_text()) for file in (out / "results" / "runs").glob("*.json")]
            return sorted((record["key"], str(record["scores"])) for record in records)
        if name == "report":
            return (out / "report.html").read_bytes()
        if name == "ask":
            return self.count_answers(out / "answers.jsonl")
        return {
            file.name: pq.read_table(file).to_pydict() for file in sorted((out / "labels").glob("*.parquet"))
        }

    def is_whole(self, name: str, out: Path) -> bool:
        """Whether what is there of an interrupted run is the old or the new result, or a whole part of it."""
        if name == "fit --checkpoint":
            return not (out / "fitted").exists() or self.result(name, out) == self.expected[name]
        if name in OF_MODELS:
            return self.result(name, out) in (self.known[0].tolist(), self.expected[name])
        if name == "bench run":
            return set(self.result(name, out)) <= set(self.expected[name])
        if name == "report":
            return self.result(name, out) in ((self.at / "old.html").read_bytes(), self.expected[name])
        if name == "ask":
            return 0 <= self.count_answers(out / "answers.jsonl") <= N_ANSWERS
        whole = self.expected["predict"]
        return all(whole[file] == content for file, content in self.result(name, out).items())

    def count_answers(self, record: Path) -> int:
        """Answers in a record; each has its number once."""
        if not record.exists() or not record.stat().st_size:
            return 0
        Constraints.read(record)
        lines = [line for line in record.read_text().split("\n")[1:-1] if line]
        numbers = [json.loads(line)["number"] for line in lines]
        return len(numbers) if numbers == list(range(len(numbers))) else -1

    def forget_answers(self, record: Path) -> None:
        """Begin anew once all questions are answered."""
        if self.count_answers(record) >= N_ANSWERS:
            record.unlink()

    def forget_fit(self, out: Path) -> None:
        """Begin anew once a fit has ended; an interrupted one goes on."""
        if (out / "fitted").exists():
            for name in ("fitted", "checkpoint"):
                shutil.rmtree(out / name, ignore_errors=True)

    def save_once(self, model: Path) -> None:
        """Save a model as somebody does who knows nothing of kills."""
        load(self.at / "one").save(model)

    def save_over(self, model: Path) -> int:
        """Save another model over one; 2 where the disk is full, as a program that says so would end."""
        try:
            load(self.at / "other").save(model)
        except ModelFileError as error:
            print(error)
            return 2
        return 0

    def save_for_ever(self, model: Path) -> None:
        """Save one of two models over the other, without end."""
        models = [load(self.at / name) for name in ("one", "other")]
        while True:
            for one in models:
                one.save(model)

    def is_known(self, model: Path) -> bool:
        """Whether a model is one of the two."""
        found = load(model).embedding_
        return any(np.array_equal(found, one) for one in self.known)

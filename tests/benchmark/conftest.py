"""A grid whose runs take a fraction of a second, its results, and a way to run it in another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spherepair.benchmark import GridProgress, read_experiment, run_grid, runner
from spherepair.benchmark.measure import Measured
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import expand

TINY = """
id = "tiny"
title = "Tiny grid"
paper = "nothing"
command = "spherepair bench run tiny.toml --out results"
expected_time = "Seconds."
expected_result = "Numbers."
layout = "comparison"
paper_table = "main"
datasets = ["digits"]
pairs = [100, 300]
seeds = [0, 1]

[[methods]]
label = "SpherePair"
estimator = "SpherePair.paper"
paper = "SpherePair"
parameters = { hidden_dims = [8], max_epochs = 2, pretraining = "none", stopping = "fixed" }

[[methods]]
label = "Defaults"
estimator = "SpherePair"
paper = "SpherePair (no pretraining)"
parameters = { hidden_dims = [8], max_epochs = 2, pretraining = "none", stopping = "fixed" }
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The document of the tiny grid."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


SCORE = {"accuracy": 0.5, "nmi": 0.5, "ari": 0.5}


def instant_run(*_: object) -> Measured:
    """A run that takes no time."""
    return Measured({"scores": {"train": SCORE, "test": SCORE}, "times": {"whole": 0.0}})


def run_slow_grid(file: Path, out: Path, log: Path) -> None:
    """Run a grid whose runs take a moment, and log the title of each."""

    def slow_run(*_: object) -> Measured:
        time.sleep(0.05)
        return instant_run()

    def note(state: GridProgress) -> None:
        with log.open("a") as stream:
            stream.write(f"{state.title}\n")

    runner.measure_run = slow_run
    run_grid(read_experiment(file), out, progress=note)


MADE = {"versions": {"spherepair": "1", "torch": "2", "python": "3"}, "device": "GPU", "commit": "abc"}


def save_run(results, run, accuracy, **extra):
    score = {"accuracy": accuracy / 100, "nmi": 0.5, "ari": 0.4}
    times = {"whole": 60.0, "fit": 30.0, "pretraining": 20.0, "training": 25.0}
    record = {"key": run.spec.key, **MADE, "n_classes": 10, "scores": {"train": score, "test": score}}
    results.save_record(run.spec.key, {**record, "times": times, **extra})


@pytest.fixture
def slow_grid() -> Callable[[Path, Path, Path], None]:
    """A function for ``fork`` that runs a grid slowly enough to be interrupted."""
    return run_slow_grid


@pytest.fixture
def save():
    """Save a run with a given accuracy as if it had been done."""
    return save_run


@pytest.fixture
def document(tiny):
    """The tiny grid on MNIST, whose numbers the paper has."""
    text = tiny.read_text().replace('"digits"', '"mnist"').replace("[100, 300]", "[1000, 10000]")
    tiny.write_text(text)
    return tiny


@pytest.fixture
def folder(document, tmp_path):
    """Its results: 10k pairs in full, of 1k one run, and one failure."""
    experiment = read_experiment(document)
    results = ResultsFolder.create(tmp_path / "out")
    results.save_experiment(experiment)
    for run in expand(experiment):
        if run.pairs == "10k":
            save_run(results, run, 96.0 + run.spec.seed if run.method == "SpherePair" else 99.0)
        elif run.spec.seed == 0 and run.method == "SpherePair":
            save_run(results, run, 80.0)
        elif run.method == "Defaults":
            failure = {"key": run.spec.key, "error": "the <GPU> ran out of | memory.", "time": 0.0}
            results.save_failure(run.spec.key, failure)
    return tmp_path / "out"

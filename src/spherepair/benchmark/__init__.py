"""Run the paper's experiments and report the results beside the paper's."""

from __future__ import annotations

from spherepair.benchmark.benchmark_report import write_report
from spherepair.benchmark.experiments import Experiment, list_experiments, read_experiment
from spherepair.benchmark.runner import GridOutcome, GridProgress, run_grid

__all__ = [
    "Experiment",
    "GridOutcome",
    "GridProgress",
    "list_experiments",
    "read_experiment",
    "run_grid",
    "write_report",
]

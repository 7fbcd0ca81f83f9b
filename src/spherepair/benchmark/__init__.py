"""The paper's experiments again: grids of runs that survive being killed, and a report beside the paper."""

from __future__ import annotations

from spherepair.benchmark.experiments import Experiment, list_experiments, read_experiment
from spherepair.benchmark.reporting import write_report
from spherepair.benchmark.runner import GridOutcome, run_grid

__all__ = ["Experiment", "GridOutcome", "list_experiments", "read_experiment", "run_grid", "write_report"]

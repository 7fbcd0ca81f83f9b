"""A grid so small that a run takes a fraction of a second, and a way to run it in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Start the benchmark as it is started where typer and rich are not installed."""

    def run(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "spherepair.benchmark", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    return run

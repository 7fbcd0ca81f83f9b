"""Figures of the report."""

from __future__ import annotations

import pytest

from spherepair.benchmark import read_experiment, write_report
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import expand


@pytest.mark.parametrize(
    ("layout", "grid", "figure"),
    [
        ("sweep", "\n[sweep]\nembedding_dim = [2, 10, 100]\n", "tiny-mnist.svg"),
        ("imbalance", "", "tiny-mnist-1k.svg"),
        ("comparison", "", "tiny-mnist.svg"),
    ],
    ids=["sweep", "imbalance", "comparison"],
)
def test_sweeps_are_drawn_with_gaps_where_runs_are_missing(document, save, tmp_path, layout, grid, figure):
    text = document.read_text().replace('layout = "comparison"', f'layout = "{layout}"')
    if layout == "imbalance":
        text = text.replace("pairs = [1000, 10000]", "imbalanced = [1000]")
    document.write_text(text + grid)
    experiment = read_experiment(document)
    results = ResultsFolder.create(tmp_path / "out")
    results.save_experiment(experiment)
    for run in expand(experiment)[::3]:
        save(results, run, 90.0)
    page = write_report(tmp_path / "out").html.read_text()
    assert (tmp_path / "out" / "figures" / figure).read_text().startswith("<?xml")
    assert "data:image/svg+xml;base64," in page

"""Tables of the report."""

from __future__ import annotations

import pytest

from spherepair.benchmark import read_experiment, write_report
from spherepair.benchmark.paper_comparison import Cell
from spherepair.benchmark.result_tables import difference_entry, score_entry
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import expand


def test_difference_is_judged_by_what_is_shown():
    assert difference_entry(Cell((96.96, 97.0), 2, paper=97.0)).tone == ""
    assert difference_entry(Cell((96.9, 96.9), 2, paper=97.0)).tone == "clearly below"
    assert difference_entry(Cell((95.0, 99.0), 2, paper=98.0)).tone == "below"
    assert difference_entry(Cell((95.0,), 1, paper=98.0, is_stand_in=True)).text == ""
    assert score_entry(Cell((), 3)).tone == "missing"


@pytest.mark.parametrize(
    ("layout", "lines", "extra", "expected"),
    [
        (
            "n_clusters",
            'measure = ["scores", "n_clusters"]',
            {
                "cluster_number": {
                    way: {"value": 9, "confidence": 0.5, "curve": [0.1] * 12, "seconds": 1.0}
                    for way in ("tail-angle", "silhouette", "lifetime", "consensus")
                }
            },
            "| 10k, silhouette | 9 9 ▽ | 10 | 0% | 100% | 0.50 |",
        ),
        (
            "tail_angles",
            'measure = ["scores", "tail_angles"]\ntail_ratios = [0.05]',
            {"tail_angles": {"tail_ratios": [0.05], "curves": [[1.0] * 8 + [1.5] * 4]}},
            "| 10k, 0.05 | 57.3 | 85.9 | 85.9 | 85.9 |",
        ),
        (
            "times",
            'measure = ["scores", "clustering"]',
            {"clustering": {"kmeans": {"seconds": 0.5}, "ward": {"error": "no fastcluster"}}},
            "| SpherePair, training with pretraining | 50 ± 0 | 2062 | 41.2 |",
        ),
    ],
    ids=["n_clusters", "tail_angles", "times"],
)
def test_other_layouts_have_their_tables(document, save, tmp_path, layout, lines, extra, expected):
    text = document.read_text().replace('layout = "comparison"', f'layout = "{layout}"\n{lines}')
    document.write_text(text.replace("[1000, 10000]", "[10000]"))
    experiment = read_experiment(document)
    results = ResultsFolder.create(tmp_path / "out")
    results.save_experiment(experiment)
    for run in expand(experiment):
        save(results, run, 96.0, **extra)
    written = write_report(tmp_path / "out").markdown.read_text()
    assert expected in written
    assert ("figures/" in written) == (layout != "times")

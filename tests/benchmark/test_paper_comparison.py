"""Results gathered into cells beside the paper's numbers."""

from __future__ import annotations

import pytest

from spherepair.benchmark.paper_comparison import (
    Entry,
    PaperCell,
    Setting,
    paper_score,
    paper_seconds,
    summarize,
)
from spherepair.benchmark.result_tables import score_table
from spherepair.benchmark.results_folder import ResultsFolder


def test_paper_has_all_its_tables():
    assert paper_score("main", PaperCell("fashion_mnist", 1000, "SpherePair")) == 69.8
    assert paper_score("main", PaperCell("mnist", 1000, "SpherePair (no pretraining)", part="train")) == 69.8
    assert paper_score("ward", PaperCell("cifar100_20", 1000, "AutoEmbedder", "NMI")) == 20.7
    sized = PaperCell("cifar100_20", 10_000, "SpherePair", embedding_dim=30)
    assert paper_score("embedding_dim", sized) == 64.3
    without_size = PaperCell("cifar100_20", 1000, "VanillaDCC", embedding_dim=30)
    assert paper_score("embedding_dim", without_size) == 34.3
    assert paper_seconds("n_clusters", "PCA-based", "cifar100_20") == 3


def test_cells_stand_beside_the_paper(folder):
    summary = summarize(ResultsFolder.open(folder).experiments()[0], ResultsFolder(folder))
    cell = summary.cell(Setting("mnist", "SpherePair", "10k"))
    assert (cell.mean, cell.spread, cell.paper) == (pytest.approx(96.5), pytest.approx(0.5), 97.0)
    table = score_table(summary, "mnist")
    assert table.header == ("method", "1k", "paper", "difference", "10k", "paper", "difference")
    assert [entry.text for entry in table.rows[0]] == [
        *("SpherePair", "80.0 (1 of 2)", "91.7", "−11.7"),
        *("96.5 ± 0.5", "97.0", "−0.5"),
    ]
    assert [entry.tone for entry in table.rows[0]] == ["", "", "", "clearly below", "", "", "below"]
    assert table.rows[1][1] == Entry("missing", "missing")
    assert table.rows[1][4] == Entry("99.0 ± 0.0", "best")

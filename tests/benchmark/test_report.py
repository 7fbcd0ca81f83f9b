"""The report: ours beside the paper's, what is below, what is missing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from spherepair.benchmark import read_experiment, write_report
from spherepair.benchmark.document import Command, Entry, Heading, Paragraph, Picture, Table
from spherepair.benchmark.grid import expand
from spherepair.benchmark.html import to_html
from spherepair.benchmark.markdown import to_markdown
from spherepair.benchmark.paper import PaperCell, paper_score, paper_seconds
from spherepair.benchmark.store import Store
from spherepair.benchmark.summary import Cell, Place, summarise
from spherepair.benchmark.tables import difference_entry, score_entry, score_table

MADE = {"versions": {"spherepair": "1", "torch": "2", "python": "3"}, "device": "GPU", "commit": "abc"}


def keep(store, run, accuracy, **extra):
    score = {"accuracy": accuracy / 100, "nmi": 0.5, "ari": 0.4}
    times = {"whole": 60.0, "fit": 30.0, "pretraining": 20.0, "training": 25.0}
    record = {"key": run.spec.key, **MADE, "n_classes": 10, "scores": {"train": score, "test": score}}
    store.keep(run.spec.key, {**record, "times": times, **extra})


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
    store = Store.create(tmp_path / "out")
    store.keep_experiment(experiment)
    for run in expand(experiment):
        if run.pairs == "10k":
            keep(store, run, 96.0 + run.spec.seed if run.method == "SpherePair" else 99.0)
        elif run.spec.seed == 0 and run.method == "SpherePair":
            keep(store, run, 80.0)
        elif run.method == "Defaults":
            failure = {"key": run.spec.key, "error": "the <GPU> ran out of | memory.", "time": 0.0}
            store.keep_failure(run.spec.key, failure)
    return tmp_path / "out"


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
    summary = summarise(Store.open(folder).experiments()[0], Store(folder))
    cell = summary.cell(Place("mnist", "SpherePair", "10k"))
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


def test_report_shows_differences_gaps_and_failures(folder):
    written = write_report(folder)
    assert (written.n_done, written.n_expected, written.n_failed) == (5, 8, 2)
    text = written.markdown.read_text()
    assert "5 of 8 runs are done, 3 are missing, of which 2 failed; together they took 5.0 minutes." in text
    assert "| SpherePair | 80.0 (1 of 2) | 91.7 | −11.7 ▼ | 96.5 ± 0.5 | 97.0 | −0.5 ▽ |" in text
    assert "| Defaults | *missing* |" in text
    assert (
        "in 3 places: 1 at or above it, 1 below by no more than the spread of our seeds, 1 by more. "
        "Furthest below: mnist, SpherePair, 1k pairs, by 11.7 points."
    ) in text
    assert "10k: Defaults wins (of those run here, in the paper SpherePair)." in text
    assert "5 runs: GPU, spherepair 1, torch 2, python 3, commit abc." in text
    assert "Failed: mnist, Defaults, 1k pairs, seed 0: the \\<GPU\\> ran out of \\| memory." in text
    page = written.html.read_text()
    assert '<td class="clearly-below">−11.7</td>' in page
    assert '<td class="missing">missing</td>' in page
    assert "the &lt;GPU&gt; ran out of | memory." in page
    assert len((folder / "results.jsonl").read_text().splitlines()) == 5


def test_stand_in_is_marked_and_only_ranked(document, folder):
    document.write_text(document.read_text() + '\n[stand_ins]\nmnist = "fashion_mnist"\n')
    Store(folder).keep_experiment(read_experiment(document))
    text = write_report(folder).markdown.read_text()
    assert "**mnist, test ACC in percent, stands in for the paper's fashion\\_mnist**" in text
    assert "difference |" not in text
    assert "| SpherePair | 80.0 (1 of 2) | 69.8 | 96.5 ± 0.5 | 83.6 |" in text
    assert "mnist is not the paper's fashion\\_mnist but stands in for it: only rankings compare." in text


def test_page_needs_nothing_else_and_is_well_formed(folder):
    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.wanted = [], []

        def handle_starttag(self, tag, attrs):
            self.wanted += [value for name, value in attrs if name in ("src", "href")]
            if tag not in ("meta", "img"):
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    reader = Reader()
    reader.feed(write_report(folder).html.read_text())
    assert reader.open == []
    assert all(value.startswith(("data:", "#")) for value in reader.wanted)


def test_sections_can_be_reached_from_the_top():
    page = to_html([Heading("Top", 1), Heading("One & all"), Heading("Two")], title="t")
    assert '<a href="#one-all">One &amp; all</a>' in page
    assert '<h2 id="one-all">' in page


def test_report_can_go_elsewhere(folder, tmp_path):
    written = write_report(folder, out=tmp_path / "docs")
    assert written.markdown == tmp_path / "docs" / "report.md"
    assert not (folder / "report.md").exists()


def test_text_is_never_markup():
    bad = "<script>alert(1)</script> | `x` *y* [z](w)"
    blocks = [
        Heading(bad),
        Paragraph(bad),
        Command(bad),
        Table((bad, "b"), ((Entry(bad), Entry(bad, "best")),), bad),
        Picture("figures/a.svg", bad, b"<svg/>"),
    ]
    page = to_html(blocks, title=bad)
    assert "<script" not in page
    text = to_markdown([blocks[0], blocks[1], blocks[3], blocks[4]])
    assert not re.search(r"(?<!\\)[<`]", text)


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
def test_other_layouts_have_their_tables(document, tmp_path, layout, lines, extra, expected):
    text = document.read_text().replace('layout = "comparison"', f'layout = "{layout}"\n{lines}')
    document.write_text(text.replace("[1000, 10000]", "[10000]"))
    experiment = read_experiment(document)
    store = Store.create(tmp_path / "out")
    store.keep_experiment(experiment)
    for run in expand(experiment):
        keep(store, run, 96.0, **extra)
    written = write_report(tmp_path / "out").markdown.read_text()
    assert expected in written
    assert ("figures/" in written) == (layout != "times")


@pytest.mark.parametrize(
    ("layout", "grid", "figure"),
    [
        ("sweep", "\n[sweep]\nembedding_dim = [2, 10, 100]\n", "tiny-mnist.svg"),
        ("imbalance", "", "tiny-mnist-1k.svg"),
        ("comparison", "", "tiny-mnist.svg"),
    ],
    ids=["sweep", "imbalance", "comparison"],
)
def test_sweeps_are_drawn_with_gaps_where_runs_are_missing(document, tmp_path, layout, grid, figure):
    text = document.read_text().replace('layout = "comparison"', f'layout = "{layout}"')
    if layout == "imbalance":
        text = text.replace("pairs = [1000, 10000]", "imbalanced = [1000]")
    document.write_text(text + grid)
    experiment = read_experiment(document)
    store = Store.create(tmp_path / "out")
    store.keep_experiment(experiment)
    for run in expand(experiment)[::3]:
        keep(store, run, 90.0)
    page = write_report(tmp_path / "out").html.read_text()
    assert (tmp_path / "out" / "figures" / figure).read_text().startswith("<?xml")
    assert "data:image/svg+xml;base64," in page

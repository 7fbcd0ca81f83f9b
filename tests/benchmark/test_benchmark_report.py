"""The report: differences, gaps and failures, in Markdown and HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from spherepair.benchmark import read_experiment, write_report
from spherepair.benchmark.benchmark_report import to_html, to_markdown
from spherepair.benchmark.paper_comparison import Command, Entry, Heading, Paragraph, Picture, Table
from spherepair.benchmark.results_folder import ResultsFolder


def test_report_shows_differences_gaps_and_failures(folder):
    written = write_report(folder)
    assert (written.n_done, written.n_expected, written.n_failed) == (5, 8, 2)
    text = written.markdown.read_text()
    assert "5 of 8 runs are done, 3 are missing, of which 2 failed; together they took 5.0 minutes." in text
    assert "| SpherePair | 80.0 (1 of 2) | 91.7 | −11.7 ▼ | 96.5 ± 0.5 | 97.0 | −0.5 ▽ |" in text
    assert "| Defaults | *missing* |" in text
    assert (
        "in 3 settings: 1 at or above it, 1 below by no more than the spread of our seeds, 1 by more. "
        "Furthest below: mnist, SpherePair, 1k pairs, by 11.7 points."
    ) in text
    assert "10k: Defaults wins (of these methods, SpherePair in the paper)." in text
    assert "5 runs: GPU, spherepair 1, torch 2, python 3, commit abc." in text
    assert "Failed: mnist, Defaults, 1k pairs, seed 0: the \\<GPU\\> ran out of \\| memory." in text
    page = written.html.read_text()
    assert '<td class="clearly-below">−11.7</td>' in page
    assert '<td class="missing">missing</td>' in page
    assert "the &lt;GPU&gt; ran out of | memory." in page
    assert len((folder / "results.jsonl").read_text().splitlines()) == 5


def test_stand_in_is_marked_and_only_ranked(document, folder):
    document.write_text(document.read_text() + '\n[stand_ins]\nmnist = "fashion_mnist"\n')
    ResultsFolder(folder).save_experiment(read_experiment(document))
    text = write_report(folder).markdown.read_text()
    assert "**mnist, test ACC in percent, replaces the paper's fashion\\_mnist**" in text
    assert "difference |" not in text
    assert "| SpherePair | 80.0 (1 of 2) | 69.8 | 96.5 ± 0.5 | 83.6 |" in text
    assert "mnist replaces the paper's fashion\\_mnist: only rankings can be compared." in text


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

"""The report of a results folder: Markdown with its figures, and one self-contained HTML page."""

from __future__ import annotations

import base64
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import chain
from pathlib import Path

from spherepair.benchmark.interview_results import interview_tables
from spherepair.benchmark.measure import Record
from spherepair.benchmark.paper_comparison import (
    Block,
    Command,
    Entry,
    Heading,
    Paragraph,
    Picture,
    Summary,
    Table,
    paper_source,
    summarize,
)
from spherepair.benchmark.result_figures import experiment_pictures
from spherepair.benchmark.result_tables import angle_tables, balance, number_tables, score_tables, time_tables
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.errors import SpherePairError
from spherepair.files import atomic_write_bytes, atomic_write_text

TITLE = "Results beside the paper's"
#: Failures that are listed; all are counted.
SHOWN_FAILURES = 20

_LAYOUT_TABLES: dict[str, tuple[Callable[[Summary], Iterator[Block]], ...]] = {
    "comparison": (balance, score_tables),
    "sweep": (score_tables,),
    "imbalance": (score_tables,),
    "n_clusters": (number_tables, score_tables),
    "tail_angles": (angle_tables,),
    "times": (time_tables,),
    "asking": (interview_tables,),
    "pictures": (score_tables,),
}


@dataclass(frozen=True)
class WrittenReport:
    """The files of a report, and the number of runs in it."""

    markdown: Path
    html: Path
    n_done: int
    n_expected: int
    n_failed: int


def write_report(
    folder: str | os.PathLike[str], *, out: str | os.PathLike[str] | None = None
) -> WrittenReport:
    """Write ``report.md`` with ``figures/``, and ``report.html``.

    Parameters
    ----------
    folder : path
        Results folder of :func:`run_grid`; unfinished grids are reported as far as they are.
    out : path, optional
        Where to write; the same folder if not given.

    Returns
    -------
    WrittenReport
    """
    results = ResultsFolder.open(folder)
    summaries = [summarize(experiment, results) for experiment in results.experiments()]
    blocks = [*_front(summaries), *chain.from_iterable(_section(summary, results) for summary in summaries)]
    target = Path(folder if out is None else out)
    target.mkdir(parents=True, exist_ok=True)
    _write_pictures(target, blocks)
    atomic_write_text(target / "report.md", to_markdown(blocks))
    atomic_write_text(target / "report.html", to_html(blocks, title=TITLE))
    results.write_lines()
    return WrittenReport(
        target / "report.md",
        target / "report.html",
        sum(len(summary.records) for summary in summaries),
        sum(summary.n_expected for summary in summaries),
        sum(len(summary.failures) for summary in summaries),
    )


def _front(summaries: list[Summary]) -> Iterator[Block]:
    yield Heading(TITLE, 1)
    yield Paragraph(
        f"Compared with: {paper_source()}. Ours are means ± standard deviations over seeds, NMI by the "
        "geometric mean. A difference is ours minus the paper's; ▽ (light) marks results below the paper's "
        "by no more than that spread, ▼ (strong) by more. The best of a column is bold; runs that were not "
        "done are missing. Where a dataset only replaces the paper's, only rankings are compared."
    )
    records = {key: record for summary in summaries for key, record in summary.records.items()}
    environments = Counter(_environment(record) for record in records.values())
    for how, count in environments.most_common():
        yield Paragraph(f"{count} runs: {how}.")


def _environment(record: Record) -> str:
    versions = record["versions"]
    shown = ", ".join(f"{name} {versions[name]}" for name in ("spherepair", "torch", "python"))
    return f"{record['device']}, {shown}, commit {_short_commit(record['commit'])}"


def _short_commit(commit: str | None) -> str:
    """Twelve digits of a commit, and the mark of changed sources.

    Examples
    --------
    >>> _short_commit("0123456789abcdef+"), _short_commit(None)
    ('0123456789ab+', 'unknown')
    """
    return "unknown" if commit is None else commit[:12] + "+" * (len(commit) > 12 and commit.endswith("+"))


def _section(summary: Summary, results: ResultsFolder) -> Iterator[Block]:
    experiment = summary.experiment
    yield Heading(experiment.title)
    yield Paragraph(f"In the paper: {experiment.paper}. Expected: {experiment.expected_result}")
    yield Command(experiment.command)
    yield Paragraph(f"{_progress(summary)} Expected time: {experiment.expected_time}")
    yield from _failures(summary)
    for tables in _LAYOUT_TABLES[experiment.layout]:
        yield from tables(summary)
    try:
        yield from experiment_pictures(summary, results)
    except SpherePairError as error:
        yield Paragraph(f"No figures: {error}")


def _progress(summary: Summary) -> str:
    n_done, n_expected = len(summary.records), summary.n_expected
    missing = n_expected - n_done
    seconds = sum(record["times"]["whole"] for record in summary.records.values())
    sentence = f"{n_done} of {n_expected} runs are done"
    if missing:
        sentence += f", {missing} are missing, of which {len(summary.failures)} failed"
    return f"{sentence}; together they took {seconds / 60:.1f} minutes."


def _failures(summary: Summary) -> Iterator[Paragraph]:
    runs = {run.spec.key: run for planned in summary.runs.values() for run in planned}
    failed = [key for key in runs if key in summary.failures]
    for key in failed[:SHOWN_FAILURES]:
        yield Paragraph(f"Failed: {runs[key].title}: {summary.failures[key]['error']}")
    if len(failed) > SHOWN_FAILURES:
        yield Paragraph(f"... and {len(failed) - SHOWN_FAILURES} more.")


def _write_pictures(target: Path, blocks: list[Block]) -> None:
    for block in blocks:
        if isinstance(block, Picture):
            path = target / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(path, block.content)


#: Markdown has no colors; these marks stand for them.
MARKS = {"below": " ▽", "clearly below": " ▼"}


def to_markdown(blocks: Iterable[Block]) -> str:
    """Render blocks as Markdown.

    Examples
    --------
    >>> table = Table(("method", "10k"), ((Entry("A"), Entry("9", "best")),))
    >>> print(to_markdown([Heading("Results", 1), table]))
    # Results
    <BLANKLINE>
    | method | 10k |
    |---|---:|
    | A | **9** |
    <BLANKLINE>
    """
    return "\n\n".join(_markdown_block(block) for block in blocks) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_markdown_text(block.text)}"
    if isinstance(block, Command):
        return f"```\n{block.text}\n```"
    if isinstance(block, Table):
        return _markdown_table(block)
    if isinstance(block, Picture):
        return f"![{_markdown_text(block.caption)}]({block.file})"
    return _markdown_text(block.text)


def _markdown_table(table: Table) -> str:
    lines = [_markdown_line(_markdown_text(name) for name in table.header)]
    lines.append("|---|" + "---:|" * (len(table.header) - 1))
    lines += [_markdown_line(map(_markdown_entry, row)) for row in table.rows]
    caption = f"**{_markdown_text(table.caption)}**\n\n" if table.caption else ""
    return caption + "\n".join(lines)


def _markdown_entry(entry: Entry) -> str:
    text = _markdown_text(entry.text)
    if entry.tone == "missing":
        return f"*{text}*"
    if entry.tone == "best":
        return f"**{text}**"
    return text + MARKS.get(entry.tone, "")


def _markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_text(text: str) -> str:
    """Escaped text: it cannot end a table cell or start markup."""
    for character in "\\`*_<>[]|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --quiet: #667085; --line: #d8dce3; --paper: #ffffff;
  --below: #fde8cf; --clearly: #f9c5b4; --best: #d9ecf7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --quiet: #9aa3b2; --line: #3a404c;
  --paper: #15181e; --below: #4a3413; --clearly: #5e2417; --best: #16384c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; white-space: nowrap; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--quiet); font-weight: 500; }
td.below { background: var(--below); } td.clearly-below { background: var(--clearly); }
td.best { background: var(--best); font-weight: 600; }
td.missing { color: var(--quiet); font-style: italic; }
pre { background: color-mix(in srgb, var(--line) 40%, transparent); padding: .6rem .8rem; overflow-x: auto; }
figure { margin: 1rem 0; } figure img { max-width: 100%; background: #ffffff; }
figcaption { color: var(--quiet); }
a { color: inherit; } nav ul { padding-left: 1.2rem; }
@media print { body { max-width: none; margin: 0; } h2 { break-before: page; } }
"""
_IMAGE_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def to_html(blocks: Iterable[Block], *, title: str) -> str:
    """Render blocks as one HTML page; their text is escaped.

    Examples
    --------
    >>> page = to_html([Heading("1 < 2", 1)], title="Results")
    >>> ">1 &lt; 2</h1>" in page
    True
    """
    listed = list(blocks)
    body = "\n".join([*map(_html_block, listed[:1]), _contents(listed), *map(_html_block, listed[1:])])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _html_block(block: Block) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{_anchor(block)}">{escape(block.text)}</h{block.level}>'
    if isinstance(block, Command):
        return f"<pre><code>{escape(block.text)}</code></pre>"
    if isinstance(block, Table):
        return _html_table(block)
    if isinstance(block, Picture):
        return _html_picture(block)
    return f"<p>{escape(block.text)}</p>"


def _contents(blocks: list[Block]) -> str:
    """Links to the sections, if there are several."""
    sections = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    if len(sections) < 2:
        return ""
    links = (f'<li><a href="#{_anchor(section)}">{escape(section.text)}</a></li>' for section in sections)
    return f"<nav><ul>{''.join(links)}</ul></nav>"


def _anchor(heading: Heading) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.text.lower()).strip("-")


def _html_table(table: Table) -> str:
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "\n".join(f"<tr>{''.join(map(_html_entry, row))}</tr>" for row in table.rows)
    inside = f"{caption}<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody>"
    return f'<div class="scroll"><table>{inside}</table></div>'


def _html_entry(entry: Entry) -> str:
    kind = f' class="{entry.tone.replace(" ", "-")}"' if entry.tone else ""
    return f"<td{kind}>{escape(entry.text)}</td>"


def _html_picture(picture: Picture) -> str:
    kind = _IMAGE_TYPES[picture.file[picture.file.rindex(".") :]]
    data = base64.b64encode(picture.content).decode()
    caption = escape(picture.caption)
    image = f'<img src="data:{kind};base64,{data}" alt="{caption}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"

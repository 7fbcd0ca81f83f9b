"""The report of a folder of results: Markdown with its figures, and one HTML page that needs nothing else."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from spherepair.benchmark.document import Block, Command, Heading, Paragraph, Picture
from spherepair.benchmark.figures import experiment_pictures
from spherepair.benchmark.html import to_html
from spherepair.benchmark.markdown import to_markdown
from spherepair.benchmark.other_tables import angle_tables, number_tables, time_tables
from spherepair.benchmark.paper import paper_source
from spherepair.benchmark.runner import run_name
from spherepair.benchmark.store import Record, Store, write_whole
from spherepair.benchmark.summary import Summary, summarise
from spherepair.benchmark.tables import balance, score_tables
from spherepair.errors import SpherePairError

TITLE = "Results beside the paper's"
#: Failures that are written out; all are counted.
SHOWN_FAILURES = 20

_TABLES: dict[str, tuple[Callable[[Summary], Iterator[Block]], ...]] = {
    "comparison": (balance, score_tables),
    "sweep": (score_tables,),
    "imbalance": (score_tables,),
    "n_clusters": (number_tables, score_tables),
    "tail_angles": (angle_tables,),
    "times": (time_tables,),
    "pictures": (score_tables,),
}


@dataclass(frozen=True)
class WrittenReport:
    """The files of a report, and how many of the runs are in it."""

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
        Made by :func:`run_grid`; grids that are not finished are reported with what is there.
    out : path, optional
        Where to write; the same folder if not given.
    """
    store = Store.open(folder)
    summaries = [summarise(experiment, store) for experiment in store.experiments()]
    blocks = [*_front(summaries), *chain.from_iterable(_section(summary, store) for summary in summaries)]
    target = Path(folder if out is None else out)
    target.mkdir(parents=True, exist_ok=True)
    _write_pictures(target, blocks)
    write_whole(target / "report.md", to_markdown(blocks))
    write_whole(target / "report.html", to_html(blocks, title=TITLE))
    store.write_lines()
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
        f"Beside ours stand the numbers of: {paper_source()}. Ours are means ± standard deviations over "
        "seeds, NMI by the geometric mean. A difference is ours minus the paper's; ▽ (light) marks where we "
        "are below it by no more than that spread, ▼ (strong) where by more. The best of a column is bold; "
        "what was not run is called missing. Where a data set only stands in for the paper's, numbers are "
        "not compared, only rankings."
    )
    records = {key: record for summary in summaries for key, record in summary.records.items()}
    made = Counter(_made_with(record) for record in records.values())
    for how, count in made.most_common():
        yield Paragraph(f"{count} runs: {how}.")


def _made_with(record: Record) -> str:
    versions = record["versions"]
    shown = ", ".join(f"{name} {versions[name]}" for name in ("spherepair", "torch", "python"))
    return f"{record['device']}, {shown}, commit {_short(record['commit'])}"


def _short(commit: str | None) -> str:
    """Twelve letters of a commit, and the mark of changed sources.

    Examples
    --------
    >>> _short("0123456789abcdef+"), _short(None)
    ('0123456789ab+', 'unknown')
    """
    return "unknown" if commit is None else commit[:12] + "+" * (len(commit) > 12 and commit.endswith("+"))


def _section(summary: Summary, store: Store) -> Iterator[Block]:
    experiment = summary.experiment
    yield Heading(experiment.title)
    yield Paragraph(f"In the paper: {experiment.paper}. Expected: {experiment.expected_result}")
    yield Command(experiment.command)
    yield Paragraph(f"{_progress(summary)} Expected time: {experiment.expected_time}")
    yield from _failures(summary)
    for tables in _TABLES[experiment.layout]:
        yield from tables(summary)
    try:
        yield from experiment_pictures(summary, store)
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
        yield Paragraph(f"Failed: {run_name(runs[key])}: {summary.failures[key]['error']}")
    if len(failed) > SHOWN_FAILURES:
        yield Paragraph(f"... and {len(failed) - SHOWN_FAILURES} more.")


def _write_pictures(target: Path, blocks: list[Block]) -> None:
    for block in blocks:
        if isinstance(block, Picture):
            path = target / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            temporary.write_bytes(block.content)
            os.replace(temporary, path)

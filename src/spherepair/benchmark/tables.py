"""Tables of scores: ours beside the paper's, the difference, who wins, and whether rankings agree."""

from __future__ import annotations

from collections.abc import Iterator

from spherepair.benchmark.document import MISSING, NOTHING, Block, Entry, Paragraph, Table
from spherepair.benchmark.summary import Cell, Place, Summary, rank_agreement

Row = tuple[str, tuple[tuple[str, object], ...]]


def score_tables(summary: Summary) -> Iterator[Block]:
    """One table per data set and score, with a sentence on who wins."""
    experiment = summary.experiment
    for dataset in summary.values_of("dataset"):
        for part in experiment.parts:
            for metric in experiment.metrics:
                yield score_table(summary, dataset, metric=metric, part=part)
            yield from _verdict(summary, dataset, part=part)


def balance(summary: Summary) -> Iterator[Paragraph]:
    """How often we are level with the paper, by test accuracy, and where we fall short most."""
    cells = {place: summary.cell(place) for place in summary.runs}
    compared = {place: cell.difference for place, cell in cells.items() if cell.difference is not None}
    if not compared:
        return
    tones = [difference_entry(cells[place]).tone for place in compared]
    sentence = (
        f"Test accuracy beside the paper's in {len(tones)} places: {tones.count('')} at or above it, "
        f"{tones.count('below')} below by no more than the spread of our seeds, "
        f"{tones.count('clearly below')} by more."
    )
    worst = min(compared, key=lambda place: compared[place])
    if compared[worst] < 0:
        where = f"{worst.dataset}, {_row_label((worst.method, worst.swept))}, {worst.pairs} pairs"
        sentence += f" Furthest below: {where}, by {-compared[worst]:.1f} points."
    yield Paragraph(sentence)


def score_table(summary: Summary, dataset: str, *, metric: str = "ACC", part: str = "test") -> Table:
    """Rows are methods (and values of a sweep), columns numbers of pairs."""
    columns = summary.values_of("pairs")
    grid = {
        row: [summary.cell(_place(dataset, row, pairs), metric, part) for pairs in columns]
        for row in _rows(summary)
    }
    stand_in = summary.experiment.stand_ins.get(dataset)
    extra = _extra_columns([cell for cells in grid.values() for cell in cells])
    best = [_best([cells[place] for cells in grid.values()]) for place in range(len(columns))]
    rows = tuple((Entry(_row_label(row)), *_entries(cells, best, extra=extra)) for row, cells in grid.items())
    header = ("method", *(name for pairs in columns for name in (pairs, *extra)))
    remark = f", stands in for the paper's {stand_in}" if stand_in else ""
    return Table(header, rows, f"{dataset}, {part} {metric} in percent{remark}")


def score_entry(cell: Cell, *, is_best: bool = False) -> Entry:
    """Mean ± spread over seeds; how many of the runs are there where some are missing.

    Examples
    --------
    >>> score_entry(Cell((90.0, 92.0), 3)).text
    '91.0 ± 1.0 (2 of 3)'
    """
    if cell.mean is None:
        return MISSING
    text = cell.text()
    if len(cell.values) < cell.n_expected:
        text += f" ({len(cell.values)} of {cell.n_expected})"
    return Entry(text, "best" if is_best else "")


def difference_entry(cell: Cell) -> Entry:
    """Ours minus the paper's, toned where we are below.

    Examples
    --------
    >>> difference_entry(Cell((90.0, 90.0), 2, paper=92.0))
    Entry(text='−2.0', tone='clearly below')
    """
    if cell.difference is None:
        return NOTHING
    text = f"{cell.difference:+.1f}".replace("-", "−")
    if not cell.is_below:
        return Entry(text)
    return Entry(text, "clearly below" if -cell.difference > cell.spread + 0.05 else "below")


def _extra_columns(cells: list[Cell]) -> tuple[str, ...]:
    """The paper's number where it has any, and the difference where that means something."""
    if all(cell.paper is None for cell in cells):
        return ()
    return ("paper",) if cells[0].is_stand_in else ("paper", "difference")


def _entries(cells: list[Cell], best: list[float | None], *, extra: tuple[str, ...]) -> Iterator[Entry]:
    for cell, highest in zip(cells, best, strict=True):
        yield score_entry(cell, is_best=cell.mean is not None and cell.mean == highest)
        if "paper" in extra:
            yield NOTHING if cell.paper is None else Entry(f"{cell.paper:.1f}")
        if "difference" in extra:
            yield difference_entry(cell)


def _best(cells: list[Cell]) -> float | None:
    means = [cell.mean for cell in cells if cell.mean is not None]
    return max(means) if len(means) > 1 else None


def _rows(summary: Summary) -> list[Row]:
    return list(dict.fromkeys((place.method, place.swept) for place in summary.runs))


def _row_label(row: Row) -> str:
    method, swept = row
    return method + "".join(f", {name} = {value}" for name, value in swept)


def _place(dataset: str, row: Row, pairs: str) -> Place:
    return Place(dataset, row[0], pairs, row[1])


def _verdict(summary: Summary, dataset: str, *, part: str) -> Iterator[Paragraph]:
    """Who wins by accuracy, here and in the paper, and how far the rankings agree."""
    said = [_verdict_for(summary, dataset, pairs, part) for pairs in summary.values_of("pairs")]
    sentences = [sentence for sentence in said if sentence]
    if sentences:
        stand_in = summary.experiment.stand_ins.get(dataset)
        if stand_in:
            remark = f"{dataset} is not the paper's {stand_in} but stands in for it: only rankings compare."
            sentences.insert(0, remark)
        yield Paragraph(" ".join(sentences))


def _verdict_for(summary: Summary, dataset: str, pairs: str, part: str) -> str:
    cells = {row: summary.cell(_place(dataset, row, pairs), "ACC", part) for row in _rows(summary)}
    ours = {row: cell.mean for row, cell in cells.items() if cell.mean is not None}
    if len(ours) < 2:
        return ""
    first = max(ours, key=lambda row: ours[row])
    sentence = f"{pairs}: {_row_label(first)} wins"
    ranked = _one_per_paper_row(summary, cells)
    if len(ranked) >= 2:
        theirs = max(ranked, key=lambda pair: pair[2])
        sentence += f" (of those run here, in the paper {theirs[0]})"
        agreement = rank_agreement([ours for _, ours, _ in ranked], [paper for _, _, paper in ranked])
        if agreement is not None:
            sentence += f", rank correlation with the paper {agreement:.2f} over {len(ranked)} methods"
    return sentence + "."


def _one_per_paper_row(summary: Summary, cells: dict[Row, Cell]) -> list[tuple[str, float, float]]:
    """Name in the paper, our mean and its number; the first of the methods that stand beside one row."""
    ranked: dict[tuple[str, object], tuple[str, float, float]] = {}
    for row, cell in cells.items():
        name = summary.paper_name(row[0])
        if name is not None and cell.mean is not None and cell.paper is not None:
            ranked.setdefault((name, row[1]), (name, cell.mean, cell.paper))
    return list(ranked.values())

"""Tables of a benchmark report: scores beside the paper's, numbers of clusters, tail angles and times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import rankdata

from spherepair.benchmark.measure import CLUSTERINGS, INFERENCE, Record
from spherepair.benchmark.paper_comparison import (
    EMPTY,
    MISSING,
    Block,
    Cell,
    Entry,
    Paragraph,
    Setting,
    Summary,
    Table,
    paper_seconds,
)

#: The paper's names of the methods that infer the number of clusters.
PAPER_INFERENCE = {
    "tail-angle": "PCA-based",
    "silhouette": "K-means + SC",
    "lifetime": "Agglomerative + lifetime",
}

Row = tuple[str, tuple[tuple[str, object], ...]]


def score_tables(summary: Summary) -> Iterator[Block]:
    """One table per dataset and score, with a sentence on which method wins."""
    experiment = summary.experiment
    for dataset in summary.values_of("dataset"):
        for part in experiment.parts:
            for metric in experiment.metrics:
                yield score_table(summary, dataset, metric=metric, part=part)
            yield from _verdict(summary, dataset, part=part)


def balance(summary: Summary) -> Iterator[Paragraph]:
    """How often our test accuracy reaches the paper's, and where it is furthest below."""
    cells = {setting: summary.cell(setting) for setting in summary.runs}
    compared = {setting: cell.difference for setting, cell in cells.items() if cell.difference is not None}
    if not compared:
        return
    tones = [difference_entry(cells[setting]).tone for setting in compared]
    sentence = (
        f"Test accuracy beside the paper's in {len(tones)} settings: {tones.count('')} at or above it, "
        f"{tones.count('below')} below by no more than the spread of our seeds, "
        f"{tones.count('clearly below')} by more."
    )
    worst = min(compared, key=lambda setting: compared[setting])
    if compared[worst] < 0:
        where = f"{worst.dataset}, {_row_label((worst.method, worst.swept))}, {worst.pairs} pairs"
        sentence += f" Furthest below: {where}, by {-compared[worst]:.1f} points."
    yield Paragraph(sentence)


def score_table(summary: Summary, dataset: str, *, metric: str = "ACC", part: str = "test") -> Table:
    """One row per method (and value of a sweep), one column per number of pairs."""
    columns = summary.values_of("pairs")
    grid = {
        row: [summary.cell(_setting(dataset, row, pairs), metric, part) for pairs in columns]
        for row in _rows(summary)
    }
    stand_in = summary.experiment.stand_ins.get(dataset)
    extra = _extra_columns([cell for cells in grid.values() for cell in cells])
    best = [_best([cells[column] for cells in grid.values()]) for column in range(len(columns))]
    rows = tuple((Entry(_row_label(row)), *_entries(cells, best, extra=extra)) for row, cells in grid.items())
    header = ("method", *(name for pairs in columns for name in (pairs, *extra)))
    remark = f", replaces the paper's {stand_in}" if stand_in else ""
    return Table(header, rows, f"{dataset}, {part} {metric} in percent{remark}")


def score_entry(cell: Cell, *, is_best: bool = False) -> Entry:
    """Mean ± spread over seeds, and the number of runs if some are missing.

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
    """Ours minus the paper's, with a tone if ours is below.

    Examples
    --------
    >>> difference_entry(Cell((90.0, 90.0), 2, paper=92.0))
    Entry(text='−2.0', tone='clearly below')
    """
    if cell.difference is None:
        return EMPTY
    text = f"{cell.difference:+.1f}".replace("-", "−")
    if not cell.is_below:
        return Entry(text)
    return Entry(text, "clearly below" if -cell.difference > cell.spread + 0.05 else "below")


def _extra_columns(cells: list[Cell]) -> tuple[str, ...]:
    """The paper's number if it has any, and the difference if the two can be compared."""
    if all(cell.paper is None for cell in cells):
        return ()
    return ("paper",) if cells[0].is_stand_in else ("paper", "difference")


def _entries(cells: list[Cell], best: list[float | None], *, extra: tuple[str, ...]) -> Iterator[Entry]:
    for cell, highest in zip(cells, best, strict=True):
        yield score_entry(cell, is_best=cell.mean is not None and cell.mean == highest)
        if "paper" in extra:
            yield EMPTY if cell.paper is None else Entry(f"{cell.paper:.1f}")
        if "difference" in extra:
            yield difference_entry(cell)


def _best(cells: list[Cell]) -> float | None:
    means = [cell.mean for cell in cells if cell.mean is not None]
    return max(means) if len(means) > 1 else None


def _rows(summary: Summary) -> list[Row]:
    return list(dict.fromkeys((setting.method, setting.swept) for setting in summary.runs))


def _row_label(row: Row) -> str:
    method, swept = row
    return method + "".join(f", {name} = {value}" for name, value in swept)


def _setting(dataset: str, row: Row, pairs: str) -> Setting:
    return Setting(dataset, row[0], pairs, row[1])


def _verdict(summary: Summary, dataset: str, *, part: str) -> Iterator[Paragraph]:
    """Which method wins by accuracy, here and in the paper, and how well the rankings agree."""
    said = [_verdict_for(summary, dataset, pairs, part) for pairs in summary.values_of("pairs")]
    sentences = [sentence for sentence in said if sentence]
    if sentences:
        stand_in = summary.experiment.stand_ins.get(dataset)
        if stand_in:
            remark = f"{dataset} replaces the paper's {stand_in}: only rankings can be compared."
            sentences.insert(0, remark)
        yield Paragraph(" ".join(sentences))


def _verdict_for(summary: Summary, dataset: str, pairs: str, part: str) -> str:
    cells = {row: summary.cell(_setting(dataset, row, pairs), "ACC", part) for row in _rows(summary)}
    ours = {row: cell.mean for row, cell in cells.items() if cell.mean is not None}
    if len(ours) < 2:
        return ""
    first = max(ours, key=lambda row: ours[row])
    sentence = f"{pairs}: {_row_label(first)} wins"
    ranked = _one_per_paper_row(summary, cells)
    if len(ranked) >= 2:
        theirs = max(ranked, key=lambda pair: pair[2])
        sentence += f" (of these methods, {theirs[0]} in the paper)"
        agreement = rank_agreement([ours for _, ours, _ in ranked], [paper for _, _, paper in ranked])
        if agreement is not None:
            sentence += f", rank correlation with the paper {agreement:.2f} over {len(ranked)} methods"
    return sentence + "."


def _one_per_paper_row(summary: Summary, cells: dict[Row, Cell]) -> list[tuple[str, float, float]]:
    """Name in the paper, our mean and its number; only the first method per row of the paper."""
    ranked: dict[tuple[str, object], tuple[str, float, float]] = {}
    for row, cell in cells.items():
        name = summary.paper_name(row[0])
        if name is not None and cell.mean is not None and cell.paper is not None:
            ranked.setdefault((name, row[1]), (name, cell.mean, cell.paper))
    return list(ranked.values())


def rank_agreement(ours: list[float], theirs: list[float]) -> float | None:
    """Spearman's rank correlation of two lists of scores; ``None`` if it is undefined.

    Examples
    --------
    >>> rank_agreement([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """
    if len(ours) < 3:
        return None
    a, b = rankdata(ours), rankdata(theirs)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.round(np.corrcoef(a, b)[0, 1], 6))


def number_tables(summary: Summary) -> Iterator[Block]:
    """Inferred numbers of clusters beside the truth, one table per dataset and method."""
    header = ("pairs, inferred by", "inferred (one per seed)", "true", "exact", "within 1", "confidence")
    for dataset in summary.values_of("dataset"):
        for method in summary.values_of("method"):
            settings = [
                setting for setting in summary.runs if (setting.dataset, setting.method) == (dataset, method)
            ]
            rows = tuple(_number_row(summary, setting, way) for setting in settings for way in INFERENCE)
            yield Table(header, rows, f"{dataset}, {method}: number of clusters")


def _number_row(summary: Summary, setting: Setting, way: str) -> tuple[Entry, ...]:
    label = Entry(f"{setting.pairs}, {way}")
    records = summary.done(setting)
    found = [record["cluster_number"][way] for record in records]
    found = [number for number in found if "error" not in number]
    if not found:
        return (label, MISSING, *([EMPTY] * 4))
    values, truth = np.array([number["value"] for number in found]), records[0]["n_classes"]
    errors = np.abs(values - truth)
    confidence = np.mean([number["confidence"] for number in found])
    exact = float(np.mean(errors == 0))
    return (
        label,
        Entry(" ".join(map(str, values)), "" if exact == 1 else "below"),
        Entry(str(truth)),
        Entry(f"{exact:.0%}"),
        Entry(f"{np.mean(errors <= 1):.0%}"),
        Entry(f"{confidence:.2f}"),
    )


def angle_tables(summary: Summary) -> Iterator[Block]:
    """Mean tail angles in degrees around d = K - 1, where the plateau should begin, for each ρ."""
    ratios = summary.experiment.tail_ratios
    for dataset in summary.values_of("dataset"):
        rows = tuple(
            _angle_row(summary, setting, which)
            for setting in summary.runs
            if setting.dataset == dataset
            for which in range(len(ratios))
        )
        header = ("pairs, ρ", "d = K − 2", "d = K − 1", "d = K", "last d")
        yield Table(header, rows, f"{dataset}: tail angle in degrees")


def _angle_row(summary: Summary, setting: Setting, which: int) -> tuple[Entry, ...]:
    label = Entry(f"{setting.pairs}, {summary.experiment.tail_ratios[which]}")
    records = summary.done(setting)
    if not records:
        return (label, MISSING, EMPTY, EMPTY, EMPTY)
    curve = np.degrees([record["tail_angles"]["curves"][which] for record in records]).mean(axis=0)
    first = records[0]["n_classes"] - 2
    shown = [curve[d - 1] if 1 <= d <= len(curve) else None for d in (first, first + 1, first + 2)]
    return (label, *(EMPTY if v is None else Entry(f"{v:.1f}") for v in shown), Entry(f"{curve[-1]:.1f}"))


def time_tables(summary: Summary) -> Iterator[Block]:
    """Seconds of training, clustering and inference beside the paper's, per dataset."""
    for dataset in summary.values_of("dataset"):
        settings = [setting for setting in summary.runs if setting.dataset == dataset]
        rows = tuple(row for setting in settings for row in _time_rows(summary, setting))
        yield Table(("what", "seconds", "paper, V100", "times faster"), rows, f"{dataset}: times")


def _time_rows(summary: Summary, setting: Setting) -> Iterator[tuple[Entry, ...]]:
    dataset, name = summary.paper_dataset(setting.dataset), summary.paper_name(setting.method) or ""
    yield _seconds_row(
        f"{setting.method}, training with pretraining",
        summary.numbers(setting, _training_seconds, paper_seconds("training", name, dataset)),
    )
    yield _seconds_row(
        f"{setting.method}, fit without pretraining",
        summary.numbers(setting, lambda r: float(r["times"]["fit"])),
    )
    if "clustering" in summary.experiment.measure:
        theirs = paper_seconds("clustering", name, dataset) or {}
        for way in CLUSTERINGS:
            cell = summary.numbers(setting, _seconds("clustering", way), theirs.get(way))
            yield _seconds_row(f"{setting.method}, {way}", cell)
    if "n_clusters" in summary.experiment.measure:
        for way in INFERENCE:
            known = PAPER_INFERENCE.get(way, "") if name == "SpherePair" else ""
            cell = summary.numbers(
                setting, _seconds("cluster_number", way), paper_seconds("n_clusters", known, dataset)
            )
            yield _seconds_row(f"{setting.method}, number of clusters by {way}", cell)


def _training_seconds(record: Record) -> float:
    return float(record["times"]["pretraining"] + record["times"]["fit"])


def _seconds(group: str, way: str) -> Callable[[Record], float | None]:
    def read(record: Record) -> float | None:
        found: Any = record[group][way].get("seconds")
        return None if found is None else float(found)

    return read


def _seconds_row(label: str, cell: Cell) -> tuple[Entry, ...]:
    if cell.mean is None:
        return (Entry(label), MISSING, EMPTY, EMPTY)
    ours = Entry(cell.text(".3g", ".2g"))
    if cell.paper is None:
        return (Entry(label), ours, EMPTY, EMPTY)
    if cell.is_stand_in:  # other rows, other times
        return (Entry(label), ours, Entry(f"{cell.paper:.0f}"), EMPTY)
    ratio = cell.paper / cell.mean
    return (
        Entry(label),
        ours,
        Entry(f"{cell.paper:.0f}"),
        Entry(f"{ratio:.1f}", "clearly below" if ratio < 1 else ""),
    )

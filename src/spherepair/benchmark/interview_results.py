"""Tables and curves of interviews: accuracy against answers and against the minutes they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spherepair.benchmark.measure import Record
from spherepair.benchmark.paper_comparison import EMPTY, MISSING, Block, Cell, Entry, Setting, Summary, Table
from spherepair.plots import plot_sweep
from spherepair.plots.style import DOUBLE_COLUMN, TITLE_SIZE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
#: Height of one line of panels, in inches.
PANEL_HEIGHT = 2.5


def interview_tables(summary: Summary) -> Iterator[Block]:
    """One table per dataset and share of wrong answers, and one of the mean over the datasets."""
    for told in summary.values_of("pairs"):
        for dataset in done_datasets(summary):
            if _methods(summary, [dataset], told):
                yield _dataset_table(summary, dataset, told)
        shared = [d for d in complete_datasets(summary) if _methods(summary, [d], told)]
        if len(shared) > 1:
            yield _mean_table(summary, shared, told)


def interview_figure(summary: Summary, datasets: Sequence[str], title: str) -> Figure:
    """Accuracy against answers (left) and minutes (right), one line of panels per share of wrong answers.

    Each line is the mean over seeds, or over datasets where there are several, with their spread.
    """
    told = [t for t in summary.values_of("pairs") if _methods(summary, datasets, t)]
    figure = new_figure(DOUBLE_COLUMN, PANEL_HEIGHT * len(told) + 0.2)
    panels = figure.subplots(len(told), 2, sharey="row", squeeze=False)
    for (left, right), answers in zip(panels, told, strict=True):
        methods = _methods(summary, datasets, answers)
        accuracy = np.stack([_curves(summary, datasets, m, answers, accuracy_of) for m in methods])
        minutes = np.stack([_curves(summary, datasets, m, answers, minutes_of) for m in methods])
        marks = np.asarray(summary.experiment.answers, dtype=np.float64)
        words: dict[str, Any] = {"labels": methods, "y_label": "test ACC in percent"}
        plot_sweep(marks, accuracy, x_label="answers", title=answers, name_lines=False, ax=left, **words)
        spent = np.nanmean(minutes, axis=-1)
        plot_sweep(spent, accuracy, x_label="minutes", title="", ax=right, **words | {"y_label": ""})
    figure.suptitle(title, fontsize=TITLE_SIZE, fontweight="bold")
    return figure


def done_datasets(summary: Summary) -> list[str]:
    """The datasets with at least one finished interview."""
    done = {setting.dataset for setting in summary.runs if summary.done(setting)}
    return [dataset for dataset in summary.values_of("dataset") if dataset in done]


def complete_datasets(summary: Summary) -> list[str]:
    """The datasets on which every strategy that was run at all has a result; means are taken over these."""
    done = done_datasets(summary)
    told = summary.values_of("pairs")
    wanted = [_methods(summary, done, answers) for answers in told]
    return [d for d in done if [_methods(summary, [d], answers) for answers in told] == wanted]


def accuracy_of(mark: Record) -> float:
    """Test accuracy in percent at a mark."""
    return 100 * float(mark["scores"]["test"]["accuracy"])


def minutes_of(mark: Record) -> float:
    """Minutes of a person until a mark."""
    return float(mark["minutes"])


def _dataset_table(summary: Summary, dataset: str, told: str) -> Table:
    marks = summary.experiment.answers
    header = ["strategy"]
    for count in marks:
        header += [f"{count} answers", "minutes"]
    header += [f"groups after {marks[-1]}", "all classes met after"]
    settings = [Setting(dataset, method, told) for method in summary.values_of("method")]
    best = [_best([_cell(summary, s, place, accuracy_of) for s in settings]) for place in range(len(marks))]
    rows = tuple(_strategy_row(summary, setting, best) for setting in settings)
    n_classes = next(r["n_classes"] for s in summary.runs if s.dataset == dataset for r in summary.done(s))
    return Table(tuple(header), rows, f"{dataset}, {n_classes} classes, {told}: test ACC in percent")


def _strategy_row(summary: Summary, setting: Setting, best: list[float | None]) -> tuple[Entry, ...]:
    n_marks = len(summary.experiment.answers)
    records = summary.done(setting)
    if not records:
        return (Entry(setting.method), MISSING, *[EMPTY] * (2 * n_marks + 1))
    cells: list[Entry] = []
    for place in range(n_marks):
        cell = _cell(summary, setting, place, accuracy_of)
        text = cell.text() + (
            "" if len(records) == cell.n_expected else f" ({len(records)} of {cell.n_expected})"
        )
        cells.append(Entry(text, "best" if cell.mean == best[place] else ""))
        cells.append(Entry(f"{_cell(summary, setting, place, minutes_of).mean:.0f}"))
    groups = _cell(summary, setting, n_marks - 1, lambda mark: float(mark["groups"]))
    return (Entry(setting.method), *cells, Entry(groups.text()), _all_classes(records))


def _all_classes(records: list[Record]) -> Entry:
    """Mean number of answers until every class had a row in a group, and in how many interviews."""
    found = [record["answers_to_all_classes"] for record in records]
    known = [count for count in found if count is not None]
    if not known:
        return Entry("never")
    often = "" if len(known) == len(found) else f" ({len(known)} of {len(found)})"
    return Entry(f"{np.mean(known):.0f}{often}")


def _mean_table(summary: Summary, datasets: Sequence[str], told: str) -> Table:
    """Means over the datasets, each the mean over its seeds."""
    means = {
        method: _curves(summary, datasets, method, told, accuracy_of).mean(axis=-1)
        for method in _methods(summary, datasets, told)
    }
    highest = np.max(list(means.values()), axis=0)
    rows = tuple(
        (
            Entry(m),
            *(Entry(f"{v:.1f}", "best" if v == h else "") for v, h in zip(values, highest, strict=True)),
        )
        for m, values in means.items()
    )
    header = ("strategy", *(f"{count} answers" for count in summary.experiment.answers))
    return Table(header, rows, f"mean of {', '.join(datasets)}, {told}: test ACC in percent")


def _methods(summary: Summary, datasets: Sequence[str], told: str) -> list[str]:
    """Strategies with a finished interview on one of the datasets."""
    return [
        method
        for method in summary.values_of("method")
        if any(summary.done(Setting(dataset, method, told)) for dataset in datasets)
    ]


def _curves(
    summary: Summary, datasets: Sequence[str], method: str, told: str, read: Callable[[Record], float]
) -> Floats:
    """A number at every mark: (n_marks, n_seeds) of one dataset, (n_marks, n_datasets) of several."""
    tables = [_seeds(summary, Setting(dataset, method, told), read) for dataset in datasets]
    return (
        tables[0] if len(tables) == 1 else np.stack([np.nanmean(table, axis=-1) for table in tables], axis=-1)
    )


def _seeds(summary: Summary, setting: Setting, read: Callable[[Record], float]) -> Floats:
    table = np.full((len(summary.experiment.answers), len(summary.experiment.seeds)), np.nan)
    for seed, record in enumerate(summary.done(setting)):
        table[:, seed] = [read(mark) for mark in record["marks"]]
    return table


def _cell(summary: Summary, setting: Setting, place: int, read: Callable[[Record], float]) -> Cell:
    return summary.numbers(setting, lambda record: read(record["marks"][place]))


def _best(cells: list[Cell]) -> float | None:
    means = [cell.mean for cell in cells if cell.mean is not None]
    return max(means) if len(means) > 1 else None

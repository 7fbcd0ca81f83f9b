"""Figures of a benchmark report, by the layout of the experiment.

To add a figure, add a function from (summary, results) to named figures to FIGURES.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spherepair.benchmark.interview_results import complete_datasets, done_datasets, interview_figure
from spherepair.benchmark.paper_comparison import SCORES, Picture, Setting, Summary
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import PairChoice, pair_label
from spherepair.constraints import Constraints
from spherepair.plots import (
    SphereEvolution,
    plot_imbalance,
    plot_projections,
    plot_sphere_strip,
    plot_sweep,
    plot_tail_angles,
    save_figure,
)
from spherepair.plots.style import DOUBLE_COLUMN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

#: Axis label and scale of swept parameters.
AXES = {
    "embedding_dim": ("embedding dimension D", "log"),
    "reconstruction_weight": ("weight of the reconstruction λ", "symlog"),
}


@dataclass(frozen=True)
class NamedFigure:
    """A figure, the name of its file, and what it shows."""

    name: str
    caption: str
    figure: Figure


def experiment_pictures(summary: Summary, results: ResultsFolder) -> list[Picture]:
    """The pictures of an experiment, from the runs that are done."""
    draw = FIGURES.get(summary.experiment.layout)
    return [] if draw is None else [_picture(named, summary) for named in draw(summary, results)]


def _picture(named: NamedFigure, summary: Summary) -> Picture:
    suffix = ".png" if summary.experiment.layout == "pictures" else ".svg"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"figure{suffix}"
        save_figure(named.figure, file)
        content = file.read_bytes()
    name = re.sub(r"[^A-Za-z0-9_]+", "-", f"{summary.experiment.id}-{named.name}").strip("-")
    return Picture(f"figures/{name}{suffix}", named.caption, content)


def _comparisons(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """A score against the number of pairs, one line per method."""
    counts = summary.experiment.pairs
    if len(summary.experiment.wrong_answers) > 1:
        yield from _errors(summary)
        return
    if len(counts) < 2:
        return
    for dataset in summary.values_of("dataset"):
        lines = _lines(
            summary,
            {
                method: [Setting(dataset, method, pair_label(PairChoice(n))) for n in counts]
                for method in summary.values_of("method")
            },
        )
        if not lines:
            continue
        title = f"{dataset}: test accuracy by number of pairs"
        figure = plot_sweep(
            np.asarray(counts, dtype=float),
            np.stack(list(lines.values())),
            labels=list(lines),
            title=title,
            x_label="pairs",
            y_label="test ACC in percent",
            scale="log",
            width=DOUBLE_COLUMN,
        )
        yield NamedFigure(dataset, title, figure)


def _errors(summary: Summary) -> Iterator[NamedFigure]:
    """A score against the share of wrong answers, one line per method; a figure for each number of pairs."""
    shares = summary.experiment.wrong_answers
    for dataset, n_pairs in product(summary.values_of("dataset"), summary.experiment.pairs):
        sets = [pair_label(PairChoice(n_pairs, wrong_answers=share)) for share in shares]
        methods = summary.values_of("method")
        lines = _lines(summary, {m: [Setting(dataset, m, pairs) for pairs in sets] for m in methods})
        if not lines:
            continue
        title = f"{dataset}, {pair_label(PairChoice(n_pairs))} pairs: test accuracy by wrong answers"
        figure = plot_sweep(
            100 * np.asarray(shares, dtype=float),
            np.stack(list(lines.values())),
            labels=list(lines),
            title=title,
            x_label="wrong answers in percent",
            y_label="test ACC in percent",
            scale="linear",
            width=DOUBLE_COLUMN,
        )
        yield NamedFigure(f"{dataset}-{n_pairs}", title, figure)


def _sweeps(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """A score against the swept parameter, one line per method and number of pairs."""
    if list(summary.experiment.sweep) not in ([name] for name in AXES):
        return
    (name, values), *_ = summary.experiment.sweep.items()
    label, scale = AXES[name]
    for dataset in summary.values_of("dataset"):
        lines = _lines(
            summary,
            {
                _line_name(summary, method, pairs): [
                    Setting(dataset, method, pairs, ((name, value),)) for value in values
                ]
                for method in summary.values_of("method")
                for pairs in summary.values_of("pairs")
            },
        )
        if not lines:
            continue
        truth = _n_classes(summary, dataset) if name == "embedding_dim" else None
        figure = plot_sweep(
            np.asarray(values, dtype=float),
            np.stack(list(lines.values())),
            labels=list(lines),
            title=f"{dataset}: test accuracy",
            x_label=label,
            y_label="test ACC in percent",
            line=truth,
            line_label="" if truth is None else "D = K",
            scale=scale,
        )
        yield NamedFigure(dataset, f"{dataset}: test accuracy against {label}", figure)


def _line_name(summary: Summary, method: str, pairs: str) -> str:
    return pairs if len(summary.values_of("method")) == 1 else f"{method}, {pairs}"


def _lines(summary: Summary, settings: dict[str, list[Setting]]) -> dict[str, Floats]:
    """Accuracies by label of the line; lines without any run are left out."""
    lines = {label: _accuracies(summary, of_line) for label, of_line in settings.items()}
    return {label: values for label, values in lines.items() if not np.isnan(values).all()}


def _accuracies(summary: Summary, settings: list[Setting]) -> Floats:
    """Test accuracies in percent (n_settings, n_seeds); NaN where a run is missing."""
    table = np.full((len(settings), len(summary.experiment.seeds)), np.nan)
    for row, setting in enumerate(settings):
        values = [100 * record["scores"]["test"][SCORES["ACC"]] for record in summary.done(setting)]
        table[row, : len(values)] = values
    return table


def _n_classes(summary: Summary, dataset: str) -> int | None:
    found = (
        record for setting in summary.runs if setting.dataset == dataset for record in summary.done(setting)
    )
    record = next(found, None)
    return None if record is None else int(record["n_classes"])


def _imbalances(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """The three sets of each size, one line per method."""
    for dataset in summary.values_of("dataset"):
        for base in summary.experiment.imbalanced:
            size = pair_label(PairChoice(base))
            sets = [
                pair_label(PairChoice(base, level), imbalanced=True) for level in summary.experiment.levels
            ]
            methods = summary.values_of("method")
            lines = _lines(summary, {m: [Setting(dataset, m, pairs) for pairs in sets] for m in methods})
            if not lines:
                continue
            title = f"{dataset}, IMB0 of {size} pairs: test accuracy"
            names = [pairs.replace(" ", "\n") for pairs in sets]
            figure = plot_imbalance(
                np.stack(list(lines.values())),
                labels=list(lines),
                title=title,
                sets=names,
                y_label="test ACC in percent",
            )
            yield NamedFigure(f"{dataset}-{size}", title, figure)


def _angles(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """Curves of tail angles: one line per ρ, one figure per dataset and number of pairs."""
    for setting in summary.runs:
        records = summary.done(setting)
        if not records:
            continue
        curves = np.stack([record["tail_angles"]["curves"] for record in records], axis=-1)
        figure = plot_tail_angles(
            curves,
            labels=[f"ρ = {ratio}" for ratio in summary.experiment.tail_ratios],
            n_clusters=records[0]["n_classes"],
            title=f"{setting.dataset}, {setting.pairs} pairs",
        )
        caption = f"{setting.dataset}, {setting.method}, {setting.pairs} pairs: tail angles"
        yield NamedFigure(f"{setting.dataset}-{setting.method}-{setting.pairs}", caption, figure)


def _numbers(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """Curves of tail angles: one line per number of pairs, one figure per dataset and method."""
    for dataset in summary.values_of("dataset"):
        for method in summary.values_of("method"):
            curves = {
                setting.pairs: _number_curves(summary, setting)
                for setting in summary.runs
                if (setting.dataset, setting.method) == (dataset, method) and summary.done(setting)
            }
            truth = _n_classes(summary, dataset)
            if not curves or truth is None:
                continue
            figure = plot_tail_angles(
                np.stack(list(curves.values())),
                labels=list(curves),
                n_clusters=truth,
                title=f"{dataset}, {method}",
            )
            yield NamedFigure(f"{dataset}-{method}", f"{dataset}, {method}: tail angles", figure)


def _number_curves(summary: Summary, setting: Setting) -> Floats:
    """Curves (n_dimensions, n_seeds)."""
    found = [record["cluster_number"]["tail-angle"]["curve"] for record in summary.done(setting)]
    table = np.full((len(found[0]), len(summary.experiment.seeds)), np.nan)
    table[:, : len(found)] = np.array(found).T
    return table


def _embeddings(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """t-SNE maps and strips of snapshots, from the rows saved by the runs of the first seed."""
    saved = {setting: results.arrays(runs[0].spec.key) for setting, runs in summary.runs.items()}
    yield from _projections(summary, {s: a for s, a in saved.items() if "projection" in a})
    frames = {setting: arrays for setting, arrays in saved.items() if "frames" in arrays}
    if frames:
        strips = [_evolution(setting.dataset, arrays) for setting, arrays in frames.items()]
        caption = "Training on the sphere, one line per dataset"
        yield NamedFigure("sphere", caption, plot_sphere_strip(strips))


def _projections(summary: Summary, saved: dict[Setting, dict[str, NDArray[Any]]]) -> Iterator[NamedFigure]:
    for dataset in summary.values_of("dataset"):
        here = {setting.method: arrays for setting, arrays in saved.items() if setting.dataset == dataset}
        if here:
            classes = next(iter(here.values()))["projected_classes"]
            maps = {method: arrays["projection"] for method, arrays in here.items()}
            caption = (
                f"{dataset}: t-SNE of {len(classes)} rows, the class with the most constraints highlighted"
            )
            figure = plot_projections(maps, classes, highlighted=int(classes.min()), title=dataset)
            yield NamedFigure(f"{dataset}-tsne", caption, figure)


def _evolution(name: str, arrays: dict[str, NDArray[Any]]) -> SphereEvolution:
    frames = arrays["frames"]
    _, classes = np.unique(arrays["classes"], return_inverse=True)
    pairs = Constraints.from_arrays(arrays["left"], arrays["right"], arrays["is_must_link"])
    epochs = range(1, len(frames) + 1)
    return SphereEvolution(frames, classes, epochs, pairs, arrays["centers"], name)


def _interviews(summary: Summary, results: ResultsFolder) -> Iterator[NamedFigure]:
    """Accuracy against answers and minutes: one figure per dataset, and one of their mean."""
    for dataset in done_datasets(summary):
        caption = f"{dataset}: test accuracy against answers and against minutes"
        yield NamedFigure(dataset, caption, interview_figure(summary, [dataset], dataset))
    shared = complete_datasets(summary)
    if len(shared) > 1:
        title = f"mean of {len(shared)} datasets"
        caption = f"{', '.join(shared)}: mean test accuracy against answers and against minutes"
        yield NamedFigure("mean", caption, interview_figure(summary, shared, title))


FIGURES: dict[str, Callable[[Summary, ResultsFolder], Iterator[NamedFigure]]] = {
    "comparison": _comparisons,
    "sweep": _sweeps,
    "imbalance": _imbalances,
    "tail_angles": _angles,
    "n_clusters": _numbers,
    "pictures": _embeddings,
    "asking": _interviews,
}

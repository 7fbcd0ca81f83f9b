"""Pictures of a report: which of ``spherepair.plots`` an experiment's layout asks for.

The one place to add a figure: a function from (summary, store) to named figures, entered in FIGURES.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spherepair.benchmark.document import Picture
from spherepair.benchmark.grid import PairChoice, pair_label
from spherepair.benchmark.store import Store
from spherepair.benchmark.summary import SCORES, Place, Summary
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
from spherepair.plots.figures import DOUBLE_COLUMN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

#: Parameters in the words of an axis, and its scale.
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


def experiment_pictures(summary: Summary, store: Store) -> list[Picture]:
    """The pictures of an experiment as far as its runs are there."""
    draw = FIGURES.get(summary.experiment.layout)
    return [] if draw is None else [_picture(named, summary) for named in draw(summary, store)]


def _picture(named: NamedFigure, summary: Summary) -> Picture:
    suffix = ".png" if summary.experiment.layout == "pictures" else ".svg"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"figure{suffix}"
        save_figure(named.figure, file)
        content = file.read_bytes()
    name = re.sub(r"[^A-Za-z0-9_]+", "-", f"{summary.experiment.id}-{named.name}").strip("-")
    return Picture(f"figures/{name}{suffix}", named.caption, content)


def _comparisons(summary: Summary, store: Store) -> Iterator[NamedFigure]:
    """A score against the number of pairs, one line per method."""
    counts = summary.experiment.pairs
    if len(counts) < 2:
        return
    for dataset in summary.values_of("dataset"):
        lines = {
            method: _runs(summary, [Place(dataset, method, pair_label(PairChoice(n))) for n in counts])
            for method in summary.values_of("method")
        }
        lines = {key: values for key, values in lines.items() if not np.isnan(values).all()}
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


def _sweeps(summary: Summary, store: Store) -> Iterator[NamedFigure]:
    """A score against the swept parameter, one line per method and number of pairs."""
    if list(summary.experiment.sweep) not in ([name] for name in AXES):
        return
    (name, places), *_ = summary.experiment.sweep.items()
    label, scale = AXES[name]
    for dataset in summary.values_of("dataset"):
        lines = {
            _line_name(summary, method, pairs): _runs(
                summary, [Place(dataset, method, pairs, ((name, value),)) for value in places]
            )
            for method in summary.values_of("method")
            for pairs in summary.values_of("pairs")
        }
        lines = {key: values for key, values in lines.items() if not np.isnan(values).all()}
        if not lines:
            continue
        truth = _n_classes(summary, dataset) if name == "embedding_dim" else None
        figure = plot_sweep(
            np.asarray(places, dtype=float),
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


def _runs(summary: Summary, places: list[Place]) -> Floats:
    """Test accuracies in percent (n_places, n_seeds); NaN where a run is missing."""
    table = np.full((len(places), len(summary.experiment.seeds)), np.nan)
    for row, place in enumerate(places):
        values = [100 * record["scores"]["test"][SCORES["ACC"]] for record in summary.done(place)]
        table[row, : len(values)] = values
    return table


def _n_classes(summary: Summary, dataset: str) -> int | None:
    found = (record for place in summary.runs if place.dataset == dataset for record in summary.done(place))
    record = next(found, None)
    return None if record is None else int(record["n_classes"])


def _imbalances(summary: Summary, store: Store) -> Iterator[NamedFigure]:
    """The three sets of each size, one line per method."""
    for dataset in summary.values_of("dataset"):
        for base in summary.experiment.imbalanced:
            size = pair_label(PairChoice(base))
            sets = [
                pair_label(PairChoice(base, level), imbalanced=True) for level in summary.experiment.levels
            ]
            lines = {
                method: _runs(summary, [Place(dataset, method, pairs) for pairs in sets])
                for method in summary.values_of("method")
            }
            lines = {key: values for key, values in lines.items() if not np.isnan(values).all()}
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


def _angles(summary: Summary, store: Store) -> Iterator[NamedFigure]:
    """Curves of tail angles: one line per ρ, one figure per data set and number of pairs."""
    for place in summary.runs:
        records = summary.done(place)
        if not records:
            continue
        curves = np.stack([record["tail_angles"]["curves"] for record in records], axis=-1)
        figure = plot_tail_angles(
            curves,
            labels=[f"ρ = {ratio}" for ratio in summary.experiment.tail_ratios],
            n_clusters=records[0]["n_classes"],
            title=f"{place.dataset}, {place.pairs} pairs",
        )
        caption = f"{place.dataset}, {place.method}, {place.pairs} pairs: tail angles"
        yield NamedFigure(f"{place.dataset}-{place.method}-{place.pairs}", caption, figure)


def _numbers(summary: Summary, store: Store) -> Iterator[NamedFigure]:
    """Curves of tail angles: one line per number of pairs, one figure per data set and method."""
    for dataset in summary.values_of("dataset"):
        for method in summary.values_of("method"):
            curves = {
                place.pairs: _number_curves(summary, place)
                for place in summary.runs
                if (place.dataset, place.method) == (dataset, method) and summary.done(place)
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


def _number_curves(summary: Summary, place: Place) -> Floats:
    """Curves (n_dimensions, n_seeds)."""
    found = [record["cluster_number"]["tail-angle"]["curve"] for record in summary.done(place)]
    table = np.full((len(found[0]), len(summary.experiment.seeds)), np.nan)
    table[:, : len(found)] = np.array(found).T
    return table


def _embeddings(summary: Summary, store: Store) -> Iterator[NamedFigure]:
    """Maps by t-SNE and strips of snapshots, from the rows that the first seed's runs have kept."""
    kept = {place: store.arrays(runs[0].spec.key) for place, runs in summary.runs.items()}
    yield from _projections(summary, {p: a for p, a in kept.items() if "projection" in a})
    frames = {place: arrays for place, arrays in kept.items() if "frames" in arrays}
    if frames:
        strips = [_evolution(place.dataset, arrays) for place, arrays in frames.items()]
        caption = "Training on the sphere, one line per data set"
        yield NamedFigure("sphere", caption, plot_sphere_strip(strips))


def _projections(summary: Summary, kept: dict[Place, dict[str, NDArray[Any]]]) -> Iterator[NamedFigure]:
    for dataset in summary.values_of("dataset"):
        here = {place.method: arrays for place, arrays in kept.items() if place.dataset == dataset}
        if here:
            classes = next(iter(here.values()))["projected_classes"]
            maps = {method: arrays["projection"] for method, arrays in here.items()}
            caption = (
                f"{dataset}: t-SNE of {len(classes)} rows, the class with most constraints in full strength"
            )
            figure = plot_projections(maps, classes, marked=int(classes.min()), title=dataset)
            yield NamedFigure(f"{dataset}-tsne", caption, figure)


def _evolution(name: str, arrays: dict[str, NDArray[Any]]) -> SphereEvolution:
    frames = arrays["frames"]
    _, classes = np.unique(arrays["classes"], return_inverse=True)
    pairs = Constraints.from_arrays(arrays["left"], arrays["right"], arrays["is_must_link"])
    epochs = range(1, len(frames) + 1)
    return SphereEvolution(frames, classes, epochs, pairs, arrays["centers"], name)


FIGURES: dict[str, Callable[[Summary, Store], Iterator[NamedFigure]]] = {
    "comparison": _comparisons,
    "sweep": _sweeps,
    "imbalance": _imbalances,
    "tail_angles": _angles,
    "n_clusters": _numbers,
    "pictures": _embeddings,
}

"""Tables of what is not a score: inferred numbers of clusters, tail angles and times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spherepair.benchmark.document import MISSING, NOTHING, Block, Entry, Table
from spherepair.benchmark.measuring import CLUSTERINGS, INFERENCE
from spherepair.benchmark.paper import paper_seconds
from spherepair.benchmark.store import Record
from spherepair.benchmark.summary import Cell, Place, Summary

#: The paper's names of the ways to infer the number of clusters.
PAPER_INFERENCE = {
    "tail-angle": "PCA-based",
    "silhouette": "K-means + SC",
    "lifetime": "Agglomerative + lifetime",
}


def number_tables(summary: Summary) -> Iterator[Block]:
    """Inferred numbers of clusters beside the truth, one table per data set and method."""
    header = ("pairs, inferred by", "inferred (one per seed)", "true", "exact", "within 1", "confidence")
    for dataset in summary.values_of("dataset"):
        for method in summary.values_of("method"):
            places = [place for place in summary.runs if (place.dataset, place.method) == (dataset, method)]
            rows = tuple(_number_row(summary, place, way) for place in places for way in INFERENCE)
            yield Table(header, rows, f"{dataset}, {method}: number of clusters")


def _number_row(summary: Summary, place: Place, way: str) -> tuple[Entry, ...]:
    label = Entry(f"{place.pairs}, {way}")
    records = summary.done(place)
    found = [record["cluster_number"][way] for record in records]
    found = [number for number in found if "error" not in number]
    if not found:
        return (label, MISSING, *([NOTHING] * 4))
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
            _angle_row(summary, place, which)
            for place in summary.runs
            if place.dataset == dataset
            for which in range(len(ratios))
        )
        header = ("pairs, ρ", "d = K − 2", "d = K − 1", "d = K", "last d")
        yield Table(header, rows, f"{dataset}: tail angle in degrees")


def _angle_row(summary: Summary, place: Place, which: int) -> tuple[Entry, ...]:
    label = Entry(f"{place.pairs}, {summary.experiment.tail_ratios[which]}")
    records = summary.done(place)
    if not records:
        return (label, MISSING, NOTHING, NOTHING, NOTHING)
    curve = np.degrees([record["tail_angles"]["curves"][which] for record in records]).mean(axis=0)
    first = records[0]["n_classes"] - 2
    shown = [curve[d - 1] if 1 <= d <= len(curve) else None for d in (first, first + 1, first + 2)]
    return (label, *(NOTHING if v is None else Entry(f"{v:.1f}") for v in shown), Entry(f"{curve[-1]:.1f}"))


def time_tables(summary: Summary) -> Iterator[Block]:
    """Seconds of training, clustering and inference beside the paper's, per data set."""
    for dataset in summary.values_of("dataset"):
        places = [place for place in summary.runs if place.dataset == dataset]
        rows = tuple(row for place in places for row in _time_rows(summary, place))
        yield Table(("what", "seconds", "paper, V100", "times faster"), rows, f"{dataset}: times")


def _time_rows(summary: Summary, place: Place) -> Iterator[tuple[Entry, ...]]:
    dataset, name = summary.paper_dataset(place.dataset), summary.paper_name(place.method) or ""
    yield _seconds_row(
        f"{place.method}, training with pretraining",
        summary.numbers(place, _training_seconds, paper_seconds("training", name, dataset)),
    )
    yield _seconds_row(
        f"{place.method}, fit without pretraining", summary.numbers(place, lambda r: float(r["times"]["fit"]))
    )
    if "clustering" in summary.experiment.measure:
        theirs = paper_seconds("clustering", name, dataset) or {}
        for way in CLUSTERINGS:
            cell = summary.numbers(place, _seconds("clustering", way), theirs.get(way))
            yield _seconds_row(f"{place.method}, {way}", cell)
    if "n_clusters" in summary.experiment.measure:
        for way in INFERENCE:
            known = PAPER_INFERENCE.get(way, "") if name == "SpherePair" else ""
            cell = summary.numbers(
                place, _seconds("cluster_number", way), paper_seconds("n_clusters", known, dataset)
            )
            yield _seconds_row(f"{place.method}, number of clusters by {way}", cell)


def _training_seconds(record: Record) -> float:
    return float(record["times"]["pretraining"] + record["times"]["fit"])


def _seconds(group: str, way: str) -> Callable[[Record], float | None]:
    def read(record: Record) -> float | None:
        found: Any = record[group][way].get("seconds")
        return None if found is None else float(found)

    return read


def _seconds_row(label: str, cell: Cell) -> tuple[Entry, ...]:
    if cell.mean is None:
        return (Entry(label), MISSING, NOTHING, NOTHING)
    ours = Entry(cell.text(".3g", ".2g"))
    if cell.paper is None:
        return (Entry(label), ours, NOTHING, NOTHING)
    if cell.is_stand_in:  # other rows, other times
        return (Entry(label), ours, Entry(f"{cell.paper:.0f}"), NOTHING)
    ratio = cell.paper / cell.mean
    return (
        Entry(label),
        ours,
        Entry(f"{cell.paper:.0f}"),
        Entry(f"{ratio:.1f}", "clearly below" if ratio < 1 else ""),
    )

"""How many clusters there are: the estimate, its rivals, and the tail-angle curve as a drawing.

The curve stands over K = d + 1, the number of clusters that d principal components can tell apart, and
the number of clusters is marked on that axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering import ClusterNumber, infer_n_clusters
from spherepair.constraints import Constraints
from spherepair.plots.model_curves import ANGLE_METHODS, levels_off, shown_length
from spherepair.theory import minimal_angle_bounds

Floats = NDArray[np.float64]
#: Size of the drawing in its own units, and its margins; the page scales it.
WIDTH, HEIGHT = 620, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 30, 44
_SHOWN_CANDIDATES = 5
_MOST_LABELS = 24


@dataclass(frozen=True)
class Dot:
    """A point of the drawing and what it says; an empty label is not written."""

    x: float
    y: float
    label: str
    title: str = ""


@dataclass(frozen=True)
class NumberMark:
    """A vertical line at a number of clusters.

    Attributes
    ----------
    n_clusters : int
    x : float
    label : str
    is_estimate : bool
        Whether this is the estimate beside a number that the model was given.
    """

    n_clusters: int
    x: float
    label: str
    is_estimate: bool


@dataclass(frozen=True)
class Curve:
    """A curve with its spread as coordinates of a drawing of WIDTH by HEIGHT.

    Attributes
    ----------
    dots : tuple of Dot
        One for each K from 2 on.
    band : str
        Outline of the mean plus and minus one standard deviation, as SVG points.
    theory : tuple of two floats or None
        Upper and lower edge of the range in which theory expects the curve to level off.
    marks : tuple of NumberMark
        The number of clusters of the model and, if it differs, the estimate.
    x_ticks, y_ticks : tuple of Dot
    caption : str
        What is drawn, and what it shows.
    """

    dots: tuple[Dot, ...]
    band: str
    theory: tuple[float, float] | None
    marks: tuple[NumberMark, ...]
    x_ticks: tuple[Dot, ...]
    y_ticks: tuple[Dot, ...]
    caption: str


@dataclass(frozen=True)
class NumberEvidence:
    """The number of clusters.

    Attributes
    ----------
    n_clusters : int
        What the model has.
    was_given : bool
        Whether the user chose it.
    inferred : int
        The best estimate.
    confidence : float
    explanation : str
    candidates : tuple of (int, float)
        Numbers and their shares of the evidence.
    curve : Curve or None
    """

    n_clusters: int
    was_given: bool
    inferred: int
    confidence: float
    explanation: str
    candidates: tuple[tuple[int, float], ...]
    curve: Curve | None


def find_evidence(
    model: Any, embedding: NDArray[Any], *, constraints: Constraints, are_training_rows: bool
) -> NumberEvidence:
    """What the model said when it was fitted or, if the pairs are others, what these say."""
    number = _infer(model, embedding, constraints=constraints, are_training_rows=are_training_rows)
    n_clusters, was_given = int(model.n_clusters_), getattr(model, "cluster_number_", None) is None
    return NumberEvidence(
        n_clusters=n_clusters,
        was_given=was_given,
        inferred=number.value,
        confidence=number.confidence,
        explanation=number.explanation,
        candidates=tuple((c.value, c.weight) for c in number.candidates[:_SHOWN_CANDIDATES]),
        curve=draw_curve(number, n_clusters=n_clusters, was_given=was_given),
    )


def draw_curve(number: ClusterNumber, *, n_clusters: int, was_given: bool) -> Curve | None:
    """Coordinates of the curve; ``None`` if there is none for lack of cannot-links."""
    if number.method not in ANGLE_METHODS or len(number.curve) == 0:
        return None
    shown = shown_length(number)
    curve, spread = np.degrees(number.curve[:shown]), np.degrees(number.curve_spread[:shown])
    axis = _Axis(min(2, n_clusters, number.value), max(shown + 1, n_clusters, number.value))
    highest = max(100.0, float((curve + spread).max()) + 5, _theory_top(number))
    top = min(180.0, 30.0 * math.ceil(highest / 30))
    across = axis.place(np.arange(2, shown + 2))
    return Curve(
        dots=_dots(across, curve, spread, top=top),
        band=_outline(across, _height(curve + spread, top), _height(curve - spread, top)),
        theory=_theory(number.value, top),
        marks=_marks(axis, n_clusters, number.value),
        x_ticks=axis.ticks({n_clusters, number.value}),
        y_ticks=tuple(Dot(LEFT, y, f"{angle:.0f}°") for angle, y in _angles(top)),
        caption=_caption(number, n_clusters, was_given=was_given),
    )


@dataclass(frozen=True)
class _Axis:
    """The horizontal axis: numbers of clusters from ``low`` to ``high``."""

    low: int
    high: int

    def place(self, n_clusters: Any) -> Floats:
        share = (np.asarray(n_clusters) - self.low + 0.5) / (self.high - self.low + 1)
        return np.asarray(np.round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1))

    def ticks(self, marked: set[int]) -> tuple[Dot, ...]:
        """Labels of the axis; the marked numbers have labels of their own, with room around them."""
        step = math.ceil((self.high - self.low + 1) / _MOST_LABELS)
        numbers = [k for k in range(self.low, self.high + 1) if k % step == 0]
        free = [k for k in numbers if all(abs(k - mark) >= step for mark in marked)]
        return tuple(Dot(float(self.place(k)), 0.0, str(k)) for k in free)


def _infer(
    model: Any, embedding: NDArray[Any], *, constraints: Constraints, are_training_rows: bool
) -> ClusterNumber:
    found: ClusterNumber | None = getattr(model, "cluster_number_", None)
    says_nothing_new = constraints == model.constraints_ if are_training_rows else len(constraints) == 0
    if found is not None and says_nothing_new:
        return found
    if are_training_rows and hasattr(model, "count_clusters"):
        counted: ClusterNumber = model.count_clusters(constraints)
        return counted
    return infer_n_clusters(
        embedding, constraints, tail_ratio=getattr(model, "tail_ratio", 0.05), random_state=0
    )


def _marks(axis: _Axis, n_clusters: int, inferred: int) -> tuple[NumberMark, ...]:
    words = "1 cluster" if n_clusters == 1 else f"{n_clusters} clusters"
    mark = NumberMark(n_clusters, float(axis.place(n_clusters)), words, False)
    if inferred == n_clusters:
        return (mark,)
    return (mark, NumberMark(inferred, float(axis.place(inferred)), f"estimate {inferred}", True))


def _caption(number: ClusterNumber, n_clusters: int, *, was_given: bool) -> str:
    """What is drawn, and whether the curve by itself shows the number of clusters."""
    words = "1 cluster" if n_clusters == 1 else f"{n_clusters} clusters"
    sentences = [
        "Mean of the smallest angles between cannot-linked rows (± one standard deviation over resampled "
        "pairs), in the first K − 1 principal components of the embedding. In theory it rises up to the "
        "number of clusters and is flat from there on.",
        f"Dashed: the {words} {'you asked for' if was_given else 'of the model'}.",
        _reading(number, n_clusters),
    ]
    if number.value != n_clusters:
        sentences.append(f"Dotted: the best estimate, {number.value}.")
    if number.value >= 2:
        sentences.append(f"Shaded: where theory expects {number.value} clusters without noise to level off.")
    return " ".join(sentences)


def _reading(number: ClusterNumber, n_clusters: int) -> str:
    """What the curve does at the marked number."""
    if levels_off(number, n_clusters):
        return "The curve levels off there."
    also = "" if number.method != "consensus" else "; the estimate weighs partitions and pair counts as well"
    return f"The curve alone does not settle it{also}."


def _dots(across: Floats, curve: Floats, spread: Floats, *, top: float) -> tuple[Dot, ...]:
    return tuple(
        Dot(x, round(y, 1), str(n_clusters), f"K = {n_clusters}: {angle:.1f}° ± {sd:.1f}°")
        for n_clusters, (x, y, angle, sd) in enumerate(
            zip(across.tolist(), _height(curve, top).tolist(), curve.tolist(), spread.tolist(), strict=True),
            start=2,
        )
    )


def _height(angles: Floats, top: float) -> Floats:
    share = np.clip(angles / top, 0.0, 1.0)
    return np.asarray(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share)


def _outline(across: Floats, upper: Floats, lower: Floats) -> str:
    points = np.concatenate([np.column_stack([across, upper]), np.column_stack([across, lower])[::-1]])
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points.tolist())


def _angles(top: float) -> list[tuple[float, float]]:
    angles = np.arange(0.0, top + 1, 30.0)
    return list(zip(angles.tolist(), _height(angles, top).round(1).tolist(), strict=True))


def _theory(n_clusters: int, top: float) -> tuple[float, float] | None:
    if n_clusters < 2:
        return None
    bounds = minimal_angle_bounds(n_clusters)
    upper, lower = _height(np.degrees([bounds.high, bounds.low]), top).round(1).tolist()
    # For two clusters the range is a single angle; drawn as a strip it can still be seen.
    return (upper, max(lower, upper + 3.0))


def _theory_top(number: ClusterNumber) -> float:
    return math.degrees(minimal_angle_bounds(number.value).high) + 5 if number.value >= 2 else 0.0

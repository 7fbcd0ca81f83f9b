"""How many clusters there are, how sure that is, and the curve as a drawing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
from spherepair.constraints import Constraints
from spherepair.plots.number import ANGLE_METHODS
from spherepair.theory import minimal_angle_bounds

Floats = NDArray[np.float64]
#: Of the drawing, in its own units; the page scales it.
WIDTH, HEIGHT = 620, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 16, 44
_SHOWN_CANDIDATES = 5


@dataclass(frozen=True)
class Dot:
    """A point of the curve: where it is drawn, and what it says."""

    x: float
    y: float
    label: str
    title: str


@dataclass(frozen=True)
class Curve:
    """A curve with its spread as coordinates of a drawing of WIDTH by HEIGHT.

    Attributes
    ----------
    dots : tuple of Dot
    band : str
        Outline of the mean plus and minus one standard deviation, as SVG points.
    theory : tuple of two floats or None
        Upper and lower edge of the range in which theory lets the curve level off.
    onset : int or None
        Position of the dot that the number of clusters was read from.
    ticks : tuple of Dot
        Of the vertical axis.
    x_title, y_title : str
    """

    dots: tuple[Dot, ...]
    band: str
    theory: tuple[float, float] | None
    onset: int | None
    ticks: tuple[Dot, ...]
    x_title: str
    y_title: str


@dataclass(frozen=True)
class Evidence:
    """The number of clusters.

    Attributes
    ----------
    n_clusters : int
        What the model has.
    was_given : bool
        Whether the user chose it.
    inferred : int
        What the embedding points to.
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
) -> Evidence:
    """What the model said when it was fitted or, where there are other pairs, what these say."""
    number = _number(model, embedding, constraints=constraints, are_training_rows=are_training_rows)
    return Evidence(
        n_clusters=int(model.n_clusters_),
        was_given=getattr(model, "cluster_number_", None) is None,
        inferred=number.value,
        confidence=number.confidence,
        explanation=number.explanation,
        candidates=tuple((c.value, c.weight) for c in number.candidates[:_SHOWN_CANDIDATES]),
        curve=draw_curve(number),
    )


def draw_curve(number: ClusterNumber) -> Curve | None:
    """Coordinates of the curve; ``None`` where there is none, for lack of cannot-links."""
    if number.method not in ANGLE_METHODS or len(number.curve) == 0:
        return None
    # The plateau goes on and on: show it as far again as the rise.
    shown = min(len(number.curve), max(12, 2 * number.value + 2))
    curve, spread = np.degrees(number.curve[:shown]), np.degrees(number.curve_spread[:shown])
    top = 30.0 * math.ceil(max(100.0, float((curve + spread).max()) + 5, _theory_top(number)) / 30)
    across = _LEFT + (WIDTH - _LEFT - _RIGHT) * (np.arange(shown) + 0.5) / shown
    onset = number.value - 2
    return Curve(
        dots=_dots(across, curve, spread, top=top),
        band=_outline(across, _height(curve + spread, top), _height(curve - spread, top)),
        theory=_theory(number.value, top),
        onset=onset if 0 <= onset < shown else None,
        ticks=tuple(Dot(_LEFT, y, f"{angle:.0f}°", "") for angle, y in _ticks(top)),
        x_title="principal components kept, d",
        y_title="smallest cannot-link angles",
    )


def _number(
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


def _dots(across: Floats, curve: Floats, spread: Floats, *, top: float) -> tuple[Dot, ...]:
    return tuple(
        Dot(round(x, 1), round(y, 1), str(place), f"d = {place}: {angle:.1f}° ± {sd:.1f}°")
        for place, (x, y, angle, sd) in enumerate(
            zip(across.tolist(), _height(curve, top).tolist(), curve.tolist(), spread.tolist(), strict=True),
            start=1,
        )
    )


def _height(angles: Floats, top: float) -> Floats:
    share = np.clip(angles / top, 0.0, 1.0)
    return np.asarray(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share)


def _outline(across: Floats, upper: Floats, lower: Floats) -> str:
    points = np.concatenate([np.column_stack([across, upper]), np.column_stack([across, lower])[::-1]])
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points.tolist())


def _ticks(top: float) -> list[tuple[float, float]]:
    angles = np.arange(0.0, top + 1, 30.0)
    return list(zip(angles.tolist(), _height(angles, top).round(1).tolist(), strict=True))


def _theory(n_clusters: int, top: float) -> tuple[float, float] | None:
    if n_clusters < 2:
        return None
    bounds = minimal_angle_bounds(n_clusters)
    upper, lower = _height(np.degrees([bounds.high, bounds.low]), top).round(1).tolist()
    # For two clusters the range is a single angle; a strip of it can still be seen.
    return (upper, max(lower, upper + 3.0))


def _theory_top(number: ClusterNumber) -> float:
    return math.degrees(minimal_angle_bounds(number.value).high) + 5 if number.value >= 2 else 0.0

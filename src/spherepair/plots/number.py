"""The curve from which the number of clusters is read: tail-averaged angles over dimensions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.plots.figures import new_figure, quiet_axes
from spherepair.plots.palette import BLUE, GREEN, VERMILION
from spherepair.theory import minimal_angle_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Methods whose curve holds angles over dimensions; the others score each number of clusters.
ANGLE_METHODS = ("tail-angle", "consensus")


def tail_angle_curve(cluster_number: ClusterNumber, *, title: str | None = None) -> Figure:
    """Draw the evidence for an inferred number of clusters.

    The tail-averaged angle of cannot-linked pairs (δ̄_d) with its spread over resampled pairs, the
    onset of the plateau that was chosen, and the range in which theory allows the plateau to lie.

    Parameters
    ----------
    cluster_number : ClusterNumber
        As ``model.cluster_number_`` or :func:`spherepair.infer_n_clusters` gives it.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(5.2, 4.0)
    draw_tail_angle_curve(figure.add_subplot(), cluster_number, title=title)
    return figure


def draw_tail_angle_curve(axes: Axes, cluster_number: ClusterNumber, *, title: str | None = None) -> None:
    """As :func:`tail_angle_curve`, into axes that are there already."""
    quiet_axes(axes)
    if len(cluster_number.curve) == 0:
        axes.text(0.5, 0.5, "no curve: there are no cannot-links", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
    elif cluster_number.method in ANGLE_METHODS:
        _draw_angles(axes, cluster_number)
    else:
        _draw_scores(axes, cluster_number)
    axes.set_title(title or _title(cluster_number), pad=10)


def _title(number: ClusterNumber) -> str:
    clusters = "1 cluster" if number.value == 1 else f"{number.value} clusters"
    return f"{clusters}, confidence {number.confidence:.2f}"


def _draw_angles(axes: Axes, number: ClusterNumber) -> None:
    curve, spread = np.degrees(number.curve), np.degrees(number.curve_spread)
    dimensions = np.arange(1, len(curve) + 1)
    if number.value >= 2:
        _draw_theory(axes, number.value)
    _draw_line(axes, dimensions, curve, spread, label="smallest cannot-link angles (mean ± sd)")
    onset = number.value - 1
    if 1 <= onset <= len(curve):
        _mark(axes, onset, curve[onset - 1], label=f"onset: {onset} dimensions → {number.value} clusters")
    axes.set_xlabel("principal components kept, d")
    axes.set_ylabel("angle in degrees")
    # A plateau says nothing more after a while; a long flat tail would squeeze the rise.
    axes.set_xlim(0.5, min(len(curve), max(12, 2 * number.value + 2)) + 0.5)
    axes.set_ylim(0, max(100.0, 1.25 * float(curve.max())))
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def _draw_theory(axes: Axes, n_clusters: int) -> None:
    bounds = minimal_angle_bounds(n_clusters)
    low, high = math.degrees(bounds.low), math.degrees(bounds.high)
    label = f"where {n_clusters} clusters can level off (theory)"
    if math.isclose(low, high):
        axes.axhline(low, color=GREEN, alpha=0.4, linewidth=3, label=label)
    else:
        axes.axhspan(low, high, color=GREEN, alpha=0.12, linewidth=0, label=label)


def _draw_scores(axes: Axes, number: ClusterNumber) -> None:
    candidates = np.arange(2, len(number.curve) + 2)
    _draw_line(axes, candidates, number.curve, number.curve_spread, label=f"{number.method} (mean ± sd)")
    if 2 <= number.value <= candidates[-1]:
        _mark(axes, number.value, number.curve[number.value - 2], label=f"chosen: {number.value} clusters")
    axes.set_xlabel("number of clusters")
    axes.set_ylabel(f"{number.method} score")
    axes.legend(loc="best", frameon=False, fontsize=8)


def _draw_line(
    axes: Axes,
    x: NDArray[np.int64],
    curve: NDArray[np.float64],
    spread: NDArray[np.float64],
    *,
    label: str,
) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.fill_between(x, curve - spread, curve + spread, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(x, curve, color=BLUE, marker="o", markersize=3.5, linewidth=1.5, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _mark(axes: Axes, x: float, y: float, *, label: str) -> None:
    axes.axvline(x, color=VERMILION, linewidth=1, linestyle="--")
    axes.plot([x], [y], color=VERMILION, marker="o", markersize=8, linestyle="none", label=label)

"""The curve from which the number of clusters is read: tail-averaged angles over dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.plots.figures import SINGLE_COLUMN, describe, new_figure, quiet_axes
from spherepair.plots.palette import BLUE, GREEN, VERMILION
from spherepair.plots.sweep import draw_sweep
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


def plot_tail_angles(
    curves: ArrayLike,
    *,
    labels: Sequence[str],
    n_clusters: int,
    title: str | None = None,
    width: float = SINGLE_COLUMN,
) -> Figure:
    """Draw several tail-angle curves, for instance one per tail ratio ρ or per number of pairs.

    Parameters
    ----------
    curves : array-like of shape (n_series, n_dimensions) or (n_series, n_dimensions, n_runs)
        Tail-averaged angles δ̄_d in radians for d = 1, 2, …
    labels : sequence of n_series names
    n_clusters : int
        The true number of clusters K: the plateau should begin at d = K - 1.
    title : str, optional
    width : float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_tail_angles([[0.0, 1.0, 1.5, 1.5]], labels=["ρ = 0.05"], n_clusters=4)
    >>> figure.axes[0].get_xlabel()
    'principal components kept, d'
    """
    angles = np.degrees(np.asarray(curves, dtype=np.float64))
    figure = new_figure(width, 2.5)
    axes = figure.add_subplot()
    if n_clusters >= 2:
        _draw_theory(axes, n_clusters)
    draw_sweep(
        axes,
        np.arange(1, angles.shape[1] + 1 if angles.ndim > 1 else 1),
        angles,
        labels=labels,
        line=n_clusters - 1,
        line_label="d = K − 1",
    )
    heading = title or f"{n_clusters} clusters: the plateau begins at d = {n_clusters - 1}"
    describe(axes, title=heading, x="principal components kept, d", y="angle in degrees")
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

"""Curves of a fitted model: the evidence for its number of clusters, and its losses during training.

K clusters need K - 1 dimensions, so the tail-averaged angle δ̄_d of cannot-linked pairs in the first d
principal components rises until d = K - 1 (Algorithm 2 of the paper). The curve is drawn over
K = d + 1, so that the number of clusters can be read off the axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.clustering import ClusterNumber
from spherepair.errors import InvalidDataError
from spherepair.plots.lines import label_ends, plot_sweep
from spherepair.plots.style import (
    BLUE,
    GRAY,
    GREEN,
    SINGLE_COLUMN,
    SMALL_SIZE,
    VERMILION,
    axes_or_new,
    describe,
    figure_of,
    hide_frame,
    line_style,
)
from spherepair.theory import minimal_angle_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Records = Sequence[Mapping[str, Any]]
#: Methods whose curve holds angles over dimensions; the others score each number of clusters.
ANGLE_METHODS = ("tail-angle", "consensus")
#: A curve that rises by no more than this looks flat.
_FLAT_DEGREES = 5.0
_NOT_A_TERM = frozenset({"stage", "epoch", "loss", "seconds"})


def plot_cluster_number(model: Any, *, title: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw the evidence for an inferred number of clusters, which is marked on the axis.

    The curve is the tail-averaged angle of cannot-linked pairs with its spread over resampled pairs,
    or the score of the silhouette or lifetime. The green band is the range in which theory expects
    the angle of so many clusters to level off.

    Parameters
    ----------
    model : fitted SpherePair or ClusterNumber
        A model fitted with ``n_clusters="auto"``, or what ``model.count_clusters()`` or
        :func:`spherepair.infer_n_clusters` return.
    title : str, optional
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from spherepair import Constraints, infer_n_clusters
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(300) % 3
    >>> rows = np.eye(8)[labels] + 0.05 * rng.normal(size=(300, 8))
    >>> number = infer_n_clusters(rows, Constraints.from_labels(labels, 200, random_state=0), random_state=0)
    >>> plot_cluster_number(number).axes[0].get_xlabel()
    'number of clusters K'
    """
    number = _number_of(model)
    axes = axes_or_new(ax, 5.2, 4.0)
    hide_frame(axes)
    if len(number.curve) == 0:
        axes.text(0.5, 0.5, "no curve: there are no cannot-links", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
    elif number.method in ANGLE_METHODS:
        _draw_angles(axes, number)
    else:
        _draw_scores(axes, number)
    clusters = "1 cluster" if number.value == 1 else f"{number.value} clusters"
    axes.set_title(title or f"{clusters}, confidence {number.confidence:.2f}", pad=10)
    return figure_of(axes)


def plot_tail_angles(
    curves: ArrayLike,
    *,
    labels: Sequence[str],
    n_clusters: int,
    title: str | None = None,
    width: float = SINGLE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """Draw several tail-angle curves, for instance one per tail ratio ρ or per number of pairs.

    Parameters
    ----------
    curves : array-like of shape (n_series, n_dimensions) or (n_series, n_dimensions, n_runs)
        Tail-averaged angles δ̄_d in radians for d = 1, 2, …
    labels : sequence of n_series str
        Names of the curves.
    n_clusters : int
        The true number of clusters K: the plateau should begin at d = K - 1.
    title : str, optional
    width : float
        Width of a new figure in inches.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_tail_angles([[0.0, 1.0, 1.5, 1.5]], labels=["ρ = 0.05"], n_clusters=4)
    >>> figure.axes[0].get_xlabel()
    'principal components d'
    """
    angles = np.degrees(np.asarray(curves, dtype=np.float64))
    axes = axes_or_new(ax, width, 2.5)
    if n_clusters >= 2:
        _draw_theory(axes, n_clusters)
    return plot_sweep(
        np.arange(1, angles.shape[1] + 1 if angles.ndim > 1 else 1),
        angles,
        labels=labels,
        title=title or f"{n_clusters} clusters: the plateau should begin at d = {n_clusters - 1}",
        x_label="principal components d",
        y_label="angle in degrees",
        line=n_clusters - 1,
        line_label="d = K − 1",
        ax=axes,
    )


def plot_history(model: Any, *, title: str | None = None, ax: Axes | None = None) -> Figure:
    """Draw the terms of the loss over the epochs, one stage of training after the other.

    Parameters
    ----------
    model : fitted estimator or sequence of dict
        A model, or its ``history_``: one record per epoch with stage, epoch, loss and each term.
    title : str, optional
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> records = [{"stage": "pairs", "epoch": e, "pairs": 1 / (e + 1)} for e in range(3)]
    >>> plot_history(records).axes[0].get_xlabel()
    'epoch'
    """
    history: Records = getattr(model, "history_", model)
    if hasattr(history, "fit") or not history:
        raise InvalidDataError("the history is empty; fit the model first.")
    axes = axes_or_new(ax, 5.2, 2.9)
    hide_frame(axes)
    terms = list(dict.fromkeys(key for record in history for key in record if key not in _NOT_A_TERM))
    lines = [_draw_term(axes, history, term, series=index) for index, term in enumerate(terms)]
    # A term below zero, such as minus a volume, has no logarithm.
    is_signed = any((heights < 0).any() for _, heights in lines)
    axes.set_yscale("symlog", linthresh=1e-2) if is_signed else axes.set_yscale("log")
    _mark_stages(axes, history)
    label_ends(axes, lines, terms)
    describe(
        axes, title=title or "Terms of the loss during training", x="epoch", y="term of the loss", pad=18
    )
    return figure_of(axes)


def shown_length(number: ClusterNumber) -> int:
    """Dimensions of the curve worth showing: the plateau goes on and on and would squeeze the rise."""
    return min(len(number.curve), max(12, 2 * number.value + 2))


def levels_off(number: ClusterNumber, n_clusters: int) -> bool:
    """Whether the angles rise until K = ``n_clusters`` and hardly any further.

    Examples
    --------
    >>> curve, spread = np.radians([0, 60, 90, 91, 91]), np.zeros(5)
    >>> number = ClusterNumber(4, "consensus", curve, spread, (), 0.9, "")
    >>> [levels_off(number, k) for k in (2, 3, 4, 5)]
    [False, False, True, False]
    """
    place = n_clusters - 2
    if not 0 <= place < len(number.curve):
        return False
    curve = np.degrees(np.concatenate([[0.0], number.curve[: shown_length(number)]]))  # from d = 0
    rise_into, rise_after = curve[place + 1] - curve[place], curve[place + 1 :].max() - curve[place + 1]
    return bool(rise_after <= _FLAT_DEGREES and rise_into > max(1.0, rise_after))


def _number_of(model: Any) -> ClusterNumber:
    found = getattr(model, "cluster_number_", model)
    if isinstance(found, ClusterNumber):
        return found
    raise InvalidDataError(
        f"a {type(model).__name__} holds no inferred number of clusters; fit it with n_clusters='auto', or "
        "give what its count_clusters() returns."
    )


def _draw_angles(ax: Axes, number: ClusterNumber) -> None:
    curve, spread = np.degrees(number.curve), np.degrees(number.curve_spread)
    candidates = np.arange(2, len(curve) + 2)
    if number.value >= 2:
        _draw_theory(ax, number.value)
    _draw_curve(ax, candidates, curve, spread, label="smallest cannot-link angles")
    _mark_number(ax, number)
    ax.set_xlabel("number of clusters K")
    ax.set_ylabel("angle in degrees")
    ax.set_xlim(1.5 if number.value >= 2 else 0.5, shown_length(number) + 1.5)
    expected = math.degrees(minimal_angle_bounds(number.value).high) if number.value >= 2 else 0.0
    ax.set_ylim(0, min(190.0, max(100.0, 1.25 * float(curve.max()), expected + 10)))
    ax.legend(loc="lower right", framealpha=0.8, edgecolor="none", fontsize=SMALL_SIZE)


def _draw_scores(ax: Axes, number: ClusterNumber) -> None:
    candidates = np.arange(2, len(number.curve) + 2)
    _draw_curve(ax, candidates, number.curve, number.curve_spread, label=f"{number.method} (mean ± sd)")
    _mark_number(ax, number)
    ax.set_xlabel("number of clusters K")
    ax.set_ylabel(f"{number.method} score")
    ax.legend(loc="best", framealpha=0.8, edgecolor="none", fontsize=SMALL_SIZE)


def _draw_curve(ax: Axes, x: NDArray[np.int64], curve: Floats, spread: Floats, *, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.fill_between(x, curve - spread, curve + spread, color=BLUE, alpha=0.25, linewidth=0)
    ax.plot(x, curve, color=BLUE, marker="o", markersize=3.5, linewidth=1.5, label=label)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _mark_number(ax: Axes, number: ClusterNumber) -> None:
    label = f"decided: K = {number.value}"
    ax.axvline(number.value, color=VERMILION, linewidth=1.4, linestyle="--", zorder=1, label=label)


def _draw_theory(ax: Axes, n_clusters: int) -> None:
    bounds = minimal_angle_bounds(n_clusters)
    low, high = math.degrees(bounds.low), math.degrees(bounds.high)
    label = f"theory for {n_clusters} clusters"
    if math.isclose(low, high):
        ax.axhline(low, color=GREEN, alpha=0.4, linewidth=3, label=label)
    else:
        ax.axhspan(low, high, color=GREEN, alpha=0.12, linewidth=0, label=label)


def _draw_term(ax: Axes, history: Records, term: str, *, series: int) -> tuple[Floats, Floats]:
    values = np.array([record.get(term, np.nan) for record in history], dtype=np.float64)
    stages = np.array([str(record["stage"]) for record in history])
    starts = np.flatnonzero(stages[1:] != stages[:-1]) + 1
    # Stages weigh their terms differently: a line across two of them would show a fall that is none.
    epochs = np.insert(np.arange(1.0, len(history) + 1), starts, np.nan)
    heights = np.insert(values, starts, np.nan)
    style = line_style(series) | {"marker": "none"}
    ax.plot(epochs, heights, linewidth=1.4, label=term, **style)
    return epochs, heights


def _mark_stages(ax: Axes, history: Records) -> None:
    start = 0
    for stage, records in groupby(history, key=lambda record: record["stage"]):
        length = sum(1 for _ in records)
        if start:
            ax.axvline(start + 0.5, color=GRAY, linewidth=0.8, linestyle=":")
        place: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center"}
        ax.text(start + length / 2 + 0.5, 1.02, stage, color=GRAY, fontsize=SMALL_SIZE, **place)
        start += length

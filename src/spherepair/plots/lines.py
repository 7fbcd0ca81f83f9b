"""Measurements as lines: sweeps over a parameter, imbalanced constraints, cost against size.

Each line is the mean over runs with a band of one standard deviation, and its name stands at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.plots.style import (
    BLACK,
    GRAY,
    SINGLE_COLUMN,
    SMALL_SIZE,
    VERMILION,
    axes_or_new,
    describe,
    figure_of,
    hide_frame,
    line_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SCALES = ("linear", "log", "symlog")
_HEIGHT = 2.5


def plot_sweep(
    x: ArrayLike,
    values: ArrayLike,
    *,
    labels: Sequence[str],
    title: str,
    x_label: str,
    y_label: str = "accuracy",
    name_lines: bool = True,
    line: float | None = None,
    line_label: str = "",
    scale: str = "linear",
    width: float = SINGLE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """Draw a measure against a parameter, one line per method or dataset.

    Parameters
    ----------
    x : array-like of shape (n_x,) or (n_series, n_x)
        Values of the parameter, for instance D, λ or ρ; those of each line if they differ.
    values : array-like of shape (n_series, n_x) or (n_series, n_x, n_runs)
        The measure; NaN where a run is missing.
    labels : sequence of n_series str
        Names of the lines.
    title, x_label, y_label : str
    name_lines : bool
        Whether the lines' names stand at their ends; not wanted beside a panel that has them.
    line, line_label : float and str, optional
        A vertical line, for instance where theory expects a change, and its name.
    scale : {"linear", "log", "symlog"}
        Scale of the parameter; ``"symlog"`` is a logarithm that has room for zero.
    width : float
        Width of a new figure in inches.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_sweep(
    ...     [2, 5, 10, 20], [[40, 70, 90, 91]], labels=["MNIST"], title="Accuracy needs D of at least K",
    ...     x_label="embedding dimension D", line=10, line_label="D = K", scale="log"
    ... )
    >>> figure.axes[0].get_xscale()
    'log'
    """
    places, runs = check_series(x, values, labels)
    axes = axes_or_new(ax, width, _HEIGHT)
    hide_frame(axes)
    _draw_series(axes, places, runs, labels=labels)
    _set_scale(axes, places, scale)
    if line is not None:
        _draw_vertical(axes, line, line_label)
    if name_lines:
        label_ends(axes, list(zip(places, mean_and_spread(runs)[0], strict=True)), labels)
    describe(axes, title=title, x=x_label, y=y_label)
    return figure_of(axes)


def plot_imbalance(
    values: ArrayLike,
    *,
    labels: Sequence[str],
    title: str,
    sets: Sequence[str] = ("IMB0", "IMB1", "IMB2"),
    y_label: str = "accuracy",
    width: float = SINGLE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """Draw a measure over ever more imbalanced constraints, one line per method.

    Parameters
    ----------
    values : array-like of shape (n_methods, n_sets) or (n_methods, n_sets, n_runs)
        The measure on each set of constraints, from balanced to imbalanced.
    labels : sequence of n_methods str
        Names of the methods.
    title : str
    sets : sequence of n_sets str
        Names of the sets of constraints.
    y_label : str
    width : float
        Width of a new figure in inches.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_imbalance([[90, 89, 88], [90, 70, 50]], labels=["SpherePair", "CIDEC"], title="MNIST")
    >>> [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    ['IMB0', 'IMB1', 'IMB2']
    """
    axes = axes_or_new(ax, width, _HEIGHT)
    places = np.arange(len(sets), dtype=np.float64)
    words: dict[str, Any] = {"title": title, "y_label": y_label, "labels": labels}
    plot_sweep(places, values, x_label="constraints, more and more on one cluster", ax=axes, **words)
    axes.set_xticks(places, list(sets))
    return figure_of(axes)


def plot_scaling(
    sizes: ArrayLike,
    seconds: ArrayLike,
    *,
    labels: Sequence[str],
    title: str,
    x_label: str = "rows",
    y_label: str = "seconds",
    width: float = SINGLE_COLUMN,
    ax: Axes | None = None,
) -> Figure:
    """Draw cost against size on logarithmic axes, beside a line of slope one.

    Parameters
    ----------
    sizes : array-like of shape (n_sizes,)
        Numbers of rows, pairs, dimensions or clusters; all above zero.
    seconds : array-like of shape (n_series, n_sizes) or (n_series, n_sizes, n_runs)
        Cost of each step at each size; NaN where it was not measured.
    labels : sequence of n_series str
        Names of the steps. The slope between the two largest sizes is added: 1 is linear, 2 quadratic.
    title, x_label, y_label : str
    width : float
        Width of a new figure in inches.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_scaling([10, 100, 1000], [[0.1, 1, 10]], labels=["training"], title="Time over rows")
    >>> figure.axes[0].texts[-1].get_text()
    'training, slope 1.0'
    """
    x, runs = check_series(sizes, seconds, labels)
    if (x <= 0).any() or (runs <= 0).any():
        raise InvalidDataError("sizes and costs must be above zero to be drawn on logarithmic axes.")
    axes = axes_or_new(ax, width, _HEIGHT)
    hide_frame(axes)
    axes.set(xscale="log", yscale="log")
    _draw_series(axes, x, runs, labels=labels)
    means = mean_and_spread(runs)[0]
    _draw_slope_one(axes, x, means)
    lines = list(zip(x, means, strict=True))
    names = [f"{label}{_slope_in_words(*line)}" for label, line in zip(labels, lines, strict=True)]
    label_ends(axes, lines, names)
    describe(axes, title=title, x=x_label, y=y_label)
    return figure_of(axes)


def check_series(x: ArrayLike, values: ArrayLike, labels: Sequence[str]) -> tuple[Floats, Floats]:
    """Places (n_series, n_x) and values (n_series, n_x, n_runs), checked; missing runs are NaN.

    Examples
    --------
    >>> check_series([1, 2, 3], [[0.5, 0.6, 0.7]], ["SpherePair"])[1].shape
    (1, 3, 1)
    """
    places, heights = np.asarray(x, dtype=np.float64), np.asarray(values, dtype=np.float64)
    heights = heights[..., None] if heights.ndim == 2 else heights
    shape = (len(labels), *places.shape[-1:])
    if heights.ndim != 3 or places.shape not in (shape, shape[1:]) or heights.shape[:2] != shape:
        raise InvalidDataError(
            "values must be of shape (n_series, n_x) or (n_series, n_x, n_runs), with one label per series "
            f"and one x per column; got values of shape {np.shape(values)}, {len(labels)} labels and x of "
            f"shape {places.shape}."
        )
    return np.broadcast_to(places, shape), heights


def mean_and_spread(runs: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation (population) over the last axis, without missing runs.

    Examples
    --------
    >>> mean_and_spread(np.array([[1.0, 3.0], [5.0, np.nan], [np.nan, np.nan]]))
    (array([ 2.,  5., nan]), array([ 1.,  0., nan]))
    """
    is_known = np.isfinite(runs)
    count = is_known.sum(axis=-1)
    divisor = np.where(count > 0, count, np.nan)
    mean = np.where(is_known, runs, 0.0).sum(axis=-1) / divisor
    square = np.where(is_known, (runs - mean[..., None]) ** 2, 0.0).sum(axis=-1) / divisor
    return mean, np.sqrt(square)


def label_ends(ax: Axes, lines: Sequence[tuple[Floats, Floats]], labels: Sequence[str]) -> None:
    """Write each line's name to the right of its last point, without overlap."""
    found = [(index, _last_point(x, y)) for index, (x, y) in enumerate(lines)]
    ends = {index: end for index, end in found if end is not None}
    ax.get_xlim(), ax.get_ylim()  # limits are computed only when somebody asks for them
    to_axes = ax.transScale + ax.transLimits
    heights = [float(to_axes.transform(end)[1]) for end in ends.values()]
    for (index, end), height in zip(ends.items(), spread_out(heights, gap=_text_height(ax)), strict=True):
        _label_end(ax, end, labels[index], height=height, color=line_style(index)["color"])


def spread_out(heights: Sequence[float], *, gap: float) -> list[float]:
    """Heights moved as little as possible (least squares) to be ``gap`` apart within [0, 1].

    Examples
    --------
    >>> [round(h, 2) for h in spread_out([0.5, 0.5, 0.9], gap=0.1)]
    [0.45, 0.55, 0.9]
    """
    from sklearn.isotonic import isotonic_regression

    if not len(heights):
        return []
    order = np.argsort(heights, kind="stable")
    steps = min(gap, 1.0 / len(heights)) * np.arange(len(heights))
    # Heights minus their steps only must not fall: that is isotonic regression.
    shifted = np.asarray(heights)[order] - steps
    result = np.empty(len(heights))
    result[order] = isotonic_regression(shifted, y_min=0.0, y_max=1.0 - steps[-1]) + steps
    return [float(height) for height in result]


def log_slope(x: Floats, y: Floats) -> float:
    """Exponent p of the best fit y = c xᵖ (least squares of logarithms); NaN below two points.

    Examples
    --------
    >>> round(log_slope(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0])), 6)
    2.0
    """
    is_known = np.isfinite(y)
    if len(np.unique(x[is_known])) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[is_known]), np.log(y[is_known]), 1)[0])


def _draw_series(ax: Axes, x: Floats, runs: Floats, *, labels: Sequence[str]) -> None:
    means, spreads = mean_and_spread(runs)
    for index, (mean, spread) in enumerate(zip(means, spreads, strict=True)):
        style = line_style(index)
        band = np.where(spread > 0, spread, np.nan)
        ax.fill_between(x[index], mean - band, mean + band, color=style["color"], alpha=0.18, linewidth=0)
        ax.plot(x[index], mean, markersize=3.5, linewidth=1.3, label=labels[index], **style)


def _set_scale(ax: Axes, x: Floats, scale: str) -> None:
    if scale not in SCALES:
        raise InvalidParameterError(f"scale must be one of {', '.join(SCALES)}, got {scale!r} instead.")
    if scale == "symlog":
        positive = x[x > 0]
        ax.set_xscale("symlog", linthresh=float(positive.min()) if len(positive) else 1.0)
    else:
        ax.set_xscale(scale)
    if scale != "linear" and np.abs(x).max() < 1e5:
        # 0.01 and 100 are read faster than powers of ten, as long as they are short.
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _draw_vertical(ax: Axes, x: float, label: str) -> None:
    ax.axvline(x, color=VERMILION, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    place: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
    ax.annotate(label, (x, 1.0), xytext=(3, -1), va="top", fontsize=SMALL_SIZE, color=VERMILION, **place)


def _draw_slope_one(ax: Axes, x: Floats, means: Floats) -> None:
    """A line of slope one below the lowest points, where it hides none."""
    ratios = means / x
    if not np.isfinite(ratios).any():
        return
    ends = np.array([x.min(), x.max()])
    line = 0.5 * float(np.nanmin(ratios)) * ends
    ax.plot(ends, line, color=GRAY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    middle = float(np.sqrt(ends.prod())), float(np.sqrt(line.prod()))
    place: dict[str, Any] = {"xytext": (4, -3), "textcoords": "offset points", "va": "top"}
    ax.annotate("proportional (slope 1)", middle, fontsize=SMALL_SIZE, color=GRAY, **place)


def _slope_in_words(x: Floats, y: Floats) -> str:
    largest = np.argsort(np.where(np.isfinite(y), x, -np.inf))[-2:]
    slope = log_slope(x[largest], y[largest])
    return f", slope {slope:.1f}" if np.isfinite(slope) else ""


def _last_point(x: Floats, y: Floats) -> tuple[float, float] | None:
    known = np.flatnonzero(np.isfinite(y))
    return (float(x[known[-1]]), float(y[known[-1]])) if len(known) else None


def _text_height(ax: Axes) -> float:
    """Height of a line of text as a share of the height of the axes."""
    inches = figure_of(ax).get_figheight() * ax.get_position().height
    return 1.45 * SMALL_SIZE / 72 / max(inches, 0.1)


def _label_end(ax: Axes, end: tuple[float, float], label: str, *, height: float, color: str) -> None:
    # The connecting line starts at the left end of the name, not at its middle.
    arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "relpos": (0.0, 0.5)}
    ax.annotate(
        label,
        end,
        xytext=(1.06, height),
        textcoords="axes fraction",
        va="center",
        fontsize=SMALL_SIZE,
        color=BLACK,
        arrowprops=arrow | {"shrinkA": 1, "shrinkB": 3},
    )

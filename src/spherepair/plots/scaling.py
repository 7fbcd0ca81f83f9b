"""Cost against size on logarithmic axes, beside the line of slope one: what grows in proportion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spherepair.errors import InvalidDataError
from spherepair.plots.figures import SINGLE_COLUMN, SMALL_SIZE, describe, new_figure, quiet_axes
from spherepair.plots.palette import GREY
from spherepair.plots.series import Floats, check_series, draw_series, mean_and_spread, name_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_scaling(
    sizes: ArrayLike,
    seconds: ArrayLike,
    *,
    labels: Sequence[str],
    title: str,
    x_label: str = "rows",
    y_label: str = "seconds",
    width: float = SINGLE_COLUMN,
) -> Figure:
    """Draw cost against size, with each line's slope at its end and the line of slope one.

    Parameters
    ----------
    sizes : array-like of shape (n_sizes,)
        Numbers of rows, pairs, dimensions or clusters; all above zero.
    seconds : array-like of shape (n_series, n_sizes) or (n_series, n_sizes, n_runs)
        Cost (or bytes) of each step at each size; NaN where it was not measured.
    labels : sequence of n_series names
        Of the steps, written at the ends of their lines with the slope between the two largest sizes: 1 is
        linear, 2 quadratic.
    title, x_label, y_label : str
    width : float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_scaling([10, 100, 1000], [[0.1, 1, 10]], labels=["training"], title="Time over rows")
    >>> figure.axes[0].texts[-1].get_text()
    'training, slope 1.0'
    """
    figure = new_figure(width, 2.5)
    axes = figure.add_subplot()
    draw_scaling(axes, sizes, seconds, labels=labels)
    describe(axes, title=title, x=x_label, y=y_label)
    return figure


def draw_scaling(axes: Axes, sizes: ArrayLike, seconds: ArrayLike, *, labels: Sequence[str]) -> None:
    """As :func:`plot_scaling`, into axes that are there already."""
    x, runs = check_series(sizes, seconds, labels)
    if (x <= 0).any() or (runs <= 0).any():
        raise InvalidDataError("sizes and costs must be above zero to be drawn on logarithmic axes.")
    quiet_axes(axes)
    axes.set_xscale("log")
    axes.set_yscale("log")
    draw_series(axes, x, runs, labels=labels)
    means = mean_and_spread(runs)[0]
    _draw_proportion(axes, x, means)
    names = [f"{label}{_slope_in_words(x, mean)}" for label, mean in zip(labels, means, strict=True)]
    name_ends(axes, [(x, mean) for mean in means], names)


def log_slope(x: Floats, y: Floats) -> float:
    """Exponent p of the best fit y = c xᵖ (least squares of logarithms); NaN below two points.

    Examples
    --------
    >>> round(log_slope(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0])), 6)
    2.0
    """
    known = np.isfinite(y)
    if len(np.unique(x[known])) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x[known]), np.log(y[known]), 1)[0])


def _slope_in_words(x: Floats, y: Floats) -> str:
    largest = np.argsort(np.where(np.isfinite(y), x, -np.inf))[-2:]
    slope = log_slope(x[largest], y[largest])
    return f", slope {slope:.1f}" if np.isfinite(slope) else ""


def _draw_proportion(axes: Axes, x: Floats, means: Floats) -> None:
    """A line of slope one below the lowest points, where it hides none."""
    ratios = means / x
    if not np.isfinite(ratios).any():
        return
    ends = np.array([x.min(), x.max()])
    line = 0.5 * float(np.nanmin(ratios)) * ends
    axes.plot(ends, line, color=GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    middle = float(np.sqrt(ends.prod())), float(np.sqrt(line.prod()))
    axes.annotate(
        "in proportion (slope 1)",
        middle,
        xytext=(4, -3),
        textcoords="offset points",
        va="top",
        fontsize=SMALL_SIZE,
        color=GREY,
    )

"""Lines of several methods or data sets: mean, spread over runs, and names at the ends of the lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.errors import InvalidDataError
from spherepair.plots.figures import SMALL_SIZE
from spherepair.plots.palette import BLACK, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


def check_series(x: ArrayLike, values: ArrayLike, labels: Sequence[str]) -> tuple[Floats, Floats]:
    """Places (n_x,) and values (n_series, n_x, n_runs); missing runs are NaN.

    Examples
    --------
    >>> check_series([1, 2, 3], [[0.5, 0.6, 0.7]], ["SpherePair"])[1].shape
    (1, 3, 1)
    """
    places, heights = np.asarray(x, dtype=np.float64), np.asarray(values, dtype=np.float64)
    heights = heights[..., None] if heights.ndim == 2 else heights
    if heights.ndim != 3 or places.ndim != 1 or heights.shape[:2] != (len(labels), len(places)):
        raise InvalidDataError(
            "values must be of shape (n_series, n_x) or (n_series, n_x, n_runs), with one label per series "
            f"and one x per column; got values of shape {np.shape(values)}, {len(labels)} labels and x of "
            f"shape {places.shape}."
        )
    return places, heights


def mean_and_spread(runs: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation (population) over the last axis, without runs that are missing.

    Examples
    --------
    >>> mean_and_spread(np.array([[1.0, 3.0], [5.0, np.nan], [np.nan, np.nan]]))
    (array([ 2.,  5., nan]), array([ 1.,  0., nan]))
    """
    there = np.isfinite(runs)
    count = there.sum(axis=-1)
    divisor = np.where(count > 0, count, np.nan)
    mean = np.where(there, runs, 0.0).sum(axis=-1) / divisor
    square = np.where(there, (runs - mean[..., None]) ** 2, 0.0).sum(axis=-1) / divisor
    return mean, np.sqrt(square)


def draw_series(axes: Axes, x: Floats, runs: Floats, *, labels: Sequence[str]) -> None:
    """One line per series with a band of one standard deviation, named at its end."""
    means, spreads = mean_and_spread(runs)
    for index, (mean, spread) in enumerate(zip(means, spreads, strict=True)):
        style = line_style(index)
        band = np.where(spread > 0, spread, np.nan)
        axes.fill_between(x, mean - band, mean + band, color=style["color"], alpha=0.18, linewidth=0)
        axes.plot(x, mean, markersize=3.5, linewidth=1.3, label=labels[index], **style)


def name_ends(axes: Axes, lines: Sequence[tuple[Floats, Floats]], labels: Sequence[str]) -> None:
    """Write each line's name to the right of its last point, apart from each other."""
    found = [(index, _last_point(x, y)) for index, (x, y) in enumerate(lines)]
    ends = {index: end for index, end in found if end is not None}
    axes.get_xlim(), axes.get_ylim()  # limits are settled only when somebody asks for them
    to_axes = axes.transScale + axes.transLimits
    heights = [float(to_axes.transform(end)[1]) for end in ends.values()]
    for (index, end), height in zip(ends.items(), spread_out(heights, gap=_text_height(axes)), strict=True):
        _name_end(axes, end, labels[index], height=height, colour=line_style(index)["color"])


def spread_out(heights: Sequence[float], *, gap: float) -> list[float]:
    """Heights moved as little as possible (least squares) so that all are ``gap`` apart within [0, 1].

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
    # Heights less their steps need only not to fall: that is isotonic regression.
    settled = (
        isotonic_regression(np.asarray(heights)[order] - steps, y_min=0.0, y_max=1.0 - steps[-1]) + steps
    )
    result = np.empty(len(heights))
    result[order] = settled
    return [float(height) for height in result]


def _last_point(x: Floats, y: Floats) -> tuple[float, float] | None:
    known = np.flatnonzero(np.isfinite(y))
    return (float(x[known[-1]]), float(y[known[-1]])) if len(known) else None


def _text_height(axes: Axes) -> float:
    """Height of a line of text as a share of the axes', which fill most of their place."""
    inches = axes.figure.get_figheight() * axes.get_position().height  # type: ignore[union-attr]
    return 1.45 * SMALL_SIZE / 72 / max(inches, 0.1)


def _name_end(axes: Axes, end: tuple[float, float], label: str, *, height: float, colour: str) -> None:
    axes.annotate(
        label,
        end,
        xytext=(1.06, height),
        textcoords="axes fraction",
        va="center",
        fontsize=SMALL_SIZE,
        color=BLACK,
        arrowprops={
            "arrowstyle": "-",
            "color": colour,
            "linewidth": 0.7,
            "relpos": (0.0, 0.5),  # from the left end of the name, not from its middle
            "shrinkA": 1,
            "shrinkB": 3,
        },
    )

"""Sweeps over a parameter and over imbalance: mean and spread of runs, and the line theory draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spherepair.errors import InvalidParameterError
from spherepair.plots.figures import SINGLE_COLUMN, SMALL_SIZE, describe, new_figure, quiet_axes
from spherepair.plots.palette import VERMILION
from spherepair.plots.series import Floats, check_series, draw_series, mean_and_spread, name_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCALES = ("linear", "log", "symlog")


def plot_sweep(
    x: ArrayLike,
    values: ArrayLike,
    *,
    labels: Sequence[str],
    title: str,
    x_label: str,
    y_label: str = "accuracy",
    line: float | None = None,
    line_label: str = "",
    scale: str = "linear",
    width: float = SINGLE_COLUMN,
) -> Figure:
    """Draw a measure against a parameter.

    Parameters
    ----------
    x : array-like of shape (n_x,)
        Values of the parameter, for instance D, λ or ρ.
    values : array-like of shape (n_series, n_x) or (n_series, n_x, n_runs)
        The measure; with runs the line is their mean and the band one standard deviation. Runs that
        are missing are NaN.
    labels : sequence of n_series names
        Of the data sets or methods, written at the ends of their lines.
    title, x_label, y_label : str
    line, line_label : float and str, optional
        Where theory draws a line across, for instance at D = K, and its name.
    scale : {"linear", "log", "symlog"}
        Of the parameter; ``"symlog"`` is a logarithm that has room for zero.
    width : float
        In inches: ``SINGLE_COLUMN`` or ``DOUBLE_COLUMN`` of ``spherepair.plots.figures``.

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
    figure = new_figure(width, 2.5)
    axes = figure.add_subplot()
    draw_sweep(axes, x, values, labels=labels, line=line, line_label=line_label, scale=scale)
    describe(axes, title=title, x=x_label, y=y_label)
    return figure


def draw_sweep(
    axes: Axes,
    x: ArrayLike,
    values: ArrayLike,
    *,
    labels: Sequence[str],
    line: float | None = None,
    line_label: str = "",
    scale: str = "linear",
) -> None:
    """As :func:`plot_sweep`, into axes that are there already."""
    places, runs = check_series(x, values, labels)
    quiet_axes(axes)
    draw_series(axes, places, runs, labels=labels)
    _set_scale(axes, places, scale)
    if line is not None:
        _draw_theory(axes, line, line_label)
    name_ends(axes, [(places, mean) for mean in mean_and_spread(runs)[0]], labels)


def plot_imbalance(
    values: ArrayLike,
    *,
    labels: Sequence[str],
    title: str,
    sets: Sequence[str] = ("IMB0", "IMB1", "IMB2"),
    y_label: str = "accuracy",
    width: float = SINGLE_COLUMN,
) -> Figure:
    """Draw how methods stand up to constraints that pile up on one cluster.

    Parameters
    ----------
    values : array-like of shape (n_methods, n_sets) or (n_methods, n_sets, n_runs)
        The measure on each set of constraints, from balanced to lopsided.
    labels : sequence of n_methods names
    title : str
    sets : sequence of n_sets names
        Of the sets of constraints, for instance with their sizes on a second line.
    y_label : str
    width : float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_imbalance([[90, 89, 88], [90, 70, 50]], labels=["SpherePair", "CIDEC"], title="MNIST")
    >>> [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    ['IMB0', 'IMB1', 'IMB2']
    """
    figure = new_figure(width, 2.5)
    axes = figure.add_subplot()
    draw_imbalance(axes, values, labels=labels, sets=sets)
    describe(axes, title=title, x="constraints, ever more on one cluster", y=y_label)
    return figure


def draw_imbalance(axes: Axes, values: ArrayLike, *, labels: Sequence[str], sets: Sequence[str]) -> None:
    """As :func:`plot_imbalance`, into axes that are there already."""
    places = np.arange(len(sets), dtype=np.float64)
    draw_sweep(axes, places, values, labels=labels)
    axes.set_xticks(places, list(sets))


def _set_scale(axes: Axes, x: Floats, scale: str) -> None:
    if scale not in SCALES:
        raise InvalidParameterError(f"scale must be one of {', '.join(SCALES)}, got {scale!r} instead.")
    if scale == "symlog":
        positive = x[x > 0]
        axes.set_xscale("symlog", linthresh=float(positive.min()) if len(positive) else 1.0)
    else:
        axes.set_xscale(scale)
    if scale != "linear" and np.abs(x).max() < 1e5:
        # 0.01 and 100 are read faster than powers of ten, as long as they are short.
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _draw_theory(axes: Axes, line: float, label: str) -> None:
    axes.axvline(line, color=VERMILION, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    axes.annotate(
        label,
        (line, 1.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(3, -1),
        textcoords="offset points",
        va="top",
        fontsize=SMALL_SIZE,
        color=VERMILION,
    )

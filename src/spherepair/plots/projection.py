"""Maps of projected embeddings (t-SNE and the like): classes as colours, one panel per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.errors import InvalidDataError
from spherepair.plots.figures import (
    DOUBLE_COLUMN,
    SINGLE_COLUMN,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    new_figure,
)
from spherepair.plots.palette import VERMILION
from spherepair.plots.points import draw_points, even_sample, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
MOST_POINTS = 5_000
_PER_ROW = 4


def plot_projections(
    projections: Mapping[str, ArrayLike],
    classes: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    marked: int | None = None,
    ringed: Mapping[str, ArrayLike] | None = None,
    title: str | None = None,
    n_points: int = MOST_POINTS,
) -> Figure:
    """Draw rows that were projected to a plane, coloured by class.

    Parameters
    ----------
    projections : mapping of name to array-like of shape (n, 2)
        One panel per method, for instance by ``sklearn.manifold.TSNE().fit_transform(embedding)``.
    classes : array-like of shape (n,)
        Class of each row, counted from 0.
    names : sequence of names, optional
        Of the classes, written where most of their rows lie; their numbers if not given.
    marked : int, optional
        A class that is drawn in full strength while the others step back, for instance the one
        that imbalanced constraints pile up on.
    ringed : mapping of name to boolean array-like of shape (n,), optional
        Rows of a panel to draw a ring around, for instance those in a wrong cluster.
    title : str, optional
    n_points : int
        At most so many rows are drawn, evenly spaced.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> points = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> plot_projections({"SpherePair": points}, [0, 1]).axes[0].get_title(loc="left")
    'SpherePair'
    """
    groups, maps = np.asarray(classes), {name: np.asarray(p, np.float64) for name, p in projections.items()}
    _check(maps, groups)
    columns = min(len(maps), _PER_ROW)
    rows = -(-len(maps) // columns)
    width = SINGLE_COLUMN if columns == 1 else DOUBLE_COLUMN
    figure = new_figure(width, rows * (width / columns + 0.25) + 0.3)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    chosen = even_sample(len(groups), n_points)
    for axes, (name, points) in zip(panels, maps.items(), strict=False):
        _draw_panel(axes, points[chosen], groups[chosen].astype(np.int64), names=names, marked=marked)
        if ringed is not None and name in ringed:
            _draw_rings(axes, points[chosen][np.asarray(ringed[name], dtype=bool)[chosen]])
        axes.set_title(name, fontsize=TEXT_SIZE, loc="left")
    for axes in panels:
        axes.set_axis_off()
    figure.suptitle(title or f"{len(groups):,} rows, coloured by class", fontsize=TITLE_SIZE)
    return figure


def _check(maps: Mapping[str, Floats], groups: NDArray[np.generic]) -> None:
    if not maps:
        raise InvalidDataError("there is nothing to draw; give at least one projection of shape (n, 2).")
    for name, points in maps.items():
        if points.shape != (len(groups), 2) or not len(groups):
            raise InvalidDataError(
                f"projection {name!r} must be of shape (n, 2) with one class per row, got {points.shape} for "
                f"{len(groups)} classes; project the embedding to two dimensions first."
            )


def _draw_panel(
    axes: Axes,
    points: Floats,
    groups: NDArray[np.int64],
    *,
    names: Sequence[str] | None,
    marked: int | None,
) -> None:
    size = float(np.clip(6_000 / len(points), 2, 14))
    is_marked = groups == marked
    draw_points(axes, points[~is_marked], groups[~is_marked], size=size, alpha=0.7 if marked is None else 0.3)
    draw_points(axes, points[is_marked], groups[is_marked], size=1.4 * size, alpha=0.9)
    for group in np.unique(groups).tolist():
        word = str(group) if names is None else names[group]
        weight = "bold" if group == marked else "normal"
        write(axes, _densest(points[groups == group]), word, fontsize=SMALL_SIZE, fontweight=weight)
    axes.set_aspect("equal", adjustable="datalim")


def _densest(points: Floats) -> Floats:
    """The row closest to the median: a mean or median alone may lie between two islands."""
    middle = np.median(points, axis=0)
    return np.asarray(points[np.square(points - middle).sum(axis=1).argmin()])


def _draw_rings(axes: Axes, points: Floats) -> None:
    axes.scatter(
        points[:, 0], points[:, 1], s=22, facecolors="none", edgecolors=VERMILION, linewidths=0.6, zorder=3
    )

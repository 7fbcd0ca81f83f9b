"""A flat map of an embedding: rows as points, clusters as colours.

An embedding of K clusters has K directions at right angles to each other, of which a plane shows
two. With the centres of the clusters the map is therefore a polygon with one corner per cluster,
and a row stands at Σ_k c_k² corner_k / Σ_k c_k², where c_k is its cosine with centre k: near a
corner when one cluster is close, between corners when several are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.errors import InvalidDataError
from spherepair.plots.figures import new_figure
from spherepair.plots.palette import GREY
from spherepair.plots.points import draw_points, even_sample, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
#: More points than this only darken the picture and fatten the file.
MOST_POINTS = 20_000


def embedding_map(
    embedding: ArrayLike,
    labels: ArrayLike,
    *,
    centers: ArrayLike | None = None,
    title: str | None = None,
    n_points: int = MOST_POINTS,
) -> Figure:
    """Draw an embedding in a plane.

    Parameters
    ----------
    embedding : array-like of shape (n, D)
        Unit vectors of rows.
    labels : array-like of shape (n,)
        Cluster of each row, counted from 0.
    centers : array-like of shape (n_clusters, D), optional
        Unit vectors of the clusters: the map is a polygon of them. Without them, or with fewer than
        three, it shows the two directions in which the rows spread most (PCA).
    title : str, optional
    n_points : int
        At most so many rows are drawn, evenly spaced.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = embedding_map(np.eye(4), [0, 0, 1, 1], title="Two clusters")
    >>> figure.axes[0].get_title()
    'Two clusters'
    """
    figure = new_figure(4.6, 4.6)
    draw_embedding_map(
        figure.add_subplot(), embedding, labels, centers=centers, title=title, n_points=n_points
    )
    return figure


def draw_embedding_map(
    axes: Axes,
    embedding: ArrayLike,
    labels: ArrayLike,
    *,
    centers: ArrayLike | None = None,
    title: str | None = None,
    n_points: int = MOST_POINTS,
) -> None:
    """As :func:`embedding_map`, into axes that are there already."""
    rows, clusters = _checked(embedding, labels)
    chosen = even_sample(len(rows), n_points)
    middle = None if centers is None or len(np.asarray(centers)) < 3 else np.asarray(centers, np.float64)
    flat = principal_plane(rows)[chosen] if middle is None else polygon(rows[chosen], middle)
    draw_points(axes, flat, clusters[chosen])
    if middle is None:
        _name_clusters(axes, flat, clusters[chosen])
    else:
        _draw_corners(axes, len(middle))
    axes.set_title(title or f"{len(rows):,} rows in {len(np.unique(clusters))} clusters", pad=10)
    axes.set_aspect("equal")
    axes.set_axis_off()


def principal_plane(rows: NDArray[Any]) -> Floats:
    """Coordinates (n, 2) of rows (n, D) in the two directions in which they spread most.

    Examples
    --------
    >>> principal_plane(np.array([[3.0, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]])).round(6).tolist()
    [[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    """
    centred = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    plane = directions[:2]
    # The sign of a direction is arbitrary: its largest part points up, so that a map is repeatable.
    largest = plane[np.arange(len(plane)), np.abs(plane).argmax(axis=1)]
    flat = centred @ np.where(largest < 0, -plane.T, plane.T)
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def polygon(rows: NDArray[Any], centers: NDArray[Any]) -> Floats:
    """Coordinates (n, 2) of rows (n, D) between the corners of their clusters' centres (K, D).

    Examples
    --------
    >>> polygon(np.eye(3)[:1], np.eye(3)).round(6).tolist()
    [[0.0, 1.0]]
    """
    pull = np.clip(rows @ centers.T, 0.0, None) ** 2  # (n, K)
    total = pull.sum(axis=1, keepdims=True)
    # A row that points away from every centre belongs nowhere: it stands in the middle.
    return np.asarray(pull @ _corners(len(centers)) / np.where(total > 0, total, 1.0))


def _corners(count: int) -> Floats:
    turns = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(turns), np.sin(turns)])


def _draw_corners(axes: Axes, count: int) -> None:
    outline = _corners(count)[[*range(count), 0]]
    axes.plot(*outline.T, color=GREY, linewidth=0.6, alpha=0.6, zorder=1)
    for cluster, place in enumerate(1.1 * _corners(count)):
        write(axes, place, str(cluster))
    caption = "the closer to a corner, the smaller the angle to that cluster's centre"
    axes.text(0, -1.3, caption, ha="center", va="bottom", fontsize=8, color=GREY)


def _name_clusters(axes: Axes, flat: Floats, clusters: NDArray[np.int64]) -> None:
    for cluster in np.unique(clusters).tolist():
        write(axes, np.median(flat[clusters == cluster], axis=0), str(cluster))


def _checked(embedding: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    rows, clusters = np.asarray(embedding, dtype=np.float64), np.asarray(labels)
    if rows.ndim != 2 or len(rows) == 0 or clusters.shape != (len(rows),):
        raise InvalidDataError(
            "a map needs an embedding of shape (n, D) with at least one row and one label per row, got "
            f"shapes {rows.shape} and {clusters.shape} instead."
        )
    return rows, clusters.astype(np.int64)

"""Rows as points in a plane: the map of an embedding, and projections such as t-SNE.

An embedding of K clusters has K directions, of which a plane shows two. With the centers of the
clusters the map is therefore a polygon with one corner per cluster, and a row stands at

    Σ_k c_k² corner_k / Σ_k c_k²

where c_k is its cosine with center k: near a corner when one cluster is close, between corners when
several are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from spherepair.errors import InvalidDataError
from spherepair.plots.style import (
    DOUBLE_COLUMN,
    GRAY,
    SINGLE_COLUMN,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    VERMILION,
    axes_or_new,
    cluster_style,
    figure_of,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: More points than this only darken the picture and fatten the file.
_MAP_POINTS, _PROJECTION_POINTS = 20_000, 5_000
_MANY_POINTS = 2_000
_PANELS_PER_LINE = 4


def plot_embedding(
    model: Any,
    labels: ArrayLike | None = None,
    *,
    centers: ArrayLike | None = None,
    title: str | None = None,
    n_points: int = _MAP_POINTS,
    ax: Axes | None = None,
) -> Figure:
    """Draw an embedding as a map of points, one color and marker per cluster.

    Parameters
    ----------
    model : fitted estimator or array-like of shape (n, D)
        A model, whose rows of the fit are drawn, or an embedding, for instance ``model.transform(X)``.
    labels : array-like of shape (n,), optional
        Cluster of each row, counted from 0; the labels of the fit if not given.
    centers : array-like of shape (n_clusters, D), optional
        Unit vectors of the clusters; those of the model if not given. With three or more the map is a
        polygon of them; otherwise it shows the two directions in which the rows spread most (PCA).
    title : str, optional
    n_points : int
        Rows that are drawn at most, evenly spaced.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_embedding(np.eye(4), [0, 0, 1, 1], title="Two clusters")
    >>> figure.axes[0].get_title()
    'Two clusters'
    """
    rows, clusters = embedding_and_labels(model, labels)
    corners = _polygon_centers(model, rows, centers)
    axes = axes_or_new(ax, 4.6, 4.6)
    chosen = _evenly_spaced(len(rows), n_points)
    flat = principal_plane(rows)[chosen] if corners is None else polygon_map(rows[chosen], corners)
    _draw_points(axes, flat, clusters[chosen])
    if corners is None:
        _name_clusters(axes, flat, clusters[chosen])
    else:
        _draw_corners(axes, len(corners))
    axes.set_title(title or f"{len(rows):,} rows in {len(np.unique(clusters))} clusters", pad=10)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return figure_of(axes)


def plot_projections(
    projections: Mapping[str, ArrayLike],
    classes: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    highlighted: int | None = None,
    circled: Mapping[str, ArrayLike] | None = None,
    title: str | None = None,
    n_points: int = _PROJECTION_POINTS,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw rows that were projected to a plane, one panel per projection.

    Parameters
    ----------
    projections : mapping of name to array-like of shape (n, 2)
        For instance by ``sklearn.manifold.TSNE().fit_transform(model.embedding_)``.
    classes : array-like of shape (n,)
        Class of each row, counted from 0.
    names : sequence of str, optional
        Names of the classes, written where most of their rows are; their numbers if not given.
    highlighted : int, optional
        A class that is drawn in full strength while the others are faint.
    circled : mapping of name to boolean array-like of shape (n,), optional
        Rows of a panel to circle, for instance those in a wrong cluster.
    title : str, optional
        Title of a new figure.
    n_points : int
        Rows that are drawn at most, evenly spaced.
    ax : matplotlib.axes.Axes or sequence of them, optional
        One for each panel; a new figure if not given.

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
    _check_projections(maps, groups)
    heading = title or f"{len(groups):,} rows, colored by class"
    panels = _grid(len(maps), heading) if ax is None else given_panels(ax, len(maps))
    chosen = _evenly_spaced(len(groups), n_points)
    for axes, (name, points) in zip(panels, maps.items(), strict=True):
        _draw_panel(axes, points[chosen], groups[chosen].astype(np.int64), names, highlighted)
        if circled is not None and name in circled:
            _circle(axes, points[chosen][np.asarray(circled[name], dtype=bool)[chosen]])
        axes.set_title(name, fontsize=TEXT_SIZE, loc="left")
        axes.set_axis_off()
    return figure_of(panels[0])


def embedding_and_labels(model: Any, labels: ArrayLike | None) -> tuple[Floats, Integers]:
    """Rows (n, D) and clusters (n,) of a fitted model or of two arrays, checked."""
    if hasattr(model, "fit"):
        check_is_fitted(model)
        model, labels = model.embedding_, model.labels_ if labels is None else labels
    rows, clusters = np.asarray(model, dtype=np.float64), np.asarray(() if labels is None else labels)
    if rows.ndim != 2 or len(rows) == 0 or clusters.shape != (len(rows),):
        raise InvalidDataError(
            "a map needs a fitted model, or an embedding of shape (n, D) with at least one row and one "
            f"label per row, got shapes {rows.shape} and {clusters.shape} instead."
        )
    return rows, clusters.astype(np.int64)


def given_panels(ax: Axes | Sequence[Axes], count: int) -> list[Axes]:
    """The axes a caller passed, one for each panel."""
    panels: list[Axes] = np.ravel(np.asarray(ax, dtype=object)).tolist()
    if len(panels) != count:
        raise InvalidDataError(f"ax must hold one axes per panel: {count}, got {len(panels)} instead.")
    return panels


def principal_plane(rows: NDArray[Any]) -> Floats:
    """Coordinates (n, 2) of rows (n, D) in the two directions in which they spread most.

    Examples
    --------
    >>> principal_plane(np.array([[3.0, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]])).round(6).tolist()
    [[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    """
    centered = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    plane = directions[:2]
    # The sign of a direction is arbitrary: its largest part points up, so that a map is repeatable.
    largest = plane[np.arange(len(plane)), np.abs(plane).argmax(axis=1)]
    flat = centered @ np.where(largest < 0, -plane.T, plane.T)
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def polygon_map(rows: NDArray[Any], centers: NDArray[Any]) -> Floats:
    """Coordinates (n, 2) of rows (n, D) between corners that stand for the centers (K, D).

    Examples
    --------
    >>> polygon_map(np.eye(3)[:1], np.eye(3)).round(6).tolist()
    [[0.0, 1.0]]
    """
    pull = np.clip(rows @ centers.T, 0.0, None) ** 2  # (n, K)
    total = pull.sum(axis=1, keepdims=True)
    # A row that points away from every center belongs nowhere: it stands in the middle.
    return np.asarray(pull @ _corners(len(centers)) / np.where(total > 0, total, 1.0))


def _polygon_centers(model: Any, rows: Floats, centers: ArrayLike | None) -> Floats | None:
    """Centers for a polygon; none where there are fewer than three or a model is not spherical."""
    if centers is not None:
        found = np.asarray(centers, np.float64)
        return found if len(found) >= 3 else None
    found = np.asarray(getattr(model, "cluster_centers_", ()), dtype=np.float64)
    if len(found) < 3 or found.shape[1:] != rows.shape[1:]:
        return None
    lengths = np.linalg.norm(np.concatenate([rows, found]), axis=1)
    return found if np.allclose(lengths, 1.0, atol=1e-3) else None


def _corners(count: int) -> Floats:
    turns = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(turns), np.sin(turns)])


def _draw_corners(ax: Axes, count: int) -> None:
    outline = _corners(count)[[*range(count), 0]]
    ax.plot(*outline.T, color=GRAY, linewidth=0.6, alpha=0.6, zorder=1)
    for cluster, place in enumerate(1.1 * _corners(count)):
        _write(ax, place, str(cluster))
    caption = "the closer to a corner, the smaller the angle to that cluster's center"
    ax.text(0, -1.3, caption, ha="center", va="bottom", fontsize=8, color=GRAY)


def _name_clusters(ax: Axes, flat: Floats, clusters: Integers) -> None:
    for cluster in np.unique(clusters).tolist():
        _write(ax, np.median(flat[clusters == cluster], axis=0), str(cluster))


def _draw_points(
    ax: Axes, flat: Floats, groups: Integers, *, size: float | None = None, alpha: float = 0.6
) -> None:
    """Points (n, 2) in the style of the group (n,) each belongs to."""
    area = size if size is not None else (16.0 if len(flat) <= _MANY_POINTS else 4.0)
    for group in np.unique(groups).tolist():
        style, points = cluster_style(group), flat[groups == group]
        options: dict[str, Any] = {"marker": style.marker, "color": style.color, "alpha": alpha}
        ax.scatter(points[:, 0], points[:, 1], s=area, linewidths=0, zorder=2, **options)


def _write(ax: Axes, place: Floats, text: str, **options: Any) -> None:
    """A word on the picture, with a white rim so that points behind it do not matter."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=3, foreground="white")]
    settings = {"ha": "center", "va": "center", "path_effects": rim, "fontweight": "bold"} | options
    ax.annotate(text, (float(place[0]), float(place[1])), **settings)


def _evenly_spaced(n_rows: int, n_points: int) -> Integers:
    """At most ``n_points`` of ``n_rows`` positions.

    Examples
    --------
    >>> _evenly_spaced(5, 3).tolist(), _evenly_spaced(2, 3).tolist()
    ([0, 2, 4], [0, 1])
    """
    return np.unique(np.linspace(0, n_rows - 1, min(n_points, n_rows)).astype(np.int64))


def _check_projections(maps: Mapping[str, Floats], groups: NDArray[np.generic]) -> None:
    if not maps:
        raise InvalidDataError("there is nothing to draw; give at least one projection of shape (n, 2).")
    for name, points in maps.items():
        if points.shape != (len(groups), 2) or not len(groups):
            raise InvalidDataError(
                f"projection {name!r} must be of shape (n, 2) with one class per row, got {points.shape} for "
                f"{len(groups)} classes; project the embedding to two dimensions first."
            )


def _grid(count: int, title: str) -> list[Axes]:
    columns = min(count, _PANELS_PER_LINE)
    lines = -(-count // columns)
    width = SINGLE_COLUMN if columns == 1 else DOUBLE_COLUMN
    figure = new_figure(width, lines * (width / columns + 0.25) + 0.3)
    figure.suptitle(title, fontsize=TITLE_SIZE)
    panels = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for unused in panels[count:]:
        unused.set_axis_off()
    return list(panels[:count])


def _draw_panel(
    ax: Axes, points: Floats, groups: Integers, names: Sequence[str] | None, highlighted: int | None
) -> None:
    size = float(np.clip(6_000 / len(points), 2, 14))
    is_bold = groups == highlighted
    alpha = 0.7 if highlighted is None else 0.3
    _draw_points(ax, points[~is_bold], groups[~is_bold], size=size, alpha=alpha)
    _draw_points(ax, points[is_bold], groups[is_bold], size=1.4 * size, alpha=0.9)
    for group in np.unique(groups).tolist():
        word = str(group) if names is None else names[group]
        weight = "bold" if group == highlighted else "normal"
        _write(ax, _middle_row(points[groups == group]), word, fontsize=SMALL_SIZE, fontweight=weight)
    ax.set_aspect("equal", adjustable="datalim")


def _middle_row(points: Floats) -> Floats:
    """The row closest to the median: a mean or median alone may lie between two islands."""
    middle = np.median(points, axis=0)
    return np.asarray(points[np.square(points - middle).sum(axis=1).argmin()])


def _circle(ax: Axes, points: Floats) -> None:
    options: dict[str, Any] = {"facecolors": "none", "edgecolors": VERMILION, "linewidths": 0.6}
    ax.scatter(points[:, 0], points[:, 1], s=22, zorder=3, **options)

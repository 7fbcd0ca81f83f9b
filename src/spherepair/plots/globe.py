"""Rows on the unit sphere in three dimensions, seen from the front; what lies behind is faint."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.plots.scatter import embedding_and_labels
from spherepair.plots.style import (
    BLACK,
    CANNOT_LINK,
    MUST_LINK,
    PALE,
    axes_or_new,
    cluster_style,
    figure_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
_GLOBE, _RIM = "#f6f7f9", "#9aa3ad"
#: The globe is tilted by so much, to show a pole.
_TILT = math.radians(-70.0)
_ARC_POINTS = 60


def plot_sphere(
    model: Any,
    labels: ArrayLike | None = None,
    *,
    constraints: Constraints | None = None,
    centers: ArrayLike | None = None,
    size: float = 9.0,
    ax: Axes | None = None,
) -> Figure:
    """Draw rows on the sphere, constraints as great circles and centers as spokes.

    Parameters
    ----------
    model : fitted estimator or array-like of shape (n, 3)
        A model with ``embedding_dim=3``, whose rows of the fit are drawn, or unit vectors.
    labels : array-like of shape (n,), optional
        Cluster of each row, counted from 0; the labels of the fit if not given.
    constraints : Constraints, optional
        Pairs of these rows to draw; a dozen can be told apart.
    centers : array-like of shape (n_clusters, 3), optional
        Unit vectors of the clusters.
    size : float
        Area of a point in points squared.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_sphere(np.eye(3), [0, 1, 2], centers=np.eye(3))
    >>> len(figure.axes)
    1
    """
    points, clusters = embedding_and_labels(model, labels)
    if points.shape[1] != 3:
        raise InvalidDataError(
            f"a sphere shows 3 dimensions, got an embedding of {points.shape[1]}; fit with embedding_dim=3."
        )
    axes = axes_or_new(ax, 4.2, 4.2)
    draw_globe(axes)
    middles = None if centers is None else np.asarray(centers, dtype=np.float64)
    draw_on_globe(axes, points, clusters, constraints=constraints, centers=middles, size=size)
    return figure_of(axes)


def draw_globe(ax: Axes) -> None:
    """Draw the empty sphere."""
    from matplotlib.patches import Circle

    ax.add_patch(Circle((0, 0), 1.0, facecolor=_GLOBE, edgecolor=_RIM, linewidth=0.8, zorder=0))
    lines = _graticule()  # (n_lines, n_steps, 3)
    front = np.where(lines[..., 2:] >= 0, lines, np.nan)
    _draw_joined(ax, front, color=PALE, linewidth=0.5, zorder=0.5)
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), aspect="equal")
    ax.set_axis_off()


def draw_on_globe(
    ax: Axes,
    points: Floats,
    labels: NDArray[np.int64],
    *,
    constraints: Constraints | None,
    centers: Floats | None,
    size: float,
) -> None:
    """Draw what moves: rows, constraints and centers, on a sphere that was drawn before."""
    if constraints is not None:
        _draw_constraints(ax, points, constraints)
    for label in np.unique(labels).tolist():
        _draw_group(ax, points[labels == label], label, size=size)
    if centers is not None:
        _draw_centers(ax, centers)


def facing(points: Floats, labels: NDArray[np.int64]) -> Floats:
    """Rotation (3, 3) after which two to four clusters can all be seen; ``points @ turn`` applies it.

    It may mirror, which changes no angle. For other numbers of clusters it is the identity.

    Examples
    --------
    >>> turn = facing(np.eye(3), np.arange(3))
    >>> np.allclose(turn @ turn.T, np.eye(3))
    True
    """
    from scipy.linalg import orthogonal_procrustes

    groups = np.unique(labels)
    if len(groups) not in _TARGETS:
        return np.eye(3)
    means = np.stack([points[labels == group].mean(axis=0) for group in groups])
    turn, _ = orthogonal_procrustes(means, np.array(_TARGETS[len(groups)]))
    return np.asarray(turn)


def great_circles(starts: Floats, ends: Floats) -> Floats:
    """Points (n, n_steps, 3) along the shortest arcs on the sphere between unit vectors (n, 3).

    Examples
    --------
    >>> great_circles(np.eye(3)[:1], np.eye(3)[1:2])[0, [0, -1]].round(6).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    side = ends - (starts * ends).sum(axis=1, keepdims=True) * starts
    # Between opposite points every arc is shortest: pick the one across the axis least in line.
    across = np.cross(starts, np.eye(3)[np.abs(starts).argmin(axis=1)])
    length = np.linalg.norm(side, axis=1, keepdims=True)
    side = np.where(length > 1e-9, side, across)
    side = side / np.linalg.norm(side, axis=1, keepdims=True)
    angle = 2 * np.arctan2(np.linalg.norm(starts - ends, axis=1), np.linalg.norm(starts + ends, axis=1))
    turn = angle[:, None, None] * np.linspace(0.0, 1.0, _ARC_POINTS)[:, None]
    return np.asarray(np.cos(turn) * starts[:, None] + np.sin(turn) * side[:, None])


def _around(turns: list[float], depth: float) -> list[list[float]]:
    """Unit vectors at angles (in degrees) around the line of sight, at a depth toward the viewer."""
    radius = math.sqrt(1 - depth**2)
    return [[radius * math.cos(math.radians(t)), radius * math.sin(math.radians(t)), depth] for t in turns]


#: Where clusters should face: opposite ends, a triangle with one corner behind, a tetrahedron
#: with one corner behind; each turned a little so that no cluster hides another or lies on the rim.
_VIEW = np.array([[0.99, 0.02, 0.10], [-0.04, 0.98, 0.20], [-0.10, -0.20, 0.97]])
_TARGETS: dict[int, Any] = {
    2: np.array([[0.8, 0.25, 0.55], [-0.8, -0.25, -0.55]]),
    3: np.array([[0.0, 0.77, -0.64], [-0.87, -0.38, 0.32], [0.87, -0.38, 0.32]]),
    4: np.array([[0.0, 0.0, -1.0], *_around([90, 210, 330], 1 / 3)]) @ _VIEW.T,
}


def _graticule() -> Floats:
    """Circles of latitude and longitude every thirty degrees, the pole tilted toward the viewer."""
    turn = np.linspace(0, 2 * math.pi, 120)[None, :, None]
    height = np.radians(np.arange(-60, 90, 30))[:, None, None]
    angle = np.radians(np.arange(0, 180, 30))[:, None, None]
    across, along, up = np.eye(3)
    latitudes = np.cos(height) * (np.cos(turn) * across + np.sin(turn) * along) + np.sin(height) * up
    longitudes = np.cos(turn) * (np.cos(angle) * across + np.sin(angle) * along) + np.sin(turn) * up
    cosine, sine = math.cos(_TILT), math.sin(_TILT)
    tilt = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    return np.asarray(np.concatenate([latitudes, longitudes]) @ tilt.T)


def _draw_group(ax: Axes, points: Floats, label: int, *, size: float) -> None:
    style, near = cluster_style(label), points[:, 2] >= 0
    options: dict[str, Any] = {"marker": style.marker, "color": style.color, "linewidths": 0}
    for part, alpha, layer in ((points[~near], 0.28, 1), (points[near], 0.75, 4)):
        ax.scatter(part[:, 0], part[:, 1], s=size, alpha=alpha, zorder=layer, **options)


def _draw_constraints(ax: Axes, points: Floats, constraints: Constraints) -> None:
    arcs = great_circles(points[constraints.left], points[constraints.right])
    for is_must_link, style in ((True, MUST_LINK), (False, CANNOT_LINK)):
        chosen = arcs[constraints.is_must_link == is_must_link]
        for is_near, alpha, layer in ((True, 0.85, 5), (False, 0.25, 1.5)):
            part = np.where((chosen[..., 2:] >= 0) == is_near, chosen, np.nan)
            _draw_joined(ax, part, linewidth=0.9, alpha=alpha, zorder=layer, **style)


def _draw_centers(ax: Axes, centers: Floats) -> None:
    star: dict[str, Any] = {
        "marker": "*",
        "markersize": 8,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }
    for center in centers:
        spoke = np.linspace(np.zeros(3), center, 2)
        is_near = center[2] >= 0
        depth: dict[str, Any] = {"zorder": 6 if is_near else 1.5, "alpha": 1.0 if is_near else 0.45}
        ax.plot(*spoke[:, :2].T, color=BLACK, linewidth=0.9, linestyle=(0, (1, 1.5)), **depth)
        ax.plot(*center[:2], color=BLACK, **star, **depth)


def _draw_joined(ax: Axes, lines: Floats, **style: Any) -> None:
    """Lines (n_lines, n_steps, 3) as one artist: an animation of many frames has to draw few things."""
    gaps = np.full((len(lines), 1, lines.shape[-1]), np.nan)
    joined = np.concatenate([lines, gaps], axis=1).reshape(-1, lines.shape[-1])
    ax.plot(joined[:, 0], joined[:, 1], **style)

"""Points in a plane: one colour and marker per group, and the group's name where its points are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spherepair.plots.palette import cluster_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY_POINTS = 2_000


def draw_points(
    axes: Axes,
    flat: NDArray[np.float64],
    groups: NDArray[np.int64],
    *,
    size: float | None = None,
    alpha: float = 0.6,
) -> None:
    """Draw points (n, 2) in the style of the group (n,) each belongs to."""
    area = size if size is not None else (16.0 if len(flat) <= _MANY_POINTS else 4.0)
    for group in np.unique(groups).tolist():
        style, points = cluster_style(group), flat[groups == group]
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=area,
            marker=style.marker,
            color=style.colour,
            alpha=alpha,
            linewidths=0,
            zorder=2,
        )


def write(axes: Axes, place: NDArray[np.float64], text: str, **options: Any) -> None:
    """A word on the picture, with a white rim so that points behind it do not matter."""
    from matplotlib.patheffects import withStroke

    axes.annotate(
        text,
        (float(place[0]), float(place[1])),
        ha="center",
        va="center",
        path_effects=[withStroke(linewidth=3, foreground="white")],
        **({"fontweight": "bold"} | options),
    )


def even_sample(n_rows: int, n_points: int) -> NDArray[np.int64]:
    """At most ``n_points`` of ``n_rows`` positions, evenly spaced.

    Examples
    --------
    >>> even_sample(5, 3).tolist(), even_sample(2, 3).tolist()
    ([0, 2, 4], [0, 1])
    """
    return np.unique(np.linspace(0, n_rows - 1, min(n_points, n_rows)).astype(np.int64))

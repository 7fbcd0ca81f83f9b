"""The picture of the demo: new rows on the map, and why there are so many clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.plots.embedding import draw_embedding_map
from spherepair.plots.figures import new_figure
from spherepair.plots.number import draw_tail_angle_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def demo_picture(
    embedding: ArrayLike,
    labels: ArrayLike,
    cluster_number: ClusterNumber,
    *,
    centers: ArrayLike | None = None,
    map_title: str | None = None,
) -> Figure:
    """Draw a map of rows beside the curve that gave the number of clusters.

    Parameters
    ----------
    embedding : array-like of shape (n, D)
        Unit vectors of rows, for instance held-out ones.
    labels : array-like of shape (n,)
    cluster_number : ClusterNumber
    centers : array-like of shape (n_clusters, D), optional
        As for :func:`spherepair.plots.embedding_map`.
    map_title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(9.6, 4.4)
    left, right = figure.subplots(1, 2)
    draw_embedding_map(left, embedding, labels, centers=centers, title=map_title)
    draw_tail_angle_curve(right, cluster_number)
    return figure

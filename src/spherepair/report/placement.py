"""Where each row stands between its own cluster and the next one.

    sureness_i = (b_i - a_i) / max(a_i, b_i)

with a_i the distance of row i to its own cluster's centre and b_i to the nearest other one: the
simplified silhouette. One is on the centre, zero half-way to another cluster, below zero closer to
another. On the sphere distances grow with angles, so the order of rows is that of their angles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Below this sureness a row is called borderline: the other centre is less than a third farther away.
BORDERLINE = 0.25
_BLOCK_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class Placement:
    """Rows, their clusters, and how clear that is.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Cluster of each row; -1 where it has none.
    other : ndarray of shape (n,)
        The nearest other cluster; -1 where there is only one.
    distance : ndarray of shape (n,)
        To the centre of the row's own cluster.
    sureness : ndarray of shape (n,)
        From -1 to 1, see above; 0 for rows without a cluster.
    n_clusters : int
    """

    labels: Integers
    other: Integers
    distance: Floats
    sureness: Floats
    n_clusters: int

    @property
    def sizes(self) -> Integers:
        """Rows in each cluster, shape (n_clusters,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.n_clusters)

    @property
    def is_borderline(self) -> NDArray[np.bool_]:
        """Rows that nearly belong to another cluster; rows without any are counted apart."""
        return (self.sureness < BORDERLINE) & (self.labels >= 0)

    def members(self, cluster: int) -> Integers:
        """Rows of a cluster, the most typical (closest to the centre) first."""
        rows = np.flatnonzero(self.labels == cluster)
        return rows[np.argsort(self.distance[rows], kind="stable")]


def place_rows(embedding: NDArray[Any], labels: Integers, *, centers: NDArray[Any]) -> Placement:
    """Measure every row against the centres of the clusters, a block at a time.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    labels : ndarray of shape (n,)
    centers : ndarray of shape (K, D)

    Examples
    --------
    >>> rows, centers = np.array([[1.0, 0], [0.5, 0.5], [0, 1]]), np.eye(2)
    >>> place_rows(rows, np.array([0, 0, 1]), centers=centers).sureness.tolist()
    [1.0, 0.0, 1.0]
    """
    blocks = [
        _place_block(
            embedding[start : start + _BLOCK_ROWS], labels[start : start + _BLOCK_ROWS], centers=centers
        )
        for start in range(0, len(embedding), _BLOCK_ROWS)
    ]
    other, distance, sureness = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Placement(labels, other, distance, sureness, len(centers))


def _place_block(
    rows: NDArray[Any], labels: Integers, *, centers: NDArray[Any]
) -> tuple[Integers, Floats, Floats]:
    distances = distances_to(rows, centers)  # (n, K)
    place = np.arange(len(rows))
    own = np.where(labels >= 0, labels, distances.argmin(axis=1))
    distance = distances[place, own]
    distances[place, own] = np.inf
    other = distances.argmin(axis=1)
    beyond = distances[place, other]
    if len(centers) == 1:
        return np.full(len(rows), -1), distance, np.where(labels >= 0, 1.0, 0.0)
    scale = np.maximum(np.maximum(distance, beyond), np.finfo(np.float64).tiny)
    sureness = np.where(labels >= 0, (beyond - distance) / scale, 0.0)
    return np.where(labels >= 0, other, own), distance, sureness


def distances_to(rows: NDArray[Any], centers: NDArray[Any]) -> Floats:
    """Euclidean distances (n, K) of rows (n, D) to centres (K, D)."""
    left, right = np.asarray(rows, dtype=np.float64), np.asarray(centers, dtype=np.float64)
    squares = (left**2).sum(axis=1)[:, None] - 2 * left @ right.T + (right**2).sum(axis=1)
    # Rounding can leave a square a little below zero.
    return np.asarray(np.sqrt(np.clip(squares, 0.0, None)))

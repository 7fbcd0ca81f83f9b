"""Mean silhouette of K-means partitions, the paper's first alternative for finding K.

s_j = (b_j - a_j) / max(a_j, b_j) with a_j the mean distance of row j to its own cluster and b_j the
smallest mean distance to another; K is where the mean over rows is largest, averaged over five runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.partitions import kmeans_centres, nearest_centre, sample_rows

Array = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK_ROWS = 1000


def silhouette_curves(
    rows: Floats,
    max_clusters: int,
    *,
    rng: np.random.Generator,
    n_runs: int = 5,
    n_rows: int = 5000,
) -> Floats:
    """Mean silhouette for K' = 2..max_clusters, once per run on a fresh sample of rows.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    max_clusters : int
        At least 2 and below n.
    rng : numpy.random.Generator
    n_runs : int
        Runs of K-means for every K', each with one start of its own.
    n_rows : int
        Rows drawn per run; the silhouette is that of all of them.
        Differs from the paper: K-means sees the drawn rows only, not all of them.

    Returns
    -------
    ndarray of shape (n_runs, max_clusters - 1)

    Examples
    --------
    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> curves = silhouette_curves(rows, 4, rng=np.random.default_rng(0))
    >>> int(curves.mean(axis=0).argmax()) + 2
    3
    """
    numbers = range(2, max_clusters + 1)
    curves = np.empty((n_runs, len(numbers)))
    for run in range(n_runs):
        sample = rows[sample_rows(len(rows), n_rows, rng=rng)].astype(np.float32)
        partitions = [nearest_centre(sample, kmeans_centres(sample, k, rng=rng)) for k in numbers]
        curves[run] = mean_silhouettes(sample, partitions)
    return curves


def mean_silhouettes(rows: Array, partitions: list[Integers]) -> Floats:
    """Mean silhouettes of several partitions of the same rows; a row alone in its cluster counts 0.

    Distances are computed once for all partitions, a block of rows at a time.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    partitions : list of P ndarrays of shape (n,)

    Returns
    -------
    ndarray of shape (P,)

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> mean_silhouettes(points, [np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])]).round(3).tolist()
    [0.889, 0.029]
    """
    members = [_members(labels, dtype=rows.dtype) for labels in partitions]
    borders = np.cumsum([0, *(part.shape[1] for part in members)])
    together = np.hstack(members)  # (n, all clusters)
    totals = np.zeros(len(partitions))
    for start in range(0, len(rows), _BLOCK_ROWS):
        sums = _distances(rows, start) @ together
        lines = slice(start, start + _BLOCK_ROWS)
        for place, part in enumerate(members):
            within = sums[:, borders[place] : borders[place + 1]]
            totals[place] += _silhouettes(within, part[lines] > 0, sizes=part.sum(axis=0)).sum()
    return totals / len(rows)


def _members(labels: Integers, *, dtype: Any) -> Array:
    """One column of zeros and ones for each cluster that has rows."""
    names, places = np.unique(labels, return_inverse=True)
    return np.eye(len(names), dtype=dtype)[places]


def _distances(rows: Array, start: int) -> Array:
    """Euclidean distances of a block of rows to all rows."""
    block = rows[start : start + _BLOCK_ROWS]
    lengths = np.einsum("ij,ij->i", rows, rows)
    squares = lengths[start : start + len(block), None] - 2 * (block @ rows.T) + lengths
    # Rounding makes the distance of a row to itself, and to others in the same place, not quite 0.
    squares[np.arange(len(block)), np.arange(start, start + len(block))] = 0.0
    distances: Array = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _silhouettes(sums: Array, is_own: NDArray[np.bool_], *, sizes: Array) -> Floats:
    """Silhouettes from the sums (b, K) of the distances of each row to each cluster."""
    if len(sizes) == 1:
        return np.zeros(len(sums))
    own_size = np.where(is_own, sizes, 0.0).sum(axis=1)
    own = np.where(is_own, sums, 0.0).sum(axis=1) / np.maximum(own_size - 1, 1)
    other = np.where(is_own, np.inf, sums / sizes).min(axis=1)
    # Rows that coincide with everything have own = other = 0 and count 0.
    scores = (other - own) / np.maximum(np.maximum(own, other), np.finfo(sums.dtype).tiny)
    return np.where(own_size > 1, scores, 0.0)

"""How well K' clusters fit the geometry of an embedding: silhouette, lifetime, and gaps in a Ward tree.

The paper's two alternatives for finding K, and the gap that our consensus uses:

    silhouette   s_j = (b_j - a_j) / max(a_j, b_j), the mean over rows j and over five runs of k-means
    lifetime     (h_K' - h_(K'+1)) / h_2
    gap          (K' - 1) log(h_K' / h_(K'+1))

with a_j the mean distance of row j to its own cluster, b_j the smallest mean distance to another cluster, and
h_K' the height of the merge that leaves K' - 1 clusters. Each is largest at the number of clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherepair.clustering.assigners import kmeans, nearest_center, ward_tree

Array = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Starts of k-means in each run of the silhouette.
KMEANS_STARTS = 2
#: Added to the heights of the tree, as a share of the largest: far smaller ones are not told apart.
HEIGHT_RESOLUTION = 0.5

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
        Runs of k-means for every K'.
    n_rows : int
        Rows drawn per run; the silhouette is the mean over them.
        Differs from the paper: k-means sees only the drawn rows, not all of them.

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
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        curves[run] = mean_silhouettes(sample, [_partition(sample, k, generator) for k in numbers])
    return curves


def _partition(rows: NDArray[np.float32], n_clusters: int, generator: torch.Generator) -> Integers:
    x = torch.from_numpy(rows)
    return nearest_center(x, kmeans(x, n_clusters, generator=generator, n_init=KMEANS_STARTS).numpy())


def mean_silhouettes(rows: Array, partitions: list[Integers]) -> Floats:
    """Mean silhouettes of several partitions of the same rows; a row alone in its cluster counts 0.

    Distances are computed once for all partitions, one block of rows at a time.

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
        block = slice(start, start + _BLOCK_ROWS)
        for p, part in enumerate(members):
            within = sums[:, borders[p] : borders[p + 1]]
            totals[p] += _silhouettes(within, part[block] > 0, sizes=part.sum(axis=0)).sum()
    return totals / len(rows)


def _members(labels: Integers, *, dtype: Any) -> Array:
    """One column of zeros and ones for each cluster that has rows."""
    names, codes = np.unique(labels, return_inverse=True)
    return np.eye(len(names), dtype=dtype)[codes]


def _distances(rows: Array, start: int) -> Array:
    """Euclidean distances of a block of rows to all rows."""
    block = rows[start : start + _BLOCK_ROWS]
    lengths = np.einsum("ij,ij->i", rows, rows)
    squares = lengths[start : start + len(block), None] - 2 * (block @ rows.T) + lengths
    # Rounding leaves the distance of a row to itself not quite 0.
    squares[np.arange(len(block)), np.arange(start, start + len(block))] = 0.0
    distances: Array = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _silhouettes(sums: Array, is_own: NDArray[np.bool_], *, sizes: Array) -> Floats:
    """Silhouettes from the summed distances, (b, K), of each row to each cluster."""
    if len(sizes) == 1:
        return np.zeros(len(sums))
    own_size = np.where(is_own, sizes, 0.0).sum(axis=1)
    own = np.where(is_own, sums, 0.0).sum(axis=1) / np.maximum(own_size - 1, 1)
    other = np.where(is_own, np.inf, sums / sizes).min(axis=1)
    # Where all rows coincide, own = other = 0 and the silhouette counts 0.
    scores = (other - own) / np.maximum(np.maximum(own, other), np.finfo(sums.dtype).tiny)
    return np.where(own_size > 1, scores, 0.0)


def lifetime_curve(
    rows: Floats,
    max_clusters: int,
    *,
    rng: np.random.Generator,
    n_rows: int = 15_000,
) -> Floats:
    """Lifetimes of K' = 2..max_clusters in one Ward tree.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    max_clusters : int
        At least 2 and below n.
    rng : numpy.random.Generator
    n_rows : int
        Most rows in the tree; its time grows with their square.
        Differs from the paper: its tree holds all rows, which takes minutes for 60,000.

    Returns
    -------
    ndarray of shape (max_clusters - 1,)

    Examples
    --------
    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> int(lifetime_curve(rows, 4, rng=np.random.default_rng(0)).argmax()) + 2
    3
    """
    sample = rows[sample_rows(len(rows), n_rows, rng=rng)]
    return lifetimes(ward_tree(sample)[:, 2], max_clusters)


def lifetimes(heights: Floats, max_clusters: int) -> Floats:
    """Lifetimes of K' = 2..max_clusters from the merge heights of a tree.

    Parameters
    ----------
    heights : ndarray of shape (n - 1,)
        In rising order.
    max_clusters : int
        At most n.

    Returns
    -------
    ndarray of shape (max_clusters - 1,)

    Examples
    --------
    >>> lifetimes(np.array([1.0, 2.0, 8.0]), 4).tolist()
    [0.75, 0.125, 0.125]
    """
    falling = np.append(heights[::-1], 0.0)  # n clusters exist from height 0 on
    lives = falling[: max_clusters - 1] - falling[1:max_clusters]
    shares: Floats = lives / max(falling[0], np.finfo(float).tiny)
    return shares


def height_gaps(heights: Floats, max_clusters: int) -> Floats:
    """Rank times logarithmic step of the merge heights: (K' - 1) log(h_K' / h_(K'+1)).

    Inside a cloud without clusters heights fall like a power of their rank: all gaps are alike and, by
    Rényi's representation, scatter like exponential variables. Where K' clusters are far apart and their
    parts are not, one gap stands out. Half of the largest height is added to all of them, so that heights far
    below it are not told apart.

    Parameters
    ----------
    heights : ndarray of shape (n - 1,)
        In rising order.
    max_clusters : int

    Returns
    -------
    ndarray of shape (max_clusters - 1,)
        For K' = 2, 3, ..

    Examples
    --------
    >>> int(height_gaps(np.array([0.1, 0.2, 0.2, 3.0, 4.0]), 5).argmax()) + 2
    3
    """
    falling = np.zeros(max_clusters)
    falling[: len(heights)] = heights[::-1][:max_clusters]
    if falling[0] == 0:  # all rows coincide
        return falling[1:]
    logs = np.log(falling / falling[0] + HEIGHT_RESOLUTION)
    gaps: Floats = np.arange(1, max_clusters) * (logs[:-1] - logs[1:])
    return gaps


def sample_rows(n_rows: int, size: int, *, rng: np.random.Generator) -> Integers:
    """Draw ``size`` different row numbers, in order, or all of them where there are fewer.

    Examples
    --------
    >>> sample_rows(3, 10, rng=np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))

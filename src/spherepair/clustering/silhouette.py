"""Mean silhouette of K-means partitions, the paper's first alternative for finding K.

s_j = (b_j - a_j) / max(a_j, b_j) with a_j the mean distance of row j to its own cluster and b_j the
smallest mean distance to another; K is where the mean over rows is largest.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from spherepair.clustering.partitions import nearest_centre, nested_kmeans, sample_rows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def silhouette_curves(
    rows: Floats,
    max_clusters: int,
    *,
    rng: np.random.Generator,
    n_runs: int = 5,
    n_rows: int = 5000,
    n_scored: int = 2000,
) -> Floats:
    """Mean silhouette for K' = 2..max_clusters, once per run on a fresh sample of rows.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    max_clusters : int
        At least 2 and below n.
    rng : numpy.random.Generator
    n_runs : int
        Runs of K-means, each from another start.
    n_rows : int
        Rows drawn per run.
        Differs from the paper: K-means sees the drawn rows only, not all of them.
    n_scored : int
        Rows drawn from these for the silhouette, whose time grows with their square.

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
    curves = np.empty((n_runs, max_clusters - 1))
    for run in range(n_runs):
        sample = rows[sample_rows(len(rows), n_rows, rng=rng)].astype(np.float32)
        scored = sample[sample_rows(len(sample), n_scored, rng=rng)]
        distances = squareform(pdist(scored).astype(np.float32))
        partitions = islice(nested_kmeans(sample, max_clusters, rng=rng), 1, None)
        for place, centres in enumerate(partitions):
            curves[run, place] = mean_silhouette(distances, nearest_centre(scored, centres))
    return curves


def mean_silhouette(distances: NDArray[np.float32], labels: Integers) -> float:
    """Mean silhouette from a distance matrix; a row alone in its cluster counts 0.

    Parameters
    ----------
    distances : ndarray of shape (n, n)
    labels : ndarray of shape (n,)

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 9.0, 10.0])
    >>> distances = np.abs(points[:, None] - points).astype(np.float32)
    >>> round(mean_silhouette(distances, np.array([0, 0, 1, 1])), 3)
    0.889
    """
    _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return 0.0
    members = np.zeros((len(labels), len(sizes)), dtype=np.float32)
    lines = np.arange(len(labels))
    members[lines, labels] = 1.0
    sums = (distances @ members).astype(float)  # (n, K)
    own = sums[lines, labels] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[lines, labels] = np.inf
    other = means.min(axis=1)
    # Rows that coincide with everything have own = other = 0 and count 0.
    scores = (other - own) / np.maximum(np.maximum(own, other), np.finfo(float).tiny)
    return float(np.where(sizes[labels] > 1, scores, 0.0).mean())

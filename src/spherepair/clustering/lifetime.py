"""Lifetime of K' clusters in a Ward tree, the paper's second alternative for finding K.

With d_K' the height of the merge that leaves K' - 1 clusters, the lifetime is d_K' - d_(K'+1),
here divided by d_2; K is where it is largest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.partitions import sample_rows

Floats = NDArray[np.float64]


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
        Rows drawn where there are more; Ward's time grows with their square.
        Differs from the paper: its tree is of all rows, which takes minutes for 60,000.

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
        Rising.
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


def ward_tree(rows: Floats) -> Floats:
    """Ward tree in the form of :func:`scipy.cluster.hierarchy.linkage`.

    Parameters
    ----------
    rows : ndarray of shape (n, D)

    Returns
    -------
    ndarray of shape (n - 1, 4)

    Examples
    --------
    >>> ward_tree(np.array([[0.0], [1.0], [5.0], [6.0]]))[:, 2].round(2).tolist()
    [1.0, 1.0, 7.07]
    """
    try:
        from fastcluster import linkage_vector as linkage
    except ImportError:  # an optional package; SciPy needs the matrix of all distances instead
        from scipy.cluster.hierarchy import linkage
    tree: Floats = linkage(rows, method="ward")
    return tree

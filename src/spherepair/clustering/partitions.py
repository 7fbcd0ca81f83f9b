"""K-means partitions into 2, 3, .. clusters, the common ground of silhouette and pair agreement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST_NUMBER_OF_STEPS = 30


def kmeans_centres(rows: Floats, n_clusters: int, *, rng: np.random.Generator) -> Floats:
    """Centres of K-means from one k-means++ start.

    scikit-learn's own loop adds up centres in the order in which its threads finish; here the same
    seed gives the same bits.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    n_clusters : int
        At most n.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_clusters, D)

    Examples
    --------
    >>> rows = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> centres = kmeans_centres(rows, 2, rng=np.random.default_rng(0))
    >>> np.sort(centres.ravel()).round(1).tolist()
    [0.1, 5.1]
    """
    start, _ = kmeans_plusplus(rows, n_clusters, random_state=int(rng.integers(2**31)))
    centres: Floats = start
    labels = nearest_centre(rows, centres)
    for _ in range(_LARGEST_NUMBER_OF_STEPS):
        centres = _means(rows, labels, previous=centres)
        moved = nearest_centre(rows, centres)
        if np.array_equal(moved, labels):
            break
        labels = moved
    return centres


def nearest_centre(rows: Floats, centres: Floats) -> Integers:
    """Position of the nearest centre (Euclidean) of each row.

    Examples
    --------
    >>> nearest_centre(np.array([[0.0], [4.0]]), np.array([[5.0], [1.0]])).tolist()
    [1, 0]
    """
    half_squares = 0.5 * np.einsum("ij,ij->i", centres, centres)
    labels: Integers = np.argmax(rows @ centres.T - half_squares, axis=1)
    return labels


def kmeans_steps(rows: Floats, labels: Integers, *, n_steps: int) -> tuple[Integers, Floats]:
    """Improve a partition by a few steps of K-means.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    labels : ndarray of shape (n,)
        A partition into clusters 0, 1, .., none of them empty.
    n_steps : int

    Returns
    -------
    labels : ndarray of shape (n,)
    centres : ndarray of shape (K, D)

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> kmeans_steps(rows, np.array([0, 0, 1, 1]), n_steps=2)[0].tolist()
    [0, 0, 0, 1]
    """
    centres = _means(rows, labels, previous=np.zeros((labels.max() + 1, rows.shape[1])))
    for _ in range(n_steps):
        labels = nearest_centre(rows, centres)
        centres = _means(rows, labels, previous=centres)
    return labels, centres


def _means(rows: Floats, labels: Integers, *, previous: Floats) -> Floats:
    """Mean of each cluster; one that lost all its rows keeps its centre."""
    sizes = np.bincount(labels, minlength=len(previous))
    members = (labels == np.arange(len(previous))[:, None]).astype(float)  # (K, n)
    means = members @ rows / np.maximum(sizes, 1)[:, None]
    return np.where(sizes[:, None] > 0, means, previous)


def sample_rows(n_rows: int, size: int, *, rng: np.random.Generator) -> Integers:
    """Draw ``size`` different row numbers, or all of them where there are fewer.

    Examples
    --------
    >>> sample_rows(3, 10, rng=np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))

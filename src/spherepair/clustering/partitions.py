"""K-means partitions into 2, 3, .. clusters, the common ground of silhouette and pair counts.

scikit-learn's own loop adds up centres in the order in which its threads finish; here the same seed
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST_NUMBER_OF_STEPS = 8
_CANDIDATES = 10


def nested_kmeans(rows: Array, max_clusters: int, *, rng: np.random.Generator) -> Iterator[Array]:
    """Yield centres of K-means into 1, 2, .. ``max_clusters`` clusters.

    Each starts from the centres before and one more row: the best of a few that are drawn as greedy
    k-means++ does, with probabilities that grow with the squared distance to the nearest centre. That
    needs a few steps where a fresh start needs dozens.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    max_clusters : int
        At most n.
    rng : numpy.random.Generator

    Yields
    ------
    ndarray of shape (K', D)

    Examples
    --------
    >>> rows = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> *_, centres = nested_kmeans(rows, 2, rng=np.random.default_rng(0))
    >>> np.sort(centres.ravel()).round(1).tolist()
    [0.1, 5.1]
    """
    centres = rows.mean(axis=0, keepdims=True)
    labels = np.zeros(len(rows), dtype=np.int64)
    yield centres
    for _ in range(max_clusters - 1):
        squares = np.square(rows - centres[labels]).sum(axis=1, dtype=float)
        start = np.vstack([centres, rows[_far_row(rows, squares, rng=rng)]])
        labels, centres = kmeans_steps(
            rows, nearest_centre(rows, start), n_steps=_LARGEST_NUMBER_OF_STEPS, centres=start
        )
        yield centres


def _far_row(rows: Array, squares: Floats, *, rng: np.random.Generator) -> int:
    """Of some far rows, the one that as a new centre lowers the squared distances most."""
    places = np.searchsorted(np.cumsum(squares), rng.random(_CANDIDATES) * squares.sum(), side="right")
    places = np.minimum(places, len(rows) - 1)
    lengths = np.einsum("ij,ij->i", rows, rows)
    to_candidates = lengths[:, None] - 2 * (rows @ rows[places].T) + lengths[places]  # (n, candidates)
    return int(places[np.minimum(to_candidates, squares[:, None]).sum(axis=0).argmin()])


def nearest_centre(rows: Array, centres: Array) -> Integers:
    """Position of the nearest centre (Euclidean) of each row.

    Examples
    --------
    >>> nearest_centre(np.array([[0.0], [4.0]]), np.array([[5.0], [1.0]])).tolist()
    [1, 0]
    """
    half_squares = 0.5 * np.einsum("ij,ij->i", centres, centres)
    labels: Integers = np.argmax(rows @ centres.T - half_squares, axis=1)
    return labels


def kmeans_steps(
    rows: Array, labels: Integers, *, n_steps: int, centres: Array | None = None
) -> tuple[Integers, Array]:
    """Improve a partition by at most so many steps of K-means.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    labels : ndarray of shape (n,)
        A partition into clusters 0, 1, ..
    n_steps : int
    centres : ndarray of shape (K, D), optional
        Where clusters without rows are; all clusters have rows when missing.

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
    if centres is None:
        centres = np.zeros((labels.max() + 1, rows.shape[1]), dtype=rows.dtype)
    centres = _means(rows, labels, previous=centres)
    for _ in range(n_steps):
        moved = nearest_centre(rows, centres)
        if np.array_equal(moved, labels):
            break
        labels, centres = moved, _means(rows, moved, previous=centres)
    return labels, centres


def _means(rows: Array, labels: Integers, *, previous: Array) -> Array:
    """Mean of each cluster; one that lost all its rows keeps its centre."""
    sizes = np.bincount(labels, minlength=len(previous))
    ones = np.ones(len(rows), dtype=rows.dtype)
    members = csr_array((ones, labels, np.arange(len(rows) + 1)), shape=(len(rows), len(previous)))
    means = (members.T @ rows) / np.maximum(sizes, 1)[:, None].astype(rows.dtype)
    filled: Array = np.where(sizes[:, None] > 0, means, previous)
    return filled


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

"""K-means steps and samples of rows, the common ground of silhouette and pair counts.

scikit-learn's own loop adds up centres in the order in which its threads finish; here the same seed
gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# As in scikit-learn: steps at most, and the squared shift of the centres, relative to the mean variance
# of the columns, at which to stop.
_MAX_STEPS = 300
_TOLERANCE = 1e-4


def kmeans_centres(rows: Array, n_clusters: int, *, rng: np.random.Generator) -> Array:
    """Run K-means once, from one start by greedy k-means++, with scikit-learn's rule for stopping.

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
    start = rows[_spread_rows(rows, n_clusters, rng=rng)]
    tolerance = _TOLERANCE * float(rows.var(axis=0).mean())
    _, centres = kmeans_steps(
        rows, nearest_centre(rows, start), n_steps=_MAX_STEPS, centres=start, tolerance=tolerance
    )
    return centres


def _spread_rows(rows: Array, count: int, *, rng: np.random.Generator) -> Integers:
    """Row numbers of greedy k-means++: each next one is the best of a few far rows."""
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = rng.integers(len(rows))
    lengths = np.einsum("ij,ij->i", rows, rows)
    squares = _squares_to(rows, chosen[:1], lengths=lengths)[:, 0]
    n_candidates = 2 + int(np.log(count))
    for place in range(1, count):
        mass = np.cumsum(squares, dtype=float)
        drawn = np.searchsorted(mass, rng.random(n_candidates) * mass[-1], side="right")
        drawn = np.minimum(drawn, len(rows) - 1)
        left = np.minimum(_squares_to(rows, drawn, lengths=lengths), squares[:, None])  # (n, candidates)
        best = int(left.sum(axis=0).argmin())
        chosen[place], squares = drawn[best], left[:, best]
    return chosen


def _squares_to(rows: Array, places: Integers, *, lengths: Array) -> Array:
    """Squared distances of all rows to some of them."""
    squares: Array = np.maximum(lengths[:, None] - 2 * (rows @ rows[places].T) + lengths[places], 0.0)
    return squares


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
    rows: Array,
    labels: Integers,
    *,
    n_steps: int,
    centres: Array | None = None,
    tolerance: float = 0.0,
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
    tolerance : float
        Stop where the squared shift of the centres is no larger.

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
        labels, before = nearest_centre(rows, centres), centres
        centres = _means(rows, labels, previous=before)
        if np.square(centres - before).sum() <= tolerance:
            break
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

"""What sets clusters apart: means of the columns in each, set against all rows.

z_kj = (mean of column j in cluster k - mean of column j) / standard deviation of column j
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_BLOCK_ELEMENTS = 2**22


@dataclass(frozen=True, eq=False)
class Profiles:
    """Means and spreads of the columns.

    Attributes
    ----------
    mean, spread : ndarray of shape (n_features,)
        Over all rows; a constant column has spread 0.
    cluster_means : ndarray of shape (n_clusters, n_features)
    """

    mean: Floats
    spread: Floats
    cluster_means: Floats

    def distinguishing(self, cluster: int, count: int) -> Integers:
        """Columns in which a cluster differs most from all rows, the largest difference first.

        Examples
        --------
        >>> profiles = Profiles(np.zeros(3), np.array([1.0, 1, 0]), np.array([[0.5, -2, 0]]))
        >>> profiles.distinguishing(0, 2).tolist()
        [1, 0]
        """
        return _largest(np.abs(self.standardized(self.cluster_means[cluster] - self.mean)), count)

    def differing(self, left: Floats, right: Floats, *, count: int) -> Integers:
        """Columns (n_pairs, count) in which two rows (n_pairs, n_features) differ most."""
        return _largest(np.abs(self.standardized(left - right)), count)

    def standardized(self, differences: Floats) -> Floats:
        """Differences in standard deviations; zero in constant columns."""
        usable = self.spread > 0
        return np.asarray(np.where(usable, differences / np.where(usable, self.spread, 1.0), 0.0))


def profile_columns(table: Any, labels: Integers, *, n_clusters: int) -> Profiles:
    """Means of all columns in all clusters, computed a block of rows at a time.

    Parameters
    ----------
    table : ndarray or CSR matrix of shape (n, n_features)
    labels : ndarray of shape (n,)
    n_clusters : int

    Examples
    --------
    >>> X = np.array([[1.0, 5], [3, 5], [8, 5]])
    >>> profile_columns(X, np.array([0, 0, 1]), n_clusters=2).cluster_means.tolist()
    [[2.0, 5.0], [8.0, 5.0]]
    """
    n_rows, n_features = table.shape
    sums, squares, total = np.zeros((n_clusters, n_features)), np.zeros(n_features), np.zeros(n_features)
    # Shifted by the first row: the squares of a large, nearly constant column (a date) would cancel.
    shift = np.zeros(n_features) if sparse.issparse(table) else np.asarray(table[0], dtype=np.float64)
    size = max(1, _BLOCK_ELEMENTS // n_features)
    for start in range(0, n_rows, size):
        block = _shifted(table[start : start + size], shift)
        sums += _sums_by_cluster(block, labels[start : start + size], n_clusters)
        total += np.asarray(block.sum(axis=0)).ravel()
        squares += _sums_of_squares(block)
    counts = np.bincount(labels[labels >= 0], minlength=n_clusters)
    mean = total / n_rows
    spread = np.sqrt(np.clip(squares / n_rows - mean**2, 0.0, None))
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], mean)
    return Profiles(mean + shift, spread, means + shift)


def _shifted(block: Any, shift: Floats) -> Any:
    return block.astype(np.float64) if sparse.issparse(block) else np.asarray(block, np.float64) - shift


def _sums_of_squares(block: Any) -> Floats:
    squares = block.multiply(block) if sparse.issparse(block) else block**2
    return np.asarray(squares.sum(axis=0)).ravel()


def _sums_by_cluster(block: Any, labels: Integers, n_clusters: int) -> Floats:
    known = np.flatnonzero(labels >= 0)
    ones = np.ones(len(known))
    members = sparse.csr_array((ones, (labels[known], known)), shape=(n_clusters, block.shape[0]))
    found = members @ block
    return np.asarray(found.toarray() if sparse.issparse(found) else found)


def _largest(values: Floats, count: int) -> Integers:
    """Positions of the largest values along the last axis, the largest first."""
    return np.asarray(np.argsort(-values, axis=-1, kind="stable")[..., :count], dtype=np.int64)

"""Clusters in numbers and examples: how clearly each row belongs, what sets each cluster apart.

A row's membership is measured by its simplified silhouette,

    s_i = (b_i - a_i) / max(a_i, b_i)

with a_i its distance to the center of its cluster and b_i to the nearest other center: 1 at the center,
0 halfway to another cluster, below 0 closer to another. Columns set a cluster apart by

    z_kj = (mean of column j in cluster k - mean of column j) / standard deviation of column j
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.constraints import Constraints
from spherepair.report.row_cards import BORDERLINE, RowCard, RowDisplay, format_number, png_uri

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_SHOWN_COLUMNS = 5
_BLOCK_ROWS = 65_536
_BLOCK_ELEMENTS = 2**22


@dataclass(frozen=True)
class ColumnNote:
    """A column that sets a cluster apart: its mean in the cluster and over all rows."""

    name: str
    cluster_mean: str
    mean: str
    is_higher: bool


@dataclass(frozen=True)
class ClusterCard:
    """One cluster.

    Attributes
    ----------
    cluster : int
    n_rows : int
    share : float
        Share of all rows.
    n_must_links : int
        Must-links whose two rows are both in the cluster: each is counted once.
    n_cannot_links : int
        Cannot-links between a row of the cluster and a row of another one.
    n_borderline : int
    closest : int
        The cluster that most of its rows have as their second choice; -1 for none.
    columns : tuple of ColumnNote
        What sets it apart; empty if rows are images.
    average : str or None
        The mean of its rows as a picture.
    typical, borderline : tuple of RowCard
        Rows closest to the center, and rows with the lowest silhouette.
    """

    cluster: int
    n_rows: int
    share: float
    n_must_links: int
    n_cannot_links: int
    n_borderline: int
    closest: int
    columns: tuple[ColumnNote, ...]
    average: str | None
    typical: tuple[RowCard, ...]
    borderline: tuple[RowCard, ...]


@dataclass(frozen=True, eq=False)
class Membership:
    """Rows, their clusters, and how clearly they belong.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Cluster of each row; -1 for none.
    next_clusters : ndarray of shape (n,)
        The nearest other cluster; -1 if there is only one.
    distances : ndarray of shape (n,)
        Distance to the center of the row's own cluster.
    silhouettes : ndarray of shape (n,)
        From -1 to 1, see above; 0 for rows without a cluster.
    n_clusters : int
    """

    labels: Integers
    next_clusters: Integers
    distances: Floats
    silhouettes: Floats
    n_clusters: int

    @property
    def sizes(self) -> Integers:
        """Rows in each cluster, shape (n_clusters,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.n_clusters)

    @property
    def is_borderline(self) -> NDArray[np.bool_]:
        """Rows (n,) that nearly belong to another cluster; rows without a cluster do not count."""
        return (self.silhouettes < BORDERLINE) & (self.labels >= 0)

    def members(self, cluster: int) -> Integers:
        """Rows of a cluster, the most typical (closest to the center) first."""
        rows = np.flatnonzero(self.labels == cluster)
        return rows[np.argsort(self.distances[rows], kind="stable")]

    def links_between(self, constraints: Constraints, *, is_must_link: bool) -> Integers:
        """Number of constraints of one kind between clusters a and b, symmetric, (K, K)."""
        chosen = constraints[constraints.is_must_link == is_must_link]
        left, right = self.labels[chosen.left], self.labels[chosen.right]
        known = (left >= 0) & (right >= 0)
        counts = np.zeros((self.n_clusters, self.n_clusters), dtype=np.int64)
        np.add.at(counts, (left[known], right[known]), 1)
        return np.asarray(counts + counts.T - np.diag(np.diag(counts)))


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


def describe_clusters(
    display: RowDisplay,
    membership: Membership,
    *,
    profiles: Profiles,
    constraints: Constraints,
    n_examples: int,
) -> tuple[ClusterCard, ...]:
    """All clusters in the order of their numbers, with ``n_examples`` typical and borderline rows each."""
    must = membership.links_between(constraints, is_must_link=True)
    cannot = membership.links_between(constraints, is_must_link=False)
    inside, outside = np.diag(must), cannot.sum(axis=1) - np.diag(cannot)
    return tuple(
        _describe(display, membership, profiles, cluster, links=links, n_examples=n_examples)
        for cluster, links in enumerate(zip(inside.tolist(), outside.tolist(), strict=True))
    )


def measure_membership(embedding: NDArray[Any], labels: Integers, *, centers: NDArray[Any]) -> Membership:
    """Measure every row against the centers of the clusters, a block at a time.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    labels : ndarray of shape (n,)
    centers : ndarray of shape (K, D)

    Examples
    --------
    >>> rows, centers = np.array([[1.0, 0], [0.5, 0.5], [0, 1]]), np.eye(2)
    >>> measure_membership(rows, np.array([0, 0, 1]), centers=centers).silhouettes.tolist()
    [1.0, 0.0, 1.0]
    """
    blocks = [
        _measure_block(
            embedding[start : start + _BLOCK_ROWS], labels[start : start + _BLOCK_ROWS], centers=centers
        )
        for start in range(0, len(embedding), _BLOCK_ROWS)
    ]
    next_clusters, distances, silhouettes = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Membership(labels, next_clusters, distances, silhouettes, len(centers))


def distances_to(rows: NDArray[Any], centers: NDArray[Any]) -> Floats:
    """Euclidean distances (n, K) of rows (n, D) to centers (K, D)."""
    left, right = np.asarray(rows, dtype=np.float64), np.asarray(centers, dtype=np.float64)
    squares = (left**2).sum(axis=1)[:, None] - 2 * left @ right.T + (right**2).sum(axis=1)
    # Rounding can leave a square a little below zero.
    return np.asarray(np.sqrt(np.clip(squares, 0.0, None)))


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


def _describe(
    display: RowDisplay,
    membership: Membership,
    profiles: Profiles,
    cluster: int,
    *,
    links: tuple[int, int],
    n_examples: int,
) -> ClusterCard:
    members = membership.members(cluster)
    columns = profiles.distinguishing(cluster, _SHOWN_COLUMNS)
    typical, borderline = _examples(membership, members, n_examples)
    return ClusterCard(
        cluster=cluster,
        n_rows=len(members),
        share=len(members) / max(1, len(membership.labels)),
        n_must_links=links[0],
        n_cannot_links=links[1],
        n_borderline=int(membership.is_borderline[members].sum()),
        closest=_most_frequent(membership.next_clusters[members]),
        columns=_notes(display, profiles, cluster, columns),
        average=_average(display, profiles.cluster_means[cluster]),
        typical=display.cards(typical, columns),
        borderline=display.cards(borderline, columns),
    )


def _examples(membership: Membership, members: Integers, count: int) -> tuple[Integers, Integers]:
    """Rows next to the center, and the least clear of the others, which need not be borderline."""
    typical, rest = members[:count], members[count:]
    return typical, rest[np.argsort(membership.silhouettes[rest], kind="stable")[:count]]


def _most_frequent(others: Integers) -> int:
    known = others[others >= 0]
    return int(np.bincount(known).argmax()) if len(known) else -1


def _notes(
    display: RowDisplay, profiles: Profiles, cluster: int, columns: Integers
) -> tuple[ColumnNote, ...]:
    if display.kind == "image":
        return ()
    means, overall = profiles.cluster_means[cluster], profiles.mean
    return tuple(
        ColumnNote(
            name=display.columns[place],
            cluster_mean=format_number(float(means[place])),
            mean=format_number(float(overall[place])),
            is_higher=bool(means[place] > overall[place]),
        )
        for place in columns.tolist()
    )


def _average(display: RowDisplay, mean: NDArray[Any]) -> str | None:
    if display.kind != "image" or display.image_shape is None:
        return None
    return png_uri(display.image_shape.pixels(mean[None])[0])


def _measure_block(
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
    silhouette = np.where(labels >= 0, (beyond - distance) / scale, 0.0)
    return np.where(labels >= 0, other, own), distance, silhouette


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

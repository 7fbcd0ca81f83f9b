"""Clusters in numbers and examples: how clearly each row belongs, what sets each cluster apart.

A row's membership is measured by its simplified silhouette,

    s_i = (b_i - a_i) / max(a_i, b_i)

with a_i its distance to the center of its cluster and b_i to the nearest other center: 1 at the center,
0 halfway to another cluster, below 0 closer to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.constraints import Constraints
from spherepair.estimators.trust.profiles import Profiles
from spherepair.report.row_cards import BORDERLINE, RowCard, RowDisplay, format_number, png_uri

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_SHOWN_COLUMNS = 5
_BLOCK_ROWS = 65_536


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
    name : str
        Its name; empty if it has none.
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
    name: str = ""


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

"""What to label next: pairs of rows whose answer would tell most.

Three kinds, taken in turn:
- a borderline row with a typical row of the nearest other cluster: the answer is close to a toss-up,
  so it carries close to one bit, and it moves or settles that row and those around it;
- typical rows of two neighbouring clusters that no cannot-link keeps apart: perhaps they are one;
- the two ends of a cluster that few must-links hold together: perhaps it is two.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.constraints import Constraints
from spherepair.plots.embedding import principal_plane
from spherepair.report.placement import Placement, distances_to

Integers = NDArray[np.int64]
_PER_BORDER = 2
_FEW_MUST_LINKS = 10
#: Not the very ends of a cluster, which are outliers.
_ENDS = (0.05, 0.95)
_LARGEST_CLUSTER_SAMPLE = 5_000


@dataclass(frozen=True)
class Question:
    """Two rows to be judged the same or different, and why these."""

    left: int
    right: int
    reason: str


def choose_questions(
    embedding: NDArray[Any],
    placement: Placement,
    *,
    centers: NDArray[Any],
    constraints: Constraints,
    count: int,
) -> tuple[Question, ...]:
    """At most ``count`` pairs of rows to be judged by a person, none of them judged already.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    placement : Placement
    centers : ndarray of shape (K, D)
    constraints : Constraints
    count : int
    """
    typical = [placement.members(cluster)[:3] for cluster in range(placement.n_clusters)]
    kinds = (
        _ask_about_borderline(placement, typical, constraints=constraints),
        _ask_whether_apart(placement, typical, constraints=constraints, centers=centers),
        _ask_whether_one(embedding, placement, constraints=constraints),
    )
    mixed = [question for question in chain(*zip_longest(*kinds)) if question is not None]
    ends = np.array([(question.left, question.right) for question in mixed], dtype=np.int64).reshape(-1, 2)
    keys = _pair_keys(ends[:, 0], ends[:, 1])
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[np.unique(keys, return_index=True)[1]] = True
    is_new = is_first & ~np.isin(keys, _pair_keys(constraints.left, constraints.right))
    return tuple(mixed[place] for place in np.flatnonzero(is_new)[:count].tolist())


def _ask_about_borderline(
    placement: Placement, typical: list[Integers], *, constraints: Constraints
) -> list[Question]:
    """Rows nearly as close to another cluster, few for each two clusters, unlinked rows first."""
    rows = np.flatnonzero(placement.is_borderline & (placement.other >= 0))
    linked = np.isin(rows, np.concatenate([constraints.left, constraints.right]))
    rows = rows[np.lexsort((np.abs(placement.sureness[rows]), linked))]
    border = placement.labels[rows] * placement.n_clusters + placement.other[rows]
    rows = rows[_rank_in_group(border) < _PER_BORDER]
    return [
        Question(
            row,
            int(typical[other][place % len(typical[other])]),
            f"The first row is nearly as close to cluster {other} as to its own, {own}; the second is "
            f"typical of cluster {other}.",
        )
        for place, (row, own, other) in enumerate(
            zip(rows.tolist(), placement.labels[rows].tolist(), placement.other[rows].tolist(), strict=True)
        )
        if len(typical[other])
    ]


def _ask_whether_apart(
    placement: Placement, typical: list[Integers], *, constraints: Constraints, centers: NDArray[Any]
) -> list[Question]:
    """Pairs of clusters without a cannot-link between them, the closest first."""
    links = between_clusters(placement, constraints, is_must_link=False)
    distances = distances_to(centers, centers)
    first, second = np.triu_indices(placement.n_clusters, k=1)
    open_pairs = np.flatnonzero(
        (links[first, second] == 0) & (placement.sizes[first] > 0) & (placement.sizes[second] > 0)
    )
    order = open_pairs[np.argsort(distances[first, second][open_pairs], kind="stable")]
    return [
        Question(
            int(typical[a][0]),
            int(typical[b][0]),
            f"Typical rows of clusters {a} and {b}: no cannot-link says yet that these two clusters differ.",
        )
        for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True)
    ]


def _ask_whether_one(
    embedding: NDArray[Any], placement: Placement, *, constraints: Constraints
) -> list[Question]:
    """Clusters with few must-links inside, those with the fewest first."""
    inside = np.diag(between_clusters(placement, constraints, is_must_link=True))
    thin = np.flatnonzero((inside < _FEW_MUST_LINKS) & (placement.sizes >= 2))
    return [
        Question(
            *_ends_of(embedding, placement.members(cluster)),
            f"Two ends of cluster {cluster}, which only {_counted(int(inside[cluster]))} hold together.",
        )
        for cluster in thin[np.argsort(inside[thin], kind="stable")].tolist()
    ]


def between_clusters(placement: Placement, constraints: Constraints, *, is_must_link: bool) -> Integers:
    """How many constraints of one kind join clusters a and b, symmetric, (K, K)."""
    chosen = constraints[constraints.is_must_link == is_must_link]
    left, right = placement.labels[chosen.left], placement.labels[chosen.right]
    known = (left >= 0) & (right >= 0)
    counts = np.zeros((placement.n_clusters, placement.n_clusters), dtype=np.int64)
    np.add.at(counts, (left[known], right[known]), 1)
    return np.asarray(counts + counts.T - np.diag(np.diag(counts)))


def _ends_of(embedding: NDArray[Any], members: Integers) -> tuple[int, int]:
    """Two rows far apart along the direction in which the members differ most."""
    step = -(-len(members) // _LARGEST_CLUSTER_SAMPLE)
    rows = members[::step]
    order = rows[np.argsort(principal_plane(embedding[rows].astype(np.float64))[:, 0], kind="stable")]
    low, high = (int(share * (len(order) - 1) + 0.5) for share in _ENDS)
    return int(order[low]), int(order[high])


def _rank_in_group(group: Integers) -> Integers:
    """For each entry how many of the same group stand before it."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    starts = np.searchsorted(sorted_group, sorted_group, side="left")
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - starts
    return rank


def _pair_keys(left: Integers, right: Integers) -> Integers:
    """A number for each pair of rows, whichever end comes first."""
    return np.asarray((np.minimum(left, right) << 32) | np.maximum(left, right))


def _counted(n_links: int) -> str:
    return {0: "no must-links", 1: "one must-link"}.get(n_links, f"{n_links} must-links")

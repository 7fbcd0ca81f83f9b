"""The graph of must-links: its components, and what pairs prove.

Must-links join rows to components; a cannot-link makes two components differ. Components that all differ
from each other, a clique, are groups that no clustering may merge: there are at least as many clusters. The
largest clique is hard to find, so one is grown greedily: the bound may be too low, but never too high.

One wrong cannot-link makes two groups of one, and one wrong must-link a group of two, whose cannot-links then
are those of both. So where answers may be wrong, components differ only by two cannot-links that share no
row, and a must-link that alone holds two parts of several rows together does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from spherepair.constraints.pair_arrays import BoolArray, IndexArray, PairArrays

#: Components from which cliques are grown: those that differ from most others.
CLIQUE_STARTS = 30
#: So many components are compared in a dense matrix, which is faster than a sparse one.
FEW_COMPONENTS = 1000


@dataclass(frozen=True)
class Components:
    """Groups of rows that must-links connect, directly or through other rows.

    Parameters
    ----------
    rows : array of shape (n_rows_covered,)
        Rows in some pair, ascending.
    labels : array of shape (n_rows_covered,)
        Component of each of these rows, numbered from 0 in the order of `rows`. A row without
        must-links is a component of its own.
    n_components : int
        Number of components.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (1, 5)], cannot_link=[(0, 7)])
    >>> components = pairs.components()
    >>> components.rows.tolist(), components.labels.tolist()
    ([0, 1, 5, 7], [0, 0, 0, 1])
    """

    rows: IndexArray
    labels: IndexArray
    n_components: int

    @property
    def sizes(self) -> IndexArray:
        """Number of rows of each component, of shape (n_components,)."""
        return np.bincount(self.labels, minlength=self.n_components)


@dataclass(frozen=True)
class PairGraph:
    """Pairs of rows that are renumbered without gaps, so that arrays per row stay small.

    Parameters
    ----------
    components : Components
        Components of the must-links.
    left, right : array of shape (n_pairs,)
        The ends of the pairs as positions in ``components.rows``.
    """

    components: Components
    left: IndexArray
    right: IndexArray

    @property
    def left_component(self) -> IndexArray:
        """Component of the left end of each pair, of shape (n_pairs,)."""
        return self.components.labels[self.left]

    @property
    def right_component(self) -> IndexArray:
        """Component of the right end of each pair, of shape (n_pairs,)."""
        return self.components.labels[self.right]


def build_graph(pairs: PairArrays) -> PairGraph:
    """Renumber the rows of `pairs` and find the components of their must-links."""
    rows, positions = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
    left, right = np.split(positions, 2)
    must = pairs.is_must_link & pairs.is_decided
    links = coo_array(
        (np.ones(int(must.sum()), np.int8), (left[must], right[must])), shape=(len(rows), len(rows))
    )
    # SciPy refuses a graph without nodes.
    n_components, labels = connected_components(links, directed=False) if len(rows) else (0, rows)
    return PairGraph(Components(rows, labels.astype(np.int64), int(n_components)), left, right)


def unordered_pairs(pairs: PairArrays) -> IndexArray:
    """One number per pair, equal where the rows are the same, whatever the link and whichever comes first.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> unordered_pairs(Constraints.from_pairs(must_link=[(4, 2), (7, 2)], cannot_link=[(2, 4)])).tolist()
    [1, 2, 1]
    """
    rows, places = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
    left, right = np.split(places, 2)
    keys: IndexArray = np.minimum(left, right) * len(rows) + np.maximum(left, right)
    return keys


def is_contradictory(pairs: PairArrays, graph: PairGraph) -> BoolArray:
    """Mask of the cannot-links whose two ends are connected by must-links."""
    is_inside = graph.left_component == graph.right_component
    return np.asarray(~pairs.is_must_link & pairs.is_decided & is_inside)


@dataclass(frozen=True)
class ProvedGroups:
    """Groups of rows of which every two are known to differ.

    Parameters
    ----------
    rows : array of shape (n_grouped_rows,)
        Rows that are known to be in one of the groups.
    labels : array of shape (n_grouped_rows,)
        Group of each of these rows, numbered from 0.
    n_groups : int
        Number of groups, and so the least possible number of clusters.
    n_linked_rows : int
        Rows in some pair.
    n_single_rows : int
        Rows in some pair that no must-link joins to another row.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(1, 2), (0, 3), (2, 3), (3, 9)])
    >>> found = pairs.proved_groups()
    >>> found.n_groups, found.rows.tolist(), found.labels.tolist(), found.share_grouped
    (3, [0, 1, 2, 3], [0, 0, 1, 2], 0.8)
    """

    rows: IndexArray
    labels: IndexArray
    n_groups: int
    n_linked_rows: int
    n_single_rows: int

    @property
    def share_grouped(self) -> float:
        """Share of the rows in pairs whose group is known."""
        return len(self.rows) / max(self.n_linked_rows, 1)

    @property
    def examples(self) -> IndexArray:
        """First row of each group, of shape (n_groups,)."""
        return self.rows[np.unique(self.labels, return_index=True)[1]]


def find_proved_groups(pairs: PairArrays, *, may_be_wrong: bool = False) -> ProvedGroups:
    """Groups that the pairs prove; contradictory cannot-links are left out.

    Parameters
    ----------
    pairs : PairArrays
    may_be_wrong : bool, default=False
        Whether some answers may be wrong; then one pair alone proves nothing. Of must-links that form a tree
        only those of its outermost rows remain.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> apart = [(0, 2), (1, 3), (0, 4), (3, 4)]
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (2, 3)], cannot_link=apart)
    >>> [find_proved_groups(pairs, may_be_wrong=doubt).n_groups for doubt in (False, True)]
    [3, 2]
    """
    everything = build_graph(pairs).components
    if may_be_wrong:
        pairs = pairs[~_is_bridge(pairs)]
    graph = build_graph(pairs)
    components = graph.components
    sizes = components.sizes
    group = np.full(components.n_components, -1, np.int64)
    clique = greedy_clique(_differing_components(pairs, graph, may_be_wrong=may_be_wrong), sizes)
    group[clique] = np.arange(len(clique))
    labels = group[components.labels]
    is_grouped = labels >= 0
    return ProvedGroups(
        components.rows[is_grouped],
        labels[is_grouped],
        n_groups=len(clique),
        n_linked_rows=len(everything.rows),
        n_single_rows=int((everything.sizes == 1).sum()),
    )


def count_informative(pairs: PairArrays, n_clusters: int) -> int:
    """Number of random pairs that would tell about as much as these.

    What follows from other pairs is no news. A row that must-links join to a component tells its cluster, as
    much as a pair with each of the clusters would; of all cannot-links between two components one is news.
    So all pairs of a few rows count much less than their number, and random pairs as many as there are.

    Parameters
    ----------
    pairs : PairArrays
    n_clusters : int

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> labels = np.arange(1000) % 10
    >>> count_informative(Constraints.from_labels(labels, 400, random_state=0), 10)
    400
    >>> count_informative(Constraints.from_labels(labels[:300], 44_850, random_state=0), 10)
    2945
    """
    graph = build_graph(pairs)
    n_joined = len(graph.components.rows) - graph.components.n_components
    n_differing = int(_differing_components(pairs, graph).nnz) // 2
    return min(len(pairs), n_clusters * n_joined + n_differing)


def greedy_clique(differ: Any, sizes: IndexArray) -> IndexArray:
    """Components that all differ from each other, in ascending order; as many as a greedy search finds.

    A clique is grown from each of the components that differ from most others. The next one is always that
    which leaves most candidates, then the largest.

    Parameters
    ----------
    differ : csr_array of shape (C, C)
        Symmetric; nonzero where two components are known to differ.
    sizes : array of shape (C,)
        Number of rows of each component.

    Examples
    --------
    >>> differ = csr_array(np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]))
    >>> greedy_clique(differ, np.ones(4, np.int64)).tolist()
    [0, 1, 2]
    """
    degree = np.diff(differ.indptr)
    best: list[int] = []
    may_beat = np.ones(len(sizes), dtype=bool)
    table = differ.toarray() if len(sizes) <= FEW_COMPONENTS else differ
    for start in np.lexsort((-sizes, -degree))[:CLIQUE_STARTS].tolist():
        if not may_beat[start]:
            continue
        found = _grow_clique(table, sizes, start)
        if len(found) > len(best):
            best, may_beat = found, _core(differ, len(found))
    return np.array(sorted(best), dtype=np.int64)


def _core(differ: Any, least: int) -> BoolArray:
    """Which components differ from ``least`` others of which the same is true: larger cliques lie there."""
    is_left, n_left = np.ones(differ.shape[0], dtype=bool), differ.shape[0] + 1
    while is_left.sum() < n_left:
        n_left = is_left.sum()
        is_left &= differ @ is_left.astype(np.int64) >= least
    return is_left


def _grow_clique(differ: Any, sizes: IndexArray, start: int) -> list[int]:
    others = _neighbors(differ, start)
    among = differ[others][:, others]
    is_left, clique = np.ones(len(others), np.int64), [start]
    while is_left.any():
        score = (among @ is_left) * (sizes.max() + 1) + sizes[others]
        place = int(np.where(is_left, score, -1).argmax())
        clique.append(int(others[place]))
        nearby = _neighbors(among, place)
        stays = np.zeros_like(is_left)
        stays[nearby] = is_left[nearby]
        stays[place] = 0  # nothing differs from itself
        is_left = stays
    return clique


def _neighbors(differ: Any, place: int) -> IndexArray:
    if isinstance(differ, np.ndarray):
        return np.flatnonzero(differ[place])
    found: IndexArray = differ.indices[differ.indptr[place] : differ.indptr[place + 1]]
    return found


def _is_bridge(pairs: PairArrays) -> BoolArray:
    """Must-links that alone hold two parts of several rows together, and that only one person gave.

    Every must-link beside a tree closes a circle, whose must-links all get its random number by exclusive or.
    A must-link without any number is in no circle.
    """
    must = np.flatnonzero(pairs.is_must_link & pairs.is_decided)
    rows, ends = np.unique([pairs.left[must], pairs.right[must]], return_inverse=True)
    left, right = ends.reshape(2, -1)
    low, high = np.minimum(left, right), np.maximum(left, right)
    _, first, edge = np.unique(low * len(rows) + high, return_index=True, return_inverse=True)
    low, high = low[first], high[first]
    order, parent = _spanning_tree(low, high, len(rows))
    is_in_tree = (parent[low] == high) | (parent[high] == low)
    numbers = np.random.default_rng(0).integers(1, 2**63, size=len(low)) * ~is_in_tree
    seen = np.zeros(len(rows) + 1, np.int64)
    for side in (low, high):
        np.bitwise_xor.at(seen, side, numbers)
    for level in _levels(order, parent)[:0:-1]:
        np.bitwise_xor.at(seen, parent[level], seen[level])
    child = np.where(parent[low] == high, low, high)
    degree = np.bincount(np.concatenate([low, high]), minlength=len(rows))
    is_alone = is_in_tree & (seen[child] == 0) & (degree[low] > 1) & (degree[high] > 1)
    is_alone &= np.bincount(edge, minlength=len(low)) == 1
    found = np.zeros(len(pairs), bool)
    found[must] = is_alone[edge]
    return found


def _spanning_tree(left: IndexArray, right: IndexArray, n_rows: int) -> tuple[IndexArray, IndexArray]:
    """Rows of all components in the order of a search, and the parent of each; the root is row ``n_rows``."""
    size = n_rows + 1
    links = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(size, size))
    _, labels = connected_components(links, directed=False)
    tops = np.unique(labels[:n_rows], return_index=True)[1]
    rooted = coo_array(
        (
            np.ones(len(left) + len(tops), np.int8),
            (np.append(left, tops), np.append(right, np.full(len(tops), n_rows))),
        ),
        shape=(size, size),
    )
    order, parent = breadth_first_order(rooted.tocsr(), n_rows, directed=False)
    return order.astype(np.int64), parent.astype(np.int64)


def _levels(order: IndexArray, parent: IndexArray) -> list[IndexArray]:
    """Rows of a breadth-first search by their distance from its root."""
    place = np.empty(len(parent), np.int64)
    place[order] = np.arange(len(order))
    place_of_parent = place[parent[order[1:]]]  # never falls
    bounds = [0, 1]
    while bounds[-1] < len(order):
        bounds.append(1 + int(np.searchsorted(place_of_parent, bounds[-1])))
    return [order[start:end] for start, end in pairwise(bounds)]


def _differing_components(pairs: PairArrays, graph: PairGraph, *, may_be_wrong: bool = False) -> Any:
    """Symmetric csr_array of shape (C, C) with a one where a cannot-link runs between two components.

    Where answers may be wrong, only where two of these share no row.
    """
    n_components = graph.components.n_components
    cannot = ~pairs.is_must_link & pairs.is_decided & (graph.left_component != graph.right_component)
    ends = np.stack([graph.left[cannot], graph.right[cannot]])
    of_ends = graph.components.labels[ends]
    ends = np.where(of_ends[0] < of_ends[1], ends, ends[::-1])
    first, second = graph.components.labels[ends]
    keys, where = np.unique(first * n_components + second, return_inverse=True)
    if may_be_wrong:
        keys = keys[_share_no_row(ends, where, len(keys))]
    first, second = np.divmod(keys, max(n_components, 1))
    both_ways = np.sort(np.concatenate([keys, second * n_components + first]))
    shape = (n_components, n_components)
    return csr_array(
        (np.ones(len(both_ways), np.int64), np.divmod(both_ways, max(n_components, 1))), shape=shape
    )


def _share_no_row(ends: IndexArray, where: IndexArray, n_borders: int) -> BoolArray:
    """Which borders, numbers of the cannot-links with these ends (2, m), have two that share no row.

    By König's theorem those whose cannot-links do not all have one row.
    """
    least = np.full((2, n_borders), np.iinfo(np.int64).max)
    largest = np.full((2, n_borders), -1)
    for side in range(2):
        np.minimum.at(least[side], where, ends[side])
        np.maximum.at(largest[side], where, ends[side])
    differ: BoolArray = (least != largest).all(axis=0)
    return differ

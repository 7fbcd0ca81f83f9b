"""What must-links entail.

If a and b must be together and b and c must be together, then so must a and c; if a and b must be
together and b and c must not, then a and c must not. The closure holds every pair that follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spherepair.constraints.graph import PairGraph
from spherepair.constraints.table import (
    IndexArray,
    PairTable,
    WeightArray,
    concatenate,
    pair_keys,
)
from spherepair.errors import InvalidConstraintsError


@dataclass(frozen=True)
class EntailedCount:
    """How many pairs the closure adds to those given."""

    must_link: int
    cannot_link: int


def entailed_pairs(pairs: PairTable, graph: PairGraph, *, max_pairs: int) -> PairTable:
    """The pairs that follow from `pairs` and are not among them; these must not conflict.

    Each weighs as much as the lightest given pair it may rest on, so that nothing entailed counts
    for more than what it was entailed from.
    """
    _check_size(pairs, graph, max_pairs)
    lightest = np.full(graph.components.n_components, np.inf, np.float32)
    must = pairs.is_must_link
    np.minimum.at(lightest, graph.left_component[must], pairs.weight[must])
    candidates = concatenate(_inside_components(graph, lightest), _across_components(pairs, graph, lightest))
    given, found = np.split(pair_keys(concatenate(pairs, candidates)), [len(pairs)])
    return candidates[~np.isin(found, given)]


def count_entailed(pairs: PairTable, graph: PairGraph) -> EntailedCount:
    """Count, without making them, the pairs that follow from `pairs`; these must not conflict."""
    sizes = graph.components.sizes
    inside = int((sizes * (sizes - 1) // 2).sum())
    first, second, _ = _linked_components(pairs, graph)
    across = int((sizes[first] * sizes[second]).sum())
    n_must_link = int(pairs.is_must_link.sum())
    return EntailedCount(inside - n_must_link, across - (len(pairs) - n_must_link))


def _check_size(pairs: PairTable, graph: PairGraph, max_pairs: int) -> None:
    count = count_entailed(pairs, graph)
    total = len(pairs) + count.must_link + count.cannot_link
    if total > max_pairs:
        raise InvalidConstraintsError(
            f"constraints: the closure of {len(pairs)} pairs would hold {total} pairs, more than "
            f"max_pairs={max_pairs}; raise max_pairs, or use the pairs as they are."
        )


def _linked_components(pairs: PairTable, graph: PairGraph) -> tuple[IndexArray, IndexArray, WeightArray]:
    """The pairs of components with a cannot-link between them, and the lightest such link."""
    cannot = ~pairs.is_must_link
    left, right = graph.left_component[cannot], graph.right_component[cannot]
    keys = np.minimum(left, right) * graph.components.n_components + np.maximum(left, right)
    unique, inverse = np.unique(keys, return_inverse=True)
    lightest = np.full(len(unique), np.inf, np.float32)
    np.minimum.at(lightest, inverse, pairs.weight[cannot])
    first, second = np.divmod(unique, max(graph.components.n_components, 1))
    return first, second, lightest


def _inside_components(graph: PairGraph, lightest: WeightArray) -> PairTable:
    """All pairs inside each component of three rows or more; a smaller one holds nothing new."""
    members, start, sizes = _members(graph)
    component = graph.components.labels[members]
    place = np.arange(len(members)) - start[component]
    n_later = np.where(sizes[component] > 2, sizes[component] - 1 - place, 0)
    left = np.repeat(np.arange(len(members)), n_later)
    right = left + 1 + _count_up(n_later)
    return _entailed(
        graph, members[left], members[right], weight=lightest[component[left]], is_must_link=True
    )


def _across_components(pairs: PairTable, graph: PairGraph, lightest: WeightArray) -> PairTable:
    """All pairs between components with a cannot-link between them."""
    members, start, sizes = _members(graph)
    first, second, weight = _linked_components(pairs, graph)
    weight = np.minimum(weight, np.minimum(lightest[first], lightest[second]))
    # One row against one row is the cannot-link that was given.
    n_cross = np.where(sizes[first] * sizes[second] > 1, sizes[first] * sizes[second], 0)
    block, within = np.repeat(np.arange(len(first)), n_cross), _count_up(n_cross)
    left, right = np.divmod(within, sizes[second][block])
    left += start[first][block]
    right += start[second][block]
    return _entailed(graph, members[left], members[right], weight=weight[block], is_must_link=False)


def _members(graph: PairGraph) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Positions of rows component by component, where each component starts, and its size."""
    sizes = graph.components.sizes
    members = np.argsort(graph.components.labels, kind="stable")
    return members, np.cumsum(sizes) - sizes, sizes


def _count_up(lengths: IndexArray) -> IndexArray:
    """0, 1, ..., n - 1 for each n of `lengths`, one run after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)


def _entailed(
    graph: PairGraph,
    left: IndexArray,
    right: IndexArray,
    *,
    weight: WeightArray,
    is_must_link: bool,
) -> PairTable:
    rows, n_pairs = graph.components.rows, len(left)
    from_nowhere = np.full(n_pairs, -1, np.int64)
    return PairTable(rows[left], rows[right], np.full(n_pairs, is_must_link), weight, from_nowhere)

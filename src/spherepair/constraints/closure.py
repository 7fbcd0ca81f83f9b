"""The closure: pairs that follow from the given ones; and a summary of a set of pairs.

If a and b must be together and b and c must be together, then so must a and c; if a and b must be
together and b and c must not, then a and c must not. The closure holds every pair that follows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from spherepair.constraints.conflicts import ConflictReport
from spherepair.constraints.graph import (
    Components,
    PairGraph,
    ProvedGroups,
    build_graph,
    count_informative,
    find_proved_groups,
    is_contradictory,
)
from spherepair.constraints.pair_arrays import (
    AnswerDetails,
    IndexArray,
    PairArrays,
    Pairs,
    ValueArray,
    WeightArray,
    concatenate,
    pair_keys,
)
from spherepair.errors import InvalidConstraintsError


class LinkedPairs(PairArrays):
    """Pairs and what follows from them: the part of ``Constraints`` that sees them as a graph."""

    def components(self) -> Components:
        """Rows in some pair, and the components that must-links make of them."""
        return build_graph(self).components

    def conflicts(self) -> ConflictReport:
        """Cannot-links that contradict must-links, each with the chain of must-links that proves it."""
        return ConflictReport(self, build_graph(self))

    def require_consistent(self) -> None:
        """Raise ``ConflictError`` if some pairs contradict each other."""
        self._consistent_graph()

    def drop_conflicts(self) -> Self:
        """The pairs without the cannot-links that contradict must-links.

        Must-links always stay, also where the same pair is given with both links.
        """
        wrong = is_contradictory(self, build_graph(self))
        return self[~wrong] if wrong.any() else self

    def closure(self, *, max_pairs: int = 10_000_000) -> Self:
        """These pairs, followed by all pairs that they entail.

        An entailed pair has ``source_row`` -1, nobody who gave it, and the smallest weight of the given pairs
        that it may follow from: the must-links of its components and the cannot-links between them.
        Its value is as unsure as the least sure of these.

        Parameters
        ----------
        max_pairs : int
            Largest closure that is built; its size can be quadratic in the number of rows.

        Examples
        --------
        >>> from spherepair.constraints import Constraints
        >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (1, 2)], cannot_link=[(2, 3)])
        >>> [(pair.left, pair.right, pair.is_must_link) for pair in pairs.closure()[3:]]
        [(0, 2, True), (0, 3, False), (1, 3, False)]
        """
        told = self[self.is_decided] if self.details.value is not None else self
        return concatenate(self, entailed_pairs(told, told._consistent_graph(), max_pairs=max_pairs))

    def proved_groups(self, *, may_be_wrong: bool = False) -> ProvedGroups:
        """Groups of rows of which every two are known to differ: there are at least as many clusters.

        Where answers may be wrong, one alone proves nothing: two groups differ only by two cannot-links that
        share no row, and one must-link does not join two groups of several rows.
        """
        return find_proved_groups(self, may_be_wrong=may_be_wrong)

    def informative_pairs(self, n_clusters: int) -> int:
        """Number of random pairs that would tell about as much: all pairs of a few rows tell little."""
        return count_informative(self, n_clusters)

    def summary(self) -> ConstraintSummary:
        """Numbers of pairs, of rows in them, of entailed pairs and of conflicts."""
        return summarize(self)

    def _consistent_graph(self) -> PairGraph:
        graph = build_graph(self)
        if is_contradictory(self, graph).any():
            raise ConflictReport(self, graph).to_error()
        return graph


@dataclass(frozen=True)
class ConstraintSummary:
    """Numbers of pairs, of rows in them, of entailed pairs and of conflicts.

    Parameters
    ----------
    n_pairs, n_must_link, n_cannot_link : int
        Pairs, each counted once.
    n_duplicates : int
        Repeated pairs that were left out.
    n_rows_covered : int
        Rows in some pair.
    n_components, largest_component : int
        Must-link components of these rows, and the number of rows of the largest.
    n_conflicts : int
        Cannot-links that contradict must-links.
    n_entailed_must_link, n_entailed_cannot_link : int
        Pairs that the closure would add, once contradictory cannot-links are dropped.
    n_unsure : int
        Pairs of value 0.5, which are neither must-links nor cannot-links.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> print(Constraints.from_pairs(must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)]).summary())
    pairs           3 (2 must-link, 1 cannot-link; 0 repeated, kept once)
    rows covered    3 in 1 must-link components, the largest of 3
    entailed        1 must-link, 0 cannot-link
    contradictions  1
    """

    n_pairs: int
    n_must_link: int
    n_cannot_link: int
    n_duplicates: int
    n_rows_covered: int
    n_components: int
    largest_component: int
    n_conflicts: int
    n_entailed_must_link: int
    n_entailed_cannot_link: int
    n_unsure: int = 0

    def __str__(self) -> str:
        unsure = f", {self.n_unsure} unsure" if self.n_unsure else ""
        return "\n".join(
            [
                f"pairs           {self.n_pairs} ({self.n_must_link} must-link, "
                f"{self.n_cannot_link} cannot-link{unsure}; {self.n_duplicates} repeated, kept once)",
                f"rows covered    {self.n_rows_covered} in {self.n_components} must-link "
                f"components, the largest of {self.largest_component}",
                f"entailed        {self.n_entailed_must_link} must-link, "
                f"{self.n_entailed_cannot_link} cannot-link",
                f"contradictions  {self.n_conflicts}",
            ]
        )


def summarize(pairs: PairArrays) -> ConstraintSummary:
    """Count everything without building the closure."""
    graph = build_graph(pairs)
    wrong = is_contradictory(pairs, graph)
    told = ~wrong & pairs.is_decided
    consistent = pairs[told]
    # The must-links are all still there, so the components are too.
    entailed = count_entailed(consistent, graph if told.all() else build_graph(consistent))
    n_must_link = int((pairs.is_must_link & pairs.is_decided).sum())
    n_unsure = len(pairs) - int(np.count_nonzero(pairs.is_decided))
    return ConstraintSummary(
        n_pairs=len(pairs),
        n_must_link=n_must_link,
        n_cannot_link=len(pairs) - n_unsure - n_must_link,
        n_unsure=n_unsure,
        n_duplicates=pairs.n_duplicates,
        n_rows_covered=len(graph.components.rows),
        n_components=graph.components.n_components,
        largest_component=int(np.max(graph.components.sizes, initial=0)),
        n_conflicts=int(wrong.sum()),
        n_entailed_must_link=entailed.must_link,
        n_entailed_cannot_link=entailed.cannot_link,
    )


@dataclass(frozen=True)
class EntailedCount:
    """Number of pairs that the closure adds."""

    must_link: int
    cannot_link: int


def entailed_pairs(pairs: Pairs, graph: PairGraph, *, max_pairs: int) -> Pairs:
    """The pairs that follow from `pairs` and are not among them; `pairs` must not conflict.

    Each has the smallest weight of the given pairs that it may follow from, and is as unsure as the least
    sure of them, so that no entailed pair counts more than its evidence.
    """
    _check_size(pairs, graph, max_pairs)
    lightest = np.full(graph.components.n_components, np.inf, np.float32)
    must = pairs.is_must_link
    np.minimum.at(lightest, graph.left_component[must], pairs.weight[must])
    inside, across = _inside_components(pairs, graph, lightest), _across_components(pairs, graph, lightest)
    candidates = concatenate(inside, across)
    given, found = np.split(pair_keys(pairs, candidates), [len(pairs)])
    entailed = candidates[~np.isin(found, given)]
    if pairs.details.value is None:
        return entailed
    return replace(entailed, details=AnswerDetails(value=_entailed_value(pairs, graph, entailed)))


def _entailed_value(pairs: PairArrays, graph: PairGraph, entailed: PairArrays) -> ValueArray:
    """Value of each entailed pair, from the least sure of the given pairs that it may follow from."""
    doubt, must = np.abs(pairs.value - pairs.is_must_link), pairs.is_must_link
    inside = np.zeros(graph.components.n_components)
    np.maximum.at(inside, graph.left_component[must], doubt[must])
    keys, inverse = np.unique(_cannot_link_keys(pairs, graph), return_inverse=True)
    across = np.zeros(len(keys))
    np.maximum.at(across, inverse, doubt[~must])
    places = (np.searchsorted(graph.components.rows, rows) for rows in (entailed.left, entailed.right))
    copy = PairGraph(graph.components, *places)
    largest = np.maximum(inside[copy.left_component], inside[copy.right_component])
    cannot = ~entailed.is_must_link
    between = across[np.searchsorted(keys, _cannot_link_keys(entailed, copy))]
    largest[cannot] = np.maximum(largest[cannot], between)
    return np.where(cannot, largest, 1.0 - largest)


def count_entailed(pairs: PairArrays, graph: PairGraph) -> EntailedCount:
    """Count the pairs that follow from `pairs` without building them; `pairs` must not conflict."""
    sizes = graph.components.sizes
    inside = int((sizes * (sizes - 1) // 2).sum())
    first, second, _ = _linked_components(pairs, graph)
    across = int((sizes[first] * sizes[second]).sum())
    n_must_link = int(pairs.is_must_link.sum())
    return EntailedCount(inside - n_must_link, across - (len(pairs) - n_must_link))


def _check_size(pairs: PairArrays, graph: PairGraph, max_pairs: int) -> None:
    count = count_entailed(pairs, graph)
    total = len(pairs) + count.must_link + count.cannot_link
    if total > max_pairs:
        raise InvalidConstraintsError(
            f"constraints: the closure of {len(pairs)} pairs would hold {total} pairs, more than "
            f"max_pairs={max_pairs}; raise max_pairs, or use the pairs as they are."
        )


def _linked_components(pairs: PairArrays, graph: PairGraph) -> tuple[IndexArray, IndexArray, WeightArray]:
    """Pairs of components with a cannot-link between them, and the smallest weight of such a link."""
    unique, inverse = np.unique(_cannot_link_keys(pairs, graph), return_inverse=True)
    lightest = np.full(len(unique), np.inf, np.float32)
    np.minimum.at(lightest, inverse, pairs.weight[~pairs.is_must_link])
    first, second = np.divmod(unique, max(graph.components.n_components, 1))
    return first, second, lightest


def _cannot_link_keys(pairs: PairArrays, graph: PairGraph) -> IndexArray:
    """One number per cannot-link, equal where they link the same two components."""
    cannot = ~pairs.is_must_link
    left, right = graph.left_component[cannot], graph.right_component[cannot]
    return np.minimum(left, right) * graph.components.n_components + np.maximum(left, right)


def _inside_components(pairs: Pairs, graph: PairGraph, lightest: WeightArray) -> Pairs:
    """All pairs inside each component of three rows or more; smaller ones entail nothing."""
    members, start, sizes = _members(graph)
    component = graph.components.labels[members]
    place = np.arange(len(members)) - start[component]
    n_later = np.where(sizes[component] > 2, sizes[component] - 1 - place, 0)
    left = np.repeat(np.arange(len(members)), n_later)
    right = left + 1 + _count_up(n_later)
    ends, weight = (members[left], members[right]), lightest[component[left]]
    return _entailed(type(pairs), graph, ends, weight=weight, is_must_link=True)


def _across_components(pairs: Pairs, graph: PairGraph, lightest: WeightArray) -> Pairs:
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
    ends = members[left], members[right]
    return _entailed(type(pairs), graph, ends, weight=weight[block], is_must_link=False)


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
    kind: type[Pairs],
    graph: PairGraph,
    ends: tuple[IndexArray, IndexArray],
    *,
    weight: WeightArray,
    is_must_link: bool,
) -> Pairs:
    rows, n_pairs = graph.components.rows, len(weight)
    nowhere = np.full(n_pairs, -1, np.int64)
    return kind(rows[ends[0]], rows[ends[1]], np.full(n_pairs, is_must_link), weight, nowhere)

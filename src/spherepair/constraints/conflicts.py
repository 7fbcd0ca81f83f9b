"""Contradictions: cannot-links whose two rows are connected by must-links, each with the shortest chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from spherepair.constraints.graph import PairGraph, build_graph, is_contradictory
from spherepair.constraints.pair_arrays import IndexArray, PairArrays
from spherepair.errors import LONGEST_QUOTE, ConflictError

#: Rows of a chain that a sentence names.
SHOWN_IN_CHAIN = 12
#: Work spent on one report: rows that searches for chains may visit. It bounds how many contradictions are
#: tallied and how many answers are taken back one by one; what is contradictory then loses its cannot-links.
MOST_VISITED = 20_000_000
#: Of more pairs, the cheapest set to take back is not searched to name the suspect of one contradiction.
FEW_PAIRS = 20_000
#: Contradictions that are tallied, at most.
MOST_TALLIED = 2000


@dataclass(frozen=True)
class Conflict:
    """A cannot-link and the must-links that contradict it.

    Parameters
    ----------
    left, right : int
        The two rows of the cannot-link.
    chain : tuple of int
        Rows from `left` to `right`, each must-linked with the next; no shorter chain exists.
    source_row : int
        Row of the file or position in the list that the cannot-link comes from; -1 if neither.
    chain_rows : tuple of int
        The same for each must-link of the chain.
    suspect : tuple of two int, optional
        The rows of the answer that is most likely wrong: one without which the fewest others have to be taken
        back, or that is in more contradictions than the others. ``None`` where all are in as many.

    Examples
    --------
    >>> Conflict(3, 9, chain=(3, 5, 9), source_row=12, chain_rows=(4, 7)).explain()
    'cannot-link (3, 9) at row 12 of the pairs contradicts must-links 3 - 5 - 9 (rows 4, 7)'
    """

    left: int
    right: int
    chain: tuple[int, ...]
    source_row: int
    chain_rows: tuple[int, ...]
    suspect: tuple[int, int] | None = None

    def explain(self, ids: Sequence[Any] | None = None) -> str:
        """One sentence, with `ids` (the id of each row) in place of row numbers if given."""
        names = _shortened([str(row if ids is None else ids[row])[:LONGEST_QUOTE] for row in self.chain])
        place = f" at row {self.source_row} of the pairs" if self.source_row >= 0 else ""
        known = _shortened([str(row) for row in self.chain_rows if row >= 0])
        rows = f" ({'row' if len(known) == 1 else 'rows'} {', '.join(known)})" if known else ""
        links = "must-link" if len(self.chain_rows) == 1 else "must-links"
        said = f"cannot-link ({names[0]}, {names[-1]}){place} contradicts {links} {' - '.join(names)}{rows}"
        return said + self._accusation(ids)

    def _accusation(self, ids: Sequence[Any] | None) -> str:
        if self.suspect is None:
            return ""
        rows = ", ".join(str(row if ids is None else ids[row]) for row in self.suspect)
        link = "cannot-link" if self.suspect == (self.left, self.right) else "must-link"
        return f"; most likely wrong: {link} ({rows})"


def _shortened(names: list[str]) -> list[str]:
    """The names, or the first and last of many."""
    n_left_out = len(names) - SHOWN_IN_CHAIN
    if n_left_out <= 1:
        return names
    half = SHOWN_IN_CHAIN // 2
    return [*names[:half], f"… {n_left_out} more …", *names[-half:]]


class ConflictReport(Sequence[Conflict]):
    """All contradictions of some pairs, in the order of their cannot-links.

    A chain is searched only when its conflict is asked for, so that ``len`` and ``bool`` are cheap.

    Parameters
    ----------
    pairs : Constraints
        The pairs examined.
    graph : PairGraph
        Their must-link components.

    Attributes
    ----------
    pair_index : array of shape (n_conflicts,)
        Positions in the pairs of the cannot-links that contradict must-links.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2), (0, 5)])
    >>> report = pairs.conflicts()
    >>> len(report), report[0].chain
    (1, (0, 1, 2))
    """

    def __init__(self, pairs: PairArrays, graph: PairGraph) -> None:
        self.pair_index: IndexArray = np.flatnonzero(is_contradictory(pairs, graph))
        self._pairs = pairs
        self._graph = graph

    def __len__(self) -> int:
        return len(self.pair_index)

    def __iter__(self) -> Iterator[Conflict]:
        return (self._conflict(place) for place in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """One :class:`Conflict` for an integer, a list of them for a slice."""
        if isinstance(index, slice):
            return [self._conflict(place) for place in range(len(self))[index]]
        return self._conflict(range(len(self))[index])

    def __repr__(self) -> str:
        return f"ConflictReport({len(self)} conflicts)"

    def __str__(self) -> str:
        return self.summary()

    def summary(self, *, limit: int = 5, ids: Sequence[Any] | None = None) -> str:
        """Number of contradictions, and a sentence on each of the first `limit`."""
        if not self:
            return "no contradictions"
        lines = [f"{len(self)} {'contradiction' if len(self) == 1 else 'contradictions'}:"]
        lines += [f"  {conflict.explain(ids)}" for conflict in self[:limit]]
        if len(self) > limit:
            lines.append(f"  and {len(self) - limit} more")
        return "\n".join(lines)

    def to_dict(self, *, limit: int | None = None) -> dict[str, Any]:
        """Plain values for JSON, with at most `limit` conflicts."""
        return {"n_conflicts": len(self), "conflicts": [asdict(c) for c in self[:limit]]}

    def to_error(self, ids: Sequence[Any] | None = None) -> ConflictError:
        """An error with the number of contradictions, the first of them, and the remedy."""
        first = self[0].explain(ids)
        count = "1 contradiction" if len(self) == 1 else f"{len(self)} contradictions"
        return ConflictError(
            f"constraints: {count}; the first: {first}. Correct the pairs, or let the fit weigh them with "
            'on_conflict="weigh".',
            conflicts=self,
        )

    def answers(self, limit: int | None = None) -> list[list[int]]:
        """Positions of the answers in at most `limit` contradictions: the cannot-link, then the chain."""
        return [[pair, *self._chain(pair)[1].tolist()] for pair in self.pair_index[:limit].tolist()]

    def take_back(self) -> IndexArray:
        """Positions of a small set of answers without which nothing is contradictory.

        Greedy: in every component, the answer in most contradictions goes first; of several such answers the
        lightest, then a cannot-link.

        Examples
        --------
        >>> from spherepair.constraints import Constraints
        >>> pairs = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(0, 1), (1, 2)])
        >>> pairs.conflicts().take_back().tolist()
        [1]
        >>> pairs = Constraints.from_pairs([(0, 1), (1, 2), (2, 3)], cannot_link=[(0, 2), (1, 3), (0, 3)])
        >>> pairs.conflicts().take_back().tolist()  # the must-link (1, 2) is against all three
        [1]
        """
        stays = np.ones(len(self._pairs), bool)
        report, visited = self, 0
        while report and visited < MOST_VISITED:
            visited += len(self._pairs) + report._visited[-1]
            stays[np.flatnonzero(stays)[report._most_accused()]] = False
            report = _report_of(self._pairs[stays])
        stays[np.flatnonzero(stays)[report.pair_index]] = False
        return np.flatnonzero(~stays)

    def _most_accused(self) -> IndexArray:
        """Position of one answer in each component with contradictions."""
        component = self._graph.left_component
        best: dict[int, tuple[Any, int]] = {}
        for pair in np.flatnonzero(self._tally).tolist():
            rank = (self._tally[pair], -self._pairs.weight[pair], not self._pairs.is_must_link[pair], -pair)
            best[int(component[pair])] = max(best.get(int(component[pair]), (rank, pair)), (rank, pair))
        return np.array(sorted(pair for _, pair in best.values()), np.int64)

    @cached_property
    def _tally(self) -> IndexArray:
        """In how many contradictions each answer is, (n_pairs,)."""
        involved = [pair for answers in self.answers(len(self._visited)) for pair in answers]
        return np.bincount(np.array(involved, np.int64), minlength=len(self._pairs))

    @cached_property
    def _cheapest(self) -> IndexArray:
        """What :meth:`take_back` gives, of so few pairs that naming one answer does not take seconds."""
        return self.take_back() if len(self._pairs) <= FEW_PAIRS else np.empty(0, np.int64)

    @cached_property
    def _visited(self) -> IndexArray:
        """Rows that searches for the chains of the first contradictions visit, summed; never none of them."""
        tallied = self._graph.left_component[self.pair_index[:MOST_TALLIED]]
        visited = np.cumsum(self._graph.components.sizes[tallied])
        return visited[: max(1, int(np.searchsorted(visited, MOST_VISITED)))]

    def _chain(self, pair: int) -> tuple[IndexArray, IndexArray]:
        """Rows and answers of the chain that contradicts a cannot-link."""
        chain = self._searcher.shortest_chain(int(self._graph.left[pair]), int(self._graph.right[pair]))
        return chain, self._searcher.links_along(chain)

    def _suspect(self, pair: int, links: IndexArray) -> tuple[int, int] | None:
        answers = np.append(links, pair)
        times = self._tally[answers]
        if (times == times[0]).all():
            return None
        # Of those that are to be taken back, where these are known; ties are settled there.
        times = times + len(self._pairs) * np.isin(answers, self._cheapest)
        if np.count_nonzero(times == times.max()) > 1:
            return None
        accused = answers[times.argmax()]
        return int(self._pairs.left[accused]), int(self._pairs.right[accused])

    def _conflict(self, place: int) -> Conflict:
        pair = int(self.pair_index[place])
        pairs, rows = self._pairs, self._graph.components.rows
        chain, links = self._chain(pair)
        return Conflict(
            left=int(pairs.left[pair]),
            right=int(pairs.right[pair]),
            chain=tuple(rows[chain].tolist()),
            source_row=int(pairs.source_row[pair]),
            chain_rows=tuple(pairs.source_row[links].tolist()),
            suspect=self._suspect(pair, links),
        )

    @cached_property
    def _searcher(self) -> _ChainSearch:
        return _ChainSearch(self._pairs, self._graph)


def _report_of(pairs: PairArrays) -> ConflictReport:
    return ConflictReport(pairs, build_graph(pairs))


class _ChainSearch:
    """Shortest chains of must-links, searched inside one component at a time.

    Rows are sorted by component and links by their rows, so that the links of a component are
    contiguous and the cost of a search is bounded by the size of the component.
    """

    def __init__(self, pairs: PairArrays, graph: PairGraph) -> None:
        labels, sizes = graph.components.labels, graph.components.sizes
        self._n_rows = len(labels)
        self._component = labels
        self._start = np.concatenate([[0], np.cumsum(sizes)])
        self._member = np.argsort(labels, kind="stable")
        self._place = np.empty_like(self._member)
        self._place[self._member] = np.arange(self._n_rows)
        must = np.flatnonzero(pairs.is_must_link)
        left, right = self._place[graph.left[must]], self._place[graph.right[must]]
        keys = np.concatenate([left * self._n_rows + right, right * self._n_rows + left])
        order = np.argsort(keys)
        self._key, self._pair = keys[order], np.tile(must, 2)[order]
        # Conflicts of one component, or even one row, often follow each other: cache the last links
        # and the last tree.
        self._links: tuple[int, csr_array] | None = None
        self._tree: tuple[int, IndexArray] | None = None

    def shortest_chain(self, left: int, right: int) -> IndexArray:
        """Positions of the rows from `left` to `right`."""
        first = int(self._start[self._component[left]])
        root, parent = int(self._place[left]) - first, self._parents(left)
        chain = [int(self._place[right]) - first]
        while chain[-1] != root:
            chain.append(int(parent[chain[-1]]))
        positions: IndexArray = self._member[np.array(chain[::-1]) + first]
        return positions

    def links_along(self, chain: IndexArray) -> IndexArray:
        """Position of the pair between each two successive rows, of shape (len(chain) - 1,)."""
        place = self._place[chain]
        return self._pair[np.searchsorted(self._key, place[:-1] * self._n_rows + place[1:])]

    def _parents(self, left: int) -> IndexArray:
        """For each row of the component of `left`, the row before it on the way from `left`."""
        if self._tree is None or self._tree[0] != left:
            component = int(self._component[left])
            root = int(self._place[left] - self._start[component])
            order = breadth_first_order(self._links_of(component), root, directed=True)
            self._tree = left, order[1]
        return self._tree[1]

    def _links_of(self, component: int) -> csr_array:
        if self._links is None or self._links[0] != component:
            first, end = self._start[component], self._start[component + 1]
            low, high = np.searchsorted(self._key, [first * self._n_rows, end * self._n_rows])
            ends = np.divmod(self._key[low:high], self._n_rows)
            # breadth_first_order works on float64, and would convert anything else every time.
            entries = (np.ones(high - low), (ends[0] - first, ends[1] - first))
            self._links = component, csr_array(entries, shape=(end - first, end - first))
        return self._links[1]

"""Strategies from the literature, to compare with: they ask about one pair at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spherepair.asking.questions import PairQuestion, Question
from spherepair.asking.situation import Floats, Rows, Situation, Snapshot
from spherepair.asking.strategies import Cards, Strategy, first_pair, unfinished_item
from spherepair.errors import InvalidParameterError, quoted


class PairStrategy:
    """Choose an item, then ask same or different with each group, the most likely first.

    The classics below differ in which item they choose.
    """

    def propose(self, now: Situation) -> Question | None:
        """Go on with the item at hand, or take the next one."""
        item = unfinished_item(now)
        if item is None:
            pool = now.snapshot.pool
            places = np.flatnonzero(now.is_open(pool))
            if not len(places):
                return None
            item = int(pool[places[self.choose(now, places)]])
        if not now.groups.roots:
            return first_pair(now, item)
        undecided = now.undecided_groups(item)
        return PairQuestion(item, now.exemplar(undecided[0])) if undecided else None

    def prepare(
        self, snapshot: Snapshot, placed: Rows, n_items: int, random: np.random.Generator
    ) -> Sequence[int]:
        """Nothing is prepared."""
        return []

    def choose(self, now: Situation, places: NDArray[np.intp]) -> int:
        """Which of the open rows (places in the pool) comes next; each classic has its own rule."""
        raise NotImplementedError


class RandomPairs:
    """Two rows at random, as in the paper."""

    def propose(self, now: Situation) -> Question | None:
        """A pair about which nothing is known."""
        pool = np.setdiff1d(now.snapshot.pool, list(now.passed))
        if len(pool) < 2:
            return None
        for _ in range(1000):
            left, right = (int(row) for row in now.random.choice(pool, 2, replace=False))
            if now.groups.relation(left, right) is None:
                return PairQuestion(left, right)
        return None

    def prepare(
        self, snapshot: Snapshot, placed: Rows, n_items: int, random: np.random.Generator
    ) -> Sequence[int]:
        """Nothing is prepared."""
        return []


class FarthestFirst(PairStrategy):
    """Explore and consolidate (Basu, Banerjee and Mooney, 2004).

    The row farthest from all rows seen, until ``patience`` consecutive rows opened no new group; rows at
    random from then on.
    """

    patience = 10

    def choose(self, now: Situation, places: NDArray[np.intp]) -> int:
        """Farthest first while groups are still found, then at random."""
        if _rows_since_new_group(now) > self.patience:
            return int(now.random.integers(len(places)))
        return int(_similarity_to_seen(now, places).argmin())


class MinMax(FarthestFirst):
    """Min-max (Mallapragada, Jin and Jain, 2008): explore as above, then the row least like any row seen."""

    def choose(self, now: Situation, places: NDArray[np.intp]) -> int:
        """The row whose greatest similarity to the rows seen is smallest."""
        return int(_similarity_to_seen(now, places).argmin())


class Uncertainty(PairStrategy):
    """The row whose two most probable groups are closest."""

    def choose(self, now: Situation, places: NDArray[np.intp]) -> int:
        """Smallest margin; at random before there is a model."""
        if len(now.snapshot.roots) < 2:
            return int(now.random.integers(len(places)))
        return int(now.snapshot.margin[places].argmin())


class NPU(PairStrategy):
    """Normalized point-based uncertainty (Xiong, Azimi and Fern, 2014).

    Entropy of the groups of a row, divided by how many questions it is expected to take to place it.
    """

    def choose(self, now: Situation, places: NDArray[np.intp]) -> int:
        """Most entropy an answer; at random before there is a model."""
        if len(now.snapshot.roots) < 2:
            return int(now.random.integers(len(places)))
        p = np.sort(now.snapshot.probabilities[places], axis=1)[:, ::-1]
        entropy = -(p * np.log(np.maximum(p, 1e-12))).sum(axis=1)
        expected = (p * np.arange(1, p.shape[1] + 1)).sum(axis=1)
        return int((entropy / expected).argmax())


class SuperInstances(PairStrategy):
    """Super-instances as in COBRAS (van Craenendonck, Dumančić and Blockeel, 2018).

    The rows are cut into regions; the typical row of the largest region without an answer is placed, and
    regions are cut finer as answers come in.
    """

    def choose(self, now: Situation, places: NDArray[np.intp]) -> int:
        """The typical row of the largest region in which no row is placed."""
        queue = np.array(now.snapshot.queue, dtype=np.int64)
        waiting = queue[now.is_open(queue)]
        if len(waiting):
            return int(np.searchsorted(now.snapshot.pool[places], waiting[0]))
        return int(now.random.integers(len(places)))

    def prepare(
        self, snapshot: Snapshot, placed: Rows, n_items: int, random: np.random.Generator
    ) -> Sequence[int]:
        """Typical rows of regions of equal weight, the largest without an answer first."""
        flat = Snapshot(snapshot.pool, snapshot.embedding)
        return Cards().prepare(flat, placed, n_items, random)


STRATEGIES: dict[str, type[Strategy]] = {
    "cards": Cards,
    "random": RandomPairs,
    "farthest-first": FarthestFirst,
    "min-max": MinMax,
    "npu": NPU,
    "uncertainty": Uncertainty,
    "super-instances": SuperInstances,
}


def resolve_strategy(strategy: str | Strategy) -> Strategy:
    """A strategy by its name, or as it is."""
    if not isinstance(strategy, str):
        return strategy
    if strategy not in STRATEGIES:
        raise InvalidParameterError(
            f"strategy must be one of {', '.join(STRATEGIES)} or an object with propose and prepare, "
            f"got {quoted(strategy)} instead."
        )
    return STRATEGIES[strategy]()


def strategy_name(strategy: Strategy) -> str | None:
    """The name of one of the strategies above; ``None`` for others."""
    return next((name for name, kind in STRATEGIES.items() if type(strategy) is kind), None)


def _similarity_to_seen(now: Situation, places: NDArray[np.intp]) -> Floats:
    """Greatest similarity of open rows to the rows that are in some link."""
    snapshot, seen = now.snapshot, now.groups.rows
    if not seen:
        to_center: Floats = snapshot.embedding[places] @ snapshot.embedding.mean(axis=0)
        return -to_center  # begin with a typical row
    found: Floats = (snapshot.embedding[places] @ snapshot.vectors(seen).T).max(axis=1)
    return found


def _rows_since_new_group(now: Situation) -> int:
    """How many rows were placed since the youngest group was opened."""
    youngest = now.groups.members(now.groups.roots[-1])[0] if now.groups.roots else None
    items: list[int] = []
    for answer in reversed(now.answers):
        item = answer.question.rows[0]
        if item == youngest:
            break
        if item not in items:
            items.append(item)
    return len(items)

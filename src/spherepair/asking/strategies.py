"""Which question to ask next.

A strategy looks at a :class:`Situation` and returns a question. It keeps no state of its own, so an
interview that was interrupted or undone goes on from its answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from spherepair.asking.checks import is_check_due, next_check, second_look, single_row
from spherepair.asking.questions import (
    MOST_EXEMPLARS,
    MOST_ITEMS,
    NONE,
    Answer,
    ChoiceQuestion,
    GroupQuestion,
    PairQuestion,
    Question,
)
from spherepair.asking.situation import Floats, Rows, Situation, Snapshot, chance_of_new_group
from spherepair.clustering.assigners import kmeans

#: Of the items that do not belong on a group card, at most so many are placed right after it.
ODD_ITEMS_PLACED = 2
#: So many group cards come one after the other once most groups seem to be met, if no answers are in doubt.
GROUP_CARDS = 2
#: Most are met where the next item is in a new group with at most this probability.
LIKELY_NEW_GROUP = 0.15
#: Items of a group card that are drawn at random, to estimate how often the model is right.
RANDOM_ITEMS = 2
#: A strategy without prepared items searches so many rows and prepares so many items.
QUICK_ROWS, QUICK_ITEMS = 2000, 20
#: A group card searches so many rows of its group with so many steps of k-means: somebody waits for it.
CARD_ROWS, CARD_STEPS = 500, 4
#: Uncertainty makes up to this share of an item's weight. The share grows with the placed rows and is reached
#: at so many per group: while few rows are placed, typical rows teach more.
UNSURE_SHARE, ROWS_PER_GROUP = 0.5, 40
#: From so many placed rows on, items are looked for only where none of these is near.
MANY_PLACED = 1000


class Strategy(Protocol):
    """Chooses questions."""

    def propose(self, now: Situation) -> Question | None:
        """The next question; ``None`` where this strategy has nothing left to ask."""
        ...

    def prepare(
        self, snapshot: Snapshot, placed: Rows, n_items: int, random: np.random.Generator
    ) -> Sequence[int]:
        """Items worth placing next, prepared while a model is fitted, so that nobody waits for them."""
        ...


class Cards:
    """Ours: cover the rows first, then ask what would change most.

    Choice cards place items that are typical of regions without an answer; unsure regions count for more.
    As soon as a model knows the groups, group cards come between them: eight items that the model puts into
    one group, spread over what it is least sure of. While many groups have a single row, others may have none
    yet: then group cards come one at a time, and what does not belong on one is placed next, which is how new
    groups are found. So it is while answers are in doubt. Later two come at a time, and what does not belong
    is left to the model: another group card teaches it more than one row with a group.

    Parameters
    ----------
    checks : bool, default=True
        Whether one answer in 25 is asked again.
    """

    def __init__(self, *, checks: bool = True) -> None:
        self.checks = checks

    def propose(self, now: Situation) -> Question | None:
        """Finish the item at hand, place what did not belong, then take turns between both kinds of card."""
        item = unfinished_item(now)
        if item is not None:
            return _choice(now, item)
        is_exploring = now.is_doubtful or chance_of_new_group(now.groups.placed()[1]) > LIKELY_NEW_GROUP
        is_check = now.is_doubtful or (self.checks and is_check_due(now))
        item = _odd_item(now) if is_check or is_exploring else None
        if item is not None:
            return second_look(now, item) if is_check else _choice(now, item)
        if self.checks and now.is_doubtful and (single := single_row(now)) is not None:
            return second_look(now, single)
        if self.checks and (check := next_check(now)) is not None:
            return check
        most = 1 if is_exploring else GROUP_CARDS
        if now.snapshot.is_fitted and not _ends_with_groups(now.answers, most):
            card = self._group_card(now)
            if card is not None:
                return card
        return self._next_choice(now)

    def prepare(
        self, snapshot: Snapshot, placed: Rows, n_items: int, random: np.random.Generator
    ) -> Sequence[int]:
        """Typical rows of cells without a placed row; heavy ones far from all before them come first."""
        share = _unsure_share(len(placed), len(snapshot.roots))
        weight = (1.0 - share) + 2.0 * share * (1.0 - snapshot.margin)
        if len(placed) > MANY_PLACED:  # a cell for each would take minutes: only look where none is near
            near = _nearest(snapshot.embedding, snapshot.vectors(placed))
            far = np.sort(np.argsort(near, kind="stable")[: len(near) // 4])
            part = Snapshot(snapshot.pool[far], snapshot.embedding[far], snapshot.roots, snapshot.centers)
            return self.prepare(part, placed[:0], n_items, random)
        cell, typical, mass = typical_rows(snapshot.embedding, weight, len(placed) + n_items, random=random)
        mass[cell[snapshot.places(placed)]] = 0.0
        mass[typical < 0] = 0.0
        order = _far_and_heavy(snapshot.embedding[typical], mass, snapshot.vectors(placed))
        return [int(row) for row in snapshot.pool[typical[order]]]

    def _next_choice(self, now: Situation) -> Question | None:
        queue = np.array(now.snapshot.queue, dtype=np.int64)
        waiting = queue[now.is_open(queue)]
        for item in waiting if len(waiting) else self._more_items(now):
            is_apart = now.is_doubtful and now.groups.differing(int(item))
            question = second_look(now, int(item)) if is_apart else _choice(now, int(item))
            if question is not None:
                return question
        return None

    def _more_items(self, now: Situation) -> Sequence[int]:
        """Quickly, from a part of the pool: the prepared items are used up."""
        return self._search(open_part(now), now.random)

    def _search(self, part: Snapshot, random: np.random.Generator) -> Sequence[int]:
        return self.prepare(part, np.empty(0, dtype=np.int64), QUICK_ITEMS, random) if len(part.pool) else []

    def _group_card(self, now: Situation) -> Question | None:
        """A card for the group with the least certain open rows; its earlier cards count against it."""
        snapshot = now.snapshot
        is_open = now.is_open(snapshot.pool)
        doubt = np.bincount(
            snapshot.labels[is_open], weights=1.05 - snapshot.margin[is_open], minlength=len(snapshot.roots)
        ) / (1.0 + _cards_of_groups(now))
        for number in np.argsort(-doubt, kind="stable"):
            candidates = np.flatnonzero(is_open & (snapshot.labels == number))
            root = snapshot.roots[number]
            candidates = candidates[
                [now.groups.relation(int(r), root) is None for r in snapshot.pool[candidates]]
            ]
            if len(candidates) >= MOST_ITEMS - 1:
                return self._card_of(now, candidates, root)
        return None

    def _card_of(self, now: Situation, candidates: NDArray[np.intp], root: int) -> Question:
        snapshot = now.snapshot
        share = _unsure_share(len(now.groups.placed()[0]), len(snapshot.roots))
        weight = (1.0 - share) + share * (1.0 - snapshot.margin[candidates])
        if len(candidates) > CARD_ROWS:
            some = now.random.permutation(len(candidates))[:CARD_ROWS]
            candidates, weight = candidates[some], weight[some]
        n_cells = MOST_ITEMS - 1 - RANDOM_ITEMS
        vectors = snapshot.embedding[candidates]
        _, typical, _ = typical_rows(vectors, weight, n_cells, random=now.random, n_steps=CARD_STEPS)
        chosen = candidates[typical[typical >= 0]]
        others = np.setdiff1d(candidates, chosen)
        drawn = now.random.permutation(others)[:RANDOM_ITEMS]
        shown = snapshot.pool[np.concatenate([chosen, drawn])]
        items = (now.exemplar(now.groups.root(root)), *(int(row) for row in shown))
        return GroupQuestion(items, n_random=len(drawn))


def open_part(now: Situation, *, but: Sequence[int] | NDArray[np.int64] = ()) -> Snapshot:
    """Some rows of the pool that are in no group yet, without those that wait already."""
    pool = np.setdiff1d(now.snapshot.pool[now.is_open(now.snapshot.pool)], but, assume_unique=True)
    some = np.sort(now.random.permutation(pool)[:QUICK_ROWS])
    return Snapshot(some, now.snapshot.vectors(some), now.snapshot.roots, now.snapshot.centers)


def unfinished_item(now: Situation) -> int | None:
    """The item of the last question, where it is in no group and some group has not been asked about."""
    last = next((a for a in reversed(now.answers) if not a.question.is_check or a.reply == NONE), None)
    if last is None or not isinstance(last.question, ChoiceQuestion | PairQuestion):
        return None
    item = last.question.item if isinstance(last.question, ChoiceQuestion) else last.question.left
    if item in now.passed or now.groups.group_of(item) is not None:
        return None
    return item if now.undecided_groups(item) else None


def _odd_item(now: Situation) -> int | None:
    """An item that did not belong on the last group card and is in no group yet."""
    since: set[int] = set()
    for answer in reversed(now.answers):
        question = answer.question
        if isinstance(question, GroupQuestion) and not question.is_check:
            if len(since) >= ODD_ITEMS_PLACED or not isinstance(answer.reply, tuple):
                return None
            waiting = np.array([i for i in answer.reply if i not in since], dtype=np.int64)
            waiting = waiting[now.is_open(waiting)]
            return int(waiting[0]) if len(waiting) else None
        if isinstance(question, ChoiceQuestion):
            since.add(question.item)
    return None


def _choice(now: Situation, item: int) -> Question | None:
    """The item beside the exemplars of its most likely groups; with a second item while there is no group."""
    if not now.groups.roots:
        return _first_choice(now, item)
    undecided = now.undecided_groups(item)[:MOST_EXEMPLARS]
    return ChoiceQuestion(item, tuple(now.exemplar(root) for root in undecided)) if undecided else None


def _first_choice(now: Situation, item: int) -> Question | None:
    pair = first_pair(now, item)
    return None if pair is None else ChoiceQuestion(pair.left, (pair.right,))


def _ends_with_groups(answers: Sequence[Answer], most: int) -> bool:
    """Whether so many group cards came last, but for the placing of what did not belong."""
    followed: set[int] = set()
    count = 0
    for answer in reversed(answers):
        question = answer.question
        if isinstance(question, GroupQuestion):
            odd = answer.reply if isinstance(answer.reply, tuple) else ()
            if not followed <= set(odd):
                return False
            followed, count = set(), count + 1
            if count == most:
                return True
        elif isinstance(question, ChoiceQuestion) and not question.is_check:
            followed.add(question.item)
    return False


def _unsure_share(n_placed: int, n_groups: int) -> float:
    return UNSURE_SHARE * min(1.0, n_placed / (ROWS_PER_GROUP * max(1, n_groups)))


def _far_and_heavy(vectors: Floats, mass: NDArray[np.float64], known: Floats) -> list[int]:
    """An order in which each next vector is heavy and far from the known ones and all before it."""
    distance = np.full(len(vectors), 2.0, dtype=np.float32)
    if len(known):
        distance = 2.0 - 2.0 * (vectors @ known.T).max(axis=1)
    order: list[int] = []
    for _ in range(int((mass > 0).sum())):
        gain = np.where(mass > 0, mass * np.maximum(distance, 1e-6), -1.0)
        gain[order] = -1.0
        order.append(int(gain.argmax()))
        distance = np.minimum(distance, 2.0 - 2.0 * (vectors @ vectors[order[-1]]))
    return order


def _nearest(vectors: Floats, known: Floats) -> Floats:
    """Cosine of each vector and the nearest known one, a block at a time."""
    blocks = (known[start : start + MANY_PLACED].T for start in range(0, len(known), MANY_PLACED))
    found = np.full(len(vectors), -1.0, dtype=np.float32)
    for block in blocks:
        np.maximum(found, (vectors @ block).max(axis=1), out=found)
    return found


def _cards_of_groups(now: Situation) -> NDArray[np.float64]:
    """How many group cards each group of the snapshot has had."""
    numbers = {now.groups.root(root): place for place, root in enumerate(now.snapshot.roots)}
    counts = np.zeros(len(now.snapshot.roots))
    cards = (answer.question for answer in now.answers if isinstance(answer.question, GroupQuestion))
    for place in (numbers.get(now.groups.root(card.items[0])) for card in cards):
        if place is not None:
            counts[place] += 1
    return counts


def typical_rows(
    x: Floats, weight: NDArray[np.floating], n_cells: int, *, random: np.random.Generator, n_steps: int = 15
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Cut vectors into cells of about equal weight and take the most typical row of each.

    Parameters
    ----------
    x : ndarray of shape (n, D)
    weight : ndarray of shape (n,)
        How much a row counts; not negative.
    n_cells, n_steps : int
        Number of cells, and of steps of k-means.
    random : Generator

    Returns
    -------
    cell : ndarray of shape (n,)
        The cell of each row.
    typical : ndarray of shape (C,)
        The row nearest to the center of each cell; -1 for an empty one.
    mass : ndarray of shape (C,)
        Weight of the cells.
    """
    n_cells = min(n_cells, len(x))
    # k-means on rows drawn in proportion to their weight is weighted k-means.
    drawn = random.choice(len(x), size=len(x), p=weight / weight.sum())
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    points = torch.from_numpy(x[drawn])
    centers = kmeans(points, n_cells, generator=generator, n_init=1, max_iter=n_steps, tol=None).numpy()
    distance = np.square(centers).sum(axis=1) - 2.0 * x @ centers.T
    cell = distance.argmin(axis=1)
    order = np.argsort(-distance[np.arange(len(x)), cell], kind="stable")
    typical = np.full(n_cells, -1, dtype=np.int64)
    typical[cell[order]] = order  # the last one written is the nearest
    mass: NDArray[np.float64] = np.bincount(cell, weights=weight, minlength=n_cells).astype(np.float64)
    return cell, typical, mass


def first_pair(now: Situation, item: int) -> PairQuestion | None:
    """The item and another one, while nothing is known at all."""
    pool = now.snapshot.pool[now.is_open(now.snapshot.pool)]
    others = pool[pool != item]
    queue = [row for row in now.snapshot.queue if row in set(others.tolist())]
    if not len(others):
        return None
    return PairQuestion(item, int(queue[0] if queue else now.random.choice(others)))

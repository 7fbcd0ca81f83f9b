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

from spherepair.asking.questions import (
    DIFFERENT,
    MOST_EXEMPLARS,
    MOST_ITEMS,
    NONE,
    Answer,
    ChoiceQuestion,
    GroupQuestion,
    PairQuestion,
    Question,
)
from spherepair.asking.situation import Floats, Rows, Situation, Snapshot
from spherepair.clustering.assigners import kmeans, unit_rows

#: Items that do not belong on a group card: so many of them are placed right after it.
ODD_ITEMS_PLACED = 2
#: One answer in so many is asked a second time, to measure how reliable it was; more once some was wrong.
CHECK_EVERY, DOUBTFUL_EVERY = 25, 8
#: A group of one row is asked about again after so many answers, where some answer was wrong.
YOUNG_ANSWERS = 10
#: Groups that so many answers at most keep apart are looked at again, the most alike pairs first.
FEW_ANSWERS, CLOSEST_GROUPS = 2, 40
#: Items of a group card that are drawn at random, to estimate how often the model is right.
RANDOM_ITEMS = 2
#: Rows among which a strategy that has run out of prepared items looks for more, and how many it finds.
QUICK_ROWS, QUICK_ITEMS = 2000, 20
#: Rows of a group among which a group card looks for typical ones, and its steps of k-means: somebody waits.
CARD_ROWS, CARD_STEPS = 500, 4
#: Share of an item's weight that grows with how unsure it is; it is reached when every group has so many
#: rows placed. While few are, typical rows teach more.
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
    As soon as a model knows the groups, group cards alternate with them: eight items that the model puts
    into one group, spread over what it is least sure of. What does not belong is placed next, which is how
    groups that nobody has met yet are found.

    Parameters
    ----------
    checks : bool, default=True
        Whether one answer in 25 is asked again.
    """

    def __init__(self, *, checks: bool = True) -> None:
        self.checks = checks

    def propose(self, now: Situation) -> Question | None:
        """Finish the item at hand, place what did not belong, then alternate between both kinds of card."""
        item = unfinished_item(now)
        if item is not None:
            return _choice(now, item)
        item = _odd_item(now)
        if item is not None:
            return _second_look(now, item) if now.is_doubtful else _choice(now, item)
        if self.checks and (check := _check(now)) is not None:
            return check
        if now.snapshot.is_fitted and not _last_was_group(now.answers):
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
            question = _choice(now, int(item))
            if question is not None:
                return question
        return None

    def _more_items(self, now: Situation) -> Sequence[int]:
        """Quickly, from a part of the pool: the prepared items are used up."""
        return self._search(open_part(now), now.random)

    def _search(self, part: Snapshot, random: np.random.Generator) -> Sequence[int]:
        return self.prepare(part, np.empty(0, dtype=np.int64), QUICK_ITEMS, random) if len(part.pool) else []

    def _group_card(self, now: Situation) -> Question | None:
        """For the group with the most doubt, fewer cards so far first."""
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


def _check(now: Situation) -> Question | None:
    """Every so often a second look: at groups that may be one, at an earlier answer, at groups of one row."""
    every = DOUBTFUL_EVERY if now.is_doubtful else CHECK_EVERY
    checks = [place for place, answer in enumerate(now.answers, start=1) if answer.question.is_check]
    if len(now.answers) - (checks[-1] if checks else 0) < every - 1:
        return None
    single = _single_row(now) if now.is_doubtful else None
    if single is not None:
        return _second_look(now, single)
    return (_same_groups(now) if len(checks) % 3 != 2 else None) or _suspect(now) or _earlier_answer(now)


def _suspect(now: Situation) -> Question | None:
    """The most suspicious answer not asked again yet: its item beside that row, its own and other groups."""
    looked_at = {row for a in now.answers if a.question.is_check for row in a.question.subjects}
    item, other = next((pair for pair in now.suspects if pair[0] not in looked_at), (None, None))
    if item is None or other is None:
        return None
    shown = {now.groups.root(other): other}
    own = [row for row in now.groups.members(item) if row != item]
    if own:
        shown.setdefault(now.groups.root(item), own[0])
    roots = [root for root in now.groups.roots if root != now.groups.root(item)]
    for place in np.argsort(-now.likeness(item, roots), kind="stable"):
        shown.setdefault(roots[place], now.exemplar(roots[place]))
    chosen = list(shown.values())[:MOST_EXEMPLARS]
    return ChoiceQuestion(item, tuple(int(row) for row in now.random.permutation(chosen)), is_check=True)


def _earlier_answer(now: Situation) -> Question | None:
    earlier = [
        a
        for a in now.answers
        if isinstance(a.question, ChoiceQuestion) and a.links and a.reply != NONE and not a.question.is_check
    ]
    if not earlier:
        return None
    question = earlier[int(now.random.integers(len(earlier)))].question
    assert isinstance(question, ChoiceQuestion)
    shown = now.random.permutation(question.exemplars)
    return ChoiceQuestion(question.item, tuple(int(e) for e in shown), is_check=True)


def _same_groups(now: Situation) -> Question | None:
    """The two groups most alike among those that little keeps apart: a wrong "none" makes two out of one.

    Models are told that the groups differ, so likeness is that of the rows as they are.
    """
    rows, numbers = now.groups.placed()
    roots = now.groups.roots
    if now.plain_vectors is None or len(roots) < 2:
        return None
    one_hot = (numbers == np.arange(len(roots))[:, None]).astype(np.float32)
    means = unit_rows(one_hot @ now.plain_vectors(rows))
    left, right = np.triu_indices(len(roots), k=1)
    asked = {frozenset(map(now.groups.root, a.question.rows)) for a in now.answers if _is_pair_check(a)}
    support = now.settled.support()
    for place in np.argsort(-(means @ means.T)[left, right], kind="stable")[:CLOSEST_GROUPS]:
        pair = roots[left[place]], roots[right[place]]
        if frozenset(pair) not in asked and support[frozenset(pair)] <= FEW_ANSWERS:
            return PairQuestion(now.exemplar(pair[0]), now.exemplar(pair[1]), is_check=True)
    return None


def _is_pair_check(answer: Answer) -> bool:
    asked = answer.question
    return isinstance(asked, PairQuestion) and asked.is_check and answer.reply == DIFFERENT


def _single_row(now: Situation) -> int | None:
    """The oldest group of one row that has not been looked at again, and is not quite new."""
    looked_at = {
        a.question.item for a in now.answers if isinstance(a.question, ChoiceQuestion) and a.question.is_check
    }
    young = {row for answer in now.answers[-YOUNG_ANSWERS:] for row in answer.question.subjects}
    for root in now.groups.roots:
        if len(now.groups.members(root)) == 1 and root not in looked_at | young:
            return root
    return None


def _second_look(now: Situation, item: int) -> Question | None:
    """A check: the item beside all groups, those that it was said not to belong to included."""
    roots = [root for root in now.groups.roots if root != now.groups.root(item)]
    order = np.argsort(-now.likeness(item, roots), kind="stable")[:MOST_EXEMPLARS]
    shown = tuple(now.exemplar(roots[place]) for place in order)
    return ChoiceQuestion(item, shown, is_check=True) if shown else None


def _last_was_group(answers: Sequence[Answer]) -> bool:
    """Whether the last card that was not the follow-up of another was a group card."""
    if not answers:
        return False
    followed: set[int] = set()
    for answer in reversed(answers):
        question = answer.question
        if isinstance(question, GroupQuestion):
            odd = answer.reply if isinstance(answer.reply, tuple) else ()
            return followed <= set(odd)
        if isinstance(question, ChoiceQuestion) and not question.is_check:
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

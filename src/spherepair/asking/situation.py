"""Where an interview stands: what questions are chosen from, and what it is worth to go on.

Questions are chosen from a sample of rows as the latest model sees them, and from what is known.
Accuracy is estimated from items that were drawn at random and predicted beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spherepair.asking.groups import Check, Groups, Settled
from spherepair.asking.questions import (
    DIFFERENT,
    SAME,
    Answer,
    ChoiceQuestion,
    Gesture,
    GroupQuestion,
    PairQuestion,
    Question,
    Reply,
)
from spherepair.clustering.assigners import unit_rows

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

#: Rows among which questions are chosen; of larger tables a sample.
POOL_ROWS = 20_000
#: Rounds in which the centers of the groups move to the rows nearest to them.
CENTER_ROUNDS = 10


@dataclass(frozen=True)
class Snapshot:
    """A sample of rows in the embedding of the latest model.

    Parameters
    ----------
    pool : ndarray of shape (m,)
        Positions of the rows, in order; every row of an answer is among them.
    embedding : ndarray of shape (m, D)
        Unit vectors.
    roots : tuple of int
        One row of each group that was known when the model was fitted.
    centers : ndarray of shape (G, D)
        Unit vectors of these groups.
    queue : tuple of int
        Items worth placing, the most valuable first.
    is_fitted : bool
        Whether a model has learned from answers; if not, ``embedding`` is what the rows are without any.
    """

    pool: Rows
    embedding: Floats
    roots: tuple[int, ...] = ()
    centers: Floats | None = None
    queue: tuple[int, ...] = ()
    is_fitted: bool = False

    @cached_property
    def similarity(self) -> Floats:
        """Cosine of the pool's rows and the centers, (m, G)."""
        if self.centers is None:
            return np.zeros((len(self.pool), 0), dtype=np.float32)
        found: Floats = self.embedding @ self.centers.T
        return found

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Nearest center of each row of the pool."""
        found: NDArray[np.int64] = self.similarity.argmax(axis=1)
        return found

    @cached_property
    def probabilities(self) -> Floats:
        """Probability of each group for each row, (m, G): Gaussians of one width around the centers."""
        assert self.centers is not None
        offsets = self.embedding - self.centers[self.labels]
        precision = 1.0 / max(float(np.square(offsets).mean()), 1e-6)
        scores = precision * (self.similarity - self.similarity.max(axis=1, keepdims=True))
        weights = np.exp(scores)
        found: Floats = weights / weights.sum(axis=1, keepdims=True)
        return found

    @cached_property
    def margin(self) -> Floats:
        """Difference of the two largest probabilities of a row, (m,); zero before there is a model."""
        if self.similarity.shape[1] < 2:
            return np.zeros(len(self.pool), dtype=np.float32)
        best = np.partition(self.probabilities, -2, axis=1)
        found: Floats = best[:, -1] - best[:, -2]
        return found

    def places(self, rows: Sequence[int] | Rows) -> NDArray[np.intp]:
        """Where rows of the pool stand in it."""
        return np.searchsorted(self.pool, rows)

    def lacks(self, rows: Sequence[int]) -> bool:
        """Whether some of these rows are not in the pool."""
        places = np.minimum(self.places(rows), len(self.pool) - 1)
        return not np.array_equal(self.pool[places], rows)

    def vectors(self, rows: Sequence[int] | Rows) -> Floats:
        """Embeddings of rows of the pool."""
        found: Floats = self.embedding[self.places(rows)]
        return found


@dataclass(frozen=True)
class Situation:
    """All that a strategy may look at when it chooses the next question.

    Parameters
    ----------
    snapshot : Snapshot
    groups : Groups
    answers : sequence of Answer
        Of the person who is asked.
    passed : frozenset of int
        Rows that are not to be asked about: unsure, skipped, or before somebody else.
    random : Generator
    settled : Settled
        What stands of the answers of all.
    plain_vectors : callable, optional
        Rows to unit vectors that no answer has changed.
    suspects : tuple of (left, right)
        Pairs about which an answer is more likely wrong than right, the most suspicious first.
    """

    snapshot: Snapshot
    groups: Groups
    answers: Sequence[Answer]
    passed: frozenset[int]
    random: np.random.Generator
    settled: Settled = field(default_factory=lambda: Settled(()))
    plain_vectors: Callable[[Rows], Floats] | None = None
    suspects: tuple[tuple[int, int], ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """Whether some answer is known to be wrong."""
        return self.settled.is_doubtful

    def is_open(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether rows are neither in a group nor set aside as unsure or skipped."""
        return np.asarray(self._open_rows[np.minimum(rows, len(self._open_rows) - 1)], dtype=np.bool_)

    @cached_property
    def _open_rows(self) -> NDArray[np.bool_]:
        """By row; the last entry is that of all further rows. Far faster than to look for each in a set."""
        closed = np.append(self.groups.placed()[0], np.fromiter(self.passed, np.int64, len(self.passed)))
        is_open = np.ones(2 + int(closed.max(initial=0)), dtype=bool)
        is_open[closed] = False
        return is_open

    def undecided_groups(self, item: int) -> list[int]:
        """Roots of the groups that ``item`` may still belong to, the most likely first."""
        known = self.groups.differing(item)
        roots = [root for root in self.groups.roots if root not in known and root != self.groups.root(item)]
        likeness = self.likeness(item, roots)
        return [roots[place] for place in np.argsort(-likeness, kind="stable")]

    def likeness(self, item: int, roots: Sequence[int]) -> Floats:
        """How near an item is to groups: to their center, or to a member before a model knows them."""
        snapshot, vector = self.snapshot, self.snapshot.vectors([item])[0]
        center_of = {self.groups.root(root): place for place, root in enumerate(snapshot.roots)}
        found = np.zeros(len(roots), dtype=np.float32)
        for place, root in enumerate(roots):
            if root in center_of and snapshot.centers is not None:
                found[place] = snapshot.centers[center_of[root]] @ vector
            else:
                found[place] = (snapshot.vectors(self.groups.members(root)) @ vector).max()
        return found

    def exemplar(self, root: int) -> int:
        """The member that is most typical of a group."""
        members = self.groups.members(root)
        vectors = self.snapshot.vectors(members)
        return members[int((vectors @ vectors.mean(axis=0)).argmax())]


def draw_pool(n_rows: int, named: Iterable[int], *, seed: int) -> Rows:
    """Positions of all rows, or of a sample that holds every row that an answer names, and as many others."""
    known = np.fromiter(named, dtype=np.int64)
    n_drawn = min(n_rows, POOL_ROWS + 2 * len(known) // POOL_ROWS * POOL_ROWS)  # the same for few answers
    return np.union1d(known, np.random.default_rng(seed).choice(n_rows, n_drawn, replace=False))


def view_of(snapshot: Snapshot, groups: Groups) -> Snapshot:
    """The same rows with the centers of the groups, where there are two or more."""
    if len(groups) < 2:
        return snapshot
    rows, numbers = groups.placed()
    centers = group_centers(snapshot.embedding, snapshot.places(rows), numbers)
    return replace(snapshot, roots=tuple(groups.roots), centers=centers, is_fitted=True)


def predict_answer(question: Question | Gesture, snapshot: Snapshot, groups: Groups) -> Reply | None:
    """What the model of the snapshot would answer to a choice or a pair; ``None`` where it cannot tell."""
    if not snapshot.is_fitted or question.is_check:
        return None
    if isinstance(question, PairQuestion):
        left, right = snapshot.labels[snapshot.places(question.rows)]
        return SAME if left == right else DIFFERENT
    if isinstance(question, ChoiceQuestion) and not groups.differing(question.item):
        return question.exemplars[0]
    return None  # a group card is a prediction itself; a further card for the same item has none


def group_centers(vectors: Floats, places: NDArray[np.intp], numbers: NDArray[np.int64]) -> Floats:
    """Centers (G, D) that start at the known members and move to the rows nearest to them.

    Parameters
    ----------
    vectors : ndarray of shape (m, D)
        Unit vectors of the pool.
    places : ndarray of shape (k,)
        Where the known members stand in the pool; they never change their group.
    numbers : ndarray of shape (k,)
        Their groups, 0 to G - 1.
    """
    centers = _means(vectors[places], numbers, int(numbers.max()) + 1)
    for _ in range(CENTER_ROUNDS):
        nearest = (vectors @ centers.T).argmax(axis=1)
        nearest[places] = numbers
        centers = _means(vectors, nearest, len(centers))
    return centers


def _means(vectors: Floats, numbers: NDArray[np.int64], n_groups: int) -> Floats:
    one_hot = np.zeros((len(vectors), n_groups), dtype=np.float32)
    one_hot[np.arange(len(vectors)), numbers] = 1.0
    return unit_rows((one_hot.T @ vectors) / np.maximum(one_hot.sum(axis=0)[:, None], 1.0))


#: Random items, or pairs, that the estimate looks back on, and how many it needs.
RECENT_PREDICTIONS, FEWEST_PREDICTIONS = 80, 12
#: An estimate for one group counts the mean of all groups as so many items of its own.
PRIOR_ITEMS = 2.0
#: Going on is worth it while the next ten minutes are expected to gain as much as this share of the rows.
WORTHWHILE_GAIN = 0.005
MINUTES_AHEAD = 10.0
#: Placed items without a new group after which all are taken to be found, for each group there is.
QUIET_ITEMS_PER_GROUP = 3


@dataclass(frozen=True)
class InterviewState:
    """Where an interview stands.

    Attributes
    ----------
    answers : int
    minutes : float
    groups : int
        Groups found: a lower bound that the answers prove.
    rows_placed : int
        Rows whose group is known.
    answers_since_new_group : int
    chance_of_new_group : float
        That the next item belongs to a group nobody has met yet (Good and Turing's estimate).
    accuracy : float or None
        Share of all rows that the model is expected to have right; ``None`` before it can be told.
    gain : float or None
        By how much the next ten minutes are expected to raise it.
    worth_going_on : bool
    reliability : dict
        Share of second answers in which each person says the same as before.
    contradictions : int
    """

    answers: int
    minutes: float
    groups: int
    rows_placed: int
    answers_since_new_group: int
    chance_of_new_group: float
    accuracy: float | None
    gain: float | None
    worth_going_on: bool
    reliability: dict[str, float]
    contradictions: int

    def __str__(self) -> str:
        parts = [f"{self.answers} answers, {self.minutes:.0f} min, {self.groups} groups"]
        if self.answers_since_new_group:
            parts.append(f"no new group in the last {self.answers_since_new_group} answers")
        if self.accuracy is not None:
            parts.append(f"about {self.accuracy:.0%} of the rows right")
        if self.gain is not None:
            parts.append(f"ten more minutes: about {100 * self.gain:+.1f} points")
        parts.append("worth going on" if self.worth_going_on else "enough for now")
        return "; ".join(parts)


def describe(
    answers: Sequence[Answer], settled: Settled, snapshot: Snapshot, history: Sequence[tuple[int, float]]
) -> InterviewState:
    """The state of an interview from its answers, its latest model and the accuracies at earlier ones."""
    groups = settled.groups
    minutes = sum(answer.seconds for answer in answers) / 60
    rows, numbers = groups.placed()
    accuracy = expected_accuracy(answers, groups, snapshot)
    gain = expected_gain(history, len(answers), minutes)
    quiet = _answers_since_new_group(answers, groups)
    chance = chance_of_new_group(numbers)
    may_have_more = quiet < QUIET_ITEMS_PER_GROUP * max(2, len(groups))
    return InterviewState(
        answers=len(answers),
        minutes=minutes,
        groups=len(groups),
        rows_placed=len(rows),
        answers_since_new_group=quiet,
        chance_of_new_group=chance,
        accuracy=accuracy,
        gain=gain,
        worth_going_on=gain is None or gain >= WORTHWHILE_GAIN or may_have_more,
        reliability=_reliability(settled.checks),
        contradictions=len(groups.contradictions),
    )


def expected_accuracy(answers: Sequence[Answer], groups: Groups, snapshot: Snapshot) -> float | None:
    """Share of all rows that the model is expected to have right.

    Group cards hold items drawn at random from what the model puts into the group. How many of them belong
    is averaged over the groups, each with its share of the rows. Where only pairs are asked, it is the share
    of pairs that the model had predicted.
    """
    if not snapshot.is_fitted:
        return None
    number = {groups.root(root): place for place, root in enumerate(snapshot.roots)}
    told = [(number.get(groups.root(row), -1), is_right) for a in answers for row, is_right in _audits(a)]
    told = [(place, is_right) for place, is_right in told if place >= 0][-RECENT_PREDICTIONS:]
    if len(told) < FEWEST_PREDICTIONS:
        return _share_of_pairs(answers)
    place, is_right = (np.array(column) for column in zip(*told, strict=True))
    n_groups = len(snapshot.roots)
    asked = np.bincount(place, minlength=n_groups)
    right = np.bincount(place, weights=is_right, minlength=n_groups)
    share = np.bincount(snapshot.labels, minlength=n_groups) / len(snapshot.labels)
    mean = (share * right / np.maximum(asked, 1)).sum() / max(share[asked > 0].sum(), 1e-12)
    return float((share * (right + PRIOR_ITEMS * mean) / (asked + PRIOR_ITEMS)).sum())


def expected_gain(history: Sequence[tuple[int, float]], n_answers: int, minutes: float) -> float | None:
    """What the next ten minutes add, if accuracy goes on to grow with the logarithm of the answers."""
    if len(history) < 3 or not n_answers or minutes <= 0:
        return None
    counts, accuracies = (np.array(column, dtype=np.float64) for column in zip(*history[-5:], strict=True))
    slope = np.polyfit(np.log(counts), accuracies, 1)[0]
    further = MINUTES_AHEAD * n_answers / minutes
    return float(max(0.0, slope) * np.log1p(further / n_answers))


def _audits(answer: Answer) -> list[tuple[int, bool]]:
    """The known member of a group card, and whether each of its random items belonged with it."""
    question = answer.question
    if not isinstance(question, GroupQuestion) or not answer.links or not question.n_random:
        return []
    odd = answer.reply if isinstance(answer.reply, tuple) else ()
    return [(question.items[0], item not in odd) for item in question.items[-question.n_random :]]


def _share_of_pairs(answers: Sequence[Answer]) -> float | None:
    told = [a.reply == a.predicted for a in answers if a.question.kind == "pair" and a.predicted and a.links]
    told = told[-RECENT_PREDICTIONS:]
    return sum(told) / len(told) if len(told) >= FEWEST_PREDICTIONS else None


def _answers_since_new_group(answers: Sequence[Answer], groups: Groups) -> int:
    """How many answers came after the one that first named a row of the youngest group."""
    missing = set(range(len(groups)))
    for place, answer in enumerate(answers):
        missing.difference_update(groups.group_of(row) for row in answer.question.rows)
        if not missing:
            return len(answers) - 1 - place
    return len(answers)


def chance_of_new_group(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Share of the placed rows that are alone in their group: Good and Turing's estimate."""
    sizes = Counter(numbers.tolist())
    return sum(size == 1 for size in sizes.values()) / max(1, len(numbers))


def _reliability(checks: Sequence[Check]) -> dict[str, float]:
    """Share of the checks in which each person says the same as before."""
    agreed: dict[str, list[bool]] = {}
    for check in checks:
        if check.is_own:
            agreed.setdefault(check.by, []).append(check.agrees)
    return {person: sum(votes) / len(votes) for person, votes in agreed.items()}

"""Where an interview stands, and what it is worth to go on.

Accuracy is estimated from answers that the model had predicted beforehand: how often it was right at a
given margin, averaged over the margins of all rows. Items are chosen, not drawn at random; conditioning on
the margin takes that into account as far as the margin tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from spherepair.asking.groups import Groups
from spherepair.asking.questions import Answer, ChoiceQuestion, GroupQuestion
from spherepair.asking.situation import Snapshot

#: Predictions that the estimate looks back on, and how many it needs.
RECENT_PREDICTIONS, FEWEST_PREDICTIONS = 100, 20
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
        Share of checks that each person answered as before.
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
    answers: Sequence[Answer], groups: Groups, snapshot: Snapshot, history: Sequence[tuple[int, float]]
) -> InterviewState:
    """The state of an interview from its answers, its latest model and the accuracies at earlier ones."""
    minutes = sum(answer.seconds for answer in answers) / 60
    rows, numbers = groups.placed()
    accuracy = expected_accuracy(answers, snapshot)
    gain = expected_gain(history, len(answers), minutes)
    quiet = _answers_since_new_group(answers, groups)
    chance = _chance_of_new_group(numbers)
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
        reliability=_reliability(answers),
        contradictions=len(groups.contradictions),
    )


def expected_accuracy(answers: Sequence[Answer], snapshot: Snapshot) -> float | None:
    """Share of all rows that the model is expected to have right."""
    table = [pair for answer in answers for pair in _predictions(answer)][-RECENT_PREDICTIONS:]
    if len(table) < FEWEST_PREDICTIONS or not snapshot.is_fitted:
        return None
    margins, is_right = (np.array(column) for column in zip(*table, strict=True))
    if is_right.all() or not is_right.any():
        return float((is_right.sum() + 1) / (len(is_right) + 2))
    curve = LogisticRegression().fit(margins[:, None], is_right)
    return float(curve.predict_proba(snapshot.margin[:, None])[:, 1].mean())


def expected_gain(history: Sequence[tuple[int, float]], n_answers: int, minutes: float) -> float | None:
    """What the next ten minutes add, if accuracy goes on to grow with the logarithm of the answers."""
    if len(history) < 3 or not n_answers or minutes <= 0:
        return None
    counts, accuracies = (np.array(column, dtype=np.float64) for column in zip(*history[-5:], strict=True))
    slope = np.polyfit(np.log(counts), accuracies, 1)[0]
    further = MINUTES_AHEAD * n_answers / minutes
    return float(max(0.0, slope) * np.log1p(further / n_answers))


def _predictions(answer: Answer) -> list[tuple[float, bool]]:
    """Margins of the model before the answer, and whether it was right."""
    question = answer.question
    if not answer.margins or not answer.links:
        return []
    if isinstance(question, ChoiceQuestion):
        return [(answer.margins[0], answer.reply == answer.predicted)]
    if isinstance(question, GroupQuestion):
        odd = answer.reply if isinstance(answer.reply, tuple) else ()
        return [
            (margin, item not in odd) for item, margin in zip(question.items[1:], answer.margins, strict=True)
        ]
    return []


def _answers_since_new_group(answers: Sequence[Answer], groups: Groups) -> int:
    """How many answers came after the one that first named a row of the youngest group."""
    first: dict[int, int] = {}
    for place, answer in enumerate(answers):
        for row in answer.question.rows:
            number = groups.group_of(row)
            if number is not None:
                first.setdefault(number, place)
    return len(answers) - 1 - max(first.values()) if first else len(answers)


def _chance_of_new_group(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Share of the placed rows that are alone in their group."""
    sizes = Counter(numbers.tolist())
    return sum(size == 1 for size in sizes.values()) / max(1, len(numbers))


def _reliability(answers: Sequence[Answer]) -> dict[str, float]:
    """Share of the checks that agree with the first answer, by person."""
    said: dict[int, set[int]] = {}
    agreed: dict[str, list[bool]] = {}
    for answer in answers:
        question = answer.question
        if not isinstance(question, ChoiceQuestion) or not answer.links:
            continue
        if question.is_check:
            agreed.setdefault(answer.by, []).append(answer.reply in said.get(question.item, set()))
        elif isinstance(answer.reply, int):
            said.setdefault(question.item, set()).add(answer.reply)
    return {person: sum(votes) / len(votes) for person, votes in agreed.items()}

"""Second looks: how reliable answers are, and whether what they say still holds.

A check is a visible share of the questions. Once one of them shows a wrong answer there are more, at groups
that may be one and at rows that were said to belong nowhere: there a wrong answer does most harm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spherepair.asking.questions import (
    DIFFERENT,
    MOST_EXEMPLARS,
    NONE,
    Answer,
    ChoiceQuestion,
    PairQuestion,
    Question,
)
from spherepair.asking.situation import Situation
from spherepair.clustering.assigners import unit_rows

#: One answer in so many is asked a second time, to measure reliability; more often once one was wrong.
CHECK_EVERY, DOUBTFUL_EVERY = 25, 8
#: A group of one row is asked about again after so many answers, where some answer was wrong.
YOUNG_ANSWERS = 4
#: Two groups that at most so many answers keep apart are asked about again, the most similar ones first.
FEW_ANSWERS, CLOSEST_GROUPS = 2, 40


def next_check(now: Situation) -> Question | None:
    """Every so often a second look: at groups that may be one, at a suspicious or at any earlier answer.

    Where some answer was wrong, looks at single rows are many; they do not put off those at groups.
    """
    if now.is_doubtful and _answers_since(now, _is_pair_check) >= DOUBTFUL_EVERY - 1:
        pair = _same_groups(now)
        if pair is not None:
            return pair
    if not is_check_due(now):
        return None
    n_checks = sum(answer.question.is_check for answer in now.answers)
    return (_same_groups(now) if n_checks % 3 != 2 else None) or _suspect(now) or _earlier_answer(now)


def is_check_due(now: Situation) -> bool:
    """Whether no answer of late was asked for a second time."""
    every = DOUBTFUL_EVERY if now.is_doubtful else CHECK_EVERY
    return _answers_since(now, lambda answer: answer.question.is_check) >= every - 1


def second_look(now: Situation, item: int) -> Question | None:
    """A check: the item beside all groups, those that it was said not to belong to included."""
    roots = [root for root in now.groups.roots if root != now.groups.root(item)]
    order = np.argsort(-now.likeness(item, roots), kind="stable")[:MOST_EXEMPLARS]
    shown = tuple(now.exemplar(roots[place]) for place in order)
    return ChoiceQuestion(item, shown, is_check=True) if shown else None


def single_row(now: Situation) -> int | None:
    """The oldest group of one row that nobody has looked at again, and is not quite new."""
    looked_at = {
        a.question.item for a in now.answers if isinstance(a.question, ChoiceQuestion) and a.question.is_check
    }
    young = {row for answer in now.answers[-YOUNG_ANSWERS:] for row in answer.question.subjects}
    left_out = looked_at | young | now.settled.confirmed | now.passed
    single = (root for root in now.groups.roots if len(now.groups.members(root)) == 1)
    return next((root for root in single if root not in left_out), None)


def _answers_since(now: Situation, is_wanted: Callable[[Answer], bool]) -> int:
    """How many answers came after the last one of a kind."""
    latest = (n for n, answer in enumerate(reversed(now.answers)) if is_wanted(answer))
    return next(latest, len(now.answers))


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
    kept = (a for a in now.answers if _is_pair_check(a) and a.reply == DIFFERENT)
    asked = {frozenset(map(now.groups.root, a.question.rows)) for a in kept}
    support = now.settled.support()
    for place in np.argsort(-(means @ means.T)[left, right], kind="stable")[:CLOSEST_GROUPS]:
        pair = roots[left[place]], roots[right[place]]
        if frozenset(pair) not in asked and support[frozenset(pair)] <= FEW_ANSWERS:
            return PairQuestion(now.exemplar(pair[0]), now.exemplar(pair[1]), is_check=True)
    return None


def _is_pair_check(answer: Answer) -> bool:
    return isinstance(answer.question, PairQuestion) and answer.question.is_check

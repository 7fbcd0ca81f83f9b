"""Second looks: what is asked again once an answer is known to be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spherepair.asking.checks import DOUBTFUL_EVERY, YOUNG_ANSWERS, next_check, second_look, single_row
from spherepair.asking.groups import Settled
from spherepair.asking.questions import Answer, ChoiceQuestion, GroupQuestion, PairQuestion
from spherepair.asking.situation import Situation, Snapshot, view_of
from spherepair.asking.strategies import Cards
from spherepair.asking.training import TrainingTask

#: Rows 0 to 9 and 10 to 19 are two groups; 20 to 29 look like the first.
VECTORS = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0], [0.98, 0.199]], dtype=np.float32), 10, axis=0)
MANY = Snapshot(np.arange(30), VECTORS)
#: Two groups, and an answer that a check shows to be wrong.
BEGINNING: tuple[tuple[Any, Any], ...] = (
    (GroupQuestion((0, 1, 2, 3)), ()),
    (GroupQuestion((10, 11, 12)), ()),
    (ChoiceQuestion(5, (0, 10)), 10),
    (ChoiceQuestion(5, (0, 10), is_check=True), 0),
)


#: The same groups, two rows in each, without a wrong answer.
BOTH_GROUPS = [
    (PairQuestion(0, 1), "same"),
    (PairQuestion(10, 11), "same"),
    (PairQuestion(0, 10), "different"),
]


def situation(*more: tuple[Any, Any]) -> Situation:
    answers = [Answer(n, question, reply) for n, (question, reply) in enumerate((*BEGINNING, *more))]
    settled = Settled((), answers)
    return Situation(
        MANY,
        settled.groups,
        answers,
        frozenset(),
        np.random.default_rng(0),
        settled,
        lambda rows: VECTORS[rows],
    )


def placed(first: int, n: int) -> list[tuple[Any, Any]]:
    """Answers that place rows of the first group."""
    return [(ChoiceQuestion(first + step, (0, 10)), 0) for step in range(n)]


ALONE = (ChoiceQuestion(20, (0, 10)), "none")


def test_a_row_that_is_alone_is_looked_at_again_soon_where_answers_were_wrong() -> None:
    assert single_row(situation(ALONE)) is None  # quite new
    now = situation(ALONE, *placed(6, YOUNG_ANSWERS))
    assert single_row(now) == 20
    question = Cards().propose(now)
    assert isinstance(question, ChoiceQuestion)
    assert (question.item, question.is_check) == (20, True)
    assert set(map(now.groups.root, question.exemplars)) == set(now.groups.roots) - {20}
    again = situation(ALONE, *placed(6, YOUNG_ANSWERS), (question, "none"))
    assert single_row(again) is None
    assert single_row(situation(*placed(6, YOUNG_ANSWERS))) is None


def test_what_another_person_looked_at_or_has_before_them_is_not_looked_at_again() -> None:
    now = situation(ALONE, *placed(6, YOUNG_ANSWERS))
    assert single_row(replace(now, passed=frozenset({20}))) is None
    question = second_look(now, 20)
    later = situation(ALONE, *placed(6, YOUNG_ANSWERS), (question, "none"))
    assert single_row(replace(later, answers=now.answers)) is None
    unsure = situation(ALONE, *placed(6, YOUNG_ANSWERS), (question, "unsure"))
    assert single_row(unsure) is None


def test_a_row_that_is_alone_counts_for_the_number_of_clusters_once_it_was_looked_at() -> None:
    unsure = situation(ALONE, *placed(6, YOUNG_ANSWERS))
    question = second_look(unsure, 20)
    sure = situation(ALONE, *placed(6, YOUNG_ANSWERS), (question, "none"))
    wrong = situation(ALONE, *placed(6, YOUNG_ANSWERS), (question, 0))
    found = [
        TrainingTask.of(now.settled, n_answers=len(now.answers), seed=0) for now in (unsure, sure, wrong)
    ]
    assert [task.n_clusters for task in found] == [2, 3, 2]
    assert [20 in task.pairs.left.tolist() + task.pairs.right.tolist() for task in found] == [
        False,
        True,
        True,
    ]


def test_looks_at_single_rows_do_not_put_off_those_at_groups_that_may_be_one() -> None:
    twice = [(ChoiceQuestion(20, (0, 10)), "none"), (ChoiceQuestion(21, (20, 0, 10)), 20)]
    looks = [(ChoiceQuestion(6 + n, (0, 10), is_check=True), 0) for n in range(3)]
    now = situation(*twice, *placed(22, 0), *looks)
    question = next_check(now)
    assert isinstance(question, PairQuestion)
    assert {now.groups.root(row) for row in question.rows} == {now.groups.root(0), now.groups.root(20)}
    later = situation(*twice, *looks, (question, "different"), *placed(22, DOUBTFUL_EVERY - 2))
    assert not isinstance(next_check(later), PairQuestion)


def test_a_click_that_may_be_wrong_is_looked_at_beside_the_same_group() -> None:
    clicked = situation((GroupQuestion((0, 7, 8, 9)), (9,)))
    question = Cards().propose(clicked)
    assert isinstance(question, ChoiceQuestion)
    assert question.item == 9
    assert question.is_check
    assert 0 in {clicked.groups.root(row) for row in question.exemplars}


def test_one_group_card_follows_another_unless_groups_are_missing_or_answers_in_doubt() -> None:
    card = (GroupQuestion((0, 4, 6, 7)), ())
    clicked = (GroupQuestion((10, 12, 13, 20)), (20,))
    placing = (ChoiceQuestion(20, (0, 10)), 0)
    groups_then_one = [card, clicked, placing]
    for answers, is_doubtful, expected in (
        ([card], False, GroupQuestion),
        (groups_then_one, False, ChoiceQuestion),  # what was clicked away belongs to its card
        ([card, (ChoiceQuestion(21, (0, 10)), 0)], False, GroupQuestion),
        ([ALONE, card], False, GroupQuestion),
        (
            [ALONE, (ChoiceQuestion(21, (0, 10, 20)), "none"), card],
            False,
            ChoiceQuestion,
        ),  # two groups of one row
        ([card], True, ChoiceQuestion),
    ):
        now = situation(*answers)
        if not is_doubtful:
            sure = [*BOTH_GROUPS, *answers]
            told = [Answer(n, question, reply) for n, (question, reply) in enumerate(sure)]
            now = replace(now, answers=told, settled=Settled((), told), groups=Settled((), told).groups)
        now = replace(now, snapshot=replace(view_of(MANY, now.groups), queue=(25,)))
        assert now.is_doubtful is is_doubtful
        assert type(Cards(checks=False).propose(now)) is expected, answers


def test_what_does_not_belong_is_placed_while_groups_may_be_missing() -> None:
    clicked = (GroupQuestion((0, 4, 6, 27)), (27,))
    alone = [(ChoiceQuestion(20, (0, 10)), "none"), (ChoiceQuestion(21, (0, 10, 20)), "none")]
    for before, is_placed in (([], False), (alone, True)):
        told = [Answer(n, *said) for n, said in enumerate([*BOTH_GROUPS, *before, clicked])]
        settled = Settled((), told)
        now = replace(situation(), answers=told, settled=settled, groups=settled.groups)
        now = replace(now, snapshot=replace(view_of(MANY, now.groups), queue=(25,)))
        question = Cards(checks=False).propose(now)
        assert (isinstance(question, ChoiceQuestion) and question.item == 27) is is_placed

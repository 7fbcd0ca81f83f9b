from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.asking.conversation import answer_from_dict, question_from_dict
from spherepair.asking.questions import (
    Answer,
    ChoiceQuestion,
    GroupQuestion,
    PairQuestion,
    question_to_dict,
)
from spherepair.errors import InvalidAnswerError

QUESTIONS = [
    ChoiceQuestion(3, (1, 5, 9)),
    PairQuestion(4, 9),
    GroupQuestion((3, 8, 5, 7), is_check=True, n_random=2),
]


def test_a_choice_links_the_item_with_the_chosen_and_parts_it_from_the_others() -> None:
    assert set(ChoiceQuestion(3, (1, 5, 9)).links(5)) == {(3, 5, True), (3, 1, False), (3, 9, False)}


def test_none_of_these_parts_the_item_from_every_exemplar() -> None:
    assert ChoiceQuestion(3, (1, 5)).links("none") == ((3, 1, False), (3, 5, False))


def test_a_group_card_links_what_belongs_and_parts_what_does_not() -> None:
    assert GroupQuestion((3, 8, 5)).links([8]) == ((3, 8, False), (3, 5, True))
    assert GroupQuestion((3, 8, 5)).links("none") == ((3, 8, True), (3, 5, True))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("reply", ["unsure", "skip"])
def test_unsure_and_skip_link_nothing(question: object, reply: str) -> None:
    assert question.links(reply) == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (QUESTIONS[0], 7),
        (QUESTIONS[0], "same"),
        (QUESTIONS[1], "maybe"),
        (QUESTIONS[1], 4),
        (QUESTIONS[2], (4,)),
        (QUESTIONS[2], (3,)),
        (QUESTIONS[2], "different"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_what_would(question: object, reply: object) -> None:
    with pytest.raises(InvalidAnswerError, match="the answer must"):
        question.links(reply)  # type: ignore[attr-defined]


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_survive_json(question: object) -> None:
    assert question_from_dict(json.loads(json.dumps(question_to_dict(question)))) == question  # type: ignore[arg-type]


@given(
    by=st.text(max_size=8),
    seconds=st.integers(0, 1000),
    reply=st.sampled_from([5, "none", "unsure"]),
)
def test_answers_survive_json(by: str, seconds: int, reply: object) -> None:
    answer = Answer(
        7, QUESTIONS[0], reply, by=by, time="2026-01-01T00:00:00+00:00", seconds=seconds, predicted=1,  # type: ignore[arg-type]
    )  # fmt: skip
    assert answer_from_dict(json.loads(json.dumps(answer.to_dict()))) == answer


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"kind": "riddle"},
        {"kind": "pair", "left": -1, "right": 2},
        {"kind": "pair", "left": True, "right": 2},
        {"kind": "choice", "item": 1, "exemplars": 5},
        {"kind": "choice", "item": 1, "exemplars": ["a"]},
        {"kind": "group", "items": None},
    ],
)
def test_damaged_questions_are_refused(line: dict[str, object]) -> None:
    with pytest.raises(InvalidAnswerError):
        question_from_dict(line)

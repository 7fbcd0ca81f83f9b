"""People, gestures, checks, and what stands of what was said."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.asking.conftest import right_answers

from spherepair import Constraints, SpherePair
from spherepair.asking import ChoiceQuestion, Gesture, GroupQuestion, Interview, PairQuestion, Training
from spherepair.asking.groups import Settled
from spherepair.asking.questions import Answer
from spherepair.asking.situation import Snapshot, expected_accuracy
from spherepair.benchmark.interviews import SimulatedPerson
from spherepair.errors import InvalidAnswerError, RecordError


def test_a_card_stays_until_it_is_answered_and_others_get_another(blobs: Any) -> None:
    talk = Interview(blobs[0])
    anns, bobs = talk.next(by="ann"), talk.next(by="bob")
    assert anns is not None
    assert bobs is not None
    assert anns == talk.next(by="ann")
    assert not set(anns.subjects) & set(bobs.subjects)
    talk.answer(anns, "none", by="ann")
    assert talk.next(by="ann") != anns
    assert talk.next(by="bob") == bobs


def test_what_others_settle_is_not_asked_any_more(blobs: Any) -> None:
    talk = Interview(blobs[0])
    talk.ask(PairQuestion(0, 1), by="ann")
    talk.answer(Gesture("merge", ((0, 1, True),)), "done", by="bob")
    assert talk.next(by="ann") != PairQuestion(0, 1)


def test_a_question_is_answered_once(blobs: Any) -> None:
    talk = Interview(blobs[0])
    question = talk.ask(PairQuestion(np.int64(0), np.int64(1)))  # type: ignore[arg-type]
    talk.answer(question, "same")
    with pytest.raises(InvalidAnswerError, match="not asked, or it is answered"):
        talk.answer(question, "same")
    assert len(talk.answers) == 1


def test_undo_brings_the_card_back_to_its_person(blobs: Any) -> None:
    talk = Interview(blobs[0])
    talk.answer(talk.ask(PairQuestion(0, 1), by="ann"), "same", by="ann")
    talk.answer(talk.ask(PairQuestion(2, 3), by="bob"), "same", by="bob")
    gone = talk.undo(by="ann")
    assert gone is not None
    assert gone.question == PairQuestion(0, 1)
    assert talk.next(by="ann") == PairQuestion(0, 1)
    assert [answer.by for answer in talk.answers] == ["bob"]


def test_a_gesture_is_one_answer_and_survives_the_record(tmp_path: Path, blobs: Any) -> None:
    record = tmp_path / "a.jsonl"
    talk = Interview(blobs[0], record=record)
    talk.answer(Gesture("merge", ((0, 1, True), (1, 2, True))), "done", by="ann")
    talk.close()
    again = Interview(blobs[0], record=record)
    assert again.groups.relation(0, 2) is True
    assert again.constraints.by.tolist() == ["ann", "ann"]
    assert len(Constraints.read(record)) == 2
    again.undo()
    assert again.groups.relation(0, 2) is None
    again.close()


@pytest.mark.parametrize(("by", "seconds"), [(3, 1.0), ("ann", float("nan")), ("ann", -1.0), ("ann", True)])
def test_who_and_how_long_are_checked(blobs: Any, by: Any, seconds: Any) -> None:
    talk = Interview(blobs[0])
    with pytest.raises(InvalidAnswerError, match="nothing was written"):
        talk.answer(talk.ask(PairQuestion(0, 1)), "same", by=by, seconds=seconds)
    assert talk.answers == []


def said(*cards: tuple[Any, Any]) -> Settled:
    return Settled((), [Answer(number, question, reply) for number, (question, reply) in enumerate(cards)])


def test_a_check_overrules_what_was_said_of_its_item_alone() -> None:
    settled = said(
        (PairQuestion(1, 2), "different"),
        (ChoiceQuestion(9, (1, 2)), "none"),
        (ChoiceQuestion(8, (1, 2)), 1),
        (ChoiceQuestion(9, (2, 1), is_check=True), 2),
    )
    assert settled.groups.relation(9, 2) is True
    assert settled.groups.relation(8, 1) is True
    assert settled.groups.contradictions == []
    assert settled.checks == [("", False, True)]
    assert settled.is_doubtful


def test_a_check_that_agrees_changes_nothing() -> None:
    settled = said((ChoiceQuestion(9, (1, 2)), 1), (ChoiceQuestion(9, (2, 1), is_check=True), 1))
    assert settled.groups.relation(9, 1) is True
    assert settled.checks == [("", True, True)]
    assert not settled.is_doubtful


def test_a_person_is_reliable_who_says_the_same_as_before_and_not_as_others_say() -> None:
    first, check = ChoiceQuestion(9, (1, 2)), ChoiceQuestion(9, (2, 1), is_check=True)
    own, other = ChoiceQuestion(8, (1, 2)), ChoiceQuestion(8, (2, 1), is_check=True)
    said_by = [(first, 1, "ann"), (check, 2, "ben"), (own, 1, "ann"), (other, 2, "ann")]
    settled = Settled((), [Answer(n, q, reply, by=by) for n, (q, reply, by) in enumerate(said_by)])
    assert settled.checks == [("ben", False, False), ("ann", False, True)]


def test_reliability_is_of_checks_of_ones_own_answers(blobs: Any) -> None:
    talk = Interview(blobs[0])
    for question, reply, by in (
        (ChoiceQuestion(9, (1, 2)), 1, "ann"),
        (ChoiceQuestion(9, (2, 1), is_check=True), 2, "ben"),
        (ChoiceQuestion(8, (1, 2)), 1, "ann"),
        (ChoiceQuestion(8, (2, 1), is_check=True), 1, "ann"),
    ):
        talk.answer(talk.ask(question, by=by), reply, by=by)
    assert talk.state.reliability == {"ann": 1.0}


def test_groups_of_one_row_are_left_out_where_answers_were_wrong() -> None:
    settled = said(
        (GroupQuestion((0, 1, 2)), ()),
        (ChoiceQuestion(5, (0,)), "none"),
        (PairQuestion(5, 6), "same"),
        (ChoiceQuestion(9, (0, 5)), "none"),
    )
    assert len(settled.groups) == 3
    kept = settled.groups.without_single_rows()
    assert len(kept) == 2
    assert 9 not in kept.rows
    assert kept.relation(1, 6) is False


def test_the_estimate_is_the_share_of_random_items_that_belong() -> None:
    rng = np.random.default_rng(0)
    # Nine rows in ten are in the first group. Its random items always belong; of the others one in two does.
    centers = np.eye(2, dtype=np.float32)
    embedding = np.repeat(centers, [900, 100], axis=0)
    snapshot = Snapshot(np.arange(1000), embedding, (0, 950), centers, (), is_fitted=True)
    answers = [
        Answer(0, ChoiceQuestion(950, (0,)), "none"),
        *(
            Answer(
                1,
                GroupQuestion((0, *map(int, rng.choice(np.arange(1, 900), 3, replace=False))), n_random=2),
                (),
            )
            for _ in range(10)
        ),
    ]
    for _ in range(20):
        items = tuple(map(int, rng.choice(np.arange(951, 1000), 3, replace=False)))
        answers.append(Answer(2, GroupQuestion((950, *items), n_random=2), (items[1],)))
    groups = Settled((), answers[:1]).groups
    assert expected_accuracy(answers, groups, snapshot) == pytest.approx(0.95, abs=0.01)


def test_a_task_can_be_fitted_elsewhere(blobs: Any, quick_model: SpherePair) -> None:
    X, y = blobs
    talk, answer = Interview(X, model=quick_model, random_state=0), right_answers(y)
    for _ in range(20):
        question = talk.next(by="ann")
        assert question is not None
        talk.answer(question, answer(question), by="ann")
    task = pickle.loads(pickle.dumps(talk.training_task()))
    model = Training(X, quick_model, seed=0).fit(task)
    assert set(model.constraints_.by.tolist()) == {"ann", ""}  # stated, and what follows
    talk.adopt(model, task)
    assert talk.model is model
    assert not talk.is_refit_due


def test_saving_again_updates_and_opening_restores_settings(tmp_path: Path, blobs: Any) -> None:
    known = Constraints.from_pairs(must_link=[(0, 1)])
    talk = Interview(
        blobs[0], strategy="npu", constraints=known, random_state=7, record=tmp_path / "old.jsonl"
    )
    talk.answer(talk.ask(PairQuestion(4, 5)), "same")
    talk.save(tmp_path / "project")
    talk.save(tmp_path / "project")
    Interview(blobs[0], record=tmp_path / "old.jsonl").close()  # no longer held
    talk.close()
    with pytest.raises(RecordError, match="is closed"):
        talk.answer(talk.ask(PairQuestion(6, 7)), "same")
    again = Interview.open(tmp_path / "project")
    assert again.groups.relation(0, 1) is True
    assert again.groups.relation(4, 5) is True
    assert type(again.strategy).__name__ == "NPU"
    again.close()


def test_a_record_whose_last_end_of_line_is_gone_keeps_its_answer(tmp_path: Path, blobs: Any) -> None:
    path = tmp_path / "a.jsonl"
    with_two = Interview(blobs[0], record=path)
    for pair in ((0, 1), (2, 3)):
        with_two.answer(with_two.ask(PairQuestion(*pair)), "same")
    with_two.close()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert len(Constraints.read(path)) == 2
    again = Interview(blobs[0], record=path)
    again.answer(again.ask(PairQuestion(4, 5)), "same")
    again.close()
    assert len(Constraints.read(path)) == 3


def test_a_record_that_was_killed_in_its_first_line_begins_anew(tmp_path: Path, blobs: Any) -> None:
    path = tmp_path / "a.jsonl"
    Interview(blobs[0], record=path).close()
    path.write_bytes(path.read_bytes()[:25])
    talk = Interview(blobs[0], record=path)
    talk.answer(talk.ask(PairQuestion(0, 1)), "same")
    talk.close()
    assert len(Constraints.read(path)) == 1
    path.write_text("my notes, without an end of line")
    with pytest.raises(RecordError):
        Interview(blobs[0], record=path)
    assert path.read_text() == "my notes, without an end of line"


def test_two_groups_are_joined_when_called_the_same_as_often_as_different() -> None:
    split = [
        (GroupQuestion((0, 1, 2)), ()),
        (ChoiceQuestion(5, (0,)), "none"),  # wrong: makes two groups out of one
        (ChoiceQuestion(6, (5, 1)), 5),  # chosen though 1 was right as well
    ]
    settled = said(*split)
    assert settled.groups.relation(1, 6) is False
    assert settled.support()[frozenset((settled.groups.root(0), settled.groups.root(6)))] == 1
    settled = said(*split, (PairQuestion(2, 6, is_check=True), "same"))
    assert settled.groups.relation(1, 5) is True
    assert settled.groups.contradictions == []
    assert settled.is_doubtful


def test_one_wrong_check_does_not_join_what_several_answers_keep_apart() -> None:
    apart = [
        (GroupQuestion((0, 1, 2, 8)), (8,)),
        (ChoiceQuestion(8, (0,)), "none"),
        (PairQuestion(8, 1), "different"),
    ]
    check = (PairQuestion(8, 2, is_check=True), "same")
    settled = said(*apart, check)
    assert settled.groups.relation(8, 0) is False
    assert settled.is_doubtful
    assert said(*apart, check, check, check).groups.relation(8, 0) is True


def test_wrong_answers_make_few_groups_too_many(quick_model: SpherePair, blobs: Any) -> None:
    X, y = blobs
    talk = Interview(X, model=quick_model, random_state=0)
    talk.run(SimulatedPerson(y, 0.1, seed=2), max_answers=90)
    assert talk.state.reliability[""] < 1.0
    assert 6 <= talk.model.n_clusters_ <= 8


def test_the_model_of_a_project_comes_back_without_training(
    tmp_path: Path, quick_model: SpherePair, blobs: Any
) -> None:
    X, y = blobs
    talk = Interview(X, model=quick_model, random_state=0).run(right_answers(y), max_answers=25)
    talk.save(tmp_path / "project")
    talk.close()
    again = Interview.open(tmp_path / "project")
    np.testing.assert_array_equal(again.model.labels_, talk.model.labels_)
    assert not again.is_refit_due
    assert again.next() is not None
    again.close()

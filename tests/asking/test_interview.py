from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.asking.conftest import QUICK, right_answers

from spherepair import Constraints, SpherePair
from spherepair.asking import STRATEGIES, ChoiceQuestion, GroupQuestion, Interview, PairQuestion, checks
from spherepair.asking.situation import Situation
from spherepair.asking.training import TrainingTask
from spherepair.errors import InvalidAnswerError, InvalidDataError, RecordError
from spherepair.metrics import clustering_accuracy


@pytest.fixture(scope="module")
def finished(blobs: Any) -> Interview:
    """Sixty right answers about six blobs."""
    X, y = blobs
    return Interview(X, model=SpherePair(**QUICK), random_state=0).run(
        right_answers(y), max_answers=60, by="ann"
    )


def test_all_groups_are_found_without_being_told_how_many(finished: Interview, blobs: Any) -> None:
    assert finished.state.groups == 6
    assert finished.model.n_clusters_ == 6
    assert clustering_accuracy(blobs[1], finished.model.labels_) > 0.95


def test_rows_of_a_group_are_of_one_class(finished: Interview, blobs: Any) -> None:
    rows, numbers = finished.groups.placed()
    for number in range(len(finished.groups)):
        assert len(set(blobs[1][rows[numbers == number]])) == 1


def test_what_follows_is_never_asked(blobs: Any, quick_model: SpherePair) -> None:
    X, y = blobs
    talk = Interview(X, model=quick_model, random_state=1)
    answer = right_answers(y)
    for _ in range(60):
        question = talk.next()
        assert question is not None
        if not question.is_check:
            pairs = (
                [(question.item, e) for e in question.exemplars]
                if isinstance(question, ChoiceQuestion)
                else [(question.rows[0], row) for row in question.rows[1:]]
            )
            assert all(talk.groups.relation(a, b) is None for a, b in pairs)
        talk.answer(question, answer(question))
        if talk.is_refit_due:
            talk.refit()


def test_checks_are_few_and_visible(finished: Interview) -> None:
    checks = [answer for answer in finished.answers if answer.question.is_check]
    assert 1 <= len(checks) <= 3
    assert finished.state.reliability == {"ann": 1.0}


def test_pairs_carry_person_and_time(finished: Interview) -> None:
    pairs = finished.constraints
    assert set(pairs.by) == {"ann"}
    assert all(pairs.time)
    assert len(pairs.conflicts()) == 0


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_runs_and_places_rows_rightly(
    strategy: str, blobs: Any, quick_model: SpherePair
) -> None:
    X, y = blobs
    talk = Interview(X, model=quick_model, strategy=strategy).run(right_answers(y), max_answers=25)
    assert len(talk.answers) == 25
    assert talk.groups.contradictions == []
    pairs = talk.constraints
    assert ((y[pairs.left] == y[pairs.right]) == pairs.is_must_link).all()
    assert talk.model.n_clusters_ >= 2


def test_undo_without_limit_brings_back_the_first_question(blobs: Any) -> None:
    X, y = blobs
    talk = Interview(X, random_state=0)
    first = talk.next()
    answer = right_answers(y)
    for _ in range(8):
        question = talk.next()
        assert question is not None
        talk.answer(question, answer(question))
    taken_back = [talk.undo() for _ in range(8)]
    assert talk.undo() is None
    assert len(taken_back) == 8
    assert len(talk.constraints) == 0
    again = talk.next()
    assert isinstance(again, ChoiceQuestion)
    assert isinstance(first, ChoiceQuestion)
    assert again.item == first.item


def test_the_same_answers_give_the_same_questions(blobs: Any) -> None:
    X, y = blobs

    def asked() -> list[Any]:
        talk = Interview(X, random_state=5)
        answer, questions = right_answers(y), []
        for _ in range(12):
            question = talk.next()
            assert question is not None
            questions.append(question)
            talk.answer(question, answer(question))
        return questions

    assert asked() == asked()


def test_an_interview_goes_on_from_its_record(tmp_path: Path, blobs: Any) -> None:
    X, y = blobs
    path, answer = tmp_path / "answers.jsonl", right_answers(y)
    talk = Interview(X, record=path)
    for _ in range(10):
        question = talk.next()
        assert question is not None
        talk.answer(question, answer(question))
    talk.undo()
    expected, relation = talk.next(), talk.constraints
    talk.close()
    again = Interview(X, record=path)
    assert len(again.answers) == 9
    assert again.next() == expected
    assert len(again.constraints) == len(relation)
    again.close()
    assert len(Constraints.read(path)) == len(relation)


def test_answers_are_on_disk_before_the_next_question(tmp_path: Path, blobs: Any) -> None:
    X, _ = blobs
    talk = Interview(X, record=tmp_path / "a.jsonl")
    question = talk.next()
    assert isinstance(question, ChoiceQuestion)
    talk.answer(question, "none", by="bob", seconds=3.5)
    line = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[-1])
    assert (line["answer"], line["by"], line["seconds"], line["kind"]) == ("none", "bob", 3.5, "choice")
    assert line["links"] == [[question.item, question.exemplars[0], 0]]
    talk.close()


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (PairQuestion(0, 10_000), "same"),
        (PairQuestion(0, 1), "same"),  # never asked
        (PairQuestion(3, 3), "same"),
        (PairQuestion(0, 1), "perhaps"),
        (GroupQuestion((0, 1, 2)), (7,)),
        ("what?", "same"),
        (PairQuestion(0, 1), 2.5),
        (ChoiceQuestion(0, (1, 2)), True),
    ],
)
def test_an_impossible_answer_is_refused_and_nothing_is_written(
    tmp_path: Path, blobs: Any, question: Any, reply: Any
) -> None:
    talk = Interview(blobs[0], record=tmp_path / "a.jsonl")
    before = (tmp_path / "a.jsonl").read_bytes()
    with pytest.raises(InvalidAnswerError):
        talk.answer(question, reply)
    assert (tmp_path / "a.jsonl").read_bytes() == before
    assert talk.answers == []
    talk.close()


def test_a_contradiction_is_taken_and_shown_with_its_chain(blobs: Any) -> None:
    talk = Interview(blobs[0])
    for left, right, reply in [(0, 1, "same"), (1, 2, "same"), (0, 2, "different")]:
        talk.answer(talk.ask(PairQuestion(left, right)), reply)
    assert talk.state.contradictions == 1
    (conflict,) = talk.contradictions()
    assert {0, 1, 2} <= set(map(int, conflict.chain))
    talk.take_back(talk.answers[0].number)
    assert talk.state.contradictions == 0
    with pytest.raises(InvalidAnswerError, match="no answer number"):
        talk.take_back(99)


def test_unsure_and_skipped_items_are_not_asked_again(blobs: Any) -> None:
    talk = Interview(blobs[0])
    seen = set()
    for reply in ["unsure", "skip"] * 5:
        question = talk.next()
        assert isinstance(question, ChoiceQuestion)
        assert question.item not in seen
        seen.add(question.item)
        talk.answer(question, reply)
    assert len(talk.constraints) == 0


def test_a_pair_of_which_nobody_can_tell_is_half_a_pair(blobs: Any, tmp_path: Any) -> None:
    talk = Interview(blobs[0])
    talk.save(tmp_path / "talk")
    talk.answer(talk.ask(PairQuestion(3, 9)), "unsure", by="ann")
    talk.answer(talk.ask(PairQuestion(3, 4)), "same")
    assert talk.constraints.value.tolist() == [1.0, 0.5]
    assert not talk.groups.relation(3, 9)
    task = TrainingTask.of(talk._settled, n_answers=2, seed=0)
    assert task.pairs.value.min() == 0.5
    assert (3, 9) in task.pairs
    (record,) = (tmp_path / "talk").glob("*.jsonl")
    assert Constraints.read(record) == talk.constraints
    talk.answer(talk.ask(PairQuestion(4, 9)), "different")  # and so 3 and 9 differ
    assert TrainingTask.of(talk._settled, n_answers=3, seed=0).pairs.is_decided.all()
    talk.take_back(talk.answers[0].number)
    assert talk.constraints.is_decided.all()
    talk.close()


def test_nothing_is_asked_for_ever() -> None:
    talk = Interview(np.arange(6, dtype=np.float32).reshape(3, 2))
    for _ in range(10):
        question = talk.next()
        if question is None:
            break
        talk.answer(question, "unsure")
    assert talk.next() is None


def test_no_limit_of_zero_is_ignored(blobs: Any, quick_model: SpherePair) -> None:
    talk = Interview(blobs[0], model=quick_model).run(right_answers(blobs[1]), max_answers=0)
    assert talk.answers == []


def test_an_answer_taken_back_is_unlearned(blobs: Any, quick_model: SpherePair) -> None:
    X, y = blobs
    talk = Interview(X, model=quick_model).run(right_answers(y), max_answers=26)
    before = talk.model
    gone = talk.undo()
    assert gone is not None
    talk.answer(gone.question, "skip")
    assert talk.run(right_answers(y), max_answers=26).model is not before


def test_a_damaged_record_can_be_mended_and_opened_again(tmp_path: Path, blobs: Any) -> None:
    path = tmp_path / "a.jsonl"
    Interview(blobs[0], record=path).close()
    whole = path.read_text()
    path.write_text(whole + '{"event": "answer", "kind": "riddle"}\n')
    with pytest.raises(InvalidAnswerError, match="kind"):
        Interview(blobs[0], record=path)
    path.write_text(whole)
    Interview(blobs[0], record=path).close()


def test_there_is_always_something_to_ask_until_everything_is_known() -> None:
    X = np.arange(8, dtype=np.float32).reshape(4, 2)
    y = np.array([0, 0, 1, 1])
    talk, answer = Interview(X), right_answers(y)
    for _ in range(20):
        question = talk.next()
        if question is None:
            break
        talk.answer(question, answer(question))
    assert talk.next() is None
    assert all(talk.groups.relation(a, b) is not None for a in range(4) for b in range(4))


def test_a_project_is_saved_and_opened_without_the_rows(tmp_path: Path, blobs: Any) -> None:
    X, y = blobs
    talk, answer = Interview(X, items=[f"row {i}" for i in range(len(X))]), right_answers(y)
    for _ in range(5):
        question = talk.next()
        assert question is not None
        talk.answer(question, answer(question))
    talk.save(tmp_path / "project")
    talk.answer(talk.ask(PairQuestion(0, 1)), "unsure")  # goes to the project from now on
    talk.close()
    again = Interview.open(tmp_path / "project")
    assert len(again.answers) == 6
    assert again.items[3] == "row 3"
    again.close()
    with pytest.raises(RecordError, match="other rows"):
        Interview.open(tmp_path / "project", X + 1)
    with pytest.raises(RecordError, match="holds an interview already"):
        Interview(X).save(tmp_path / "project")


def test_a_fitted_model_can_be_asked_about(blobs: Any) -> None:
    X, y = blobs
    pairs = Constraints.from_labels(y, 60, random_state=0)
    model = SpherePair(6, hidden_dims=(16,), max_epochs=4, batch_size=32, random_state=0, progress=False)
    talk = Interview.of(model.fit(X, constraints=pairs), X)
    assert len(talk.constraints) == 60
    question = talk.next()
    assert question is not None
    talk.answer(question, right_answers(y)(question))
    assert len(talk.constraints) > 60


def test_answers_do_not_wait_for_training(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = blobs
    started, may_end = threading.Event(), threading.Event()

    def slow(self: Any, task: Any) -> Any:
        started.set()
        assert may_end.wait(30)
        return SpherePair(6, hidden_dims=(8,), max_epochs=1, progress=False).fit(X, constraints=task.pairs)

    monkeypatch.setattr("spherepair.asking.training.Training.fit", slow)
    talk, answer = Interview(X, background=True), right_answers(y)
    for _ in range(25):
        question = talk.next()
        assert question is not None
        talk.answer(question, answer(question))
    assert started.wait(30)
    slowest = 0.0
    for _ in range(10):
        before = time.perf_counter()
        question = talk.next()
        slowest = max(slowest, time.perf_counter() - before)
        assert question is not None
        talk.answer(question, answer(question))
    assert talk.model is None
    may_end.set()
    talk.wait()
    assert talk.model is not None
    assert slowest < 0.5


def test_what_went_wrong_in_the_background_is_raised(blobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, task: Any) -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr("spherepair.asking.training.Training.fit", broken)
    talk = Interview(blobs[0])
    talk.start_refit()
    with pytest.raises(RuntimeError, match="no luck"):
        talk.wait()


def test_sparse_rows_and_frames_work() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    dense = rng.random((60, 5))
    for X in (sparse.csr_matrix(dense), pandas.DataFrame(dense, columns=list("abcde"))):
        question = Interview(X).next()
        assert isinstance(question, ChoiceQuestion)


def test_the_table_is_checked_before_the_first_question(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="NaN"):
        Interview(np.array([[1.0, np.nan], [0.0, 1.0], [2.0, 3.0]]), record=tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()
    with pytest.raises(InvalidDataError, match="minimum of 2"):
        Interview(np.ones((1, 3)))
    with pytest.raises(InvalidDataError, match="give one for each"):
        Interview(np.ones((4, 3)), items=["a"])


def test_the_next_question_of_a_million_rows_is_there_at_once() -> None:
    X = np.random.default_rng(0).standard_normal((1_000_000, 4), dtype=np.float32)
    talk = Interview(X)
    took = []
    for _ in range(5):
        before = time.perf_counter()
        question = talk.next()
        took.append(time.perf_counter() - before)
        assert isinstance(question, ChoiceQuestion)
        talk.answer(question, "none")
    assert np.median(took) < 0.1


def test_the_state_is_one_readable_line(finished: Interview) -> None:
    line = str(finished.state)
    assert line.startswith("60 answers, ")
    assert "6 groups" in line
    assert finished.state.accuracy is not None
    assert finished.state.accuracy > 0.7


def test_given_questions_come_first_and_once(blobs: Any, tmp_path: Any) -> None:
    X, y = blobs
    given = [PairQuestion(0, 5), PairQuestion(7, 2)]
    talk = Interview(X, questions=given, record=tmp_path / "record.jsonl")
    assert talk.next(by="ann") == given[0]
    assert talk.next(by="bob") == given[1]
    talk.answer(given[0], "same" if y[0] == y[5] else "different", by="ann")
    assert talk.next(by="ann") not in given
    talk.close()
    again = Interview(X, questions=given, record=tmp_path / "record.jsonl")
    assert again.next() == given[1]
    again.close()


def test_a_table_larger_than_the_sample_is_not_used_up_with_it(
    blobs: Any, quick_model: SpherePair, monkeypatch: Any
) -> None:
    monkeypatch.setattr("spherepair.asking.situation.POOL_ROWS", 30)
    X, y = blobs
    talk = Interview(X, model=quick_model, random_state=0)
    talk.run(right_answers(y), max_answers=50)
    assert len(talk.answers) == 50
    assert len(talk.groups.rows) > 35


def test_wrong_answers_are_suspected_and_asked_again(finished: Interview, blobs: Any) -> None:
    X, y = blobs
    right = Constraints.from_labels(y, 80, random_state=0)
    wrong = np.zeros(80, bool)
    wrong[[3, 20, 41]] = True
    known = replace(right, is_must_link=right.is_must_link ^ wrong)
    talk = Interview(X, constraints=known)
    assert talk.suspects() == []  # before there is a model
    talk._take_over(finished.model, finished.groups, 0)
    found = {(one.left, one.right) for one in talk.suspects()}
    assert found == set(zip(known.left[wrong].tolist(), known.right[wrong].tolist(), strict=True))
    assert all(one.reason for one in talk.suspects())
    snapshot, asked = talk._snapshot, next(iter(talk.suspects()))
    pair = (asked.left, asked.right)
    now = Situation(snapshot, talk.groups, [], frozenset(), np.random.default_rng(0), suspects=(pair,))
    question = checks._suspect(now)
    assert question is not None
    assert question.is_check
    assert set(pair) <= set(question.rows)

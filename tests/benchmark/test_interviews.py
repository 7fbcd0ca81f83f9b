"""Interviews as runs: the simulated person, and what is measured at the marks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spherepair.asking import STRATEGIES, Answer, ChoiceQuestion, GroupQuestion, PairQuestion
from spherepair.benchmark import read_experiment, run_grid, runs, write_report
from spherepair.benchmark.interviews import SimulatedPerson, answers_to_all_classes
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import InterviewChoice, PairChoice, RunSpec, expand, select
from spherepair.errors import InvalidParameterError

Y = np.array([0, 0, 1, 1, 2, 2])
CHOICE = ChoiceQuestion(item=0, exemplars=(2, 1, 4))
NONE_FITS = ChoiceQuestion(item=0, exemplars=(2, 4))
GROUP = GroupQuestion(items=(0, 1, 2, 4))

ASKING = """
id = "ask"
title = "Tiny interviews"
paper = "nothing"
command = "spherepair bench run ask.toml --out results"
expected_time = "Seconds."
expected_result = "Numbers."
layout = "asking"
answers = [10, 20]
wrong_answers = [0.0, 0.1]
seeds = [0]

[[datasets]]
name = "digits"
label = "d"
classes = [0, 1, 2]
parameters = { hidden_dims = [16], max_epochs = 2, pretraining = "none", stopping = "fixed" }

[[methods]]
label = "ours"
estimator = "SpherePair"
strategy = "cards"

[[methods]]
label = "random"
estimator = "SpherePair"
strategy = "random"
"""


@pytest.fixture
def asking(tmp_path):
    """The document of four interviews of twenty answers."""
    path = tmp_path / "ask.toml"
    path.write_text(ASKING)
    return path


def test_person_without_errors_answers_from_the_classes():
    person = SimulatedPerson(Y)
    assert [person(CHOICE), person(NONE_FITS), person(GROUP)] == [1, "none", (2, 4)]
    assert [person(PairQuestion(0, 1)), person(PairQuestion(0, 2))] == ["same", "different"]


def test_person_who_is_always_wrong_never_gives_a_right_answer():
    person = SimulatedPerson(Y, 1.0)
    assert {person(CHOICE) for _ in range(50)} == {2, 4, "none"}
    assert {person(NONE_FITS) for _ in range(50)} == {2, 4}
    assert person(GROUP) == (1,)
    assert [person(PairQuestion(0, 1)), person(PairQuestion(0, 2))] == ["different", "same"]


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_share_of_wrong_answers_is_as_asked_for_every_kind(share):
    person = SimulatedPerson(Y, share)
    for question, right in ((CHOICE, 1), (PairQuestion(0, 1), "same")):
        wrong = np.mean([person(question) != right for _ in range(4000)])
        assert wrong == pytest.approx(share, abs=0.03)
    cards = [set(person(GROUP)) ^ {2, 4} for _ in range(4000)]
    assert np.mean([len(card) for card in cards]) / 3 == pytest.approx(share, abs=0.03)


def test_person_of_one_seed_gives_the_same_answers_again():
    first, again, other = (SimulatedPerson(Y, 0.5, seed=seed) for seed in (0, 0, 1))
    said = [first(CHOICE) for _ in range(30)]
    assert said == [again(CHOICE) for _ in range(30)]
    assert said != [other(CHOICE) for _ in range(30)]


def test_all_classes_are_met_when_the_last_has_a_group_of_its_own():
    questions = [PairQuestion(0, 1), PairQuestion(0, 2), PairQuestion(0, 4), PairQuestion(2, 4)]
    person = SimulatedPerson(Y)
    answers = [Answer(n, question, person(question)) for n, question in enumerate(questions)]
    assert answers_to_all_classes(answers, Y) == 4
    assert answers_to_all_classes(answers[:3], Y) is None


def test_interviews_run_once_and_are_reported(asking, tmp_path):
    out = tmp_path / "out"
    outcome = run_grid(read_experiment(asking), out)
    assert (outcome.n_done, outcome.failures) == (4, ())
    assert run_grid(read_experiment(asking), out).n_skipped == 4
    records = {run.title: ResultsFolder(out).record(run.spec.key) for run in expand(read_experiment(asking))}
    ours = records["d, ours, right answers, seed 0"]
    first, last = ours["marks"]
    assert [(m["mark"], m["answers"]) for m in (first, last)] == [(10, 10), (20, 20)]
    assert ours["scores"] == last["scores"]
    assert last["groups"] == last["classes_found"] == ours["n_classes"] == 3
    assert 2 <= ours["answers_to_all_classes"] <= 20
    random = records["d, random, right answers, seed 0"]["marks"]
    # Eight seconds a pair.
    assert [mark["minutes"] for mark in random] == pytest.approx([80 / 60, 160 / 60])
    assert last["minutes"] >= 20 * 12 / 60
    assert records["d, ours, 10 % wrong answers, seed 0"]["marks"] != ours["marks"]
    text = write_report(out).markdown.read_text()
    assert "**d, 3 classes, right answers: test ACC in percent**" in text
    assert "**d, 3 classes, 10 % wrong answers: test ACC in percent**" in text
    assert "| strategy | 10 answers | minutes | 20 answers | minutes |" in text
    assert (out / "figures" / "ask-d.svg").read_text().startswith("<?xml")


def test_shipped_experiment_asks_by_every_strategy_on_six_data_sets_and_digits():
    experiment = read_experiment("asking")
    assert {method.strategy for method in experiment.methods} == set(STRATEGIES)
    assert len(experiment.datasets) == 7
    assert len(experiment.datasets[5].classes) == 20
    assert (len(experiment.seeds), experiment.wrong_answers) == (5, (0.0, 0.1))
    assert len({run.spec.key for run in expand(experiment)}) == 7 * len(STRATEGIES) * 2 * 5


def test_key_of_an_interview_knows_its_strategy_marks_and_errors():
    choice = InterviewChoice("cards", (50,), 0.0)
    spec = RunSpec("digits", None, "SpherePair", {}, choice, seed=0)
    others = [
        replace(choice, strategy="random"),
        replace(choice, answers=(60,)),
        replace(choice, wrong_answers=0.1),
    ]
    assert len({spec.key, *(replace(spec, pairs=other).key for other in others)}) == 4


def test_other_way_to_ask_concerns_interviews_only(monkeypatch):
    asked = RunSpec("digits", None, "SpherePair", {}, InterviewChoice("cards", (50,)), seed=0)
    drawn = replace(asked, pairs=PairChoice(50))
    before = asked.key, drawn.key
    monkeypatch.setattr(runs, "ASKING_REVISION", -1)
    assert asked.key != before[0]
    assert drawn.key == before[1]


def test_part_with_one_share_of_wrong_answers(asking):
    part = expand(select(read_experiment(asking), wrong_answers=(0.1,)))
    assert {run.pairs for run in part} == {"10 % wrong answers"}
    with pytest.raises(InvalidParameterError, match=r"wrong_answers must be one of 0, 0\.1 in"):
        select(read_experiment(asking), wrong_answers=(0.2,))
    with pytest.raises(InvalidParameterError, match="this experiment has no pairs to choose from"):
        select(read_experiment(asking), pairs=(100,))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('layout = "asking"', 'layout = "comparison"', 'answers and layout = "asking" go together'),
        ("answers = [10, 20]", "", "pairs or imbalanced must name"),
        ("answers = [10, 20]", "answers = [20, 10]", "answers must rise"),
        ("answers = [10, 20]", "answers = [10]\npairs = [5]", "answers cannot stand beside pairs"),
        ("[0.0, 0.1]", "[1.5]", "wrong_answers of the experiment must be a list of shares from 0 to 1"),
        ('strategy = "cards"', 'strategy = "tarot"', "strategy must be one of cards, .*'tarot'"),
    ],
)
def test_interviews_that_cannot_be_held_are_refused(asking, old, new, message):
    asking.write_text(asking.read_text().replace(old, new, 1))
    with pytest.raises(InvalidParameterError, match=message):
        read_experiment(asking)

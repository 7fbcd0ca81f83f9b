"""Tables and curves of interviews, from records made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair.benchmark import read_experiment, write_report
from spherepair.benchmark.interview_results import complete_datasets, done_datasets, interview_figure
from spherepair.benchmark.paper_comparison import summarize
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.benchmark.runs import expand

TWO = """
id = "ask"
title = "Two strategies"
paper = "nothing"
command = "spherepair bench run ask.toml --out results"
expected_time = "None."
expected_result = "Numbers."
layout = "asking"
datasets = ["digits", "mnist", "cifar10"]
answers = [50, 100]
seeds = [0, 1]

[[methods]]
label = "cards"
estimator = "SpherePair"

[[methods]]
label = "random"
estimator = "SpherePair"
strategy = "random"
"""
#: Accuracy after 50 and 100 answers, and minutes for an answer.
KNOWN = {
    ("digits", "cards"): (80, 90, 0.2),
    ("digits", "random"): (40, 50, 0.1),
    ("mnist", "cards"): (90, 96, 0.2),
    ("mnist", "random"): (50, 60, 0.1),
    ("cifar10", "cards"): (70, 75, 0.2),
}


def mark(count, accuracy, minutes):
    scores = {"test": {"accuracy": accuracy / 100, "nmi": 0.5, "ari": 0.5}}
    return {"mark": count, "answers": count, "minutes": minutes, "groups": 10, "scores": scores}


@pytest.fixture
def results(tmp_path, save):
    """Two datasets in full; of the third only our strategy."""
    path = tmp_path / "ask.toml"
    path.write_text(TWO)
    experiment = read_experiment(path)
    results = ResultsFolder.create(tmp_path / "out")
    results.save_experiment(experiment)
    for run in expand(experiment):
        if (run.dataset, run.method) in KNOWN:
            first, last, minutes = KNOWN[run.dataset, run.method]
            marks = [mark(50, first + run.spec.seed, 50 * minutes), mark(100, last, 100 * minutes)]
            met = 40 if run.method == "cards" else (70 if run.spec.seed else None)
            save(results, run, last, marks=marks, answers_to_all_classes=met)
    return results


def test_tables_give_answers_minutes_and_when_all_classes_were_met(results):
    text = write_report(results.folder).markdown.read_text()
    assert "**digits, 10 classes, right answers: test ACC in percent**" in text
    assert "| cards | **80.5 ± 0.5** | 10 | **90.0 ± 0.0** | 20 | 10.0 ± 0.0 | 40 |" in text
    assert "| random | 40.5 ± 0.5 | 5 | 50.0 ± 0.0 | 10 | 10.0 ± 0.0 | 70 (1 of 2) |" in text
    assert "| random | *missing* |" in text


def test_means_are_over_the_datasets_that_every_strategy_has(results):
    text = write_report(results.folder).markdown.read_text()
    assert "**mean of digits, mnist, right answers: test ACC in percent**" in text
    assert "| cards | **85.5** | **93.0** |" in text
    assert "| random | 45.5 | 55.0 |" in text
    assert {path.name for path in (results.folder / "figures").iterdir()} == {
        *("ask-digits.svg", "ask-mnist.svg", "ask-cifar10.svg", "ask-mean.svg")
    }


def test_lines_lie_over_answers_on_the_left_and_over_minutes_on_the_right(results):
    (experiment,) = results.experiments()
    summary = summarize(experiment, results)
    assert done_datasets(summary) == ["digits", "mnist", "cifar10"]
    assert complete_datasets(summary) == ["digits", "mnist"]
    left, right = interview_figure(summary, ["digits"], "digits").axes
    assert [line.get_label() for line in left.lines] == ["cards", "random"]
    for panel, places in ((left, [[50, 100], [50, 100]]), (right, [[10, 20], [5, 10]])):
        np.testing.assert_allclose([line.get_xdata() for line in panel.lines], places)
        np.testing.assert_allclose([line.get_ydata() for line in panel.lines], [[80.5, 90], [40.5, 50]])
    assert (left.get_xlabel(), right.get_xlabel()) == ("answers", "minutes")
    assert {text.get_text() for text in right.texts} == {"cards", "random"}
    assert not left.texts

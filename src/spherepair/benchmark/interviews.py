"""One interview as a run: a simulated person answers, and the model is measured after so many answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.asking import Answer, ChoiceQuestion, GroupQuestion, Interview
from spherepair.asking.groups import Groups
from spherepair.asking.questions import DIFFERENT, NONE, SAME, Question, Reply
from spherepair.benchmark.measure import Labels, Measured, Record, Rows
from spherepair.benchmark.runs import InterviewChoice, RunSpec, build_method
from spherepair.metrics import cluster_scores


class SimulatedPerson:
    """Answers questions from the classes of the rows; some answers are wrong.

    A wrong choice is any answer that is not right, a wrong pair the opposite. On a group card each item is
    misjudged on its own.

    Parameters
    ----------
    y : array of shape (n_rows,)
        Classes.
    wrong_answers : float, default=0.0
        Share of the answers that are wrong.
    seed : int, default=0

    Examples
    --------
    >>> person = SimulatedPerson(np.array([0, 0, 1, 2]))
    >>> person(ChoiceQuestion(item=0, exemplars=(2, 1))), person(ChoiceQuestion(item=3, exemplars=(2, 1)))
    (1, 'none')
    >>> person(GroupQuestion(items=(0, 1, 2, 3)))
    (2, 3)
    """

    def __init__(self, y: Labels, wrong_answers: float = 0.0, *, seed: int = 0) -> None:
        self._y, self._share = y, wrong_answers
        self._random = np.random.default_rng([seed, 28])

    def __call__(self, question: Question) -> Reply:
        """The answer to a question."""
        if isinstance(question, ChoiceQuestion):
            return self._choose(question)
        if isinstance(question, GroupQuestion):
            first = question.items[0]
            return tuple(item for item in question.items[1:] if self._is_same(first, item) is self._errs())
        return SAME if self._is_same(question.left, question.right) is not self._errs() else DIFFERENT

    def _choose(self, question: ChoiceQuestion) -> Reply:
        right = [e for e in question.exemplars if self._is_same(question.item, e)]
        if not self._errs():
            return right[0] if right else NONE
        wrong: list[Reply] = [e for e in question.exemplars if e not in right]
        wrong += [NONE] if right else []
        return wrong[int(self._random.integers(len(wrong)))]

    def _is_same(self, left: int, right: int) -> bool:
        return bool(self._y[left] == self._y[right])

    def _errs(self) -> bool:
        return bool(self._random.random() < self._share)


def measure_interview(spec: RunSpec, rows: Rows, pretrained: Path) -> Measured:
    """Hold one interview about the training rows and measure the model at every mark.

    Test rows are only predicted; no question, model or moment to stop depends on them.

    Parameters
    ----------
    spec : RunSpec
        What to run. Without parameters the interview uses its own default model.
    rows : Rows
        Its dataset.
    pretrained : Path
        Not used: an interview pretrains once and keeps the weights itself.
    """
    started, choice = time.perf_counter(), spec.pairs
    assert isinstance(choice, InterviewChoice)
    person = SimulatedPerson(rows.y_train, choice.wrong_answers, seed=spec.seed)
    talk = Interview(rows.X_train, strategy=choice.strategy, model=_template(spec), random_state=spec.seed)
    marks: list[Record] = []
    for count in choice.answers:
        talk.run(person, max_answers=count)
        marks.append({"mark": count, **_stand(talk, rows), "seconds": time.perf_counter() - started})
    record: Record = {
        "n_classes": rows.n_classes,
        "n_pairs": len(talk.constraints),
        "marks": marks,
        "answers_to_all_classes": answers_to_all_classes(talk.answers, rows.y_train),
        "scores": marks[-1]["scores"],
        "times": {"whole": time.perf_counter() - started},
        "warnings": [],
    }
    return Measured(record)


def answers_to_all_classes(answers: Sequence[Answer], y: Labels) -> int | None:
    """How many answers it took until every class had a row in some group; ``None`` if some class has none."""
    groups, n_classes = Groups(), len(np.unique(y))
    for count, answer in enumerate(answers, start=1):
        groups.add(answer.links)
        if len(groups) >= n_classes and _n_classes_found(groups, y) == n_classes:
            return count
    return None


def _template(spec: RunSpec) -> Any:
    """The model of the refits; the interview sets its number of clusters."""
    if not spec.parameters:
        return None
    return build_method(spec.estimator, 2, parameters=spec.parameters, seed=spec.seed)


def _stand(talk: Interview, rows: Rows) -> Record:
    """What the interview has reached: effort, groups, and scores of its model."""
    model = talk.model
    return {
        "answers": len(talk.answers),
        "minutes": sum(answer.seconds for answer in talk.answers) / 60,
        "groups": len(talk.groups),
        "classes_found": _n_classes_found(talk.groups, rows.y_train),
        "n_clusters": int(model.n_clusters_),
        "scores": {
            "train": asdict(cluster_scores(rows.y_train, model.labels_)),
            "test": asdict(cluster_scores(rows.y_test, model.predict(rows.X_test))),
        },
    }


def _n_classes_found(groups: Groups, y: Labels) -> int:
    placed, _ = groups.placed()
    return len(np.unique(y[placed]))

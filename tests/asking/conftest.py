"""Tables small enough for refits of a second, and people who are always right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from spherepair import SpherePair
from spherepair.asking.questions import ChoiceQuestion, PairQuestion, Question, Reply
from spherepair.training.pretraining import JointPretraining

#: Pretraining of a moment.
BRIEF = JointPretraining(epochs=2, min_steps=100)
#: Large batches: from a few answers follow thousands of pairs.
QUICK: dict[str, Any] = {
    "hidden_dims": (16,),
    "pretraining": BRIEF,
    "max_epochs": 4,
    "batch_size": 1024,
    "random_state": 0,
    "progress": False,
}


@pytest.fixture(scope="session")
def blobs() -> tuple[Any, Any]:
    X, y = make_blobs(240, centers=6, n_features=8, cluster_std=1.0, random_state=3)
    return X.astype(np.float32), y


@pytest.fixture
def quick_model() -> SpherePair:
    return SpherePair(**QUICK)


def right_answers(y: Any) -> Callable[[Question], Reply]:
    """A person who is always right."""

    def answer(question: Question) -> Reply:
        if isinstance(question, ChoiceQuestion):
            return next((e for e in question.exemplars if y[e] == y[question.item]), "none")
        if isinstance(question, PairQuestion):
            return "same" if y[question.left] == y[question.right] else "different"
        return tuple(i for i in question.items[1:] if y[i] != y[question.items[0]])

    return answer

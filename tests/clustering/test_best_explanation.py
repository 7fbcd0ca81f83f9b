"""The number of clusters that explains the answers best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from spherepair.clustering.answer_errors import Judge, Witnesses
from spherepair.clustering.best_explanation import (
    Explanation,
    answer_nats,
    explain,
    explain_best,
    search_peak,
)
from spherepair.constraints import Constraints

N_ROWS, N_CLASSES = 400, 5


def judge_of(truth: Any, seed: int, *, rate: float, share: float | None = None) -> Judge:
    """Somebody who answers about 400 random pairs, so many of them wrongly; a row is its own neighbor."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(N_ROWS, size=(2, 400))
    left, right = left[left != right], right[left != right]
    is_must_link = (truth[left] == truth[right]) ^ (rng.random(len(left)) < rate)
    everybody = np.arange(N_ROWS)
    pairs = Constraints.from_arrays(left, right, is_must_link)
    return Judge(
        pairs, Witnesses(everybody[:, None], pairs.left, pairs.right), everybody, torch.zeros(0), share
    )


def divided(truth: Any, n_clusters: int) -> Any:
    """Memberships that mix the last classes, or cut classes in two."""
    labels = np.minimum(truth, n_clusters - 1)
    for extra in range(N_CLASSES, n_clusters):
        labels = np.where((labels == extra - N_CLASSES) & (np.arange(N_ROWS) % 2 == 0), extra, labels)
    return 0.9 * np.eye(n_clusters)[labels] + 0.1 / n_clusters


@pytest.fixture
def truth() -> Any:
    return np.random.default_rng(0).integers(N_CLASSES, size=N_ROWS)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("share", [None, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_the_number_of_classes_explains_answers_best(
    truth: Any, seed: int, rate: float, share: float | None
) -> None:
    judge = judge_of(truth, seed, rate=rate, share=share)
    found = explain_best(judge, lambda number: divided(truth, number), max_clusters=10)
    assert found.n_clusters == N_CLASSES
    np.testing.assert_allclose(found.same, judge.same(divided(truth, N_CLASSES)))


def test_answers_that_say_nothing_explain_nothing(truth: Any) -> None:
    judge = judge_of(truth, 0, rate=0.1)
    everybody = np.arange(N_ROWS)
    others = (everybody + 7) % N_ROWS
    unsure = Constraints.from_arrays(everybody, others, np.zeros(N_ROWS, bool), value=np.full(N_ROWS, 0.5))
    both = judge.pairs | unsure
    witnesses = Witnesses(judge.witnesses.neighbors, both.left, both.right)
    memberships = divided(truth, 4)
    assert len(both) > 1.9 * len(judge.pairs)
    found = explain(replace(judge, pairs=both, witnesses=witnesses), memberships)
    assert found.nats == pytest.approx(explain(judge, memberships).nats)


def test_the_rate_that_explains_answers_best_is_found() -> None:
    rng = np.random.default_rng(0)
    same = rng.choice([0.05, 0.9], 2000)
    must = (rng.random(2000) < same) ^ (rng.random(2000) < 0.2)
    best = answer_nats(same, must)
    assert all(best >= answer_nats(same, must, rate) - 0.1 for rate in (0.05, 0.15, 0.2, 0.25, 0.4))


@pytest.mark.parametrize("largest", [1, 2, 3, 7, 32])
def test_every_peak_is_found(largest: int) -> None:
    for peak in range(2, largest + 1):
        found = search_peak(lambda k, peak=peak: Explanation(k, np.zeros(0), -abs(np.log(k / peak))), largest)
        assert found.n_clusters == peak
    assert search_peak(lambda k: Explanation(k, np.zeros(0), -k), largest).n_clusters == 2

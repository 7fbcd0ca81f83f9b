"""The search for a setting where some, or all, of the candidates diverge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from spherepair.baselines import VolMaxDCC
from spherepair.errors import TrainingDivergedError
from spherepair.estimators import dcc, setting_search
from spherepair.estimators.dcc import VOLUME_WEIGHTS
from spherepair.estimators.job import Stage

QUICK = {"hidden_dims": (8,), "max_epochs": 2, "volume_rows": 60, "random_state": 0, "progress": False}


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Filled with the scores of the candidates."""
    seen: list[float] = []

    def search(*arguments: Any) -> list[float]:
        seen.extend(setting_search.search_settings(*arguments))
        return seen

    monkeypatch.setattr(dcc, "search_settings", search)
    return seen


def diverge_with(monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...]) -> None:
    """Let training of the search fail for these weights of the volume."""
    train = VolMaxDCC._train

    def careful(self: Any, job: Any, stage: Stage) -> None:
        weight = float(job.network.volume_weight)
        if stage == setting_search.SEARCH and any(math.isclose(weight, v, rel_tol=1e-4) for v in values):
            raise TrainingDivergedError("the loss is nan; lower learning_rate.")
        train(self, job, stage)

    monkeypatch.setattr(VolMaxDCC, "_train", careful)


def test_a_setting_that_diverges_counts_as_the_worst(
    X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch, scores: list[float]
) -> None:
    diverge_with(monkeypatch, VOLUME_WEIGHTS[:3])
    model = VolMaxDCC(3, volume_weight="search", **QUICK).fit(X, constraints=pairs)
    assert scores[:3] == [-math.inf] * 3
    assert all(0 <= score <= 1 for score in scores[3:])
    assert model.volume_weight_ == pytest.approx(VOLUME_WEIGHTS[int(np.argmax(scores))])


def test_the_one_setting_that_does_not_diverge_wins(
    X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverge_with(monkeypatch, VOLUME_WEIGHTS[:4] + VOLUME_WEIGHTS[5:])
    model = VolMaxDCC(3, volume_weight="search", **QUICK).fit(X, constraints=pairs)
    assert model.volume_weight_ == pytest.approx(VOLUME_WEIGHTS[4])


def test_the_search_fails_where_all_settings_diverge(
    X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverge_with(monkeypatch, VOLUME_WEIGHTS)
    wanted = (
        "each of the 6 settings of the search, from volume_weight=0 to volume_weight=1e-05; lower learning"
    )
    with pytest.raises(TrainingDivergedError, match=wanted):
        VolMaxDCC(3, volume_weight="search", **QUICK).fit(X, constraints=pairs)


def test_an_embedding_that_is_not_finite_has_diverged(
    X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch, scores: list[float]
) -> None:
    embed, calls = setting_search.map_rows, iter(range(100))

    def spoil_first(*arguments: Any, **options: Any) -> Any:
        found = embed(*arguments, **options)
        return np.full_like(found, np.nan) if next(calls) == 0 else found

    monkeypatch.setattr(setting_search, "map_rows", spoil_first)
    VolMaxDCC(3, volume_weight="search", **QUICK).fit(X, constraints=pairs)
    assert scores[0] == -math.inf
    assert math.isfinite(min(scores[1:]))

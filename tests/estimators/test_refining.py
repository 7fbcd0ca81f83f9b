from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spherepair import Constraints, Schedule, SpherePair, load, training
from spherepair.clustering import assigners
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError
from spherepair.estimators.job import FIT, Job, Refinement, Stage
from spherepair.metrics import clustering_accuracy
from spherepair.terms import SemiSupervisedObjective
from spherepair.training.hardware import choose_hardware
from spherepair.training.rows import open_rows
from spherepair.training.session import Session


@pytest.fixture(scope="module")
def checkpoint(make: Any, X: Any, pairs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a finished fit: whoever goes on from it trains nothing."""
    folder = tmp_path_factory.mktemp("trained")
    make(max_epochs=40).fit(X, constraints=pairs, checkpoint=folder)
    return folder


@pytest.fixture
def trained(make: Any, X: Any, pairs: Any, checkpoint: Path) -> SpherePair:
    """A model that tests may go on with."""
    return make(max_epochs=40).fit(X, constraints=pairs, checkpoint=checkpoint)


def _one_more_split(X: Any, y: Any) -> np.ndarray:
    """Cut one blob in two along a feature: four clusters where features alone show three."""
    finer = y.copy()
    inside = y == 2
    finer[inside & (X[:, 0] > np.median(X[inside, 0]))] = 3
    return finer


def test_refine_satisfies_new_pairs_and_keeps_the_old(make: Any, X: Any, y: Any) -> None:
    finer = _one_more_split(X, y)
    old = Constraints.from_labels(finer, 300, random_state=0)
    old = old[(finer[old.left] < 2) | (finer[old.right] < 2)]  # silent about the cut inside one blob
    inside = np.flatnonzero(finer >= 2)
    local = Constraints.from_labels(finer[inside], 200, random_state=1)
    new = Constraints.from_arrays(inside[local.left], inside[local.right], local.is_must_link)
    model = make(4, max_epochs=300, schedule=None, hidden_dims=(64,)).fit(X, constraints=old)
    before, n_epochs = model.score_pairs(new), len(model.history_)
    model.refine(new)
    assert model.score_pairs(new) > max(0.9, before)
    assert model.score_pairs(old) > 0.95
    assert len(model.constraints_) == len(old | new)
    assert {record["stage"] for record in model.history_[n_epochs:]} == {"refining"}
    assert clustering_accuracy(finer, model.labels_) > 0.9


def test_refine_shows_the_network_a_tenth_of_what_fit_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((20_000, 4), dtype=np.float32), rng.integers(0, 10, 20_000)  # the sizes of large tables
    old, new = (Constraints.from_labels(y, n, random_state=0) for n in (10_000, 500))
    shown: Counter[str] = Counter()

    def count(self: Any, epoch: int) -> None:  # instead of training
        batches = self.batches
        shown[stage[-1]] += batches.n_steps * (2 * batches.pairs_per_step + batches.rows_per_step)

    stage = ["fit"]
    monkeypatch.setattr(training._EagerPart, "run", count)
    monkeypatch.setattr(SemiSupervisedObjective, "on_epoch_start", lambda *args: None)
    monkeypatch.setattr(SpherePair, "score_pairs", lambda *args: 0.95)
    monkeypatch.setattr(assigners, "_lloyd", lambda x, centers, *args: centers)  # nothing was learned
    quiet = {"wrong_answers": None, "random_state": 0, "progress": False, "device": "cpu"}
    model = SpherePair(10, hidden_dims=(8,), **quiet)
    model.fit(X, constraints=old)
    stage.append("refine")
    model.refine(new)
    assert shown["fit"] >= 10 * shown["refine"] > 0


def test_refine_is_much_shorter_than_fit(trained: SpherePair, pairs: Any) -> None:
    n_fit = len(trained.history_)
    trained.refine(pairs)
    assert len(trained.history_) - n_fit == 8
    assert n_fit >= 5 * 8


@pytest.mark.parametrize(
    ("n_pairs", "wrong", "max_epochs", "n_epochs"),
    [
        (0, 1.0, 60, 8),
        (1_000, 1.0, 60, 8),
        (1_000, 0.25, 60, 6),
        (1_000, 0.1, 60, 4),
        (5_120, 1.0, 60, 8),
        (5_120, 0.0, 60, 4),
        (7_000, 1.0, 60, 6),
        (10_500, 1.0, 60, 4),
        (1_000_000, 1.0, 60, 4),
        (500, 1.0, 8, 2),
    ],
)
def test_refinements_have_fewer_epochs_where_pairs_are_many_or_right(
    n_pairs: int, wrong: float, max_epochs: int, n_epochs: int
) -> None:
    stage = Stage("refining", Refinement(wrong, np.eye(10)))
    rows, session = SimpleNamespace(n_rows=60_000), SimpleNamespace(hardware=choose_hardware("cpu"))
    job = SimpleNamespace(pairs=range(n_pairs), rows=rows, session=session)
    assert SpherePair(10, max_epochs=max_epochs)._max_epochs(job, stage) == n_epochs


@pytest.mark.parametrize(("wrong", "factor"), [(0.0, 0.3), (0.1, 0.3), (0.2, 0.6), (1 / 3, 1.0), (0.9, 1.0)])
def test_the_more_of_the_new_pairs_is_wrong_the_larger_the_steps(
    wrong: float, factor: float, fitted: SpherePair, X: Any, pairs: Any
) -> None:
    session = SimpleNamespace(seed=0, hardware=fitted._hardware)
    job = Job(open_rows(X, fitted._scaling, fitted._hardware.device), pairs, fitted.network_, session)
    fit, refining = (
        fitted._plan(job, stage).recipe
        for stage in (FIT, Stage("refining", Refinement(wrong, fitted.cluster_centers_)))
    )
    assert refining == replace(fit, learning_rate=pytest.approx(factor * fit.learning_rate))


def test_rate_and_epochs_of_a_refinement_follow_from_what_is_new_and_wrong(
    trained: SpherePair, pairs: Any, y: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    epochs: list[int] = []
    run_stage = Session.run_stage

    def spy(self: Session, plan: Any, **kwargs: Any) -> None:
        rates.append(plan.recipe.learning_rate / trained.learning_rate)
        epochs.append(kwargs["max_epochs"])
        run_stage(self, plan, **kwargs)

    trained.set_params(schedule=Schedule(min_steps=20))

    monkeypatch.setattr(Session, "run_stage", spy)
    right = Constraints.from_labels(y, 60, random_state=5) - pairs
    turned = Constraints.from_arrays(right.left, right.right, ~right.is_must_link)
    assert trained.score_pairs(right) > 0.95
    together = pairs[pairs.is_must_link]
    refused = Constraints.from_pairs(cannot_link=np.column_stack([together.left, together.right]))
    for given, policy in [
        (right, "raise"),
        (right[:0], "raise"),
        (turned, "keep"),
        (pairs | turned, "keep"),  # with the old ones beside the new
        (refused, "drop"),  # none of them is taken
    ]:
        copy.deepcopy(trained).refine(given, trained._table, on_conflict=policy)
    assert rates == pytest.approx([0.3, 0.3, 1.0, 1.0, 0.3])
    assert epochs == [4, 4, 8, 8, 4]


def test_refine_with_nothing_new_keeps_the_clusters(trained: SpherePair, y: Any, pairs: Any) -> None:
    before = trained.labels_
    assert clustering_accuracy(before, trained.refine(pairs).labels_) == 1.0


def test_predictions_follow_a_refinement(trained: SpherePair, X: Any, pairs: Any) -> None:
    trained.refine(pairs)
    assert np.array_equal(trained.predict(X), trained.labels_)
    assert np.array_equal(trained.transform(X), trained.embedding_)


def test_a_loaded_model_needs_the_rows_and_refines_alike(
    trained: SpherePair, X: Any, y: Any, tmp_path: Path
) -> None:
    more = Constraints.from_labels(y, 50, random_state=9)
    trained.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    wanted = r"a loaded model needs the original rows in the same order: refine\(constraints, X\)"
    with pytest.raises(InvalidDataError, match=wanted):
        loaded.refine(more)
    with pytest.raises(InvalidDataError, match="X has 100 rows, but the model was fitted on 120"):
        loaded.refine(more, X[:100])
    with pytest.raises(InvalidDataError, match="is not the row that the model was fitted on"):
        loaded.refine(more, X[::-1])
    loaded.refine(more, X)
    trained.refine(more)
    assert np.array_equal(loaded.embedding_, trained.embedding_)
    assert np.array_equal(loaded.labels_, trained.labels_)


def test_refine_counts_the_clusters_again(make: Any, X: Any, y: Any, pairs: Any) -> None:
    model = make("auto", max_epochs=40).fit(X, constraints=pairs)
    first = model.cluster_number_
    model.refine(Constraints.from_labels(y, 200, random_state=5))
    assert model.cluster_number_ is not first
    assert model.n_clusters_ == model.cluster_number_.value == 3


def test_refine_refuses_rows_that_do_not_exist(trained: SpherePair) -> None:
    with pytest.raises(InvalidConstraintsError, match="rows 0 and 500"):
        trained.refine(Constraints.from_pairs(must_link=[(0, 500)]))


def test_an_interrupted_refinement_leaves_the_model_as_it_was(
    trained: SpherePair, X: Any, pairs: Any
) -> None:
    def interrupt(state: Any) -> None:
        raise KeyboardInterrupt

    before = trained.embedding_
    trained.set_params(progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        trained.refine(pairs)
    assert np.array_equal(trained.transform(X), before)
    assert np.array_equal(trained.predict(X), trained.labels_)


def test_an_interruption_while_clustering_leaves_the_model_as_it_was(
    trained: SpherePair, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    before, history = trained.embedding_, list(trained.history_)
    monkeypatch.setattr("spherepair.clustering.assigners.KMeansAssigner.assign", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trained.refine(pairs)
    assert np.array_equal(trained.transform(X), before)
    assert trained.history_ == history


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_clusters": -2},
        {"n_clusters": 10_000},
        {"n_clusters": None},
        {"batch_size": -1},
        {"learning_rate": -1.0},
    ],
)
def test_parameters_are_checked_as_for_a_fit(trained: SpherePair, pairs: Any, parameters: Any) -> None:
    before = trained.embedding_.copy()
    with pytest.raises(InvalidParameterError, match=next(iter(parameters))):
        trained.set_params(**parameters).refine(pairs)
    assert np.array_equal(trained.embedding_, before)

"""What training achieves: the geometry that the propositions promise, and labels on real tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split

from spherepair import Constraints, Schedule, SpherePair
from spherepair.errors import TrainingDivergedError
from spherepair.estimators.job import FIT, Job
from spherepair.metrics import clustering_accuracy
from spherepair.theory import minimal_omega
from spherepair.training.hardware import choose_hardware
from spherepair.training.pretraining import JointPretraining
from spherepair.training.rows import ResidentRows, Scaling

MODEST = {
    "hidden_dims": (64, 64),
    "pretraining": JointPretraining(epochs=5, min_steps=100),
    "max_epochs": 30,
    "random_state": 0,
}
#: Enough for tables of few rows.
SMALL = MODEST | {"hidden_dims": (32, 32), "max_epochs": 12}


def _angles_between_centres(n_clusters: int, **parameters: Any) -> np.ndarray:
    X, y = datasets.make_blobs(150, centers=n_clusters, n_features=8, random_state=1)
    pairs = Constraints.from_labels(y, 1_500, random_state=0)
    short = {"max_epochs": 20, "batch_size": 128, "wrong_answers": None}  # all answers are right
    settings = MODEST | short | parameters
    model = SpherePair(n_clusters, **settings).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) == 1.0
    cosines = (model.cluster_centers_ @ model.cluster_centers_.T)[np.triu_indices(n_clusters, k=1)]
    return np.degrees(np.arccos(cosines))


@pytest.mark.parametrize(("n_clusters", "embedding_dim"), [(4, 3), (4, 10), (6, 8)])
def test_clusters_become_the_vertices_of_a_regular_simplex(n_clusters: int, embedding_dim: int) -> None:
    """Proposition "equidistance": at ω* = π / arccos(-1 / (K - 1)) there is one arrangement only."""
    omega = minimal_omega(n_clusters)
    angles = _angles_between_centres(n_clusters, omega=omega, embedding_dim=embedding_dim)
    np.testing.assert_allclose(angles, 180 / omega, atol=4)


def test_clusters_keep_out_of_each_others_zone_at_the_default_omega() -> None:
    """Proposition "conflict-free": angles are at least π / ω; ω = 2 allows more for so few clusters."""
    assert _angles_between_centres(4).min() > 90 - 3


def test_many_clusters_are_nearly_equidistant_at_the_default_omega() -> None:
    angles = _angles_between_centres(10, embedding_dim=10)
    assert angles.min() > 90 - 5
    assert abs(np.median(angles) - 90) < 6


@pytest.mark.parametrize("n_clusters", [10, "auto"])
def test_it_learns_digits(n_clusters: Any) -> None:
    X, y = datasets.load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, train_size=900, random_state=0, stratify=y)
    pairs = Constraints.from_labels(y_train, 1_000, random_state=0)
    plain = KMeans(10, n_init=3, random_state=0).fit(train).predict(test)
    enough = {
        "hidden_dims": (128, 128),
        "pretraining": JointPretraining(epochs=5, min_steps=300),
        "max_epochs": 20,
    }
    model = SpherePair(n_clusters, **(MODEST | enough)).fit(train, constraints=pairs)
    accuracy = clustering_accuracy(y_test, model.predict(test))
    assert accuracy > clustering_accuracy(y_test, plain) + 0.03
    assert accuracy > 0.85
    assert 9 <= model.n_clusters_ <= 11
    assert model.score_pairs(pairs) > 0.98


TABLES = {"iris": 0.95, "wine": 0.95, "breast_cancer": 0.93}


@pytest.mark.parametrize("name", TABLES)
def test_small_real_tables_are_learned(name: str) -> None:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    pairs = Constraints.from_labels(y, 300, random_state=0)
    model = SpherePair(len(np.unique(y)), **SMALL).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) > TABLES[name]


def test_constant_columns_and_wild_scales_do_no_harm() -> None:
    X, y = datasets.load_wine(return_X_y=True)
    wild = np.column_stack([X * 10.0 ** np.arange(-6, 7), np.full(len(X), 1e9), np.zeros(len(X))])
    pairs = Constraints.from_labels(y, 300, random_state=0)
    model = SpherePair(3, **SMALL).fit(wild, constraints=pairs)
    assert np.isfinite(model.embedding_).all()
    assert clustering_accuracy(y, model.labels_) > 0.95


def test_a_column_that_was_constant_may_vary_on_predict() -> None:
    X, y = datasets.load_iris(return_X_y=True)
    constant = np.column_stack([X, np.ones(len(X))])
    pairs = Constraints.from_labels(y, 300, random_state=0)
    model = SpherePair(3, **(SMALL | {"scaling": "standard"})).fit(constant, constraints=pairs)
    varied = np.column_stack([X, np.linspace(-100, 100, len(X))])
    assert np.array_equal(model.predict(varied), model.labels_)


def test_a_table_without_any_variation_does_not_break(make: Any) -> None:
    X = np.ones((20, 3))
    pairs = Constraints.from_pairs([(0, 1)], [(2, 3)])
    with pytest.warns(match="only 2 constraints"), pytest.warns(match="1 of 2 clusters are empty"):
        model = make(2).fit(X, constraints=pairs)
    assert np.isfinite(model.embedding_).all()


def test_many_classes_of_few_rows() -> None:
    X, y = datasets.make_blobs(200, centers=40, n_features=16, cluster_std=0.5, random_state=0)
    pairs = Constraints.from_labels(y, 3_000, random_state=0)
    model = SpherePair(40, **(MODEST | {"wrong_answers": None})).fit(X, constraints=pairs)
    assert model.embedding_.shape[1] >= 40
    assert clustering_accuracy(y, model.labels_) > 0.8


@pytest.mark.parametrize("n_clusters", [2, "auto"])
def test_a_handful_of_rows_is_enough_to_run(n_clusters: Any) -> None:
    X = np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]])
    pairs = Constraints.from_groups([0, 0, 1, 1], random_state=0)
    with pytest.warns(match="fewer than"):
        model = SpherePair(n_clusters, **SMALL).fit(X, constraints=pairs)
    assert model.score_pairs(pairs) == 1.0


def test_two_rows_are_the_least(make: Any) -> None:
    pairs = Constraints.from_pairs(cannot_link=[(0, 1)])
    for n_clusters in (2, "auto"):
        with pytest.warns(match="cannot-links"):
            model = make(n_clusters).fit(np.array([[0.0], [1.0]]), constraints=pairs)
        assert model.labels_.shape == (2,)


def test_contradictory_pairs_that_are_kept_do_not_stop_training() -> None:
    X, y = datasets.load_iris(return_X_y=True)
    clean = Constraints.from_labels(y, 300, random_state=0)
    flipped = clean.is_must_link.copy()
    flipped[:20] = ~flipped[:20]
    noisy = Constraints.from_arrays(clean.left, clean.right, flipped)
    model = SpherePair(3, **SMALL).fit(X, constraints=noisy, on_conflict="keep")
    assert clustering_accuracy(y, model.labels_) > 0.85


@pytest.mark.parametrize("n_pairs", [1, 10, 255, 256, 257, 1000, 2561, 3000, 4999, 5000, 10_000])
def test_no_step_is_left_without_pairs_and_none_is_shown_more_often(n_pairs: int) -> None:
    """With whole passes only, 3,000 pairs once filled 12 of 20 steps and left 8 without any."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    every = Constraints.from_labels(y, n_pairs, random_state=0)
    rows = ResidentRows(torch.zeros(400, 2), Scaling.identity())
    job = Job(rows, every, None, SimpleNamespace(seed=0, hardware=choose_hardware("cpu")))
    batches = SpherePair()._batches(job, FIT, neighbor_table=None)
    batches.start_epoch(0)
    real = [float((batches.next().pair_weight > 0).sum()) for _ in range(batches.n_steps)]
    assert min(real) > 0
    assert sum(real) % n_pairs == 0
    assert batches.n_steps >= 10


def test_embeddings_that_are_not_finite_are_never_clustered(monkeypatch):
    X, y = datasets.make_blobs(60, centers=2, random_state=0)
    pairs = Constraints.from_labels(y, 300, random_state=0)
    schedule = Schedule(min_steps=1)
    model = SpherePair(2, hidden_dims=(8,), pretraining=None, max_epochs=1, schedule=schedule, random_state=0)
    monkeypatch.setattr(model, "_embed", lambda network, x: torch.full((len(x), 2), torch.nan))
    with pytest.raises(TrainingDivergedError, match="last step"):
        model.fit(X, constraints=pairs)

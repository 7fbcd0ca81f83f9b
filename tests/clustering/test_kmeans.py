"""K-means and the assigners."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score
from tests.estimators.never_waits import NeverWaits

from spherepair.clustering import kmeans as kmeans_module
from spherepair.clustering.assigners import (
    Assignment,
    keep_numbers,
    mean_centers,
    nearest_center,
    resolve_assigner,
    unit_rows,
)
from spherepair.clustering.kmeans import kmeans
from spherepair.errors import InvalidParameterError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def inertia(x, centers):
    """Mean squared distance of the rows to the nearest centre."""
    return (
        torch.cdist(x, centers, compute_mode="donot_use_mm_for_euclid_dist")
        .amin(dim=1)
        .square()
        .mean()
        .item()
    )


@pytest.mark.parametrize("n_clusters", [1, 3, 10])
def test_inertia_is_as_good_as_scikit_learns(n_clusters):
    X = load_digits().data.astype(np.float32)
    x, seeds = torch.from_numpy(X), range(5)
    ours = [inertia(x, kmeans(x, n_clusters, generator=generator(seed), n_init=10)) for seed in seeds]
    theirs = [KMeans(n_clusters, n_init=10, random_state=seed).fit(X).inertia_ / len(X) for seed in seeds]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=1e-3)


def test_the_same_generator_gives_the_same_centres():
    x = torch.from_numpy(load_digits().data.astype(np.float32))
    first, second = (kmeans(x, 10, generator=generator(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_chunks_and_the_contest_on_a_sample_give_the_same_clusters(monkeypatch):
    X, y = make_blobs(3000, centers=6, n_features=5, cluster_std=0.5, random_state=0)
    monkeypatch.setattr(kmeans_module, "CHUNK_ENTRIES", 500)
    monkeypatch.setattr(kmeans_module, "CONTEST_ROWS", 400)
    x = torch.from_numpy(X.astype(np.float32))
    found = kmeans(x, 6, generator=generator())
    assert adjusted_rand_score(y, torch.cdist(x, found).argmin(dim=1)) == 1.0


def test_the_best_of_the_restarts_goes_on(monkeypatch):
    x, ends = torch.from_numpy(load_digits().data.astype(np.float32)), []
    lloyd = kmeans_module._lloyd
    monkeypatch.setattr(kmeans_module, "_lloyd", lambda *args: ends.append(lloyd(*args)) or ends[-1])
    monkeypatch.setattr(kmeans_module, "CONTEST_ROUNDS", 2)
    found = kmeans(x, 10, generator=generator(), n_init=12, tol=0.0)
    reached = [inertia(x, centers) for centers in ends[0]]
    assert len(reached) == 12
    assert inertia(x, found) < min(reached) < 0.99 * max(reached)
    alone = lloyd(x, ends[0][[np.argmin(reached)]], 300, torch.zeros(()))[0]
    assert torch.equal(found, alone)


def test_an_empty_cluster_keeps_its_centre():
    x = torch.tensor([[0.0], [1.0], [10.0]])
    moved = kmeans_module._means(x, torch.tensor([[[0.0], [11.0], [99.0]]]))
    assert moved.tolist() == [[[0.5], [10.0], [99.0]]]


@pytest.mark.parametrize("chunk_entries", [60, 100_000])
def test_means_and_gains_are_those_of_the_nearest_rows_however_rows_are_cut(chunk_entries, monkeypatch):
    monkeypatch.setattr(kmeans_module, "CHUNK_ENTRIES", chunk_entries)
    x = torch.randn(101, 4, generator=generator())
    centers = torch.randn(3, 5, 4, generator=generator(1))
    nearest = torch.cdist(x[None], centers).argmin(dim=2)
    literal = [[x[of == k].mean(dim=0) for k in range(5)] for of in nearest]
    torch.testing.assert_close(
        kmeans_module._means(x, centers), torch.stack([torch.stack(means) for means in literal])
    )
    # What is missing is the same for all: half the squares of the rows.
    halves = torch.tensor([len(x) * inertia(x, c) for c in centers], dtype=torch.float64) / 2
    gain = kmeans_module._gain(x, centers)
    torch.testing.assert_close(gain + halves, x.square().sum().double().expand(3) / 2, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("tol", [1e-4, None])
def test_without_a_tolerance_all_rounds_are_done(tol, monkeypatch):
    x, n_rows, means = torch.randn(300, 2, generator=generator()), [], kmeans_module._means
    monkeypatch.setattr(kmeans_module, "_means", lambda x, c: n_rows.append(len(x)) or means(x, c))
    monkeypatch.setattr(kmeans_module, "CONTEST_ROWS", 200)
    monkeypatch.setattr(kmeans_module, "CONTEST_ROUNDS", 5)
    with NeverWaits() if tol is None else nullcontext():
        kmeans(x, 2, generator=generator(), n_init=3, max_iter=70, tol=tol)
    assert n_rows.count(200) == 5
    assert n_rows.count(300) == 70 if tol is None else 0 < n_rows.count(300) < 70


def test_duplicated_rows_do_not_break_the_start():
    x = torch.ones(20, 3)
    assert torch.isfinite(kmeans(x, 4, generator=generator())).all()


@pytest.fixture
def sphere():
    X, y = make_blobs(300, centers=4, n_features=6, cluster_std=0.4, random_state=1)
    return unit_rows(X), y


@pytest.mark.parametrize("clustering", ["kmeans", "ward", AgglomerativeClustering(), KMeans(n_init=3)])
def test_assigners_find_separated_clusters(clustering, sphere):
    embedding, y = sphere
    found = resolve_assigner(clustering).assign(embedding, 4, seed=0)
    assert adjusted_rand_score(y, found.labels) == 1.0
    np.testing.assert_allclose(np.linalg.norm(found.centers, axis=1), 1.0, rtol=1e-5)
    assert (nearest_center(torch.from_numpy(embedding), found.centers) == found.labels).all()


def test_rows_are_given_to_their_centres_in_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    x, centers = (rng.normal(size=(n, 5)).astype(np.float32) for n in (1003, 7))
    whole = nearest_center(torch.from_numpy(x), centers)
    monkeypatch.setattr(kmeans_module, "CHUNK_ENTRIES", 100)
    assert np.array_equal(nearest_center(torch.from_numpy(x), centers), whole)
    assert np.array_equal(whole, np.linalg.norm(x[:, None] - centers, axis=2).argmin(axis=1))


def test_noise_of_a_clusterer_stays_noise(sphere):
    embedding, _ = sphere
    lonely = np.vstack([embedding, -embedding.mean(axis=0, keepdims=True)]).astype(np.float32)
    found = resolve_assigner(DBSCAN(eps=0.3)).assign(unit_rows(lonely), 4, seed=0)
    assert -1 in found.labels
    assert len(found.centers) == len(set(found.labels) - {-1})


def test_a_clusterer_that_sees_only_noise_is_an_error(sphere):
    with pytest.raises(InvalidParameterError, match="noise"):
        resolve_assigner(DBSCAN(eps=1e-9, min_samples=5)).assign(sphere[0], 4, seed=0)


def test_unknown_clustering_is_refused():
    with pytest.raises(InvalidParameterError, match="clustering must be"):
        resolve_assigner("spectral")


def test_mean_centers_leave_noise_out():
    embedding = np.array([[1, 0], [0, 1], [0, -1]], dtype=np.float32)
    centers = mean_centers(embedding, np.array([0, 1, -1]))
    np.testing.assert_allclose(centers, [[1, 0], [0, 1]])


def test_renumbered_clusters_keep_rows_centres_and_noise():
    labels = np.array([2, 2, 0, 0, 1, -1])
    centers = np.eye(3, dtype=np.float32)
    kept = keep_numbers(Assignment(labels, centers), np.array([0, 0, 1, 1, 2, 2]))
    assert kept.labels.tolist() == [0, 0, 1, 1, 2, -1]
    np.testing.assert_array_equal(kept.centers, centers[[2, 0, 1]])


@pytest.mark.parametrize("before", [[0, 1, 2, 3, 4, 4], [0, 0, 0, 0, 0, 0]])
def test_renumbering_survives_another_number_of_clusters(before):
    kept = keep_numbers(
        Assignment(np.array([0, 0, 1, 1, 2, 2]), np.eye(3, dtype=np.float32)), np.array(before)
    )
    assert sorted(set(kept.labels.tolist())) == [0, 1, 2]

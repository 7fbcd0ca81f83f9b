"""K-means, Ward trees and the assigners."""

from __future__ import annotations

import builtins
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score
from tests.estimators.never_waits import NeverWaits

from spherepair.clustering import assigners
from spherepair.clustering.assigners import (
    Assignment,
    cut_tree,
    keep_numbers,
    kmeans,
    kmeans_from_labels,
    mean_centers,
    nearest_center,
    resolve_assigner,
    unit_rows,
    ward_tree,
)
from spherepair.errors import InvalidParameterError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def inertia(x, centers):
    """Mean squared distance of the rows to the nearest center."""
    return (
        torch.cdist(x, centers, compute_mode="donot_use_mm_for_euclid_dist")
        .amin(dim=1)
        .square()
        .mean()
        .item()
    )


@pytest.mark.parametrize("n_clusters", [1, 3, 10, 60])
def test_inertia_is_as_good_as_scikit_learns(n_clusters):
    X = load_digits().data.astype(np.float32)
    x, seeds = torch.from_numpy(X), range(5)
    ours = [inertia(x, kmeans(x, n_clusters, generator=generator(seed), n_init=10)) for seed in seeds]
    theirs = [KMeans(n_clusters, n_init=10, random_state=seed).fit(X).inertia_ / len(X) for seed in seeds]
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=1e-3)


def test_the_same_generator_gives_the_same_centers():
    x = torch.from_numpy(load_digits().data.astype(np.float32))
    first, second = (kmeans(x, 10, generator=generator(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_chunks_and_the_contest_on_a_sample_give_the_same_clusters(monkeypatch):
    X, y = make_blobs(3000, centers=6, n_features=5, cluster_std=0.5, random_state=0)
    monkeypatch.setattr(assigners, "CHUNK_ENTRIES", 500)
    monkeypatch.setattr(assigners, "CONTEST_ROWS", 400)
    x = torch.from_numpy(X.astype(np.float32))
    found = kmeans(x, 6, generator=generator())
    assert adjusted_rand_score(y, torch.cdist(x, found).argmin(dim=1)) == 1.0


def test_the_best_of_the_restarts_goes_on(monkeypatch):
    x, ends = torch.from_numpy(load_digits().data.astype(np.float32)), []
    lloyd = assigners._lloyd
    monkeypatch.setattr(assigners, "_lloyd", lambda *args: ends.append(lloyd(*args)) or ends[-1])
    monkeypatch.setattr(assigners, "CONTEST_STEPS", 2)
    found = kmeans(x, 10, generator=generator(), n_init=12, tol=0.0)
    reached = [inertia(x, centers) for centers in ends[0]]
    assert len(reached) == 12
    assert inertia(x, found) < min(reached) < 0.99 * max(reached)
    alone = lloyd(x, ends[0][[np.argmin(reached)]], 300, torch.zeros(()))[0]
    assert torch.equal(found, alone)


def test_an_empty_cluster_keeps_its_center():
    x = torch.tensor([[0.0], [1.0], [10.0]])
    moved = assigners._means(x, torch.tensor([[[0.0], [11.0], [99.0]]]))
    assert moved.tolist() == [[[0.5], [10.0], [99.0]]]


@pytest.mark.parametrize("chunk_entries", [60, 100_000])
def test_means_and_gains_are_those_of_the_nearest_rows_however_rows_are_cut(chunk_entries, monkeypatch):
    monkeypatch.setattr(assigners, "CHUNK_ENTRIES", chunk_entries)
    x = torch.randn(101, 4, generator=generator())
    centers = torch.randn(3, 5, 4, generator=generator(1))
    nearest = torch.cdist(x[None], centers).argmin(dim=2)
    literal = [[x[of == k].mean(dim=0) for k in range(5)] for of in nearest]
    torch.testing.assert_close(
        assigners._means(x, centers), torch.stack([torch.stack(means) for means in literal])
    )
    # What is missing is the same for all: half the squares of the rows.
    halves = torch.tensor([len(x) * inertia(x, c) for c in centers], dtype=torch.float64) / 2
    quality = assigners._quality(x, centers)
    torch.testing.assert_close(quality + halves, x.square().sum().double().expand(3) / 2, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("tol", [1e-4, None])
def test_without_a_tolerance_all_rounds_are_done(tol, monkeypatch):
    x, n_rows, means = torch.randn(300, 2, generator=generator()), [], assigners._means
    monkeypatch.setattr(assigners, "_means", lambda x, c: n_rows.append(len(x)) or means(x, c))
    monkeypatch.setattr(assigners, "CONTEST_ROWS", 200)
    monkeypatch.setattr(assigners, "CONTEST_STEPS", 5)
    monkeypatch.setattr(assigners, "_is_at_rest", lambda *_: False)  # as on a GPU
    with NeverWaits() if tol is None else nullcontext():
        kmeans(x, 2, generator=generator(), n_init=3, max_iter=70, tol=tol)
    assert n_rows.count(200) == 5
    assert n_rows.count(300) == 70 if tol is None else 0 < n_rows.count(300) < 70


def test_rounds_that_would_move_nothing_are_left_out_on_a_cpu(monkeypatch):
    x, rounds, means = torch.randn(300, 2, generator=generator()), [], assigners._means
    monkeypatch.setattr(assigners, "_means", lambda x, c: rounds.append(len(c)) or means(x, c))
    found = kmeans(x, 2, generator=generator(), n_init=3, max_iter=70, tol=None)
    assert (rounds[-1], len(rounds) < 70) == (1, True)
    monkeypatch.setattr(assigners, "_is_at_rest", lambda *_: False)
    assert torch.equal(kmeans(x, 2, generator=generator(), n_init=3, max_iter=70, tol=None), found)
    assert not assigners._is_at_rest(torch.ones(1, 2, 2, device="meta"), torch.ones(1, 2, 2, device="meta"))


def test_duplicated_rows_do_not_break_the_start():
    x = torch.ones(20, 3)
    assert torch.equal(kmeans(x, 4, generator=generator()), torch.ones(4, 3))


def test_kmeans_from_labels_starts_at_the_means_of_the_clusters():
    x = torch.randn(60, 3, generator=generator(), dtype=torch.float64)
    labels = torch.arange(60) % 4
    expected = torch.stack([x[labels == k].mean(dim=0) for k in range(4)])
    torch.testing.assert_close(kmeans_from_labels(x, labels, n_steps=0), expected)


def test_kmeans_from_labels_lowers_the_within_cluster_distance_and_keeps_empty_clusters():
    x = torch.randn(200, 4, generator=generator())
    labels = torch.randint(6, (200,), generator=generator(1))
    first, fifth = (inertia(x, kmeans_from_labels(x, labels, n_steps=n)) for n in (1, 5))
    assert fifth < first
    apart = torch.tensor([[0.0], [0.0], [1.0]])
    centers = kmeans_from_labels(apart, torch.tensor([0, 1, 2]), n_steps=1)
    assert centers.tolist() == [[0.0], [0.0], [1.0]]
    labels = nearest_center(apart, centers.numpy())
    assert labels[0] == labels[1] != labels[2]


def test_unit_rows_have_length_one_and_rows_without_direction_stay_zero():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e-200, 0.0]])
    assert unit_rows(rows).tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, 0.0]]
    assert unit_rows(rows, lengths=np.array([10.0, 0.0, 0.0]))[0].tolist() == [0.3, 0.4]
    assert unit_rows(rows.astype(np.float32)).dtype == np.float32


def test_ward_heights_equal_scipy_with_and_without_fastcluster(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(50, 3))
    expected = linkage(rows, method="ward")[:, 2]
    np.testing.assert_allclose(ward_tree(rows)[:, 2], expected)
    importing = builtins.__import__

    def without_fastcluster(name, *args, **kwargs):
        if name == "fastcluster":
            raise ImportError(name)
        return importing(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_fastcluster)
    np.testing.assert_allclose(ward_tree(rows)[:, 2], expected)


def test_a_tree_is_cut_into_the_clusters_that_are_farthest_apart():
    rows = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    labels = cut_tree(ward_tree(rows), 3)
    assert sorted(set(labels.tolist())) == [0, 1, 2]
    assert adjusted_rand_score([0, 0, 1, 1, 2], labels) == 1.0


@pytest.fixture
def sphere():
    X, y = make_blobs(300, centers=4, n_features=6, cluster_std=0.4, random_state=1)
    return unit_rows(X.astype(np.float32)), y


@pytest.mark.parametrize("clustering", ["kmeans", "ward", AgglomerativeClustering(), KMeans(n_init=3)])
def test_assigners_find_separated_clusters(clustering, sphere):
    embedding, y = sphere
    found = resolve_assigner(clustering).assign(embedding, 4, seed=0)
    assert adjusted_rand_score(y, found.labels) == 1.0
    np.testing.assert_allclose(np.linalg.norm(found.centers, axis=1), 1.0, rtol=1e-5)
    assert (nearest_center(torch.from_numpy(embedding), found.centers) == found.labels).all()


def test_rows_are_given_to_their_centers_in_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    x, centers = (rng.normal(size=(n, 5)).astype(np.float32) for n in (1003, 7))
    whole = nearest_center(torch.from_numpy(x), centers)
    monkeypatch.setattr(assigners, "CHUNK_ENTRIES", 100)
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


def test_renumbered_clusters_keep_rows_centers_and_noise():
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


def a_large_class_and_two_small_ones(seed=0):
    rng = np.random.default_rng(seed)
    large = rng.normal(size=(3000, 2)) * [6.0, 1.0]
    small = [rng.normal(size=(20, 2)) * 0.3 + center for center in ([-10.0, 30.0], [10.0, 30.0])]
    return np.vstack([large, *small]).astype(np.float32), np.repeat([0, 1, 2], [3000, 20, 20])


def test_a_start_from_known_groups_keeps_a_large_class_whole_and_small_ones_apart():
    x, y = a_large_class_and_two_small_ones()
    known = np.concatenate([np.flatnonzero(y == k)[:5] for k in range(3)])
    start = mean_centers(x[known], y[known], spherical=False)
    assigner = assigners.KMeansAssigner(spherical=False)
    plain, started = (assigner.assign(x, 3, seed=0, start=s).labels for s in (None, start))
    assert len(np.unique(plain[y > 0])) == 1  # merged, and the large class is cut in two
    assert (started == y).all()  # clusters keep the order of the start

from __future__ import annotations

import builtins

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from spherepair.clustering.lifetime import lifetime_curves, lifetimes, ward_tree
from spherepair.clustering.partition_scan import scan_partitions
from spherepair.clustering.partitions import kmeans_steps, nearest_centre, nested_kmeans
from spherepair.clustering.silhouette import mean_silhouette, silhouette_curves


def test_mean_silhouette_equals_scikit_learn():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))
    labels = np.concatenate([[7], rng.integers(4, size=79)])  # cluster 7 has a single row
    distances = np.linalg.norm(rows[:, None] - rows, axis=2).astype(np.float32)
    expected = silhouette_score(rows, labels)
    assert mean_silhouette(distances, labels) == pytest.approx(expected, abs=1e-5)


def test_silhouette_is_largest_at_the_number_of_blobs(embedding):
    drawn = embedding(5, n_components=8, n_rows=600)
    curves = silhouette_curves(drawn.rows, 8, rng=np.random.default_rng(0), n_runs=5)
    assert curves.shape == (5, 7)
    assert curves.mean(axis=0).argmax() + 2 == 5


def test_silhouette_of_some_of_the_rows_is_near_that_of_all(embedding):
    drawn = embedding(4, n_components=6, n_rows=1200)
    some, every = (
        silhouette_curves(drawn.rows, 6, rng=np.random.default_rng(0), n_runs=1, n_scored=n)
        for n in (400, 1200)
    )
    assert some.argmax() == every.argmax() == 2
    np.testing.assert_allclose(some[0, 2], every[0, 2], atol=0.03)


def test_lifetime_is_the_gap_between_merge_heights():
    assert lifetimes(np.array([1.0, 4.0, 10.0]), 3).tolist() == pytest.approx([0.6, 0.3])


def test_lifetime_is_longest_at_the_number_of_blobs(embedding):
    drawn = embedding(5, n_components=8, n_rows=600)
    curves = lifetime_curves(drawn.rows, 8, rng=np.random.default_rng(0), n_rows=300)
    assert set(curves.argmax(axis=1) + 2) == {5}


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


def test_kmeans_steps_lower_the_within_cluster_distance_and_keep_empty_clusters():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4))
    start = rng.integers(6, size=200)
    inertia = []
    for n_steps in (1, 5):
        labels, centres = kmeans_steps(rows, start, n_steps=n_steps)
        inertia.append(((rows - centres[labels]) ** 2).sum())
    assert inertia[1] < inertia[0]
    apart = np.array([[0.0], [0.0], [1.0]])
    labels, centres = kmeans_steps(apart, np.array([0, 1, 2]), n_steps=1)
    assert len(centres) == 3
    assert labels[0] == labels[1] != labels[2]


def test_nested_kmeans_is_no_worse_than_scikit_learn_and_repeats_with_the_seed(embedding):
    rows = embedding(6, n_components=8, n_rows=900).rows
    first, second = (list(nested_kmeans(rows, 9, rng=np.random.default_rng(3))) for _ in range(2))
    assert [len(centres) for centres in first] == list(range(1, 10))
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)
    found = first[5][nearest_centre(rows, first[5])]
    expected = KMeans(6, n_init=5, random_state=0).fit(rows).inertia_
    assert np.square(rows - found).sum() == pytest.approx(expected, rel=0.01)


def test_nested_kmeans_survives_rows_that_coincide():
    *_, centres = nested_kmeans(np.ones((5, 2)), 4, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(centres, np.ones((4, 2)))


def test_nearest_centre_equals_the_literal_distances():
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    expected = np.linalg.norm(rows[:, None] - centres, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest_centre(rows, centres), expected)


def test_pairs_speak_neither_for_merging_nor_splitting_at_the_true_number(embedding):
    drawn = embedding(6, n_components=10, n_pairs=2000)
    scan = scan_partitions(
        drawn.rows,
        np.column_stack([drawn.pairs.left, drawn.pairs.right]),
        is_must_link=drawn.pairs.is_must_link,
        max_clusters=9,
        rng=np.random.default_rng(0),
    )
    merged, misfit, counted = (c.mean(axis=0) for c in (scan.merged, scan.misfit, scan.counted))
    assert merged[4] == 0
    assert np.all(merged[:4] > 20)
    assert np.all(np.delete(misfit, 4) > misfit[4] + 5)
    assert counted.argmax() == 4
    assert scan.silhouette.mean(axis=0).argmax() == 4

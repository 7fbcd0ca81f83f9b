from __future__ import annotations

import builtins

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import silhouette_score

from spherepair.clustering.lifetime import lifetime_curves, lifetimes, ward_tree
from spherepair.clustering.partition_scan import (
    link_counts,
    merge_evidence,
    scan_partitions,
    split_evidence,
)
from spherepair.clustering.partitions import kmeans_steps, nearest_centre
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


def test_nearest_centre_equals_the_literal_distances():
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    expected = np.linalg.norm(rows[:, None] - centres, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest_centre(rows, centres), expected)


def test_pairs_speak_neither_for_merging_nor_splitting_at_the_true_number(embedding):
    drawn = embedding(6, n_components=10, n_pairs=2000)
    apart = ~drawn.pairs.is_must_link
    links = np.column_stack([drawn.pairs.left, drawn.pairs.right])[apart]
    scan = scan_partitions(drawn.rows, links, max_clusters=9, rng=np.random.default_rng(0))
    merged, split = scan.merged.mean(axis=0), scan.split.mean(axis=0)
    assert merged[4] == 0
    assert split[4] == 0
    assert np.all(merged[:4] > 20)
    assert np.all(split[5:] > 3)


def test_more_cannot_links_inside_a_cluster_are_more_evidence_for_two():
    few, many = (np.array([[inside, 50.0], [50.0, 0.0]]) for inside in (20.0, 40.0))
    assert 0 < merge_evidence(few) < merge_evidence(many)
    assert split_evidence(few) == split_evidence(many) == 0


def test_link_counts_are_symmetric_and_hold_every_pair_twice():
    labels = np.random.default_rng(0).integers(4, size=(100, 2))
    counts = link_counts(labels, 4)
    np.testing.assert_array_equal(counts, counts.T)
    assert counts.sum() == 200

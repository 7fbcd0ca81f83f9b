from __future__ import annotations

import builtins

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from spherepair.clustering import silhouette
from spherepair.clustering.lifetime import lifetime_curve, lifetimes, ward_tree
from spherepair.clustering.partition_scan import height_gaps, scan_partitions
from spherepair.clustering.partitions import kmeans_centres, kmeans_steps, nearest_centre
from spherepair.clustering.silhouette import mean_silhouettes, silhouette_curves


def test_mean_silhouettes_equal_scikit_learn(monkeypatch):
    monkeypatch.setattr(silhouette, "_BLOCK_ROWS", 30)  # several blocks, the last one short
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))
    partitions = [np.concatenate([[7], rng.integers(k, size=79)]) for k in (2, 4, 6)]  # 7 has a single row
    expected = [silhouette_score(rows, labels) for labels in partitions]
    np.testing.assert_allclose(mean_silhouettes(rows, partitions), expected, atol=1e-9)
    np.testing.assert_allclose(mean_silhouettes(rows.astype(np.float32), partitions), expected, atol=1e-4)


def test_a_single_cluster_and_rows_in_one_place_have_silhouette_zero():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    assert mean_silhouettes(rows, [np.zeros(20, dtype=int)]).tolist() == [0.0]
    assert mean_silhouettes(np.ones((20, 3)), [np.arange(20) % 2]).tolist() == [0.0]


def test_silhouette_curve_is_that_of_independent_runs_of_scikit_learn(embedding):
    rows = embedding(5, n_components=8, n_rows=400, noise=0.3).rows
    curves = silhouette_curves(rows, 8, rng=np.random.default_rng(0))
    assert curves.shape == (5, 7)
    for place, k in ((0, 2), (3, 5)):  # where K-means has one optimum that every start finds
        labels = KMeans(k, n_init=10, random_state=0).fit_predict(rows)
        best = curves[:, place].max()
        assert best == pytest.approx(silhouette_score(rows, labels), abs=0.02)
    assert curves.mean(axis=0).argmax() + 2 == 5


def test_every_run_of_the_silhouette_draws_its_own_rows(embedding):
    rows = embedding(4, n_components=6, n_rows=1200, noise=0.5).rows
    curves = silhouette_curves(rows, 4, rng=np.random.default_rng(0), n_rows=200)
    assert len(np.unique(curves[:, 2])) == 5


def test_lifetime_is_the_gap_between_merge_heights():
    assert lifetimes(np.array([1.0, 4.0, 10.0]), 3).tolist() == pytest.approx([0.6, 0.3])


def test_lifetimes_equal_the_definition_on_the_tree_of_scipy(embedding):
    rows = embedding(5, n_components=8, n_rows=300).rows
    heights = linkage(rows, method="ward")[:, 2]
    merges = {len(rows) - place: height for place, height in enumerate(heights)}  # d_K': K' to K' - 1
    expected = [(merges[k] - merges[k + 1]) / merges[2] for k in range(2, 10)]
    found = lifetime_curve(rows, 9, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found, expected)
    assert found.argmax() + 2 == 5


def test_lifetime_of_some_of_the_rows_is_longest_at_the_number_of_blobs(embedding):
    rows = embedding(5, n_components=8, n_rows=600).rows
    assert lifetime_curve(rows, 8, rng=np.random.default_rng(0), n_rows=300).argmax() + 2 == 5


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


def test_kmeans_is_no_worse_than_scikit_learn_and_repeats_with_the_seed(embedding):
    rows = embedding(6, n_components=8, n_rows=900).rows
    first, second = (kmeans_centres(rows, 6, rng=np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    found = first[nearest_centre(rows, first)]
    expected = KMeans(6, n_init=5, random_state=0).fit(rows).inertia_
    assert np.square(rows - found).sum() == pytest.approx(expected, rel=0.01)


def test_kmeans_survives_rows_that_coincide():
    centres = kmeans_centres(np.ones((5, 2)), 4, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(centres, np.ones((4, 2)))


def test_nearest_centre_equals_the_literal_distances():
    rng = np.random.default_rng(0)
    rows, centres = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    expected = np.linalg.norm(rows[:, None] - centres, axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest_centre(rows, centres), expected)


def test_pairs_and_tree_speak_for_the_true_number_in_every_resample(embedding):
    drawn = embedding(6, n_components=10, n_pairs=2000)
    resamples = np.random.default_rng(1).poisson(1.0, size=(6, len(drawn.pairs.left))).astype(float)
    scan = scan_partitions(
        drawn.rows,
        np.column_stack([drawn.pairs.left, drawn.pairs.right]),
        is_must_link=drawn.pairs.is_must_link,
        resamples=resamples,
        max_clusters=9,
        rng=np.random.default_rng(0),
    )
    assert scan.counted.shape == scan.misfit.shape == scan.gap.shape == (6, 8)
    assert np.all(scan.merged[:, 4] == 0)
    assert np.all(scan.merged[:, :4] > 10)
    assert np.all(np.delete(scan.misfit, 4, axis=1) > scan.misfit[:, 4:5])
    assert np.median(scan.counted.argmax(axis=1)) == 4
    assert set(scan.gap.argmax(axis=1)) == {4}
    assert len(np.unique(scan.counted[:, 4])) == 6


def test_height_gaps_are_alike_for_a_power_law_and_stand_out_at_the_number_of_clusters():
    ranks = np.arange(1, 200)
    smooth = height_gaps((1.0 / ranks)[::-1], 30)
    assert smooth.max() < 1
    apart = height_gaps(np.where(ranks < 20, 10.0, 1.0 / ranks)[::-1], 30)
    assert apart.argmax() + 2 == 20
    assert apart.max() > 10 * np.delete(apart, 18).max()


def test_height_gaps_of_few_rows_and_of_rows_in_one_place_are_finite():
    assert height_gaps(np.zeros(5), 4).tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(height_gaps(np.array([1.0, 2.0]), 8)).all()

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from spherepair.clustering import partitions
from spherepair.clustering.partitions import (
    height_gaps,
    lifetime_curve,
    lifetimes,
    mean_silhouettes,
    sample_rows,
    silhouette_curves,
)


def test_mean_silhouettes_equal_scikit_learn(monkeypatch):
    monkeypatch.setattr(partitions, "_BLOCK_ROWS", 30)  # several blocks, the last one short
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))
    labelings = [np.concatenate([[7], rng.integers(k, size=79)]) for k in (2, 4, 6)]  # 7 has a single row
    expected = [silhouette_score(rows, labels) for labels in labelings]
    np.testing.assert_allclose(mean_silhouettes(rows, labelings), expected, atol=1e-9)
    np.testing.assert_allclose(mean_silhouettes(rows.astype(np.float32), labelings), expected, atol=1e-4)


def test_a_single_cluster_and_rows_in_one_place_have_silhouette_zero():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    assert mean_silhouettes(rows, [np.zeros(20, dtype=int)]).tolist() == [0.0]
    assert mean_silhouettes(np.ones((20, 3)), [np.arange(20) % 2]).tolist() == [0.0]


def test_silhouette_curve_is_that_of_independent_runs_of_scikit_learn(embedding):
    rows = embedding(5, n_components=8, n_rows=400, noise=0.3).rows
    curves = silhouette_curves(rows, 8, rng=np.random.default_rng(0))
    assert curves.shape == (5, 7)
    for place, k in ((0, 2), (3, 5)):  # where k-means has one optimum that every start finds
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


def test_silhouette_curves_repeat_with_the_seed(embedding):
    rows = embedding(4, n_components=6, n_rows=600, noise=0.5).rows
    first, second = (silhouette_curves(rows, 5, rng=np.random.default_rng(3), n_rows=200) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_sampled_rows_are_different_and_in_order():
    drawn = sample_rows(1000, 50, rng=np.random.default_rng(0))
    assert len(drawn) == 50
    assert (np.diff(drawn) > 0).all()
    assert drawn.max() < 1000

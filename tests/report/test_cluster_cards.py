"""Clusters in numbers: silhouettes, column profiles, and constraints counted once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spherepair import Constraints
from spherepair.estimators.trust.profiles import profile_columns
from spherepair.report import build_report
from spherepair.report.cluster_cards import measure_membership


def test_silhouette_is_one_on_the_center_zero_between_and_negative_beyond():
    centers = np.array([[0.0, 0], [4, 0], [0, 40]])
    rows = np.array([[0.0, 0], [2, 0], [3, 0]])
    membership = measure_membership(rows, np.zeros(3, dtype=np.int64), centers=centers)
    assert membership.silhouettes == pytest.approx([1.0, 0.0, -2 / 3])
    assert membership.next_clusters.tolist() == [1, 1, 1]
    assert membership.is_borderline.tolist() == [False, True, True]


def test_row_without_a_cluster_has_silhouette_zero_and_in_a_single_cluster_one():
    rows = np.array([[0.0, 1], [1, 0]])
    noise = measure_membership(rows, np.array([-1, 0]), centers=np.eye(2)[::-1])
    assert (noise.silhouettes[0], noise.next_clusters[0], noise.is_borderline[0]) == (0.0, 0, False)
    single = measure_membership(rows, np.array([0, 0]), centers=np.ones((1, 2)))
    assert single.silhouettes.tolist() == [1.0, 1.0]
    assert single.next_clusters.tolist() == [-1, -1]


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_profiles_equal_plain_means(convert):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(loc=1e6, size=(50, 4)) * (rng.random((50, 4)) < 0.5), rng.integers(-1, 3, 50)
    found = profile_columns(convert(X), labels, n_clusters=3)
    assert found.mean == pytest.approx(X.mean(axis=0))
    assert found.spread == pytest.approx(X.std(axis=0))
    for cluster in range(3):
        assert found.cluster_means[cluster] == pytest.approx(X[labels == cluster].mean(axis=0))


def test_spread_of_a_large_and_almost_constant_column_survives():
    X = np.column_stack([1e9 + np.arange(10.0), np.full(10, 7.0)])
    found = profile_columns(X, np.arange(10) % 2, n_clusters=2)
    assert found.spread == pytest.approx([np.arange(10).std(), 0.0])


def test_each_must_link_is_counted_in_one_cluster_and_never_twice(blobs):
    X, labels, model = blobs
    pairs = Constraints.from_labels(labels, 200, random_state=0)
    broken = Constraints.from_pairs(must_link=[(0, 1), (3, 5)], cannot_link=[(0, 6)])
    cards = build_report(model, X, pairs | broken).clusters
    n_must, n_cannot = pairs.is_must_link.sum(), (~pairs.is_must_link).sum()
    assert sum(card.n_must_links for card in cards) == n_must
    assert sum(card.n_cannot_links for card in cards) == 2 * n_cannot
    for card in cards:
        inside = (labels[pairs.left] == card.cluster) & (labels[pairs.right] == card.cluster)
        assert card.n_must_links == inside.sum()


def test_must_links_of_the_clusters_add_up_to_the_satisfied_ones(digits):
    report = build_report(digits.model, digits.X, digits.other_pairs)
    assert sum(card.n_must_links for card in report.clusters) == report.satisfaction.counts[0].n_satisfied
    assert report.satisfaction.counts[0].n_violated > 0

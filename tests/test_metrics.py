from __future__ import annotations

import itertools
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

from spherepair import metrics
from spherepair.errors import InvalidConstraintsError, InvalidDataError

labelings = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2)
)


def brute_force_accuracy(y_true, y_pred):
    """Try every injective map of clusters to classes, with spare classes that match nothing."""
    together = Counter(zip(y_pred, y_true, strict=True))
    clusters = set(y_pred)
    targets = [*set(y_true), *(-1 - k for k in range(len(clusters)))]
    return max(
        sum(together[matched] for matched in zip(clusters, choice, strict=True)) / len(y_true)
        for choice in itertools.permutations(targets, len(clusters))
    )


@settings(deadline=None)
@given(labelings)
def test_accuracy_equals_the_best_of_all_matchings(labels):
    assert metrics.clustering_accuracy(*labels) == pytest.approx(brute_force_accuracy(*labels))


@settings(deadline=None, max_examples=40)
@given(labelings, st.permutations(range(4)), st.permutations(["a", "b", "c", "d"]))
def test_scores_do_not_change_when_labels_are_renamed(labels, true_names, pred_names):
    y_true, y_pred = labels
    before = metrics.cluster_scores(y_true, y_pred)
    after = metrics.cluster_scores([true_names[y] for y in y_true], [pred_names[c] for c in y_pred])
    for score in ("accuracy", "nmi", "ari"):
        assert getattr(after, score) == pytest.approx(getattr(before, score), abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(labelings)
def test_scores_are_bounded_and_symmetric(labels):
    y_true, y_pred = labels
    scores, swapped = metrics.cluster_scores(y_true, y_pred), metrics.cluster_scores(y_pred, y_true)
    assert 0 < scores.accuracy <= 1
    assert 0 <= scores.nmi <= 1
    assert -1 <= scores.ari <= 1
    assert scores.accuracy == pytest.approx(swapped.accuracy)
    assert scores.nmi == pytest.approx(swapped.nmi)


@settings(deadline=None, max_examples=40)
@given(labelings)
def test_labels_score_one_against_themselves(labels):
    scores = metrics.cluster_scores(labels[0], labels[0])
    assert (scores.accuracy, scores.ari) == (1.0, 1.0)
    assert scores.nmi == pytest.approx(1.0)


@pytest.mark.parametrize(("n_classes", "n_clusters"), [(10, 10), (3, 40), (40, 3), (200, 150)])
def test_accuracy_equals_dense_hungarian_on_larger_tables(n_classes, n_clusters):
    rng = np.random.default_rng(0)
    y_true = rng.integers(0, n_classes, 3000)
    y_pred = np.where(rng.random(3000) < 0.5, y_true % n_clusters, rng.integers(0, n_clusters, 3000))
    table = np.zeros((n_classes, n_clusters))
    np.add.at(table, (y_true, y_pred), 1)
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    assert metrics.clustering_accuracy(y_true, y_pred) == pytest.approx(matched / 3000)


def test_surplus_clusters_count_as_wrong():
    assert metrics.clustering_accuracy([0, 0, 0, 0], [0, 0, 1, 2]) == 0.5


def test_million_labels_take_about_a_second_even_with_a_cluster_per_row():
    rng = np.random.default_rng(0)
    y_true = rng.integers(0, 10, 1_000_000)
    start = time.perf_counter()
    assert metrics.clustering_accuracy(y_true, (y_true + 1) % 10) == 1.0
    assert metrics.clustering_accuracy(y_true, np.arange(1_000_000)) == 10 / 1_000_000
    assert time.perf_counter() - start < 5


def test_nmi_is_geometric_unless_told_otherwise():
    y_true, y_pred = [0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1]
    for average in ("geometric", "arithmetic", "min", "max"):
        expected = normalized_mutual_info_score(y_true, y_pred, average_method=average)
        found = metrics.normalized_mutual_information(y_true, y_pred, average=average)
        assert found == pytest.approx(expected)
    geometric = normalized_mutual_info_score(y_true, y_pred, average_method="geometric")
    assert metrics.normalized_mutual_information(y_true, y_pred) == pytest.approx(geometric)
    assert metrics.cluster_scores(y_true, y_pred).nmi == pytest.approx(geometric)


@settings(deadline=None)
@given(labelings)
def test_matched_labels_agree_as_often_as_the_accuracy_says(labels):
    y_true, y_pred = labels
    renamed = metrics.match_labels(y_true, y_pred)
    accuracy = metrics.clustering_accuracy(y_true, y_pred)
    assert np.mean(renamed == np.array(y_true)) == pytest.approx(accuracy)
    assert metrics.adjusted_rand_index(renamed, y_pred) == 1.0


def test_surplus_clusters_get_names_of_their_own():
    assert metrics.match_labels([0, 0, 4, 4, 4], [9, 9, 8, 8, 7]).tolist() == [0, 0, 4, 4, 5]
    names = metrics.match_labels(["a", "a", "a", "b"], [1, 1, 2, 3]).tolist()
    assert names == ["a", "a", "unmatched 1", "b"]


def test_cluster_without_overlap_takes_a_class_left_over():
    renamed = metrics.match_labels([0, 0, 0, 0, 1], ["x", "x", "x", "y", "x"])
    assert sorted(set(renamed.tolist())) == [0, 1]


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([], [], r"y_true must be a list of at least one label, got shape \(0,\)"),
        ([0, 1], [0], "same length, got 2 and 1"),
        ([[0, 1]], [[0, 1]], r"shape \(1, 2\)"),
        ([0.0, np.nan], [0, 1], "y_true has 1 NaN labels"),
        ([0, 1], np.array([None, "a"], dtype=object), "y_pred must hold numbers only or strings"),
    ],
)
def test_unusable_labels_are_refused(y_true, y_pred, message):
    with pytest.raises(InvalidDataError, match=message):
        metrics.clustering_accuracy(y_true, y_pred)


def test_pair_shares_are_counted_by_kind():
    found = metrics.pair_satisfaction(
        ["a", "a", "b", "b"], [0, 0, 1, 2], [1, 2, 2, 3], [True, True, False, False]
    )
    assert found == metrics.PairSatisfaction(
        total=0.5, must_link=0.5, cannot_link=0.5, n_must_link=2, n_cannot_link=2
    )


def test_pair_shares_are_weighted():
    found = metrics.pair_satisfaction([0, 0, 1], [0, 0], [1, 2], [1, 1], weight=[3.0, 1.0])
    assert (found.total, found.must_link) == (0.75, 0.75)


@pytest.mark.parametrize("weight", [None, []])
def test_no_pairs_violate_nothing(weight):
    found = metrics.pair_satisfaction([0, 1], [], [], [], weight)
    assert (found.total, found.must_link, found.cannot_link) == (1.0, 1.0, 1.0)
    assert (found.n_must_link, found.n_cannot_link) == (0, 0)


def test_pairs_of_weight_zero_violate_nothing():
    assert metrics.pair_satisfaction([0, 1], [0], [1], [True], [0.0]).total == 1.0


@settings(deadline=None)
@given(labelings, st.randoms(use_true_random=False))
def test_pair_share_equals_counting_one_by_one(labels, random):
    rows, n = labels[0], len(labels[0])
    pairs = [(random.randrange(n), random.randrange(n), random.random() < 0.5) for _ in range(9)]
    expected = np.mean([(rows[i] == rows[j]) == must for i, j, must in pairs])
    left, right, must = zip(*pairs, strict=True)
    assert metrics.pair_satisfaction(rows, left, right, must).total == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": [0, 7]}, "left: pair 1 names row 7, but labels has rows 0 to 2"),
        ({"right": [-1, 1]}, "right: pair 0 names row -1"),
        ({"left": [0.5, 1.0]}, "left must be a list of whole row numbers, got 1-d float64"),
        ({"right": [1]}, r"same length, got \(2, 1, 2, 2\)"),
        ({"weight": [1.0, -1.0]}, "weight: pair 1 has weight -1.0"),
        ({"weight": [np.nan, 1.0]}, "weight: pair 0 has weight nan"),
        ({"is_must_link": ["must", "cannot"]}, "is_must_link must hold True and False"),
        ({"is_must_link": [1, -1]}, "is_must_link must hold True and False"),
    ],
)
def test_unusable_pairs_are_refused(change, message):
    pairs = {"left": [0, 1], "right": [1, 2], "is_must_link": [True, False]}
    with pytest.raises(InvalidConstraintsError, match=message):
        metrics.pair_satisfaction([0, 1, 2], **{**pairs, **change})

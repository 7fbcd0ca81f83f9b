from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spherepair.clustering.pair_counts import (
    ClassCount,
    PairCounts,
    cannot_link_table,
    count_classes,
    count_distance,
    count_evidence,
    count_pairs,
    group_fragments,
    merge_evidence,
    size_misfit,
)


def random_pairs(shares, n_pairs, *, seed=0):
    """Classes of both ends of random pairs, shape (m, 2), and whether they are must-links."""
    classes = np.random.default_rng(seed).choice(len(shares), (n_pairs, 2), p=shares)
    return classes, classes[:, 0] == classes[:, 1]


def ideal_counts(shares, clusters, n_pairs=1e9):
    """Counts without sampling error, when class c lies in cluster clusters[c]."""
    shares, n_clusters = np.asarray(shares), max(clusters) + 1
    must, ends, apart = (np.zeros(n_clusters) for _ in range(3))
    np.add.at(must, clusters, n_pairs * shares**2)
    np.add.at(ends, clusters, n_pairs * shares)
    for k in range(n_clusters):
        inside = shares[np.asarray(clusters) == k]
        apart[k] = n_pairs * (inside.sum() ** 2 - (inside**2).sum())
    return PairCounts(must, ends - must, apart)


def test_pairs_are_counted_half_at_each_end():
    labels = np.array([[0, 0], [0, 2], [2, 2], [1, 2]])
    counts = count_pairs(labels, np.array([True, True, False, False]), n_clusters=3)
    np.testing.assert_array_equal(counts.must, [1.5, 0.0, 0.5])
    np.testing.assert_array_equal(counts.cannot, [0.0, 0.5, 1.5])
    np.testing.assert_array_equal(counts.cannot_inside, [0.0, 0.0, 1.0])


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_every_pair_is_counted_once_whatever_the_order_of_its_ends(seed):
    rng = np.random.default_rng(seed)
    labels, is_must_link = rng.integers(5, size=(50, 2)), rng.random(50) < 0.3
    counts = count_pairs(labels, is_must_link, n_clusters=5)
    swapped = count_pairs(labels[:, ::-1], is_must_link, n_clusters=5)
    assert counts.must.sum() == is_must_link.sum()
    assert counts.cannot.sum() == (~is_must_link).sum()
    np.testing.assert_array_equal(counts.must, swapped.must)
    np.testing.assert_array_equal(counts.cannot_inside, swapped.cannot_inside)


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=12))
@settings(max_examples=50)
def test_the_right_partition_gives_the_number_of_classes_however_unequal(sizes):
    shares = np.array(sizes) / sum(sizes)
    counts = ideal_counts(shares, list(range(len(shares))))
    assert count_classes(counts).value == pytest.approx(len(shares), rel=1e-3)
    assert size_misfit(counts) == pytest.approx(0, abs=1e-6)


@given(st.lists(st.floats(0.05, 1.0), min_size=3, max_size=12), st.data())
@settings(max_examples=50)
def test_a_partition_that_mixes_classes_never_counts_too_many(sizes, data):
    shares = np.array(sizes) / sum(sizes)
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)))
    _, clusters = np.unique(chosen, return_inverse=True)
    assume(clusters.max() + 1 < len(shares))
    counts = ideal_counts(shares, clusters.tolist())
    assert count_classes(counts).value <= len(shares) * (1 + 1e-6)
    assert count_classes(counts).value >= 1 / (shares**2).sum() * (1 - 1e-6)


def test_equal_classes_are_counted_right_by_any_partition():
    for clusters in ([0] * 10, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2], list(range(10))):
        counts = ideal_counts(np.full(10, 0.1), clusters)
        assert count_classes(counts).value == pytest.approx(10, rel=1e-3)


@pytest.mark.parametrize(("n_pairs", "bias"), [(300, 0.1), (1000, 0.04), (5000, 0.01)])
def test_the_count_is_right_on_average_and_its_error_is_what_it_says(n_pairs, bias):
    found = []
    for seed in range(200):
        labels, is_must_link = random_pairs(np.full(10, 0.1), n_pairs, seed=seed)
        found.append(count_classes(count_pairs(labels, is_must_link, n_clusters=10)))
    values = np.array([count.value for count in found])
    said = np.mean([count.value * count.relative_error for count in found])
    assert values.mean() == pytest.approx(10, rel=bias)
    # Values scatter a little less than they say: sizes and must-links of the same pairs go together.
    assert 0.6 < values.std() / said < 1.1


def test_misfit_is_lowest_where_every_cluster_is_one_class():
    shares = np.full(6, 1 / 6)
    labels, is_must_link = random_pairs(shares, 3000)
    right = size_misfit(count_pairs(labels, is_must_link, n_clusters=6))
    two_in_one = size_misfit(count_pairs(np.minimum(labels, 4), is_must_link, n_clusters=5))
    halves = labels + 6 * ((labels == 5) & (np.arange(6000).reshape(-1, 2) % 2 == 0))
    two_parts = size_misfit(count_pairs(halves, is_must_link, n_clusters=12))
    assert right < 10
    assert two_in_one > right + 10
    assert two_parts > right + 5


def test_cannot_links_alone_say_nothing_about_sizes():
    counts = PairCounts(np.zeros(3), np.array([10.0, 20.0, 30.0]), np.zeros(3))
    assert size_misfit(counts) == 0


def test_evidence_of_the_count_is_bounded_and_best_at_the_count():
    found = ClassCount(10.0, 0.04)
    evidence = [count_evidence(found, k) for k in range(2, 100)]
    assert int(np.argmax(evidence)) + 2 == 10
    assert min(evidence) > -4
    assert count_distance(found, 9) > count_distance(ClassCount(10.0, 0.1), 9)


def test_more_cannot_links_inside_a_cluster_are_more_evidence_for_two():
    few, many = (
        PairCounts(np.zeros(2), np.array([40.0, 30.0]), np.array([inside, 0.0])) for inside in (12.0, 20.0)
    )
    assert 0 < merge_evidence(few) < merge_evidence(many)


def fragments_of(classes, *, per_class, leaked=0.0, seed=0):
    """Cannot-links between random fragments of classes, of which a share runs inside their class."""
    rng = np.random.default_rng(seed)
    inside = rng.random(len(classes)) < leaked
    apart = classes[(classes[:, 0] != classes[:, 1]) | inside]
    fragments = apart * per_class + rng.integers(per_class, size=apart.shape)
    return cannot_link_table(fragments, n_clusters=per_class * (classes.max() + 1))


def test_table_of_cannot_links_has_each_once_on_both_sides():
    table = cannot_link_table(np.array([[0, 1], [2, 1], [1, 2], [2, 2]]), n_clusters=3)
    np.testing.assert_array_equal(table, [[0, 1, 0], [1, 0, 2], [0, 2, 2]])


@pytest.mark.parametrize("n_clusters", [2, 3, 5, 10])
@pytest.mark.parametrize("leaked", [0.0, 0.2])
def test_fragments_are_merged_into_their_classes(n_clusters, leaked):
    classes, _ = random_pairs(np.full(n_clusters, 1 / n_clusters), 10_000)
    table = fragments_of(classes, per_class=3, leaked=leaked)
    assert group_fragments(table, 3 * n_clusters - 1).argmax() + 2 == n_clusters


def test_a_fragment_of_rows_between_two_classes_makes_no_class_of_its_own():
    classes, _ = random_pairs(np.full(6, 1 / 6), 10_000)
    apart = classes[classes[:, 0] != classes[:, 1]]
    between = (apart < 2) & (np.random.default_rng(1).random(apart.shape) < 0.03)
    apart = np.where(between, 6, apart)
    table = cannot_link_table(apart[~between.all(axis=1)], n_clusters=7)
    assert group_fragments(table, 7).argmax() + 2 == 6


def test_grouping_does_not_depend_on_the_share_of_must_links_or_the_order_of_fragments():
    classes, is_must_link = random_pairs(np.full(5, 0.2), 4000)
    table = fragments_of(classes[~is_must_link], per_class=2)
    order = np.random.default_rng(2).permutation(len(table))
    mixed = group_fragments(table[order][:, order], 9)
    np.testing.assert_allclose(group_fragments(table, 9), mixed)


def test_more_groups_than_fragments_are_only_punished():
    grouped = group_fragments(30.0 * (1 - np.eye(3)), 6)
    assert grouped.argmax() + 2 == 3
    assert np.all(np.diff(grouped[1:]) < 0)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spherepair.clustering.pair_counts import (
    ClassCount,
    PairCounts,
    count_classes,
    count_distance,
    count_evidence,
    count_pairs,
    merge_evidence,
    scan_partitions,
    size_misfit,
)


def random_pairs(shares, n_pairs, *, seed=0):
    """Classes of both ends of random pairs, shape (m, 2), and whether they are must-links."""
    classes = np.random.default_rng(seed).choice(len(shares), (n_pairs, 2), p=shares)
    return classes, classes[:, 0] == classes[:, 1]


def ideal_counts(shares, clusters, n_pairs=1e9):
    """Counts without sampling error, when class c lies in cluster clusters[c]."""
    shares, n_clusters = np.asarray(shares), max(clusters) + 1
    must, ends = np.zeros((2, n_clusters))
    np.add.at(must, clusters, n_pairs * shares**2)
    np.add.at(ends, clusters, n_pairs * shares)
    return PairCounts(must[None], (ends - must)[None], np.zeros((1, n_clusters)))


def test_pairs_are_counted_half_at_each_end():
    labels = np.array([[0, 0], [0, 2], [2, 2], [1, 2]])
    counts = count_pairs(labels, np.array([True, True, False, False]), n_clusters=3)
    np.testing.assert_array_equal(counts.must, [[1.5, 0.0, 0.5]])
    np.testing.assert_array_equal(counts.cannot, [[0.0, 0.5, 1.5]])
    np.testing.assert_array_equal(counts.cannot_inside, [[0.0, 0.0, 1.0]])


def test_a_resample_counts_each_pair_as_often_as_it_was_drawn():
    rng = np.random.default_rng(0)
    labels, is_must_link = rng.integers(4, size=(60, 2)), rng.random(60) < 0.4
    times = rng.poisson(1.0, size=(3, 60))
    counts = count_pairs(labels, is_must_link, n_clusters=4, resamples=times.astype(float))
    for line in range(3):
        drawn = np.repeat(np.arange(60), times[line])
        repeated = count_pairs(labels[drawn], is_must_link[drawn], n_clusters=4)
        np.testing.assert_allclose(counts.must[line], repeated.must[0])
        np.testing.assert_allclose(counts.cannot[line], repeated.cannot[0])


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


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=12))
@settings(max_examples=50)
def test_the_right_partition_gives_the_number_of_classes_however_unequal(sizes):
    shares = np.array(sizes) / sum(sizes)
    counts = ideal_counts(shares, list(range(len(shares))))
    assert count_classes(counts).value[0] == pytest.approx(len(shares), rel=1e-3)
    assert size_misfit(counts)[0] == pytest.approx(0, abs=1e-6)


@given(st.lists(st.floats(0.05, 1.0), min_size=3, max_size=12), st.data())
@settings(max_examples=50)
def test_a_partition_that_mixes_classes_never_counts_too_many(sizes, data):
    shares = np.array(sizes) / sum(sizes)
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)))
    _, clusters = np.unique(chosen, return_inverse=True)
    assume(clusters.max() + 1 < len(shares))
    counts = ideal_counts(shares, clusters.tolist())
    assert count_classes(counts).value[0] <= len(shares) * (1 + 1e-6)
    assert count_classes(counts).value[0] >= 1 / (shares**2).sum() * (1 - 1e-6)


def test_equal_classes_are_counted_right_by_any_partition():
    for clusters in ([0] * 10, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2], list(range(10))):
        counts = ideal_counts(np.full(10, 0.1), clusters)
        assert count_classes(counts).value[0] == pytest.approx(10, rel=1e-3)


@pytest.mark.parametrize(("n_pairs", "bias"), [(300, 0.1), (1000, 0.04), (5000, 0.01)])
def test_the_count_is_right_on_average_and_its_error_is_what_it_says(n_pairs, bias):
    found = []
    for seed in range(200):
        labels, is_must_link = random_pairs(np.full(10, 0.1), n_pairs, seed=seed)
        found.append(count_classes(count_pairs(labels, is_must_link, n_clusters=10)))
    values = np.array([count.value[0] for count in found])
    said = np.mean([count.value[0] * count.relative_error[0] for count in found])
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
    counts = PairCounts(np.zeros((1, 3)), np.array([[10.0, 20.0, 30.0]]), np.zeros((1, 3)))
    assert size_misfit(counts)[0] == 0


def test_evidence_of_the_count_is_bounded_and_best_at_the_count():
    found = ClassCount(np.array([10.0]), np.array([0.04]))
    evidence = [count_evidence(found, k)[0] for k in range(2, 100)]
    assert int(np.argmax(evidence)) + 2 == 10
    assert min(evidence) > -4
    unsure = ClassCount(np.array([10.0]), np.array([0.1]))
    assert count_distance(found, 9) > count_distance(unsure, 9)


def test_more_cannot_links_inside_a_cluster_are_more_evidence_for_two():
    inside = np.array([[0.0, 0.0], [12.0, 0.0], [20.0, 0.0]])
    counts = PairCounts(np.zeros((3, 2)), np.tile([40.0, 30.0], (3, 1)), inside)
    none, few, many = merge_evidence(counts)
    assert none == 0
    assert 0 < few < many


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

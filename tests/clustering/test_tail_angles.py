from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from spherepair.clustering.tail_angles import tail_angles


def simplex_rows(n_clusters: int, n_components: int, n_rows: int = 60):
    labels = np.arange(n_rows) % n_clusters
    left, right = np.triu_indices(n_rows, 1)
    apart = labels[left] != labels[right]
    return np.eye(n_components)[labels], left[apart], right[apart]


def literal_tail_angles(rows, left, right, ratio):
    """Algorithm 2 as printed, one dimension after the other."""
    used = np.unique(np.concatenate([left, right]))
    pca = PCA(svd_solver="full").fit(rows[used])
    scores = pca.transform(rows)
    curve = []
    for d in range(1, rows.shape[1] + 1):
        a, b = scores[left, :d], scores[right, :d]
        cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        angles = np.sort(np.arccos(np.clip(cosine, -1, 1)))
        curve.append(angles[: int(np.ceil(ratio * len(angles)))].mean())
    return np.array(curve)


@pytest.mark.parametrize("ratio", [0.03, 0.05, 0.1, 1.0])
def test_curve_equals_the_literal_algorithm(ratio):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 7))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = rng.integers(300, size=(2, 700))
    left, right = left[left != right], right[left != right]
    curve = tail_angles(rows, left, right=right, tail_ratios=(ratio,)).curves[0]
    np.testing.assert_allclose(curve, literal_tail_angles(rows, left, right, ratio), atol=1e-9)


@pytest.mark.parametrize(("n_pairs", "ratio"), [(30, 0.1), (100, 0.05), (20, 0.05)])
def test_a_whole_number_of_pairs_is_not_rounded_up_further(n_pairs, ratio):
    rows = np.random.default_rng(0).normal(size=(2 * n_pairs, 4))
    left, right = np.arange(n_pairs), np.arange(n_pairs, 2 * n_pairs)
    centered = rows - rows.mean(axis=0)
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    angles = np.sort(np.arccos((unit[left] * unit[right]).sum(axis=1)))
    curve = tail_angles(rows, left, right=right, tail_ratios=(ratio,)).curves[0]
    assert curve[-1] == pytest.approx(angles[: round(n_pairs * ratio)].mean())


@pytest.mark.parametrize("n_clusters", [3, 5, 10])
def test_ideal_clusters_start_at_zero_and_settle_at_the_simplex_angle_at_k_minus_one(n_clusters):
    rows, left, right = simplex_rows(n_clusters, 14)
    curve = tail_angles(rows, left, right=right).curves[0]
    simplex_angle = np.arccos(-1 / (n_clusters - 1))
    assert curve[0] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(curve[n_clusters - 2 :], simplex_angle, atol=1e-6)
    assert np.all(curve[: n_clusters - 2] < simplex_angle - 0.01)


def test_two_ideal_clusters_are_flat_at_pi():
    rows, left, right = simplex_rows(2, 6)
    np.testing.assert_allclose(tail_angles(rows, left, right=right).curves, np.pi, atol=1e-6)


def test_unequal_clusters_settle_between_sixty_degrees_and_the_simplex_angle():
    labels = np.repeat(np.arange(4), [100, 10, 5, 5])
    left, right = np.triu_indices(len(labels), 1)
    apart = labels[left] != labels[right]
    curve = tail_angles(np.eye(8)[labels], left[apart], right=right[apart]).curves[0]
    assert np.pi / 3 < curve[-1] < np.arccos(-1 / 3)
    np.testing.assert_allclose(curve[2:], curve[-1], atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_curve_is_unchanged_by_rotation_and_by_swapping_the_ends(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.arange(20), np.arange(20, 40)
    curve = tail_angles(rows, left, right=right, tail_ratios=(0.2,)).curves
    turned = rows @ ortho_group.rvs(5, random_state=seed)
    np.testing.assert_allclose(
        curve, tail_angles(turned, right, right=left, tail_ratios=(0.2,)).curves, atol=1e-7
    )


def test_pair_with_double_weight_counts_as_two_pairs():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.arange(30), np.arange(30, 60)
    times = np.where(np.arange(30) < 10, 2, 1)
    weighted = tail_angles(rows, left, right=right, weight=times.astype(float), tail_ratios=(1.0,))
    repeated = tail_angles(rows, np.repeat(left, times), right=np.repeat(right, times), tail_ratios=(1.0,))
    np.testing.assert_allclose(weighted.curves, repeated.curves, atol=1e-9)


def test_resamples_scatter_around_the_curve():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = rng.integers(500, size=(2, 2000))
    found = tail_angles(rows, left, right=right, resamples=rng.poisson(1.0, size=(30, 2000)).astype(float))
    assert found.resampled.shape == (1, 30, 6)
    spread = found.resampled[0].std(axis=0)
    assert np.all(spread[1:] > 0)
    offset = np.abs(found.resampled[0].mean(axis=0) - found.curves[0])
    assert np.all(offset[1:] < 2 * spread[1:])


def test_a_resample_is_the_curve_of_the_pairs_drawn():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.arange(100), np.arange(100, 200)
    times = rng.poisson(1.0, size=(1, 100))
    found = tail_angles(rows, left, right=right, tail_ratios=(0.2,), resamples=times.astype(float))
    weighted = tail_angles(rows, left, right=right, tail_ratios=(0.2,), weight=times[0] / times.mean())
    np.testing.assert_allclose(found.resampled[0, 0], weighted.curves[0], atol=1e-9)


def test_a_resample_without_any_pair_falls_back_on_all_pairs():
    rows = np.eye(4)
    found = tail_angles(rows, np.array([0]), right=np.array([1]), resamples=np.zeros((1, 1)))
    np.testing.assert_array_equal(found.resampled[:, 0], found.curves)


def test_ten_thousand_pairs_in_twenty_dimensions_take_a_fraction_of_a_second():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(15_000, 20))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = rng.integers(15_000, size=(2, 10_000))
    start = time.perf_counter()
    resamples = rng.poisson(1.0, size=(20, 10_000)).astype(float)
    tail_angles(rows, left, right=right, tail_ratios=(0.03, 0.05, 0.1), resamples=resamples)
    assert time.perf_counter() - start < 2.0


def test_cost_grows_with_the_pairs_and_not_faster():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 10))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = rng.integers(20_000, size=(2, 200_000))
    start = time.perf_counter()
    tail_angles(rows, left, right=right)
    assert time.perf_counter() - start < 5.0
    tracemalloc.start()
    tail_angles(rows, left, right=right)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * len(left)

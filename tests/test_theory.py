from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA

from spherepair import theory
from spherepair.errors import InvalidParameterError

sizes = st.lists(st.integers(1, 200), min_size=3, max_size=7)


def angles_between(vectors):
    """Pairwise angles through chords, exact to the last digits anywhere in [0, pi]."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    minus = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    plus = np.linalg.norm(unit[:, None] + unit[None], axis=2)
    return 2 * np.arctan2(minus, plus)


def off_diagonal(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)]


def pca_angles(vertices, counts, n_components):
    """Angles between the clusters after PCA of the whole data set, cluster k repeated counts[k]."""
    rows = np.repeat(vertices, counts, axis=0)
    projection = PCA(n_components=n_components, svd_solver="full").fit(rows)
    return angles_between(projection.transform(vertices))


@pytest.mark.parametrize("n_clusters", [2, 3, 4, 10, 77])
def test_simplex_corners_are_unit_centered_and_at_the_widest_angle(n_clusters):
    corners = theory.simplex_vertices(n_clusters)
    assert corners.shape == (n_clusters, n_clusters - 1)
    assert_allclose(np.linalg.norm(corners, axis=1), 1.0, rtol=1e-13)
    assert_allclose(corners.sum(axis=0), 0.0, atol=1e-12)
    expected = math.acos(-1 / (n_clusters - 1))
    assert_allclose(off_diagonal(angles_between(corners)), expected, rtol=1e-12)


def test_simplex_is_padded_with_zeros_in_more_dimensions():
    padded = theory.simplex_vertices(4, 9)
    assert padded.shape == (4, 9)
    assert_allclose(padded[:, :3], theory.simplex_vertices(4))
    assert not padded[:, 3:].any()


@settings(deadline=None)
@given(st.integers(2, 12), st.floats(1e-6, 1.0), st.integers(0, 3))
def test_equiangular_vertices_have_the_asked_angle(n_clusters, share, extra):
    theta = share * theory.widest_angle(n_clusters)
    vectors = theory.equiangular_vertices(n_clusters, theta, embedding_dim=n_clusters + extra)
    assert vectors.shape == (n_clusters, n_clusters + extra)
    assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-12)
    assert_allclose(off_diagonal(angles_between(vectors)), theta, rtol=1e-9)


def test_angle_below_the_widest_needs_as_many_dimensions_as_clusters():
    assert theory.equiangular_vertices(3, 1.0).shape == (3, 3)
    with pytest.raises(InvalidParameterError, match=r"embedding_dim for 3 clusters.*at least 3"):
        theory.equiangular_vertices(3, 1.0, embedding_dim=2)


@pytest.mark.parametrize("theta", [0.0, -0.1, 2.1, math.nan])
def test_impossible_angle_is_refused_with_its_range(theta):
    with pytest.raises(InvalidParameterError, match=r"theta must be in \(0, 2.0944\]"):
        theory.equiangular_vertices(3, theta)


def test_simplex_in_too_few_dimensions_is_refused():
    with pytest.raises(InvalidParameterError, match="at least 4, got 3"):
        theory.simplex_vertices(5, 3)


def test_minimal_omega_has_the_known_values():
    known = {2: 1.0, 3: 1.5, 5: math.pi / math.acos(-0.25)}
    for n_clusters, omega in known.items():
        assert theory.minimal_omega(n_clusters) == pytest.approx(omega, rel=1e-14)


def test_minimal_omega_grows_with_clusters_and_tends_to_two():
    omegas = [theory.minimal_omega(k) for k in range(2, 200)]
    assert all(low < high for low, high in itertools.pairwise(omegas))
    assert omegas[0] == 1.0
    assert omegas[-1] < 2.0
    assert theory.minimal_omega(10**8) == pytest.approx(2.0, abs=1e-7)


@pytest.mark.parametrize("n_clusters", [2, 3, 10])
def test_omega_range_follows_the_three_cases_of_the_theorem(n_clusters):
    low = theory.minimal_omega(n_clusters)
    if n_clusters > 2:
        assert theory.valid_omega_range(n_clusters, n_clusters - 2) is None
    assert theory.valid_omega_range(n_clusters, n_clusters - 1) == theory.OmegaRange(low, low)
    for dim in (n_clusters, n_clusters + 5):
        assert theory.valid_omega_range(n_clusters, dim) == theory.OmegaRange(low, math.inf)


def test_two_is_admissible_exactly_from_as_many_dimensions_as_clusters():
    assert 2.0 in theory.valid_omega_range(10, 10)
    assert 2.0 not in theory.valid_omega_range(10, 9)


@pytest.mark.parametrize("bad", [1, 0, -3, 2.0, True, "3"])
def test_fewer_than_two_clusters_are_refused(bad):
    with pytest.raises(InvalidParameterError, match="n_clusters must be a whole number"):
        theory.minimal_omega(bad)


@pytest.mark.parametrize("total", [1e-300, 1e-30, 1e-16, 1e-8, 1e-3, 0.5, 3.0, 50.0])
def test_must_link_deviation_equals_the_printed_formula_in_high_precision(total):
    with mpmath.workdps(400):
        expected = mpmath.acos(2 * mpmath.exp(-mpmath.mpf(total)) - 1)
    assert theory.must_link_deviation(total, 1) == pytest.approx(float(expected), rel=4e-15)


@settings(deadline=None)
@given(st.floats(1e-200, 1e-5))
def test_deviations_follow_the_square_root_law(total):
    series = 2 * math.sqrt(total) * (1 - total / 12)
    assert theory.must_link_deviation(total / 4, 4) == pytest.approx(series, rel=1e-9)
    assert theory.cannot_link_deviation(total / 4, 4, omega=1.5) == pytest.approx(series / 1.5, rel=1e-9)


@settings(deadline=None)
@given(st.floats(1e-6, 5.0), st.integers(1, 1000), st.floats(1.0, 4.0))
def test_pairs_at_the_deviation_use_up_the_whole_loss(total, n_pairs, omega):
    epsilon = total / n_pairs
    theta = theory.must_link_deviation(epsilon, n_pairs)
    assert -math.log((math.cos(theta) + 1) / 2) / n_pairs == pytest.approx(epsilon, rel=1e-6)
    theta = math.pi / omega - theory.cannot_link_deviation(epsilon, n_pairs, omega=omega)
    assert -math.log(1 - (math.cos(omega * theta) + 1) / 2) / n_pairs == pytest.approx(epsilon, rel=1e-6)


def test_no_loss_leaves_no_deviation():
    assert theory.must_link_deviation(0.0, 10) == 0.0
    assert theory.cannot_link_deviation(0.0, 10) == 0.0


def test_deviation_refuses_negative_loss_and_omega():
    with pytest.raises(InvalidParameterError, match="epsilon must not be negative, got -1"):
        theory.must_link_deviation(-1.0, 3)
    with pytest.raises(InvalidParameterError, match="n_pairs"):
        theory.must_link_deviation(1.0, 0)
    with pytest.raises(InvalidParameterError, match="omega must be positive, got 0"):
        theory.cannot_link_deviation(1.0, 3, omega=0)


@settings(deadline=None)
@given(sizes, st.floats(0.1, 1.0))
def test_centered_angles_agree_with_centering_the_vectors(counts, share):
    theta = share * theory.widest_angle(len(counts))
    vectors = theory.equiangular_vertices(len(counts), theta)
    centered = vectors - np.average(vectors, axis=0, weights=counts)
    assert_allclose(theory.centered_angles(counts), angles_between(centered), atol=1e-7)


@settings(deadline=None)
@given(sizes)
def test_centered_angles_agree_with_the_printed_formula(counts):
    p = np.array(counts) / np.sum(counts)
    square_sum = np.sum(p**2)
    norms = np.sqrt(1 - 2 * p + square_sum)
    cosine = (square_sum - p[:, None] - p) / np.outer(norms, norms)
    assert_allclose(off_diagonal(np.cos(theory.centered_angles(counts))), off_diagonal(cosine), atol=1e-12)


def test_two_clusters_of_any_size_are_opposite():
    for proportions in ([1, 1], [1, 9], [1e-9, 1.0]):
        assert theory.minimal_angle(proportions) == pytest.approx(math.pi, rel=1e-15)


@settings(deadline=None)
@given(sizes, st.integers(0, 3))
def test_pca_keeps_the_angles_from_k_minus_1_components_on(counts, extra):
    n_clusters = len(counts)
    vertices = theory.equiangular_vertices(n_clusters, math.pi / 2, embedding_dim=n_clusters + 3)
    # Ten copies of every row: scikit-learn's PCA wants at least as many rows as components.
    found = pca_angles(vertices, np.multiply(counts, 10), n_clusters - 1 + extra)
    assert_allclose(found, theory.centered_angles(counts), atol=1e-6)


def test_pca_changes_the_angles_below_k_minus_1_components():
    counts = [10, 20, 30, 40, 50]
    vertices = theory.equiangular_vertices(5, math.pi / 2, embedding_dim=8)
    for n_components in (1, 2, 3):
        found = pca_angles(vertices, counts, n_components)
        assert np.abs(found - theory.centered_angles(counts)).max() > 0.05


@settings(deadline=None)
@given(sizes)
def test_one_component_leaves_two_clusters_at_angle_zero(counts):
    # With ties the first component can miss a cluster altogether; the corollary needs none at 0.
    assume(len(set(counts)) == len(counts))
    vertices = theory.simplex_vertices(len(counts))
    assert off_diagonal(pca_angles(vertices, counts, 1)).min() == 0.0


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=8))
def test_minimal_angle_stays_within_its_bounds(proportions):
    bounds = theory.minimal_angle_bounds(len(proportions))
    angle = theory.minimal_angle(proportions)
    assert bounds.low < angle <= bounds.high + 1e-12


@pytest.mark.parametrize("n_clusters", [2, 3, 8])
def test_upper_bound_is_attained_by_equal_clusters(n_clusters):
    bounds = theory.minimal_angle_bounds(n_clusters)
    assert theory.minimal_angle(np.ones(n_clusters)) == pytest.approx(bounds.high, rel=1e-14)


@pytest.mark.parametrize("n_clusters", [3, 8])
def test_lower_bound_is_approached_when_one_cluster_takes_all(n_clusters):
    angle = theory.minimal_angle([1.0] + [1e-8] * (n_clusters - 1))
    assert math.pi / 3 < angle < math.pi / 3 + 1e-6


def test_bounds_coincide_at_pi_for_two_clusters():
    assert theory.minimal_angle_bounds(2) == theory.AngleBounds(math.pi, math.pi)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1.0], "at least two clusters"),
        ([[1.0, 2.0]], "at least two clusters"),
        ([0.5, 0.0, 0.5], "got 0.0 for cluster 1"),
        ([0.5, math.nan], "got nan for cluster 1"),
    ],
)
def test_bad_proportions_are_refused(bad, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.centered_angles(bad)

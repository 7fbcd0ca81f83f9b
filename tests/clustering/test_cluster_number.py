from __future__ import annotations

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
from spherepair.clustering.consensus import candidate_shares
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError

METHODS = ["tail-angle", "silhouette", "lifetime", "consensus"]


@pytest.mark.parametrize("n_clusters", [2, 3, 5, 10])
@pytest.mark.parametrize("method", ["tail-angle", "silhouette", "lifetime"])
def test_every_method_is_exact_on_easy_embeddings(embedding, n_clusters, method):
    drawn = embedding(n_clusters, n_components=12, noise=0.1, n_rows=800, seed=n_clusters)
    found = infer_n_clusters(drawn.rows, drawn.pairs, method=method, random_state=0)
    assert found.value == n_clusters
    assert found.method == method


def test_ideal_simplex_without_any_noise_is_found(embedding):
    drawn = embedding(6, noise=0.0, n_rows=500)
    assert infer_n_clusters(drawn.rows, drawn.pairs, random_state=0).value == 6


@pytest.mark.parametrize("seed", range(3))
def test_noise_without_clusters_gives_low_confidence(seed):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(2000, size=(2, 1000))
    pairs = SimpleNamespace(left=left, right=right, is_must_link=rng.random(1000) < 0.1, weight=np.ones(1000))
    found = infer_n_clusters(rng.normal(size=(2000, 20)), pairs, random_state=0)
    assert found.confidence <= 0.5


def test_embedding_with_too_few_dimensions_asks_for_more(embedding):
    drawn = embedding(12, n_components=6)
    for method in ("tail-angle", "consensus"):
        found = infer_n_clusters(drawn.rows, drawn.pairs, method=method, random_state=0)
        assert found.confidence <= 0.5
    assert "embedding_dim" in found.explanation


def test_few_cannot_links_ask_for_a_rounded_number_more(embedding):
    drawn = embedding(10, n_pairs=60)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.confidence < 0.6
    assert "more cannot-links" in found.explanation


def test_cluster_without_pairs_lowers_the_confidence(embedding, only):
    drawn = embedding(6)
    touched = (drawn.labels[drawn.pairs.left] == 0) | (drawn.labels[drawn.pairs.right] == 0)
    found = infer_n_clusters(drawn.rows, only(drawn.pairs, ~touched), random_state=0)
    assert found.confidence <= 0.5
    assert "hardly any cannot-link" in found.explanation


def test_very_unequal_clusters_are_no_confident_wrong_answer(embedding):
    shares = np.array([0.7, 0.2, 0.05, 0.03, 0.01, 0.005, 0.003, 0.002])
    for seed in range(3):
        drawn = embedding(8, shares=shares, noise=0.6, n_pairs=1000, seed=seed)
        found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
        assert found.value == 8 or found.confidence < 0.9


def test_cannot_links_alone_are_enough_on_easy_embeddings(embedding, only):
    drawn = embedding(7, n_pairs=2000)
    found = infer_n_clusters(drawn.rows, only(drawn.pairs, ~drawn.pairs.is_must_link), random_state=0)
    assert found.value == 7


def test_pairs_that_the_embedding_disregards_lower_the_confidence(embedding):
    drawn = embedding(6)
    shuffled = np.random.default_rng(0).permutation(len(drawn.rows))
    found = infer_n_clusters(drawn.rows[shuffled], drawn.pairs, random_state=0)
    assert found.confidence <= 0.5
    assert "of the must-links are inside a cluster" in found.explanation


def test_without_cannot_links_the_silhouette_guesses(embedding, only):
    drawn = embedding(4, n_components=8, n_rows=500)
    for pairs in (None, only(drawn.pairs, drawn.pairs.is_must_link)):
        found = infer_n_clusters(drawn.rows, pairs, random_state=0)
        assert (found.value, found.method) == (4, "silhouette")
        assert found.confidence < 0.5
        assert "no cannot-links" in found.explanation


def test_collapsed_rows_without_cannot_links_are_one_cluster():
    rng = np.random.default_rng(0)
    rows = np.array([1.0, 0, 0, 0]) + 0.01 * rng.normal(size=(100, 4))
    found = infer_n_clusters(rows, None, random_state=0)
    assert found.value == 1
    assert found.confidence < 0.5


def test_rows_of_zeros_are_left_out(embedding):
    drawn = embedding(5)
    drawn.rows[::50] = 0.0
    assert infer_n_clusters(drawn.rows, drawn.pairs, random_state=0).value == 5


def test_pairs_of_weight_zero_are_left_out(embedding, only):
    drawn = embedding(5, n_rows=500, n_pairs=500)
    drawn.pairs.weight[::3] = 0.0
    present = only(drawn.pairs, drawn.pairs.weight > 0)
    given, dropped = (infer_n_clusters(drawn.rows, p, random_state=0) for p in (drawn.pairs, present))
    assert given.to_dict() == dropped.to_dict()


def test_a_single_cannot_link_is_two_clusters_at_least(embedding, only):
    drawn = embedding(4, n_rows=50)
    first = np.flatnonzero(~drawn.pairs.is_must_link)[:1]
    for method in METHODS:
        found = infer_n_clusters(drawn.rows, only(drawn.pairs, first), method=method)
        assert found.value >= 2
        assert found.confidence < 0.9


def test_same_random_state_gives_the_same_answer(embedding):
    drawn = embedding(6, n_components=10, noise=0.8, n_pairs=400, n_rows=400)
    for method in METHODS:
        first, second = (
            infer_n_clusters(drawn.rows, drawn.pairs, method=method, random_state=3).to_dict()
            for _ in range(2)
        )
        assert first == second


def test_inputs_are_not_changed(embedding):
    drawn = embedding(4, n_rows=300, n_pairs=300)
    before = drawn.rows.copy(), drawn.pairs.left.copy()
    infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    np.testing.assert_array_equal(drawn.rows, before[0])
    np.testing.assert_array_equal(drawn.pairs.left, before[1])


def test_only_the_directions_of_rows_matter(embedding):
    drawn = embedding(5, n_rows=800, n_pairs=1000)
    scaled = drawn.rows * np.random.default_rng(0).uniform(0.1, 10, size=(len(drawn.rows), 1))
    plain, other = (infer_n_clusters(r, drawn.pairs, random_state=0) for r in (drawn.rows, scaled))
    assert plain.value == other.value
    np.testing.assert_allclose(plain.curve, other.curve, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_result_is_well_formed_and_survives_json(embedding, method):
    drawn = embedding(4, n_components=8, n_rows=400, n_pairs=400)
    found = infer_n_clusters(drawn.rows, drawn.pairs, method=method, random_state=0)
    weights = [candidate.weight for candidate in found.candidates]
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    assert found.candidates[0].value == found.value
    assert found.curve.shape == found.curve_spread.shape
    assert 0 <= found.confidence <= 1
    assert found.explanation.endswith(".")
    again = ClusterNumber.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()


def test_max_clusters_bounds_the_candidates(embedding):
    drawn = embedding(4, n_rows=400, n_pairs=400)
    found = infer_n_clusters(drawn.rows, drawn.pairs, max_clusters=6, random_state=0)
    assert {candidate.value for candidate in found.candidates} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("method", ["silhouette", "lifetime"])
def test_n_rows_bounds_what_is_looked_at(embedding, method):
    drawn = embedding(4, n_components=8, n_rows=2000, noise=0.4)
    few, every = (
        infer_n_clusters(drawn.rows, drawn.pairs, method=method, n_rows=n, random_state=0)
        for n in (200, None)
    )
    assert few.value == every.value == 4
    assert not np.allclose(few.curve, every.curve, rtol=1e-6)


@settings(max_examples=30)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_shares_sum_to_one_and_follow_the_scores(scores):
    shares = candidate_shares({"score": np.array(scores)}, {"score": 1.0})
    assert shares.sum() == pytest.approx(1)
    assert scores[int(shares.argmax())] == pytest.approx(max(scores))


def test_disagreeing_resamples_flatten_the_shares():
    agreeing = np.array([[9.0, 0.0], [9.0, 0.0]])
    disagreeing = np.array([[9.0, 0.0], [0.0, 9.0]])
    assert candidate_shares({"score": agreeing}, {"score": 1.0})[0] > 0.99
    assert candidate_shares({"score": disagreeing}, {"score": 1.0})[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "elbow"}, "method must be one of"),
        ({"tail_ratio": 0.0}, r"tail_ratio must be in \(0, 0.5\], got 0.0 instead"),
        ({"max_clusters": 1}, "max_clusters must be 2 or more, got 1 instead"),
        ({"n_resamples": -1}, "n_resamples must be 0 or more, got -1 instead"),
        ({"n_rows": 4, "max_clusters": 4}, "n_rows must be above max_clusters, got 4 instead"),
    ],
)
def test_bad_parameters_are_named(embedding, changes, message):
    drawn = embedding(3, n_rows=50, n_pairs=50)
    with pytest.raises(InvalidParameterError, match=message):
        infer_n_clusters(drawn.rows, drawn.pairs, **changes)


def test_bad_embeddings_and_pairs_are_named(embedding):
    drawn = embedding(3, n_rows=50, n_pairs=50)
    with pytest.raises(InvalidConstraintsError, match="outside the embedding of 10 rows"):
        infer_n_clusters(drawn.rows[:10], drawn.pairs)
    with pytest.raises(InvalidDataError, match="must be a table"):
        infer_n_clusters(drawn.rows[0], drawn.pairs)
    drawn.rows[7, 1] = np.nan
    with pytest.raises(InvalidDataError, match="in 1 rows, first row 7"):
        infer_n_clusters(drawn.rows, drawn.pairs)


def test_tail_angle_of_ten_thousand_cannot_links_is_fast(embedding):
    drawn = embedding(10, n_pairs=11_000, n_rows=15_000)
    start = time.perf_counter()
    infer_n_clusters(drawn.rows, drawn.pairs, method="tail-angle", random_state=0)
    assert time.perf_counter() - start < 2.0

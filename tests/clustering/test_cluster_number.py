from __future__ import annotations

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spherepair.clustering import (
    WEIGHTS,
    Candidate,
    ClusterNumber,
    candidate_shares,
    infer_n_clusters,
)
from spherepair.clustering.number_evidence import combined_evidence, prepare_problem
from spherepair.errors import InvalidParameterError

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


def test_cannot_links_alone_are_enough_on_easy_embeddings(embedding, only):
    drawn = embedding(7, n_pairs=2000)
    found = infer_n_clusters(drawn.rows, only(drawn.pairs, ~drawn.pairs.is_must_link), random_state=0)
    assert found.value == 7


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


def test_tail_angle_of_ten_thousand_cannot_links_is_fast(embedding):
    drawn = embedding(10, n_pairs=11_000, n_rows=15_000)
    start = time.perf_counter()
    infer_n_clusters(drawn.rows, drawn.pairs, method="tail-angle", random_state=0)
    assert time.perf_counter() - start < 2.0


@pytest.mark.parametrize("n_clusters", [2, 3, 5, 10, 14])
def test_consensus_is_exact_and_sure_on_easy_embeddings(embedding, n_clusters):
    drawn = embedding(n_clusters, seed=n_clusters)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.value == n_clusters
    assert found.confidence > 0.9


@pytest.mark.parametrize(
    ("n_clusters", "n_components", "n_pairs", "seed"),
    [(10, 20, 5000, 0), (10, 20, 5000, 1), (20, 50, 10_000, 0), (20, 50, 10_000, 1), (50, 64, 30_000, 0)],
)
def test_many_clusters_that_are_easy_to_see_are_found(embedding, n_clusters, n_components, n_pairs, seed):
    drawn = embedding(
        n_clusters, n_components=n_components, n_pairs=n_pairs, noise=0.3, n_rows=1000, seed=seed
    )
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.value == n_clusters
    assert found.confidence > 0.8


def test_confidence_is_the_mean_share_over_tail_ratios_and_resampled_pairs(embedding):
    drawn = embedding(12, n_pairs=600, noise=1.6, seed=1)
    options = {"max_clusters": 20, "random_state": 0}
    found = infer_n_clusters(drawn.rows, drawn.pairs, **options)
    features = combined_evidence(prepare_problem(drawn.rows, drawn.pairs, **options)).features
    lines = np.broadcast_to(features["counted"], features["rise_after"].shape).shape[:2]
    assert lines == (4, 21)  # tail ratios; all pairs and twenty resamples
    single = [
        candidate_shares(
            {name: line(values, t, r) for name, values in features.items()}, WEIGHTS["consensus"]
        )
        for t in range(4)
        for r in range(21)
    ]
    shares = {candidate.value: candidate.weight for candidate in found.candidates}
    np.testing.assert_allclose([shares[k] for k in sorted(shares)], np.mean(single, axis=0), atol=1e-12)
    answers = {int(share.argmax()) for share in single}
    assert len(answers) > 1  # resamples disagree here, and the mean is less sure than they are
    assert max(shares.values()) < np.mean([share.max() for share in single])


def line(values, ratio, resample):
    """One tail ratio and one resample of a feature; counts have no axis for ratios."""
    return values[ratio, resample] if values.ndim == 3 else values[resample]


def confused_classes(embedding, *, seed):
    """Ten classes, two of them close; cannot-links between these are met by moving one end elsewhere."""
    drawn = embedding(10, n_pairs=5000, n_rows=3000, noise=0.4, seed=seed)
    direction = drawn.rows[drawn.labels == 1].mean(axis=0) - drawn.rows[drawn.labels == 0].mean(axis=0)
    drawn.rows[drawn.labels == 1] -= 0.7 * direction
    left, right = drawn.labels[drawn.pairs.left], drawn.labels[drawn.pairs.right]
    moved = drawn.pairs.left[(left != right) & (left < 2) & (right < 2)]
    elsewhere = np.flatnonzero(drawn.labels > 1)[: len(moved)]
    drawn.rows[moved] = drawn.rows[elsewhere]
    return drawn


@pytest.mark.parametrize("seed", range(2))
def test_counts_keep_classes_in_play_that_all_geometry_takes_for_one(embedding, seed):
    drawn = confused_classes(embedding, seed=seed)
    geometry, everything = (
        infer_n_clusters(drawn.rows, drawn.pairs, method=method, max_clusters=13, random_state=0)
        for method in ("silhouette", "consensus")
    )
    assert geometry.value == 9
    assert everything.value == 10 or everything.confidence < 0.9
    assert everything.candidates[0 if everything.value == 10 else 1].value == 10


def test_an_unknown_method_is_named(embedding):
    drawn = embedding(3, n_rows=50, n_pairs=50)
    with pytest.raises(InvalidParameterError, match=r"method must be one of .* got 'elbow' instead"):
        infer_n_clusters(drawn.rows, drawn.pairs, method="elbow")


def number_of(*candidates, confidence):
    ranked = tuple(Candidate(value, weight) for value, weight in candidates)
    return ClusterNumber(ranked[0].value, "consensus", np.zeros(3), np.zeros(3), ranked, confidence, "")


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (
            number_of((10, 0.87), (14, 0.12), confidence=0.87),
            "10 clusters (confidence 0.87); also plausible: 14",
        ),
        (
            number_of((9, 0.6), (12, 0.2), (3, 0.15), confidence=0.5),
            "9 clusters (confidence 0.50); also plausible: 3, 12",
        ),
        (number_of((4, 0.95), (5, 0.05), confidence=0.95), "4 clusters (confidence 0.95)"),
        (number_of((1, 1.0), confidence=0.4), "1 cluster (confidence 0.40)"),
    ],
)
def test_a_number_prints_as_one_line(number, line):
    assert str(number) == repr(number) == line


def test_a_sure_answer_is_explained_in_one_sentence(embedding):
    drawn = embedding(5, n_rows=800)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.explanation == (
        f"5 clusters (confidence {found.confidence:.2f}): the angles, the partitions and the pairs agree."
    )


def test_an_unsure_answer_names_the_other_numbers_and_a_remedy(embedding):
    drawn = embedding(12, n_pairs=600, noise=1.6, seed=1)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    others = sorted(c.value for c in found.candidates[1:3] if c.weight > 0.1)
    assert others
    verb = "is" if len(others) == 1 else "are"
    start = f"Best estimate {found.value} (confidence {found.confidence:.2f}); "
    assert found.explanation.startswith(f"{start}{' and '.join(map(str, others))} {verb} also plausible. ")
    assert found.explanation.endswith(".")

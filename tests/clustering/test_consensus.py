from __future__ import annotations

import numpy as np
import pytest

from spherepair.clustering.cluster_number import infer_n_clusters
from spherepair.clustering.consensus import Problem, candidate_shares, consensus_features, consensus_verdict
from spherepair.clustering.number_inputs import unit_rows, usable_links
from spherepair.clustering.number_settings import CONSENSUS_COEFFICIENTS as COEFFICIENTS


@pytest.mark.parametrize("n_clusters", [2, 3, 5, 10, 14])
def test_consensus_is_exact_and_sure_on_easy_embeddings(embedding, n_clusters):
    drawn = embedding(n_clusters, seed=n_clusters)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.value == n_clusters
    assert found.confidence > 0.9


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("n_clusters", "n_components", "n_pairs"), [(10, 20, 5000), (20, 50, 10_000), (50, 64, 30_000)]
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
    problem = problem_of(drawn)
    verdict = consensus_verdict(problem)
    _, features = consensus_features(problem_of(drawn))
    lines = np.broadcast_to(features["counted"], features["rise_after"].shape).shape[:2]
    assert lines == (4, 21)  # tail ratios; all pairs and twenty resamples
    single = [
        candidate_shares({name: line(values, t, r) for name, values in features.items()}, COEFFICIENTS)
        for t in range(4)
        for r in range(21)
    ]
    np.testing.assert_allclose(verdict.shares, np.mean(single, axis=0), atol=1e-12)
    answers = {int(share.argmax()) for share in single}
    assert len(answers) > 1  # resamples disagree here, and the mean is less sure than they are
    assert verdict.shares.max() < np.mean([share.max() for share in single])


def problem_of(drawn):
    rng = np.random.default_rng(0)
    rows = unit_rows(drawn.rows)
    return Problem(rows, usable_links(drawn.pairs, rows, rng=rng), 0.05, 20, 20, None, rng)


def line(values, ratio, resample):
    """One tail ratio and one resample of a feature; counts have no axis for ratios."""
    return values[ratio, resample] if values.ndim == 3 else values[resample]


def classes_in_one_place(embedding, *, n_pairs, seed):
    """Ten classes, two of which training has not parted at all."""
    drawn = embedding(10, n_pairs=n_pairs, n_rows=5000, seed=seed)
    second = drawn.labels == 1
    drawn.rows[second] = drawn.rows[np.flatnonzero(drawn.labels == 0)[np.arange(second.sum()) % 400]]
    return drawn


@pytest.mark.parametrize("seed", range(2))
def test_two_classes_in_one_place_are_told_apart_by_many_pairs(embedding, seed):
    drawn = classes_in_one_place(embedding, n_pairs=20_000, seed=seed)
    assert infer_n_clusters(drawn.rows, drawn.pairs, random_state=0).value == 10


@pytest.mark.parametrize("seed", range(2))
def test_two_classes_in_one_place_are_no_confident_wrong_answer_with_fewer_pairs(embedding, seed):
    drawn = classes_in_one_place(embedding, n_pairs=5000, seed=seed)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.confidence <= 0.6
    assert 10 in {candidate.value for candidate in found.candidates[:2]}
    assert "cannot-links inside" in found.explanation


def confused_classes(embedding, *, seed):
    """Ten classes, two of them close; cannot-links between these are met by moving one end elsewhere."""
    drawn = embedding(10, n_pairs=5000, n_rows=15_000, noise=0.4, seed=seed)
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


@pytest.mark.parametrize("seed", range(2))
def test_as_many_must_links_as_cannot_links_do_not_mislead(embedding, only, seed):
    drawn = embedding(8, n_pairs=8000, seed=seed)
    together = np.flatnonzero(drawn.pairs.is_must_link)
    apart = np.flatnonzero(~drawn.pairs.is_must_link)[: len(together)]
    found = infer_n_clusters(drawn.rows, only(drawn.pairs, np.concatenate([together, apart])), random_state=0)
    assert found.value == 8
    assert found.confidence < 0.9
    assert "pairs drawn at random" in found.explanation

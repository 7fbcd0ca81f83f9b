"""Findings that lower the confidence: each is provoked, named in the explanation, and bounds the answer."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair.clustering import infer_n_clusters
from spherepair.clustering.confidence_checks import (
    CEILING_CHOSEN_PAIRS,
    CEILING_FEW_PAIRS,
    check_confidence,
    round_up,
)
from spherepair.clustering.number_evidence import prepare_problem


def findings(drawn, n_clusters):
    problem = prepare_problem(drawn.rows, drawn.pairs, random_state=0)
    shares = np.eye(problem.max_clusters - 1)[n_clusters - 2]
    return check_confidence(
        problem.rows, problem.links, n_clusters=n_clusters, shares=shares, rng=problem.rng
    )


def test_nothing_is_found_where_nothing_is_hidden(embedding):
    assert findings(embedding(6), 6) == []


def test_the_most_serious_finding_comes_first(embedding):
    found = findings(embedding(10, n_components=11, n_pairs=60), 10)
    ceilings = [finding.ceiling for finding in found]
    assert len(found) >= 2
    assert ceilings == sorted(ceilings)
    assert ceilings[0] < CEILING_FEW_PAIRS


@pytest.mark.parametrize(
    ("number", "rounded"), [(1, 1), (9, 9), (11, 20), (383, 400), (400, 400), (901, 1000)]
)
def test_numbers_are_rounded_up_to_one_digit(number, rounded):
    assert round_up(number) == rounded


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


def test_pairs_that_the_embedding_disregards_lower_the_confidence(embedding):
    drawn = embedding(6)
    shuffled = np.random.default_rng(0).permutation(len(drawn.rows))
    found = infer_n_clusters(drawn.rows[shuffled], drawn.pairs, random_state=0)
    assert found.confidence <= 0.5
    assert "of the must-links are inside a cluster" in found.explanation


def classes_in_one_place(embedding, *, n_pairs, seed):
    """Ten classes, two of which training has not parted at all."""
    drawn = embedding(10, n_pairs=n_pairs, n_rows=5000, seed=seed)
    second = drawn.labels == 1
    drawn.rows[second] = drawn.rows[np.flatnonzero(drawn.labels == 0)[np.arange(second.sum()) % 400]]
    return drawn


@pytest.mark.parametrize("seed", range(2))
def test_two_classes_in_one_place_are_no_confident_wrong_answer_with_fewer_pairs(embedding, seed):
    drawn = classes_in_one_place(embedding, n_pairs=5000, seed=seed)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.confidence <= 0.6
    assert 10 in {candidate.value for candidate in found.candidates[:2]}
    assert "cannot-links inside" in found.explanation


@pytest.mark.parametrize("seed", range(2))
def test_as_many_must_links_as_cannot_links_do_not_mislead(embedding, only, seed):
    drawn = embedding(8, n_rows=3000, n_pairs=8000, seed=seed)
    together = np.flatnonzero(drawn.pairs.is_must_link)
    apart = np.flatnonzero(~drawn.pairs.is_must_link)[: len(together)]
    found = infer_n_clusters(drawn.rows, only(drawn.pairs, np.concatenate([together, apart])), random_state=0)
    assert found.value == 8
    assert found.confidence <= CEILING_CHOSEN_PAIRS
    assert "the pairs were chosen, not drawn at random, so more may exist." in found.explanation


@pytest.mark.parametrize("seed", range(2))
def test_two_classes_in_one_place_are_told_apart_by_many_pairs(embedding, seed):
    drawn = classes_in_one_place(embedding, n_pairs=20_000, seed=seed)
    assert infer_n_clusters(drawn.rows, drawn.pairs, random_state=0).value == 10

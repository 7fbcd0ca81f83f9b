from __future__ import annotations

import numpy as np
import pytest

from spherepair.clustering.cluster_number import infer_n_clusters


@pytest.mark.parametrize("n_clusters", [2, 3, 5, 10, 14])
def test_consensus_is_exact_and_sure_on_easy_embeddings(embedding, n_clusters):
    drawn = embedding(n_clusters, seed=n_clusters)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.value == n_clusters
    assert found.confidence > 0.9


@pytest.mark.parametrize(
    ("n_clusters", "n_components", "n_pairs"), [(10, 20, 5000), (20, 50, 10_000), (50, 64, 30_000)]
)
def test_many_clusters_that_are_easy_to_see_are_found(embedding, n_clusters, n_components, n_pairs):
    drawn = embedding(n_clusters, n_components=n_components, n_pairs=n_pairs, noise=0.3, n_rows=1000)
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.value == n_clusters


@pytest.mark.parametrize("seed", range(2))
def test_two_classes_in_one_place_are_told_apart_by_the_pairs(embedding, seed):
    drawn = embedding(10, n_pairs=5000, n_rows=5000, seed=seed)
    second = drawn.labels == 1
    drawn.rows[second] = drawn.rows[np.flatnonzero(drawn.labels == 0)[np.arange(second.sum()) % 400]]
    found = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0)
    assert found.value == 10


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


@pytest.mark.parametrize("seed", range(3))
def test_counts_keep_classes_in_play_that_all_geometry_takes_for_one(embedding, seed):
    drawn = confused_classes(embedding, seed=seed)
    geometry, everything = (
        infer_n_clusters(drawn.rows, drawn.pairs, method=method, max_clusters=13, random_state=0)
        for method in ("silhouette", "consensus")
    )
    assert geometry.value == 9
    assert everything.value == 10 or everything.confidence < 0.9
    assert everything.candidates[0 if everything.value == 10 else 1].value == 10


@pytest.mark.parametrize("seed", range(3))
def test_as_many_must_links_as_cannot_links_do_not_mislead(embedding, only, seed):
    drawn = embedding(8, n_pairs=8000, seed=seed)
    together = np.flatnonzero(drawn.pairs.is_must_link)
    apart = np.flatnonzero(~drawn.pairs.is_must_link)[: len(together)]
    found = infer_n_clusters(drawn.rows, only(drawn.pairs, np.concatenate([together, apart])), random_state=0)
    assert found.value == 8
    assert found.confidence < 0.9
    assert "pairs drawn at random" in found.explanation

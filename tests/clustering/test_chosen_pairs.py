"""Pairs that somebody chose: they are noticed, their counts are left out, and what they prove holds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from spherepair.clustering import CHOSEN_WEIGHTS, ClusterNumber, infer_n_clusters
from spherepair.clustering.chosen_pairs import (
    LARGEST_REPEAT_EXCESS,
    chosen_features,
    repeat_excess,
    scan_all_rows,
)
from spherepair.clustering.confidence_checks import CEILING_CHOSEN_PAIRS
from spherepair.clustering.number_evidence import consensus_evidence, prepare_problem

SENTENCE = "the pairs were chosen, not drawn at random, so more may exist."


def as_pairs(ends, labels):
    ends = np.asarray(ends)
    same = labels[ends[:, 0]] == labels[ends[:, 1]]
    return SimpleNamespace(left=ends[:, 0], right=ends[:, 1], is_must_link=same, weight=np.ones(len(ends)))


def all_pairs_of(rows, labels):
    first, second = np.triu_indices(len(rows), k=1)
    return as_pairs(np.stack([rows[first], rows[second]], axis=1), labels)


def half_must_links(drawn, n_pairs, seed=0):
    """Random rows, but as many must-links as cannot-links."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(len(drawn.rows), size=(60 * n_pairs, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    same = drawn.labels[ends[:, 0]] == drawn.labels[ends[:, 1]]
    return as_pairs(np.vstack([ends[same][: n_pairs // 2], ends[~same][: n_pairs // 2]]), drawn.labels)


def with_exemplars(drawn, n_pairs, seed=0):
    """Random rows, each with one of a few exemplars: the classes of the exemplars are all that is asked."""
    rng = np.random.default_rng(seed)
    exemplars = np.array([np.flatnonzero(drawn.labels == k)[0] for k in np.unique(drawn.labels)[:3]])
    rows = rng.choice(len(drawn.rows), n_pairs, replace=False)
    keep = ~np.isin(rows, exemplars)
    return as_pairs(np.stack([rows, rng.choice(exemplars, n_pairs)], axis=1)[keep], drawn.labels)


@pytest.mark.parametrize("n_pairs", [30, 300, 3000, 30_000])
@pytest.mark.parametrize("n_rows", [200, 5000])
def test_random_pairs_do_not_repeat_their_rows_more_than_by_chance(n_pairs, n_rows):
    rng = np.random.default_rng(n_pairs)
    found = [repeat_excess(rng.integers(n_rows, size=(n_pairs, 2)), n_rows) for _ in range(30)]
    assert max(found) < LARGEST_REPEAT_EXCESS


def test_all_pairs_of_a_few_rows_repeat_them():
    rows = np.arange(40)
    ends = np.stack(np.triu_indices(len(rows), k=1), axis=1)
    assert repeat_excess(ends, 1000) > 100


@pytest.mark.parametrize("n_pairs", [100, 1000, 8000])
@pytest.mark.parametrize("n_clusters", [3, 10])
def test_random_pairs_are_decided_by_all_evidence(embedding, n_clusters, n_pairs):
    drawn = embedding(n_clusters, n_pairs=n_pairs, noise=0.6)
    assert not consensus_evidence(prepare_problem(drawn.rows, drawn.pairs, random_state=0)).is_of_chosen_pairs


def test_random_pairs_that_an_embedding_disregards_are_not_taken_for_chosen(embedding):
    drawn = embedding(6)
    shuffled = np.random.default_rng(0).permutation(len(drawn.rows))
    assert not consensus_evidence(
        prepare_problem(drawn.rows[shuffled], drawn.pairs, random_state=0)
    ).is_of_chosen_pairs


@pytest.mark.parametrize("choose", [half_must_links, with_exemplars])
@pytest.mark.parametrize("seed", range(2))
def test_chosen_pairs_neither_mislead_nor_make_sure(embedding, choose, seed):
    """Half must-links would mean two classes if the pairs were random; nobody asked about seven of ten."""
    drawn = embedding(10, noise=0.4, seed=seed)
    pairs = choose(drawn, 300, seed)
    assert consensus_evidence(prepare_problem(drawn.rows, pairs)).is_of_chosen_pairs
    found = infer_n_clusters(drawn.rows, pairs, random_state=0)
    assert abs(found.value - 10) <= 1
    assert found.proved < 10
    assert found.confidence <= CEILING_CHOSEN_PAIRS
    assert f"At least {found.proved} groups are proved by the pairs; {SENTENCE}" in found.explanation


@pytest.mark.parametrize("method", ["tail-angle", "silhouette", "lifetime", "consensus"])
def test_the_answer_is_never_below_what_the_pairs_prove(embedding, method):
    """All classes lie in two places; all pairs of some rows prove five."""
    drawn = embedding(5, n_rows=400)
    rows = drawn.rows[np.flatnonzero(drawn.labels == 0)[0] * (drawn.labels < 3)] + 1e-3 * drawn.rows
    pairs = all_pairs_of(np.arange(30), drawn.labels)
    found = infer_n_clusters(rows, pairs, method=method, max_clusters=4, random_state=0)
    assert found.proved == 5
    assert found.value == 5
    assert all(candidate.weight == 0 for candidate in found.candidates if candidate.value < 5)


def test_groups_without_rows_seen_alone_are_sure(embedding):
    drawn = embedding(5, n_rows=600)
    rows = np.concatenate([np.flatnonzero(drawn.labels == k)[:6] for k in range(5)])
    found = infer_n_clusters(drawn.rows, all_pairs_of(rows, drawn.labels), random_state=0)
    assert (found.value, found.proved) == (5, 5)
    assert found.confidence > 0.9


def test_rows_seen_alone_leave_room_for_further_groups(embedding):
    drawn = embedding(5, n_rows=600)
    rows = np.array([np.flatnonzero(drawn.labels == k)[0] for k in (0, 1, 2, 3, 4)])
    rows = np.append(rows, np.flatnonzero(drawn.labels == 0)[1:6])
    found = infer_n_clusters(drawn.rows, all_pairs_of(rows, drawn.labels), random_state=0)
    assert found.proved == 5
    assert found.confidence <= 1 - 4 / 10
    assert "4 of 10 rows in pairs are must-linked to no other" in found.explanation


@pytest.mark.parametrize("n_labeled", [0, 5])
def test_groups_that_no_row_is_in_count_against_more_clusters(embedding, n_labeled, monkeypatch):
    """Clusters that are hard to see: the groups of the rows in pairs decide, unless most are unknown."""
    drawn = embedding(4, noise=2.5, n_rows=600)
    pairs = all_pairs_of(np.arange(40), drawn.labels)
    if n_labeled:  # now most rows in pairs are in no group
        lone = np.stack([np.arange(100, 300), np.arange(200) % n_labeled], axis=1)
        ends = np.stack([pairs.left, pairs.right], axis=1)
        pairs = as_pairs(
            np.vstack([ends, lone[drawn.labels[lone[:, 0]] != drawn.labels[lone[:, 1]]]]), drawn.labels
        )
    evidence = consensus_evidence(prepare_problem(drawn.rows, pairs)).features["unseen"]
    found = infer_n_clusters(drawn.rows, pairs, random_state=0)
    monkeypatch.setitem(CHOSEN_WEIGHTS, "unseen", 0.0)
    without = infer_n_clusters(drawn.rows, pairs, random_state=0)
    assert found.proved == 4
    if n_labeled:
        assert not evidence.any()
        assert found.candidates == without.candidates
    else:
        assert found.value == 4
        assert found.candidates[0].weight > without.candidates[0].weight + 0.05
        assert (evidence[:3] == 0).all()
        assert (np.diff(evidence[2:]) < 0).all()


def test_all_rows_are_divided_and_violated_pairs_counted(embedding):
    drawn = embedding(4, n_components=8, noise=0.1, n_rows=400)
    pairs = half_must_links(drawn, 100)
    ends = np.stack([pairs.left, pairs.right], axis=1)
    scan = scan_all_rows(
        drawn.rows,
        ends,
        is_must_link=pairs.is_must_link,
        resamples=np.ones((3, len(ends))),
        max_clusters=6,
        rng=np.random.default_rng(0),
    )
    assert scan.violated.shape == scan.gap.shape == (3, 5)
    assert (scan.violated[:, 2] == 0).all()  # K' = 4
    assert (scan.violated[:, 0] > 0.1).all()  # two clusters: a third of the cannot-links run inside
    assert (scan.gap.argmax(axis=1) == 2).all()
    features = chosen_features(scan, 100)
    assert features["violated"].max() == 0
    np.testing.assert_allclose(features["violated"][:, 0], -scan.violated[:, 0] * 100 * np.log(19))


def test_numbers_of_older_files_prove_nothing(embedding):
    drawn = embedding(4, n_components=8, n_rows=400, n_pairs=400)
    values = infer_n_clusters(drawn.rows, drawn.pairs, random_state=0).to_dict()
    assert values["proved"] >= 2
    assert ClusterNumber.from_dict(values).proved == values["proved"]
    del values["proved"]
    assert ClusterNumber.from_dict(values).proved == 1


def test_a_wrong_cannot_link_proves_no_group_where_answers_may_be_wrong(embedding):
    """Three classes, of which all pairs of some rows tell; then one row is denied by a row of each class."""
    drawn = embedding(3, n_rows=400)
    pairs = all_pairs_of(np.arange(40), drawn.labels)
    lone = int(np.flatnonzero(drawn.labels == 0)[-1])
    denied = [int(np.flatnonzero(drawn.labels[:40] == k)[0]) for k in range(3)]
    pairs.left, pairs.right = np.append(pairs.left, [lone] * 3), np.append(pairs.right, denied)
    pairs.is_must_link, pairs.weight = np.append(pairs.is_must_link, [False] * 3), np.ones(len(pairs.left))
    sure = infer_n_clusters(drawn.rows, pairs, random_state=0)
    unsure = infer_n_clusters(drawn.rows, pairs, random_state=0, may_be_wrong=True)
    assert (sure.value, sure.proved) == (4, 4)
    assert (unsure.value, unsure.proved) == (3, 3)

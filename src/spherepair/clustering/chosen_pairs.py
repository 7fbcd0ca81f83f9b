"""Pairs that somebody chose: how to tell them from random ones, and what they still say about K' clusters.

The counts of ``pair_counts`` hold for random pairs alone. Pairs that were chosen (questions on rows between
clusters, as many must-links as cannot-links, all pairs of some rows) make them wrong, and are found by

- rows that are in more pairs than chance explains, or
- counts that contradict themselves: with the number of clusters that they ask for, must-links are satisfied
  but a large share of the cannot-links runs inside clusters.

Any right pair, however it was chosen, is evidence against partitions that violate it. Where pairs were
chosen, that and the gaps between all rows decide, and groups that nobody has seen count against K'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from spherepair.clustering.pair_counts import (
    EVIDENCE_FLOOR,
    PAIR_ERROR_SHARE,
    Booleans,
    Floats,
    Integers,
    sampled_trees,
)
from spherepair.clustering.partitions import height_gaps
from spherepair.constraints.graph import ProvedGroups

#: Above this many standard errors of repeated rows, pairs were chosen.
LARGEST_REPEAT_EXCESS = 4.0
#: Evidence for merged classes, in nats and nats per pair, that random pairs do not give at their own count.
LARGEST_CONTRADICTION, LARGEST_CONTRADICTION_PER_PAIR = 15.0, 0.1
#: Share of must-links inside clusters below which the embedding disregards the pairs, whatever they are.
SMALLEST_SHARE_TOGETHER = 0.7
#: Share of the rows in pairs whose group must be known for groups that were never seen to tell anything.
SMALLEST_SHARE_GROUPED = 0.9
#: Size of such a group relative to the mean: small ones are missed.
UNSEEN_SIZE = 0.5


@dataclass(frozen=True)
class RowScan:
    """Partitions of all rows into K' = 2..max_clusters, for R resamples of the pairs.

    Attributes
    ----------
    violated : ndarray of shape (R, max_clusters - 1)
        Share of the pairs that the partition violates: must-links split and cannot-links inside a cluster.
    gap : ndarray of shape (R, max_clusters - 1)
        As in :class:`PartitionScan`, from a tree of all rows or a sample of them.
    """

    violated: Floats
    gap: Floats


def repeat_excess(ends: Integers, n_rows: int) -> float:
    """How much more often than by chance pairs share rows, in standard errors.

    With d_i pairs at row i and E = 2m ends, random pairs have sum d_i (d_i - 1) about E (E - 1) / n.

    Parameters
    ----------
    ends : ndarray of shape (m, 2)
    n_rows : int

    Examples
    --------
    >>> star = np.stack([np.zeros(50, np.int64), np.arange(1, 51)], axis=1)
    >>> apart = np.arange(100).reshape(50, 2)
    >>> repeat_excess(star, 1000) > 100, abs(repeat_excess(apart, 1000)) < 4
    (True, True)
    """
    degree = np.bincount(ends.ravel()).astype(float)
    expected = ends.size * (ends.size - 1) / n_rows
    return float(((degree * (degree - 1)).sum() - expected) / np.sqrt(2 * expected + 1))


def counts_contradict(features: Mapping[str, Floats], n_pairs: int) -> bool:
    """Whether cannot-links run inside clusters at the very number of clusters that the counts ask for.

    Parameters
    ----------
    features : mapping of str to ndarray of shape (R, n_candidates)
        Those of :func:`~spherepair.clustering.number_evidence.partition_features`.
    n_pairs : int

    Examples
    --------
    Counts that ask for K' = 2, where 60 nats of evidence are against it:

    >>> features = {"counted": np.array([[0.0, -3.0]]), "merged": np.log1p([[60.0, 0.0]])}
    >>> [counts_contradict({**features, "together": np.full((1, 2), share)}, 300) for share in (0.9, 0.5)]
    [True, False]
    """
    asked_for = int(features["counted"].mean(axis=0).argmax())
    merged = np.expm1(features["merged"].mean(axis=0)[asked_for])
    if features["together"].mean(axis=0)[asked_for] < SMALLEST_SHARE_TOGETHER:
        return False
    return bool(merged > max(LARGEST_CONTRADICTION, LARGEST_CONTRADICTION_PER_PAIR * n_pairs))


def scan_all_rows(
    rows: Floats,
    ends: Integers,
    *,
    is_must_link: Booleans,
    resamples: Floats,
    max_clusters: int,
    rng: np.random.Generator,
) -> RowScan:
    """Divide all rows into 2, 3, .. clusters and count the pairs that each partition violates.

    This holds for pairs that somebody chose, whose rows may all lie between clusters: no assumption is made
    on how pairs were drawn. The parameters are those of :func:`scan_partitions`.

    Examples
    --------
    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> ends = np.array([[0, 4], [5, 9], [2, 10], [0, 3]])
    >>> scan = scan_all_rows(rows, ends, is_must_link=np.arange(4) == 3, max_clusters=4,
    ...     resamples=np.ones((1, 4)), rng=np.random.default_rng(0))
    >>> scan.violated[0].tolist(), int(scan.gap[0].argmax()) + 2
    ([0.25, 0.0, 0.0], 3)
    """
    everything = torch.from_numpy(rows.astype(np.float32))
    found = np.empty((2, len(resamples), max_clusters - 1))
    for run, tree, partition in sampled_trees(everything, max_clusters, n_runs=len(resamples), rng=rng):
        found[1, run] = height_gaps(tree[:, 2], max_clusters)
        n_pairs = np.maximum(resamples[run].sum(axis=1), 1.0)
        for n_clusters in range(2, max_clusters + 1):
            left, right = partition(n_clusters)[ends].T
            violated = (left == right) != is_must_link
            found[0, run, n_clusters - 2] = resamples[run] @ violated / n_pairs
    return RowScan(*found)


def chosen_features(scan: RowScan, n_pieces: int) -> dict[str, Floats]:
    """Features of the partitions into K' clusters that hold for any pairs.

    ``violated`` is the evidence of the violated pairs in nats below the best K'. Pairs of one row stand and
    fall together, so no more pieces of evidence are counted than there are pairs, or rows in them.
    """
    nats = -scan.violated * n_pieces * np.log((1 - PAIR_ERROR_SHARE) / PAIR_ERROR_SHARE)
    return {"violated": nats - nats.max(axis=-1, keepdims=True), "gap": scan.gap}


def unseen_evidence(proved: ProvedGroups, max_clusters: int) -> Floats:
    """Evidence against K' = 2, 3, .. from the groups that none of the rows in pairs is in; at most 0.

    If the group of (almost) every row in pairs is known, more clusters than groups mean that all these rows
    missed some. As for counts the evidence is bounded, because the rows may have been chosen.

    Returns
    -------
    ndarray of shape (max_clusters - 1,)

    Examples
    --------
    >>> rows = np.arange(15)
    >>> proved = ProvedGroups(rows, rows % 3, n_groups=3, n_linked_rows=15, n_single_rows=0)
    >>> unseen_evidence(proved, 5).round(1).tolist()
    [0.0, 0.0, -1.7, -2.6]
    """
    numbers = np.arange(2, max_clusters + 1)
    if proved.share_grouped < SMALLEST_SHARE_GROUPED:
        return np.zeros(len(numbers))
    n_missed = np.maximum(numbers - proved.n_groups, 0) * UNSEEN_SIZE * len(proved.rows) / numbers
    bounded: Floats = np.logaddexp(-n_missed, np.log(EVIDENCE_FLOOR)) - np.logaddexp(
        0, np.log(EVIDENCE_FLOOR)
    )
    return bounded

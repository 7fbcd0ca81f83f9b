"""What the pairs say about K' clusters, from counts of must-links and cannot-links.

Pairs drawn at random have three properties that training cannot change, because they were drawn before it.
Let q_k be the share of all pair ends in cluster k and mu_k the share of must-links among the pairs of these
ends.

- A pair of a row of class c is a must-link with probability p_c, the share of c: mu = p_c. The mean of 1 /
  p_c over the rows is sum_c p_c / p_c = K, so sum_k q_k / mu_k estimates the number of classes. By Jensen's
  inequality a partition that mixes classes makes it smaller, never larger; for classes of equal size any
  partition will do.
- In the right partition mu_k = q_k for every cluster. A cluster of two classes has fewer must-links than
  that, two parts of one class have more.
- Cannot-links do not run inside a class.

Everything is counted for R resamples of the pairs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spherepair.clustering.assigners import cut_tree, kmeans_from_labels, nearest_center, ward_tree
from spherepair.clustering.partitions import height_gaps, sample_rows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

#: Share of cannot-links that may run inside a cluster by mistake (rows in the wrong cluster).
PAIR_ERROR_SHARE = 0.05
#: Relative errors that more pairs do not lower: of the class count, and of the size of a cluster.
COUNT_TOLERANCE = 0.02
SIZE_TOLERANCE = 0.1
#: Odds that the counts mislead because somebody chose the pairs; they bound the evidence from counts.
EVIDENCE_FLOOR = 0.03
#: Partitions: samples of rows, rows in each, their share of the rows in pairs, and steps of k-means.
SCAN_RUNS = 4
SCAN_ROWS = 2500
SCAN_SHARE = 0.8
SCAN_KMEANS_STEPS = 3


@dataclass(frozen=True)
class PartitionScan:
    """Partitions into K' = 2..max_clusters, for R resamples of the pairs.

    Attributes
    ----------
    counted : ndarray of shape (R, max_clusters - 1)
        Evidence of the estimated number of classes against K', in nats, at most 0.
    misfit : ndarray of shape (R, max_clusters - 1)
        How badly must-links fit the sizes of the clusters, in nats.
    merged : ndarray of shape (R, max_clusters - 1)
        Evidence that some cluster should be two, from the cannot-links inside, in nats.
    gap : ndarray of shape (R, max_clusters - 1)
        Gap of the Ward tree between K' and K' + 1 clusters, see
        :func:`~spherepair.clustering.partitions.height_gaps`.
    together : ndarray of shape (R, max_clusters - 1)
        Share of the must-links inside clusters.
    """

    counted: Floats
    misfit: Floats
    merged: Floats
    gap: Floats
    together: Floats


@dataclass(frozen=True)
class PairCounts:
    """Pairs by cluster; a pair counts one half in the cluster of each of its ends.

    Attributes
    ----------
    must, cannot : ndarray of shape (R, K')
        Must-links and cannot-links.
    cannot_inside : ndarray of shape (R, K')
        Cannot-links with both ends in the cluster.
    """

    must: Floats
    cannot: Floats
    cannot_inside: Floats

    @property
    def expected_must(self) -> Floats:
        """Must-links of each cluster if it were one class: m q_k^2."""
        ends = self.must + self.cannot
        expected: Floats = ends**2 / np.maximum(ends.sum(axis=-1, keepdims=True), 1.0)
        return expected


@dataclass(frozen=True)
class ClassCount:
    """Estimates of the number of classes and their relative standard errors, shape (R,)."""

    value: Floats
    relative_error: Floats


def scan_partitions(
    rows: Floats,
    ends: Integers,
    *,
    is_must_link: Booleans,
    resamples: Floats,
    max_clusters: int,
    rng: np.random.Generator,
) -> PartitionScan:
    """Divide the rows in pairs into 2, 3, .. clusters and ask the pairs about each partition.

    A Ward tree of a sample of these rows is cut into K' clusters, a few steps of k-means follow, all rows in
    pairs go to the nearest center, and the pairs are counted. This is done for several samples of the rows.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    ends : ndarray of shape (m, 2)
        Row numbers of the two ends of each pair.
    is_must_link : ndarray of shape (m,)
    resamples : ndarray of shape (R, m)
        How often each pair occurs in each resample; they are shared out among the samples of rows.
    max_clusters : int
        At least 2, at most the number of rows in pairs.
    rng : numpy.random.Generator

    Examples
    --------
    Three clusters with ten cannot-links between each two and five must-links in each: two clusters are too
    few, four too many.

    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> apart, together = [[0, 4], [5, 9], [2, 10]], [[0, 3], [4, 7], [8, 11]]
    >>> ends = np.vstack([np.tile(apart, (10, 1)), np.tile(together, (5, 1))])
    >>> scan = scan_partitions(rows, ends, is_must_link=np.arange(45) >= 30, max_clusters=4,
    ...     resamples=np.ones((1, 45)), rng=np.random.default_rng(0))
    >>> int(scan.misfit[0].argmin()) + 2, int(scan.gap[0].argmax()) + 2
    (3, 3)
    """
    used, positions = np.unique(ends, return_inverse=True)
    linked, positions = torch.from_numpy(rows[used].astype(np.float32)), positions.reshape(ends.shape)
    found = np.empty((5, len(resamples), max_clusters - 1))
    for run, tree, partition in sampled_trees(linked, max_clusters, n_runs=len(resamples), rng=rng):
        found[3, run] = height_gaps(tree[:, 2], max_clusters)
        for n_clusters in range(2, max_clusters + 1):
            labels = partition(n_clusters)[positions]
            counts = count_pairs(labels, is_must_link, n_clusters=n_clusters, resamples=resamples[run])
            found[:3, run, n_clusters - 2] = _evidence(counts, n_clusters)
            found[4, run, n_clusters - 2] = _together(labels[is_must_link], resamples[run][:, is_must_link])
    return PartitionScan(*found)


def sampled_trees(
    rows: torch.Tensor, max_clusters: int, *, n_runs: int, rng: np.random.Generator
) -> Iterator[tuple[slice, Floats, Callable[[int], Integers]]]:
    """Ward trees of several samples of the rows, (n, D), shared out among ``n_runs`` resamples of pairs.

    Yields the resamples of each tree, the tree, and a function from K' to labels of all rows, (n,).
    """
    size = min(SCAN_ROWS, max(int(SCAN_SHARE * len(rows)), max_clusters + 1))
    n_trees = min(SCAN_RUNS, n_runs)
    for run in range(n_trees):
        sample = rows[torch.from_numpy(sample_rows(len(rows), size, rng=rng))]
        tree = ward_tree(sample.double().numpy())
        yield slice(run, None, n_trees), tree, partial(_cut_labels, rows, sample, tree)


def _cut_labels(rows: torch.Tensor, sample: torch.Tensor, tree: Floats, n_clusters: int) -> Integers:
    """Labels of all rows when the tree of a sample is cut and improved by k-means."""
    cut = torch.from_numpy(cut_tree(tree, n_clusters))
    centers = kmeans_from_labels(sample, cut, n_steps=SCAN_KMEANS_STEPS).numpy()
    return nearest_center(rows, centers)


def _evidence(counts: PairCounts, n_clusters: int) -> Floats:
    """Evidence of the class count, misfit of the sizes, evidence for merged classes; shape (3, R)."""
    counted = count_evidence(count_classes(counts), n_clusters)
    return np.stack([counted, size_misfit(counts), merge_evidence(counts)])


def _together(labels: Integers, times: Floats) -> Floats:
    """Share of pairs, (m, 2) labels, inside clusters in each resample; shape (R,)."""
    n_inside = times @ (labels[:, 0] == labels[:, 1])
    return np.asarray(n_inside / np.maximum(times.sum(axis=1), 1.0))


def count_pairs(
    labels: Integers, is_must_link: Booleans, *, n_clusters: int, resamples: Floats | None = None
) -> PairCounts:
    """Count pairs by cluster.

    Parameters
    ----------
    labels : ndarray of shape (m, 2)
        Clusters of the two ends.
    is_must_link : ndarray of shape (m,)
    n_clusters : int
    resamples : ndarray of shape (R, m), optional
        How often each pair occurs in each resample; by default one resample with every pair once.

    Examples
    --------
    >>> counts = count_pairs(np.array([[0, 0], [0, 1], [1, 1]]), np.array([True, False, False]),
    ...     n_clusters=2)
    >>> counts.must.tolist(), counts.cannot.tolist(), counts.cannot_inside.tolist()
    ([[1.0, 0.0]], [[0.5, 1.5]], [[0.0, 1.0]])
    """
    times = np.ones((1, len(labels))) if resamples is None else resamples
    inside = ~is_must_link & (labels[:, 0] == labels[:, 1])
    kinds = (is_must_link, ~is_must_link, inside)
    return PairCounts(*(_half_ends(labels[kind], times[:, kind], n_clusters) for kind in kinds))


def _half_ends(labels: Integers, times: Floats, n_clusters: int) -> Floats:
    """Half the number of ends in each cluster, (R, K'), for every line of ``times``, (R, m)."""
    starts = np.arange(0, labels.size + 1, 2)
    halves = np.full(labels.size, 0.5)
    ends = csr_array((halves, labels.ravel(), starts), shape=(len(labels), n_clusters))
    counts: Floats = (ends.T @ times.T).T
    return counts


def count_classes(counts: PairCounts) -> ClassCount:
    """Estimate the number of classes by sum_k q_k / mu_k.

    One is added to the must-links: E[1 / (M + 1)] is almost 1 / E[M] for a Poisson count M, whereas 1 / M is
    far too large on average when M is small, and infinite when M is zero.

    Examples
    --------
    Four equal classes, a quarter of the pairs must-links, two classes in each cluster:

    >>> counts = PairCounts(np.full((1, 2), 5000.0), np.full((1, 2), 15000.0), np.zeros((1, 2)))
    >>> count_classes(counts).value.round(2).tolist()
    [4.0]
    """
    expected, seen = counts.expected_must, counts.must + 1.0
    value = np.maximum((expected / seen).sum(axis=-1), np.finfo(float).tiny)
    variance = (expected**2 / seen**3).sum(axis=-1)
    return ClassCount(value, np.sqrt(variance) / value)


def count_evidence(found: ClassCount, n_clusters: int) -> Floats:
    """Evidence of the class count against K' clusters, in nats, at most 0; shape (R,).

    It is bounded, because pairs may have been chosen in a way that makes the count wrong.

    Examples
    --------
    >>> ten, nine = (count_evidence(ClassCount(np.array([10.0]), np.array([0.05])), k) for k in (10, 9))
    >>> bool(ten[0] > nine[0] + 1)
    True
    """
    distance = count_distance(found, n_clusters)
    bounded: Floats = np.logaddexp(-(distance**2) / 2, np.log(EVIDENCE_FLOOR))
    return bounded


def count_distance(found: ClassCount, n_clusters: int) -> Floats:
    """Distance of the class counts from K' in standard errors, on a logarithmic scale.

    Examples
    --------
    >>> count_distance(ClassCount(np.array([10.0]), np.array([0.0])), 10).tolist()
    [0.0]
    """
    error = np.hypot(found.relative_error, COUNT_TOLERANCE)
    distance: Floats = np.abs(np.log(found.value / n_clusters) / error)
    return distance


def size_misfit(counts: PairCounts) -> Floats:
    """Half the chi-squared of the must-links in each cluster against its size, in nats; shape (R,).

    Rows in wrong clusters shift the sizes by a share that more pairs do not lower: the tolerance.

    Examples
    --------
    >>> right = PairCounts(np.full((1, 2), 50.0), np.full((1, 2), 50.0), np.zeros((1, 2)))
    >>> two_in_one = PairCounts(np.array([[50.0, 25.0]]), np.array([[100.0, 75.0]]), right.cannot_inside)
    >>> size_misfit(right).tolist(), bool(size_misfit(two_in_one)[0] > 5)
    ([0.0], True)
    """
    expected = counts.expected_must
    # 0.5: an empty cluster has no variance of its own.
    variance = expected + 0.5 + (SIZE_TOLERANCE * expected) ** 2
    misfit = ((counts.must - expected) ** 2 / variance).sum(axis=-1) / 2
    # Without any must-link somebody asked only for cannot-links, which says nothing about sizes.
    return np.where(counts.must.any(axis=-1), misfit, 0.0)


def merge_evidence(counts: PairCounts) -> Floats:
    """Evidence that clusters with many cannot-links inside are two each, in nats; shape (R,).

    If cluster k were two classes, about half of its c_k^2 / m pairs would be cannot-links, otherwise only the
    share of errors: the likelihood ratio of two Poisson counts, summed where it is positive.

    Examples
    --------
    >>> apart, none = np.full((1, 2), 10.0), np.zeros((1, 2))
    >>> merge_evidence(PairCounts(none, apart, none)).tolist()
    [0.0]
    >>> bool(merge_evidence(PairCounts(none, apart, np.array([[10.0, 0.0]])))[0] > 10)
    True
    """
    expected = counts.cannot**2 / np.maximum(counts.cannot.sum(axis=-1, keepdims=True), 1.0)
    ratios = counts.cannot_inside * np.log(0.5 / PAIR_ERROR_SHARE) - expected * (0.5 - PAIR_ERROR_SHARE)
    evidence: Floats = np.maximum(ratios, 0.0).sum(axis=-1)
    return evidence

"""What the pairs say about a partition, by counting where must-links and cannot-links run.

Pairs drawn at random have three properties that training cannot change, because they were drawn
before it. Let q_k be the share of all pair ends in cluster k and μ_k the share of must-links among
the pairs of these ends.

- A row of class c is must-linked as often as c is large: μ = p_c. The mean of 1 / p_c over the rows
  is Σ_c p_c / p_c = K, so Σ_k q_k / μ_k estimates the number of classes. By Jensen's inequality a
  partition that mixes classes makes it smaller, never larger, and for classes of equal size any
  partition will do.
- In the right partition μ_k = q_k for every cluster. A cluster of two classes has fewer must-links
  than that, two parts of one class have more.
- Cannot-links do not run inside a class.

Everything is counted for R resamples of the pairs at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spherepair.clustering import number_settings as settings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class PairCounts:
    """Pairs by cluster; a pair counts half in the cluster of each of its ends.

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
        """Must-links of each cluster if it were one class: m q_k²."""
        ends = self.must + self.cannot
        expected: Floats = ends**2 / np.maximum(ends.sum(axis=-1, keepdims=True), 1.0)
        return expected


@dataclass(frozen=True)
class ClassCount:
    """Estimates of the number of classes and their relative standard errors, shape (R,)."""

    value: Floats
    relative_error: Floats


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
        How often each pair occurs in each resample; once in a single one when missing.

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
    """Half the number of ends in each cluster, for every line of ``times`` (R, m): shape (R, K')."""
    starts = np.arange(0, labels.size + 1, 2)
    halves = np.full(labels.size, 0.5)
    ends = csr_array((halves, labels.ravel(), starts), shape=(len(labels), n_clusters))
    counts: Floats = (ends.T @ times.T).T
    return counts


def count_classes(counts: PairCounts) -> ClassCount:
    """Estimate the number of classes by Σ_k q_k / μ_k.

    One is added to the must-links: E[1 / (M + 1)] is almost 1 / E[M] for a Poisson count M, whereas
    1 / M is far too large on average when M is small, and infinite when M is zero.

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

    It is bounded: pairs may have been chosen in a way that makes the count wrong.

    Examples
    --------
    >>> ten, nine = (count_evidence(ClassCount(np.array([10.0]), np.array([0.05])), k) for k in (10, 9))
    >>> bool(ten[0] > nine[0] + 1)
    True
    """
    distance = count_distance(found, n_clusters)
    bounded: Floats = np.logaddexp(-(distance**2) / 2, np.log(settings.EVIDENCE_FLOOR))
    return bounded


def count_distance(found: ClassCount, n_clusters: int) -> Floats:
    """Return how many standard errors the class counts are from K', on a logarithmic scale.

    Examples
    --------
    >>> count_distance(ClassCount(np.array([10.0]), np.array([0.0])), 10).tolist()
    [0.0]
    """
    error = np.hypot(found.relative_error, settings.COUNT_TOLERANCE)
    distance: Floats = np.abs(np.log(found.value / n_clusters) / error)
    return distance


def size_misfit(counts: PairCounts) -> Floats:
    """Half the χ² of the must-links in each cluster against what its size asks for, in nats.

    Rows in wrong clusters shift the sizes by a share that more pairs do not lower: the tolerance.

    Returns
    -------
    ndarray of shape (R,)

    Examples
    --------
    >>> right = PairCounts(np.full((1, 2), 50.0), np.full((1, 2), 50.0), np.zeros((1, 2)))
    >>> two_in_one = PairCounts(np.array([[50.0, 25.0]]), np.array([[100.0, 75.0]]), right.cannot_inside)
    >>> size_misfit(right).tolist(), bool(size_misfit(two_in_one)[0] > 5)
    ([0.0], True)
    """
    expected = counts.expected_must
    # 0.5: an empty cluster has no variance of its own.
    variance = expected + 0.5 + (settings.SIZE_TOLERANCE * expected) ** 2
    misfit = ((counts.must - expected) ** 2 / variance).sum(axis=-1) / 2
    # Without any must-link somebody asked for cannot-links only, which says nothing on sizes.
    return np.where(counts.must.any(axis=-1), misfit, 0.0)


def merge_evidence(counts: PairCounts) -> Floats:
    """Evidence, in nats, that clusters with many cannot-links inside are two each; shape (R,).

    Were cluster k two classes, about half of its c_k² / m pairs would be cannot-links, otherwise only
    a share ε of errors: the likelihood ratio of two Poisson counts, summed where it is positive.

    Examples
    --------
    >>> apart, none = np.full((1, 2), 10.0), np.zeros((1, 2))
    >>> merge_evidence(PairCounts(none, apart, none)).tolist()
    [0.0]
    >>> bool(merge_evidence(PairCounts(none, apart, np.array([[10.0, 0.0]])))[0] > 10)
    True
    """
    expected = counts.cannot**2 / np.maximum(counts.cannot.sum(axis=-1, keepdims=True), 1.0)
    error = settings.PAIR_ERROR_SHARE
    ratios = counts.cannot_inside * np.log(0.5 / error) - expected * (0.5 - error)
    evidence: Floats = np.maximum(ratios, 0.0).sum(axis=-1)
    return evidence

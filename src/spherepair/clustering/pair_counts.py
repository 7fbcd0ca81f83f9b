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
- Cannot-links do not run inside a class, but between all parts of different classes, as many as the
  sizes of the parts ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering import number_settings as settings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class PairCounts:
    """Pairs by cluster; a pair counts half in the cluster of each of its ends.

    Attributes
    ----------
    must, cannot : ndarray of shape (K',)
        Must-links and cannot-links.
    cannot_inside : ndarray of shape (K',)
        Cannot-links with both ends in the cluster.
    """

    must: Floats
    cannot: Floats
    cannot_inside: Floats

    @property
    def expected_must(self) -> Floats:
        """Must-links of each cluster if it were one class: m q_k²."""
        ends = self.must + self.cannot
        expected: Floats = ends**2 / max(ends.sum(), 1.0)
        return expected


@dataclass(frozen=True)
class ClassCount:
    """An estimate of the number of classes and its relative standard error."""

    value: float
    relative_error: float


def count_pairs(labels: Integers, is_must_link: Booleans, *, n_clusters: int) -> PairCounts:
    """Count pairs by cluster.

    Parameters
    ----------
    labels : ndarray of shape (m, 2)
        Clusters of the two ends.
    is_must_link : ndarray of shape (m,)
    n_clusters : int

    Examples
    --------
    >>> counts = count_pairs(np.array([[0, 0], [0, 1], [1, 1]]), np.array([True, False, False]),
    ...     n_clusters=2)
    >>> counts.must.tolist(), counts.cannot.tolist(), counts.cannot_inside.tolist()
    ([1.0, 0.0], [0.5, 1.5], [0.0, 1.0])
    """
    apart = labels[~is_must_link]
    inside = apart[apart[:, 0] == apart[:, 1], 0]
    return PairCounts(
        must=np.bincount(labels[is_must_link].ravel(), minlength=n_clusters) / 2,
        cannot=np.bincount(apart.ravel(), minlength=n_clusters) / 2,
        cannot_inside=np.bincount(inside, minlength=n_clusters).astype(float),
    )


def cannot_link_table(labels: Integers, *, n_clusters: int) -> Floats:
    """Count cannot-links between clusters.

    Parameters
    ----------
    labels : ndarray of shape (m, 2)
        Clusters of the two ends.
    n_clusters : int

    Returns
    -------
    ndarray of shape (n_clusters, n_clusters)
        Symmetric; those inside a cluster count twice, once for each end.

    Examples
    --------
    >>> cannot_link_table(np.array([[0, 1], [1, 0], [1, 1]]), n_clusters=2).tolist()
    [[0.0, 2.0], [2.0, 2.0]]
    """
    cells = np.bincount(labels[:, 0] * n_clusters + labels[:, 1], minlength=n_clusters**2)
    table = cells.reshape(n_clusters, n_clusters).astype(float)
    both: Floats = table + table.T
    return both


def count_classes(counts: PairCounts) -> ClassCount:
    """Estimate the number of classes by Σ_k q_k / μ_k.

    One is added to the must-links: E[1 / (M + 1)] is almost 1 / E[M] for a Poisson count M, whereas
    1 / M is far too large on average when M is small, and infinite when M is zero.

    Examples
    --------
    Four equal classes, a quarter of the pairs must-links, two classes in each cluster:

    >>> counts = PairCounts(np.full(2, 5000.0), np.full(2, 15000.0), np.zeros(2))
    >>> round(count_classes(counts).value, 2)
    4.0
    """
    expected, seen = counts.expected_must, counts.must + 1.0
    value = float((expected / seen).sum())
    variance = float((expected**2 / seen**3).sum())
    return ClassCount(value, float(np.sqrt(variance)) / max(value, np.finfo(float).tiny))


def count_evidence(found: ClassCount, n_clusters: int) -> float:
    """Evidence of the class count against K' clusters, in nats, at most 0.

    It is bounded: pairs may have been chosen in a way that makes the count wrong.

    Examples
    --------
    >>> ten, nine = (count_evidence(ClassCount(10.0, 0.05), k) for k in (10, 9))
    >>> ten > nine + 1
    True
    """
    distance = count_distance(found, n_clusters)
    return float(np.logaddexp(-(distance**2) / 2, np.log(settings.EVIDENCE_FLOOR)))


def count_distance(found: ClassCount, n_clusters: int) -> float:
    """Return how many standard errors the class count is from K', on a logarithmic scale.

    Examples
    --------
    >>> round(count_distance(ClassCount(10.0, 0.0), 10), 2)
    0.0
    """
    error = np.hypot(found.relative_error, settings.COUNT_TOLERANCE)
    return abs(float(np.log(max(found.value, np.finfo(float).tiny) / n_clusters) / error))


def size_misfit(counts: PairCounts) -> float:
    """Half the χ² of the must-links in each cluster against what its size asks for, in nats.

    Rows in wrong clusters shift the sizes by a share that more pairs do not lower: the tolerance.

    Examples
    --------
    >>> right = PairCounts(np.full(2, 50.0), np.full(2, 50.0), np.zeros(2))
    >>> two_in_one = PairCounts(np.array([50.0, 25.0]), np.array([100.0, 75.0]), np.zeros(2))
    >>> size_misfit(right), size_misfit(two_in_one) > 5
    (0.0, True)
    """
    if not counts.must.any():  # somebody asked for cannot-links only, which says nothing on sizes
        return 0.0
    expected = counts.expected_must
    # 0.5: an empty cluster has no variance of its own.
    variance = expected + 0.5 + (settings.SIZE_TOLERANCE * expected) ** 2
    return float(((counts.must - expected) ** 2 / variance).sum() / 2)


def merge_evidence(counts: PairCounts) -> float:
    """Evidence, in nats, that clusters with many cannot-links inside are two each.

    Were cluster k two classes, about half of its c_k² / m pairs would be cannot-links, otherwise only
    a share ε of errors: the likelihood ratio of two Poisson counts, summed where it is positive.

    Examples
    --------
    >>> merge_evidence(PairCounts(np.zeros(2), np.full(2, 10.0), np.zeros(2)))
    0.0
    >>> merge_evidence(PairCounts(np.zeros(2), np.full(2, 10.0), np.array([10.0, 0.0]))) > 10
    True
    """
    expected = counts.cannot**2 / max(counts.cannot.sum(), 1.0)
    error = settings.PAIR_ERROR_SHARE
    ratios = counts.cannot_inside * np.log(0.5 / error) - expected * (0.5 - error)
    return float(np.maximum(ratios, 0.0).sum())


def group_fragments(cannot: Floats, max_clusters: int) -> Floats:
    """Log-likelihood of 2, 3, .. classes by the cannot-links that are missing between fragments.

    With E_ab cannot-links expected between two fragments, of different classes there are about E_ab,
    of the same class ε E_ab: n_ab of them speak with (1 - ε) E_ab - n_ab log(1 / ε) nats for one
    class. From many fragments down to two groups, the two groups are merged whose sum of this is
    largest. Every group costs log m nats for m cannot-links, as in the Bayesian information criterion,
    so that scattered rows between the classes do not make one.

    Parameters
    ----------
    cannot : ndarray of shape (L, L)
        Cannot-links between fragments, symmetric; L is at least 2.
    max_clusters : int

    Returns
    -------
    ndarray of shape (max_clusters - 1,)
        For K' = 2, 3, .., up to a constant; more groups than fragments count as all fragments.

    Examples
    --------
    Two classes in two fragments each: no cannot-links inside a class.

    >>> cannot = 20.0 * np.kron(1 - np.eye(2), np.ones((2, 2)))
    >>> int(group_fragments(cannot, 4).argmax()) + 2
    2
    """
    ends = cannot.sum(axis=1)
    expected = np.outer(ends, ends) / max(ends.sum(), 1.0)
    error = settings.FRAGMENT_ERROR_SHARE
    gains = (1 - error) * expected - cannot * np.log(1 / error)
    likelihoods = np.cumsum([0.0, *_merges(gains)])  # of L, L - 1, .. 2 groups
    numbers = np.arange(2, max_clusters + 1)
    likelihoods = likelihoods[::-1][np.minimum(numbers, len(cannot)) - 2]
    grouped: Floats = likelihoods - np.log(max(ends.sum() / 2, 1.0)) * numbers
    return grouped


def _merges(gains: Floats) -> Iterator[float]:
    """Merge the two groups that gain most until two are left, and yield the gains."""
    gains = gains.copy()
    np.fill_diagonal(gains, -np.inf)
    for _ in range(len(gains) - 2):
        kept, gone = divmod(int(gains.argmax()), len(gains))
        yield float(gains[kept, gone])
        gains[kept] += gains[gone]
        gains[:, kept] = gains[kept]
        gains[gone] = gains[:, gone] = -np.inf

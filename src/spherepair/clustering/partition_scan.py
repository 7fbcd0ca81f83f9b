"""One look at the partitions into 2, 3, .. clusters: how round they are, and what the pairs say.

A Ward tree of (a sample of) the rows in cannot-links is cut into K' clusters, a few K-means steps
follow, and all these rows go to the nearest centre. With c_i ends in cluster i and m cannot-links,
pairs drawn at random put about E_ij = c_i c_j / 2m of them between clusters i and j. So

- *merged*: were cluster i two clusters in truth, about half of the E_ii pairs inside it would be
  cannot-links, otherwise only a share ε of errors. The likelihood ratio of the two Poisson counts,
  C_ii log(1 / 2ε) - E_ii (1/2 - ε), is the evidence that i holds more than one cluster;
- *split*: were clusters i and j one in truth, hardly any cannot-link would run between them. The
  likelihood ratio E_ij (1 - ε) - C_ij log(1 / ε) is the evidence that i and j are one.

Both are summed over clusters where positive, in nats. Training remembers its pairs, so cannot-links
and must-links are almost all satisfied in the embedding; cannot-links that are *absent* between two
parts of one cluster are not affected by that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster
from scipy.spatial.distance import pdist, squareform

from spherepair.clustering.lifetime import lifetimes, ward_tree
from spherepair.clustering.number_settings import PAIR_ERROR_SHARE, SCAN_KMEANS_STEPS
from spherepair.clustering.partitions import kmeans_steps, nearest_centre, sample_rows
from spherepair.clustering.silhouette import mean_silhouette

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class PartitionScan:
    """Partitions into K' = 2..max_clusters, R runs on different samples of rows.

    Attributes
    ----------
    merged : ndarray of shape (R, max_clusters - 1)
        Evidence that some cluster should be two, in nats.
    split : ndarray of shape (R, max_clusters - 1)
        Evidence that some two clusters should be one, in nats.
    silhouette : ndarray of shape (R, max_clusters - 1)
        Mean silhouette of the sampled rows.
    lifetime : ndarray of shape (R, max_clusters - 1)
        Lifetime of K' clusters in the Ward tree.
    """

    merged: Floats
    split: Floats
    silhouette: Floats
    lifetime: Floats


def scan_partitions(
    rows: Floats,
    cannot_link: Integers,
    *,
    max_clusters: int,
    rng: np.random.Generator,
    n_runs: int = 2,
    n_rows: int = 2000,
) -> PartitionScan:
    """Cut the rows in cannot-links into 2, 3, .. clusters and look at each partition.

    Rows in no pair are left out: training has not placed them, and they blur the borders.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    cannot_link : ndarray of shape (m, 2)
        Row numbers of the two ends.
    max_clusters : int
        At least 2, at most the number of rows in cannot-links.
    rng : numpy.random.Generator
    n_runs, n_rows : int
        Number of samples and rows in each; one run is made where a sample holds all linked rows.

    Examples
    --------
    Three clusters, each two of them cannot-linked ten times: four are one too many, two too few.

    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> pairs = np.tile([[0, 4], [5, 9], [2, 10]], (10, 1))
    >>> scan = scan_partitions(rows, pairs, max_clusters=4, rng=np.random.default_rng(0))
    >>> (scan.merged > 1).astype(int)[0].tolist(), (scan.split > 1).astype(int)[0].tolist()
    ([1, 0, 0], [0, 0, 1])
    """
    used, ends = np.unique(cannot_link, return_inverse=True)
    linked, ends = rows[used], ends.reshape(cannot_link.shape)
    runs = [
        _scan_once(
            linked[sample_rows(len(linked), n_rows, rng=rng)],
            linked,
            ends=ends,
            max_clusters=max_clusters,
        )
        for _ in range(n_runs if len(linked) > n_rows else 1)
    ]
    return PartitionScan(*np.stack(runs, axis=1))


def _scan_once(sample: Floats, linked: Floats, *, ends: Integers, max_clusters: int) -> Floats:
    """Return merged, split, silhouette and lifetime of one sample, shape (4, max_clusters - 1)."""
    tree = ward_tree(sample)
    distances = squareform(pdist(sample).astype(np.float32))
    found = np.empty((4, max_clusters - 1))
    for place in range(max_clusters - 1):
        cut = fcluster(tree, place + 2, "maxclust") - 1
        labels, centres = kmeans_steps(sample, cut, n_steps=SCAN_KMEANS_STEPS)
        counts = link_counts(nearest_centre(linked, centres)[ends], len(centres))
        found[:2, place] = merge_evidence(counts), split_evidence(counts)
        found[2, place] = mean_silhouette(distances, labels)
    found[3] = lifetimes(tree[:, 2], max_clusters)
    return found


def link_counts(labels: Integers, n_clusters: int) -> Floats:
    """Count the pairs between clusters, symmetric, with pairs inside a cluster counted twice.

    Parameters
    ----------
    labels : ndarray of shape (m, 2)
        Clusters of the two ends.
    n_clusters : int

    Examples
    --------
    >>> link_counts(np.array([[0, 1], [1, 0], [1, 1]]), 2).tolist()
    [[0.0, 2.0], [2.0, 2.0]]
    """
    flat = labels[:, 0] * n_clusters + labels[:, 1]
    counts = np.bincount(flat, minlength=n_clusters**2).reshape(n_clusters, n_clusters)
    return (counts + counts.T).astype(float)


def merge_evidence(counts: Floats) -> float:
    """Evidence, in nats, that clusters with many cannot-links inside are two each.

    Examples
    --------
    >>> merge_evidence(np.array([[0.0, 20.0], [20.0, 0.0]]))
    0.0
    >>> merge_evidence(np.array([[20.0, 20.0], [20.0, 0.0]])) > 10
    True
    """
    found, expected = np.diag(counts) / 2, np.diag(_expected(counts)) / 2
    ratios = found * np.log(0.5 / PAIR_ERROR_SHARE) - expected * (0.5 - PAIR_ERROR_SHARE)
    return float(np.maximum(ratios, 0.0).sum())


def split_evidence(counts: Floats) -> float:
    """Evidence, in nats, that two clusters without cannot-links between them are one.

    Examples
    --------
    >>> split_evidence(np.array([[0.0, 20.0, 20.0], [20.0, 0.0, 20.0], [20.0, 20.0, 0.0]]))
    0.0
    >>> split_evidence(np.array([[0.0, 40.0, 40.0], [40.0, 0.0, 0.0], [40.0, 0.0, 0.0]])) > 5
    True
    """
    upper = np.triu_indices(len(counts), 1)
    found, expected = counts[upper], _expected(counts)[upper]
    ratios = expected * (1 - PAIR_ERROR_SHARE) - found * np.log(1 / PAIR_ERROR_SHARE)
    return float(np.maximum(ratios, 0.0).sum())


def _expected(counts: Floats) -> Floats:
    ends = counts.sum(axis=1)
    expected: Floats = np.outer(ends, ends) / max(ends.sum(), 1.0)
    return expected

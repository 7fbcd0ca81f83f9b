"""One look at the partitions into 2, 3, .. clusters: how far apart they are, and what the pairs say.

A Ward tree of a sample of the rows in pairs tells how much farther apart K' clusters are than K' + 1.
It is cut into K' clusters, a few K-means steps follow, all rows in pairs go to the nearest centre, and
the pairs are counted (``pair_counts``). All this is done for several samples of the rows, and the
counting for several resamples of the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster

from spherepair.clustering import number_settings as settings
from spherepair.clustering.lifetime import ward_tree
from spherepair.clustering.pair_counts import (
    count_classes,
    count_evidence,
    count_pairs,
    merge_evidence,
    size_misfit,
)
from spherepair.clustering.partitions import kmeans_steps, nearest_centre, sample_rows

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class PartitionScan:
    """Partitions into K' = 2..max_clusters for R resamples of the pairs.

    Attributes
    ----------
    counted : ndarray of shape (R, max_clusters - 1)
        What the estimated number of classes says against K', in nats, at most 0.
    misfit : ndarray of shape (R, max_clusters - 1)
        How badly must-links fit the sizes of the clusters, in nats.
    merged : ndarray of shape (R, max_clusters - 1)
        Evidence that some cluster should be two, from the cannot-links inside, in nats.
    gap : ndarray of shape (R, max_clusters - 1)
        How far the Ward tree falls from K' to K' + 1 clusters, see :func:`height_gaps`.
    """

    counted: Floats
    misfit: Floats
    merged: Floats
    gap: Floats


def scan_partitions(
    rows: Floats,
    ends: Integers,
    *,
    is_must_link: Booleans,
    resamples: Floats,
    max_clusters: int,
    rng: np.random.Generator,
) -> PartitionScan:
    """Cut the rows in pairs into 2, 3, .. clusters and look at each partition.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    ends : ndarray of shape (m, 2)
        Row numbers of the two ends of each pair.
    is_must_link : ndarray of shape (m,)
    resamples : ndarray of shape (R, m)
        How often each pair occurs in each resample; resamples take turns with the samples of rows.
    max_clusters : int
        At least 2, at most the number of rows in pairs.
    rng : numpy.random.Generator

    Examples
    --------
    Three clusters with ten cannot-links between each two and five must-links in each: two clusters
    are too few, four too many.

    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> apart, together = [[0, 4], [5, 9], [2, 10]], [[0, 3], [4, 7], [8, 11]]
    >>> ends = np.vstack([np.tile(apart, (10, 1)), np.tile(together, (5, 1))])
    >>> scan = scan_partitions(rows, ends, is_must_link=np.arange(45) >= 30, max_clusters=4,
    ...     resamples=np.ones((1, 45)), rng=np.random.default_rng(0))
    >>> int(scan.misfit[0].argmin()) + 2, int(scan.gap[0].argmax()) + 2
    (3, 3)
    """
    used, places = np.unique(ends, return_inverse=True)
    linked, places = rows[used].astype(np.float32), places.reshape(ends.shape)
    size = min(settings.SCAN_ROWS, max(int(settings.SCAN_SHARE * len(linked)), max_clusters + 1))
    n_runs = min(settings.SCAN_RUNS, len(resamples))
    found = np.empty((4, len(resamples), max_clusters - 1))
    for run in range(n_runs):
        sample = linked[sample_rows(len(linked), size, rng=rng)]
        tree = ward_tree(sample.astype(float))
        found[3, run::n_runs] = height_gaps(tree[:, 2], max_clusters)
        for place in range(max_clusters - 1):
            cut = fcluster(tree, place + 2, "maxclust") - 1
            _, centres = kmeans_steps(sample, cut, n_steps=settings.SCAN_KMEANS_STEPS)
            labels = nearest_centre(linked, centres)[places]
            found[:3, run::n_runs, place] = _count(labels, is_must_link, place + 2, resamples[run::n_runs])
    return PartitionScan(*found)


def _count(labels: Integers, is_must_link: Booleans, n_clusters: int, resamples: Floats) -> Floats:
    """Evidence of the class count, misfit of the sizes, evidence for merged classes; shape (3, R)."""
    counts = count_pairs(labels, is_must_link, n_clusters=n_clusters, resamples=resamples)
    counted = count_evidence(count_classes(counts), n_clusters)
    return np.stack([counted, size_misfit(counts), merge_evidence(counts)])


def height_gaps(heights: Floats, max_clusters: int) -> Floats:
    """Rank times logarithmic step of the merge heights of a tree: (K' - 1) log(h_K' / h_(K'+1)).

    With h_K' the height of the merge that leaves K' - 1 clusters. Where heights fall off like a power
    of their rank, as they do inside a cloud without clusters, these are alike for all K', and by
    Rényi's representation scatter like exponential variables; where K' clusters are far apart and their
    parts are not, one stands out. Heights far below the largest are not told apart: half of the largest
    is added to all of them.

    Parameters
    ----------
    heights : ndarray of shape (n - 1,)
        Rising.
    max_clusters : int

    Returns
    -------
    ndarray of shape (max_clusters - 1,)
        For K' = 2, 3, ..

    Examples
    --------
    >>> int(height_gaps(np.array([0.1, 0.2, 0.2, 3.0, 4.0]), 5).argmax()) + 2
    3
    """
    falling = np.zeros(max_clusters)
    falling[: len(heights)] = heights[::-1][:max_clusters]
    if falling[0] == 0:  # all rows coincide
        return falling[1:]
    logs = np.log(falling / falling[0] + settings.HEIGHT_RESOLUTION)
    gaps: Floats = np.arange(1, max_clusters) * (logs[:-1] - logs[1:])
    return gaps

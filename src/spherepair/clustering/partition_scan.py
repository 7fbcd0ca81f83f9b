"""One look at the partitions into 2, 3, .. clusters: how round they are, and what the pairs say.

A Ward tree of (a sample of) the rows in pairs is cut into K' clusters, a few K-means steps follow,
and all rows in pairs go to the nearest centre; then the pairs are counted (``pair_counts``). A cut
into more fragments than there can be clusters is merged again by the cannot-links alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster
from scipy.spatial.distance import pdist, squareform

from spherepair.clustering.lifetime import ward_tree
from spherepair.clustering.number_settings import FRAGMENTS_PER_CLUSTER, SCAN_KMEANS_STEPS
from spherepair.clustering.pair_counts import (
    cannot_link_table,
    count_classes,
    count_evidence,
    count_pairs,
    group_fragments,
    merge_evidence,
    size_misfit,
)
from spherepair.clustering.partitions import kmeans_steps, nearest_centre, sample_rows
from spherepair.clustering.silhouette import mean_silhouette

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class PartitionScan:
    """Partitions into K' = 2..max_clusters, R runs on different samples of rows.

    Attributes
    ----------
    counted : ndarray of shape (R, max_clusters - 1)
        What the estimated number of classes says against K', in nats, at most 0.
    misfit : ndarray of shape (R, max_clusters - 1)
        How badly must-links fit the sizes of the clusters, in nats.
    merged : ndarray of shape (R, max_clusters - 1)
        Evidence that some cluster should be two, from the cannot-links inside, in nats.
    silhouette : ndarray of shape (R, max_clusters - 1)
        Mean silhouette of the sampled rows.
    grouped : ndarray of shape (R, max_clusters - 1)
        Log-likelihood of K' classes by the cannot-links missing between fragments, in nats.
    """

    counted: Floats
    misfit: Floats
    merged: Floats
    silhouette: Floats
    grouped: Floats


def scan_partitions(
    rows: Floats,
    ends: Integers,
    *,
    is_must_link: Booleans,
    max_clusters: int,
    rng: np.random.Generator,
    n_runs: int = 2,
    n_rows: int = 1500,
) -> PartitionScan:
    """Cut the rows in pairs into 2, 3, .. clusters and look at each partition.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    ends : ndarray of shape (m, 2)
        Row numbers of the two ends of each pair.
    is_must_link : ndarray of shape (m,)
    max_clusters : int
        At least 2, at most the number of rows in pairs.
    rng : numpy.random.Generator
    n_runs, n_rows : int
        Number of samples and rows in each; one run is made where a sample holds all rows in pairs.

    Examples
    --------
    Three clusters with ten cannot-links between each two and five must-links in each: two clusters
    are too few, four too many.

    >>> rows = np.repeat(np.eye(3), 4, axis=0) + 0.01 * np.arange(12)[:, None] % 0.03
    >>> apart, together = [[0, 4], [5, 9], [2, 10]], [[0, 3], [4, 7], [8, 11]]
    >>> ends = np.vstack([np.tile(apart, (10, 1)), np.tile(together, (5, 1))])
    >>> scan = scan_partitions(rows, ends, is_must_link=np.arange(45) >= 30, max_clusters=4,
    ...     rng=np.random.default_rng(0))
    >>> int(scan.misfit[0].argmin()) + 2
    3
    """
    used, places = np.unique(ends, return_inverse=True)
    linked, places = rows[used].astype(np.float32), places.reshape(ends.shape)
    runs = [
        _scan_once(
            linked[sample_rows(len(linked), n_rows, rng=rng)],
            linked,
            places=places,
            is_must_link=is_must_link,
            max_clusters=max_clusters,
        )
        for _ in range(n_runs if len(linked) > n_rows else 1)
    ]
    return PartitionScan(*np.stack(runs, axis=1))


def _scan_once(
    sample: Singles, linked: Singles, *, places: Integers, is_must_link: Booleans, max_clusters: int
) -> Floats:
    """Return the five curves of one sample, shape (5, max_clusters - 1)."""
    tree = ward_tree(sample.astype(float))
    distances = squareform(pdist(sample).astype(np.float32))
    found = np.empty((5, max_clusters - 1))
    for place in range(max_clusters - 1):
        labels, centres = _cut(tree, sample, n_clusters=place + 2)
        clusters = nearest_centre(linked, centres)[places]
        counts = count_pairs(clusters, is_must_link, n_clusters=len(centres))
        found[:4, place] = (
            count_evidence(count_classes(counts), place + 2),
            size_misfit(counts),
            merge_evidence(counts),
            mean_silhouette(distances, labels),
        )
    n_fragments = int(FRAGMENTS_PER_CLUSTER * max_clusters)
    _, centres = _cut(tree, sample, n_clusters=min(n_fragments, len(sample)))
    apart = nearest_centre(linked, centres)[places[~is_must_link]]
    found[4] = group_fragments(cannot_link_table(apart, n_clusters=len(centres)), max_clusters)
    return found


def _cut(tree: Floats, sample: Singles, *, n_clusters: int) -> tuple[Integers, Singles]:
    """Labels and centres of a cut of the tree after a few steps of K-means."""
    cut = fcluster(tree, n_clusters, "maxclust") - 1
    return kmeans_steps(sample, cut, n_steps=SCAN_KMEANS_STEPS)

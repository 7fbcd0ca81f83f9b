"""Reasons to distrust an inferred number of clusters, each with what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster

from spherepair.clustering import number_settings as settings
from spherepair.clustering.lifetime import ward_tree
from spherepair.clustering.number_inputs import Links
from spherepair.clustering.pair_counts import count_classes, count_distance, count_pairs, merge_evidence
from spherepair.clustering.partitions import kmeans_steps, nearest_centre, sample_rows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Doubt:
    """One reason, and the largest confidence that it leaves."""

    ceiling: float
    reason: str
    remedy: str


def find_doubts(
    rows: Floats,
    links: Links,
    *,
    n_clusters: int,
    shares: Floats,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Look for reasons to distrust ``n_clusters``, the gravest first.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        Of length one.
    links : Links
    n_clusters : int
        The inferred number.
    shares : ndarray of shape (n_candidates,)
        Shares of K' = 2, 3, ..
    rng : numpy.random.Generator

    Examples
    --------
    Three clusters in three dimensions leave no room to see a plateau.

    >>> rows = np.repeat(np.eye(3), 20, axis=0)
    >>> ends = np.array([[i, i + 20] for i in range(40)])
    >>> find_doubts(rows, Links(ends, np.zeros(40, dtype=bool), None), n_clusters=3,
    ...     shares=np.array([0.0, 1.0]), rng=np.random.default_rng(0))[0].remedy
    'raise embedding_dim to 6 or more'
    """
    doubts = [
        *_few_pairs(len(links.cannot_link), n_clusters),
        *_no_room(rows.shape[1], n_clusters, shares=shares),
    ]
    if len(rows) > n_clusters + settings.EXTRA_CLUSTERS:
        sample = rows[sample_rows(len(rows), settings.DOUBT_ROWS, rng=rng)]
        tree = ward_tree(sample)
        some = links.sample(settings.DOUBT_PAIRS, rng=rng)
        linked = rows[np.unique(some.cannot_link)]
        doubts += [
            *_uncovered(sample, linked, cut=_cut(tree, n_clusters + settings.EXTRA_CLUSTERS)),
            *_unequal(_cut(tree, n_clusters), n_clusters),
            *_disregarded(rows, some, sample=sample, cut=_cut(tree, n_clusters)),
        ]
    return sorted(doubts, key=lambda doubt: doubt.ceiling)


def _few_pairs(n_pairs: int, n_clusters: int) -> Iterator[Doubt]:
    """Ask for a few cannot-links between every two clusters; fewer leave some borders unseen."""
    wanted = settings.LINKS_PER_BORDER * n_clusters * (n_clusters - 1) // 2
    if n_pairs < wanted:
        yield Doubt(
            settings.CEILING_FEW_PAIRS * n_pairs / wanted,
            f"{n_pairs} cannot-links are few for {n_clusters} clusters",
            f"about {round_up(wanted - n_pairs)} more cannot-links would help",
        )


def _no_room(n_components: int, n_clusters: int, *, shares: Floats) -> Iterator[Doubt]:
    last = shares[max(0, n_components - 3) :].sum()  # K' = D - 1 and above
    if n_clusters >= n_components - 1 or last > settings.LARGEST_SHARE_AT_THE_END:
        yield Doubt(
            settings.CEILING_NO_ROOM,
            f"{n_components} embedding dimensions leave no room to see the angles settle",
            f"raise embedding_dim to {2 * max(n_clusters, n_components - 1)} or more",
        )


def _uncovered(sample: Floats, linked: Floats, *, cut: Integers) -> Iterator[Doubt]:
    """Compare how the clusters share the rows with how they share the linked rows.

    A few clusters more than were found are looked at: one without pairs may hide in the count.
    """
    labels, centres = kmeans_steps(sample, cut, n_steps=1)
    shares = np.bincount(labels, minlength=len(centres)) / len(sample)
    expected = shares * len(linked)
    seen = np.bincount(nearest_centre(linked, centres), minlength=len(centres))
    bare = (expected > settings.SMALLEST_EXPECTED_LINKS) & (seen < settings.BARE_SHARE * expected)
    if bare.any():
        yield Doubt(
            settings.CEILING_UNCOVERED,
            f"a region with {shares[bare].sum():.0%} of the rows has hardly any cannot-link",
            "pairs that touch these rows would help",
        )


def _unequal(cut: Integers, n_clusters: int) -> Iterator[Doubt]:
    sizes = np.bincount(cut)
    if n_clusters > 2 and sizes.max() > settings.LARGEST_SIZE_RATIO * max(np.median(sizes), 1):
        yield Doubt(
            settings.CEILING_UNEQUAL,
            "the clusters are very unequal, so that small ones may be missed",
            "more pairs among the rarer rows would help",
        )


def _disregarded(rows: Floats, links: Links, *, sample: Floats, cut: Integers) -> Iterator[Doubt]:
    """Ask whether clusters keep the pairs, and whether the pairs look drawn at random."""
    if not links.is_must_link.any():
        return
    _, centres = kmeans_steps(sample, cut, n_steps=1)
    labels = nearest_centre(rows[links.ends.ravel()], centres).reshape(-1, 2)
    together = np.mean(labels[links.is_must_link, 0] == labels[links.is_must_link, 1])
    if together < settings.SMALLEST_SHARE_TOGETHER:
        yield Doubt(
            settings.CEILING_DISREGARDED,
            f"only {together:.0%} of the must-links are inside a cluster",
            "longer training would help",
        )
    counts = count_pairs(labels, links.is_must_link, n_clusters=len(centres))
    if merge_evidence(counts)[0] > settings.LARGEST_MERGE_EVIDENCE:
        yield Doubt(
            settings.CEILING_MERGED,
            "some cluster has as many cannot-links inside as two classes would",
            "longer training would help",
        )
    if count_distance(count_classes(counts), len(centres))[0] > settings.LARGEST_COUNT_DISTANCE:
        yield Doubt(
            settings.CEILING_CHOSEN_PAIRS,
            f"{links.is_must_link.mean():.0%} must-links do not fit {len(centres)} clusters if the pairs "
            "are random",
            "pairs drawn at random would help",
        )


def _cut(tree: Floats, n_clusters: int) -> Integers:
    labels: Integers = fcluster(tree, n_clusters, "maxclust") - 1
    return labels


def round_up(number: int) -> int:
    """Round up to one digit, so that nobody takes it for exact: 383 becomes 400."""
    unit = int(10 ** (len(str(number)) - 1))
    return -(-number // unit) * unit

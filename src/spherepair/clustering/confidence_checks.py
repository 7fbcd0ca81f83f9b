"""Reasons to trust an inferred number of clusters less, each with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from spherepair.clustering.assigners import cut_tree, kmeans_from_labels, nearest_center, ward_tree
from spherepair.clustering.chosen_pairs import SMALLEST_SHARE_TOGETHER
from spherepair.clustering.number_evidence import Links
from spherepair.clustering.pair_counts import count_classes, count_distance, count_pairs, merge_evidence
from spherepair.clustering.partitions import sample_rows
from spherepair.constraints.graph import ProvedGroups

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Rows and pairs that are looked at.
CHECKED_ROWS = 600
CHECKED_PAIRS = 10_000

#: Limits: cannot-links between every two clusters, …
LINKS_PER_BORDER = 4
#: … share of the evidence for numbers that leave no room in the embedding, …
LARGEST_SHARE_AT_THE_END = 0.3
#: … clusters looked at beyond those found, links expected in one, and their share that must be there, …
EXTRA_CLUSTERS = 3
SMALLEST_EXPECTED_LINKS = 20
BARE_SHARE = 0.1
#: … largest cluster over the median, …
LARGEST_SIZE_RATIO = 4.0
#: … evidence for merged classes, in nats, and standard errors of the class count.
LARGEST_MERGE_EVIDENCE = 30.0
LARGEST_COUNT_DISTANCE = 4.0

#: Largest confidence that each finding leaves.
CEILING_FEW_PAIRS = 0.8
CEILING_NO_ROOM = 0.4
CEILING_UNCOVERED = 0.5
CEILING_UNEQUAL = 0.7
CEILING_DISREGARDED = 0.5
CEILING_MERGED = 0.6
CEILING_UNFIT_COUNTS = 0.7
CEILING_CHOSEN_PAIRS = 0.5


@dataclass(frozen=True)
class Finding:
    """What a check found: a reason, a remedy, and the largest confidence that it leaves.

    An essential one is told even where another is more serious.
    """

    ceiling: float
    reason: str
    remedy: str
    is_essential: bool = False

    def __str__(self) -> str:
        return f"{self.reason[0].upper()}{self.reason[1:]}; {self.remedy}."


def check_confidence(
    rows: Floats,
    links: Links,
    *,
    n_clusters: int,
    shares: Floats,
    rng: np.random.Generator,
    proved: ProvedGroups | None = None,
) -> list[Finding]:
    """Look for reasons to distrust ``n_clusters``, the most serious first.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        Unit vectors.
    links : Links
    n_clusters : int
        The inferred number.
    shares : ndarray of shape (n_candidates,)
        Shares of the evidence for K' = 2, 3, ..
    rng : numpy.random.Generator
    proved : ProvedGroups, optional
        What the pairs prove; only for pairs that were chosen, not drawn at random.

    Examples
    --------
    Three clusters in three dimensions leave no room to see a plateau.

    >>> rows = np.repeat(np.eye(3), 20, axis=0)
    >>> ends = np.array([[i, i + 20] for i in range(40)])
    >>> check_confidence(rows, Links(ends, np.zeros(40, dtype=bool), None), n_clusters=3,
    ...     shares=np.array([0.0, 1.0]), rng=np.random.default_rng(0))[0].remedy
    'raise embedding_dim to 6 or more'
    """
    findings = [
        *(_few_pairs(len(links.cannot_link), n_clusters) if not _all_proved(proved, n_clusters) else ()),
        *_no_room(rows.shape[1], n_clusters, shares=shares),
    ]
    if len(rows) > n_clusters + EXTRA_CLUSTERS:
        sample = rows[sample_rows(len(rows), CHECKED_ROWS, rng=rng)]
        tree = ward_tree(sample)
        some = links.sample(CHECKED_PAIRS, rng=rng)
        linked = rows[np.unique(some.cannot_link)]
        cut = cut_tree(tree, n_clusters)
        findings += [
            *_uncovered(sample, linked, cut=cut_tree(tree, n_clusters + EXTRA_CLUSTERS)),
            *_unequal(cut, n_clusters),
            *_disregarded(rows, some, centers=_centers(sample, cut), are_random=proved is None),
        ]
    if proved is not None:
        findings += _unproved(proved, n_clusters)
    return sorted(findings, key=lambda finding: finding.ceiling)


def _all_proved(proved: ProvedGroups | None, n_clusters: int) -> bool:
    return proved is not None and proved.n_groups >= n_clusters


def _unproved(proved: ProvedGroups, n_clusters: int) -> Iterator[Finding]:
    """Chosen pairs support only a number that they could have refuted.

    If they prove as many groups as were found, the chance that a row is of none of them is about the share of
    rows seen alone (Good and Turing).
    """
    if not _all_proved(proved, n_clusters):
        groups = "group is" if proved.n_groups == 1 else "groups are"
        yield Finding(
            CEILING_CHOSEN_PAIRS,
            f"at least {proved.n_groups} {groups} proved by the pairs",
            "the pairs were chosen, not drawn at random, so more may exist",
            is_essential=True,
        )
    elif proved.n_single_rows:
        yield Finding(
            1.0 - proved.n_single_rows / proved.n_linked_rows,
            f"{proved.n_groups} groups are proved by the pairs, but {proved.n_single_rows} of "
            f"{proved.n_linked_rows} rows in pairs are must-linked to no other, so more groups may exist",
            "add pairs of these rows with the groups",
        )


def _few_pairs(n_pairs: int, n_clusters: int) -> Iterator[Finding]:
    """Ask for a few cannot-links between every two clusters; with fewer some borders stay unseen."""
    wanted = LINKS_PER_BORDER * n_clusters * (n_clusters - 1) // 2
    if n_pairs < wanted:
        yield Finding(
            CEILING_FEW_PAIRS * n_pairs / wanted,
            f"{n_pairs} cannot-links are few for {n_clusters} clusters",
            f"about {round_up(wanted - n_pairs)} more cannot-links would help",
        )


def _no_room(n_components: int, n_clusters: int, *, shares: Floats) -> Iterator[Finding]:
    last = shares[max(0, n_components - 3) :].sum()  # K' = D - 1 and above
    if n_clusters >= n_components - 1 or last > LARGEST_SHARE_AT_THE_END:
        yield Finding(
            CEILING_NO_ROOM,
            f"{n_components} embedding dimensions are too few to see the angles level off",
            f"raise embedding_dim to {2 * max(n_clusters, n_components - 1)} or more",
        )


def _uncovered(sample: Floats, linked: Floats, *, cut: Integers) -> Iterator[Finding]:
    """Compare how the clusters share all rows with how they share the rows in cannot-links.

    The cut has a few clusters more than were found: one without pairs may hide in another.
    """
    centers = _centers(sample, cut)
    shares = _cluster_sizes(sample, centers) / len(sample)
    expected = shares * len(linked)
    bare = (expected > SMALLEST_EXPECTED_LINKS) & (_cluster_sizes(linked, centers) < BARE_SHARE * expected)
    if bare.any():
        yield Finding(
            CEILING_UNCOVERED,
            f"a region with {shares[bare].sum():.0%} of the rows has hardly any cannot-link",
            "add pairs that touch these rows",
        )


def _unequal(cut: Integers, n_clusters: int) -> Iterator[Finding]:
    sizes = np.bincount(cut)
    if n_clusters > 2 and sizes.max() > LARGEST_SIZE_RATIO * max(np.median(sizes), 1):
        yield Finding(
            CEILING_UNEQUAL,
            "the clusters are of very unequal size, so small ones may be missed",
            "add pairs among the rarer rows",
        )


def _disregarded(rows: Floats, links: Links, *, centers: Floats, are_random: bool) -> Iterator[Finding]:
    """Check whether the clusters satisfy the pairs, and whether random pairs fit their number."""
    if not links.is_must_link.any():
        return
    labels = nearest_center(torch.from_numpy(rows[links.ends.ravel()]), centers).reshape(-1, 2)
    together = np.mean(labels[links.is_must_link, 0] == labels[links.is_must_link, 1])
    if together < SMALLEST_SHARE_TOGETHER:
        yield Finding(
            CEILING_DISREGARDED,
            f"only {together:.0%} of the must-links are inside a cluster",
            "train longer",
        )
    counts = count_pairs(labels, links.is_must_link, n_clusters=len(centers))
    if merge_evidence(counts)[0] > LARGEST_MERGE_EVIDENCE:
        yield Finding(
            CEILING_MERGED,
            "some cluster has as many cannot-links inside as two classes would",
            "train longer",
        )
    if are_random and count_distance(count_classes(counts), len(centers))[0] > LARGEST_COUNT_DISTANCE:
        yield Finding(
            CEILING_UNFIT_COUNTS,
            f"{links.is_must_link.mean():.0%} must-links do not fit random pairs of {len(centers)} clusters",
            "add pairs drawn at random",
        )


def _centers(sample: Floats, cut: Integers) -> Floats:
    """Centers, (K, D), of a cut of the tree after one step of k-means."""
    centers: Floats = kmeans_from_labels(torch.from_numpy(sample), torch.from_numpy(cut), n_steps=1).numpy()
    return centers


def _cluster_sizes(rows: Floats, centers: Floats) -> Integers:
    return np.bincount(nearest_center(torch.from_numpy(rows), centers), minlength=len(centers))


def round_up(number: int) -> int:
    """Round up to one digit, so that nobody takes it for exact: 383 becomes 400."""
    unit = int(10 ** (len(str(number)) - 1))
    return -(-number // unit) * unit

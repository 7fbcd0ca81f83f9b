"""Verdicts on the number of clusters: the paper's three ways, and all evidence together.

The consensus reads three things off one embedding: the plateau of the tail angles, where the pairs
run in each partition of the linked rows, and the silhouette of these partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering import number_settings as settings
from spherepair.clustering.candidates import Verdict, candidate_shares
from spherepair.clustering.lifetime import lifetime_curves
from spherepair.clustering.number_inputs import Links
from spherepair.clustering.partition_scan import PartitionScan, scan_partitions
from spherepair.clustering.plateau import plateau_features
from spherepair.clustering.silhouette import silhouette_curves
from spherepair.clustering.tail_angles import TailAngles, tail_angles

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """The question: an embedding, its pairs and the settings.

    Attributes
    ----------
    rows : ndarray of shape (n, D)
        Of length one.
    links : Links
    tail_ratio : float
    max_clusters : int
    n_resamples : int
    rng : numpy.random.Generator
    """

    rows: Floats
    links: Links
    tail_ratio: float
    max_clusters: int
    n_resamples: int
    rng: np.random.Generator


def tail_angle_verdict(problem: Problem) -> Verdict:
    """Look for the plateau of δ̄_d, for several tail ratios and resampled pairs (Algorithm 2)."""
    angles = problem_angles(problem)
    features = tail_features(angles, problem.max_clusters)
    shares = candidate_shares(features, settings.TAIL_ANGLE_COEFFICIENTS)
    return Verdict(*_curve_and_spread(angles, problem.tail_ratio), shares)


def silhouette_verdict(problem: Problem) -> Verdict:
    """Take the K-means partition with the largest mean silhouette."""
    curves = silhouette_curves(problem.rows, problem.max_clusters, rng=problem.rng)
    shares = candidate_shares(silhouette_features(curves), settings.SILHOUETTE_COEFFICIENTS)
    return Verdict(curves.mean(axis=0), curves.std(axis=0), shares)


def lifetime_verdict(problem: Problem) -> Verdict:
    """Take the cut of the Ward tree that lives longest."""
    curves = lifetime_curves(problem.rows, problem.max_clusters, rng=problem.rng)
    shares = candidate_shares(lifetime_features(curves), settings.LIFETIME_COEFFICIENTS)
    return Verdict(curves.mean(axis=0), curves.std(axis=0), shares)


def consensus_verdict(problem: Problem) -> Verdict:
    """Weigh all evidence at once."""
    angles = problem_angles(problem)
    shares = candidate_shares(consensus_features(problem, angles), settings.CONSENSUS_COEFFICIENTS)
    return Verdict(*_curve_and_spread(angles, problem.tail_ratio), shares)


def consensus_features(problem: Problem, angles: TailAngles) -> dict[str, Floats]:
    """All features of K' = 2..max_clusters, each of shape (..., max_clusters - 1)."""
    links = problem.links.sample(settings.LARGEST_SCAN_PAIRS, rng=problem.rng)
    scan = scan_partitions(
        problem.rows,
        links.ends,
        is_must_link=links.is_must_link,
        max_clusters=problem.max_clusters,
        rng=problem.rng,
        n_runs=settings.SCAN_RUNS,
        n_rows=settings.SCAN_ROWS,
    )
    return {
        **tail_features(angles, problem.max_clusters),
        **pair_features(scan),
        **silhouette_features(scan.silhouette),
    }


def pair_features(scan: PartitionScan) -> dict[str, Floats]:
    """What the pairs say against K' clusters; the misfit of sizes is bounded below the best K'."""
    misfit, grouped = scan.misfit.mean(axis=0), scan.grouped.mean(axis=0)
    return {
        "counted": scan.counted.mean(axis=0),
        "sized": np.logaddexp(misfit.min() - misfit, np.log(settings.EVIDENCE_FLOOR)),
        "merged": np.log1p(scan.merged).mean(axis=0),
        "grouped": np.log1p(grouped.max() - grouped),
    }


def silhouette_features(curves: Floats) -> dict[str, Floats]:
    """Mean silhouette below its best, in units of its range over K'."""
    mean = curves.mean(axis=0)
    extent = max(np.ptp(mean), settings.SMALLEST_SILHOUETTE_RANGE)
    return {"silhouette": (mean - mean.max()) / extent}


def lifetime_features(curves: Floats) -> dict[str, Floats]:
    """Lifetimes as a share of the longest one."""
    mean = np.maximum(curves.mean(axis=0), 0.0)
    return {"lifetime": mean / max(mean.max(), np.finfo(float).tiny)}


def problem_angles(problem: Problem) -> TailAngles:
    """Tail angles of the cannot-links for the tail ratios around the given one."""
    links = problem.links
    return tail_angles(
        problem.rows,
        links.cannot_link[:, 0],
        right=links.cannot_link[:, 1],
        weight=links.cannot_link_weight,
        tail_ratios=tuple(problem.tail_ratio * f for f in settings.TAIL_RATIO_FACTORS),
        n_resamples=problem.n_resamples,
        rng=problem.rng,
    )


def tail_features(angles: TailAngles, max_clusters: int) -> dict[str, Floats]:
    """Features of the plateau for all ratios and resamples, shape (.., max_clusters - 1)."""
    curves = np.concatenate([angles.curves[:, None], angles.resampled], axis=1)
    curves = curves.reshape(-1, curves.shape[-1])  # (ratios * (1 + resamples), D)
    return {name: values[:, : max_clusters - 1] for name, values in plateau_features(curves).items()}


def _curve_and_spread(angles: TailAngles, tail_ratio: float) -> tuple[Floats, Floats]:
    place = angles.tail_ratios.index(tail_ratio)
    curve = angles.curves[place]
    if angles.resampled.shape[1] == 0:
        return curve, np.zeros_like(curve)
    return curve, angles.resampled[place].std(axis=0)

"""Verdicts on the number of clusters: the paper's three ways, and all evidence together.

The consensus reads three things off one embedding: the plateau of the tail angles, where the pairs
run in each partition of the linked rows, and the silhouette of these partitions. Where the paper's
three ways agree on a number that the pairs do not refute, that number is the answer.
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
    scan = problem_scan(problem)
    shares = candidate_shares(consensus_features(angles, scan), settings.CONSENSUS_COEFFICIENTS)
    agreed = agreed_number(angles, scan)
    if agreed is not None and not is_refuted(agreed, scan):
        # More than half, so that counts which chance has shifted never overrule three ways that agree.
        shares *= 1 - settings.AGREEMENT_SHARE
        shares[agreed - 2] += settings.AGREEMENT_SHARE
    return Verdict(*_curve_and_spread(angles, problem.tail_ratio), shares)


def agreed_number(angles: TailAngles, scan: PartitionScan) -> int | None:
    """Return the number that tail angles, silhouette and lifetime all point to, if there is one.

    Silhouette and lifetime are those of the scan, on the rows in pairs, which cost nothing more.
    """
    plateau = tail_features(angles, scan.lifetime.shape[-1] + 1)
    curves = (
        candidate_shares(plateau, settings.TAIL_ANGLE_COEFFICIENTS),
        scan.silhouette.mean(axis=0),
        scan.lifetime.mean(axis=0),
    )
    numbers = {int(curve.argmax()) + 2 for curve in curves}
    return numbers.pop() if len(numbers) == 1 else None


def is_refuted(n_clusters: int, scan: PartitionScan) -> bool:
    """Tell whether the pairs speak against a number: geometry cannot see classes that overlap.

    Some clusters have too many cannot-links inside, or too few must-links, or the must-links fit the
    sizes of the clusters worse than with another number.
    """
    misfit = scan.misfit.mean(axis=0)
    against = np.stack([scan.merged.mean(axis=0), scan.shortage.mean(axis=0), misfit - misfit.min()])
    return bool(against[:, n_clusters - 2].max() > settings.REFUTING_EVIDENCE)


def problem_scan(problem: Problem) -> PartitionScan:
    """Partitions of the rows in pairs into 2..max_clusters clusters, and what the pairs say."""
    links = problem.links.sample(settings.LARGEST_SCAN_PAIRS, rng=problem.rng)
    return scan_partitions(
        problem.rows,
        links.ends,
        is_must_link=links.is_must_link,
        max_clusters=problem.max_clusters,
        rng=problem.rng,
        n_runs=settings.SCAN_RUNS,
        n_rows=settings.SCAN_ROWS,
    )


def consensus_features(angles: TailAngles, scan: PartitionScan) -> dict[str, Floats]:
    """All features of K' = 2..max_clusters, each of shape (..., max_clusters - 1)."""
    return {
        **tail_features(angles, scan.silhouette.shape[-1] + 1),
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

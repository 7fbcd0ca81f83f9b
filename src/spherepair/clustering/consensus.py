"""Verdicts on the number of clusters: the paper's three ways, and all evidence together.

The consensus reads four things off one embedding: the plateau of the tail angles, the gap in the
spectrum of the centred rows (K - 1 large eigenvalues), what the cannot-links say for and against
each partition, and the shape of the partitions (silhouette, lifetime).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering import number_settings as settings
from spherepair.clustering.candidates import Verdict, candidate_shares
from spherepair.clustering.lifetime import lifetime_curves
from spherepair.clustering.partition_scan import PartitionScan, merge_evidence, scan_partitions
from spherepair.clustering.plateau import plateau_features
from spherepair.clustering.silhouette import silhouette_curves
from spherepair.clustering.tail_angles import TailAngles, tail_angles

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """The question: an embedding, its cannot-links and the settings.

    Attributes
    ----------
    rows : ndarray of shape (n, D)
        Of length one.
    cannot_link : ndarray of shape (m, 2)
    weight : ndarray of shape (m,) or None
        None when all pairs count alike.
    tail_ratio : float
    max_clusters : int
    n_resamples : int
    rng : numpy.random.Generator
    """

    rows: Floats
    cannot_link: Integers
    weight: Floats | None
    tail_ratio: float
    max_clusters: int
    n_resamples: int
    rng: np.random.Generator


def tail_angle_verdict(problem: Problem) -> Verdict:
    """Look for the plateau of δ̄_d, for several tail ratios and resampled pairs (Algorithm 2)."""
    angles = _angles(problem)
    features = _tail_features(angles, problem.max_clusters)
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
    angles = _angles(problem)
    scan = scan_partitions(
        problem.rows,
        problem.cannot_link,
        max_clusters=problem.max_clusters,
        rng=problem.rng,
        n_runs=settings.SCAN_RUNS,
        n_rows=settings.SCAN_ROWS,
    )
    features = {
        **_tail_features(angles, problem.max_clusters),
        **spectrum_features(problem.rows[np.unique(problem.cannot_link)], problem.max_clusters),
        **pair_features(scan, len(problem.cannot_link)),
        **silhouette_features(scan.silhouette),
        **lifetime_features(scan.lifetime),
    }
    shares = candidate_shares(features, settings.CONSENSUS_COEFFICIENTS)
    return Verdict(*_curve_and_spread(angles, problem.tail_ratio), shares)


def spectrum_features(rows: Floats, max_clusters: int) -> dict[str, Floats]:
    """Gap after the (K' - 1)th eigenvalue of the centred rows, as a logarithm of the ratio.

    Examples
    --------
    >>> gaps = spectrum_features(np.repeat(np.eye(4), 2, axis=0), 4)["spectrum_gap"]
    >>> int(gaps.argmax()) + 2
    4
    """
    centred = rows - rows.mean(axis=0)
    values = np.linalg.eigvalsh(centred.T @ centred / len(rows))[::-1]
    logs = np.log(np.maximum(values, settings.SMALLEST_EIGENVALUE))
    following = np.append(logs[1:], np.log(settings.SMALLEST_EIGENVALUE))
    return {"spectrum_gap": (logs - following)[: max_clusters - 1]}


def pair_features(scan: PartitionScan, n_cannot_links: int) -> dict[str, Floats]:
    """What cannot-links say against K' clusters, and against one fewer and one more."""
    merged = np.log1p(scan.merged).mean(axis=0)
    split = np.log1p(scan.split).mean(axis=0)
    one_cluster = np.log1p(merge_evidence(np.array([[2.0 * n_cannot_links]])))
    return {
        "merged": merged,
        "merged_before": np.concatenate([[one_cluster], merged[:-1]]),
        "split": split,
        "split_after": np.concatenate([split[1:], split[-1:]]),
    }


def silhouette_features(curves: Floats) -> dict[str, Floats]:
    """Mean silhouette below its best, and its bend at K', in units of its range over K'."""
    mean = curves.mean(axis=0)
    extent = max(np.ptp(mean), settings.SMALLEST_SILHOUETTE_RANGE)
    before = np.concatenate([[0.0], mean[:-1]])  # one cluster has no silhouette: 0
    after = np.concatenate([mean[1:], mean[-1:]])
    return {
        "silhouette": (mean - mean.max()) / extent,
        "silhouette_bend": (2 * mean - before - after) / extent,
    }


def lifetime_features(curves: Floats) -> dict[str, Floats]:
    """Lifetimes as a share of the longest one, and as logarithms."""
    mean = np.maximum(curves.mean(axis=0), 0.0)
    longest = max(mean.max(), np.finfo(float).tiny)
    return {
        "lifetime": mean / longest,
        "log_lifetime": np.log(mean + settings.LIFETIME_RESOLUTION),
    }


def _angles(problem: Problem) -> TailAngles:
    return tail_angles(
        problem.rows,
        problem.cannot_link[:, 0],
        right=problem.cannot_link[:, 1],
        weight=problem.weight,
        tail_ratios=tuple(problem.tail_ratio * f for f in settings.TAIL_RATIO_FACTORS),
        n_resamples=problem.n_resamples,
        rng=problem.rng,
    )


def _tail_features(angles: TailAngles, max_clusters: int) -> dict[str, Floats]:
    curves = np.concatenate([angles.curves[:, None], angles.resampled], axis=1)
    curves = curves.reshape(-1, curves.shape[-1])  # (ratios * (1 + resamples), D)
    return {name: values[:, : max_clusters - 1] for name, values in plateau_features(curves).items()}


def _curve_and_spread(angles: TailAngles, tail_ratio: float) -> tuple[Floats, Floats]:
    place = angles.tail_ratios.index(tail_ratio)
    curve = angles.curves[place]
    if angles.resampled.shape[1] == 0:
        return curve, np.zeros_like(curve)
    return curve, angles.resampled[place].std(axis=0)

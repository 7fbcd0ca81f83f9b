"""Verdicts on the number of clusters: the paper's three ways, and all evidence together.

Each candidate K' has a few features (how much the curve rises after it, what the pairs say against
it, ..). Their weighted sum is its score, and its share of the evidence is the scores' softmax: the
conditional logit model, with coefficients in ``number_settings``. It is asked once for every tail
ratio and every resample of the pairs, and the shares are averaged: where the answers differ, the best
share falls, and with it the confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering import number_settings as settings
from spherepair.clustering.lifetime import lifetime_curve
from spherepair.clustering.number_inputs import Links
from spherepair.clustering.partition_scan import PartitionScan, scan_partitions
from spherepair.clustering.silhouette import silhouette_curves
from spherepair.clustering.tail_angles import TailAngles, plateau_features, tail_angles

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
    n_rows : int or None
    rng : numpy.random.Generator
    """

    rows: Floats
    links: Links
    tail_ratio: float
    max_clusters: int
    n_resamples: int
    n_rows: int | None
    rng: np.random.Generator


@dataclass(frozen=True)
class Verdict:
    """What one method says.

    Attributes
    ----------
    curve, spread : ndarray of shape (n_points,)
        The method's curve and its standard deviation over resamples or runs.
    shares : ndarray of shape (n_candidates,)
        Share of the evidence for K' = 2, 3, ..; they sum to one.
    """

    curve: Floats
    spread: Floats
    shares: Floats


def tail_angle_verdict(problem: Problem) -> Verdict:
    """Look for the plateau of δ̄_d, for several tail ratios and resampled pairs (Algorithm 2)."""
    angles = resampled_angles(problem, problem.links, draw_resamples(problem, problem.links))
    features = tail_features(angles, problem.max_clusters)
    shares = candidate_shares(features, settings.TAIL_ANGLE_COEFFICIENTS)
    return Verdict(*_curve_and_spread(angles, problem.tail_ratio), shares)


def silhouette_verdict(problem: Problem) -> Verdict:
    """Take the K-means partition with the largest mean silhouette."""
    n_rows = problem.n_rows or settings.SILHOUETTE_ROWS
    curves = silhouette_curves(problem.rows, problem.max_clusters, rng=problem.rng, n_rows=n_rows)
    mean = curves.mean(axis=0)
    shares = candidate_shares(silhouette_features(mean), settings.SILHOUETTE_COEFFICIENTS)
    return Verdict(mean, curves.std(axis=0), shares)


def lifetime_verdict(problem: Problem) -> Verdict:
    """Take the cut of the Ward tree that lives longest."""
    n_rows = problem.n_rows or settings.LIFETIME_ROWS
    curve = lifetime_curve(problem.rows, problem.max_clusters, rng=problem.rng, n_rows=n_rows)
    shares = candidate_shares(lifetime_features(curve), settings.LIFETIME_COEFFICIENTS)
    return Verdict(curve, np.zeros_like(curve), shares)


def consensus_verdict(problem: Problem) -> Verdict:
    """Weigh all evidence at once."""
    angles, features = consensus_features(problem)
    shares = candidate_shares(features, settings.CONSENSUS_COEFFICIENTS)
    return Verdict(*_curve_and_spread(angles, problem.tail_ratio), shares)


def candidate_shares(features: Mapping[str, Floats], coefficients: Mapping[str, float]) -> Floats:
    """Pool features into shares, averaged over resamples: disagreement among them flattens it.

    Parameters
    ----------
    features : mapping of str to ndarray of shape (..., n_candidates)
        Leading axes are tail ratios and resamples; they are broadcast against each other.
    coefficients : mapping of str to float
        One per feature that is to be used.

    Returns
    -------
    ndarray of shape (n_candidates,)

    Examples
    --------
    >>> candidate_shares({"gap": np.array([0.0, 2.0, 0.0])}, {"gap": 1.0}).round(2).tolist()
    [0.11, 0.79, 0.11]
    """
    scores = sum(coefficient * features[name] for name, coefficient in coefficients.items())
    table = np.asarray(scores).reshape(-1, np.shape(scores)[-1])  # (ratios * resamples, candidates)
    shares = np.exp(table - table.max(axis=1, keepdims=True))
    mean: Floats = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return mean


def consensus_features(problem: Problem) -> tuple[TailAngles, dict[str, Floats]]:
    """Tail angles, and all features of K' = 2..max_clusters, shape (ratios, 1 + R, max_clusters - 1).

    The curve and the counts see the same resamples of the pairs.
    """
    links = problem.links.sample(settings.LARGEST_SCAN_PAIRS, rng=problem.rng)
    resamples = draw_resamples(problem, links)
    angles = resampled_angles(problem, links, resamples)
    scan = scan_partitions(
        problem.rows,
        links.ends,
        is_must_link=links.is_must_link,
        resamples=np.vstack([np.ones((1, len(links.ends))), resamples]),
        max_clusters=problem.max_clusters,
        rng=problem.rng,
    )
    return angles, {**tail_features(angles, problem.max_clusters), **partition_features(scan)}


def draw_resamples(problem: Problem, links: Links) -> Floats:
    """How often each pair occurs in each bootstrap sample (Poisson), shape (R, m)."""
    limit = max(settings.FEWEST_RESAMPLES, settings.RESAMPLED_PAIRS // max(len(links.ends), 1))
    size = (min(problem.n_resamples, limit), len(links.ends))
    return problem.rng.poisson(1.0, size=size).astype(float)


def resampled_angles(problem: Problem, links: Links, resamples: Floats) -> TailAngles:
    """Tail angles of the cannot-links for the tail ratios around the given one."""
    apart = links.cannot_link
    return tail_angles(
        problem.rows,
        apart[:, 0],
        right=apart[:, 1],
        weight=links.cannot_link_weight,
        tail_ratios=tuple(problem.tail_ratio * f for f in settings.TAIL_RATIO_FACTORS),
        resamples=resamples[:, ~links.is_must_link],
    )


def tail_features(angles: TailAngles, max_clusters: int) -> dict[str, Floats]:
    """Features of the plateau for all ratios and resamples, shape (T, 1 + R, max_clusters - 1)."""
    curves = np.concatenate([angles.curves[:, None], angles.resampled], axis=1)
    return {name: values[..., : max_clusters - 1] for name, values in plateau_features(curves).items()}


def partition_features(scan: PartitionScan) -> dict[str, Floats]:
    """What partitions say for K' clusters; the misfit of sizes is bounded below the best K'."""
    misfit = scan.misfit - scan.misfit.min(axis=-1, keepdims=True)
    return {
        "counted": scan.counted,
        "sized": np.logaddexp(-misfit, np.log(settings.EVIDENCE_FLOOR)),
        "merged": np.log1p(scan.merged),
        "gap": scan.gap,
    }


def silhouette_features(curve: Floats) -> dict[str, Floats]:
    """Mean silhouette below its best, in units of its range over K'."""
    extent = max(np.ptp(curve), settings.SMALLEST_SILHOUETTE_RANGE)
    return {"silhouette": (curve - curve.max()) / extent}


def lifetime_features(curve: Floats) -> dict[str, Floats]:
    """Lifetimes as a share of the longest one."""
    lives = np.maximum(curve, 0.0)
    return {"lifetime": lives / max(lives.max(), np.finfo(float).tiny)}


def _curve_and_spread(angles: TailAngles, tail_ratio: float) -> tuple[Floats, Floats]:
    place = angles.tail_ratios.index(tail_ratio)
    curve = angles.curves[place]
    if angles.resampled.shape[1] == 0:
        return curve, np.zeros_like(curve)
    return curve, angles.resampled[place].std(axis=0)

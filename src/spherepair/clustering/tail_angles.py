"""Tail angles of cannot-links in nested PCA subspaces (the paper's Algorithm 2).

For every d = 1..D the rows in cannot-links are projected on their first d principal components, the angle
of every cannot-link is taken there, and the smallest share rho of the angles is averaged:

    delta_d = mean of the ceil(rho m) smallest angles of m pairs

By Corollary 4.7 the curve rises until d = K - 1 and is flat from there on.

Reference: Zhang and Chen, "Angular Constraint Embedding via SpherePair Loss for Constrained Clustering",
NeurIPS 2025, Section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: The plateau is above this angle for clusters of any sizes (Corollary 4.7).
LOWEST_PLATEAU = np.pi / 3
#: Steps of the curve below half a degree are not told apart.
ANGLE_RESOLUTION = float(np.radians(0.5))

# Resampling weights shift the border of the tail, so half as many pairs again are kept beyond it.
_TAIL_SLACK = 1.5
_SMALLEST_KEPT_TAIL = 256


@dataclass(frozen=True)
class TailAngles:
    """The curve delta_d for several tail ratios, with its resamples.

    Attributes
    ----------
    tail_ratios : tuple of float, length T
        Shares rho of the smallest angles that were averaged.
    curves : ndarray of shape (T, D)
        delta_d in radians from all pairs.
    resampled : ndarray of shape (T, R, D)
        The same from R bootstrap samples of the pairs.
    """

    tail_ratios: tuple[float, ...]
    curves: Floats
    resampled: Floats


def tail_angles(
    embedding: Floats,
    left: Integers,
    *,
    right: Integers,
    weight: Floats | None = None,
    tail_ratios: tuple[float, ...] = (0.05,),
    resamples: Floats | None = None,
) -> TailAngles:
    """Compute delta_d for d = 1..D.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
        Unit vectors.
    left, right : ndarray of shape (m,)
        The two ends of each cannot-link; m is at least one.
    weight : ndarray of shape (m,), optional
        How much each pair counts; by default all count the same.
    tail_ratios : tuple of float
        Shares rho in (0, 1].
    resamples : ndarray of shape (R, m), optional
        How often each pair occurs in each of R bootstrap samples; the PCA is not repeated.

    Examples
    --------
    Three clusters at the corners of a triangle: 0° on a line, 120° in the plane and beyond.

    >>> corners = np.vstack([np.eye(3), np.eye(3)])
    >>> left, right = np.array([0, 0, 1, 3, 4]), np.array([1, 2, 2, 4, 5])
    >>> curve = tail_angles(corners, left, right=right, tail_ratios=(0.2,)).curves[0]
    >>> np.degrees(curve).round().tolist()
    [0.0, 120.0, 120.0]
    """
    rows, ends = np.unique(np.concatenate([left, right]), return_inverse=True)
    left, right = ends[: len(left)], ends[len(left) :]
    scores = principal_scores(embedding[rows])
    weights = _resampled_weights(len(left), weight=weight, resamples=resamples)
    kept = _kept_tail(len(left), largest_ratio=max(tail_ratios), weighted=weight is not None)
    curves = np.empty((len(tail_ratios), len(weights), scores.shape[0]))
    for column, cosine in enumerate(_cumulative_cosines(scores, left, right=right)):
        nearest = _largest_first(cosine, kept)
        angles = np.arccos(np.clip(cosine[nearest], -1.0, 1.0))
        curves[:, :, column] = _tail_means(angles, weights, nearest=nearest, ratios=tail_ratios)
    return TailAngles(tuple(tail_ratios), curves[:, 0], curves[:, 1:])


def plateau_features(curves: Floats) -> dict[str, Floats]:
    """Describe every possible onset d* = K - 1 of the plateau of every curve.

    An onset at d is likely when the curve still rises into d, hardly rises after it, and is above pi/3.
    Noise and residual loss add a slow further rise; class imbalance lowers the level. With delta_0 = 0 the
    case K = 2, where the curve is flat at pi, is no exception: the whole rise happens at d = 1.

    Parameters
    ----------
    curves : ndarray of shape (..., D)
        delta_d in radians for d = 1..D.

    Returns
    -------
    dict of str to ndarray of shape (..., D)
        ``rise_into`` and ``rise_after``: logarithms of the step into d and of the largest step after it;
        ``below_band``: how far the curve is below pi/3 at d, in radians.

    Examples
    --------
    >>> features = plateau_features(np.array([0.0, 0.8, 1.5, 1.5, 1.5]))
    >>> int((features["rise_into"] - features["rise_after"]).argmax()) + 1
    3
    """
    steps = np.maximum(np.diff(curves, axis=-1, prepend=0.0), 0.0)
    next_steps = np.concatenate([steps[..., 1:], np.zeros_like(steps[..., :1])], axis=-1)
    largest_after = np.maximum.accumulate(next_steps[..., ::-1], axis=-1)[..., ::-1]
    return {
        "rise_into": np.log(steps + ANGLE_RESOLUTION),
        "rise_after": np.log(largest_after + ANGLE_RESOLUTION),
        "below_band": np.maximum(LOWEST_PLATEAU - curves, 0.0),
    }


def principal_scores(rows: Floats) -> Floats:
    """Center rows and rotate them to their principal axes, strongest first.

    Parameters
    ----------
    rows : ndarray of shape (n, D)

    Returns
    -------
    ndarray of shape (D, n)
        One contiguous line per axis, which makes gathering by pair fast.

    Examples
    --------
    >>> np.abs(principal_scores(np.array([[0.0, 0.0], [2.0, 0.0]])))
    array([[1., 1.],
           [0., 0.]])
    """
    centered = rows - rows.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    scores: Floats = np.ascontiguousarray(axes.T[::-1] @ centered.T)
    return scores


def _cumulative_cosines(scores: Floats, left: Integers, *, right: Integers) -> Iterator[Floats]:
    """Yield the cosine of every pair in the first 1, 2, .. D axes, one at a time."""
    dot, left_norm, right_norm = np.zeros((3, len(left)))
    for line in scores:
        first, second = line[left], line[right]
        dot += first * second
        left_norm += first * first
        right_norm += second * second
        # A row that projects to zero has no direction: its cosine becomes 0, its angle 90 degrees.
        yield dot / np.sqrt(np.maximum(left_norm * right_norm, np.finfo(float).tiny))


def _resampled_weights(n_pairs: int, *, weight: Floats | None, resamples: Floats | None) -> Floats:
    """Weights of shape (1 + R, m): the given ones, then those of the resamples."""
    given = np.ones(n_pairs) if weight is None else weight / weight.mean()
    if resamples is None:
        return given[None]
    resampled = given * resamples
    resampled[resampled.sum(axis=1) == 0] = given  # a single pair is sometimes drawn zero times
    return np.vstack([given, resampled])


def _kept_tail(n_pairs: int, *, largest_ratio: float, weighted: bool) -> int:
    if weighted:
        return n_pairs
    wanted = int(np.ceil(_TAIL_SLACK * largest_ratio * n_pairs))
    return min(n_pairs, max(_SMALLEST_KEPT_TAIL, wanted))


def _largest_first(values: Floats, count: int) -> Integers:
    """Positions of the ``count`` largest values, in falling order."""
    if count < len(values):
        candidates = np.argpartition(values, len(values) - count)[len(values) - count :]
    else:
        candidates = np.arange(len(values))
    order: Integers = candidates[np.argsort(-values[candidates], kind="stable")]
    return order


def _tail_means(angles: Floats, weights: Floats, *, nearest: Integers, ratios: tuple[float, ...]) -> Floats:
    """Average the smallest angles up to a mass of ceil(ratio * total weight); shape (T, R)."""
    totals = weights.sum(axis=1)
    kept = weights[:, nearest]  # (R, kept)
    mass = np.cumsum(kept, axis=1)
    moment = np.cumsum(kept * angles, axis=1)
    lines = np.arange(len(weights))
    means = np.empty((len(ratios), len(weights)))
    for t, ratio in enumerate(ratios):
        # 1e-9: a product such as 0.1 * 30 = 3.0000000000000004 must not ask for a fourth pair.
        wanted = np.minimum(np.ceil(ratio * totals - 1e-9), mass[:, -1])
        border = np.minimum((mass < wanted[:, None]).sum(axis=1), len(angles) - 1)
        surplus = mass[lines, border] - wanted
        means[t] = (moment[lines, border] - surplus * angles[border]) / wanted
    return means

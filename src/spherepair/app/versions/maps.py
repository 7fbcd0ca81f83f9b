"""A map of all rows that stays where it is: groups are discs, and a disc keeps its place from model to model.

K groups on the sphere point in K directions, of which a plane shows two; hence discs, as in the report. A
row stands in the disc of its group, nearer to the next disc the less sure it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
#: Rows that are looked at together.
BLOCK = 50_000
#: Steps in which discs are pushed apart, and how much of a push a disc follows that was there before.
_STEPS, _KEPT_MOVES = 200, 0.05
_GAP = 0.15


@dataclass(frozen=True, eq=False)
class Membership:
    """How sure rows are of their groups.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    share : ndarray of shape (n,)
        Probability of the row's own group.
    other : ndarray of shape (n,)
        The nearest of the other groups.
    distance, other_distance : ndarray of shape (n,)
        Squared distances to the centers of both.
    """

    labels: Integers
    share: Floats
    other: Integers
    distance: Floats
    other_distance: Floats


def membership(embedding: Floats, centers: Floats, labels: Integers) -> Membership:
    """Clouds of one width about the centers, as in ``SpherePair.predict_proba``, a block at a time."""
    n_rows = len(labels)
    spread = np.mean([np.square(embedding[b] - centers[labels[b]]).mean() for b in blocks(n_rows)])
    precision = 1.0 / max(float(spread), 1e-9)
    share, distance, other_distance = np.empty((3, n_rows), dtype=np.float32)
    other = np.zeros(n_rows, dtype=np.int64)
    square = np.square(centers).sum(axis=1)
    for block in blocks(n_rows):
        rows = embedding[block]
        far = np.square(rows).sum(axis=1, keepdims=True) + square - 2.0 * rows @ centers.T
        far = np.maximum(far, 0.0)
        weight = np.exp(-0.5 * precision * (far - far.min(axis=1, keepdims=True)))
        place = np.arange(len(rows))
        own = (place, labels[block])
        share[block], distance[block] = weight[own] / weight.sum(axis=1), far[own]
        far[own] = np.inf
        other[block] = far.argmin(axis=1)
        other_distance[block] = far[place, other[block]]
    return Membership(labels, share, other, distance, other_distance)


def blocks(n_rows: int) -> Iterator[slice]:
    """Slices that cover all rows."""
    return (slice(start, min(start + BLOCK, n_rows)) for start in range(0, n_rows, BLOCK))


def match_groups(
    before: Integers, after: Integers, *, n_before: int, n_after: int, weight: NDArray[Any]
) -> tuple[dict[int, int], NDArray[np.float64]]:
    """Which group of before each group of now is, by the rows they share; and these rows, (B, A).

    Parameters
    ----------
    before, after : ndarray of shape (n,)
        Groups of the same rows; negative for none.
    n_before, n_after : int
    weight : ndarray of shape (n,)
        How much a row counts.

    Examples
    --------
    >>> ones = np.ones(4)
    >>> match_groups(np.array([0, 0, 1, -1]), np.array([1, 1, 0, 0]), n_before=2, n_after=2, weight=ones)[0]
    {1: 0, 0: 1}
    """
    known = (before >= 0) & (after >= 0)
    cell = before[known] * n_after + after[known]
    counts = np.bincount(cell, weights=weight[known], minlength=n_before * n_after)
    shared = counts.astype(np.float64).reshape(n_before, n_after)
    old, new = linear_sum_assignment(-shared)
    pairs = zip(new.tolist(), old.tolist(), strict=True)
    return {after_: before_ for after_, before_ in pairs if shared[before_, after_] > 0}, shared


def flat_map(embedding: Floats, before: Floats | None) -> Floats:
    """Rows without groups: the plane in which they differ most, turned as the map before was."""
    plane = _squash(_plane(embedding))
    return plane if before is None else _turn_like(plane, before)


def disc_map(
    embedding: Floats, found: Membership, discs: NDArray[np.float64], before: Floats | None
) -> Floats:
    """Places of rows, (n, 2).

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    found : Membership
    discs : ndarray of shape (K, 3)
        Middle and radius of each group.
    before : ndarray of shape (n, 2), optional
        The map before: rows keep their side of the disc.
    """
    places = np.zeros((len(embedding), 2), dtype=np.float32)
    order = np.argsort(found.labels, kind="stable")
    ends = np.searchsorted(found.labels[order], np.arange(len(discs) + 1))
    for disc, (start, end) in zip(discs, pairwise(ends), strict=True):
        rows = order[start:end]
        if len(rows):
            spread = _squash(_plane(embedding[rows]))
            if before is not None:
                spread = _turn_like(spread, before[rows] - before[rows].mean(axis=0))
            places[rows] = disc[:2] + disc[2] * spread
    pull = np.clip(found.distance / (found.distance + found.other_distance + 1e-9), 0.0, 0.5)[:, None]
    middles = discs[:, :2].astype(np.float32)
    return np.asarray((1.0 - pull) * places + pull * middles[found.other], dtype=np.float32)


def place_discs(sizes: Integers, start: NDArray[np.float64], is_kept: NDArray[np.bool_]) -> NDArray[Any]:
    """Middles and radii, (K, 3), of discs that do not overlap; those that were there before hardly move.

    Parameters
    ----------
    sizes : ndarray of shape (K,)
    start : ndarray of shape (K, 2)
        Where each disc was, or the disc that it comes from.
    is_kept : ndarray of shape (K,)
        Which discs were there before.
    """
    radii = np.maximum(np.sqrt(sizes / max(1, sizes.max(initial=1))), 0.3)
    turns = 2.4 * np.arange(len(start))  # the golden angle separates discs that start on one spot
    away = 0.1 * np.column_stack([np.cos(turns), np.sin(turns)])
    middles = start + np.where(is_kept[:, None], 0.0, away)
    follows = np.where(is_kept, _KEPT_MOVES if not is_kept.all() else 0.2, 1.0)[:, None]
    for _ in range(_STEPS):
        middles = middles + follows * _push(middles, radii)
        if not is_kept.any():
            middles = 0.99 * middles  # drawn together until they touch
    return np.column_stack([middles, radii])


def frame(discs: NDArray[np.float64], before: float | None) -> float:
    """Half the width of the map; that of the map before where all still fits well."""
    reach = float((np.abs(discs[:, :2]) + discs[:, 2:]).max(initial=1e-9))
    return before if before is not None and 0.6 * before <= reach <= before else 1.05 * reach


def first_of_each(labels: Integers, score: NDArray[Any], n_groups: int, count: int) -> list[list[int]]:
    """The rows of each group with the smallest scores, smallest first."""
    order = np.lexsort((score, labels))
    ends = np.searchsorted(labels[order], np.arange(n_groups + 1))
    return [order[start : min(start + count, end)].tolist() for start, end in pairwise(ends)]


def _push(middles: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    away = middles[:, None] - middles[None]  # (K, K, 2)
    distance = np.linalg.norm(away, axis=2)
    overlap = np.clip(radii[:, None] + radii + _GAP - distance, 0.0, None)
    np.fill_diagonal(overlap, 0.0)
    return np.asarray((0.35 * (overlap / np.maximum(distance, 1e-9))[:, :, None] * away).sum(axis=1))


def _plane(rows: Floats) -> Floats:
    """The two directions in which rows differ most, (n, 2)."""
    centered = rows - rows.mean(axis=0)
    if centered.shape[1] < 2:
        return np.column_stack([centered, np.zeros((len(rows), 2 - centered.shape[1]))]).astype(np.float32)
    _, directions = np.linalg.eigh(centered.T @ centered)
    return np.asarray(centered @ directions[:, :-3:-1], dtype=np.float32)


def _squash(plane: Floats) -> Floats:
    """Points of any scale moved into the unit disc along their directions, outliers most."""
    length = np.linalg.norm(plane, axis=1, keepdims=True)
    typical = max(float(np.median(length)), 1e-12)
    return np.asarray(plane / np.maximum(length, 1e-12) * np.tanh(0.7 * length / typical), dtype=np.float32)


def _turn_like(plane: Floats, before: Floats) -> Floats:
    """Turned or mirrored to where the same points were (orthogonal Procrustes)."""
    left, _, right = np.linalg.svd(plane.T.astype(np.float64) @ before.astype(np.float64))
    return np.asarray(plane @ (left @ right), dtype=np.float32)

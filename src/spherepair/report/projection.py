"""A flat map of an embedding: every cluster a disc, rows on the way to another cluster between two.

K clusters on the sphere point in K directions, of which a plane through the origin shows two. Here
each cluster gets a disc instead, its area by its size, and clusters that share borderline rows lie
side by side. Inside a disc rows spread along the two directions in which the cluster's rows differ
most, so that a cluster of two kinds shows two lumps; a row then moves towards the nearest other disc
by t = (1 - s)² / 2 of the way, where s is its sureness: half-way for a row half-way between both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.plots.embedding import principal_plane
from spherepair.report.placement import Placement

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_GAP = 0.35
_STEPS = 400
#: Screens are wider than high: gravity flattens the packing.
_GRAVITY = np.array([0.4, 2.0])


def disc_map(
    embedding: NDArray[Any], placement: Placement, *, centers: NDArray[Any], rows: Integers
) -> tuple[Floats, Floats]:
    """Coordinates of rows and of discs.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    placement : Placement
        Of all n rows.
    centers : ndarray of shape (K, D)
    rows : ndarray of shape (m,)
        The rows to place.

    Returns
    -------
    places : ndarray of shape (m, 2)
    discs : ndarray of shape (K, 3)
        Middle and radius of each cluster.
    """
    radii = np.sqrt(placement.sizes / max(1, placement.sizes.max(initial=1)))
    radii = np.maximum(radii, 0.25)
    start = principal_plane(np.asarray(centers, dtype=np.float64))
    middles = pack_discs(start, radii, attraction=_shared_borders(placement))
    labels, other = placement.labels[rows], placement.other[rows]
    # A row without a cluster stands half-way between the middle of the map and its nearest disc.
    home = np.where(labels[:, None] >= 0, middles[labels], 0.0)
    towards = np.where(other[:, None] >= 0, middles[other], home)
    pull = np.clip((1.0 - placement.sureness[rows]) ** 2 / 2, 0.0, 1.0)[:, None]
    spread = _inside(embedding[rows], labels, radii=radii)
    return home + pull * (towards - home) + (1.0 - pull) * spread, np.column_stack([middles, radii])


def pack_discs(start: Floats, radii: Floats, *, attraction: Floats) -> Floats:
    """Middles (K, 2) of discs that do not overlap and lie near those they are drawn to.

    Parameters
    ----------
    start : ndarray of shape (K, 2)
    radii : ndarray of shape (K,)
    attraction : ndarray of shape (K, K)
        How strongly two discs are drawn together, between 0 and 1.

    Examples
    --------
    >>> middles = pack_discs(np.zeros((2, 2)), np.ones(2), attraction=np.zeros((2, 2)))
    >>> bool(np.linalg.norm(middles[0] - middles[1]) > 2)
    True
    """
    turns = 2.4 * np.arange(len(start))  # the golden angle parts discs that start on one spot
    middles = 2 * start / max(np.abs(start).max(initial=0.0), 1e-9)
    middles = middles * np.sqrt(len(start)) + 0.1 * np.column_stack([np.cos(turns), np.sin(turns)])
    for step in range(_STEPS):
        cooling = max(0.0, 1.0 - 1.5 * step / _STEPS)
        drawn = attraction @ middles - attraction.sum(axis=1, keepdims=True) * middles
        middles = middles + cooling * (0.1 * drawn - 0.03 * _GRAVITY * middles)
        middles = middles + _push_apart(middles, radii)
    return principal_plane(middles)  # the longest way across is level


def _push_apart(middles: Floats, radii: Floats) -> Floats:
    away = middles[:, None] - middles[None]  # (K, K, 2)
    distance = np.linalg.norm(away, axis=2)
    overlap = np.clip(radii[:, None] + radii + _GAP - distance, 0.0, None)
    np.fill_diagonal(overlap, 0.0)
    return np.asarray((0.35 * (overlap / np.maximum(distance, 1e-9))[:, :, None] * away).sum(axis=1))


def _shared_borders(placement: Placement) -> Floats:
    """How many unsure rows two clusters share, the most shared border being 1, (K, K)."""
    shared = np.zeros((placement.n_clusters, placement.n_clusters))
    known = (placement.labels >= 0) & (placement.other >= 0)
    doubt = np.clip(1.0 - placement.sureness[known], 0.0, 1.0) ** 2
    np.add.at(shared, (placement.labels[known], placement.other[known]), doubt)
    shared = shared + shared.T
    return np.asarray(shared / max(shared.max(initial=0.0), 1e-9))


def _inside(embedding: NDArray[Any], labels: Integers, *, radii: Floats) -> Floats:
    """Offsets (m, 2) from the middle of a row's disc."""
    offsets = np.zeros((len(embedding), 2))
    for cluster in np.unique(labels[labels >= 0]).tolist():
        chosen = labels == cluster
        offsets[chosen] = radii[cluster] * _fill_disc(principal_plane(embedding[chosen].astype(np.float64)))
    return offsets


def _fill_disc(plane: Floats) -> Floats:
    """Points of any scale inside the unit disc, the outlying ones drawn in, directions kept."""
    length = np.linalg.norm(plane, axis=1, keepdims=True)
    typical = max(float(np.median(length)), 1e-12)
    return np.asarray(plane / np.maximum(length, 1e-12) * np.tanh(0.7 * length / typical))

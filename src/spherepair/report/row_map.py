"""The map of the rows: every cluster a disc, rows between two discs if they lie between two clusters.

K clusters on the sphere point in K directions, of which a plane through the origin shows two. Here each
cluster gets a disc instead, its area by its size, and clusters that share borderline rows are side by
side. Inside a disc rows spread along the two directions in which the cluster's rows differ most, so that
a cluster of two kinds shows two lumps. A row then moves toward the nearest other disc by
t = (1 - s)² / 2 of the way, where s is its silhouette: halfway for a row halfway between both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.estimators.trust.profiles import Profiles
from spherepair.plots.scatter import principal_plane
from spherepair.report.cluster_cards import Membership
from spherepair.report.row_cards import Bytes, RowDisplay, format_number, png_uri, shorten

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Every cluster has at least so many points, if it has so many rows.
LEAST_OF_A_CLUSTER = 30
#: Coordinates are whole numbers up to this: finer than any screen, and short.
_GRID = 4000
_HOVER_LETTERS, _HOVER_COLUMNS = 110, 4
_SPRITE_COLUMNS, _LARGEST_TILE = 64, 16
_GAP, _STEPS = 0.35, 400
#: Screens are wider than high: gravity flattens the packing.
_GRAVITY = np.array([0.4, 2.0])


@dataclass(frozen=True)
class Sprite:
    """Many small images in one, ``columns`` to a line."""

    uri: str
    width: int
    height: int
    columns: int


@dataclass(frozen=True)
class MapPoints:
    """What the script of the page draws; one entry per point in each list.

    Attributes
    ----------
    rows, x, y, cluster, next_cluster : list of int
    silhouette : list of float
    is_borderline, is_linked, is_violated : list of int
        1 for rows that are borderline, in a constraint, in a violated one.
    names : list of str or None
        ``None`` if rows are named by their numbers.
    texts : list of str or None
    values : list of list of str or None
        Values of the columns that distinguish the row's cluster.
    columns : list of list of str
        Names of these columns, for each cluster.
    sprite : Sprite or None
    discs : list of [x, y, radius]
    lines : list of [point, point, is_must_link]
        The violated constraints that are listed.
    n_rows : int
        Number of all rows, of which these may be a sample.
    """

    rows: list[int]
    x: list[int]
    y: list[int]
    cluster: list[int]
    next_cluster: list[int]
    silhouette: list[float]
    is_borderline: list[int]
    is_linked: list[int]
    is_violated: list[int]
    names: list[str] | None
    texts: list[str] | None
    values: list[list[str]] | None
    columns: list[list[str]]
    sprite: Sprite | None
    discs: list[list[int]]
    lines: list[list[int]]
    n_rows: int


@dataclass(frozen=True, eq=False)
class Marks:
    """Rows in constraints.

    Attributes
    ----------
    linked, violated : ndarray
        Rows in any constraint, and in a violated one.
    lines : ndarray of shape (n_lines, 3)
        Both rows of each listed violated constraint, and whether it is a must-link.
    """

    linked: Integers
    violated: Integers
    lines: Integers


def map_points(
    display: RowDisplay,
    membership: Membership,
    embedding: NDArray[Any],
    *,
    centers: NDArray[Any],
    profiles: Profiles,
    rows: Integers,
    marks: Marks,
) -> MapPoints:
    """Everything the page needs to draw a map of some rows."""
    places, discs = disc_map(embedding, membership, centers=centers, rows=rows)
    low, scale = _frame(places, discs)
    flat = np.round((places - low) * scale).astype(np.int64)
    circles = np.column_stack([(discs[:, :2] - low) * scale, discs[:, 2] * scale]).round().astype(np.int64)
    columns = _hover_columns(display, profiles)
    return MapPoints(
        rows=rows.tolist(),
        x=flat[:, 0].tolist(),
        y=flat[:, 1].tolist(),
        cluster=membership.labels[rows].tolist(),
        next_cluster=membership.next_clusters[rows].tolist(),
        silhouette=membership.silhouettes[rows].round(2).tolist(),
        is_borderline=membership.is_borderline[rows].astype(int).tolist(),
        is_linked=np.isin(rows, marks.linked).astype(int).tolist(),
        is_violated=np.isin(rows, marks.violated).astype(int).tolist(),
        names=None if display.ids is None else [display.ids[row] for row in rows.tolist()],
        texts=_hover_texts(display, rows),
        values=_hover_values(display, rows, columns),
        columns=[[display.columns[place] for place in line] for line in columns.tolist()],
        sprite=_hover_images(display, rows),
        discs=circles.tolist(),
        lines=_lines_between(rows, marks.lines),
        n_rows=len(membership.labels),
    )


def rows_on_map(membership: Membership, *, count: int, wanted: Integers) -> Integers:
    """About ``count`` rows at most: the wanted ones, some of each cluster, the rest at random.

    Examples
    --------
    >>> none = np.zeros(4)
    >>> membership = Membership(np.array([0, 0, 0, 1]), np.zeros(4, int), none, none, 2)
    >>> rows_on_map(membership, count=9, wanted=np.array([2])).tolist()
    [0, 1, 2, 3]
    """
    n_rows = len(membership.labels)
    if n_rows <= count:
        return np.arange(n_rows)
    shuffled = np.random.default_rng(0).permutation(n_rows)
    order = shuffled[np.argsort(membership.labels[shuffled], kind="stable")]
    labels = membership.labels[order]
    rank = np.arange(n_rows) - np.searchsorted(labels, labels, side="left")
    size = np.searchsorted(labels, labels, side="right") - np.searchsorted(labels, labels, side="left")
    # Order of choice: wanted rows, a few of every cluster, then clusters by their sizes.
    key = np.empty(n_rows)
    key[order] = np.where(rank < LEAST_OF_A_CLUSTER, -1.0, rank / size)
    key[wanted] = -2.0
    chosen = np.argsort(key, kind="stable")[: max(count, int((key < -1).sum()))]
    return np.sort(chosen)


def disc_map(
    embedding: NDArray[Any], membership: Membership, *, centers: NDArray[Any], rows: Integers
) -> tuple[Floats, Floats]:
    """Coordinates of rows and of discs.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    membership : Membership
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
    radii = np.sqrt(membership.sizes / max(1, membership.sizes.max(initial=1)))
    radii = np.maximum(radii, 0.25)
    start = principal_plane(np.asarray(centers, dtype=np.float64))
    middles = pack_discs(start, radii, attraction=_shared_borders(membership))
    labels, other = membership.labels[rows], membership.next_clusters[rows]
    # A row without a cluster stands halfway between the middle of the map and its nearest disc.
    home = np.where(labels[:, None] >= 0, middles[labels], 0.0)
    toward = np.where(other[:, None] >= 0, middles[other], home)
    pull = np.clip((1.0 - membership.silhouettes[rows]) ** 2 / 2, 0.0, 1.0)[:, None]
    spread = _inside(embedding[rows], labels, radii=radii)
    return home + pull * (toward - home) + (1.0 - pull) * spread, np.column_stack([middles, radii])


def pack_discs(start: Floats, radii: Floats, *, attraction: Floats) -> Floats:
    """Middles (K, 2) of discs that do not overlap and lie near the discs they are drawn to.

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
    turns = 2.4 * np.arange(len(start))  # the golden angle separates discs that start on one spot
    middles = 2 * start / max(np.abs(start).max(initial=0.0), 1e-9)
    middles = middles * np.sqrt(len(start)) + 0.1 * np.column_stack([np.cos(turns), np.sin(turns)])
    for step in range(_STEPS):
        cooling = max(0.0, 1.0 - 1.5 * step / _STEPS)
        drawn = attraction @ middles - attraction.sum(axis=1, keepdims=True) * middles
        middles = middles + cooling * (0.1 * drawn - 0.03 * _GRAVITY * middles)
        middles = middles + _push_apart(middles, radii)
    return principal_plane(middles)  # widest from left to right


def make_sprite(pixels: Bytes) -> Sprite:
    """Images (n, height, width, channels) shrunk and put side by side, in 16 levels of gray to stay small."""
    small = _shrink(pixels)
    n_images, height, width, channels = small.shape
    columns = min(_SPRITE_COLUMNS, n_images)
    n_lines = -(-n_images // columns)
    filled = np.zeros((n_lines * columns, height, width, channels), dtype=np.uint8)
    filled[:n_images] = (small // 17) * 17
    sheet = filled.reshape(n_lines, columns, height, width, channels).swapaxes(1, 2)
    return Sprite(png_uri(sheet.reshape(n_lines * height, columns * width, channels)), width, height, columns)


def _frame(places: NDArray[Any], discs: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Lower corner and scale that put all points and discs on the grid."""
    corners = np.concatenate([places, discs[:, :2] - discs[:, 2:], discs[:, :2] + discs[:, 2:]])
    low, high = corners.min(axis=0), corners.max(axis=0)
    return low, _GRID / max(float((high - low).max()), 1e-9)


def _hover_columns(display: RowDisplay, profiles: Profiles) -> Integers:
    """Columns (K, c) that distinguish each cluster; none if rows are images or texts."""
    clusters = range(len(profiles.cluster_means))
    count = _HOVER_COLUMNS if display.kind == "values" else 0
    return np.array([profiles.distinguishing(cluster, count) for cluster in clusters], dtype=np.int64)


def _hover_texts(display: RowDisplay, rows: Integers) -> list[str] | None:
    if display.texts is None:
        return None
    return [shorten(display.texts[row], _HOVER_LETTERS) for row in rows.tolist()]


def _hover_values(display: RowDisplay, rows: Integers, columns: Integers) -> list[list[str]] | None:
    if display.kind != "values":
        return None
    nearest = np.where(display.labels[rows] >= 0, display.labels[rows], 0)
    chosen = np.take_along_axis(display.dense(rows), columns[nearest], axis=1)
    return [[format_number(value) for value in line] for line in chosen.tolist()]


def _hover_images(display: RowDisplay, rows: Integers) -> Sprite | None:
    if display.kind != "image" or display.image_shape is None:
        return None
    return make_sprite(display.image_shape.pixels(display.dense(rows)))


def _lines_between(rows: Integers, lines: Integers) -> list[list[int]]:
    """Listed constraints as positions among the points; the sample holds all their rows."""
    ends = np.searchsorted(rows, lines[:, :2])
    positions: list[list[int]] = np.column_stack([ends, lines[:, 2]]).tolist()
    return positions


def _push_apart(middles: Floats, radii: Floats) -> Floats:
    away = middles[:, None] - middles[None]  # (K, K, 2)
    distance = np.linalg.norm(away, axis=2)
    overlap = np.clip(radii[:, None] + radii + _GAP - distance, 0.0, None)
    np.fill_diagonal(overlap, 0.0)
    return np.asarray((0.35 * (overlap / np.maximum(distance, 1e-9))[:, :, None] * away).sum(axis=1))


def _shared_borders(membership: Membership) -> Floats:
    """How much border two clusters share, relative to the longest border, (K, K)."""
    shared = np.zeros((membership.n_clusters, membership.n_clusters))
    known = (membership.labels >= 0) & (membership.next_clusters >= 0)
    unclear = np.clip(1.0 - membership.silhouettes[known], 0.0, 1.0) ** 2
    np.add.at(shared, (membership.labels[known], membership.next_clusters[known]), unclear)
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
    """Points of any scale moved into the unit disc along their directions, outliers most."""
    length = np.linalg.norm(plane, axis=1, keepdims=True)
    typical = max(float(np.median(length)), 1e-12)
    return np.asarray(plane / np.maximum(length, 1e-12) * np.tanh(0.7 * length / typical))


def _shrink(pixels: Bytes) -> Bytes:
    """Average blocks of pixels until thousands of images are small enough for a page."""
    n_images, height, width, channels = pixels.shape
    step = -(-max(height, width) // _LARGEST_TILE)
    lower, narrower = max(1, height // step), max(1, width // step)
    rows, columns = min(step, height), min(step, width)
    cut = pixels[:, : lower * rows, : narrower * columns].astype(np.float32)
    blocks = cut.reshape(n_images, lower, rows, narrower, columns, channels)
    return np.asarray(blocks.mean(axis=(2, 4)), dtype=np.uint8)

"""The points of the map: which rows, where, and what a reader sees when pointing at one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.report.gallery import Gallery, format_number, shorten
from spherepair.report.images import Sprite, make_sprite
from spherepair.report.placement import Placement
from spherepair.report.profiles import Profiles
from spherepair.report.projection import disc_map

Integers = NDArray[np.int64]
#: Every cluster has at least so many points, where it has so many rows.
LEAST_OF_A_CLUSTER = 30
#: Coordinates are whole numbers up to this: finer than any screen, and short.
GRID = 4000
_HOVER_LETTERS = 110
_HOVER_COLUMNS = 4


@dataclass(frozen=True)
class MapPoints:
    """What the script of the page draws; lists are of one length, one entry per point.

    Attributes
    ----------
    rows, x, y, cluster, other : list of int
    sureness : list of float
    is_borderline, is_linked, is_violated : list of int
        1 for rows that are, that are in some constraint, and in a violated one.
    names : list of str or None
        ``None`` where rows are called by their numbers.
    texts : list of str or None
    values : list of list of str or None
        Of the columns that distinguish the row's cluster.
    columns : list of list of str
        Names of these columns, for each cluster.
    sprite : Sprite or None
    discs : list of [x, y, radius]
    lines : list of [point, point, is_must_link]
        The violated constraints that are listed.
    n_rows : int
        Rows there are, of which these are a sample.
    """

    rows: list[int]
    x: list[int]
    y: list[int]
    cluster: list[int]
    other: list[int]
    sureness: list[float]
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
    """Rows with something to say about constraints.

    Attributes
    ----------
    linked, violated : ndarray
        Rows in constraints, and in violated ones.
    lines : ndarray of shape (n_lines, 3)
        Both rows and whether it is a must-link, of each violated constraint that is listed.
    """

    linked: Integers
    violated: Integers
    lines: Integers


def sample_rows(placement: Placement, *, count: int, wanted: Integers) -> Integers:
    """At most about ``count`` rows: those that are wanted, some of each cluster, the rest at random.

    Examples
    --------
    >>> none = np.zeros(4)
    >>> placement = Placement(np.array([0, 0, 0, 1]), np.zeros(4, int), none, none, 2)
    >>> sample_rows(placement, count=9, wanted=np.array([2])).tolist()
    [0, 1, 2, 3]
    """
    n_rows = len(placement.labels)
    if n_rows <= count:
        return np.arange(n_rows)
    shuffled = np.random.default_rng(0).permutation(n_rows)
    order = shuffled[np.argsort(placement.labels[shuffled], kind="stable")]
    labels = placement.labels[order]
    rank = np.arange(n_rows) - np.searchsorted(labels, labels, side="left")
    size = np.searchsorted(labels, labels, side="right") - np.searchsorted(labels, labels, side="left")
    # What is drawn first: wanted rows, a few of every cluster, then clusters by their sizes.
    key = np.empty(n_rows)
    key[order] = np.where(rank < LEAST_OF_A_CLUSTER, -1.0, rank / size)
    key[wanted] = -2.0
    chosen = np.argsort(key, kind="stable")[: max(count, int((key < -1).sum()))]
    return np.sort(chosen)


def map_points(
    gallery: Gallery,
    embedding: NDArray[Any],
    *,
    centers: NDArray[Any],
    profiles: Profiles,
    rows: Integers,
    marks: Marks,
) -> MapPoints:
    """Everything the map of some rows needs."""
    placement = gallery.placement
    places, discs = disc_map(embedding, placement, centers=centers, rows=rows)
    low, scale = _frame(places, discs)
    flat = np.round((places - low) * scale).astype(np.int64)
    circles = np.column_stack([(discs[:, :2] - low) * scale, discs[:, 2] * scale]).round().astype(np.int64)
    columns = _hover_columns(gallery, profiles)
    return MapPoints(
        rows=rows.tolist(),
        x=flat[:, 0].tolist(),
        y=flat[:, 1].tolist(),
        cluster=placement.labels[rows].tolist(),
        other=placement.other[rows].tolist(),
        sureness=placement.sureness[rows].round(2).tolist(),
        is_borderline=placement.is_borderline[rows].astype(int).tolist(),
        is_linked=np.isin(rows, marks.linked).astype(int).tolist(),
        is_violated=np.isin(rows, marks.violated).astype(int).tolist(),
        names=None if gallery.ids is None else [gallery.ids[row] for row in rows.tolist()],
        texts=_hover_texts(gallery, rows),
        values=_hover_values(gallery, rows, columns),
        columns=[[gallery.columns[place] for place in line] for line in columns.tolist()],
        sprite=_hover_images(gallery, rows),
        discs=circles.tolist(),
        lines=_lines_between(rows, marks.lines),
        n_rows=len(placement.labels),
    )


def _frame(places: NDArray[Any], discs: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Lower corner and scale that put all points and discs on the grid."""
    corners = np.concatenate([places, discs[:, :2] - discs[:, 2:], discs[:, :2] + discs[:, 2:]])
    low, high = corners.min(axis=0), corners.max(axis=0)
    return low, GRID / max(float((high - low).max()), 1e-9)


def _hover_columns(gallery: Gallery, profiles: Profiles) -> Integers:
    """The columns that distinguish each cluster (K, c); none where rows are shown otherwise."""
    clusters = range(gallery.placement.n_clusters)
    count = _HOVER_COLUMNS if gallery.kind == "values" else 0
    return np.array([profiles.distinguishing(cluster, count) for cluster in clusters], dtype=np.int64)


def _hover_texts(gallery: Gallery, rows: Integers) -> list[str] | None:
    if gallery.texts is None:
        return None
    return [shorten(gallery.texts[row], _HOVER_LETTERS) for row in rows.tolist()]


def _hover_values(gallery: Gallery, rows: Integers, columns: Integers) -> list[list[str]] | None:
    if gallery.kind != "values":
        return None
    nearest = np.where(gallery.placement.labels[rows] >= 0, gallery.placement.labels[rows], 0)
    chosen = np.take_along_axis(gallery.dense(rows), columns[nearest], axis=1)
    return [[format_number(value) for value in line] for line in chosen.tolist()]


def _hover_images(gallery: Gallery, rows: Integers) -> Sprite | None:
    if gallery.kind != "image" or gallery.image_shape is None:
        return None
    return make_sprite(gallery.image_shape.pixels(gallery.dense(rows)))


def _lines_between(rows: Integers, lines: Integers) -> list[list[int]]:
    """Listed constraints as positions among the points; the ends were all wanted in the sample."""
    ends = np.searchsorted(rows, lines[:, :2])
    positions: list[list[int]] = np.column_stack([ends, lines[:, 2]]).tolist()
    return positions

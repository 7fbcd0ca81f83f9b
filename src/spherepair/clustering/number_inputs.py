"""Checks and preparation of what :func:`spherepair.infer_n_clusters` is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.clustering.number_settings import LARGEST_PAIR_SAMPLE, TAIL_RATIO_FACTORS
from spherepair.clustering.partitions import sample_rows
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def unit_rows(embedding: ArrayLike) -> Floats:
    """Scale the rows to length one; rows of zeros stay zero.

    Examples
    --------
    >>> unit_rows([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.array(embedding, dtype=float)  # a copy, which becomes the answer
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise InvalidDataError(
            f"embedding must be a table (rows, dimensions), got shape {rows.shape} instead."
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise InvalidDataError(
            f"embedding must be finite, got NaN or infinite values in {len(bad)} rows, first row "
            f"{bad[0]}; check the training for divergence."
        )
    rows[lengths[:, 0] == 0] = 0.0  # too short to have a direction
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


def checked_limits(
    rows: Floats,
    *,
    tail_ratio: float,
    max_clusters: int | None,
    n_resamples: int,
    n_rows: int | None = None,
) -> int:
    """Check the settings and return the largest number of clusters to consider.

    Examples
    --------
    >>> checked_limits(np.zeros((100, 20)), tail_ratio=0.05, max_clusters=None, n_resamples=0)
    20
    """
    if not 0 < tail_ratio <= 1 / max(TAIL_RATIO_FACTORS):
        raise InvalidParameterError(
            f"tail_ratio must be in (0, {1 / max(TAIL_RATIO_FACTORS)}], got {tail_ratio!r} instead."
        )
    if n_resamples < 0:
        raise InvalidParameterError(f"n_resamples must be 0 or more, got {n_resamples!r} instead.")
    if max_clusters is not None and max_clusters < 2:
        raise InvalidParameterError(f"max_clusters must be 2 or more, got {max_clusters!r} instead.")
    if n_rows is not None and n_rows <= (max_clusters or 2):
        raise InvalidParameterError(f"n_rows must be above max_clusters, got {n_rows!r} instead.")
    n_given, n_components = rows.shape
    wanted = n_components if max_clusters is None else min(max_clusters, n_components)
    return int(max(2, min(wanted, n_given - 1, (n_rows or n_given) - 1)))


@dataclass(frozen=True)
class Links:
    """The usable pairs.

    Attributes
    ----------
    ends : ndarray of shape (m, 2)
        Row numbers.
    is_must_link : ndarray of shape (m,)
    weight : ndarray of shape (m,) or None
        None when all pairs count alike.
    """

    ends: Integers
    is_must_link: NDArray[np.bool_]
    weight: Floats | None

    @property
    def cannot_link(self) -> Integers:
        """Ends of the cannot-links, shape (m_c, 2)."""
        apart: Integers = self.ends[~self.is_must_link]
        return apart

    @property
    def cannot_link_weight(self) -> Floats | None:
        """Weights of the cannot-links, shape (m_c,)."""
        return None if self.weight is None else self.weight[~self.is_must_link]

    def sample(self, size: int, *, rng: np.random.Generator) -> Links:
        """Draw at most ``size`` of the pairs."""
        kept = sample_rows(len(self.ends), size, rng=rng)
        weight = None if self.weight is None else self.weight[kept]
        return Links(self.ends[kept], self.is_must_link[kept], weight)


def usable_links(constraints: Any, rows: Floats, *, rng: np.random.Generator) -> Links:
    """Return the pairs that can be used.

    Pairs of weight zero and pairs with a row of zeros, which has no direction, are left out; very
    many pairs are sampled.
    """
    if constraints is None:
        return Links(np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=bool), None)
    ends = np.column_stack([np.asarray(constraints.left), np.asarray(constraints.right)]).astype(np.int64)
    is_must_link = np.asarray(constraints.is_must_link, dtype=bool)
    weight = np.asarray(constraints.weight, dtype=float)
    _check_ends(ends, len(rows))
    has_direction = np.abs(rows).max(axis=1) > 0
    usable = (weight > 0) & has_direction[ends].all(axis=1)
    weight = weight[usable]
    alike = len(weight) == 0 or bool(np.all(weight == weight[0]))
    links = Links(ends[usable], is_must_link[usable], None if alike else weight)
    return links.sample(LARGEST_PAIR_SAMPLE, rng=rng)


def _check_ends(ends: Integers, n_rows: int) -> None:
    outside = np.flatnonzero(((ends < 0) | (ends >= n_rows)).any(axis=1))
    if len(outside):
        raise InvalidConstraintsError(
            f"constraints: pair {tuple(ends[outside[0]].tolist())} names a row outside the "
            f"embedding of {n_rows} rows ({len(outside)} such pairs); use the rows they are for."
        )

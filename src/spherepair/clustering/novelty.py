"""Novelty detection: how far a row lies from the rows of the fit, on a scale of false alarms.

A network sends anything somewhere, so its embedding cannot tell. The rows themselves can. With A the first q
principal axes of the scaled rows, C the covariance of y = Aᵀ(x - mean) within clusters and m_k the means of
the clusters in y, a row lies far out where

    inside(x) / typical + outside(x) / typical,    inside(x) = min_k (y - m_k)ᵀ C⁻¹ (y - m_k)
                                                   outside(x) = |x - mean|² - |y|²

is large: Hotelling's T² to the nearest cluster, and the squared prediction error of principal components.
The novelty of a row is the share of training rows that lie less far out, each measured by means and
axes that it had no part in (five folds). So of new rows like those of the fit one in a hundred is above 0.99.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Rows that are looked at, principal axes, folds, and steps of the scale of false alarms.
MOST_ROWS, MOST_AXES, FOLDS, SCALE_STEPS = 8192, 64, 5, 2000
#: Passes over the rows that sharpen the axes, and further axes that are thrown away afterwards.
POWER_STEPS, SPARE_AXES = 2, 8
#: Share of the largest variance that every direction has at least: nothing is known of a constant one.
LEAST_VARIANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Region:
    """Where the rows of the fit lie.

    Attributes
    ----------
    mean : Tensor of shape (d,)
    axes : Tensor of shape (d, q)
        Orthonormal, in the directions of the covariance within clusters.
    whitening : Tensor of shape (q,)
        Makes clusters round and as wide as one; (q, q) in models saved by early versions.
    centers : Tensor of shape (K, q)
        Means of the clusters, whitened.
    typical : Tensor of shape (2,)
        Medians of what is inside and outside the axes.
    """

    mean: Tensor
    axes: Tensor
    whitening: Tensor
    centers: Tensor
    typical: Tensor

    def distance(self, x: Tensor) -> Tensor:
        """How far out rows (n, d) lie, (n,)."""
        inside, outside = self._parts(x)
        return inside / self.typical[0] + outside / self.typical[1]

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 would blur the differences of squares
            centered = x.float() - self.mean
            y = centered @ self.axes
            outside = (centered.square().sum(dim=1) - y.square().sum(dim=1)).clamp(min=0.0)
            round_ = y * self.whitening if self.whitening.dim() == 1 else y @ self.whitening
            inside = torch.cdist(round_, self.centers).amin(dim=1).square()
        return inside, outside


@dataclass(frozen=True, eq=False)
class NoveltyScale:
    """The region of the fit, and how far out its rows lie.

    Attributes
    ----------
    region : Region
    steps : Tensor of shape (m,)
        Distances of training rows in ascending order.
    """

    region: Region
    steps: Tensor

    def novelty(self, x: Tensor) -> Tensor:
        """Share of the training rows that lie less far out, (n,), for scaled rows (n, d)."""
        below = torch.searchsorted(self.steps, self.region.distance(x), right=False)
        return below.float() / (len(self.steps) + 1)

    def to(self, device: torch.device) -> NoveltyScale:
        """The same on another device."""
        parts = {field.name: getattr(self.region, field.name).to(device) for field in fields(Region)}
        return NoveltyScale(Region(**parts), self.steps.to(device))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to be saved."""
        tensors = {field.name: getattr(self.region, field.name) for field in fields(Region)}
        return {name: t.cpu().numpy() for name, t in (tensors | {"steps": self.steps}).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> NoveltyScale:
        """Rebuild it from :meth:`to_arrays`."""
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        steps = tensors.pop("steps")
        return cls(Region(**tensors), steps)


def learn_novelty(x: Tensor, labels: Tensor, *, generator: torch.Generator) -> NoveltyScale:
    """Learn where rows lie.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        Scaled rows in random order.
    labels : Tensor of shape (n,)
        Their clusters.
    generator : torch.Generator
        On the device of ``x``.

    Examples
    --------
    >>> random = torch.Generator().manual_seed(0)
    >>> x = torch.randn(400, 3, generator=random)
    >>> scale = learn_novelty(x, torch.zeros(400, dtype=torch.int64), generator=random)
    >>> scale.novelty(torch.tensor([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]])).round(decimals=1).tolist()
    [0.0, 1.0]
    """
    fold = torch.arange(len(x), device=x.device) % min(FOLDS, len(x))
    measured = torch.cat(
        [
            learn_region(x[fold != k], labels[fold != k], generator=generator).distance(x[fold == k])
            for k in range(min(FOLDS, len(x)))
        ]
    )
    ascending = measured.sort().values
    if len(ascending) > SCALE_STEPS:
        places = torch.linspace(0, len(ascending) - 1, SCALE_STEPS, device=x.device).round().long()
        ascending = ascending[places]
    return NoveltyScale(learn_region(x, labels, generator=generator), ascending)


def learn_region(x: Tensor, labels: Tensor, *, generator: torch.Generator) -> Region:
    """Axes, means and widths of rows (n, d) with labels (n,)."""
    mean = x.mean(dim=0)
    centered = x - mean
    axes = _principal_axes(centered, generator)
    y = centered @ axes
    used, place = torch.unique(labels, return_inverse=True)
    counts = torch.bincount(place).clamp(min=1)[:, None]
    means = y.new_zeros(len(used), y.shape[1]).index_add_(0, place, y) / counts
    directions, whitening = _whitening(y - means[place])
    axes, centers = axes @ directions, (means @ directions) * whitening
    region = Region(mean, axes, whitening, centers, torch.ones(2, device=x.device))
    # A table with fewer columns than axes leaves nothing outside but rounding.
    tiny = LEAST_VARIANCE * centered.square().sum(dim=1).mean().clamp(min=torch.finfo(x.dtype).tiny)
    inside, outside = region._parts(x)
    typical = torch.stack([inside.median().clamp(min=LEAST_VARIANCE), torch.maximum(outside.median(), tiny)])
    return replace(region, typical=typical)


def _principal_axes(centered: Tensor, generator: torch.Generator) -> Tensor:
    """The first principal axes, (d, q), by a randomized search for their span."""
    n_rows, n_columns = centered.shape
    n_axes = min(MOST_AXES, n_columns, max(1, n_rows // 4))
    wide = min(n_axes + SPARE_AXES, n_columns)
    span = torch.randn(n_columns, wide, generator=generator, device=centered.device)
    for _ in range(POWER_STEPS):
        span = torch.linalg.qr(centered.T @ (centered @ span)).Q
    inner = centered @ span
    vectors = torch.linalg.eigh(inner.T @ inner).eigenvectors  # ascending
    axes: Tensor = span @ vectors[:, -n_axes:]
    return axes


def _whitening(offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Directions (q, q) of the covariance of offsets (n, q) from their clusters' means, and factors (q,)."""
    covariance = offsets.T @ offsets / max(1, len(offsets))
    values, vectors = torch.linalg.eigh(covariance)
    least = (LEAST_VARIANCE * values[-1]).clamp(min=torch.finfo(offsets.dtype).tiny)
    return vectors, values.clamp(min=0.0).add(least).rsqrt()

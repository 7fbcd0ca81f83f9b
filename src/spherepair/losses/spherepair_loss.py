"""The two terms of SpherePair's loss: the angles of pairs (Eq. 1) and the reconstruction error (Eq. 2).

With theta the angle between the embeddings of a pair and omega the negative-zone factor,

    must-link    Sim = (cos(theta) + 1) / 2                     loss = -log Sim
    cannot-link  Sim = (cos(min(omega * theta, pi)) + 1) / 2    loss = -log(1 - Sim)

averaged over all pairs. By the half-angle identities this is

    must-link    -2 log cos(theta / 2)
    cannot-link  -2 log sin(min(omega * theta, pi) / 2)

which is computed here: there is no 1 - Sim to cancel, and theta comes from ``atan2``, which is accurate where
``acos`` loses half of its digits. The autoencoder is regularized by

    mean over rows and features of (x_hat - x)^2

Differs from the paper: the printed equation sums over features. The weight of 0.02 was chosen for the mean,
which does not depend on the number of columns.

Reference: Zhang and Chen, "Angular Constraint Embedding via SpherePair Loss for Constrained
Clustering", NeurIPS 2025.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class PairGroup(NamedTuple):
    """Pairs of one term of the loss: ends, (n, n_dims), links, (n,), and their shares in the sum, (n,)."""

    left: Tensor
    right: Tensor
    is_must_link: Tensor
    share: Tensor


def angular_pair_loss(
    left: Tensor,
    right: Tensor,
    is_must_link: Tensor,
    *,
    weight: Tensor | None = None,
    omega: float = 2.0,
) -> Tensor:
    """Weighted mean over pairs of the SpherePair loss.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_dims)
        Embeddings of the two ends; only their directions matter.
    is_must_link : Tensor of bool, shape (n_pairs,)
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) do not count.
    omega : float, default=2.0
        Cannot-linked pairs are pushed at least pi / omega apart.

    Returns
    -------
    Tensor, scalar
        In float32 or wider, whatever the precision of the embeddings.

    Examples
    --------
    >>> import torch
    >>> east, north = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> angular_pair_loss(east, north, torch.tensor([False])).item()  # at pi / 2: satisfied
    0.0
    >>> round(angular_pair_loss(east, north, torch.tensor([True])).item(), 4)  # -log(1 / 2)
    0.6931
    """
    share = shares(left.new_ones(len(left)) if weight is None else weight)
    (loss,) = angular_losses([PairGroup(left, right, is_must_link, share)], omega=omega)
    return loss


def angular_losses(groups: Sequence[PairGroup], *, omega: float = 2.0) -> list[Tensor]:
    """SpherePair loss of each group: the sum over its pairs, each times its share.

    All groups are computed at once: on a GPU the number of operations costs, not their size.

    Parameters
    ----------
    groups : sequence of PairGroup
    omega : float, default=2.0

    Returns
    -------
    list of scalar Tensors
        One per group, in float32 or wider.
    """
    sizes = [len(group.share) for group in groups]
    ends = torch.cat([group.left for group in groups] + [group.right for group in groups])
    is_must_link = torch.cat([group.is_must_link for group in groups])
    losses: Tensor = _AngularLoss.apply(ends.view(2, sum(sizes), ends.shape[1]), is_must_link, omega)  # type: ignore[no-untyped-call]
    counted = losses * torch.cat([group.share for group in groups])
    return [part.sum() for part in torch.split(counted, sizes)]


def shares(weight: Tensor) -> Tensor:
    """Shares of pairs in their weighted mean; all zero where all weights are zero."""
    weight = wide(weight)
    return weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)


def pair_angles(left: Tensor, right: Tensor) -> Tensor:
    """Angle theta in [0, pi] between the rows of ``left`` and ``right``, in radians.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_dims)

    Returns
    -------
    Tensor of shape (n_pairs,)
    """
    (a, _), (b, _) = _unit(left), _unit(right)
    return 2.0 * torch.atan2((a - b).norm(dim=-1), (a + b).norm(dim=-1))


def reconstruction_loss(output: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Mean squared error over rows and features, weighted by row.

    Parameters
    ----------
    output, target : Tensor of shape (n_rows, n_features)
    weight : Tensor of shape (n_rows,), optional
        Rows of weight zero (padding) do not count.

    Returns
    -------
    Tensor, scalar

    Examples
    --------
    >>> import torch
    >>> reconstruction_loss(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [3.0, 3.0]])).item()
    5.0
    >>> weight = torch.tensor([1.0, 0.0])
    >>> reconstruction_loss(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [3.0, 3.0]]), weight=weight).item()
    1.0
    """
    if weight is None:
        weight = output.new_ones(len(output))
    loss: Tensor = _WeightedSquares.apply(output, target, weight)  # type: ignore[no-untyped-call]
    return loss


def wide(x: Tensor) -> Tensor:
    """Convert to float32 unless it is float64: bfloat16 resolves angles only to about half a degree."""
    return x if x.dtype == torch.float64 else x.float()


class _AngularLoss(torch.autograd.Function):
    """Loss of every pair with an explicit gradient, which takes far fewer kernels than autograd.

    With a, b the unit vectors, d = a - b, s = sin(theta / 2) = |d| / 2 and c = cos(theta / 2) = |a + b| / 2,

        dL / d left = dL / d cos(theta) * (b - cos(theta) a) / |left|,   b - cos(theta) a = 2 s^2 a - d

    where the last form does not cancel for small angles, and

        must-link    dL / d cos(theta) = -1 / (2 c^2)
        cannot-link  dL / d cos(theta) = omega cot(omega theta / 2) / (2 s c) inside the zone, else 0
    """

    @staticmethod
    def forward(ctx: Any, ends: Tensor, is_must_link: Tensor, omega: float) -> Tensor:
        unit, length = _unit(ends)
        d = unit[0] - unit[1]
        floor = math.sqrt(torch.finfo(d.dtype).eps)
        s = (torch.linalg.vector_norm(d, dim=-1) / 2).clamp_(floor, 1.0)
        c = (torch.linalg.vector_norm(unit[0] + unit[1], dim=-1) / 2).clamp_(floor, 1.0)
        half_zone = (omega * torch.atan2(s, c)).clamp_(max=math.pi / 2)
        ctx.save_for_backward(unit, length, d, s, c, half_zone, is_must_link)
        ctx.omega, ctx.dtype = omega, ends.dtype
        return -2.0 * torch.where(is_must_link, c, half_zone.sin()).log_()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        unit, length, d, s, c, half_zone, is_must_link = ctx.saved_tensors
        # Outside the zone the cotangent of pi / 2 is zero up to rounding; the comparison makes it exact.
        push = torch.where(half_zone < math.pi / 2, ctx.omega / (half_zone.tan() * s * c), 0.0)
        slope = torch.where(is_must_link, -1.0 / c.square(), push) * (0.5 * upstream[0])
        gradient = unit * (2.0 * s.square())[:, None]
        gradient[0] -= d
        gradient[1] += d
        return gradient.mul_((slope / length)[..., None]).to(ctx.dtype), None, None


def _unit(z: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors and the original lengths; the floor is for a vector of zeros."""
    z = wide(z)
    length = torch.linalg.vector_norm(z, dim=-1).clamp(min=1e-8)
    return z / length[..., None], length


class _WeightedSquares(torch.autograd.Function):
    """Weighted mean with an explicit gradient: a third of autograd's kernels.

    Every step of every stage evaluates this term; on a GPU its many small kernels would cost as much as a
    layer of the network.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        dtype = torch.float64 if output.dtype == torch.float64 else torch.float32
        difference = output.to(dtype) - target.to(dtype)
        total = weight.to(dtype).sum().clamp(min=torch.finfo(dtype).tiny)
        scaled = difference * (weight.to(dtype) / (total * difference.shape[1]))[:, None]
        ctx.save_for_backward(scaled)
        ctx.dtype = output.dtype
        return torch.dot(difference.flatten(), scaled.flatten())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (scaled,) = ctx.saved_tensors
        return (scaled * (2.0 * upstream[0])).to(ctx.dtype), None, None

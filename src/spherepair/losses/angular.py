"""The SpherePair loss on the angle between the two ends of a pair (Eq. 1 of the paper).

With theta the angle between the embeddings of a pair and omega the negative-zone factor,

    must-link    Sim = (cos(theta) + 1) / 2                     loss = -log Sim
    cannot-link  Sim = (cos(min(omega * theta, pi)) + 1) / 2    loss = -log(1 - Sim)

averaged over all pairs. Half-angle identities turn both into

    must-link    -2 log cos(theta / 2)
    cannot-link  -2 log sin(min(omega * theta, pi) / 2)

which is what is computed here: there is no 1 - Sim to cancel, and theta comes from ``atan2``, which
is accurate where ``acos`` loses half of its digits.

Reference: Zhang and Chen, "Angular Constraint Embedding via SpherePair Loss for Constrained
Clustering", NeurIPS 2025.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


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
        Pairs of weight zero (padding) take no part in the mean.
    omega : float, default=2.0
        Cannot-linked pairs are pushed out of a zone of angle pi / omega (ω in the paper).

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
    if weight is None:
        weight = left.new_ones(len(left))
    loss: Tensor = _AngularPairLoss.apply(left, right, is_must_link, weight, omega)  # type: ignore[no-untyped-call]
    return loss


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


class _AngularPairLoss(torch.autograd.Function):
    """The weighted mean with its gradient written down, in far fewer kernels than autograd would take.

    With a, b the unit vectors, d = a - b, s = sin²(theta / 2) = |d|² / 4 and c = cos²(theta / 2),

        dL / d left = dL / d cos(theta) * (b - cos(theta) a) / |left|,   b - cos(theta) a = 2 s a - d

    where the last form does not cancel for small angles, and

        must-link    dL / d cos(theta) = -1 / (2 c)
        cannot-link  dL / d cos(theta) = omega cot(omega theta / 2) / sin(theta) inside the zone, else 0
    """

    @staticmethod
    def forward(  # noqa: PLR0917
        ctx: Any, left: Tensor, right: Tensor, is_must_link: Tensor, weight: Tensor, omega: float
    ) -> Tensor:
        (a, left_length), (b, right_length) = _unit(left), _unit(right)
        floor = torch.finfo(a.dtype).eps
        d = a - b
        s = (d.square().sum(dim=-1) / 4).clamp(floor, 1.0)
        c = ((a + b).square().sum(dim=-1) / 4).clamp(floor, 1.0)
        half_zone = (omega * torch.atan2(s.sqrt(), c.sqrt())).clamp(max=math.pi / 2)
        loss = torch.where(is_must_link, -c.log(), -2.0 * half_zone.sin().log())
        share = weight.to(a.dtype) / weight.to(a.dtype).sum().clamp(min=torch.finfo(a.dtype).tiny)
        ctx.save_for_backward(a, b, d, s, c, half_zone, left_length, right_length, is_must_link, share)
        ctx.omega, ctx.dtypes = omega, (left.dtype, right.dtype)
        return torch.dot(loss, share)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        a, b, d, s, c, half_zone, left_length, right_length, is_must_link, share = ctx.saved_tensors
        # Outside the zone the cotangent of pi / 2 is zero but for rounding; the comparison makes it so.
        push = torch.where(half_zone < math.pi / 2, ctx.omega / half_zone.tan() / (2.0 * (s * c).sqrt()), 0.0)
        slope = torch.where(is_must_link, -0.5 / c, push) * share * upstream[0]
        twice_s = (2.0 * s)[:, None]
        left = (slope / left_length)[:, None] * (twice_s * a - d)
        right = (slope / right_length)[:, None] * (twice_s * b + d)
        return left.to(ctx.dtypes[0]), right.to(ctx.dtypes[1]), None, None, None


def _unit(z: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors and the lengths they had; a floor keeps a vector of zeros from dividing by zero."""
    # bfloat16 holds angles to about half a degree only, so angles are always taken in float32.
    wide = z if z.dtype == torch.float64 else z.float()
    length = torch.linalg.vector_norm(wide, dim=-1).clamp(min=1e-8)
    return wide / length[:, None], length

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

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


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
    cos_squared, sin_squared = _half_angle_squares(left, right)
    half_theta = torch.atan2(sin_squared.sqrt(), cos_squared.sqrt())
    half_zone = (omega * half_theta).clamp(max=math.pi / 2)
    pull = -cos_squared.log()
    push = -2.0 * half_zone.sin().log()
    loss = torch.where(is_must_link, pull, push)
    if weight is None:
        return loss.mean()
    return (loss * weight).sum() / weight.sum().clamp(min=torch.finfo(loss.dtype).tiny)


def pair_angles(left: Tensor, right: Tensor) -> Tensor:
    """Angle theta in [0, pi] between the rows of ``left`` and ``right``, in radians.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_dims)

    Returns
    -------
    Tensor of shape (n_pairs,)
    """
    a, b = _directions(left), _directions(right)
    return 2.0 * torch.atan2((a - b).norm(dim=-1), (a + b).norm(dim=-1))


def _half_angle_squares(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """cos² and sin² of half the angle: for unit vectors, |a + b|² / 4 and |a - b|² / 4.

    Both are kept above the rounding of their type: without that floor a cannot-link between two
    equal embeddings, or a must-link between opposite ones, would have an infinite gradient.
    """
    a, b = _directions(left), _directions(right)
    floor = torch.finfo(a.dtype).eps
    cos_squared = (a + b).square().sum(dim=-1) / 4
    sin_squared = (a - b).square().sum(dim=-1) / 4
    return cos_squared.clamp(floor, 1.0), sin_squared.clamp(floor, 1.0)


def _directions(z: Tensor) -> Tensor:
    # bfloat16 holds angles to about half a degree only, so angles are always taken in float32.
    wide = z if z.dtype == torch.float64 else z.float()
    return F.normalize(wide, dim=-1, eps=1e-8)

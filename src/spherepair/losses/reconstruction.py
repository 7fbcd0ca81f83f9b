"""Reconstruction error of an autoencoder: the regulariser of SpherePair (Eq. 2 of the paper).

Differs from the paper: the printed equation sums over features; the mean over rows *and* features
is what the weight of 0.02 was chosen for, and what makes it independent of the number of columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def reconstruction_loss(output: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Mean squared error over rows and features, rows weighted.

    Parameters
    ----------
    output, target : Tensor of shape (n_rows, n_features)
    weight : Tensor of shape (n_rows,), optional
        Rows of weight zero (padding) take no part in the mean.

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


class _WeightedSquares(torch.autograd.Function):
    """The weighted mean with its gradient written down: a third of the kernels of autograd's own.

    This term is evaluated in every step of every stage, so on a GPU its many small kernels would
    cost as much as a layer of the network.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        wide = torch.float64 if output.dtype == torch.float64 else torch.float32
        difference = output.to(wide) - target.to(wide)
        total = weight.to(wide).sum().clamp(min=torch.finfo(wide).tiny)
        scaled = difference * (weight.to(wide) / (total * difference.shape[1]))[:, None]
        ctx.save_for_backward(scaled)
        ctx.dtype = output.dtype
        return torch.dot(difference.flatten(), scaled.flatten())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (scaled,) = ctx.saved_tensors
        return (scaled * (2.0 * upstream[0])).to(ctx.dtype), None, None

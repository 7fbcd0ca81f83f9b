"""Reconstruction error of an autoencoder: the regulariser of SpherePair (Eq. 2 of the paper).

Differs from the paper: the printed equation sums over features; the mean over rows *and* features
is what the weight of 0.02 was chosen for, and what makes it independent of the number of columns.
"""

from __future__ import annotations

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
    squared = (output - target).square()
    if squared.dtype != torch.float64:
        squared = squared.float()
    if weight is None:
        return squared.mean()
    per_row = squared.mean(dim=-1)
    return (per_row * weight).sum() / weight.sum().clamp(min=torch.finfo(per_row.dtype).tiny)

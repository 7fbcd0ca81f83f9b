"""The truncated margin loss of AutoEmbedder on Euclidean distances.

With d the distance between the embeddings of a pair,

    must-link    loss = min(d, α₂)²
    cannot-link  loss = (α₁ - min(d, α₁))²

averaged over all pairs: linked rows are pulled together, others pushed at least α₁ apart.

Reference: Ohi et al., "AutoEmbedder: a semi-supervised DNN embedding system for clustering",
Knowledge-Based Systems 2020; α₂ is the addition of the SpherePair paper.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spherepair.losses.pair_likelihood import weighted_mean

#: Added to squared distances: the root has no gradient at zero, where two rows are the same.
SQUARE_FLOOR = 1e-12


def margin_pair_loss(
    left: Tensor,
    right: Tensor,
    is_must_link: Tensor,
    *,
    margin: float | Tensor,
    cap: float | Tensor = 10_000.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Weighted mean over pairs of the truncated margin loss.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_dims)
        Embeddings of the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    margin : float or scalar Tensor
        Cannot-linked rows are pushed at least this far apart (α₁).
    cap : float or scalar Tensor, default=10_000.0
        Must-linked rows further apart than this are given up (α₂).
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) take no part in the mean.

    Returns
    -------
    Tensor, scalar
        In float32 or wider, whatever the precision of the embeddings.

    Examples
    --------
    >>> import torch
    >>> here, there = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    >>> margin_pair_loss(here, there, torch.tensor([True]), margin=6.0).item()
    25.0
    >>> margin_pair_loss(here, there, torch.tensor([False]), margin=6.0).item()
    1.0
    """
    squared = (_wide(left) - _wide(right)).square().sum(dim=-1) + SQUARE_FLOOR
    pull = squared.clamp(max=cap**2)
    push = (margin - squared.sqrt()).clamp(min=0.0).square()
    return weighted_mean(torch.where(is_must_link, pull, push), weight)


def _wide(z: Tensor) -> Tensor:
    return z if z.dtype == torch.float64 else z.float()

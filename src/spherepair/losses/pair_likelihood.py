"""The pair likelihood (MCL) loss on cluster probabilities: VanillaDCC, and the pair terms of CIDEC.

With q_a and q_b the cluster probabilities of the two ends of a pair, s = Σ_k q_ak q_bk is the
probability that both lie in one cluster, and

    must-link    loss = -log s
    cannot-link  loss = -log(1 - s)

averaged over all pairs. Everything is computed from logarithms: where two rows are surely in one
cluster, 1 - s rounds to zero in float32, but log(1 - s) = log Σ_k q_ak (1 - q_bk) is still known.

Reference: Hsu et al., "Multi-class classification without multi-class labels", ICLR 2019.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Logarithms of probabilities that are exactly zero, as in PyTorch's binary cross-entropy.
LOG_FLOOR = -100.0


def pair_likelihood_loss(
    left: Tensor, right: Tensor, is_must_link: Tensor, *, weight: Tensor | None = None
) -> Tensor:
    """Weighted mean over pairs of the negative log-likelihood of their links.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Unnormalised log-probabilities of the clusters (logits) for the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) take no part in the mean.

    Returns
    -------
    Tensor, scalar
        In float32 or wider, whatever the precision of the logits.

    Examples
    --------
    >>> import torch
    >>> undecided = torch.zeros(1, 2)
    >>> round(pair_likelihood_loss(undecided, undecided, torch.tensor([True])).item(), 4)  # -log(1 / 2)
    0.6931
    """
    pull = -log_agreement(left, right)
    push = -log_disagreement(left, right)
    return weighted_mean(torch.where(is_must_link, pull, push), weight)


def log_agreement(left: Tensor, right: Tensor) -> Tensor:
    """Logarithm of the probability that both ends lie in the same cluster.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Logits.

    Returns
    -------
    Tensor of shape (n_pairs,)
    """
    return torch.logsumexp(_log_probabilities(left) + _log_probabilities(right), dim=-1)


def log_disagreement(left: Tensor, right: Tensor) -> Tensor:
    """Logarithm of the probability that the two ends lie in different clusters, never below -100.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Logits.

    Returns
    -------
    Tensor of shape (n_pairs,)
    """
    log_others = _log_complements(_log_probabilities(right))
    return torch.logsumexp(_log_probabilities(left) + log_others, dim=-1)


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of one value per pair; zero where all weights are zero."""
    if weight is None:
        return values.mean()
    weight = weight.to(values.dtype)  # the smallest number of one type is zero in a narrower one
    return (values * weight).sum() / weight.sum().clamp(min=torch.finfo(values.dtype).tiny)


def _log_complements(log_q: Tensor) -> Tensor:
    """log(1 - q_k) for every cluster.

    1 - q cancels only where q is near one, which only the most probable cluster can be: there the
    probabilities of the others are added up instead.
    """
    is_top = torch.zeros_like(log_q, dtype=torch.bool).scatter(-1, log_q.argmax(dim=-1, keepdim=True), True)
    others = log_q.masked_fill(is_top, LOG_FLOOR)
    return torch.where(is_top, torch.logsumexp(others, dim=-1, keepdim=True), torch.log1p(-others.exp()))


def _log_probabilities(logits: Tensor) -> Tensor:
    # bfloat16 has three digits; logarithms of small probabilities need more.
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide.log_softmax(dim=-1)

"""Pair losses of the baselines: pair likelihood, noisy pair likelihood and margin.

References: Hsu et al., "Multi-class classification without multi-class labels", ICLR 2019 (VanillaDCC, and
the pair term of CIDEC); Nguyen, Ibrahim and Fu, "Deep clustering with incomplete noisy pairwise annotations:
a geometric regularization approach", ICML 2023 (VolMaxDCC); Ohi et al., "AutoEmbedder: a semi-supervised DNN
embedding system for clustering", Knowledge-Based Systems 2020.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spherepair.losses.spherepair_loss import wide

#: Logarithm of a probability of exactly zero, as in PyTorch's binary cross-entropy.
LOG_FLOOR = -100.0
#: p and 1 - p are kept above this, as in the code of the authors of VolMaxDCC.
PROBABILITY_FLOOR = 1e-6
#: Added to squared distances: the root has no gradient at zero, where two rows coincide.
SQUARE_FLOOR = 1e-12


def pair_likelihood_loss(
    left: Tensor, right: Tensor, is_must_link: Tensor, *, weight: Tensor | None = None
) -> Tensor:
    """Weighted mean over pairs of the negative log-likelihood of their links (MCL).

    With q_a and q_b the cluster probabilities of the two ends, s = sum_k q_ak q_bk is the probability that
    both are in one cluster, and the loss is -log s for must-links and -log(1 - s) for cannot-links.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Unnormalized log-probabilities of the clusters (logits) for the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) do not count.

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
    """Logarithm of the probability that both ends are in the same cluster.

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
    """Logarithm of the probability that the two ends are in different clusters, at least -100.

    Where two rows are surely in one cluster, 1 - s rounds to zero in float32, but
    log(1 - s) = log sum_k q_ak (1 - q_bk) is still known.

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


def noisy_pair_loss(
    left: Tensor,
    right: Tensor,
    is_must_link: Tensor,
    *,
    link_logits: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    """Weighted mean over pairs of VolMaxDCC's negative log-likelihood, which allows for wrong links.

    With p = q_a' B q_b and B = sigmoid(``link_logits``) a learned K x K matrix that absorbs wrong links, the
    loss is -log p for must-links and -log(1 - p) for cannot-links.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Unnormalized log-probabilities of the clusters (logits) for the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    link_logits : Tensor of shape (n_clusters, n_clusters)
        Logits of B: how readily a row of one cluster is linked with a row of another.
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) do not count.

    Returns
    -------
    Tensor, scalar

    Examples
    --------
    >>> import torch
    >>> sure = torch.tensor([[50.0, 0.0]])
    >>> blur = torch.zeros(2, 2)  # B = 1 / 2: a link says nothing
    >>> round(noisy_pair_loss(sure, sure, torch.tensor([False]), link_logits=blur).item(), 4)
    0.6931
    """
    # In float64: a GPU's TF32 would round the products to three digits.
    a, b, links = (x.to(torch.float64) for x in (left, right, link_logits))
    a, b = a.softmax(dim=-1), b.softmax(dim=-1)
    linked = ((a @ links.sigmoid()) * b).sum(dim=-1)
    # 1 - p without cancellation: probabilities sum to one, and 1 - sigmoid(b) = sigmoid(-b).
    apart = ((a @ (-links).sigmoid()) * b).sum(dim=-1)
    likelihood = torch.where(is_must_link, linked, apart).clamp(min=PROBABILITY_FLOOR)
    return weighted_mean(-likelihood.log(), weight).to(torch.promote_types(left.dtype, torch.float32))


def margin_pair_loss(
    left: Tensor,
    right: Tensor,
    is_must_link: Tensor,
    *,
    margin: float | Tensor,
    cap: float | Tensor = 10_000.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Weighted mean over pairs of AutoEmbedder's truncated margin loss on Euclidean distances.

    With d the distance of the two ends, the loss is min(d, cap)^2 for must-links and
    (margin - min(d, margin))^2 for cannot-links.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_dims)
        Embeddings of the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    margin : float or scalar Tensor
        Cannot-linked rows are pushed at least this far apart (alpha_1).
    cap : float or scalar Tensor, default=10_000.0
        Must-linked rows farther apart than this are given up (alpha_2, added by the SpherePair paper).
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) do not count.

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
    squared = (wide(left) - wide(right)).square().sum(dim=-1) + SQUARE_FLOOR
    pull = squared.clamp(max=cap**2)
    push = (margin - squared.sqrt()).clamp(min=0.0).square()
    return weighted_mean(torch.where(is_must_link, pull, push), weight)


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Weighted mean of one value per pair or row; zero where all weights are zero."""
    if weight is None:
        return values.mean()
    weight = weight.to(values.dtype)  # tiny of a wider type would round to zero
    return (values * weight).sum() / weight.sum().clamp(min=torch.finfo(values.dtype).tiny)


def _log_complements(log_q: Tensor) -> Tensor:
    """log(1 - q_k) for every cluster.

    1 - q cancels only where q is near one, that is for the most probable cluster: there the probabilities of
    the others are added up instead.
    """
    is_top = torch.zeros_like(log_q, dtype=torch.bool).scatter(-1, log_q.argmax(dim=-1, keepdim=True), True)
    others = log_q.masked_fill(is_top, LOG_FLOOR)
    return torch.where(is_top, torch.logsumexp(others, dim=-1, keepdim=True), torch.log1p(-others.exp()))


def _log_probabilities(logits: Tensor) -> Tensor:
    return wide(logits).log_softmax(dim=-1)

"""The two terms of VolMaxDCC: pairs through a learned matrix B, and the volume of the memberships.

With q the cluster probabilities of a row, B = sigmoid(B') a K x K matrix that is learned along, and
Q the probabilities of many rows, one row each,

    p = q_a' B q_b          must-link  -log p          cannot-link  -log(1 - p)
    volume = log det(Q'Q + 1e-6 I)                     to be maximised

B takes up wrong links; the volume keeps clusters from falling together.

Reference: Nguyen, Ibrahim and Fu, "Deep clustering with incomplete noisy pairwise annotations: a
geometric regularization approach", ICML 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spherepair.losses.pair_likelihood import weighted_mean

#: p and 1 - p are kept above this, as in the authors' published code.
PROBABILITY_FLOOR = 1e-6
#: Added to the diagonal of Q'Q, which is singular where a cluster is empty. Differs from the paper: it prints
#: log det(Q'Q); the authors' code has this ridge.
RIDGE = 1e-6


def noisy_pair_loss(
    left: Tensor,
    right: Tensor,
    is_must_link: Tensor,
    *,
    link_logits: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    """Weighted mean over pairs of the negative log-likelihood of links that B may have blurred.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Unnormalised log-probabilities of the clusters (logits) for the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    link_logits : Tensor of shape (n_clusters, n_clusters)
        B': how readily a row of one cluster is linked with a row of another.
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) take no part in the mean.

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
    a, b, links = _probabilities(left), _probabilities(right), link_logits.to(torch.float64)
    linked = ((a @ links.sigmoid()) * b).sum(dim=-1)
    # 1 - p without cancellation: probabilities sum to one, and 1 - sigmoid(b) = sigmoid(-b).
    apart = ((a @ (-links).sigmoid()) * b).sum(dim=-1)
    likelihood = torch.where(is_must_link, linked, apart).clamp(min=PROBABILITY_FLOOR)
    return _narrow(weighted_mean(-likelihood.log(), weight), left)


def log_volume(logits: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """The volume log det(Q'Q + 1e-6 I): large where all clusters are used and rows are decided.

    Parameters
    ----------
    logits : Tensor of shape (n_rows, n_clusters)
        Unnormalised log-probabilities of the clusters.
    weight : Tensor of shape (n_rows,), optional
        Rows of weight zero (padding) take no part.

    Returns
    -------
    Tensor, scalar
        Zero where there are no rows at all.

    Examples
    --------
    >>> import torch
    >>> decided = 100 * torch.eye(2).repeat(3, 1)  # two clusters of three rows
    >>> round(log_volume(decided).exp().item(), 3)
    9.0
    """
    if len(logits) == 0:
        return logits.new_zeros((), dtype=torch.float32)
    q = _probabilities(logits)
    mass = torch.ones_like(q[:, :1]) if weight is None else weight.to(q.dtype)[:, None]
    gram = q.T @ (mass * q) + RIDGE * torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    # Cholesky without a check tells the host nothing, so that a step with it can be captured.
    factor = torch.linalg.cholesky_ex(gram).L
    return _narrow(2.0 * factor.diagonal().log().sum(), logits)


def _probabilities(logits: Tensor) -> Tensor:
    """In float64, which small matrix products can afford.

    Next to Q'Q of thousands of rows float32 would lose the 1e-6, without which that matrix is singular;
    and a GPU's TF32 would round the products for B to three digits.
    """
    return logits.to(torch.float64).softmax(dim=-1)


def _narrow(value: Tensor, like: Tensor) -> Tensor:
    return value if like.dtype == torch.float64 else value.float()

"""Terms on soft cluster assignments: DEC's self-training and VolMaxDCC's volume.

With q the cluster probabilities of the rows, and Q the matrix of them,

    p_jk = (q_jk^2 / f_k) / sum_k' (q_jk'^2 / f_k'),   f_k = sum_j q_jk
    divergence = mean over rows j of sum_k p_jk log(p_jk / q_jk)
    volume = log det(Q'Q + 1e-6 I), to be maximized

The divergence draws rows to the clusters they are already fairly sure of; f_k keeps large clusters from
growing. The volume keeps clusters from collapsing into each other.
Differs from the papers: DEC's printed equation sums over rows, but all weights were chosen for the mean.

References: Xie et al., "Unsupervised deep embedding for clustering analysis", ICML 2016; Nguyen, Ibrahim and
Fu, "Deep clustering with incomplete noisy pairwise annotations: a geometric regularization approach", ICML
2023.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair.losses.pair_losses import weighted_mean
from spherepair.losses.spherepair_loss import wide

#: Added to the diagonal of Q'Q, which is singular where a cluster is empty.
#: Differs from the paper, which prints log det(Q'Q): the authors' code has this ridge.
RIDGE = 1e-6


def target_distribution(memberships: Tensor) -> Tensor:
    """Sharpened memberships of all rows, held constant while the network follows them.

    Parameters
    ----------
    memberships : Tensor of shape (n_rows, n_clusters)
        Probabilities of the clusters (q); every row sums to one.

    Returns
    -------
    Tensor of shape (n_rows, n_clusters)
        Every row sums to one (p).

    Examples
    --------
    >>> import torch
    >>> q = torch.tensor([[0.75, 0.25], [0.25, 0.75]])
    >>> target_distribution(q)
    tensor([[0.9000, 0.1000],
            [0.1000, 0.9000]])
    """
    # A cluster in which no row has a share has size zero; it stays without rows.
    sizes = memberships.sum(dim=0).clamp(min=torch.finfo(memberships.dtype).tiny)
    sharpened = memberships * (memberships / sizes)
    return sharpened / sharpened.sum(dim=1, keepdim=True)


def target_divergence(logits: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Weighted mean over rows of the Kullback-Leibler divergence of the target from the memberships.

    Parameters
    ----------
    logits : Tensor of shape (n_rows, n_clusters)
        Unnormalized log-probabilities of the clusters; logarithms need no guard where a probability rounds
        to zero.
    target : Tensor of shape (n_rows, n_clusters)
    weight : Tensor of shape (n_rows,), optional
        Rows of weight zero (padding) do not count.

    Returns
    -------
    Tensor, scalar
        In float32 or wider, whatever the precision of the logits.

    Examples
    --------
    >>> import torch
    >>> target_divergence(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]])).item()
    0.0
    >>> round(target_divergence(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])).item(), 4)  # log 2
    0.6931
    """
    divergence = F.kl_div(wide(logits).log_softmax(dim=1), target, reduction="none").sum(dim=1)
    return weighted_mean(divergence, weight)


def log_volume(logits: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Volume log det(Q'Q + 1e-6 I): large where all clusters are used and rows are decided.

    Parameters
    ----------
    logits : Tensor of shape (n_rows, n_clusters)
        Unnormalized log-probabilities of the clusters.
    weight : Tensor of shape (n_rows,), optional
        Rows of weight zero (padding) do not count.

    Returns
    -------
    Tensor, scalar
        Zero without rows.

    Examples
    --------
    >>> import torch
    >>> decided = 100 * torch.eye(2).repeat(3, 1)  # two clusters of three rows
    >>> round(log_volume(decided).exp().item(), 3)
    9.0
    """
    if len(logits) == 0:
        return logits.new_zeros((), dtype=torch.float32)
    # In float64: beside Q'Q of thousands of rows float32 would lose the ridge.
    q = logits.to(torch.float64).softmax(dim=-1)
    mass = torch.ones_like(q[:, :1]) if weight is None else weight.to(q.dtype)[:, None]
    gram = q.T @ (mass * q) + RIDGE * torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    # Without a check the host does not wait, so that the step can be captured in a CUDA graph.
    factor: Tensor = torch.linalg.cholesky_ex(gram).L
    volume = 2.0 * factor.diagonal().log().sum()
    return volume.to(torch.promote_types(logits.dtype, torch.float32))

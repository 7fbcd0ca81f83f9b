"""Self-training of soft assignments: the target distribution of DEC and the divergence from it.

    p_jk = (q_jk² / f_k) / Σ_k' (q_jk'² / f_k'),   f_k = Σ_j q_jk
    L_DEC = mean over rows of Σ_k p_jk log(p_jk / q_jk)

Rows are drawn to the clusters they are already fairly sure of; f_k keeps large clusters from growing.
Differs from the paper: the printed equation sums over rows; all weights were chosen for the mean.

Reference: Xie et al., "Unsupervised deep embedding for clustering analysis", ICML 2016.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair.losses.pair_likelihood import weighted_mean


def target_distribution(memberships: Tensor) -> Tensor:
    """Sharpened memberships of all rows, to be held constant while the network follows them.

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
    # A cluster that no row has any share in is of size zero; it then stays without rows.
    sizes = memberships.sum(dim=0).clamp(min=torch.finfo(memberships.dtype).tiny)
    sharpened = memberships * (memberships / sizes)
    return sharpened / sharpened.sum(dim=1, keepdim=True)


def target_divergence(logits: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Weighted mean over rows of the Kullback-Leibler divergence of the target from the memberships.

    Parameters
    ----------
    logits : Tensor of shape (n_rows, n_clusters)
        Unnormalised log-probabilities of the clusters; taking logarithms from the start leaves nothing
        to be guarded where a probability rounds to zero.
    target : Tensor of shape (n_rows, n_clusters)
    weight : Tensor of shape (n_rows,), optional
        Rows of weight zero (padding) take no part in the mean.

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
    wide = logits if logits.dtype == torch.float64 else logits.float()
    divergence = F.kl_div(wide.log_softmax(dim=1), target, reduction="none").sum(dim=1)
    return weighted_mean(divergence, weight)

"""The evidence bound of a variational autoencoder whose prior is a Gaussian mixture, and DCGMM's pair term.

The model draws a cluster c with probability 1/K, an embedding z from N(μ_c, s_c) and a row from the
decoder. The encoder answers with N(m, exp(v)) for z, and with the responsibilities

    g_c ∝ N(z; μ_c, s_c)

for c. The negative evidence bound is the reconstruction error plus KL[q(z, c | x) || p(z, c)], which is

    ½ Σ_c g_c Σ_d [log s_cd + (exp(v_d) + (m_d - μ_cd)²) / s_cd] + Σ_c g_c log(K g_c) - ½ Σ_d (1 + v_d).

A pair with weight W enters the prior as exp(W [c_a = c_b]), which adds -W Σ_c g_ac g_bc to the bound,
with W positive for must-links and negative for cannot-links.

References: Jiang et al., "Variational deep embedding", IJCAI 2017; Manduchi et al., "Deep conditional
Gaussian mixture model for constrained clustering", NeurIPS 2021.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair.losses.pair_likelihood import weighted_mean
from spherepair.losses.reconstruction import reconstruction_loss


def mixture_divergence(
    logits: Tensor,
    log_variance: Tensor,
    *,
    mean_logits: Tensor,
    precisions: Tensor,
    weight: Tensor | None = None,
) -> Tensor:
    """Weighted mean over rows of KL[q(z, c | x) || p(z, c)].

    Parameters
    ----------
    logits : Tensor of shape (n, n_clusters)
        Responsibilities (g) as unnormalised logarithms.
    log_variance : Tensor of shape (n, n_dims)
        Of the encoder's answer (v).
    mean_logits : Tensor of shape (n, n_clusters)
        log N(m; μ_c, s_c) at the mean of the encoder's answer, without the constant -D/2 log 2π.
    precisions : Tensor of shape (n_clusters, n_dims)
        Inverse variances of the components (1/s).
    weight : Tensor of shape (n,), optional
        Rows of weight zero (padding) take no part in the mean.

    Returns
    -------
    Tensor, scalar

    Examples
    --------
    >>> import torch
    >>> alone = {"mean_logits": torch.zeros(3, 1), "precisions": torch.ones(1, 2)}
    >>> mixture_divergence(torch.zeros(3, 1), torch.zeros(3, 2), **alone).item()  # answer = prior
    0.0
    """
    log_g = logits.log_softmax(dim=1)
    # Not a matrix product, which may run in half precision.
    spread = (log_variance.exp()[:, None] * precisions).sum(dim=2)  # (n, K)
    expected = 0.5 * spread - mean_logits + log_g + math.log(logits.shape[1])
    entropy = 0.5 * (1.0 + log_variance).sum(dim=1)
    return weighted_mean((log_g.exp() * expected).sum(dim=1) - entropy, weight)


def mixture_pair_loss(
    left: Tensor, right: Tensor, is_must_link: Tensor, *, weight: Tensor | None = None
) -> Tensor:
    """Weighted mean over pairs of -(±1) Σ_c g_ac g_bc: plus for must-links, minus for cannot-links.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Responsibilities of the two ends as unnormalised logarithms.
    is_must_link : Tensor of bool, shape (n_pairs,)
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) take no part in the mean.

    Examples
    --------
    >>> import torch
    >>> sure = torch.tensor([[50.0, 0.0]])
    >>> mixture_pair_loss(sure, sure, torch.tensor([True])).item()
    -1.0
    """
    agreement = (left.softmax(dim=1) * right.softmax(dim=1)).sum(dim=1)
    return weighted_mean(torch.where(is_must_link, -agreement, agreement), weight)


def row_error(decoded: Tensor, target: Tensor, *, is_bernoulli: bool, weight: Tensor | None = None) -> Tensor:
    """Negative log-likelihood of rows, summed over features, weighted mean over rows.

    Differs from the paper: a Gaussian of unit variance has ½ |x - x̂|²; the published method leaves out
    the ½, and its settings were chosen without it.

    Parameters
    ----------
    decoded, target : Tensor of shape (n, n_features)
        The decoder's output and the rows.
    is_bernoulli : bool
        Whether ``decoded`` are the logits of values in [0, 1], with binary cross-entropy as the error.
    weight : Tensor of shape (n,), optional

    Returns
    -------
    Tensor, scalar
        In float32 or wider, whatever the precision of the decoder.

    Examples
    --------
    >>> import torch
    >>> row = torch.tensor([[1.0, 0.0]])
    >>> round(row_error(torch.zeros(1, 2), row, is_bernoulli=True).item(), 4)  # 2 log 2
    1.3863
    >>> row_error(torch.zeros(1, 2), row, is_bernoulli=False).item()
    1.0
    """
    if not is_bernoulli:
        return target.shape[1] * reconstruction_loss(decoded, target, weight=weight)
    wide = decoded if decoded.dtype == torch.float64 else decoded.float()
    errors = F.binary_cross_entropy_with_logits(wide, target, reduction="none")
    return weighted_mean(errors.sum(dim=1), weight)

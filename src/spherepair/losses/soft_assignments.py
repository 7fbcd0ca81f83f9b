"""Terms on soft cluster assignments: DEC's self-training, VolMaxDCC's volume, DCGMM's mixture.

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

DCGMM minimizes the negative evidence lower bound (ELBO) of a VAE with a Gaussian mixture prior. The model
draws a cluster c with probability 1/K, an embedding z from N(mu_c, s_c) and a row from the decoder. The
encoder gives N(m, exp(v)) for z, and the responsibilities of the clusters are g_c ~ N(z; mu_c, s_c). The
negative ELBO is the reconstruction error plus KL[q(z, c | x) || p(z, c)], which is

    1/2 sum_c g_c sum_d [log s_cd + (exp(v_d) + (m_d - mu_cd)^2) / s_cd]
        + sum_c g_c log(K g_c) - 1/2 sum_d (1 + v_d)

A pair with weight W enters the prior as exp(W [c_a = c_b]), which adds -W sum_c g_ac g_bc to the loss, with W
positive for must-links and negative for cannot-links.

References: Jiang et al., "Variational deep embedding", IJCAI 2017; Manduchi et al., "Deep conditional
Gaussian mixture model for constrained clustering", NeurIPS 2021.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from spherepair.losses.pair_losses import weighted_mean
from spherepair.losses.spherepair_loss import reconstruction_loss, wide

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


def mixture_divergence(
    z: Tensor, mean: Tensor, log_variance: Tensor, *, centers: Tensor, precisions: Tensor
) -> tuple[Tensor, Tensor]:
    """Unnormalized log-responsibilities, and KL[q(z, c | x) || p(z, c)] of every row.

    Parameters
    ----------
    z, mean, log_variance : Tensor of shape (n, n_dims)
        A draw from the encoder's distribution, and its mean and log-variance (m, v).
    centers, precisions : Tensor of shape (n_clusters, n_dims)
        Means and inverse variances of the components (mu, 1/s).

    Returns
    -------
    logits : Tensor of shape (n, n_clusters)
        log N(z; mu_c, s_c) without the constant -D/2 log 2 pi.
    divergence : Tensor of shape (n,)

    Examples
    --------
    >>> import torch
    >>> z = mean = log_variance = torch.zeros(1, 2)
    >>> prior = {"centers": torch.zeros(1, 2), "precisions": torch.ones(1, 2)}
    >>> mixture_divergence(z, mean, log_variance, **prior)[1].item()  # encoder = prior
    0.0
    """
    found: tuple[Tensor, Tensor] = _Divergence.apply(  # type: ignore[no-untyped-call]
        z, mean, log_variance, centers, precisions
    )
    return found


class _Divergence(torch.autograd.Function):
    """:func:`mixture_divergence` with explicit gradients: half of autograd's operations.

    With e_c = 1/2 sum_d (exp(v_d) + (m_d - mu_cd)^2) / s_cd - 1/2 sum_d log(1 / s_cd) + log g_c, the
    divergence is sum_c g_c e_c plus terms that do not depend on c, and its gradient with respect to the logit
    of c is g_c (e_c - sum g e).
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Tensor) -> tuple[Tensor, Tensor]:
        z, mean, log_variance, centers, precisions = arguments
        from_z, from_mean = z[:, None] - centers, mean[:, None] - centers
        normalizer = precisions.log().sum(dim=1)
        # Not matrix products, which may run in half precision.
        logits = 0.5 * (normalizer - (from_z.square() * precisions).sum(dim=2))
        log_g, variance = logits.log_softmax(dim=1), log_variance.exp()
        g, squares = log_g.exp(), torch.addcmul(variance[:, None], from_mean, from_mean)
        e = 0.5 * ((squares * precisions).sum(dim=2) - normalizer) + log_g
        mean_e = (g * e).sum(dim=1, keepdim=True)
        ctx.save_for_backward(from_z, from_mean, squares, variance, precisions, g, e, mean_e)
        ctx.set_materialize_grads(True)
        entropy = 0.5 * (1.0 + log_variance).sum(dim=1)
        return logits, mean_e[:, 0] - entropy + math.log(len(centers))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        from_z, from_mean, squares, variance, precisions, g, e, mean_e = ctx.saved_tensors
        by_logits, by_row = upstream[0], upstream[1][:, None]
        share = by_row * g
        by_logits = torch.addcmul(by_logits, share, e - mean_e)
        pull = share[..., None] * precisions  # (n, K, D)
        towards_mean = pull * from_mean
        away_from_z = by_logits[..., None] * from_z
        towards_z = away_from_z * precisions
        by_variance = 0.5 * (pull.sum(dim=1) * variance - by_row)
        moved = share[..., None] * squares - away_from_z * from_z
        lost = (by_logits - share).sum(dim=0)[:, None] / precisions
        return (
            -towards_z.sum(dim=1),
            towards_mean.sum(dim=1),
            by_variance,
            (towards_z - towards_mean).sum(dim=0),
            0.5 * (moved.sum(dim=0) + lost),
        )


def mixture_pair_loss(
    left: Tensor, right: Tensor, is_must_link: Tensor, *, weight: Tensor | None = None
) -> Tensor:
    """Weighted mean over pairs of -sum_c g_ac g_bc for must-links, +sum_c g_ac g_bc for cannot-links.

    Parameters
    ----------
    left, right : Tensor of shape (n_pairs, n_clusters)
        Unnormalized log-responsibilities of the two ends.
    is_must_link : Tensor of bool, shape (n_pairs,)
    weight : Tensor of shape (n_pairs,), optional
        Pairs of weight zero (padding) do not count.

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

    Differs from the paper: a Gaussian of unit variance has 1/2 (x - x_hat)^2; the published code leaves out
    the 1/2, and its settings were chosen without it.

    Parameters
    ----------
    decoded, target : Tensor of shape (n, n_features)
        The decoder's output and the rows.
    is_bernoulli : bool
        Whether ``decoded`` holds logits of values in [0, 1]; the error is then the binary cross-entropy.
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
    errors = F.binary_cross_entropy_with_logits(wide(decoded), target, reduction="none")
    return weighted_mean(errors.sum(dim=1), weight)

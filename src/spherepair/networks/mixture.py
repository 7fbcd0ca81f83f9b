"""A variational autoencoder with a Gaussian mixture over its embedding: the network of DCGMM.

    q(z | x) = N(m(x), exp(v(x))),   p(z | c) = N(μ_c, exp(l_c)),   p(c) = 1/K

The encoder answers with m and v side by side, (n, 2 D); the decoder mirrors its layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from spherepair.networks.mlp import linear_layers, mlp

#: Added to the variances of the components: one that shrinks to a point would divide by zero.
VARIANCE_FLOOR = 1e-7
#: Log-variances are kept within ± this; a row far from all others would overflow exp(v) otherwise.
LOG_VARIANCE_BOUND = 20.0


class MixtureVAE(nn.Module):
    """Encoder, decoder and mixture.

    Rows are divided by ``ceiling`` first, so that a Bernoulli decoder sees values in [0, 1]; whether the
    decoder is one is kept here too, since a saved model must remember both.

    Parameters
    ----------
    n_features, embedding_dim, n_clusters : int
    hidden_dims : sequence of int
    generator : torch.Generator, optional
        Of the weights.

    Examples
    --------
    >>> network = MixtureVAE(8, 2, 3, hidden_dims=(4,))
    >>> network.logits(network.encode(torch.zeros(5, 8))).shape
    torch.Size([5, 3])
    """

    ceiling: Tensor
    is_bernoulli: Tensor

    def __init__(
        self,
        n_features: int,
        embedding_dim: int,
        n_clusters: int,
        *,
        hidden_dims: Sequence[int],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden_dims]
        self.encoder = mlp([*sizes, 2 * embedding_dim], generator=generator)
        self.decoder = mlp([embedding_dim, *sizes[::-1]], generator=generator)
        self.centers = nn.Parameter(torch.zeros(n_clusters, embedding_dim))
        self.log_variances = nn.Parameter(torch.zeros(n_clusters, embedding_dim))
        self.register_buffer("ceiling", torch.ones(()))
        self.register_buffer("is_bernoulli", torch.tensor(False))
        _draw_glorot(self, embedding_dim, generator)

    def encode(self, x: Tensor) -> Tensor:
        """Mean embeddings of rows, (n, embedding_dim)."""
        return mean_and_log_variance(self.answer(x / self.ceiling))[0]

    def answer(self, divided: Tensor) -> Tensor:
        """What the encoder says of rows that were divided by ``ceiling``, (n, 2 embedding_dim)."""
        answer: Tensor = self.encoder(divided)
        return answer.to(self.centers.dtype)

    def decode(self, z: Tensor) -> Tensor:
        """Rows divided by ``ceiling``; logits of them where the decoder is a Bernoulli one."""
        decoded: Tensor = self.decoder(z)
        return decoded

    def logits(self, z: Tensor) -> Tensor:
        """Unnormalised log-probabilities of the clusters, (n, n_clusters).

        They are the log-densities log N(z; μ_c, s_c) without the constant -D/2 log 2π.
        """
        inverse = precisions(self.log_variances)
        squares = (z[:, None] - self.centers).square() * inverse  # (n, K, D)
        return 0.5 * (inverse.log().sum(dim=1) - squares.sum(dim=2))


def mean_and_log_variance(answer: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves of the encoder's answer, each (n, embedding_dim)."""
    mean, log_variance = answer.chunk(2, dim=1)
    return mean, log_variance.clamp(-LOG_VARIANCE_BOUND, LOG_VARIANCE_BOUND)


def precisions(log_variances: Tensor) -> Tensor:
    """Inverse variances 1 / s_c of components."""
    return (log_variances.exp() + VARIANCE_FLOOR).reciprocal()


def _draw_glorot(network: MixtureVAE, embedding_dim: int, generator: torch.Generator | None) -> None:
    """Glorot's uniform weights and zero biases, the start of the published method.

    Means and log-variances are two layers in it, so each half of the encoder's last one is drawn by itself.
    """
    layers = list(linear_layers(network))
    heads = list(linear_layers(network.encoder))[-1]
    with torch.no_grad():
        for layer in layers:
            parts = torch.split(layer.weight, embedding_dim) if layer is heads else [layer.weight]
            for part in parts:
                nn.init.xavier_uniform_(part, generator=generator)
            layer.bias.zero_()

"""The networks of the baselines: classifiers, autoencoders with centers, twins and a mixture.

VanillaDCC, VolMaxDCC   logits(x) = Linear(ReLU(Linear(... x ...))),   q = softmax(logits)
CIDEC, SDEC             an autoencoder with cluster centers in its embedding
AutoEmbedder            an autoencoder with a second encoder
DCGMM                   a variational autoencoder with a Gaussian mixture over its embedding
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from spherepair.networks import Autoencoder, build_autoencoder, linear_layers, mlp

#: Added to the variances of mixture components: one that shrinks to a point would divide by zero.
VARIANCE_FLOOR = 1e-7
#: Log-variances stay within ± this; a row far from all others would overflow exp(v).
LOG_VARIANCE_BOUND = 20.0


class Classifier(nn.Module):
    """Maps rows to unnormalized log-probabilities of the clusters, which are also the embedding.

    Parameters
    ----------
    body : nn.Module
        Maps rows (n, n_features) to logits (n, n_clusters).
    """

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def encode(self, x: Tensor) -> Tensor:
        """Logits of rows."""
        z: Tensor = self.body(x)  # (n, K)
        return z

    def logits(self, z: Tensor) -> Tensor:
        """Embeddings are logits already."""
        return z


class NoisyLinkClassifier(Classifier):
    """A classifier that also learns how pairs, some of them wrong, link the clusters.

    Parameters
    ----------
    body : nn.Module
    n_clusters : int
    volume_weight : float
        Saved with the weights because a search may have found it.

    Attributes
    ----------
    link_logits : Parameter of shape (n_clusters, n_clusters)
        Logits of B, the probability of a link between rows of two clusters; initially 1 on the diagonal and
        -1 elsewhere.
    volume_weight : Tensor, scalar
    """

    volume_weight: Tensor

    def __init__(self, body: nn.Module, n_clusters: int, *, volume_weight: float) -> None:
        super().__init__(body)
        self.link_logits = nn.Parameter(2.0 * torch.eye(n_clusters) - 1.0)
        self.register_buffer("volume_weight", torch.tensor(float(volume_weight)))


def classifier_body(
    n_features: int,
    n_clusters: int,
    *,
    hidden_dims: Sequence[int] = (512, 512),
    batch_norm: bool = False,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Build linear layers with ReLU in between, optionally with batch normalization before each ReLU.

    Examples
    --------
    >>> classifier_body(64, 10, hidden_dims=(32,))(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    layers = mlp([n_features, *hidden_dims, n_clusters], generator=generator)
    if not batch_norm:
        return layers
    normed: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, nn.ReLU):
            normed.append(nn.BatchNorm1d(_width(normed[-1])))
        normed.append(layer)
    return nn.Sequential(*normed)


def _width(layer: nn.Module) -> int:
    return int(layer.out_features)  # type: ignore[arg-type]


class ClusteredAutoencoder(nn.Module):
    """An autoencoder with learnable cluster centers in its embedding: the network of CIDEC and SDEC.

    Memberships are q_k(z) ~ (1 + |z - mu_k|^2)^-a; with a = 1 this is DEC's Student's t-distribution with one
    degree of freedom.

    Parameters
    ----------
    autoencoder : Autoencoder
    n_clusters, embedding_dim : int
    exponent : float, default=1.0
        How fast memberships fall with the distance (a).

    Examples
    --------
    >>> autoencoder = build_autoencoder(8, 2, hidden_dims=(4,), spherical=False)
    >>> network = ClusteredAutoencoder(autoencoder, 3, 2)
    >>> network.logits(network.encode(torch.zeros(5, 8))).shape
    torch.Size([5, 3])
    """

    def __init__(
        self, autoencoder: Autoencoder, n_clusters: int, embedding_dim: int, *, exponent: float = 1.0
    ) -> None:
        super().__init__()
        self.autoencoder = autoencoder
        self.centers = nn.Parameter(torch.zeros(n_clusters, embedding_dim))
        self._exponent = exponent

    def encode(self, x: Tensor) -> Tensor:
        """Embed rows, (n, n_features), as (n, embedding_dim)."""
        return self.autoencoder.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        """Reconstruct rows from their embeddings."""
        return self.autoencoder.decode(z)

    def logits(self, z: Tensor) -> Tensor:
        """Unnormalized log-probabilities of the clusters, (n, n_clusters).

        Distances come from differences: |z|^2 - 2 z mu + |mu|^2 cancels where a row is close to its center,
        and matrix products may run in half precision.
        """
        distances = (z[:, None] - self.centers).square().sum(dim=2)
        return -self._exponent * torch.log1p(distances)


class TwinEncoder(nn.Module):
    """Two encoders for the two ends of a pair, over one autoencoder: the network of AutoEmbedder.

    The first branch is the encoder of the autoencoder; it embeds all rows. If tied, the ends of a pair share
    it. Otherwise, as in the published experiments, the second branch has its own weights, which are not
    pretrained, and neither branch has a ReLU before its last layer.

    Parameters
    ----------
    autoencoder : Autoencoder
    second : nn.Sequential or None
        The second branch; ``None`` if tied.
    margin, cap : float
        alpha_1 and alpha_2 of the loss, saved with the weights because a search may have found them.
    """

    margin: Tensor
    cap: Tensor

    def __init__(
        self, autoencoder: Autoencoder, second: nn.Sequential | None, *, margin: float, cap: float
    ) -> None:
        super().__init__()
        self.autoencoder, self.second = autoencoder, second
        self.register_buffer("margin", torch.tensor(float(margin)))
        self.register_buffer("cap", torch.tensor(float(cap)))

    def encode(self, x: Tensor) -> Tensor:
        """Embed rows with the first branch."""
        if self.second is None:
            return self.autoencoder.encode(x)
        return _without_last_relu(self.autoencoder.encoder, x)

    def encode_right(self, x: Tensor) -> Tensor:
        """Embed the right ends of pairs with the second branch."""
        return self.encode(x) if self.second is None else _without_last_relu(self.second, x)

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """Weights of both branches, without the decoder."""
        yield from self.autoencoder.encoder.parameters()
        if self.second is not None:
            yield from self.second.parameters()


def build_twin(
    n_features: int,
    embedding_dim: int,
    *,
    hidden_dims: Sequence[int],
    tied: bool,
    margin: float,
    cap: float,
    generator: torch.Generator | None = None,
) -> TwinEncoder:
    """Build both branches with weights drawn from ``generator``.

    Examples
    --------
    >>> network = build_twin(64, 10, hidden_dims=(32,), tied=False, margin=1.0, cap=10.0)
    >>> network.encode(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    autoencoder = build_autoencoder(
        n_features, embedding_dim, hidden_dims=hidden_dims, spherical=False, generator=generator
    )
    second = None if tied else mlp([n_features, *hidden_dims, embedding_dim], generator=generator)
    return TwinEncoder(autoencoder, second, margin=margin, cap=cap)


def _without_last_relu(encoder: nn.Module, x: Tensor) -> Tensor:
    layers = list(encoder.children())  # Linear, ReLU, Linear, …, ReLU, Linear
    for layer in [*layers[:-2], layers[-1]]:
        x = layer(x)
    return x


class MixtureVAE(nn.Module):
    """A variational autoencoder with a Gaussian mixture over its embedding: the network of DCGMM.

        q(z | x) = N(m(x), exp(v(x))),   p(z | c) = N(mu_c, exp(l_c)),   p(c) = 1/K

    The encoder gives m and v side by side, (n, 2 D); the decoder mirrors its layers. Rows are first divided
    by ``ceiling``, so that a Bernoulli decoder gets values in [0, 1]. ``ceiling`` and ``is_bernoulli`` are
    saved with the weights.

    Parameters
    ----------
    n_features, embedding_dim, n_clusters : int
    hidden_dims : sequence of int
    generator : torch.Generator, optional
        Source of the initial weights.

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
        return mean_and_log_variance(self.posterior(x / self.ceiling))[0]

    def posterior(self, divided: Tensor) -> Tensor:
        """Mean and log-variance of q(z | x), (n, 2 embedding_dim), for rows divided by ``ceiling``."""
        output: Tensor = self.encoder(divided)
        return output.to(self.centers.dtype)

    def decode(self, z: Tensor) -> Tensor:
        """Rows divided by ``ceiling``, or their logits if the decoder is a Bernoulli one."""
        decoded: Tensor = self.decoder(z)
        return decoded

    def logits(self, z: Tensor) -> Tensor:
        """Unnormalized log-probabilities of the clusters, (n, n_clusters).

        These are the log-densities log N(z; mu_c, s_c) without the constant -D/2 log 2 pi.
        """
        inverse = precisions(self.log_variances)
        squares = (z[:, None] - self.centers).square() * inverse  # (n, K, D)
        return 0.5 * (inverse.log().sum(dim=1) - squares.sum(dim=2))


def mean_and_log_variance(output: Tensor) -> tuple[Tensor, Tensor]:
    """Split the encoder output into its two halves, each (n, embedding_dim)."""
    mean, log_variance = output.chunk(2, dim=1)
    return mean, log_variance.clamp(-LOG_VARIANCE_BOUND, LOG_VARIANCE_BOUND)


def precisions(log_variances: Tensor) -> Tensor:
    """Inverse variances 1 / s_c of the components."""
    return (log_variances.exp() + VARIANCE_FLOOR).reciprocal()


def _draw_glorot(network: MixtureVAE, embedding_dim: int, generator: torch.Generator | None) -> None:
    """Draw Glorot-uniform weights and zero biases, as in the published code.

    There, means and log-variances are two layers, so each half of the encoder's last layer is drawn alone.
    """
    layers = list(linear_layers(network))
    heads = list(linear_layers(network.encoder))[-1]
    with torch.no_grad():
        for layer in layers:
            parts = torch.split(layer.weight, embedding_dim) if layer is heads else [layer.weight]
            for part in parts:
                nn.init.xavier_uniform_(part, generator=generator)
            layer.bias.zero_()

"""Two encoders for the two ends of a pair, over one autoencoder: the network of AutoEmbedder.

    z_left = first(x),   z_right = second(x)

With ``tied=True`` both are the encoder of the autoencoder. Otherwise, as in the published experiments,
the second has weights of its own, which no pretraining touches, and neither has a ReLU before its last
layer. Rows are always embedded by the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from spherepair.networks.autoencoder import Autoencoder, build_autoencoder
from spherepair.networks.mlp import mlp


class TwinEncoder(nn.Module):
    """An autoencoder, whose encoder is the first branch, and perhaps a second branch.

    Parameters
    ----------
    autoencoder : Autoencoder
    second : nn.Sequential or None
        The second branch; ``None`` where both ends pass the first.
    margin, cap : float
        α₁ and α₂ of the loss, kept beside the weights, since they may have been found by a search.
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
        """Embed rows by the first branch."""
        if self.second is None:
            return self.autoencoder.encode(x)
        return _without_last_relu(self.autoencoder.encoder, x)

    def encode_right(self, x: Tensor) -> Tensor:
        """Embed the right ends of pairs by the second branch."""
        return self.encode(x) if self.second is None else _without_last_relu(self.second, x)

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """The weights of both branches, without the decoder."""
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
    """Make both branches with fresh weights drawn from ``generator``.

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

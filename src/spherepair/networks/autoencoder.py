"""The fully connected autoencoder, whose embedding is read as a direction.

    z = encoder(x),   x_hat = decoder(z / |z|)                          (Eq. 3 of the paper)

Encoder: Linear + ReLU through the hidden sizes, then Linear to the embedding; the decoder mirrors it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.networks.mlp import mlp

#: Hidden sizes of the three networks that the paper compares.
ARCHITECTURES: dict[str, tuple[int, ...]] = {
    "compact": (256, 256, 512),
    "standard": (500, 500, 2000),
    "deep": (500, 500, 500, 2000),
}


class Autoencoder(nn.Module):
    """An encoder and a decoder, joined by the sphere.

    Parameters
    ----------
    encoder : nn.Module
        Maps rows (n, n_features) to embeddings (n, embedding_dim).
    decoder : nn.Module
        Maps embeddings back to rows.
    spherical : bool, default=True
        Whether embeddings are normalised before they are decoded.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, *, spherical: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.spherical = spherical

    def encode(self, x: Tensor) -> Tensor:
        """Embed rows; the result is not normalised, its length carries no meaning."""
        z: Tensor = self.encoder(x)  # (n, D)
        return z

    def decode(self, z: Tensor) -> Tensor:
        """Reconstruct rows from (the directions of) their embeddings."""
        if self.spherical:
            z = F.normalize(z.float(), dim=-1, eps=1e-12)
        x: Tensor = self.decoder(z)  # (n, n_features)
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Reconstruct rows."""
        return self.decode(self.encode(x))


def build_autoencoder(
    n_features: int,
    embedding_dim: int,
    *,
    hidden_dims: Sequence[int] = ARCHITECTURES["standard"],
    encoder: nn.Module | None = None,
    spherical: bool = True,
    generator: torch.Generator | None = None,
) -> Autoencoder:
    """Make an autoencoder with fresh weights drawn from ``generator``.

    A given ``encoder`` is copied, weights included; the decoder is always the mirrored network.

    Examples
    --------
    >>> network = build_autoencoder(64, 10, hidden_dims=(32, 16))
    >>> network.encode(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    sizes = [n_features, *hidden_dims, embedding_dim]
    front = mlp(sizes, generator=generator) if encoder is None else copy.deepcopy(encoder)
    return Autoencoder(front, mlp(sizes[::-1], generator=generator), spherical=spherical)

"""An autoencoder with learnable cluster centres in its embedding: the network of CIDEC and SDEC.

    q_k(z) ∝ (1 + |z - μ_k|²)^-a

with a = 1 Student's t-distribution of one degree of freedom, as in DEC.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spherepair.networks.autoencoder import Autoencoder


class ClusteredAutoencoder(nn.Module):
    """A plain autoencoder and the centres of the clusters.

    Parameters
    ----------
    autoencoder : Autoencoder
    n_clusters, embedding_dim : int
    exponent : float, default=1.0
        How fast memberships fall off with the distance (a).

    Examples
    --------
    >>> from spherepair.networks import build_autoencoder
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
        """Embed rows (n, n_features) as (n, embedding_dim)."""
        return self.autoencoder.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        """Reconstruct rows from their embeddings."""
        return self.autoencoder.decode(z)

    def logits(self, z: Tensor) -> Tensor:
        """Unnormalised log-probabilities of the clusters, (n, n_clusters).

        Distances come from differences: |z|² - 2 z·μ + |μ|² cancels where a row is close to its
        centre, and matrix products may run in half precision.
        """
        distances = (z[:, None] - self.centers).square().sum(dim=2)
        return -self._exponent * torch.log1p(distances)

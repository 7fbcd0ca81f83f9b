"""Networks that name the clusters themselves: fully connected, one output per cluster.

logits(x) = Linear(ReLU(Linear( … x … )))          q = softmax(logits)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from spherepair.networks.mlp import mlp


class Classifier(nn.Module):
    """Rows to unnormalised log-probabilities of the clusters, which are also its embedding.

    Parameters
    ----------
    body : nn.Module
        Maps rows (n, n_features) to logits (n, n_clusters).
    """

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def encode(self, x: Tensor) -> Tensor:
        """Rows to their logits."""
        z: Tensor = self.body(x)  # (n, K)
        return z

    def logits(self, z: Tensor) -> Tensor:
        """Embeddings are logits already."""
        return z


class NoisyLinkClassifier(Classifier):
    """A classifier that also learns how clusters are linked by pairs, some of which may be wrong.

    Parameters
    ----------
    body : nn.Module
    n_clusters : int
    volume_weight : float
        Kept beside the weights, since it may have been found by a search.

    Attributes
    ----------
    link_logits : Parameter of shape (n_clusters, n_clusters)
        B', whose sigmoid is the probability of a link between rows of two clusters; 1 on the diagonal
        and -1 elsewhere to start with.
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
    """Linear layers with ReLU between them, and batch normalisation before each ReLU if asked for.

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

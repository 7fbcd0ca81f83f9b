"""Averaged weights: a running mean of what the network was at the end of each epoch.

The last steps move the weights to and fro; their mean does not depend on the step at which training happens
to stop. Where the embedding is looked at while training goes on, it is that of the averaged network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

#: How much of the average an epoch leaves in place.
KEPT = 0.85


class AveragedWeights(nn.Module):
    """The average, as buffers, so that a checkpoint holds it.

    Parameters
    ----------
    network : nn.Module
        Whose weights are averaged; it is given to every method again, since a module that held it would have
        its weights twice.
    kept : float, default=0.85
        The share of the average that an epoch leaves in place; with 0 it is the present weights.

    Examples
    --------
    >>> layer = nn.Linear(1, 1)
    >>> average = AveragedWeights(layer)
    >>> for epoch in range(3):
    ...     average.take(layer, epoch)  # the mean of the epochs that lie behind
    ...     _ = nn.init.constant_(layer.weight, float(epoch))
    >>> average.take(layer, 3)
    >>> average.give(layer)
    >>> layer.weight.item()
    1.0
    """

    def __init__(self, network: nn.Module, *, kept: float = KEPT) -> None:
        super().__init__()
        self._kept = kept
        for number, tensor in enumerate(_weights(network)):
            self.register_buffer(f"average_{number}", tensor.detach().clone())

    @torch.no_grad()
    def take(self, network: nn.Module, n_epochs: int) -> None:
        """Take the weights after so many epochs into the average: the plain mean of the first few."""
        share = max(1.0 - self._kept, 1.0 / max(1, n_epochs))
        for average, tensor in zip(self._averages(), _weights(network), strict=True):
            average.lerp_(tensor, share)

    @torch.no_grad()
    def give(self, network: nn.Module) -> None:
        """Leave the network with the averaged weights."""
        _copy(self._averages(), _weights(network))

    @contextmanager
    def standing_in(self, network: nn.Module) -> Iterator[None]:
        """The network with the averaged weights for a while; the present ones come back whatever happens."""
        present = [tensor.clone() for tensor in _weights(network)]
        self.give(network)
        try:
            yield
        finally:
            with torch.no_grad():
                _copy(present, _weights(network))

    def _averages(self) -> list[Tensor]:
        return list(self.buffers())


def _weights(network: nn.Module) -> list[Tensor]:
    """Parameters and what layers such as BatchNorm remember, but not what they count."""
    return [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]


def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    for from_, to in zip(source, target, strict=True):
        to.copy_(from_)

"""What SpherePair optimises: pairs and reconstruction, and what rows without pairs can add to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.estimators.neighbor_term import Embed
from spherepair.losses import PairGroup, angular_losses, reconstruction_loss, shares
from spherepair.networks import Autoencoder
from spherepair.training.batches import Batch
from spherepair.training.embedding import map_some_rows
from spherepair.training.engine import Objective, TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource

#: How much of the averaged weights an epoch leaves in place.
KEPT = 0.85


class SpherePairObjective(Objective):
    """Named terms of the loss: ``pairs`` (angles) and ``reconstruction``.

    Parameters
    ----------
    network : Autoencoder
    omega : float
    reconstruction_weight : float
    """

    def __init__(self, network: Autoencoder, *, omega: float, reconstruction_weight: float) -> None:
        super().__init__()
        self.network = network
        self._omega = omega
        self._reconstruction_weight = reconstruction_weight

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Both ends of the pairs and the reconstruction rows go through the encoder in one pass."""
        left, right, rows = batch.split(self.network.encode(batch.x))
        given = PairGroup(left, right, batch.is_must_link, shares(batch.pair_weight))
        further = self.further_pairs(batch, rows)
        pairs, *others = angular_losses([given, *further.values()], omega=self._omega)
        decoded = self.network.decode(rows)
        error = reconstruction_loss(decoded, batch.rows, weight=batch.row_weight)
        terms = {"pairs": pairs, "reconstruction": self._reconstruction_weight * error}
        return terms | dict(zip(further, others, strict=True))

    def further_pairs(self, batch: Batch, rows: Tensor) -> dict[str, PairGroup]:
        """Pairs of the reconstruction rows, whose embeddings are ``rows``, by name of term; none here."""
        return {}


class FurtherTerm(Protocol):
    """A term on rows without pairs: a module whose buffers are what a checkpoint must hold."""

    def on_epoch_start(self, epoch: int, embed: Embed) -> None:
        """Look at the embedding, where it is time to."""
        ...

    def pairs(self, batch: Batch, z: Tensor) -> PairGroup:
        """Pairs that nobody gave, as if somebody had; ``z`` are the embeddings of the reconstruction rows."""
        ...


class SemiSupervisedObjective(SpherePairObjective):
    """Pairs, reconstruction and further terms, and an average of the weights over the epochs.

    Parameters
    ----------
    network : Autoencoder
    rows : RowSource
    hardware : Hardware
    omega, reconstruction_weight : float
    further : mapping of str to FurtherTerm
    averaging : bool, default=True
    """

    def __init__(
        self,
        network: Autoencoder,
        rows: RowSource,
        hardware: Hardware,
        *,
        omega: float,
        reconstruction_weight: float,
        further: Mapping[str, nn.Module],
        averaging: bool = True,
    ) -> None:
        super().__init__(network, omega=omega, reconstruction_weight=reconstruction_weight)
        self._rows, self._hardware = rows, hardware
        self._kept = KEPT if averaging else 0.0
        self.further = nn.ModuleDict(further)
        for number, tensor in enumerate(self._weights()):
            self.register_buffer(f"average_{number}", tensor.detach().clone())

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Take the epoch that lies behind into the average, and let the terms look at the embedding."""
        self._take_into_average(epoch)
        for term in self.further.values():
            term.on_epoch_start(epoch, self.embed)  # type: ignore[operator]

    @torch.no_grad()
    def on_end(self, state: TrainingState) -> None:
        """The network takes the averaged weights."""
        self._take_into_average(state.epoch)
        _copy(self._averages(), self._weights())

    def further_pairs(self, batch: Batch, rows: Tensor) -> dict[str, PairGroup]:
        """Pairs of the further terms, which belong to steps of training, not to the objective as a whole."""
        if not self.training:
            return {}
        return {name: term.pairs(batch, rows) for name, term in self.further.items()}  # type: ignore[operator]

    @torch.no_grad()
    def embed(self, index: Tensor) -> Tensor:
        """Unit embeddings of rows by the averaged network."""
        network = self.network.eval()
        with self._averaged():
            z = map_some_rows(
                lambda x: F.normalize(network.encode(x).float(), dim=-1, eps=1e-12),
                self._rows,
                index,
                hardware=self._hardware,
            )
        network.train()
        return z

    @torch.no_grad()
    def _take_into_average(self, n_epochs: int) -> None:
        share = max(1.0 - self._kept, 1.0 / max(1, n_epochs))  # the plain mean of the first few
        for average, tensor in zip(self._averages(), self._weights(), strict=True):
            average.lerp_(tensor, share)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The network with its averaged weights, for a look at the embedding."""
        present = [tensor.clone() for tensor in self._weights()]
        _copy(self._averages(), self._weights())
        try:
            yield
        finally:
            _copy(present, self._weights())

    def _weights(self) -> list[Tensor]:
        """Parameters and what layers such as BatchNorm remember."""
        return [tensor for tensor in self.network.state_dict().values() if tensor.is_floating_point()]

    def _averages(self) -> list[Tensor]:
        return [self.get_buffer(f"average_{number}") for number in range(len(self._weights()))]


def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    for from_, to in zip(source, target, strict=True):
        to.copy_(from_)

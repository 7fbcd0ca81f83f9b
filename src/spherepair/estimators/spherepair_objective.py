"""What SpherePair optimises: pairs and reconstruction, and what rows without pairs can add to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.estimators.averaging import KEPT, AveragedWeights
from spherepair.estimators.neighbor_term import Embed
from spherepair.losses import PairGroup, angular_losses, reconstruction_loss, shares
from spherepair.networks import Autoencoder
from spherepair.training.batches import Batch
from spherepair.training.embedding import map_some_rows
from spherepair.training.engine import Objective, TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource


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
        self.average = AveragedWeights(network, kept=KEPT if averaging else 0.0)
        self.further = nn.ModuleDict(further)

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Take the epoch that lies behind into the average, and let the terms look at the embedding."""
        self.average.take(self.network, epoch)
        for term in self.further.values():
            term.on_epoch_start(epoch, self.embed)  # type: ignore[operator]

    def on_end(self, state: TrainingState) -> None:
        """The network takes the averaged weights."""
        self.average.take(self.network, state.epoch)
        self.average.give(self.network)

    def further_pairs(self, batch: Batch, rows: Tensor) -> dict[str, PairGroup]:
        """Pairs of the further terms, which belong to steps of training, not to the objective as a whole."""
        if not self.training:
            return {}
        return {name: term.pairs(batch, rows) for name, term in self.further.items()}  # type: ignore[operator]

    @torch.no_grad()
    def embed(self, index: Tensor) -> Tensor:
        """Unit embeddings of rows by the averaged network."""
        network = self.network.eval()
        with self.average.standing_in(network):
            z = map_some_rows(
                lambda x: F.normalize(network.encode(x).float(), dim=-1, eps=1e-12),
                self._rows,
                index,
                hardware=self._hardware,
            )
        network.train()
        return z

"""What SpherePair adds to the loss of the paper, how much each addition weighs, and their sum.

    L_ang + λ L_recon                          (Eq. 4 of the paper)   :class:`SpherePairObjective`
    + neighbor attraction + pseudo-pairs, EMA of the weights          :class:`SemiSupervisedObjective`

A further term is a module with :meth:`Term.on_epoch_start` and :meth:`Term.pairs`; :func:`build_terms` makes
those whose weight in :class:`Terms` is above zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.losses import PairGroup, angular_losses, reconstruction_loss, shares
from spherepair.networks import Autoencoder
from spherepair.settings import Number, require
from spherepair.terms.row_terms import Embed, NeighborAttraction, PseudoPairs, term_rows
from spherepair.training import Objective, TrainingState
from spherepair.training.batches import Batch, PairTensors
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource, map_some_rows
from spherepair.validation import LARGEST_WEIGHT

__all__ = ["Terms"]


NEIGHBORS, PSEUDO_PAIRS = "neighbors", "pseudo_pairs"
#: Share of the average that an epoch leaves in place.
DECAY = 0.85


@dataclass(frozen=True)
class Terms:
    """Weights of what SpherePair adds to the loss of the paper.

    Parameters
    ----------
    must_link_weight : float or "auto", default="auto"
        Factor of the weights of must-links. Most random pairs are cannot-links, and each of those says less;
        ``"auto"`` is the square root of the total weight of cannot-links over that of must-links, at least
        one. It is one where the number of clusters is unknown, since all pairs then count as evidence for it.
    neighbor_weight : float, default=0.2
        Weight of the attraction between rows that were neighbors before training on pairs; no effect in a
        fit without pretraining. With more than 1,000 pairs it falls in proportion for neighbors in different
        clusters, where pseudo-pairs look at clusters.
    pseudo_pair_weight : float, default=0.5
        Weight of pairs among rows that the present clusters assign with confidence: full with 1,000 pairs,
        lower in proportion with fewer and with more. No effect where the number of clusters is unknown.

    Examples
    --------
    >>> from spherepair import SpherePair, Terms
    >>> SpherePair(10, terms=Terms(pseudo_pair_weight=0.0)).terms
    Terms(must_link_weight='auto', neighbor_weight=0.2, pseudo_pair_weight=0.0)
    """

    must_link_weight: float | str = "auto"
    neighbor_weight: float = 0.2
    pseudo_pair_weight: float = 0.5

    def __post_init__(self) -> None:
        weight = Number(0, LARGEST_WEIGHT)
        factor = replace(weight, above=True, words=("auto",))
        require(self, must_link_weight=factor, neighbor_weight=weight, pseudo_pair_weight=weight)


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
        """Pass both ends of the pairs and the reconstruction rows through the encoder at once."""
        left, right, rows = batch.split(self.network.encode(batch.x))
        given = PairGroup(left, right, batch.is_must_link, shares(batch.pair_weight))
        further = self.further_pairs(batch, rows)
        pairs, *others = angular_losses([given, *further.values()], omega=self._omega)
        decoded = self.network.decode(rows)
        error = reconstruction_loss(decoded, batch.rows, weight=batch.row_weight)
        terms = {"pairs": pairs, "reconstruction": self._reconstruction_weight * error}
        return terms | dict(zip(further, others, strict=True))

    def further_pairs(self, batch: Batch, rows: Tensor) -> dict[str, PairGroup]:
        """Pairs among the reconstruction rows, whose embeddings are ``rows``, by name of term; none here."""
        return {}

    @property
    def neighbor_table(self) -> Tensor | None:
        """Rows and their neighbors (m, 1 + k) that batches must show together; none here."""
        return None


class Term(Protocol):
    """A term on rows without pairs: a module whose buffers are saved in checkpoints."""

    def on_epoch_start(self, epoch: int, embed: Embed) -> None:
        """Look at the embedding, if it is time to."""
        ...

    def pairs(self, batch: Batch, z: Tensor) -> PairGroup:
        """Pairs that the loss treats like given ones; ``z`` are embeddings of the reconstruction rows."""
        ...


class SemiSupervisedObjective(SpherePairObjective):
    """Pairs, reconstruction and terms on rows without pairs, with an EMA of the weights.

    Parameters
    ----------
    network : Autoencoder
    rows : RowSource
    hardware : Hardware
    omega, reconstruction_weight : float
    further : mapping of str to Term
    ema : bool, default=True
        Whether the network ends with the average of its weights.
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
        ema: bool = True,
    ) -> None:
        super().__init__(network, omega=omega, reconstruction_weight=reconstruction_weight)
        self._rows, self._hardware = rows, hardware
        self.ema = WeightEMA(network, decay=DECAY if ema else 0.0)
        self.further = nn.ModuleDict(further)
        #: Called with this objective and the number of the epoch before each one.
        self.reweigh: Callable[[SemiSupervisedObjective, int], None] | None = None

    @property
    def neighbor_table(self) -> Tensor | None:
        """Rows and their neighbors (m, 1 + k) that batches must show together."""
        if NEIGHBORS not in self.further:
            return None
        table: Tensor = self.further[NEIGHBORS].table  # type: ignore[assignment]
        return table

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Add the last epoch to the average, and let the terms look at the embedding."""
        self.ema.update(self.network, epoch)
        if self.reweigh is not None:
            self.reweigh(self, epoch)
        for term in self.further.values():
            term.on_epoch_start(epoch, self.embed)  # type: ignore[operator]

    def listen_to(self, pairs: PairTensors) -> None:
        """From now on let these pairs say whether the clusters of pseudo-pairs are right."""
        if PSEUDO_PAIRS in self.further:
            self.further[PSEUDO_PAIRS].listen_to(pairs)  # type: ignore[operator]

    def on_end(self, state: TrainingState) -> None:
        """Leave the network with the averaged weights."""
        self.ema.update(self.network, state.epoch)
        self.ema.copy_to(self.network)

    def further_pairs(self, batch: Batch, rows: Tensor) -> dict[str, PairGroup]:
        """Pairs of the further terms; they count in steps of training, not in the objective as a whole."""
        if not self.training:
            return {}
        return {name: term.pairs(batch, rows) for name, term in self.further.items()}  # type: ignore[operator]

    @torch.no_grad()
    def embed(self, index: Tensor) -> Tensor:
        """Unit embeddings of rows by the averaged network."""
        network = self.network.eval()
        with self.ema.applied_to(network):
            z = map_some_rows(
                lambda x: F.normalize(network.encode(x).float(), dim=-1, eps=1e-12),
                self._rows,
                index,
                hardware=self._hardware,
            )
        network.train()
        return z


class WeightEMA(nn.Module):
    """Exponential moving average (EMA) of the weights after each epoch, as buffers that checkpoints contain.

    The last steps move the weights to and fro; their average does not depend on the step at which training
    stops. Terms that look at the embedding during training see that of the averaged network.

    Parameters
    ----------
    network : nn.Module
        Network whose weights are averaged. Every method takes it again: a module that held it would have
        its weights twice.
    decay : float, default=0.85
        Share of the average that an epoch leaves in place; with 0 the average is the present weights.

    Examples
    --------
    >>> layer = nn.Linear(1, 1)
    >>> ema = WeightEMA(layer)
    >>> for epoch in range(3):
    ...     ema.update(layer, epoch)  # average of the epochs so far
    ...     _ = nn.init.constant_(layer.weight, float(epoch))
    >>> ema.update(layer, 3)
    >>> ema.copy_to(layer)
    >>> layer.weight.item()
    1.0
    """

    def __init__(self, network: nn.Module, *, decay: float = DECAY) -> None:
        super().__init__()
        self._decay = decay
        for number, tensor in enumerate(_weights(network)):
            self.register_buffer(f"average_{number}", tensor.detach().clone())

    @torch.no_grad()
    def update(self, network: nn.Module, n_epochs: int) -> None:
        """Add the weights after ``n_epochs`` epochs; the average of the first few is their plain mean."""
        share = max(1.0 - self._decay, 1.0 / max(1, n_epochs))
        for average, tensor in zip(self.buffers(), _weights(network), strict=True):
            average.lerp_(tensor, share)

    @torch.no_grad()
    def copy_to(self, network: nn.Module) -> None:
        """Replace the weights of the network by the average."""
        _copy(list(self.buffers()), _weights(network))

    @contextmanager
    def applied_to(self, network: nn.Module) -> Iterator[None]:
        """Replace the weights of the network by the average within a block."""
        present = [tensor.clone() for tensor in _weights(network)]
        self.copy_to(network)
        try:
            yield
        finally:
            with torch.no_grad():
                _copy(present, _weights(network))


def _weights(network: nn.Module) -> list[Tensor]:
    """Parameters and running statistics of layers such as BatchNorm, but not their counters."""
    return [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]


def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    for from_, to in zip(source, target, strict=True):
        to.copy_(from_)


def build_terms(
    weights: Terms,
    rows: RowSource,
    pairs: PairTensors,
    *,
    n_clusters: int | None,
    n_informative: int,
    is_trained: bool,
    first_epoch: int,
    centers: Tensor | None,
    seed: int,
) -> dict[str, nn.Module]:
    """Terms on rows without pairs: those with a weight that make sense here.

    Parameters
    ----------
    weights : Terms
    rows : RowSource
    pairs : PairTensors
        The given pairs.
    n_clusters : int or None
        ``None`` where the number of clusters is unknown.
    n_informative : int
        How many of the pairs tell something new, see :meth:`spherepair.Constraints.informative_pairs`.
    is_trained : bool
        Whether the network was trained before; neighbors in the embedding of a fresh one mean nothing.
    first_epoch : int
        Number of epochs before pseudo-pairs are made.
    centers : Tensor of shape (n_clusters, D), optional
        Unit vectors of the clusters at the start, where they are known.
    seed : int
    """
    terms: dict[str, nn.Module] = {}
    attraction: NeighborAttraction | None = None
    ends = torch.cat([pairs.left, pairs.right])
    seen = term_rows(rows.n_rows, ends, seed=seed, device=rows.index_device)
    if weights.neighbor_weight > 0 and rows.n_rows > 2 and is_trained:
        # Before the pseudo-pairs, which read its table: in a refinement both look before the first epoch.
        attraction = NeighborAttraction(seen, weight=weights.neighbor_weight, seed=seed)
        terms[NEIGHBORS] = attraction
    # Not where the number of clusters is unknown: it would be found as trained. Nor without cannot-links:
    # nothing holds clusters apart then, and one cluster may be all of them.
    if weights.pseudo_pair_weight > 0 and (n_clusters or 0) > 1 and not bool(pairs.is_must_link.all()):
        pseudo_pairs = PseudoPairs(
            rows.n_rows,
            seen,
            pairs,
            weight=weights.pseudo_pair_weight,
            n_clusters=n_clusters or 0,
            first_epoch=first_epoch,
            seed=seed,
            device=rows.device,
            neighbors=None if attraction is None else attraction.table,
            centers=centers,
            n_informative=n_informative,
        )
        terms[PSEUDO_PAIRS] = pseudo_pairs
        if attraction is not None:
            attraction.weaken_where(pseudo_pairs.differ, n_informative)
    return terms


def weigh_must_links(pairs: PairTensors, factor: float | str) -> PairTensors:
    """The pairs with the weights of must-links multiplied by ``factor``, ``"auto"`` by their rarity.

    Most random pairs are cannot-links, and a cannot-link (anywhere outside a zone) says less than a must-link
    (the same place). The factor brings their shares in the loss nearer to each other without making them
    equal.
    """
    number = rarity_factor(pairs) if isinstance(factor, str) else float(factor)
    return replace(pairs, weight=torch.where(pairs.is_must_link, number, 1.0) * pairs.weight)


def rarity_factor(pairs: PairTensors) -> float:
    """Square root of the total weight of cannot-links over that of must-links, at least one.

    Examples
    --------
    >>> ends, is_must_link = torch.arange(10), torch.arange(10) < 1
    >>> rarity_factor(PairTensors(ends, ends, is_must_link, torch.ones(10)))
    3.0
    """
    must = float(pairs.weight[pairs.is_must_link].sum())
    cannot = float(pairs.weight[~pairs.is_must_link].sum())
    return math.sqrt(cannot / must) if 0 < must < cannot else 1.0

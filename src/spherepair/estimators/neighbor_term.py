"""Attraction to neighbours: rows that were alike before the pairs were seen should stay together.

Neighbours are looked up once, in the embedding from which training on pairs starts. Half of a step's
reconstruction rows are then neighbours of the other half, so that the term costs no further pass through
the network. It needs no clusters, nor how many there are. Where clusters are looked at (``pseudo_pairs.py``)
and there are true pairs enough to trust them, neighbours that lie in different ones are let go: where
neighbours mislead, these are the ones that do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from spherepair.clustering.neighbors import nearest_neighbors
from spherepair.losses import PairGroup
from spherepair.training.batches import Batch
from spherepair.training.randomness import torch_generator

NEIGHBORS = 5
#: Rows that have neighbours; of larger tables a random sample, whose neighbours are sought within it.
MOST_ROWS = 200_000

#: Beside more true pairs than these, the weight of neighbours in different clusters falls in proportion.
TRUSTING_PAIRS = 1000

#: From positions of rows to their unit embeddings, as the network stands.
Embed = Callable[[Tensor], Tensor]
#: From positions of rows, left and right, to whether these are known to be in different clusters.
Differ = Callable[[Tensor, Tensor], Tensor]


class NeighborAttraction(nn.Module):
    """A must-link of weight ``weight`` between a row and one of its neighbours.

    Parameters
    ----------
    n_rows : int
        Three or more.
    weight : float
    seed : int
    device : torch.device
        Where positions of rows are kept.
    """

    table: Tensor

    def __init__(
        self,
        n_rows: int,
        *,
        weight: float,
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.weight, self._seed = weight, seed
        self._differ: Differ | None = None
        rows = sample_rows(n_rows, MOST_ROWS, seed=seed, device=device)
        n_neighbors = min(NEIGHBORS, len(rows) - 1)
        # (m, 1 + k): a row and its neighbours, which an interrupted fit takes from its checkpoint.
        self.register_buffer("table", rows[:, None].repeat(1, 1 + n_neighbors))

    def let_go(self, differ: Differ, n_pairs: int) -> None:
        """Weigh neighbours in different clusters less, where there are true pairs enough to trust clusters.

        Parameters
        ----------
        differ : callable
            Says which rows are in different clusters.
        n_pairs : int
            How many true pairs there are.
        """
        if n_pairs > TRUSTING_PAIRS:
            self._differ, self._left_apart = differ, TRUSTING_PAIRS / n_pairs

    def on_epoch_start(self, epoch: int, embed: Embed) -> None:
        """Look the neighbours up before the first epoch."""
        if epoch > 0:
            return
        rows = self.table[:, 0].clone()
        z = embed(rows)
        generator = torch_generator(self._seed, "neighbours", device=z.device)
        found = nearest_neighbors(z, self.table.shape[1] - 1, generator=generator)
        self.table[:, 1:] = rows[found.to(rows.device)]

    def pairs(self, batch: Batch, z: Tensor) -> PairGroup:
        """Must-links between the rows that have companions and those; ``z`` are all rows."""
        left, right = batch.anchors(z), batch.companions(z)
        together = torch.ones(len(left), dtype=torch.bool, device=z.device)
        share = torch.full((len(left),), self.weight / max(1, len(left)), device=z.device)
        if self._differ is not None:
            apart = self._differ(batch.anchors(batch.row_index), batch.companions(batch.row_index))
            share = torch.where(apart, self._left_apart * share, share)
        return PairGroup(left, right, together, share)


def sample_rows(n_rows: int, n_most: int, *, seed: int, device: torch.device) -> Tensor:
    """Positions of all rows, or of as many drawn at random, in order."""
    if n_rows <= n_most:
        return torch.arange(n_rows, device=device)
    generator = torch_generator(seed, "sampled rows")
    return torch.randperm(n_rows, generator=generator)[:n_most].sort().values.to(device)

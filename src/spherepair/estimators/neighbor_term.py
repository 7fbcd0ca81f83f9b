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
#: Rows that terms look at; of larger tables a sample, whose neighbours are sought within it.
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
    rows : Tensor of shape (m,)
        Positions of the rows that have neighbours, and are such, in order; three or more.
    weight : float
    seed : int
    """

    table: Tensor

    def __init__(self, rows: Tensor, *, weight: float, seed: int) -> None:
        super().__init__()
        self.weight, self._seed = weight, seed
        self._differ: Differ | None = None
        self._left_apart = 1.0
        n_neighbors = min(NEIGHBORS, len(rows) - 1)
        # (m, 1 + k): a row and its neighbours, which an interrupted fit takes from its checkpoint.
        self.register_buffer("table", rows[:, None].repeat(1, 1 + n_neighbors))

    def let_go_where(self, differ: Differ, n_pairs: int) -> None:
        """From now on weigh neighbours that differ less, where true pairs are enough to trust clusters.

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


def sample_rows(n_rows: int, ends: Tensor, *, seed: int, device: torch.device) -> Tensor:
    """Positions of all rows, or of as many as terms look at: those in pairs, then others at random; sorted.

    Parameters
    ----------
    n_rows : int
    ends : Tensor
        Positions of rows that are in pairs, each as often as it is.
    seed : int
    device : torch.device
    """
    if n_rows <= MOST_ROWS:
        return torch.arange(n_rows, device=device)
    order = torch.randperm(n_rows, generator=torch_generator(seed, "sampled rows"))
    is_end = torch.zeros(n_rows, dtype=torch.bool)
    is_end[ends.cpu()] = True
    first = order[is_end[order]]
    return torch.cat([first, order[~is_end[order]]])[:MOST_ROWS].sort().values.to(device)

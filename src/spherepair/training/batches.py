"""Batches of fixed shape: both ends of some pairs and some rows to reconstruct.

An epoch is planned at its start: a table of row positions with one line per step, on the device. A step then
only reads its line and gathers those rows, without the host; so the same step can run eagerly or be captured
as a CUDA graph. Short batches are padded, and padding has weight zero, so every mean is over real rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spherepair.constraints import Constraints
from spherepair.settings import Kind, Number, require
from spherepair.training.hardware import torch_generator
from spherepair.training.rows import RowSource

#: Most steps that an epoch may be made to have, and rows to reconstruct in one: with more, a fit hardly ends.
MOST_STEPS, MOST_ROWS = 10_000, 1_000_000
#: Rows passed through the network at once when the full objective is evaluated, by kind of device, and the
#: most numbers in them. A GPU is so fast that many small blocks would mostly wait for Python.
BLOCK_ROWS, BLOCK_ENTRIES = {"cuda": 65536, "cpu": 16384}, 2**26


@dataclass(frozen=True)
class Schedule:
    """How an epoch on pairs is divided into steps, and whether weights are averaged over epochs.

    Parameters
    ----------
    min_steps : int or "auto", default="auto"
        Minimum number of steps in an epoch; few pairs are shown several times. ``"auto"`` is 20, and 10 for
        tables of less than 1,000 rows on a CPU.
    reconstruction_rows : int, "auto" or "all", default="auto"
        Rows to reconstruct per step: a number; ``"auto"``, as many as ``batch_size``; or ``"all"``, all rows
        divided among the steps of an epoch as in the paper.
    ema : bool, default=True
        Whether the network ends with an exponential moving average of its weights over epochs.

    Examples
    --------
    >>> from spherepair import Schedule, SpherePair
    >>> SpherePair(schedule=Schedule(reconstruction_rows=64)).schedule
    Schedule(min_steps='auto', reconstruction_rows=64, ema=True)
    """

    min_steps: int | str = "auto"
    reconstruction_rows: int | str = "auto"
    ema: bool = True

    def __post_init__(self) -> None:
        steps = Number(1, MOST_STEPS, whole=True, words=("auto",))
        rows = Number(1, MOST_ROWS, whole=True, words=("auto", "all"))
        require(self, min_steps=steps, reconstruction_rows=rows, ema=Kind(bool))

    def steps_per_epoch(self, n_pairs: int, pairs_per_step: int) -> int:
        """Steps of whole passes over the pairs, at least ``min_steps``; no step is without pairs."""
        if n_pairs == 0:
            return int(self.min_steps)
        n_passes = (int(self.min_steps) - 1) * pairs_per_step // n_pairs + 1
        return -(-n_passes * n_pairs // pairs_per_step)

    def rows_per_step(self, n_rows: int, *, n_steps: int, batch_size: int) -> int:
        """Rows to reconstruct in every step."""
        if self.reconstruction_rows == "all":
            return max(1, n_rows // n_steps)
        size = batch_size if self.reconstruction_rows == "auto" else self.reconstruction_rows
        return min(int(size), n_rows)


@dataclass(frozen=True)
class Batch:
    """One step's input: left ends, right ends and reconstruction rows in one block ``x``."""

    x: Tensor  # (2B + R, n_features)
    is_must_link: Tensor  # (B,) bool
    pair_weight: Tensor  # (B,) zero marks padding
    row_weight: Tensor  # (R,) zero marks padding
    row_index: Tensor  # (R,) positions of the reconstruction rows
    part: str = "joint"  # which part of the epoch this step belongs to

    def split(self, per_row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cut something with one entry per row of ``x`` into left, right and rows."""
        n_pairs = len(self.is_must_link)
        left, right, rows = torch.split(per_row, [n_pairs, n_pairs, len(self.row_index)])
        return left, right, rows

    def anchors(self, per_row: Tensor) -> Tensor:
        """The first half of something with one entry per reconstruction row: rows drawn with a neighbor."""
        return per_row[: len(self.row_index) // 2]

    def neighbors(self, per_row: Tensor) -> Tensor:
        """The second half: one neighbor of each anchor, in the same order."""
        return per_row[-(-len(self.row_index) // 2) :]

    @property
    def rows(self) -> Tensor:
        """The rows to reconstruct, (R, n_features)."""
        return self.x[2 * len(self.is_must_link) :]


@dataclass(frozen=True)
class PairTensors:
    """Constraints as tensors of one length."""

    left: Tensor
    right: Tensor
    is_must_link: Tensor
    weight: Tensor

    @classmethod
    def of(cls, pairs: Constraints) -> PairTensors:
        """All pairs; one that is not sure is both a must-link and a cannot-link.

        A pair of value v counts v as a must-link and 1 - v as a cannot-link, which is the expected loss if
        the rows belong together with probability v.

        Examples
        --------
        >>> unsure = Constraints.from_arrays([0, 1], [2, 3], [True, False], value=[0.75, 0])
        >>> PairTensors.of(unsure).is_must_link.tolist(), PairTensors.of(unsure).weight.tolist()
        ([True, False, False], [0.75, 1.0, 0.25])
        """
        parts: list[Any] = [pairs.left, pairs.right, pairs.is_must_link, pairs.weight]
        if pairs.details.value is not None:
            for_link = np.where(pairs.is_must_link, pairs.value, 1.0 - pairs.value).astype(np.float32)
            unsure = np.flatnonzero(for_link < 1.0)
            other = [pairs.left, pairs.right, ~pairs.is_must_link, pairs.weight * (1 - for_link)]
            parts[3] = pairs.weight * for_link
            parts = [np.concatenate([part, more[unsure]]) for part, more in zip(parts, other, strict=True)]
        return cls(*(torch.from_numpy(np.array(part)) for part in parts))

    def of_kind(self, *, must: bool) -> PairTensors:
        """Only the must-links, or only the cannot-links."""
        chosen = self.is_must_link == must
        parts = (self.left, self.right, self.is_must_link, self.weight)
        return PairTensors(*(part[chosen] for part in parts))

    @classmethod
    def none(cls) -> PairTensors:
        """No pairs at all: for pretraining."""
        empty = torch.empty(0, dtype=torch.int64)
        return cls(empty, empty, torch.empty(0, dtype=torch.bool), torch.empty(0))

    def __len__(self) -> int:
        return len(self.left)

    def to(self, device: torch.device) -> PairTensors:
        """The same pairs on another device."""
        return PairTensors(*(t.to(device) for t in (self.left, self.right, self.is_must_link, self.weight)))


class Batches:
    """Plans epochs and serves their batches.

    Parameters
    ----------
    rows : RowSource
    pairs : PairTensors
    pairs_per_step, rows_per_step, n_steps : int
        The shape of an epoch (B, R and the number of steps).
    seed : int
    stream : str
        Name of the random stream; epoch e draws from (seed, stream, e) alone.
    one_pass : bool, default=False
        Show every row once per epoch and pad the last step, instead of filling all places.
    shuffled : bool, default=True
        Whether rows come in a fresh order every epoch, or always in that of the table.
    part : str, default="joint"
        Name of this part of an epoch, for objectives whose epochs have several.
    neighbor_table : Tensor of shape (m, 1 + k), optional
        Each line holds the position of a row and those of its k neighbors. The second half of a step's rows
        are then neighbors, one drawn for each row of the first half. Read again for every epoch.
    """

    def __init__(
        self,
        rows: RowSource,
        pairs: PairTensors,
        *,
        pairs_per_step: int,
        rows_per_step: int,
        n_steps: int,
        seed: int,
        stream: str,
        one_pass: bool = False,
        shuffled: bool = True,
        part: str = "joint",
        neighbor_table: Tensor | None = None,
    ) -> None:
        self.rows = rows
        self.part = part
        self._neighbor_table = neighbor_table
        self.pairs = pairs.to(rows.index_device)
        self.pairs_per_step = pairs_per_step
        self.rows_per_step = rows_per_step
        self.n_steps = n_steps
        self._seed, self._stream = seed, stream
        self._one_pass, self._shuffled = one_pass, shuffled
        device = rows.index_device
        # These buffers keep their addresses: captured steps read from them.
        width = 2 * pairs_per_step + rows_per_step
        self.index_plan = torch.zeros(n_steps, width, dtype=torch.int64, device=device)
        self._link = torch.zeros(n_steps, pairs_per_step, dtype=torch.bool, device=device)
        self._pair_weight = torch.zeros(n_steps, pairs_per_step, device=device)
        self.row_weight_plan = torch.zeros(n_steps, rows_per_step, device=device)
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self._planned: int | None = None

    def start_epoch(self, epoch: int) -> None:
        """Draw the plan of an epoch, unless it is drawn already, and go to its first step."""
        if self._planned != epoch:
            self.plan(epoch)
        self.cursor.zero_()

    def plan(self, epoch: int) -> None:
        """Draw the plan of an epoch; on a GPU it queues behind the steps that still read the last plan."""
        device = self.rows.index_device
        generator = torch_generator(self._seed, self._stream, epoch, device=device)
        self._plan_pairs(generator)
        if self._neighbor_table is None:
            self._plan_rows(generator)
        else:
            self._plan_neighbors(generator, self._neighbor_table.to(device))
        self._planned = epoch

    def next(self) -> Batch:
        """The batch of the next step."""
        index = self.index_plan.index_select(0, self.cursor)[0]
        link = self._link.index_select(0, self.cursor)[0]
        pair_weight = self._pair_weight.index_select(0, self.cursor)[0]
        row_weight = self.row_weight_plan.index_select(0, self.cursor)[0]
        self.cursor.add_(1)
        return self._batch(index, link, pair_weight, row_weight)

    def all_pairs(self) -> Iterator[Batch]:
        """All pairs once, in order, without rows to reconstruct."""
        positions = torch.arange(len(self.pairs), device=self.rows.index_device)
        for p in torch.split(positions, self._block_rows // 2):
            index = torch.cat([self.pairs.left[p], self.pairs.right[p]])
            none = torch.ones(0, device=index.device)
            yield self._batch(index, self.pairs.is_must_link[p], self.pairs.weight[p], none)

    def all_rows(self) -> Iterator[Batch]:
        """All rows once, in order, without pairs."""
        positions = torch.arange(self.rows.n_rows, device=self.rows.index_device)
        for rows in torch.split(positions, self._block_rows):
            none = torch.zeros(0, dtype=torch.bool, device=rows.device)
            ones = torch.ones(len(rows), device=rows.device)
            yield self._batch(rows, none, ones[:0], ones)

    @property
    def n_blocks(self) -> int:
        """Number of blocks in :meth:`all_pairs` and :meth:`all_rows` together."""
        sizes = (2 * len(self.pairs), self.rows.n_rows)
        return sum(-(-size // self._block_rows) for size in sizes)

    @property
    def _block_rows(self) -> int:
        most = BLOCK_ROWS.get(self.rows.index_device.type, BLOCK_ROWS["cpu"])
        return min(most, max(1, BLOCK_ENTRIES // self.rows.n_features))

    def _batch(self, index: Tensor, link: Tensor, pair_weight: Tensor, row_weight: Tensor) -> Batch:
        device = self.rows.device
        row_index = index[2 * len(link) :]
        return Batch(
            x=self.rows.gather(index),
            is_must_link=link.to(device),
            pair_weight=pair_weight.to(device),
            row_weight=row_weight.to(device),
            row_index=row_index.to(device),
            part=self.part,
        )

    def _plan_pairs(self, generator: torch.Generator) -> None:
        """Whole passes over the pairs, so that each is shown equally often; the rest is padding.

        Padding is drawn like everything else: layers that use statistics of the batch see it, such as
        BatchNorm in a user's encoder.
        """
        n_pairs, n_places = len(self.pairs), self.n_steps * self.pairs_per_step
        if n_places == 0:
            return
        drawn = _permutations(n_pairs, n_places, generator)
        weight = self.pairs.weight[drawn]
        weight[max(1, n_places // n_pairs) * n_pairs :] = 0.0
        shape = (self.n_steps, self.pairs_per_step)
        self.index_plan[:, : shape[1]] = self.pairs.left[drawn].view(shape)
        self.index_plan[:, shape[1] : 2 * shape[1]] = self.pairs.right[drawn].view(shape)
        self._link.copy_(self.pairs.is_must_link[drawn].view(shape))
        self._pair_weight.copy_(weight.view(shape))

    def _plan_rows(self, generator: torch.Generator) -> None:
        n_places = self.n_steps * self.rows_per_step
        n_used = min(n_places, self.rows.n_rows) if self._one_pass else n_places
        if self._shuffled:
            drawn = _permutations(self.rows.n_rows, n_places, generator)
        else:
            drawn = torch.arange(n_places, device=generator.device) % self.rows.n_rows
        shape = (self.n_steps, self.rows_per_step)
        self.index_plan[:, 2 * self.pairs_per_step :] = drawn.view(shape)
        is_real = torch.arange(n_places, device=drawn.device) < n_used
        self.row_weight_plan.copy_(is_real.view(shape))

    def _plan_neighbors(self, generator: torch.Generator, table: Tensor) -> None:
        n_neighbors = self.rows_per_step // 2
        shape = (self.n_steps, self.rows_per_step - n_neighbors)
        lines = _permutations(len(table), self.n_steps * shape[1], generator).view(shape)
        which = torch.randint(
            1, table.shape[1], (self.n_steps, n_neighbors), generator=generator, device=table.device
        )
        first = 2 * self.pairs_per_step
        self.index_plan[:, first : first + shape[1]] = table[:, 0][lines]
        self.index_plan[:, first + shape[1] :] = table[lines[:, :n_neighbors], which]
        self.row_weight_plan.fill_(1.0)


def row_batches(
    rows: RowSource,
    *,
    batch_size: int,
    seed: int,
    stream: str,
    min_steps: int = 1,
    most_rows: int | None = None,
    shuffled: bool = True,
    part: str = "joint",
) -> Batches:
    """Epochs over all rows without pairs, as in pretraining: one pass, or as many as ``min_steps`` needs.

    Of more than ``most_rows`` rows an epoch shows about as many, drawn anew.
    """
    size = min(int(batch_size), rows.n_rows)
    one_pass = -(-min(rows.n_rows, most_rows or rows.n_rows) // size)
    return Batches(
        rows,
        PairTensors.none(),
        pairs_per_step=0,
        rows_per_step=size,
        n_steps=max(one_pass, min_steps),
        seed=seed,
        stream=stream,
        one_pass=one_pass >= min_steps,
        shuffled=shuffled,
        part=part,
    )


def pair_batches(
    rows: RowSource,
    pairs: PairTensors,
    *,
    batch_size: int,
    seed: int,
    stream: str,
    rows_per_step: int = 0,
    part: str = "joint",
) -> Batches:
    """Epochs of one pass over the pairs, ``batch_size`` in a step; without any, of one step of rows alone.

    With every step come ``rows_per_step`` rows; all rows if there are no more.
    """
    size = min(int(batch_size), len(pairs))
    return Batches(
        rows,
        pairs,
        pairs_per_step=size,
        rows_per_step=min(rows_per_step, rows.n_rows),
        n_steps=-(-len(pairs) // size) if size else 1,
        seed=seed,
        stream=stream,
        part=part,
    )


def _permutations(n: int, n_drawn: int, generator: torch.Generator) -> Tensor:
    """``n_drawn`` numbers below n: permutations one after another, the last one cut."""
    device = generator.device
    n_passes = max(1, -(-n_drawn // n))
    passes = [torch.randperm(n, generator=generator, device=device) for _ in range(n_passes)]
    return (passes[0] if n_passes == 1 else torch.cat(passes))[:n_drawn]

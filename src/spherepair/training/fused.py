"""Denoising pretraining in a handful of GPU kernels a step (Triton).

Layers of a few hundred units are so small that a GPU spends its time starting kernels, not computing:
autograd's step for one layer has some thirty of them. Here a step of SGD with momentum, or of Adam, on a
chain of Linear layers is

    forward   h_i = act(h_{i-1} W_iᵀ + b_i), one kernel a layer; the last one takes the error as well
    backward  g_{i-1} = (g_i W_i) * act', one kernel a layer
    update    all dW_i = g_iᵀ h_{i-1} and db_i, moments and new weights, one kernel for all layers; it also
              gathers the rows of the next step and sets a share of their entries to zero

with bfloat16 products added up in float32, and weights, moments and the error in float32. Widths are
padded with zeros to whole tiles; padding stays zero, since its gradients are. The parameters of the
network and the moments of the optimiser become views of the padded storage while a stage runs, so
checkpoints and everything else see them as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from spherepair.training import kernels
from spherepair.training.batches import Batches, row_batches
from spherepair.training.chain import TILE, Link
from spherepair.training.fused_parts import (
    ACTIVATIONS,
    Launch,
    PaddedWeights,
    blocks,
    compile_together,
    constants_of,
    grid,
    padded,
    turns,
    update_constants,
)
from spherepair.training.optimizers import SGD, Adam
from spherepair.training.rows import ResidentRows
from spherepair.training.scaling import Scaling


def smallest_chain(
    device: torch.device, *, is_adam: bool, drops: bool
) -> tuple[list[Link], SGD | Adam, Batches]:
    """What :class:`FusedChain` takes: made of these, it has compiled the kernels for chains of any size."""
    down, up = (_Blank(TILE, TILE, device=device) for _ in range(2))
    links = [Link(down, "dropped relu" if drops else "relu"), Link(up, "linear")]
    groups = [([*down.parameters(), *up.parameters()], 1.0)]
    optimizer = Adam(groups, device) if is_adam else SGD(groups, device, momentum=0.9)
    rows = ResidentRows(torch.zeros(TILE, TILE, device=device), Scaling.identity())
    batches = row_batches(rows, batch_size=TILE, seed=0, stream="kernels")
    return links, optimizer, batches


class _Blank(nn.Linear):
    """A layer whose weights are never looked at, nor drawn: torch's generator is not ours to move."""

    def reset_parameters(self) -> None:
        """Leave them as they are."""


class FusedChain:
    """Steps on a chain of Linear layers that gives back its clean input.

    Parameters
    ----------
    links : sequence of Link
    optimizer : SGD with momentum, or Adam
        Holds the rate (a tensor) and the moments.
    batches : Batches
        Rows without pairs, resident on the GPU.
    factor, corruption, dropout : float
        Factor of the mean squared error; share of zeroed inputs; share of dropped hidden codes.
    dtype : torch.dtype, default=torch.bfloat16
        Of what enters the matrix products.
    """

    steps_per_graph = 32

    def __init__(
        self,
        links: Sequence[Link],
        optimizer: SGD | Adam,
        batches: Batches,
        *,
        factor: float,
        corruption: float,
        dropout: float,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self._links, self._batches = links, batches
        self._factor, self._corruption, self._dropout = factor, corruption, dropout
        self._rate, self._is_adam = optimizer.groups[0].rate, isinstance(optimizer, Adam)
        self._constants = constants_of(optimizer)
        self._table = batches.rows.block(0, batches.rows.n_rows)
        device = self._table.device
        n = batches.rows_per_step
        widths = [links[0].layer.in_features, *(link.layer.out_features for link in links)]
        self._widths = [padded(width) for width in widths]
        self._weights = PaddedWeights(links, self._widths, optimizer, dtype)
        try:
            self._prepare(n, device)
        except Exception:
            self.close()
            raise

    def _prepare(self, n: int, device: torch.device) -> None:
        """Make buffers and launches; compile all kernels and run one that fills buffers: failures show."""
        batches = self._batches
        # The noisy rows have a second place, at the end, for every other step.
        self._h = blocks(n, [*self._widths[:-1], self._widths[0]], self._weights.half[0])
        self._other = n * sum(self._widths[:-1])
        self._g = blocks(n, self._widths[1:], self._weights.half[0])
        self._clean = torch.zeros(n, self._widths[0], device=device)
        self._norm = torch.ones(n, device=device)
        n_tiles = (n // TILE) * (self._widths[-1] // TILE)
        self._errors = torch.zeros(batches.n_steps, n_tiles, device=device)
        self._scale = torch.zeros(batches.n_steps, n, device=device)
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self._tiles = self._weights.tiles(n)
        self._turns = turns(device)
        self._drops = any(link.activation == "dropped relu" for link in self._links)
        self._launches = list(self._step())
        self._gather = self._update(with_weights=False)
        if device.type == "cuda":
            compile_together(self._launches)
            self._gather()

    def start_epoch(self, generator: torch.Generator) -> None:
        """Draw the seed of the noise, weigh the rows of the plan and gather those of the first step."""
        self._seed.random_(2**30, generator=generator)
        weight = self._batches.row_weight_plan
        n_features = self._links[0].layer.in_features
        torch.div(weight, weight.sum(dim=1, keepdim=True) * n_features, out=self._scale)
        self._gather()

    def __call__(self) -> None:
        """One step: forward, backward, update."""
        for launch in self._launches:
            launch()

    def means(self) -> dict[str, float]:
        """Mean over the steps of the epoch of the one term there is."""
        return {"reconstruction": float(self._factor * self._errors.sum() / len(self._errors))}

    def close(self) -> None:
        """Give the parameters storage of their own again."""
        self._weights.release()

    def _step(self) -> Iterator[Launch]:
        """The kernels of a step in their order."""
        last = len(self._links) - 1
        for i in range(last):
            yield self._forward(i)
        yield self._forward_error(last)
        for i in range(last, 0, -1):
            yield self._backward(i)
        yield self._update()

    def _forward(self, i: int) -> Launch:
        w, cursor, out = self._weights, self._batches.cursor, self._h[i + 1]
        arguments = (
            self._h[i], self._other if i == 0 else 0, w.half[i], w.bias[i], out, self._norm, self._seed,
            cursor, self._widths[i], out.shape[1], self._dropout, ACTIVATIONS[self._links[i].activation],
        )  # fmt: skip
        constants = {"T": TILE, "DROPS": self._drops, "num_stages": 4} | self._turns
        return Launch(kernels.forward, grid(out), arguments, constants)

    def _forward_error(self, i: int) -> Launch:
        w, cursor, out = self._weights, self._batches.cursor, self._g[i]
        arguments = (
            self._h[i], w.half[i], w.bias[i], self._clean, self._scale, out, self._errors, cursor,
            len(out), self._widths[i], out.shape[1], 2.0 * self._factor,
        )  # fmt: skip
        constants = {"T": TILE, "num_stages": 4} | self._turns
        return Launch(kernels.error, grid(out), arguments, constants)

    def _backward(self, i: int) -> Launch:
        """Through layer i and the activation before it."""
        out = self._g[i - 1]
        arguments = (
            self._g[i], self._weights.half[i], self._h[i], self._norm, out, self._batches.cursor,
            self._weights.count, self._widths[i + 1], out.shape[1], self._dropout,
            ACTIVATIONS[self._links[i - 1].activation], int(i == 1),
        )  # fmt: skip
        return Launch(kernels.backward, grid(out), arguments, {"T": TILE, "num_stages": 4} | self._turns)

    def _update(self, *, with_weights: bool = True) -> Launch:
        """Update the weights and gather the rows of the step at the cursor; or only the latter."""
        n, width = self._clean.shape
        w, tiles, batches = self._weights, self._tiles, self._batches
        n_tiles = len(tiles) if with_weights else 0
        arguments = (
            n_tiles, tiles, self._g[0], self._h[0], self._other, w.flat, w.moments[0], w.moments[-1],
            w.flat_half, self._rate, w.count, batches.cursor, batches.n_steps,
            n, self._table, batches.index_plan, self._seed, self._clean, self._table.shape[1], width,
            self._corruption, *self._constants,
        )  # fmt: skip
        constants = update_constants(is_adam=self._is_adam) | self._turns
        return Launch(kernels.update, (n_tiles + n,), arguments, constants)

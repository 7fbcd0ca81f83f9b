"""Whole training steps, and single passes of a network, in a handful of GPU kernels (Triton).

Layers of a few hundred units are so small that a GPU spends its time starting kernels, not computing:
autograd's step for one layer has some thirty of them. :class:`FusedDenoising` makes a step of denoising
pretraining, with SGD or Adam, out of

    forward   h_i = act(h_{i-1} W_iᵀ + b_i), one kernel a layer; the last one computes the error as well
    backward  g_{i-1} = (g_i W_i) * act', one kernel a layer
    update    all dW_i = g_iᵀ h_{i-1} and db_i, moments and new weights, one kernel for all layers; it also
              gathers the rows of the next step and sets a share of their entries to zero

with bfloat16 products added up in float32, and weights, moments and the error in float32.

:class:`FusedPass` is the same for one network inside any loss. Autograd sees the pass as one operation. Its
backward pass also moves the weights and leaves no gradient behind, so the optimizer has nothing left to do
for them. That is right where nothing stands between gradient and update (no clipping) and where rows pass
the network once in a step: a second backward pass would meet weights that have moved already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spherepair.accel import kernels
from spherepair.accel.kernels import (
    ACTIVATIONS,
    Launch,
    compile_together,
    grid,
    launch_options,
    update_options,
)
from spherepair.accel.layers import (
    TILE,
    Batches,
    Link,
    Optimizer,
    PaddedWeights,
    UpdateRule,
    adjacent_matrices,
    padded,
)


class FusedDenoising:
    """Steps that train a chain of Linear layers to reconstruct its clean input.

    Parameters
    ----------
    links : sequence of Link
    optimizer : Optimizer
        Holds the rate (a tensor) and the moments.
    rule : UpdateRule
        Of that optimizer.
    batches : Batches
        Rows without pairs, resident on the GPU.
    generator : torch.Generator
        Of the noise.
    factor, corruption, dropout : float
        Factor of the mean squared error; share of zeroed inputs; share of dropped hidden codes.
    dtype : torch.dtype, default=torch.bfloat16
        Of what enters the matrix products.
    """

    steps_per_graph = 32

    def __init__(
        self,
        links: Sequence[Link],
        optimizer: Optimizer,
        rule: UpdateRule,
        batches: Batches,
        *,
        generator: torch.Generator,
        factor: float,
        corruption: float,
        dropout: float,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self._links, self._batches, self._generator = links, batches, generator
        self._factor, self._corruption, self._dropout = factor, corruption, dropout
        self._rate, self._rule = optimizer.groups[0].rate, rule
        self._table = batches.rows.block(0, batches.rows.n_rows)
        widths = [links[0].layer.in_features, *(link.layer.out_features for link in links)]
        self._widths = [padded(width) for width in widths]
        self._weights = PaddedWeights(links, self._widths, optimizer, dtype)
        try:
            self._prepare(batches.rows_per_step, self._table.device)
        except Exception:
            self.close()
            raise

    def _prepare(self, n: int, device: torch.device) -> None:
        """Make buffers and launches, compile all kernels and run one of them, so that failures show here."""
        batches = self._batches
        # The noisy rows have a second buffer, at the end, for every other step.
        self._h = adjacent_matrices(n, [*self._widths[:-1], self._widths[0]], self._weights.half[0])
        self._other = n * sum(self._widths[:-1])
        self._g = adjacent_matrices(n, self._widths[1:], self._weights.half[0])
        self._clean = torch.zeros(n, self._widths[0], device=device)
        self._norm = torch.ones(n, device=device)
        n_tiles = (n // TILE) * (self._widths[-1] // TILE)
        self._errors = torch.zeros(batches.n_steps, n_tiles, device=device)
        self._scale = torch.zeros(batches.n_steps, n, device=device)
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self._tiles = self._weights.tiles(n)
        self._options = launch_options(device)
        self._drops = any(link.activation == "dropped relu" for link in self._links)
        self._launches = list(self._kernels())
        self._gather = self._update(with_weights=False)
        if device.type == "cuda":
            compile_together(self._launches)
            self._gather()

    def start_epoch(self) -> None:
        """Draw the seed of the noise, weight the planned rows and gather those of the first step."""
        self._seed.random_(2**30, generator=self._generator)
        weight = self._batches.row_weight_plan
        n_features = self._links[0].layer.in_features
        torch.div(weight, weight.sum(dim=1, keepdim=True) * n_features, out=self._scale)
        self._gather()

    def step(self) -> None:
        """Forward, backward, update."""
        for launch in self._launches:
            launch()

    def means(self) -> dict[str, float]:
        """Mean of the one term over the steps of the epoch."""
        return {"reconstruction": float(self._factor * self._errors.sum() / len(self._errors))}

    def close(self) -> None:
        """Give the parameters storage of their own again."""
        self._weights.release()

    def _kernels(self) -> Iterator[Launch]:
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
        constants = {"T": TILE, "DROPS": self._drops, "num_stages": 4} | self._options
        return Launch(kernels.forward, grid(out), arguments, constants)

    def _forward_error(self, i: int) -> Launch:
        w, cursor, out = self._weights, self._batches.cursor, self._g[i]
        arguments = (
            self._h[i], w.half[i], w.bias[i], self._clean, self._scale, out, self._errors, cursor,
            len(out), self._widths[i], out.shape[1], 2.0 * self._factor,
        )  # fmt: skip
        constants = {"T": TILE, "num_stages": 4} | self._options
        return Launch(kernels.error, grid(out), arguments, constants)

    def _backward(self, i: int) -> Launch:
        """Through layer i and the activation before it."""
        out = self._g[i - 1]
        arguments = (
            self._g[i], self._weights.half[i], self._h[i], self._norm, out, self._batches.cursor,
            self._weights.count, self._widths[i + 1], out.shape[1], self._dropout,
            ACTIVATIONS[self._links[i - 1].activation], int(i == 1),
        )  # fmt: skip
        return Launch(kernels.backward, grid(out), arguments, {"T": TILE, "num_stages": 4} | self._options)

    def _update(self, *, with_weights: bool = True) -> Launch:
        """Update the weights and gather the rows of the step at the cursor; or only the latter."""
        n, width = self._clean.shape
        w, tiles, batches = self._weights, self._tiles, self._batches
        n_tiles = len(tiles) if with_weights else 0
        arguments = (
            n_tiles, tiles, self._g[0], self._h[0], self._other, w.flat, w.moments[0], w.moments[-1],
            w.flat_half, self._rate, w.count, batches.cursor, batches.n_steps,
            n, self._table, batches.index_plan, self._seed, self._clean, self._table.shape[1], width,
            self._corruption, *self._rule.constants,
        )  # fmt: skip
        constants = update_options(is_adam=self._rule.is_adam) | self._options
        return Launch(kernels.update, (n_tiles + n,), arguments, constants)


class FusedPass:
    """Stands in for the ``forward`` of a network in training steps, until :meth:`close`.

    Parameters
    ----------
    links : sequence of Link
        The layers of the network.
    optimizer : Optimizer
        Holds the rate (a tensor) and the moments.
    rule : UpdateRule
        Of that optimizer.
    n_rows : sequence of int
        Numbers of rows in a step, so that everything is compiled before the first one.
    dtype : torch.dtype, default=torch.bfloat16
        Of what enters the matrix products.
    """

    def __init__(
        self,
        links: Sequence[Link],
        optimizer: Optimizer,
        rule: UpdateRule,
        n_rows: Sequence[int],
        *,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.links, self.optimizer, self.rule = links, optimizer, rule
        sizes = [links[0].layer.in_features, *(link.layer.out_features for link in links)]
        self.widths = [padded(size) for size in sizes]
        self.weights = PaddedWeights(links, self.widths, optimizer, dtype)
        self._buffers: dict[int, _Buffers] = {}
        try:
            launches = [launch for n in n_rows for launch in self.buffers(n).launches()]
            if self.weights.flat.is_cuda:
                compile_together(launches)
        except Exception:
            self.close()
            raise

    def __call__(self, x: Tensor) -> Tensor:
        """The output for rows, (n, n_out), in float32; the backward pass moves the weights."""
        anchor = self.links[0].layer.weight  # has autograd call backward even where no row needs a gradient
        output: Tensor = _Pass.apply(x, anchor, self)  # type: ignore[no-untyped-call]
        return output

    def buffers(self, n_rows: int) -> _Buffers:
        """Buffers for that many rows; they keep their addresses."""
        if n_rows not in self._buffers:
            self._buffers[n_rows] = _Buffers(self, n_rows)
        return self._buffers[n_rows]

    def close(self) -> None:
        """Give the parameters storage of their own again."""
        self._buffers.clear()
        self.weights.release()


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, owner: FusedPass) -> Tensor:
        ctx.buffers = owner.buffers(len(x))
        return ctx.buffers.forward(x)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, None, None]:
        return ctx.buffers.backward(upstream[0], ctx.needs_input_grad[0]), None, None


class _Buffers:
    """Codes and gradients of a number of rows, and the launches that read and write them.

    Rows are padded to whole tiles; padding gets no gradient and so moves nothing.
    """

    def __init__(self, owner: FusedPass, n_rows: int) -> None:
        self._owner, widths, half = owner, owner.widths, owner.weights.half[0]
        self._n_rows, n_rows = n_rows, padded(n_rows)
        self._n_in, self._n_out = owner.links[0].layer.in_features, owner.links[-1].layer.out_features
        self._h = adjacent_matrices(n_rows, widths[:-1], half)
        self._g = adjacent_matrices(n_rows, widths[1:], half)
        self._output = torch.zeros(n_rows, widths[-1], device=half.device)
        self._by_input = torch.zeros(n_rows, widths[0], device=half.device)
        self._tiles = owner.weights.tiles(n_rows)
        # An argument that only pretraining needs.
        self._nothing = torch.zeros(1, dtype=torch.int64, device=half.device)
        last = len(owner.links) - 1
        self._forward = [self._forward_launch(i) for i in range(last + 1)]
        self._backward = [self._backward_launch(i) for i in range(last, -1, -1)]
        self._update = self._update_launch()

    def launches(self) -> list[Launch]:
        return [*self._forward, *self._backward, self._update]

    def forward(self, x: Tensor) -> Tensor:
        self._h[0][: self._n_rows, : self._n_in].copy_(x)
        for launch in self._forward:
            launch()
        return self._output[: self._n_rows, : self._n_out]

    def backward(self, g: Tensor, with_input: bool) -> Tensor | None:
        self._g[-1][: self._n_rows, : self._n_out].copy_(g)
        for launch in self._backward if with_input else self._backward[:-1]:
            launch()
        self._owner.weights.count.add_(1)
        self._update()
        return self._by_input[: self._n_rows, : self._n_in] if with_input else None

    def _forward_launch(self, i: int) -> Launch:
        w, widths, links = self._owner.weights, self._owner.widths, self._owner.links
        out = self._output if i + 1 == len(links) else self._h[i + 1]
        arguments = (
            self._h[i], 0, w.half[i], w.bias[i], out, w.count, self._nothing, self._nothing,
            widths[i], widths[i + 1], 0.0, ACTIVATIONS[links[i].activation],
        )  # fmt: skip
        constants = {"T": TILE, "DROPS": False, "PDL": False, "num_stages": 4}
        return Launch(kernels.forward, grid(out), arguments, constants)

    def _backward_launch(self, i: int) -> Launch:
        """Through layer i and the activation before it."""
        w, widths, links = self._owner.weights, self._owner.widths, self._owner.links
        out = self._g[i - 1] if i > 0 else self._by_input
        activation = ACTIVATIONS[links[i - 1].activation] if i > 0 else ACTIVATIONS["linear"]
        arguments = (
            self._g[i], w.half[i], self._h[i], w.count, out, self._nothing, w.count,
            widths[i + 1], widths[i], 0.0, activation, 0,
        )  # fmt: skip
        constants = {"T": TILE, "PDL": False, "num_stages": 4}
        return Launch(kernels.backward, grid(out), arguments, constants)

    def _update_launch(self) -> Launch:
        w, optimizer, nothing = self._owner.weights, self._owner.optimizer, self._nothing
        arguments = (
            len(self._tiles), self._tiles, self._g[0], self._h[0], 0, w.flat, w.moments[0], w.moments[-1],
            w.flat_half, optimizer.groups[0].rate, w.count, nothing, 0,
            len(self._h[0]), w.flat, nothing, nothing, w.flat, 0, 0, 0.0, *self._owner.rule.constants,
        )  # fmt: skip
        constants = update_options(is_adam=self._owner.rule.is_adam) | {"PDL": False}
        return Launch(kernels.update, (len(self._tiles),), arguments, constants)

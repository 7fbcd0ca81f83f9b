"""A network's pass in a handful of GPU kernels, for losses of any kind (Triton).

:class:`FusedPass` stands in for the pass of a chain of Linear layers with ReLU between them in the steps of a
stage of training. Forward it is one kernel a layer. Backward it is one kernel a layer as well, and a last one
that multiplies out all gradients of the weights, moves moments and weights, and leaves no gradient behind:
autograd sees the pass as one operation, and the optimiser has nothing left to do for these weights.

That is right where nothing stands between gradient and update (no clipping), and where the network passes
once in a step: a second pass back would meet weights that have moved already. Objectives say so themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spherepair.networks.mlp import MLP
from spherepair.training import kernels
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
    update_constants,
)
from spherepair.training.optimizers import SGD, Adam


class FusedPass:
    """The pass of a network in the steps of a stage of training, until :meth:`close`.

    Parameters
    ----------
    network : MLP
    links : sequence of Link
        Its layers.
    optimizer : SGD with momentum, or Adam
        Holds the rate (a tensor) and the moments.
    n_rows : sequence of int
        How many rows will pass at once, so that everything is compiled before the first step.
    dtype : torch.dtype, default=torch.bfloat16
        Of what enters the matrix products.
    """

    def __init__(
        self,
        network: MLP,
        links: Sequence[Link],
        optimizer: SGD | Adam,
        n_rows: Sequence[int],
        *,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.network, self.links, self.optimizer = network, links, optimizer
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
        """The output for rows, (n, n_out), in float32; going back through it moves the weights."""
        anchor = self.links[0].layer.weight  # makes autograd come back here even if no row wants a gradient
        output: Tensor = _Pass.apply(x, anchor, self)  # type: ignore[no-untyped-call]
        return output

    def buffers(self, n_rows: int) -> _Buffers:
        """Of so many rows; their addresses stay."""
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
    """Codes and gradients of so many rows, and the launches that read and write them.

    Rows are filled up to whole tiles; those that are none get no gradient and so move nothing.
    """

    def __init__(self, owner: FusedPass, n_rows: int) -> None:
        self._owner, widths, half = owner, owner.widths, owner.weights.half[0]
        self._n_rows, n_rows = n_rows, padded(n_rows)
        self._n_in, self._n_out = owner.links[0].layer.in_features, owner.links[-1].layer.out_features
        self._h = blocks(n_rows, widths[:-1], half)
        self._g = blocks(n_rows, widths[1:], half)
        self._output = torch.zeros(n_rows, widths[-1], device=half.device)
        self._by_input = torch.zeros(n_rows, widths[0], device=half.device)
        self._tiles = owner.weights.tiles(n_rows)
        # What the kernels of pretraining want to know and is of no use here.
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
        constants = {"T": TILE, "DROPS": False, "EARLY": False, "num_stages": 4}
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
        constants = {"T": TILE, "EARLY": False, "num_stages": 4}
        return Launch(kernels.backward, grid(out), arguments, constants)

    def _update_launch(self) -> Launch:
        w, optimizer, nothing = self._owner.weights, self._owner.optimizer, self._nothing
        arguments = (
            len(self._tiles), self._tiles, self._g[0], self._h[0], 0, w.flat, w.moments[0], w.moments[-1],
            w.flat_half, optimizer.groups[0].rate, w.count, nothing, 0,
            len(self._h[0]), w.flat, nothing, nothing, w.flat, 0, 0, 0.0, *constants_of(optimizer),
        )  # fmt: skip
        constants = update_constants(is_adam=isinstance(optimizer, Adam)) | {"EARLY": False}
        return Launch(kernels.update, (len(self._tiles),), arguments, constants)

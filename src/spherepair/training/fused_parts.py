"""What ``training/fused.py`` and ``training/fused_pass.py`` share: padded weights and ready-made launches."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from spherepair.training import kernels
from spherepair.training.chain import TILE, Activation, Link
from spherepair.training.optimizers import SGD, Adam, Optimizer

#: How activations are told to the kernels.
ACTIVATIONS: dict[Activation, int] = {"linear": 0, "relu": 1, "dropped relu": 2, "sphere": 3}
#: Entries of a row that are gathered at once.
GATHERED = 512


def constants_of(optimizer: SGD | Adam) -> tuple[float, float, float]:
    """What the kernels need to know of an optimiser beside its rate."""
    if isinstance(optimizer, Adam):
        return (*optimizer.betas, optimizer.eps)
    return optimizer.momentum, 0.0, 0.0


def update_constants(*, is_adam: bool) -> dict[str, Any]:
    """What :func:`kernels.update` is compiled with.

    Adam's part of it is long. With eight warps a thread has half as much of it, which compiles a third
    faster; a step then takes a little longer, which only trainings as long as those with SGD would notice.
    """
    warps = 8 if is_adam else 4
    return {"BLOCK": GATHERED, "T": TILE, "ADAM": is_adam, "num_stages": 3, "num_warps": warps}


@dataclass(frozen=True)
class Launch:
    """A kernel with all it is called with; the tensors keep their addresses for good."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]

    def __call__(self) -> None:
        """Queue it."""
        self.kernel[self.grid](*self.arguments, **self.constants)

    def signature(self) -> tuple[Any, ...]:
        """What a kernel is compiled for: types of the arguments and constants."""
        types = [getattr(argument, "dtype", type(argument)) for argument in self.arguments]
        return self.kernel, *types, *self.constants.items()

    def compile(self, device: torch.device) -> None:
        """Compile the kernel and what launches it, which Triton would otherwise do at the first launch."""
        with torch.cuda.device(device):
            compiled = self.kernel.warmup(*self.arguments, grid=self.grid, **self.constants)
            getattr(compiled, "_init_handles", lambda: None)()


def compile_together(launches: Sequence[Launch]) -> None:
    """Compile the kernels at the same time: most of it is waiting for the assembler."""
    once = {launch.signature(): launch for launch in launches}
    if kernels.BUILDS_LAUNCHERS:
        updates = [launch for launch in once.values() if launch.kernel is kernels.update]
        empty = [replace(launch, kernel=kernels.called_like_update) for launch in updates]
        once |= {launch.signature(): launch for launch in empty}
    device = launches[0].arguments[0].device
    with ThreadPoolExecutor(len(once)) as pool:
        # The last one, which moves the weights, takes longest.
        for compiled in [pool.submit(launch.compile, device) for launch in reversed(once.values())]:
            compiled.result()


def turns(device: torch.device) -> dict[str, Any]:
    """Whether kernels that follow each other can be set up early, as constants for their launches."""
    # AMD's GPUs call themselves "cuda" as well, and some of them 9.4.
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    is_hopper = is_nvidia and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if is_hopper and kernels.KNOWS_EARLY else {"EARLY": False}


def grid(out: Tensor) -> tuple[int, int]:
    """One program for each tile of the result."""
    return len(out) // TILE, out.shape[1] // TILE


class PaddedWeights:
    """Weights, biases and moments of all layers, padded, in one block each."""

    def __init__(
        self, links: Sequence[Link], widths: list[int], optimizer: Optimizer, dtype: torch.dtype
    ) -> None:
        self._links, self._widths, self._optimizer = links, widths, optimizer
        sizes = [n_out * n_in + n_out for n_in, n_out in pairwise(widths)]
        self.offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        self.flat = torch.zeros(sum(sizes), device=links[0].layer.weight.device)
        self.moments = [torch.zeros_like(self.flat) for _ in optimizer.remembers]
        self.flat_half = torch.zeros_like(self.flat, dtype=dtype)
        self.count = torch.zeros((), device=self.flat.device)
        for i, (link, n_in, n_out) in enumerate(zip(links, widths[:-1], widths[1:], strict=True)):
            for parameter, begin, width in (
                (link.layer.weight, self.offsets[i], n_in),
                (link.layer.bias, self.offsets[i] + n_in * n_out, 1),
            ):
                self._adopt(cast(nn.Parameter, parameter), begin, n_out, width)
        self.flat_half.copy_(self.flat)
        ends = [
            o + n_in * n_out for o, n_in, n_out in zip(self.offsets, widths[:-1], widths[1:], strict=True)
        ]
        self.half = [self.flat_half[o:end] for o, end in zip(self.offsets, ends, strict=True)]
        self.bias = [self.flat[end : end + n_out] for end, n_out in zip(ends, widths[1:], strict=True)]

    def _adopt(self, parameter: nn.Parameter, begin: int, n_out: int, width: int) -> None:
        """Make a parameter and its moments views of the padded storage, with their present values.

        The count of steps, which optimisers have for every parameter, becomes one for all.
        """
        state = self._optimizer.state[parameter]
        old = [parameter.data, *(state[name] for name in self._optimizer.remembers)]
        new = []
        for flat, values in zip((self.flat, *self.moments), old, strict=True):
            block = flat[begin : begin + n_out * width].view(n_out, width)
            cut = block[: parameter.shape[0], : parameter.shape[1]] if parameter.ndim == 2 else block[:, 0]
            new.append(cut[: parameter.shape[0]].copy_(values))
        parameter.data = new[0]
        state.update(zip(self._optimizer.remembers, new[1:], strict=True))
        if "step" in state:
            self.count.copy_(state["step"])
            state["step"] = self.count

    def release(self) -> None:
        """Give parameters and moments storage of their own, as they stand."""
        for link in self._links:
            for parameter in (link.layer.weight, link.layer.bias):
                state = self._optimizer.state[cast(nn.Parameter, parameter)]
                for name, tensor in state.items():
                    state[name] = tensor.clone(memory_format=torch.contiguous_format)
                parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)

    def tiles(self, n_rows: int) -> Tensor:
        """One line per tile of the weights: where its gradient and input columns lie, and itself."""
        lines, before_g, before_h = [], 0, 0
        for i, (n_in, n_out) in enumerate(pairwise(self._widths)):
            at = torch.cartesian_prod(torch.arange(0, n_out, TILE), torch.arange(0, n_in, TILE))
            begin = torch.tensor([before_g, n_out, before_h, n_in, self.offsets[i]]).expand(len(at), -1)
            bias = torch.full((len(at), 1), self.offsets[i] + n_in * n_out)
            lines.append(torch.cat([begin, at, bias], dim=1))
            before_g, before_h = before_g + n_rows * n_out, before_h + n_rows * n_in
        return torch.cat(lines).to(self.flat.device)


def blocks(n_rows: int, widths: Sequence[int], like: Tensor) -> list[Tensor]:
    """Matrices of those widths, one after the other in one stretch of memory."""
    flat = like.new_zeros(n_rows * sum(widths))
    parts = torch.split(flat, [n_rows * width for width in widths])
    return [part.view(n_rows, width) for part, width in zip(parts, widths, strict=True)]


def padded(width: int) -> int:
    """Up to whole tiles."""
    return -(-width // TILE) * TILE

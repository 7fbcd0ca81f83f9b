"""Networks as the kernels see them: chains of Linear layers, and their weights in padded storage.

The protocols say what this package expects of the training engine, which it does not import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol, TypeGuard, cast

import torch
from torch import Tensor, nn

from spherepair.networks import MLP, Autoencoder

Activation = Literal["linear", "relu", "dropped relu", "sphere"]

#: Rows and columns of the tiles in which the kernels work.
TILE = 64
#: Weight matrices must have fewer entries, padded, since kernels compute offsets in 32 bits.
LARGEST = 2**30


class Rows(Protocol):
    """A table of rows."""

    n_rows: int
    is_resident: bool

    def block(self, start: int, stop: int) -> Tensor:
        """Consecutive rows."""
        ...


class Batches(Protocol):
    """Epochs of steps with fixed shapes, planned in buffers that keep their addresses."""

    n_steps: int
    pairs_per_step: int
    rows_per_step: int
    index_plan: Tensor
    row_weight_plan: Tensor
    cursor: Tensor

    @property
    def rows(self) -> Rows:
        """Where the rows come from."""
        ...

    @property
    def n_blocks(self) -> int:
        """Number of blocks in which the full objective is evaluated."""
        ...

    def start_epoch(self, epoch: int) -> None:
        """Go to the first step of an epoch."""
        ...

    def plan(self, epoch: int) -> None:
        """Draw the steps of an epoch."""
        ...

    def next(self) -> Any:
        """The batch of the next step."""
        ...


class Hardware(Protocol):
    """A device and its precision."""

    @property
    def device(self) -> torch.device:
        """Where tensors lie."""
        ...

    @property
    def precision(self) -> str:
        """``"mixed"`` allows bfloat16 kernels."""
        ...

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU."""
        ...

    def autocast(self) -> AbstractContextManager[Any]:
        """For the forward pass."""
        ...

    def matrix_products(self) -> AbstractContextManager[None]:
        """For forward and backward pass."""
        ...


class Group(Protocol):
    """Parameters that share a learning rate."""

    rate: float | Tensor


class Optimizer(Protocol):
    """Plain tensors by parameter and name."""

    moment_names: tuple[str, ...]
    state: dict[nn.Parameter, dict[str, Tensor]]

    @property
    def groups(self) -> Sequence[Group]:
        """The groups of parameters."""
        ...


class Denoising(Protocol):
    """An objective that reconstructs clean rows from corrupted ones."""

    network: nn.Module
    factor: float
    corruption: float
    hidden_dropout: float


def is_denoising(objective: Any) -> TypeGuard[Denoising]:
    """Whether an objective has what :class:`Denoising` names."""
    # Not isinstance: since Python 3.12 it does not see submodules, such as the network.
    return all(hasattr(objective, name) for name in ("network", "factor", "corruption", "hidden_dropout"))


@dataclass(frozen=True)
class UpdateRule:
    """How the kernels move weights: Adam (two betas, epsilon) or SGD (momentum)."""

    is_adam: bool
    constants: tuple[float, float, float]


def update_rule(optimizer: Optimizer) -> UpdateRule | None:
    """The rule of an optimizer; ``None`` where the kernels have none for it."""
    chosen: Any = optimizer
    if chosen.moment_names == ("exp_avg", "exp_avg_sq"):
        return UpdateRule(True, (*chosen.betas, chosen.eps))
    if chosen.moment_names == ("momentum",):
        return UpdateRule(False, (chosen.momentum, 0.0, 0.0))
    return None


@dataclass(frozen=True)
class Link:
    """One Linear layer of a chain and the activation after it."""

    layer: nn.Linear
    activation: Activation


def links_of(network: nn.Module) -> list[Link] | None:
    """Linear layers with ReLU between them, perhaps also at the end; ``None`` for any other network.

    Examples
    --------
    >>> [link.activation for link in links_of(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)))]
    ['relu', 'linear']
    """
    if type(network) not in (MLP, nn.Sequential):  # a class of the user's own may do anything in between
        return None
    kinds = [type(layer) for layer in network.children()]
    layers = [layer for layer in network.children() if isinstance(layer, nn.Linear)]
    if not layers or kinds != ([nn.Linear, nn.ReLU] * len(layers))[: len(kinds)]:
        return None
    if any(layer.bias is None for layer in layers):
        return None
    last: Activation = "relu" if len(kinds) == 2 * len(layers) else "linear"
    return [*(Link(layer, "relu") for layer in layers[:-1]), Link(layers[-1], last)]


def autoencoder_links(network: nn.Module, hidden_dropout: float = 0.0) -> list[Link] | None:
    """Encoder and decoder as one chain; ``None`` where the network is not one that the kernels know."""
    if type(network) is not Autoencoder:
        return None
    down, up = links_of(network.encoder), links_of(network.decoder)
    if down is None or up is None or up[-1].activation != "linear":
        return None
    known: dict[tuple[Activation, bool, bool], Activation] = {
        ("linear", False, False): "linear",
        ("linear", True, False): "sphere",
        ("relu", False, False): "relu",
        ("relu", False, True): "dropped relu",
    }
    code = known.get((down[-1].activation, network.spherical, hidden_dropout > 0.0))
    return None if code is None else [*down[:-1], Link(down[-1].layer, code), *up]


def fit_kernels(links: Sequence[Link], optimizer: Optimizer) -> bool:
    """Whether the layers are not too large for the kernels and none of their parameters is frozen."""
    embeddings = [link.layer.out_features for link in links if link.activation == "sphere"]
    parameters = [p for link in links for p in (link.layer.weight, link.layer.bias)]
    return (
        all(width <= TILE for width in embeddings)
        and all(parameter.numel() < LARGEST for parameter in parameters)
        and all(parameter in optimizer.state for parameter in parameters)
    )


def single_passes(
    networks: Sequence[nn.Module], objective: Any, batch: Any, hardware: Hardware
) -> dict[nn.Module, int]:
    """How often a step calls each network: once, or not at all.

    Networks that it calls more often, or whose parameters enter the loss in another way, are left out. Found
    out on a batch whose loss is thrown away.

    Parameters
    ----------
    networks : sequence of nn.Module
    objective : nn.Module with a method ``terms``
    batch : Batch
    hardware : Hardware
    """
    n_calls: Counter[nn.Module] = Counter()
    hooks = [n.register_forward_hook(lambda module, *_: n_calls.update([module])) for n in networks]
    try:
        with _without_trace(objective, hardware), hardware.autocast():
            terms = torch.stack([term.float() for term in objective.terms(batch).values()])
    finally:
        for hook in hooks:
            hook.remove()
    uses = _uses(terms)
    return {
        network: n_calls[network]
        for network in networks
        if n_calls[network] <= 1 and all(uses[p] == n_calls[network] for p in network.parameters())
    }


def _uses(result: Tensor) -> Counter[Tensor]:
    """How often each parameter enters a result: its edges in the graph of autograd."""
    uses: Counter[Tensor] = Counter()
    waiting: list[Any] = [result.grad_fn]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        for after, _ in () if node is None else node.next_functions:
            if hasattr(after, "variable"):
                uses[after.variable] += 1
            elif after not in seen:
                seen.add(after)
                waiting.append(after)
    return uses


@contextmanager
def _without_trace(objective: nn.Module, hardware: Hardware) -> Iterator[None]:
    """Put buffers and torch's global generators back afterwards."""
    before = [buffer.clone() for buffer in objective.buffers()]
    with torch.random.fork_rng([torch.cuda.current_device()] if hardware.device.type == "cuda" else []):
        yield
    with torch.no_grad():
        for buffer, value in zip(objective.buffers(), before, strict=True):
            buffer.copy_(value)


def padded(width: int) -> int:
    """The width rounded up to whole tiles.

    Examples
    --------
    >>> padded(10), padded(128)
    (64, 128)
    """
    return -(-width // TILE) * TILE


def adjacent_matrices(n_rows: int, widths: Sequence[int], like: Tensor) -> list[Tensor]:
    """Zero matrices of those widths, one after the other in one stretch of memory."""
    flat = like.new_zeros(n_rows * sum(widths))
    parts = torch.split(flat, [n_rows * width for width in widths])
    return [part.view(n_rows, width) for part, width in zip(parts, widths, strict=True)]


class PaddedWeights:
    """Weights, biases and moments of all layers, padded with zeros to whole tiles, in one block each.

    The parameters of the network and the moments of the optimizer become views of this storage until
    :meth:`release`, so checkpoints and everything else see them as ever. Padding stays zero, since its
    gradients are zero.
    """

    def __init__(
        self, links: Sequence[Link], widths: list[int], optimizer: Optimizer, dtype: torch.dtype
    ) -> None:
        self._links, self._widths, self._optimizer = links, widths, optimizer
        sizes = [n_out * n_in + n_out for n_in, n_out in pairwise(widths)]
        self.offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        self.flat = torch.zeros(sum(sizes), device=links[0].layer.weight.device)
        self.moments = [torch.zeros_like(self.flat) for _ in optimizer.moment_names]
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

    def release(self) -> None:
        """Give parameters and moments storage of their own, with their present values."""
        for link in self._links:
            for parameter in (link.layer.weight, link.layer.bias):
                state = self._optimizer.state[cast(nn.Parameter, parameter)]
                for name, tensor in state.items():
                    state[name] = tensor.clone(memory_format=torch.contiguous_format)
                parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)

    def tiles(self, n_rows: int) -> Tensor:
        """One line per tile of the weights: where its gradient, its input columns and itself lie."""
        lines, before_g, before_h = [], 0, 0
        for i, (n_in, n_out) in enumerate(pairwise(self._widths)):
            at = torch.cartesian_prod(torch.arange(0, n_out, TILE), torch.arange(0, n_in, TILE))
            begin = torch.tensor([before_g, n_out, before_h, n_in, self.offsets[i]]).expand(len(at), -1)
            bias = torch.full((len(at), 1), self.offsets[i] + n_in * n_out)
            lines.append(torch.cat([begin, at, bias], dim=1))
            before_g, before_h = before_g + n_rows * n_out, before_h + n_rows * n_in
        return torch.cat(lines).to(self.flat.device)

    def _adopt(self, parameter: nn.Parameter, begin: int, n_out: int, width: int) -> None:
        """Make a parameter and its moments views of the padded storage, with their present values.

        The step count, which the optimizer keeps for every parameter, becomes one for all.
        """
        state = self._optimizer.state[parameter]
        names = self._optimizer.moment_names
        old = [parameter.data, *(state[name] for name in names)]
        new = []
        for flat, values in zip((self.flat, *self.moments), old, strict=True):
            block = flat[begin : begin + n_out * width].view(n_out, width)
            cut = block[: parameter.shape[0], : parameter.shape[1]] if parameter.ndim == 2 else block[:, 0]
            new.append(cut[: parameter.shape[0]].copy_(values))
        parameter.data = new[0]
        state.update(zip(names, new[1:], strict=True))
        if "step" in state:
            self.count.copy_(state["step"])
            state["step"] = self.count

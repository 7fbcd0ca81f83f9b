"""Networks: torch modules that know nothing of constraints, training or clustering.

Here is the fully connected autoencoder, SpherePair's own network, and the MLPs that it is made of.

    z = encoder(x),   x_hat = decoder(z / |z|)                          (Eq. 3)

The encoder is Linear + ReLU through the hidden sizes, then Linear to the embedding; the decoder mirrors it.

Where matrix products are in bfloat16, MLPs have an explicit forward and backward pass. Under autocast,
autograd takes a kernel for every cast, activation and bias, and rounds gradients to bfloat16 on their way to
the float32 weights. The explicit pass takes one product with bias and ReLU per layer forward, and a mask, two
products and a sum backward; its output and the gradients are float32.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from itertools import compress, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

__all__ = ["ARCHITECTURES", "Autoencoder", "build_autoencoder", "mlp"]


#: Hidden sizes of a network for small tables, and of the three that the paper compares.
ARCHITECTURES: dict[str, tuple[int, ...]] = {
    "small": (256, 128),
    "compact": (256, 256, 512),
    "standard": (500, 500, 2000),
    "deep": (500, 500, 500, 2000),
}
#: Widths of bfloat16 matrices are padded to multiples of this where fast products need it.
ALIGNED = {"cuda": 8}
#: Index of the first parameter among the arguments of the pass.
FIRST_PARAMETER = 3


class Autoencoder(nn.Module):
    """An encoder and a decoder, with the embedding normalized to the sphere in between (Eq. 3).

    Parameters
    ----------
    encoder : nn.Module
        Maps rows (n, n_features) to embeddings (n, embedding_dim).
    decoder : nn.Module
        Maps embeddings back to rows.
    spherical : bool, default=True
        Whether embeddings are normalized before they are decoded.
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, *, spherical: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.spherical = spherical

    def encode(self, x: Tensor) -> Tensor:
        """Embed rows; the length of the result, which is not normalized, has no meaning."""
        z: Tensor = self.encoder(x)  # (n, D)
        return z

    def decode(self, z: Tensor) -> Tensor:
        """Reconstruct rows from their embeddings, or from their directions."""
        if self.spherical:
            z = F.normalize(z.float(), dim=-1, eps=1e-12)
        x: Tensor = self.decoder(z)  # (n, n_features)
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Reconstruct rows."""
        return self.decode(self.encode(x))


def build_autoencoder(
    n_features: int,
    embedding_dim: int,
    *,
    hidden_dims: Sequence[int] = ARCHITECTURES["standard"],
    encoder: nn.Module | None = None,
    spherical: bool = True,
    generator: torch.Generator | None = None,
) -> Autoencoder:
    """Build an autoencoder with weights drawn from ``generator``.

    A given ``encoder`` is copied with its weights; the decoder mirrors ``hidden_dims`` in any case.

    Examples
    --------
    >>> network = build_autoencoder(64, 10, hidden_dims=(32, 16))
    >>> network.encode(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    sizes = [n_features, *hidden_dims, embedding_dim]
    front = mlp(sizes, generator=generator) if encoder is None else copy.deepcopy(encoder)
    return Autoencoder(front, mlp(sizes[::-1], generator=generator), spherical=spherical)


class MLP(nn.Sequential):
    """Linear layers with ReLU in between, and optionally after the last one."""

    def forward(self, x: Tensor) -> Tensor:
        """Output for rows, (n, n_out); float32 even where products are in bfloat16."""
        layers = self.chain()
        if layers is None or not _in_bfloat16(x):
            return super().forward(x)  # type: ignore[no-any-return, no-untyped-call]
        parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
        options = len(self) == 2 * len(layers), torch.is_grad_enabled()
        output: Tensor = _Chain.apply(x, *options, *parameters)  # type: ignore[no-untyped-call]
        return output

    def chain(self) -> list[nn.Linear] | None:
        """Linear layers; ``None`` if there are other layers than these and ReLU, or one without bias."""
        kinds = [type(layer) for layer in self]
        layers = [layer for layer in self if isinstance(layer, nn.Linear)]
        alternate = kinds == ([nn.Linear, nn.ReLU] * len(layers))[: len(kinds)] and len(kinds) > 0
        return layers if alternate and all(layer.bias is not None for layer in layers) else None


def mlp(sizes: Sequence[int], *, ends_in_relu: bool = False, generator: torch.Generator | None = None) -> MLP:
    """Build linear layers of the given sizes with ReLU in between, and optionally at the end.

    Examples
    --------
    >>> mlp([64, 32, 10])(torch.zeros(5, 64)).shape
    torch.Size([5, 10])
    """
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [linear(n_in, n_out, generator=generator), nn.ReLU()]
    return MLP(*(layers if ends_in_relu else layers[:-1]))


def linear(n_in: int, n_out: int, *, generator: torch.Generator | None = None) -> nn.Linear:
    """Build a layer with PyTorch's default initialization, U(±1/sqrt(n_in)), drawn from ``generator``.

    ``nn.Linear`` itself would draw from the global generator, which other threads use too. (Building the
    layer on the meta device would load a symbolic algebra package, which takes three seconds.)
    """
    layer: nn.Linear = _Undrawn(n_in, n_out)
    layer.__class__ = nn.Linear
    bound = 1.0 / math.sqrt(n_in)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class _Undrawn(nn.Linear):
    """A layer whose weights are still to be drawn."""

    def reset_parameters(self) -> None:
        """Draw nothing."""


def linear_layers(module: nn.Module) -> Iterator[nn.Linear]:
    """Linear layers of a module in the order of its data flow."""
    return (layer for layer in module.modules() if isinstance(layer, nn.Linear))


class _Chain(torch.autograd.Function):
    """h_i = relu(h_{i-1} W_i' + b_i) and its gradients, with bfloat16 products summed in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends_in_relu: bool, keeps_codes: bool, *parameters: Tensor) -> Tensor:
        weights, biases = parameters[::2], parameters[1::2]
        last = len(weights) - 1
        halves = _halves(parameters)
        codes = [_padded(x, halves[0].shape[1])]
        for i in range(last + ends_in_relu):
            weight, bias = halves[2 * i : 2 * i + 2]
            codes.append(_activated(codes[-1], weight, bias))
            codes = codes if keeps_codes else codes[-1:]
        ctx.save_for_backward(*codes, *halves[::2])
        ctx.shapes, ctx.dtype = [weight.shape for weight in weights], x.dtype
        if ends_in_relu:
            return codes[-1][:, : len(biases[last])].float()
        return _wide(codes[-1], halves[2 * last].T)[:, : len(biases[last])] + biases[last]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        n_layers = len(ctx.shapes)
        codes, weights = ctx.saved_tensors[:-n_layers], ctx.saved_tensors[-n_layers:]
        gradients: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        g = _padded(upstream[0], len(weights[-1]))
        for i in reversed(range(n_layers)):
            n_out, n_in = ctx.shapes[i]
            if i + 1 < len(codes):
                g = torch.ops.aten.threshold_backward(g, codes[i + 1], 0)
            place = FIRST_PARAMETER + 2 * i
            if ctx.needs_input_grad[place]:
                gradients[place] = _wide(g.T, codes[i])[:n_out, :n_in]
            if ctx.needs_input_grad[place + 1]:
                gradients[place + 1] = _column_sums(g)[:n_out]
            if i > 0:
                g = g @ weights[i]
        if ctx.needs_input_grad[0]:
            gradients[0] = _wide(g, weights[0])[:, : ctx.shapes[0][1]].to(ctx.dtype)
        return tuple(gradients)


def _halves(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Weights and biases in bfloat16, padded with zeros where that is needed."""
    unit = ALIGNED.get(parameters[0].device.type, 1)
    if unit == 1:
        return [parameter.bfloat16() for parameter in parameters]
    shapes = [[-(-size // unit) * unit for size in parameter.shape] for parameter in parameters]
    flat = torch.zeros(sum(map(math.prod, shapes)), dtype=torch.bfloat16, device=parameters[0].device)
    parts = torch.split(flat, [math.prod(shape) for shape in shapes])
    halves = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
    filled = [half[tuple(map(slice, p.shape))] for half, p in zip(halves, parameters, strict=True)]
    # One kernel for all with the same strides as before, and one for each of the others.
    alike = [half.stride() == p.stride() for half, p in zip(filled, parameters, strict=True)]
    torch._foreach_copy_(list(compress(filled, alike)), list(compress(parameters, alike)))
    for half, parameter, is_copied in zip(filled, parameters, alike, strict=True):
        if not is_copied:
            half.copy_(parameter)
    return halves


def _padded(x: Tensor, width: int) -> Tensor:
    """Rows in bfloat16, padded with zeros to ``width``."""
    return F.pad(x.bfloat16(), (0, width - x.shape[1])) if width > x.shape[1] else x.bfloat16()


def _in_bfloat16(x: Tensor) -> bool:
    kind = x.device.type
    if x.ndim != 2 or x.dtype == torch.float64 or not torch.amp.is_autocast_available(kind):
        return False
    return torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16


def _activated(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """relu(x W' + b): one kernel on a GPU, two on a CPU."""
    if x.is_cuda:
        found: Tensor = torch.ops.aten._addmm_activation(bias, x, weight.T)
        return found
    return F.linear(x, weight, bias).relu_()


def _wide(a: Tensor, b: Tensor) -> Tensor:
    """Product in float32; on a GPU with torch 2.8 or newer without rounding in between."""
    if a.is_cuda and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a, b, out_dtype=torch.float32)
    return (a @ b).float()


def _column_sums(g: Tensor) -> Tensor:
    """Column sums in float32; on a CPU that would first copy all of ``g``, so the result is rounded once."""
    return g.sum(dim=0, dtype=torch.float32) if g.is_cuda else g.sum(dim=0).float()

"""The Triton kernels of ``accel/fused.py`` and how they are launched: tiles of T x T, all widths whole tiles.

In pretraining ``cursor`` holds the number of the step in its epoch and ``count`` that of all steps, both on
the device. The last :func:`backward` of a step moves them on, and :func:`update` gathers the rows of the
next step while it waits for memory. The noisy rows therefore have two buffers: that of odd steps lies
``other`` numbers behind that of even ones. A fused pass has no noise and one buffer.
Activations: 0 linear, 1 ReLU, 2 ReLU and dropout, 3 the sphere.

With ``PDL`` (programmatic dependent launch, on GPUs since Hopper) a kernel is set up while the one before it
still runs, and waits for it before it reads anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from spherepair.accel.layers import TILE, Activation

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # an older Triton
    gdc_wait = None

#: Whether this Triton has programmatic dependent launch.
HAS_PDL = gdc_wait is not None
#: How activations are told to the kernels.
ACTIVATIONS: dict[Activation, int] = {"linear": 0, "relu": 1, "dropped relu": 2, "sphere": 3}
#: Entries of a row that are gathered at once.
GATHERED = 512


@dataclass(frozen=True)
class Launch:
    """A kernel with its arguments; the tensors keep their addresses."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]

    def __call__(self) -> None:
        """Queue the kernel."""
        self.kernel[self.grid](*self.arguments, **self.constants)

    def signature(self) -> tuple[Any, ...]:
        """What a kernel is compiled for: types of the arguments, and constants."""
        types = [getattr(argument, "dtype", type(argument)) for argument in self.arguments]
        return self.kernel, *types, *self.constants.items()

    def compile(self, device: torch.device) -> None:
        """Compile the kernel and its launcher, which Triton would otherwise do at the first launch."""
        with torch.cuda.device(device):
            compiled = self.kernel.warmup(*self.arguments, grid=self.grid, **self.constants)
            getattr(compiled, "_init_handles", lambda: None)()


def compile_together(launches: Sequence[Launch]) -> None:
    """Compile the kernels in parallel: most of the time goes to an assembler in a process of its own."""
    once = {launch.signature(): launch for launch in launches}
    device = launches[0].arguments[0].device
    with suppress(Exception):  # what every thread would set up by itself; an older Triton has it elsewhere
        triton.runtime.cache.triton_key()
        _ = triton.runtime.driver.active
    with ThreadPoolExecutor(len(once)) as pool:
        # The last one, which moves the weights, takes longest.
        for compiled in [pool.submit(launch.compile, device) for launch in reversed(once.values())]:
            compiled.result()


def launch_options(device: torch.device) -> dict[str, Any]:
    """Constants that say whether kernels may be set up early on this device."""
    # AMD's GPUs call themselves "cuda" as well, and some of them 9.4.
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    is_hopper = is_nvidia and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"PDL": True, "launch_pdl": True} if is_hopper and HAS_PDL else {"PDL": False}


def update_options(*, is_adam: bool) -> dict[str, Any]:
    """Constants with which :func:`update` is compiled.

    Adam's part is long. With eight warps it compiles a third faster; a step then takes a little longer, which
    only trainings as long as those with SGD would notice.
    """
    warps = 8 if is_adam else 4
    return {"BLOCK": GATHERED, "T": TILE, "ADAM": is_adam, "num_stages": 3, "num_warps": warps}


def grid(out: Tensor) -> tuple[int, int]:
    """One program for each tile of the result."""
    return len(out) // TILE, out.shape[1] // TILE


@triton.jit
def _wait_for_previous(PDL: tl.constexpr):
    """Wait until the kernel before is done, then let the next one be set up."""
    if PDL:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def _gather(
    place, step, table, index, seed, noisy, other, clean, n_features, width, share, n_rows,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of a step, clean and with a share of its entries set to zero."""
    row, number = tl.load(index + step * n_rows + place), tl.load(seed)
    noisy += (step & 1) * other
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(table + row * n_features + column, mask=column < n_features, other=0.0)
        drawn = tl.rand(number, ((step * n_rows + place) * width + column).to(tl.int32))
        blurred = tl.where(drawn < share, 0.0, x).to(noisy.dtype.element_ty)
        tl.store(clean + place * width + column, x, mask=column < width)
        tl.store(noisy + place * width + column, blurred, mask=column < width)


@triton.jit
def _product(a, w, n_in, T: tl.constexpr):
    """Tile (program 0, program 1) of a wᵀ."""
    m = tl.program_id(0) * T + tl.arange(0, T)
    n = tl.program_id(1) * T + tl.arange(0, T)
    k = tl.arange(0, T)
    total = tl.zeros((T, T), dtype=tl.float32)
    for start in range(0, n_in, T):
        left = tl.load(a + m[:, None] * n_in + (start + k)[None, :])
        right = tl.load(w + n[None, :] * n_in + (start + k)[:, None])
        total = tl.dot(left, right, total)
    return m, n, total


# The activation is an argument, not a constant: a kernel compiled for each would cost half a second each.
# ``DROPS`` says whether dropout is among them: the code for its random numbers is longer than all the rest.
@triton.jit(do_not_specialize=["activation"])
def forward(
    a, other, w, bias, out, norm, seed, cursor, n_in, n_out, share, activation,
    T: tl.constexpr, DROPS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Tile of act(a wᵀ + b), the output of a layer."""
    _wait_for_previous(PDL)
    if other != 0:
        a += (tl.load(cursor) & 1) * other
    m, n, total = _product(a, w, n_in, T)
    total += tl.load(bias + n)[None, :]
    place = m[:, None] * n_out + n[None, :]
    if activation == 3:  # the sphere: one tile holds whole embeddings
        length = tl.maximum(tl.sqrt(tl.sum(total * total, axis=1)), 1e-12)
        total = total / length[:, None]
        tl.store(norm + m, length)
    elif activation != 0:
        total = tl.maximum(total, 0.0)
    if DROPS:  # noqa: SIM102  # in one condition it would no longer be settled when the kernel is compiled
        if activation == 2:
            # Another stream than the noise of the inputs, which counts upwards from zero.
            drawn = tl.rand(
                tl.load(seed) + 1, (tl.load(cursor) * tl.num_programs(0) * T * n_out + place).to(tl.int32)
            )
            total = tl.where(drawn < share, 0.0, total / (1.0 - share))
    tl.store(out + place, total.to(out.dtype.element_ty))


@triton.jit
def error(
    a, w, bias, clean, scale, gradient, errors, cursor, n_rows, n_in, n_out, factor,
    T: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The last layer: squared errors against the clean rows, and their gradient."""
    _wait_for_previous(PDL)
    m, n, total = _product(a, w, n_in, T)
    step = tl.load(cursor)
    place = m[:, None] * n_out + n[None, :]
    difference = total + tl.load(bias + n)[None, :] - tl.load(clean + place)
    scaled = difference * tl.load(scale + step * n_rows + m)[:, None]
    tl.store(gradient + place, (factor * scaled).to(gradient.dtype.element_ty))
    n_tiles = tl.num_programs(0) * tl.num_programs(1)
    tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(errors + step * n_tiles + tile, tl.sum(difference * scaled))


@triton.jit(do_not_specialize=["activation", "ahead"])
def backward(
    g, w, h, norm, out, cursor, count, n_out, n_in, share, activation, ahead,
    T: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Tile of (g w) * act', the gradient before a layer and the activation below it."""
    _wait_for_previous(PDL)
    m = tl.program_id(0) * T + tl.arange(0, T)
    k = tl.program_id(1) * T + tl.arange(0, T)
    n = tl.arange(0, T)
    total = tl.zeros((T, T), dtype=tl.float32)
    for start in range(0, n_out, T):
        left = tl.load(g + m[:, None] * n_out + (start + n)[None, :])
        right = tl.load(w + (start + n)[:, None] * n_in + k[None, :])
        total = tl.dot(left, right, total)
    place = m[:, None] * n_in + k[None, :]
    code = tl.load(h + place).to(tl.float32)
    if activation == 3:  # the part along the embedding is lost
        along = tl.sum(total * code, axis=1)
        total = (total - along[:, None] * code) / tl.load(norm + m)[:, None]
    elif activation != 0:
        total = tl.where(code > 0.0, total, 0.0)
    if activation == 2:
        total = total / (1.0 - share)
    tl.store(out + place, total.to(out.dtype.element_ty))
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        tl.store(cursor, tl.load(cursor) + ahead)
        tl.store(count, tl.load(count) + ahead)


# Numbers that differ between layers are not specialized on: one kernel is compiled, not one for each.
@triton.jit(do_not_specialize=["n_tiles", "n_steps", "n_features"])
def update(
    n_tiles, tiles, gradients, inputs, other, weights, momenta, squares, half, rate, count, cursor, n_steps,
    n_rows, table, index, seed, clean, n_features, width, share, keep, keep_squares, eps,
    BLOCK: tl.constexpr, T: tl.constexpr, ADAM: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program per tile of the weights moves it; one per row gathers the rows of the next step."""
    _wait_for_previous(PDL)
    tile = tl.program_id(0)
    following = tl.load(cursor)
    if tile < n_tiles:
        _update_tile(
            tiles + tile * 8, gradients, inputs, other * ((following - 1) & 1),
            weights, momenta, squares, half, tl.load(rate), tl.load(count), keep, keep_squares, eps,
            n_rows, T, ADAM,
        )  # fmt: skip
    elif following < n_steps:
        _gather(
            tile - n_tiles, following, table, index, seed, inputs, other, clean,
            n_features, width, share, n_rows, BLOCK,
        )  # fmt: skip


@triton.jit
def _update_tile(
    line, gradients, inputs, other, weights, momenta, squares, half, rate, count, keep, keep_squares, eps,
    n_rows, T: tl.constexpr, ADAM: tl.constexpr,
):  # fmt: skip
    # All offsets are whole tiles; without this hint memory would be read one number at a time.
    g, n_out = gradients + tl.multiple_of(tl.load(line), T), tl.multiple_of(tl.load(line + 1), T)
    begin_h, n_in = tl.load(line + 2), tl.multiple_of(tl.load(line + 3), T)
    h = inputs + tl.multiple_of(tl.where(begin_h == 0, other, begin_h), T)  # the noisy rows come first
    begin, bias = tl.multiple_of(tl.load(line + 4), T), tl.multiple_of(tl.load(line + 7), T)
    row, column = tl.multiple_of(tl.load(line + 5), T), tl.multiple_of(tl.load(line + 6), T)
    n, k, m = row + tl.arange(0, T), column + tl.arange(0, T), tl.arange(0, T)
    total = tl.zeros((T, T), dtype=tl.float32)
    for start in range(0, n_rows, T):
        left = tl.load(g + (start + m)[None, :] * n_out + n[:, None])
        right = tl.load(h + (start + m)[:, None] * n_in + k[None, :])
        total = tl.dot(left, right, total)
    place = begin + n[:, None] * n_in + k[None, :]
    weight = _moved(place, total, weights, momenta, squares, rate, count, keep, keep_squares, eps, ADAM)
    tl.store(half + place, weight.to(half.dtype.element_ty))
    if column == 0:
        sums = tl.zeros((T,), dtype=tl.float32)
        for start in range(0, n_rows, T):
            sums += tl.sum(tl.load(g + (start + m)[:, None] * n_out + n[None, :]).to(tl.float32), axis=0)
        _moved(bias + n, sums, weights, momenta, squares, rate, count, keep, keep_squares, eps, ADAM)


@triton.jit
def _moved(
    place, gradient, weights, momenta, squares, rate, count, keep, keep_squares, eps, ADAM: tl.constexpr
):  # fmt: skip
    """Take one step of SGD with momentum, or of Adam, and return the weights."""
    if ADAM:
        velocity = keep * tl.load(momenta + place) + (1.0 - keep) * gradient
        square = keep_squares * tl.load(squares + place) + (1.0 - keep_squares) * gradient * gradient
        tl.store(squares + place, square)
        spread = tl.sqrt(square / (1.0 - tl.exp(count * tl.log(keep_squares)))) + eps
        change = velocity / (1.0 - tl.exp(count * tl.log(keep))) / spread
    else:
        velocity = keep * tl.load(momenta + place) + gradient
        change = velocity
    weight = tl.load(weights + place) - rate * change
    tl.store(momenta + place, velocity)
    tl.store(weights + place, weight)
    return weight

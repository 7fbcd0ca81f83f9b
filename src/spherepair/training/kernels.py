"""The Triton kernels of ``fused.py`` and ``fused_pass.py``: tiles of T x T, all widths whole tiles, no masks.

In pretraining ``cursor`` holds the number of the step in its epoch and ``count`` that of all steps, both on
the device. The last :func:`backward` of a step moves them on, and :func:`update` gathers the rows of the
next step while it waits for memory. The noisy rows therefore have two places: those of odd steps lie
``other`` numbers behind those of even ones. A pass that is only taken over has no noise and one place.
Activations: 0 linear, 1 ReLU, 2 ReLU and dropout, 3 the sphere.

With ``EARLY`` a kernel is set up while the one before it still runs, and waits for it before it reads
anything (programmatic dependent launch, which GPUs have since Hopper).
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.nvidia import driver as nvidia

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # an older Triton
    gdc_wait = None

#: Whether this Triton knows ``EARLY``.
KNOWS_EARLY = gdc_wait is not None
#: Whether it calls a C compiler for what launches a kernel on NVIDIA's GPUs; 3.6 does, 3.9 no longer.
BUILDS_LAUNCHERS = hasattr(nvidia, "make_launcher")


@triton.jit
def _take_turn(EARLY: tl.constexpr):
    """Wait until the kernel before is done with everything, then let the next one be set up."""
    if EARLY:
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
    T: tl.constexpr, DROPS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _take_turn(EARLY)
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
    T: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _take_turn(EARLY)
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
    T: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _take_turn(EARLY)
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


# Numbers that differ between the layers are not specialised on: one kernel is compiled, not one for each.
@triton.jit(do_not_specialize=["n_tiles", "n_steps", "n_features"])
def update(
    n_tiles, tiles, gradients, inputs, other, weights, momenta, squares, half, rate, count, cursor, n_steps,
    n_rows, table, index, seed, clean, n_features, width, share, keep, keep_squares, eps,
    BLOCK: tl.constexpr, T: tl.constexpr, ADAM: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    _take_turn(EARLY)
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


@triton.jit(do_not_specialize=["n_tiles", "n_steps", "n_features"])
def called_like_update(
    n_tiles, tiles, gradients, inputs, other, weights, momenta, squares, half, rate, count, cursor, n_steps,
    n_rows, table, index, seed, clean, n_features, width, share, keep, keep_squares, eps,
    BLOCK: tl.constexpr, T: tl.constexpr, ADAM: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Nothing, with the arguments of :func:`update`.

    Where ``BUILDS_LAUNCHERS``, what launches a kernel is built after the kernel itself and depends on the
    types of its arguments alone: built for this one, it is there by the time that :func:`update`, the
    longest to compile, is.
    """


@triton.jit
def _update_tile(
    line, gradients, inputs, other, weights, momenta, squares, half, rate, count, keep, keep_squares, eps,
    n_rows, T: tl.constexpr, ADAM: tl.constexpr,
):  # fmt: skip
    # All offsets are whole tiles; said aloud, or memory would be read one number at a time.
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

"""Random numbers without repetition, such that a larger draw begins with the smaller one."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from spherepair.constraints.table import IndexArray
from spherepair.errors import InvalidParameterError

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

# The stream is always cut into blocks of this size, whatever is asked for: that makes draws nested.
_BLOCK = 4096


def nested_sample(total: int, size: int, rng: np.random.Generator) -> IndexArray:
    """Draw `size` different numbers below `total`, uniformly.

    From a generator in the same state, a draw of fewer numbers is the beginning of a draw of more.
    Time and memory are linear in `size`, also when it is close to `total`.

    Examples
    --------
    >>> import numpy as np
    >>> many = nested_sample(1000, 900, np.random.default_rng(0))
    >>> few = nested_sample(1000, 10, np.random.default_rng(0))
    >>> len(set(many.tolist())), bool((many[:10] == few).all())
    (900, True)
    """
    head_seed, tail_seed = rng.integers(2**63, size=2)
    n_head = min(size, total // 2)
    head = _distinct(total, n_head, np.random.default_rng(head_seed))
    if n_head == size:
        return head
    # Rejection would hardly ever find the last free numbers: list what is left, and shuffle it.
    is_free = np.ones(total, bool)
    is_free[head] = False
    tail = np.random.default_rng(tail_seed).permutation(np.flatnonzero(is_free))
    return np.concatenate([head, tail[: size - n_head]])


def _distinct(total: int, size: int, stream: np.random.Generator) -> IndexArray:
    """The first `size` different numbers of the stream; `size` is at most half of `total`."""
    drawn = np.empty(0, np.int64)
    if size == 0:
        return drawn
    # So many uniform draws hold `size` different numbers on average.
    expected = -total * math.log1p(-size / total)
    n_blocks = math.ceil(1.01 * expected / _BLOCK)
    while True:
        blocks = [stream.integers(total, size=_BLOCK) for _ in range(n_blocks)]
        drawn = np.concatenate([drawn, *blocks])
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first) >= size:
            return drawn[first[:size]]
        n_blocks = 1


def n_unordered_pairs(n_rows: int) -> int:
    """How many pairs of different rows there are."""
    return n_rows * (n_rows - 1) // 2


def unordered_pair(codes: IndexArray, n_rows: int) -> tuple[IndexArray, IndexArray]:
    """The pairs behind numbers 0 to n_rows * (n_rows - 1) / 2 - 1, one to one, smaller row first.

    Row r and row n - 1 - r of the strict upper triangle have n - 1 entries together, so the
    triangle folds into a rectangle and no square root has to be rounded.

    Examples
    --------
    >>> import numpy as np
    >>> left, right = unordered_pair(np.arange(6), 4)
    >>> list(zip(left.tolist(), right.tolist()))
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    """
    line, column = np.divmod(codes, max(n_rows - 1, 1))
    is_folded = column >= n_rows - 1 - line
    left = np.where(is_folded, n_rows - 1 - line, line)
    offset = np.where(is_folded, column - (n_rows - 1 - line), column)
    return left, left + 1 + offset


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A generator from a seed, a generator, a legacy generator, or fresh entropy for None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**32, dtype=np.uint64)))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            "random_state must be None, a seed of zero or more, or a NumPy generator; "
            f"got {random_state!r} instead."
        ) from error

"""The storage behind constraints: read-only arrays of one length, and sets made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
WeightArray = npt.NDArray[np.float32]

# Up to here min * span + max, with one bit more for the link, fits into 63 bits.
_LARGEST_DIRECT_SPAN = 2**30


class Pair(NamedTuple):
    """One constraint, as iteration yields it."""

    left: int
    right: int
    is_must_link: bool
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class PairTable:
    """Pairs as read-only arrays of one length.

    Parameters
    ----------
    left, right : array of shape (n_pairs,)
        Row numbers of the two ends.
    is_must_link : array of shape (n_pairs,)
        True for a must-link, False for a cannot-link.
    weight : array of shape (n_pairs,)
        Weight of each pair.
    source_row : array of shape (n_pairs,)
        Where each pair was given: its row in the file or its position in the list; -1 if nowhere.
    n_duplicates : int
        How many repeated pairs were left out when the table was made.
    """

    left: IndexArray
    right: IndexArray
    is_must_link: BoolArray
    weight: WeightArray
    source_row: IndexArray
    n_duplicates: int = 0

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, _read_only(getattr(self, name), dtype))
        shapes = {name: getattr(self, name).shape for name in _DTYPES}
        if len(set(shapes.values())) != 1 or self.left.ndim != 1:
            raise ValueError(f"constraints: the arrays must be of one length, got {shapes}.")

    def __len__(self) -> int:
        return len(self.left)

    def __iter__(self) -> Iterator[Pair]:
        columns = (self.left, self.right, self.is_must_link, self.weight)
        return map(Pair, *(column.tolist() for column in columns))

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice | npt.ArrayLike) -> Self: ...
    def __getitem__(self, index: Any) -> Pair | Self:
        """One pair for an integer; the same kind of table for a slice, a mask or an index array."""
        if isinstance(index, int | np.integer):
            return Pair(
                int(self.left[index]),
                int(self.right[index]),
                bool(self.is_must_link[index]),
                float(self.weight[index]),
            )
        # An empty list becomes a float array, which NumPy refuses as an index.
        chosen = index if isinstance(index, slice) or np.size(index) else np.empty(0, np.int64)
        return type(self)(*(getattr(self, name)[chosen] for name in _DTYPES))

    def __contains__(self, pair: object) -> bool:
        """Whether (i, j), or (i, j, is_must_link), is here, whichever end comes first."""
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            return False
        low, high = min(pair[:2]), max(pair[:2])
        found = (np.minimum(self.left, self.right) == low) & (np.maximum(self.left, self.right) == high)
        return bool((found if len(pair) == 2 else found & (self.is_must_link == pair[2])).any())

    def __or__(self, other: PairTable) -> Self:
        """All pairs of both; of a pair in both the larger weight is kept."""
        if not isinstance(other, PairTable):
            return NotImplemented
        return without_duplicates(concatenate(self, other))

    def __and__(self, other: PairTable) -> Self:
        """The pairs that `other` holds too, whatever their weight there."""
        if not isinstance(other, PairTable):
            return NotImplemented
        return self[_is_in(self, other)]

    def __sub__(self, other: PairTable) -> Self:
        """The pairs that `other` does not hold, whatever their weight there."""
        if not isinstance(other, PairTable):
            return NotImplemented
        return self[~_is_in(self, other)]

    def __eq__(self, other: object) -> bool:
        """The same set of pairs, links and weights; order, side and origin do not matter."""
        if not isinstance(other, PairTable):
            return NotImplemented
        if len(self) != len(other):
            return False
        mine, theirs = np.split(pair_keys(concatenate(self, other)), [len(self)])
        mine_order, their_order = np.argsort(mine), np.argsort(theirs)
        return bool(
            np.array_equal(mine[mine_order], theirs[their_order])
            and np.array_equal(self.weight[mine_order], other.weight[their_order])
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Through the constructor, so that a copy or an unpickled table is read-only as well.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


_DTYPES: dict[str, type[np.generic]] = {
    "left": np.int64,
    "right": np.int64,
    "is_must_link": np.bool_,
    "weight": np.float32,
    "source_row": np.int64,
}
_Table = TypeVar("_Table", bound=PairTable)


def _read_only(values: npt.ArrayLike, dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def new_table(left: IndexArray, right: IndexArray, is_must_link: BoolArray) -> PairTable:
    """Pairs of weight one, numbered in their order."""
    n_pairs = len(left)
    return PairTable(
        left, right, is_must_link, np.ones(n_pairs, np.float32), np.arange(n_pairs, dtype=np.int64)
    )


def concatenate(first: _Table, second: PairTable) -> _Table:
    """The pairs of `first`, then those of `second`, repeated ones included."""
    columns: list[Any] = [np.concatenate([getattr(first, name), getattr(second, name)]) for name in _DTYPES]
    columns.append(first.n_duplicates + second.n_duplicates)
    return type(first)(*columns)


def without_duplicates(table: _Table) -> _Table:
    """Each pair with its link once: first place, largest weight; the rest is counted."""
    keys, first, inverse = np.unique(pair_keys(table), return_index=True, return_inverse=True)
    if len(keys) == len(table):
        return table
    weight = np.zeros(len(keys), np.float32)
    np.maximum.at(weight, inverse, table.weight)
    order = np.argsort(first)
    kept = table[first[order]]
    return type(table)(
        kept.left,
        kept.right,
        kept.is_must_link,
        weight[order],
        kept.source_row,
        n_duplicates=table.n_duplicates + len(table) - len(keys),
    )


def pair_keys(table: PairTable) -> IndexArray:
    """One number per pair, equal where the unordered ends and the link are equal."""
    low, high = np.minimum(table.left, table.right), np.maximum(table.left, table.right)
    span = int(high.max(initial=0)) + 1
    if span > _LARGEST_DIRECT_SPAN:
        rows, renumbered = np.unique(np.concatenate([low, high]), return_inverse=True)
        low, high = np.split(renumbered, 2)
        span = len(rows)
    keys: IndexArray = (low * span + high) * 2 + table.is_must_link
    return keys


def _is_in(table: PairTable, other: PairTable) -> BoolArray:
    mine, theirs = np.split(pair_keys(concatenate(table, other)), [len(table)])
    return np.isin(mine, theirs)

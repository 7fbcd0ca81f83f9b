"""The arrays behind constraints: the rules that their values obey, and how they combine as sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from spherepair.errors import InvalidConstraintsError, InvalidParameterError, quoted

IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
WeightArray = npt.NDArray[np.float32]
ValueArray = npt.NDArray[np.float64]
TextArray = npt.NDArray[np.object_]
#: Names the pair at a position, such as ``must_link[17]`` or ``pairs.csv row 18``.
Locate = Callable[[int], str]

# Up to here min * span + max, with one bit more for the link, fits into 63 bits.
_LARGEST_DIRECT_SPAN = 2**30


class Pair(NamedTuple):
    """One constraint, as iteration yields it."""

    left: int
    right: int
    is_must_link: bool
    weight: float


class AnswerDetails(NamedTuple):
    """Who gave each answer, when, and how sure; None where nothing is known of any pair."""

    by: TextArray | None = None
    time: TextArray | None = None
    value: ValueArray | None = None

    def select(self, chosen: Any) -> AnswerDetails:
        """Those of some pairs, given by a slice, a mask or an index array."""
        return AnswerDetails(*(None if column is None else column[chosen] for column in self))


@dataclass(frozen=True, eq=False, repr=False)
class PairArrays:
    """Pairs as read-only arrays of one length; the base of ``Constraints``, which describes them."""

    left: IndexArray
    right: IndexArray
    is_must_link: BoolArray
    weight: WeightArray
    source_row: IndexArray
    n_duplicates: int = 0
    details: AnswerDetails = AnswerDetails()  # noqa: RUF009
    n_rows: int | None = None  # of the table whose positions these are, where that is known

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, _read_only(getattr(self, name), dtype))
        known = {name: column for name, column in self.details._asdict().items() if column is not None}
        known = {name: _read_only(column, _DETAIL_DTYPES[name]) for name, column in known.items()}
        object.__setattr__(self, "details", AnswerDetails(**known))
        shapes = {name: getattr(self, name).shape for name in (*_DTYPES, *known)}
        if len(set(shapes.values())) != 1 or self.left.ndim != 1:
            raise ValueError(f"constraints: the arrays must be of one length, got {shapes}.")

    @property
    def by(self) -> TextArray:
        """Who gave each pair, of shape (n_pairs,); empty text where it is unknown."""
        return self._no_text() if self.details.by is None else self.details.by

    @property
    def time(self) -> TextArray:
        """When each pair was given, as ISO 8601 text of shape (n_pairs,); empty text where it is unknown."""
        return self._no_text() if self.details.time is None else self.details.time

    @property
    def value(self) -> ValueArray:
        """How sure each answer is, of shape (n_pairs,): from 0, surely different, to 1, surely the same."""
        if self.details.value is not None:
            return self.details.value
        return _read_only(self.is_must_link, np.float64)

    @property
    def is_decided(self) -> BoolArray:
        """Whether each answer says something, of shape (n_pairs,); one of value 0.5 does not."""
        # One flag for all pairs: a read-only view that takes no memory.
        return np.broadcast_to(np.True_, len(self)) if self.details.value is None else self.value != 0.5

    def _no_text(self) -> TextArray:
        # One text for all pairs: a read-only view that takes no memory.
        return np.broadcast_to(np.array("", dtype=object), len(self))

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
        """One pair for an integer; pairs of the same class for a slice, a mask or an index array."""
        if isinstance(index, int | np.integer):
            return Pair(
                int(self.left[index]),
                int(self.right[index]),
                bool(self.is_must_link[index]),
                float(self.weight[index]),
            )
        # An empty list becomes a float array, which NumPy refuses as an index.
        chosen = index if isinstance(index, slice) or np.size(index) else np.empty(0, np.int64)
        columns = {name: getattr(self, name)[chosen] for name in _DTYPES}
        return type(self)(**columns, details=self.details.select(chosen), n_rows=self.n_rows)

    def __contains__(self, pair: object) -> bool:
        """Whether (i, j), or (i, j, is_must_link), is here, whichever end comes first."""
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            return False
        low, high = min(pair[:2]), max(pair[:2])
        found = (np.minimum(self.left, self.right) == low) & (np.maximum(self.left, self.right) == high)
        return bool((found if len(pair) == 2 else found & (self.is_must_link == pair[2])).any())

    def __or__(self, other: PairArrays) -> Self:
        """All pairs of both; of an answer in both, the first one with the larger weight is kept."""
        if not isinstance(other, PairArrays):
            return NotImplemented
        return without_duplicates(concatenate(self, other))

    def __and__(self, other: PairArrays) -> Self:
        """The pairs that `other` holds too, whatever their weight there."""
        if not isinstance(other, PairArrays):
            return NotImplemented
        return self[_is_in(self, other)]

    def __sub__(self, other: PairArrays) -> Self:
        """The pairs that `other` does not hold, whatever their weight there."""
        if not isinstance(other, PairArrays):
            return NotImplemented
        return self[~_is_in(self, other)]

    def __eq__(self, other: object) -> bool:
        """The same pairs, links, weights, persons, times and values; order, side and origin do not matter."""
        if not isinstance(other, PairArrays):
            return NotImplemented
        if len(self) != len(other):
            return False
        mine, theirs = np.split(_answer_keys(self, other), [len(self)])
        mine_order, their_order = np.argsort(mine), np.argsort(theirs)
        if not np.array_equal(mine[mine_order], theirs[their_order]):
            return False
        return all(
            np.array_equal(getattr(self, name)[mine_order], getattr(other, name)[their_order])
            for name in ("weight", *_known_details(self, other))
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # Through the constructor, so that a copied or unpickled object is read-only as well.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


_DTYPES: dict[str, type[np.generic]] = {
    "left": np.int64,
    "right": np.int64,
    "is_must_link": np.bool_,
    "weight": np.float32,
    "source_row": np.int64,
}
_DETAIL_DTYPES: dict[str, type[np.generic]] = {"by": np.object_, "time": np.object_, "value": np.float64}
Pairs = TypeVar("Pairs", bound=PairArrays)


def _read_only(values: npt.ArrayLike, dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def new_pairs(
    kind: type[Pairs], left: IndexArray, right: IndexArray, is_must_link: BoolArray, n_rows: int | None = None
) -> Pairs:
    """Pairs of weight one, numbered in their order."""
    weight, order = np.ones(len(left), np.float32), np.arange(len(left), dtype=np.int64)
    return kind(left, right, is_must_link, weight, order, n_rows=n_rows)


def concatenate(first: Pairs, second: PairArrays) -> Pairs:
    """The pairs of `first`, then those of `second`, repeated ones included."""
    known = _known_details(first, second)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in (*_DTYPES, *known)
    }
    details = AnswerDetails(**{name: columns.pop(name) for name in known})
    n_duplicates = first.n_duplicates + second.n_duplicates
    n_rows = max(filter(None, (first.n_rows, second.n_rows)), default=None)
    return type(first)(**columns, n_duplicates=n_duplicates, details=details, n_rows=n_rows)


def _known_details(first: PairArrays, second: PairArrays) -> list[str]:
    """Names of the details that are known of some pair."""
    both = zip(AnswerDetails._fields, first.details, second.details, strict=True)
    return [name for name, one, other in both if one is not None or other is not None]


def without_duplicates(pairs: Pairs) -> Pairs:
    """Each answer of a person once, as first given but with its largest weight; the rest is counted."""
    keys, first, inverse = np.unique(_answer_keys(pairs), return_index=True, return_inverse=True)
    if len(keys) == len(pairs):
        return pairs
    weight = np.zeros(len(keys), np.float32)
    np.maximum.at(weight, inverse, pairs.weight)
    order = np.argsort(first)
    n_duplicates = pairs.n_duplicates + len(pairs) - len(keys)
    return replace(pairs[first[order]], weight=weight[order], n_duplicates=n_duplicates)


def pair_keys(*sets: PairArrays) -> IndexArray:
    """One number per pair of all `sets`, equal where the unordered ends and the link are equal."""
    left, right, is_must_link = (
        np.concatenate([getattr(pairs, name) for pairs in sets]) for name in ("left", "right", "is_must_link")
    )
    low, high = np.minimum(left, right), np.maximum(left, right)
    span = int(high.max(initial=0)) + 1
    if span > _LARGEST_DIRECT_SPAN:
        rows, renumbered = np.unique(np.concatenate([low, high]), return_inverse=True)
        low, high = np.split(renumbered, 2)
        span = len(rows)
    keys: IndexArray = (low * span + high) * 2 + is_must_link
    return keys


def _answer_keys(*sets: PairArrays) -> IndexArray:
    """One number per answer, equal where pair, link and person are: two people count for more than one."""
    keys = pair_keys(*sets)
    if all(pairs.details.by is None for pairs in sets):
        return keys
    names, person = np.unique(np.concatenate([pairs.by for pairs in sets]).astype(str), return_inverse=True)
    _, pair = np.unique(keys, return_inverse=True)
    numbered: IndexArray = pair * len(names) + person
    return numbered


def positions_among(pairs: PairArrays, others: PairArrays) -> IndexArray:
    """Where each answer stands among others, (n_pairs,), of the same person if possible; -1: nowhere."""
    found = np.full(len(pairs), -1)
    for keys in (pair_keys(pairs, others), _answer_keys(pairs, others)):
        wanted, there = np.split(keys, [len(pairs)])
        order = np.argsort(there, kind="stable")
        if len(order):
            place = order[np.searchsorted(there[order], wanted).clip(max=len(order) - 1)]
            found = np.where(there[place] == wanted, place, found)
    return found


def _is_in(pairs: PairArrays, other: PairArrays) -> BoolArray:
    mine, theirs = np.split(pair_keys(pairs, other), [len(pairs)])
    return np.isin(mine, theirs)


def locate_in(pairs: PairArrays) -> Locate:
    """Name pairs by the row of the file or list they came from, where that is known."""

    def locate(index: int) -> str:
        row = int(pairs.source_row[index])
        return f"row {row} of the pairs" if row >= 0 else f"pair {index}"

    return locate


def invalid(sentence: str) -> InvalidConstraintsError:
    """The error to raise of pairs that cannot be used."""
    return InvalidConstraintsError(f"constraints: {sentence}")


def refuse(wrong: BoolArray, sentence: Callable[[int], str]) -> None:
    """Raise what `sentence` says of the first position that is wrong, if any is."""
    if wrong.any():
        raise invalid(sentence(int(wrong.argmax())))


def check_pairs(left: IndexArray, right: IndexArray, *, locate: Locate, n_rows: int | None) -> None:
    """Refuse negative row numbers, a row linked with itself, and rows that do not exist."""
    lowest = np.minimum(left, right)
    refuse(lowest < 0, lambda k: f"{locate(k)} holds the row number {lowest[k]}; row numbers count from 0.")
    refuse(
        left == right,
        lambda k: f"{locate(k)} links row {left[k]} with itself; a row cannot be linked with itself.",
    )
    if n_rows is not None:
        check_range(left, right, locate=locate, n_rows=n_rows)


def check_range(left: IndexArray, right: IndexArray, *, locate: Locate, n_rows: int) -> None:
    """Refuse pairs of rows beyond the first `n_rows`."""
    n_rows = as_count(n_rows, "n_rows")
    outside = np.maximum(left, right) >= n_rows
    exist = f"there are only {n_rows} rows (0 to {n_rows - 1})" if n_rows else "there is no row"
    refuse(
        outside,
        lambda k: (
            f"{locate(k)} links rows {left[k]} and {right[k]}, but {exist}; {outside.sum()} of "
            f"{len(left)} pairs are out of range. Row numbers count from 0."
        ),
    )


def as_count(value: Any, name: str) -> int:
    """A whole number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise InvalidParameterError(
            f"{name} must be a whole number, zero or more; got {quoted(value)} instead."
        )
    return int(value)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or another mark of a missing value."""
    # pandas.NA cannot be compared (its answer is NA again), so it is recognized by the name of its type.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)  # noqa: PLR0124

"""Check what a user gives as pairs, and say precisely what is wrong with which of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from spherepair.constraints.table import BoolArray, IndexArray, PairTable, WeightArray
from spherepair.errors import InvalidConstraintsError, InvalidParameterError

Locate = Callable[[int], str]
"""Names the pair at a position, e.g. ``must_link[17]`` or ``pairs.csv row 18``."""


def as_pairs(values: Any, name: str) -> tuple[IndexArray, IndexArray]:
    """Both ends of pairs given as a list of tuples or as an array of shape (n_pairs, 2)."""
    array = _as_array(values)
    if array.size == 0:
        array = np.empty((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidConstraintsError(
            f"constraints: {name} must be pairs of row numbers, of shape (n_pairs, 2); "
            f"got shape {array.shape}."
        )
    numbers = as_row_numbers(array.ravel(), lambda k: f"{name}[{k // 2}]").reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def _as_array(values: Any) -> npt.NDArray[Any]:
    if hasattr(values, "__array__"):
        return np.asarray(values)
    values = list(values) if isinstance(values, Iterable) else values
    try:
        array = np.asarray(values)
    except ValueError:
        # NumPy refuses a ragged list; as objects it has a shape that the caller can report.
        return np.asarray(values, dtype=object)
    # One text among numbers makes texts of them all; as objects the wrong one can be named.
    return np.asarray(values, dtype=object) if array.dtype.kind in "US" else array


def as_ends(left: Any, right: Any) -> tuple[IndexArray, IndexArray]:
    """Both ends of pairs given as two arrays of the same length."""
    ends = (as_row_numbers(left, locate_position), as_row_numbers(right, locate_position))
    if len(ends[0]) != len(ends[1]):
        raise InvalidConstraintsError(
            f"constraints: left and right must be of one length; got {len(ends[0])} and {len(ends[1])}."
        )
    return ends


def as_row_numbers(values: Any, locate: Locate) -> IndexArray:
    """A one-dimensional array of whole numbers; floats without a fraction are fine."""
    array = _as_array(values)
    if array.ndim != 1:
        raise InvalidConstraintsError(
            f"constraints: row numbers must be one-dimensional; got shape {array.shape}."
        )
    bad = ~_is_whole(array)
    if bad.any():
        first = int(bad.argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} holds {array.astype(object)[first]!r}; row numbers must "
            "be whole numbers counted from 0."
        )
    return array.astype(np.int64)


def _is_whole(array: npt.NDArray[Any]) -> BoolArray:
    if array.dtype.kind == "i" or array.size == 0:
        return np.ones(array.shape, bool)
    if array.dtype.kind == "u":
        return np.asarray(array <= np.iinfo(np.int64).max)
    if array.dtype.kind == "f":
        # 2.0**63 is the first float beyond int64; a NaN fails every comparison.
        return np.asarray((np.abs(array) < 2.0**63) & (np.floor(array) == array))
    return np.asarray(np.frompyfunc(_is_whole_object, 1, 1)(array).astype(bool))


def _is_whole_object(item: Any) -> bool:
    is_number = isinstance(item, int | float | np.number) and not isinstance(item, bool)
    return is_number and bool(abs(item) < 2**63 and int(item) == item)


def as_links(values: Any, n_pairs: int) -> BoolArray:
    """Flags given as booleans or as 1 (must-link) and 0 (cannot-link)."""
    array = np.asarray(values)
    if array.shape != (n_pairs,):
        raise InvalidConstraintsError(
            f"constraints: is_must_link must be of shape ({n_pairs},); got {array.shape}."
        )
    bad = np.zeros(n_pairs, bool)
    if array.dtype.kind != "b" and n_pairs:
        bad = ~np.isin(array, [0, 1]) if array.dtype.kind in "iuf" else ~bad
    if bad.any():
        first = int(bad.argmax())
        raise InvalidConstraintsError(
            f"constraints: is_must_link[{first}] is {array[first]!r}; it must be True or 1 for a "
            "must-link, False or 0 for a cannot-link."
        )
    return array.astype(bool)


def as_weight(values: Any, n_pairs: int, *, name: str, locate: Locate) -> WeightArray:
    """Weights given as one number, one per pair, or not at all (one)."""
    try:
        array = np.asarray(1.0 if values is None else values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidConstraintsError(f"constraints: {name} must be numbers; {error}.") from error
    if array.shape not in {(), (n_pairs,)}:
        raise InvalidConstraintsError(
            f"constraints: {name} must be one number or one per pair, of shape ({n_pairs},); "
            f"got shape {array.shape}."
        )
    array = np.broadcast_to(array, (n_pairs,))
    with np.errstate(over="ignore", invalid="ignore"):
        bad = ~((array >= 0) & np.isfinite(array.astype(np.float32)))
    if bad.any():
        first = int(bad.argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} has weight {array[first]}; "
            "a weight must be finite and not negative."
        )
    return array.astype(np.float32)


def check_pairs(left: IndexArray, right: IndexArray, *, locate: Locate, n_rows: int | None) -> None:
    """Refuse negative row numbers, a row linked with itself, and rows that do not exist."""
    lowest = np.minimum(left, right)
    if lowest.min(initial=0) < 0:
        first = int((lowest < 0).argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} holds the row number {lowest[first]}; row numbers count from 0."
        )
    itself = left == right
    if itself.any():
        first = int(itself.argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} links row {left[first]} with itself; "
            "a row cannot be linked with itself."
        )
    if n_rows is not None:
        check_range(left, right, locate=locate, n_rows=n_rows)


def check_range(left: IndexArray, right: IndexArray, *, locate: Locate, n_rows: int) -> None:
    """Refuse rows beyond the table of `n_rows` rows."""
    n_rows = as_count(n_rows, "n_rows")
    outside = np.maximum(left, right) >= n_rows
    if outside.any():
        first = int(outside.argmax())
        pair = f"rows {left[first]} and {right[first]}"
        exist = f"there are only {n_rows} rows (0 to {n_rows - 1})" if n_rows else "there is no row"
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} links {pair}, but {exist}; "
            f"{outside.sum()} of {len(left)} pairs are out of range. Row numbers count from 0."
        )


def as_source_row(values: Any, n_pairs: int) -> IndexArray:
    """Where each pair was given; its position, unless said otherwise."""
    if values is None:
        return np.arange(n_pairs, dtype=np.int64)
    array = np.asarray(values)
    if array.shape != (n_pairs,) or array.dtype.kind not in "iu":
        raise InvalidConstraintsError(
            f"constraints: source_row must be whole numbers of shape ({n_pairs},); "
            f"got {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.int64)


def locate_position(index: int) -> str:
    """Name a pair by its position."""
    return f"pair {index}"


def locate_in(table: PairTable) -> Locate:
    """Name pairs by the row of the file or list they came from, where that is known."""

    def locate(index: int) -> str:
        row = int(table.source_row[index])
        return f"row {row} of the pairs" if row >= 0 else f"pair {index}"

    return locate


def as_count(value: Any, name: str) -> int:
    """A whole number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise InvalidParameterError(f"{name} must be a whole number, zero or more; got {value!r} instead.")
    return int(value)

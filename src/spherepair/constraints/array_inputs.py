"""Pairs given in Python, as lists or arrays: their rows, links and origins, checked one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from spherepair.constraints.pair_arrays import BoolArray, IndexArray, Locate, invalid, refuse
from spherepair.errors import quoted


def locate_position(index: int) -> str:
    """Name a pair by its position."""
    return f"pair {index}"


def as_pairs(values: Any, name: str) -> IndexArray:
    """Pairs, of shape (n_pairs, 2), given as a list of tuples or as an array of this shape."""
    array = _as_array(values)
    if array.size == 0:
        array = np.empty((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise invalid(f"{name} must be pairs of row numbers, of shape (n_pairs, 2); got shape {array.shape}.")
    return as_row_numbers(array.ravel(), lambda k: f"{name}[{k // 2}]").reshape(-1, 2)


def as_ends(left: Any, right: Any) -> tuple[IndexArray, IndexArray]:
    """Both ends of pairs given as two arrays of the same length."""
    ends = (as_row_numbers(left, locate_position), as_row_numbers(right, locate_position))
    if len(ends[0]) != len(ends[1]):
        raise invalid(f"left and right must be of one length; got {len(ends[0])} and {len(ends[1])}.")
    return ends


def as_links(values: Any, n_pairs: int) -> BoolArray:
    """Flags given as booleans or as 1 (must-link) and 0 (cannot-link)."""
    array = np.asarray(values)
    if array.shape != (n_pairs,):
        raise invalid(f"is_must_link must be of shape ({n_pairs},); got {array.shape}.")
    bad = np.zeros(n_pairs, bool)
    if array.dtype.kind != "b":
        bad = ~np.isin(array, [0, 1]) if array.dtype.kind in "iuf" else ~bad
    refuse(
        bad,
        lambda k: (
            f"is_must_link[{k}] is {quoted(array[k])}; it must be True or 1 for a must-link, False or 0 for "
            "a cannot-link."
        ),
    )
    return array.astype(bool)


def as_source_row(values: Any, n_pairs: int) -> IndexArray:
    """Rows that the pairs come from; by default their positions."""
    if values is None:
        return np.arange(n_pairs, dtype=np.int64)
    array = np.asarray(values)
    if array.shape != (n_pairs,) or array.dtype.kind not in "iu":
        raise invalid(
            f"source_row must be whole numbers of shape ({n_pairs},); "
            f"got {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.int64)


def as_row_numbers(values: Any, locate: Locate) -> IndexArray:
    """A one-dimensional array of whole numbers; floats without a fraction are fine."""
    array = _as_array(values)
    if array.ndim != 1:
        raise invalid(f"row numbers must be one-dimensional; got shape {array.shape}.")
    refuse(
        ~_is_whole(array),
        lambda k: (
            f"{locate(k)} holds {quoted(array.astype(object)[k])}; row numbers must be whole numbers counted "
            "from 0."
        ),
    )
    return array.astype(np.int64)


def _as_array(values: Any) -> npt.NDArray[Any]:
    """An array of whatever was given; of objects where the values are of several types or lengths."""
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

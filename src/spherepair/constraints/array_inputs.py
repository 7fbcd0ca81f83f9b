"""Lists and arrays of which pairs are made: rows, links, weights, origins and details, checked one by one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from spherepair.constraints.pair_arrays import (
    AnswerDetails,
    BoolArray,
    IndexArray,
    Locate,
    TextArray,
    ValueArray,
    WeightArray,
    invalid,
    is_missing,
    refuse,
)
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


def as_weight(values: Any, n_pairs: int, *, name: str, locate: Locate) -> WeightArray:
    """Weights given as one number for all pairs, one per pair, or None for one."""
    array = _as_numbers(1.0 if values is None else values, name)
    if array.shape not in {(), (n_pairs,)}:
        raise invalid(
            f"{name} must be one number or one per pair, of shape ({n_pairs},); got shape {array.shape}."
        )
    array = np.broadcast_to(array, (n_pairs,))
    with np.errstate(over="ignore", invalid="ignore"):
        bad = ~((array >= 0) & np.isfinite(array.astype(np.float32)))
    refuse(bad, lambda k: f"{locate(k)} has weight {array[k]}; a weight must be finite and not negative.")
    return array.astype(np.float32)


def _as_numbers(values: Any, name: str) -> ValueArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise invalid(f"{name} must be numbers; {error}.") from error


def as_details(by: Any, time: Any, value: Any, is_must_link: BoolArray, *, locate: Locate) -> AnswerDetails:
    """Persons, times and values of the pairs; None for what says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> as_details(["ann", ""], ["", ""], [0.9, 0.0], np.array([True, False]), locate=str)
    AnswerDetails(by=array(['ann', ''], dtype=object), time=None, value=array([0.9, 0. ]))
    """
    n_pairs = len(is_must_link)
    times = _as_texts(time, n_pairs, name="time")
    if times is not None:
        _refuse_other_times(times, locate)
    return AnswerDetails(_as_texts(by, n_pairs, name="by"), times, _as_value(value, is_must_link, locate))


def _as_texts(values: Any, n_pairs: int, *, name: str) -> TextArray | None:
    """Texts given as one for all pairs or one per pair; equal ones are stored once."""
    if values is None:
        return None
    given = [values] * n_pairs if isinstance(values, str) else list(values)
    if len(given) != n_pairs:
        raise invalid(f"{name} must be one text or one per pair, of shape ({n_pairs},); got {len(given)}.")
    texts: dict[str, str] = {}
    array = np.empty(n_pairs, dtype=object)
    for index, item in enumerate(given):
        # Half a character outside the basic plane cannot be written to any file.
        text = "" if is_missing(item) else str(item).strip().encode("utf-8", "replace").decode()
        array[index] = texts.setdefault(text, text)
    return array if any(texts) else None


def _refuse_other_times(times: TextArray, locate: Locate) -> None:
    wrong = {text for text in set(times.tolist()) if text and not _is_time(text)}
    refuse(
        np.array([text in wrong for text in times.tolist()], bool),
        lambda k: (
            f"{locate(k)} has time {quoted(times[k])}; a time must be written as in "
            "2026-03-31T09:30:00+00:00 "
            "(ISO 8601) or left blank. Rename a column that holds something else."
        ),
    )


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _as_value(values: Any, is_must_link: BoolArray, locate: Locate) -> ValueArray | None:
    if values is None:
        return None
    array, shape = _as_numbers(values, "value"), is_must_link.shape
    if array.shape != shape:
        raise invalid(f"value must be one number per pair, of shape {shape}; got shape {array.shape}.")
    refuse(
        ~((array >= 0) & (array <= 1)),
        lambda k: (
            f"{locate(k)} has value {array[k]}; a value must be between 0 (surely different) and 1 "
            "(surely the same)."
        ),
    )

    def opposed(index: int) -> str:
        link, side = ("must-link", "more") if is_must_link[index] else ("cannot-link", "less")
        return (
            f"{locate(index)} is a {link} of value {array[index]}; the value of a {link} must be 0.5 or "
            f"{side}. Correct the link or the value."
        )

    refuse(np.where(is_must_link, array < 0.5, array > 0.5), opposed)
    return array if (array != is_must_link).any() else None

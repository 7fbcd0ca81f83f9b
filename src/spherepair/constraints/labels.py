"""Turn labels of any kind into class numbers, and find those that are not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spherepair.constraints.table import BoolArray, IndexArray
from spherepair.errors import InvalidConstraintsError


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as numbers.

    Parameters
    ----------
    codes : array of shape (n_rows,)
        Position of each label in `classes`; -1 where the label is not known.
    classes : array of shape (n_classes,)
        The different labels, sorted.
    """

    codes: IndexArray
    classes: npt.NDArray[Any]


def encode_labels(y: Any) -> EncodedLabels:
    """Complete labels; a missing one is an error."""
    labels = _as_vector(y, "y")
    unknown = _is_missing(labels)
    if unknown.any():
        raise InvalidConstraintsError(
            f"constraints: y[{unknown.argmax()}] is missing ({unknown.sum()} of {len(labels)}); "
            "from_labels needs the label of every row. Use from_groups for partial labels."
        )
    return _encode_known(labels, unknown, "y")


def encode_groups(groups: Any) -> EncodedLabels:
    """Partial labels; None, NaN and -1 mean not known."""
    labels = _as_vector(groups, "groups")
    unknown = _is_missing(labels)
    if labels.dtype.kind in "if":
        unknown = unknown | (labels == -1)
    elif labels.dtype.kind == "O":
        unknown = unknown | np.frompyfunc(_is_minus_one, 1, 1)(labels).astype(bool)
    return _encode_known(labels, unknown, "groups")


def _as_vector(values: Any, name: str) -> npt.NDArray[Any]:
    # A list stays a list of objects: NumPy would turn ["a", nan] into the texts "a" and "nan".
    array = np.asarray(values) if hasattr(values, "dtype") else _as_objects(values)
    if array.ndim != 1:
        raise InvalidConstraintsError(
            f"constraints: {name} must be one label per row, one-dimensional; got shape {array.shape}."
        )
    return array


def _as_objects(values: Any) -> npt.NDArray[Any]:
    array = np.array(list(values), dtype=object)
    return array if array.size else np.empty(0, np.int64)


def _is_missing(labels: npt.NDArray[Any]) -> BoolArray:
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "mM":
        return np.asarray(np.isnat(labels))
    if labels.dtype.kind == "O":
        return np.asarray(np.frompyfunc(_is_missing_value, 1, 1)(labels).astype(bool))
    return np.zeros(labels.shape, bool)


def _is_missing_value(value: Any) -> bool:
    # pandas.NA cannot be compared (its answer is NA again), so it is known by its type's name.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)  # noqa: PLR0124


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == -1


def _encode_known(labels: npt.NDArray[Any], unknown: BoolArray, name: str) -> EncodedLabels:
    codes = np.full(len(labels), -1, np.int64)
    classes, codes[~unknown] = np.unique(_of_one_kind(labels[~unknown], name), return_inverse=True)
    return EncodedLabels(codes, classes)


def _of_one_kind(known: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if known.dtype.kind != "O":
        return known
    kinds = sorted({kind.__name__ for kind in map(type, known)})
    if len(kinds) > 1 and any("str" in kind for kind in kinds):
        raise InvalidConstraintsError(
            f"constraints: {name} mixes text with other labels ({', '.join(kinds)}); use labels of one kind."
        )
    return np.asarray(known.tolist()) if len(known) else known

"""A data set as it was stored, before any preprocessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.errors import InvalidDataError, InvalidParameterError

Rows: TypeAlias = Any
"""Dense array (n_rows, n_features), SciPy CSR matrix of that shape, or documents (n_rows,)."""


@dataclass(frozen=True)
class Quantisation:
    """Features stored as bytes: value = low + byte / 255 * (high - low), each (n_features,)."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RawData:
    """All rows of a data set, training rows first.

    Attributes
    ----------
    X : array, CSR matrix or array of str
        Features (n_rows, n_features), images (n_rows, height, width) or documents (n_rows,).
    y : ndarray of shape (n_rows,)
        Classes.
    n_train : int or None
        How many of the rows are for training; None when the source has no split.
    target_names : tuple of str
        Names of the classes where the source tells them.
    quantisation : Quantisation or None
        How to read features that are stored as bytes.
    """

    X: Rows
    y: NDArray[np.int64]
    n_train: int | None
    target_names: tuple[str, ...] = ()
    quantisation: Quantisation | None = None


def check_raw(raw: RawData, *, source: str) -> RawData:
    """Return `raw` with images flattened and labels as int64, or say what is wrong with it."""
    X, y = raw.X, np.asarray(raw.y)
    if not sparse.issparse(X) and X.ndim > 2:
        X = X.reshape(len(X), -1)
    if y.ndim != 1 or y.dtype.kind not in "iu" or X.shape[0] != len(y) or len(y) == 0:
        raise InvalidDataError(
            f"{source}: y must hold one whole number for each of the {X.shape[0]} rows of X, got "
            f"{y.dtype} {y.shape} instead."
        )
    if X.dtype != object:
        _check_numbers(X, source=source)
    _check_quantisation(X, raw.quantisation, source=source)
    return replace(raw, X=X, y=y.astype(np.int64))


def keep_classes(raw: RawData, classes: Sequence[int]) -> RawData:
    """Return the rows of the given classes, in their order; labels stay as they are."""
    unknown = sorted(set(classes) - set(np.unique(raw.y).tolist()))
    if unknown or len(set(classes)) == 0:
        raise InvalidParameterError(
            f"classes must be taken from {np.unique(raw.y).tolist()}, got {list(classes)} instead."
        )
    kept = np.isin(raw.y, list(classes))
    n_train = None if raw.n_train is None else int(kept[: raw.n_train].sum())
    return replace(raw, X=raw.X[kept], y=raw.y[kept], n_train=n_train)


def _check_numbers(X: Rows, *, source: str) -> None:
    if X.ndim != 2 or X.shape[1] == 0 or X.dtype.kind not in "biuf":
        raise InvalidDataError(
            f"{source}: X must be a table of numbers with at least one column, got {X.dtype} "
            f"{X.shape} instead."
        )
    values = X.data if sparse.issparse(X) else X
    # Bytes are always finite; looking would double the memory of the large image sets.
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidDataError(
            f"{source}: X has {int((~np.isfinite(values)).sum())} NaN or infinite values; the file "
            "must be made again."
        )


def _check_quantisation(X: Rows, scale: Quantisation | None, *, source: str) -> None:
    if scale is None:
        return
    shapes = (scale.low.shape, scale.high.shape)
    if X.dtype != np.uint8 or shapes != ((X.shape[1],), (X.shape[1],)):
        raise InvalidDataError(
            f"{source}: scale_low and scale_high go with uint8 features and have one value for "
            f"each of them, got {X.dtype} {X.shape} with {shapes[0]} and {shapes[1]} instead."
        )

"""Putting columns on a common footing: learned on fit, kept in the saved model.

    x -> (x - shift) * factor

``"standard"`` gives every column zero mean and unit variance. ``"auto"`` does so only where columns
are in different units (a table of ages and incomes). Where they share one unit (pixels, tf-idf,
features that were standardised already) it keeps their relative sizes and only brings the root mean
square of the whole table to one: standardising pixels would blow up the nearly empty ones at the rim.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

#: Columns count as being in one unit while the typical magnitudes stay within this factor.
SAME_UNIT_FACTOR = 10.0
#: A common offset larger than this many spreads (years, temperatures in kelvin) is taken away.
OFFSET_SPREADS = 3.0
#: Few enough that a block in float64 stays in a core's cache between its sums.
_BLOCK_ELEMENTS = 2**18


@dataclass(frozen=True)
class Scaling:
    """An affine map of the columns; ``None`` stands for the identity."""

    shift: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    @classmethod
    def identity(cls) -> Scaling:
        """Leave rows as they are."""
        return cls()

    def on(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The map as a function of tensors on ``device``, giving float32.

        A shift is taken away in float64 where the device has that: in float32 a time stamp of 1.7e9 is known
        to the nearest two minutes only, and rows would come out equal once its offset is gone.
        """
        if self.shift is None or self.factor is None:
            return lambda x: x.float()
        if not self.shift.any():
            only = torch.from_numpy(self.factor).to(device, torch.float32)
            return lambda x: x.float() * only
        wide = torch.float32 if device.type == "mps" else torch.float64
        shift = torch.from_numpy(self.shift).to(device, wide)
        factor = torch.from_numpy(self.factor).to(device, wide)
        return lambda x: ((x.to(wide) - shift) * factor).float()


def learn_scaling(X: Any, kind: str) -> Scaling:
    """Learn the scaling of that kind from a table, a block of rows at a time.

    Parameters
    ----------
    X : ndarray, memory map or CSR matrix of shape (n_rows, n_features)
    kind : {"auto", "standard", "none"}
    """
    if kind == "none":
        return Scaling.identity()
    columns = _column_statistics(X)
    if kind == "standard" or not _same_unit(columns):
        return _per_column(columns)
    return _common(columns)


_Vector = NDArray[np.float64]


@dataclass(frozen=True)
class _Columns:
    mean: _Vector
    std: _Vector
    largest: _Vector


def _column_statistics(X: Any) -> _Columns:
    """Mean, standard deviation and largest magnitude of every column in two passes, on all threads.

    The second pass takes the variance about the mean: sums of squares alone would lose it for
    columns such as time stamps, whose offset is a million times their spread.
    """
    n_rows, n_features = X.shape
    is_sparse = sparse.issparse(X)
    stored_in_row = X.nnz / n_rows if is_sparse else n_features
    size = max(1, int(_BLOCK_ELEMENTS / max(1.0, stored_in_row)))
    starts = range(0, n_rows, size)
    look, squares = (_look_sparse, _squares_sparse) if is_sparse else (_look, _squares)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        total, largest = np.zeros(n_features), np.zeros(n_features)
        for sums, magnitudes in pool.map(lambda start: look(X[start : start + size]), starts):
            total += sums
            np.maximum(largest, magnitudes, out=largest)
        mean = total / n_rows
        variance = np.zeros(n_features)
        for part in pool.map(lambda start: squares(X[start : start + size], mean), starts):
            variance += part / n_rows
    return _Columns(mean, np.sqrt(variance), largest)


def _look(block: Any) -> tuple[_Vector, _Vector]:
    """Sum and largest magnitude of every column."""
    wide = np.asarray(block, dtype=np.float64)
    return wide.sum(axis=0), np.maximum(wide.max(axis=0), -wide.min(axis=0))


def _squares(block: Any, mean: _Vector) -> _Vector:
    """Sum of the squared distances from the mean, in every column."""
    centred = np.asarray(block, dtype=np.float64) - mean
    summed: _Vector = np.square(centred, out=centred).sum(axis=0)
    return summed


def _look_sparse(block: Any) -> tuple[_Vector, _Vector]:
    column, value, n_features = _stored(block)
    largest = np.zeros(n_features)
    np.maximum.at(largest, column, np.abs(value))
    return _sums(column, value, n_features), largest


def _squares_sparse(block: Any, mean: _Vector) -> _Vector:
    column, value, n_features = _stored(block)
    n_stored = _sums(column, np.ones_like(value), n_features)
    stored = _sums(column, np.square(value - mean[column]), n_features)
    empty: _Vector = (block.shape[0] - n_stored) * np.square(mean)
    return stored + empty


def _sums(column: NDArray[np.integer[Any]], value: _Vector, n_features: int) -> _Vector:
    return np.bincount(column, weights=value, minlength=n_features).astype(np.float64, copy=False)


def _stored(block: Any) -> tuple[NDArray[np.integer[Any]], _Vector, int]:
    """Columns and values of the entries of a sparse matrix that are stored, each once."""
    if not block.has_canonical_format:
        block = block.copy()  # a slice of all rows is the matrix itself
        block.sum_duplicates()
    return block.indices, block.data.astype(np.float64), block.shape[1]


def _varies(columns: _Columns) -> NDArray[np.bool_]:
    # Constant columns come out with a spread of rounding size; dividing by it would make noise.
    return np.asarray(columns.std > 1e-7 * np.maximum(columns.largest, 1e-30), dtype=bool)


def _same_unit(columns: _Columns) -> bool:
    largest = columns.largest[_varies(columns)]
    if len(largest) < 2:
        return False
    low, middle = np.quantile(largest, [0.25, 0.5])
    return bool(largest.max() <= SAME_UNIT_FACTOR * middle and middle <= SAME_UNIT_FACTOR * low)


def _per_column(columns: _Columns) -> Scaling:
    factor = np.zeros_like(columns.std)
    np.divide(1.0, columns.std, out=factor, where=_varies(columns))
    return Scaling(columns.mean, factor)


def _common(columns: _Columns) -> Scaling:
    spread = float(np.sqrt(np.mean(np.square(columns.std))))
    shift = np.zeros_like(columns.mean)
    if np.abs(columns.mean.mean()) > OFFSET_SPREADS * spread:
        shift = columns.mean
    size = float(np.sqrt(np.mean(np.square(columns.std) + np.square(columns.mean - shift))))
    factor = np.full_like(shift, 1.0 / size if size > 0 else 0.0)
    return Scaling(shift, factor)

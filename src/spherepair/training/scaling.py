"""How the columns of a table are scaled.

The scaling ``x -> (x - shift) * factor`` is learned on fit and saved with the model. ``"standard"`` gives
every column zero mean and unit variance. ``"auto"`` does so only where columns are in different units (a
table of ages and incomes). Where they share one unit (pixels, tf-idf, features that were standardized
already) it keeps their relative sizes and only brings the root mean square of the whole table to one:
standardizing pixels would blow up the nearly empty ones at the rim.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from spherepair.errors import InvalidParameterError, SpherePairWarning
from spherepair.training.rows import Scaling

#: A column that varies by a smaller share of its size is taken for constant: in float32 that may be rounding;
#: in float64 rounding is smaller yet.
COARSE_SPREAD, FINE_SPREAD, ROUNDING = 1e-7, 1e-12, 1e-14
#: Columns share one unit if their typical magnitudes are within this factor.
SAME_UNIT_FACTOR = 10.0
#: A common offset larger than this many spreads (years, temperatures in kelvin) is subtracted.
OFFSET_SPREADS = 3.0
#: Values in a block of the statistics: few enough to stay in a core's cache as float64 between two sums.
STATISTICS_ENTRIES = 2**18

_Vector = NDArray[np.float64]


def learn_scaling(X: Any, kind: str, columns: ColumnStatistics | None = None) -> Scaling:
    """Learn the scaling of that kind from a table, a block of rows at a time.

    Parameters
    ----------
    X : ndarray, memory map or CSR matrix of shape (n_rows, n_features)
    kind : {"auto", "common", "standard", "none"}
    columns : ColumnStatistics, optional
        Of the table that ``X`` is a sample of. A column that is constant in the sample is left out all the
        same: a network that has never seen it vary cannot tell what that means.
    """
    _check_columns(columns, X.shape[1])
    if kind == "none":
        return Scaling.identity()
    found = _column_statistics(X)
    if columns is not None:
        found = replace(columns, std=np.where(_varies(found), columns.std, 0.0))
    columns = found
    if kind == "standard" or (kind == "auto" and not _same_unit(columns)):
        return _per_column(columns)
    return _common(columns)


def _check_columns(columns: Any, n_features: int) -> None:
    if columns is None:
        return
    if not isinstance(columns, ColumnStatistics) or len(columns.mean) != n_features:
        raise InvalidParameterError(
            f"columns must be the ColumnStatistics of a table with {n_features} columns, which "
            "spherepair.scale.fit learns; leave it out to scale the columns by X."
        )


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Mean, spread and largest magnitude of every column, and the share of it that may be rounding."""

    mean: _Vector
    std: _Vector
    largest: _Vector
    resolution: float


class ColumnStream:
    """Statistics of columns whose rows are met a block at a time, in one pass.

    The sums of squares of two blocks, each about its own mean, are joined by the distance of the means
    (Chan, Golub and LeVeque 1983).

    Examples
    --------
    >>> stream = ColumnStream()
    >>> stream.add(np.array([[1.0, 0.0], [3.0, 0.0]]))
    >>> stream.add(np.array([[5.0, -4.0]]))
    >>> found = stream.statistics()
    >>> found.mean, found.largest
    (array([ 3.        , -1.33333333]), array([5., 4.]))
    """

    def __init__(self) -> None:
        self._n_rows = 0
        self._mean = self._squares = self._largest = np.zeros(0)
        self._is_coarse = False

    def add(self, block: Any) -> None:
        """Take in an array of shape (n_rows, n_features)."""
        size = max(1, STATISTICS_ENTRIES // max(1, block.shape[1]))
        for start in range(0, len(block), size):
            part = block[start : start + size]
            sums, largest = _sums_dense(part)
            self._join(len(part), sums / len(part), largest, _squares(part, sums / len(part)), block.dtype)

    def add_columns(self, columns: list[NDArray[Any]]) -> None:
        """Take in a block whose columns are arrays of their own."""
        n_rows = len(columns[0])
        if n_rows == 0:
            return
        mean, largest, squares = np.empty((3, len(columns)))
        wide = np.empty(n_rows)
        for k, column in enumerate(columns):
            wide[:] = column
            largest[k] = max(wide.max(), -wide.min())
            mean[k] = wide.mean()
            wide -= mean[k]
            squares[k] = wide @ wide
        self._join(n_rows, mean, largest, squares, np.result_type(*columns))

    def statistics(self) -> ColumnStatistics:
        """What was met so far."""
        resolution = COARSE_SPREAD if self._is_coarse else FINE_SPREAD
        return ColumnStatistics(
            self._mean, np.sqrt(self._squares / max(1, self._n_rows)), self._largest, resolution
        )

    def _join(self, n_rows: int, mean: _Vector, largest: _Vector, squares: _Vector, dtype: Any) -> None:
        if not self._n_rows:
            self._mean, self._squares, self._largest = (np.zeros(len(mean)) for _ in range(3))
        n_before, self._n_rows = self._n_rows, self._n_rows + n_rows
        apart = mean - self._mean
        self._mean = self._mean + apart * (n_rows / self._n_rows)
        self._squares = self._squares + squares + np.square(apart) * (n_before * n_rows / self._n_rows)
        self._largest = np.maximum(self._largest, largest)
        self._is_coarse |= dtype in (np.float32, np.float16)


def _column_statistics(X: Any) -> ColumnStatistics:
    """Mean, standard deviation and largest magnitude of every column in two passes, on all threads.

    The second pass takes the variance about the mean: sums of squares alone would lose it for
    columns such as time stamps, whose offset is a million times their spread.
    """
    n_rows, n_features = X.shape
    is_sparse = sparse.issparse(X)
    stored_in_row = X.nnz / n_rows if is_sparse else n_features
    size = max(1, int(STATISTICS_ENTRIES / max(1.0, stored_in_row)))
    starts = range(0, n_rows, size)
    sums_of, squares = (_sums_sparse, _squares_sparse) if is_sparse else (_sums_dense, _squares)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        total, largest = np.zeros(n_features), np.zeros(n_features)
        for sums, magnitudes in pool.map(lambda start: sums_of(X[start : start + size]), starts):
            total += sums
            np.maximum(largest, magnitudes, out=largest)
        mean = total / n_rows
        variance = np.zeros(n_features)
        for part in pool.map(lambda start: squares(X[start : start + size], mean), starts):
            variance += part / n_rows
    is_coarse = X.dtype in (np.float32, np.float16)
    return ColumnStatistics(mean, np.sqrt(variance), largest, COARSE_SPREAD if is_coarse else FINE_SPREAD)


def _sums_dense(block: Any) -> tuple[_Vector, _Vector]:
    """Sum and largest magnitude of every column."""
    wide = np.asarray(block, dtype=np.float64)
    return wide.sum(axis=0), np.maximum(wide.max(axis=0), -wide.min(axis=0))


def _squares(block: Any, mean: _Vector) -> _Vector:
    """Sum of the squared distances from the mean, in every column."""
    centered = np.asarray(block, dtype=np.float64) - mean
    return np.asarray(np.square(centered, out=centered).sum(axis=0))


def _sums_sparse(block: Any) -> tuple[_Vector, _Vector]:
    column, value, n_features = _stored(block)
    largest = np.zeros(n_features)
    np.maximum.at(largest, column, np.abs(value))
    return _sums(column, value, n_features), largest


def _squares_sparse(block: Any, mean: _Vector) -> _Vector:
    column, value, n_features = _stored(block)
    n_stored = _sums(column, np.ones_like(value), n_features)
    stored = _sums(column, np.square(value - mean[column]), n_features)
    return np.asarray(stored + (block.shape[0] - n_stored) * np.square(mean))


def _sums(column: NDArray[np.integer[Any]], value: _Vector, n_features: int) -> _Vector:
    return np.bincount(column, weights=value, minlength=n_features).astype(np.float64, copy=False)


def _stored(block: Any) -> tuple[NDArray[np.integer[Any]], _Vector, int]:
    """Columns and values of the stored entries of a sparse matrix, duplicates summed."""
    if not block.has_canonical_format:
        block = block.copy()  # a slice of all rows is the matrix itself
        block.sum_duplicates()
    return block.indices, block.data.astype(np.float64), block.shape[1]


def _varies(columns: ColumnStatistics) -> NDArray[np.bool_]:
    # Constant columns come out with a spread of rounding size; dividing by it would make noise.
    return np.asarray(columns.std > columns.resolution * np.maximum(columns.largest, 1e-30), dtype=bool)


def _same_unit(columns: ColumnStatistics) -> bool:
    largest = columns.largest[_varies(columns)]
    if len(largest) < 2:
        return False
    low, middle = np.quantile(largest, [0.25, 0.5])
    return bool(largest.max() <= SAME_UNIT_FACTOR * middle and middle <= SAME_UNIT_FACTOR * low)


def _per_column(columns: ColumnStatistics) -> Scaling:
    factor = np.zeros_like(columns.std)
    np.divide(1.0, columns.std, out=factor, where=_varies(columns))
    _warn_about_tiny_spreads(columns)
    return Scaling(columns.mean, factor)


def _warn_about_tiny_spreads(columns: ColumnStatistics) -> None:
    """Name the columns that are left out, though they are not quite constant."""
    is_rounding = columns.std <= ROUNDING * columns.largest
    left_out = np.flatnonzero(~_varies(columns) & ~is_rounding)
    if len(left_out):
        warnings.warn(
            f"{len(left_out)} column(s) of X, the first at position {left_out[0]}, vary by less than "
            f"{columns.resolution:g} of their size and are left out; subtract their mean first, in float64.",
            SpherePairWarning,
            stacklevel=6,
        )


def _common(columns: ColumnStatistics) -> Scaling:
    spread = float(np.sqrt(np.mean(np.square(columns.std))))
    shift = np.zeros_like(columns.mean)
    if np.abs(columns.mean.mean()) > OFFSET_SPREADS * spread:
        shift = columns.mean
    size = float(np.sqrt(np.mean(np.square(columns.std) + np.square(columns.mean - shift))))
    factor = np.full_like(shift, 1.0 / size if size > 0 else 0.0)
    return Scaling(shift, factor)

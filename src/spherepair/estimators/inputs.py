"""Checking what users bring: tables of features and constraints on their rows."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from spherepair.constraints import Constraints
from spherepair.errors import (
    ConstraintWarning,
    InvalidConstraintsError,
    InvalidDataError,
    InvalidParameterError,
)

CONFLICT_POLICIES = ("raise", "drop", "keep")
_BLOCK_ELEMENTS = 2**22


def check_table(estimator: Any, X: Any, *, reset: bool, finite: bool = True) -> Any:
    """Turn ``X`` into a NumPy array or CSR matrix of finite numbers, without copying where possible.

    Parameters
    ----------
    estimator : BaseEstimator
        Keeps (``reset=True``) or must agree with the number and names of the columns.
    X : ndarray, memory map, sparse matrix, torch tensor, or pandas / polars / pyarrow table
    reset : bool
    finite : bool, default=True
        Whether to look for NaN and infinity here; prediction does so while it reads the rows anyway.
    """
    if isinstance(X, torch.Tensor):
        X = _tensor_to_array(X)
    names = _column_names(X)
    try:
        array = check_array(
            X if names is None else _table_to_array(X, names),
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
            estimator=estimator,
            input_name="X",
        )
        # Only the number and the names of the columns: the values were checked above.
        validate_data(estimator, array if names is None else X, reset=reset, skip_check_array=True)
    except InvalidDataError:
        raise
    except (ValueError, TypeError) as error:
        _refuse_text(X, names, error)
        # Sparse formats and dimensions: scikit-learn's wording, our class.
        raise InvalidDataError(str(error)) from error
    if finite:
        require_finite(array, names)
    return array


def check_tensor(estimator: Any, X: torch.Tensor) -> torch.Tensor:
    """A tensor on a GPU, to be used where it is: its shape checked, its values not yet."""
    if X.ndim != 2 or len(X) == 0 or X.shape[1] != estimator.n_features_in_ or X.is_complex():
        raise InvalidDataError(
            f"X has shape {tuple(X.shape)}, but {type(estimator).__name__} is expecting rows of "
            f"{estimator.n_features_in_} features as input."
        )
    return X.detach()


def check_constraints(constraints: Any, n_rows: int, *, on_conflict: str) -> Constraints:
    """Validate pairs against the table and settle contradictions as asked.

    Parameters
    ----------
    constraints : Constraints or None
    n_rows : int
    on_conflict : {"raise", "drop", "keep"}
    """
    if on_conflict not in CONFLICT_POLICIES:
        raise InvalidParameterError(
            f"on_conflict must be one of {CONFLICT_POLICIES}, got {on_conflict!r} instead."
        )
    if constraints is None:
        constraints = Constraints.from_pairs()
    if not isinstance(constraints, Constraints):
        raise InvalidConstraintsError(
            f"constraints must be a Constraints, got {type(constraints).__name__} instead; make one with "
            "Constraints.from_pairs(must_link=..., cannot_link=...) or Constraints.read(file)."
        )
    constraints.validate(n_rows)
    if on_conflict == "keep":
        return constraints
    conflicts = constraints.conflicts()
    if conflicts and on_conflict == "raise":
        raise conflicts.to_error()
    return constraints.drop_conflicts() if conflicts else constraints


def refuse_pairs_as_labels(y: Any) -> None:
    """``fit(X, pairs)`` gives the pairs as ``y``, which is ignored: nobody wants that."""
    if isinstance(y, Constraints):
        raise InvalidConstraintsError(
            "constraints were given as y, which is ignored; give them by name: fit(X, constraints=pairs)."
        )


def warn_about_losses(constraints: Constraints, batch_size: int) -> None:
    """Say what is lost with few or one-sided pairs."""
    n_pairs = len(constraints)
    n_must = int(np.count_nonzero(constraints.is_must_link))
    message = None
    if n_pairs == 0:
        message = (
            "no constraints were given: the embedding follows the features alone, and the clusters "
            "need not be the ones you have in mind."
        )
    elif n_must == 0:
        message = (
            f"all {n_pairs} constraints are cannot-links: nothing pulls rows of one cluster together "
            "but their features; add some must-links."
        )
    elif n_must == n_pairs:
        message = (
            f"all {n_pairs} constraints are must-links: nothing pushes clusters apart, and their number "
            "cannot be read from the angles; add some cannot-links."
        )
    elif n_pairs < batch_size:
        message = (
            f"only {n_pairs} constraints were given, fewer than a batch of {batch_size}: expect labels "
            "that vary with random_state; a few hundred pairs make them stable."
        )
    if message is not None:
        warnings.warn(message, ConstraintWarning, stacklevel=3)


def _column_names(X: Any) -> list[str] | None:
    """Names of the columns where ``X`` is a table (pandas, polars, pyarrow), else ``None``."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else [str(name) for name in names]


def _tensor_to_array(tensor: torch.Tensor) -> Any:
    if tensor.layout != torch.strided:
        raise InvalidDataError(
            f"X is a torch tensor of layout {tensor.layout}; give X.to_dense() or a SciPy CSR matrix."
        )
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16; float32 holds all its values.
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _table_to_array(table: Any, names: list[str]) -> Any:
    """A numeric table as one array; a column that is no number is an error that names it."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidDataError(f"X has more than one column named {twice[0]!r}; rename or drop one of them.")
    try:
        import narwhals as nw
    except ImportError:
        return table
    frame = nw.from_native(table, eager_only=True)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise InvalidDataError(
                f"column {name!r} is not numeric (its type is {dtype}); drop it or encode it, for "
                "instance with sklearn.preprocessing.OneHotEncoder."
            )
    # Columns side by side in memory, as frames have them, would make every row a walk through all of it.
    array = frame.to_numpy()
    return array if array.flags.c_contiguous and array.flags.writeable else np.array(array, order="C")


class _NotNumericError(InvalidDataError, TypeError):
    """Something in the table is no number; scikit-learn's users expect a TypeError for objects."""


def _refuse_text(X: Any, names: list[str] | None, error: Exception) -> None:
    """Name the first column with something that cannot be read as a number, if that is the trouble."""
    if sparse.issparse(X):
        return
    table = np.asarray(X, dtype=object)
    for position in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, position].astype(np.float64)
        except (ValueError, TypeError):
            raise _NotNumericError(
                f"{_name_column(position, names)} is not numeric ({error}); drop it or encode it, for "
                "instance with sklearn.preprocessing.OneHotEncoder."
            ) from error


def _name_column(position: int, names: list[str] | None) -> str:
    return f"column {position}" if names is None else f"column {names[position]!r}"


def require_finite(X: Any, names: list[str] | None = None) -> None:
    """Find NaN and infinity a block at a time; say how many there are and where the first is."""
    values = X.data if sparse.issparse(X) else X
    if values.dtype.kind != "f":
        return
    if sparse.issparse(X):
        if _is_usable(values).all():
            return
        bad = X.tocoo()
        keep = ~_is_usable(bad.data)
        rows, columns = bad.row[keep], bad.col[keep]
        raise InvalidDataError(_describe_bad(rows, columns, bad.data[keep], names))
    size = max(1, _BLOCK_ELEMENTS // max(1, X.shape[1]))
    if all(_is_clean(X[start : start + size]) for start in range(0, X.shape[0], size)):
        return
    found = [_bad_entries(X[start : start + size], start) for start in range(0, X.shape[0], size)]
    rows, columns = (np.concatenate(part) for part in zip(*found, strict=True))
    raise InvalidDataError(_describe_bad(rows, columns, X[rows, columns], names))


def refuse_overflow(is_usable: Any) -> None:
    """Say how many rows (n,) are not usable once scaled, and which is the first."""
    if not is_usable.all():
        raise InvalidDataError(
            f"{np.count_nonzero(~is_usable)} row(s) of X, the first at row {int(np.argmin(is_usable))}, have "
            "values so far from those of the fit that they are too large for float32 once they are scaled; "
            "remove these rows or fill in what stands for a missing value."
        )


def _is_usable(values: Any) -> Any:
    """Whether values are finite, also as float32, in which networks compute; NaN fails the comparison."""
    return np.abs(values) <= np.finfo(np.float32).max


def _is_clean(block: Any) -> bool:
    """The quick way of asking whether all values are usable; NaN makes both comparisons fail."""
    largest = np.finfo(np.float32).max
    return bool(block.max() <= largest and block.min() >= -largest)


def _bad_entries(block: Any, start: int) -> tuple[Any, Any]:
    rows, columns = np.nonzero(~_is_usable(block))
    return rows + start, columns


def _describe_bad(rows: Any, columns: Any, values: Any, names: list[str] | None) -> str:
    kinds = [
        kind
        for kind, present in (
            ("NaN", np.isnan(values).any()),
            ("infinity", np.isinf(values).any()),
            ("values too large for float32", np.isfinite(values).any()),
        )
        if present
    ]
    column = _name_column(int(columns[0]), names)
    n_rows, n_columns = len(np.unique(rows)), len(np.unique(columns))
    return (
        f"X contains {' and '.join(kinds)}: {len(rows)} value(s) in {n_rows} row(s) and {n_columns} "
        f"column(s), the first at row {int(rows[0])}, {column}; remove these rows or fill them in, for "
        "instance with sklearn.impute.SimpleImputer."
    )

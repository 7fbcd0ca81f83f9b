"""Checks on what users bring: tables of features, constraints on their rows, parameters of estimators."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import validate_data

from spherepair.constraints import Constraints, RowPairs
from spherepair.errors import (
    ConstraintWarning,
    InvalidConstraintsError,
    InvalidDataError,
    InvalidParameterError,
    quoted,
)
from spherepair.files.arrow_rows import as_table, empty_table, side_by_side, vector_columns, widen
from spherepair.networks import ARCHITECTURES

CONFLICT_POLICIES = ("weigh", "raise", "drop", "keep")
#: Fewest dimensions that ``embedding_dim="auto"`` chooses.
MIN_EMBEDDING_DIM = 10
#: Most rows that a warning names.
SHOWN_ROWS = 10
_BLOCK_ELEMENTS = 2**22

#: Beyond these a fit would not end, or torch would give up with an error of its own: weights and rates;
#: counts; the size of a layer or an embedding; and the weights between two layers (4 GB).
LARGEST_WEIGHT, LARGEST_COUNT, LARGEST_LAYER, MOST_CONNECTIONS = 1e6, 10_000_000, 65_536, 2**30

POSITIVE = Interval(Real, 0.0, LARGEST_WEIGHT, closed="right")
NOT_NEGATIVE = Interval(Real, 0.0, LARGEST_WEIGHT, closed="both")
REAL_SHARE = Interval(Real, 0.0, 0.5, closed="left")
AT_LEAST_ONE = Interval(Integral, 1, LARGEST_COUNT, closed="both")
LAYER_SIZE = Interval(Integral, 1, LARGEST_LAYER, closed="both")

#: Rules in scikit-learn's form: parameters of every method.
TRAINING_PARAMETERS: dict[str, list[Any]] = {
    "n_clusters": [AT_LEAST_ONE],
    "hidden_dims": ["array-like", StrOptions(set(ARCHITECTURES))],
    "scaling": [StrOptions({"auto", "standard", "none"})],
    "batch_size": [AT_LEAST_ONE],
    "max_epochs": [AT_LEAST_ONE],
    "learning_rate": [POSITIVE],
    "stopping": [str, HasMethods(["should_stop"])],
    "device": [str, torch.device],
    "precision": [StrOptions({"auto", "float32", "tf32", "bfloat16"})],
    "random_state": ["random_state"],
    "progress": ["boolean", StrOptions({"auto"}), callable],
}
#: Parameters of methods whose embedding has a size of its own.
EMBEDDING_PARAMETERS: dict[str, list[Any]] = {"embedding_dim": [LAYER_SIZE, StrOptions({"auto"})]}
#: Parameters of methods whose embedding is cut into clusters after training.
CLUSTERING_PARAMETERS: dict[str, list[Any]] = {
    "clustering": [StrOptions({"kmeans", "ward"}), HasMethods(["fit_predict"])],
}
#: Parameters of methods whose autoencoder is pretrained.
PRETRAINING_PARAMETERS: dict[str, list[Any]] = {
    "pretraining": [StrOptions({"joint", "stacked"}), HasMethods(["run"]), None],
}


def check_table(estimator: Any, X: Any, *, reset: bool, finite: bool = True) -> Any:
    """Turn ``X`` into a NumPy array or CSR matrix of finite numbers, without copying where possible.

    Parameters
    ----------
    estimator : BaseEstimator
        Stores the number and names of the columns (``reset=True``) or must agree with them.
    X : ndarray, memory map, sparse matrix, torch tensor, pandas / polars / pyarrow table, or Arrow stream
        Columns of an Arrow table may hold vectors.
    reset : bool
    finite : bool, default=True
        Whether to look for NaN and infinity; prediction looks for them while it reads the rows.
    """
    if isinstance(X, torch.Tensor):
        X = _tensor_to_array(X)
    X = as_table(X)
    names = _column_names(X)
    try:
        if vector_columns(X):
            values, names = widen(X)
            X = empty_table(names)
        else:
            values = X if names is None else _table_to_array(X, names)
        array = check_array(
            values,
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
    """Check the shape of a tensor that stays on its GPU; its values are checked while it is read."""
    if X.ndim != 2 or len(X) == 0 or X.shape[1] != estimator.n_features_in_ or X.is_complex():
        raise InvalidDataError(
            f"X has shape {tuple(X.shape)}, but {type(estimator).__name__} is expecting rows of "
            f"{estimator.n_features_in_} features as input."
        )
    return X.detach()


def check_constraints(constraints: Any, n_rows: int, *, on_conflict: str) -> Constraints:
    """Check pairs against the table and resolve contradictions as asked.

    Parameters
    ----------
    constraints : Constraints or None
    n_rows : int
        Number of rows of the table.
    on_conflict : {"weigh", "raise", "drop", "keep"}
        What to do with pairs that contradict each other; ``"weigh"`` keeps them, to be judged.
    """
    if on_conflict not in CONFLICT_POLICIES:
        raise InvalidParameterError(
            f"on_conflict must be one of {CONFLICT_POLICIES}, got {quoted(on_conflict)} instead."
        )
    if constraints is None:
        constraints = Constraints.from_pairs()
    if isinstance(constraints, RowPairs):
        constraints = constraints.constraints
    if not isinstance(constraints, Constraints):
        raise InvalidConstraintsError(
            f"constraints must be a Constraints, got {type(constraints).__name__} instead; make one with "
            "Constraints.from_pairs(must_link=..., cannot_link=...) or Constraints.read(file)."
        )
    if constraints.n_rows is not None and constraints.n_rows > n_rows:
        raise InvalidConstraintsError(
            f"constraints: the pairs are about a table of {constraints.n_rows} rows, but X has {n_rows}, so "
            "their positions mean other rows; in cross-validation give constraints.for_rows(len(X)), whose "
            "pairs follow their rows."
        )
    constraints.validate(n_rows)
    if on_conflict == "raise":
        constraints.require_consistent()
    return constraints.drop_conflicts() if on_conflict == "drop" else constraints


def take_back_contradictions(constraints: Constraints) -> Constraints:
    """The pairs without a small set of answers that contradict the others."""
    conflicts = constraints.conflicts()
    if not conflicts:
        return constraints
    return constraints[np.setdiff1d(np.arange(len(constraints)), conflicts.take_back())]


def refuse_pairs_as_labels(y: Any) -> None:
    """Refuse ``fit(X, pairs)``: it would pass the pairs as ``y``, which is ignored."""
    if isinstance(y, Constraints):
        raise InvalidConstraintsError(
            "constraints were given as y, which is ignored; give them by name: fit(X, constraints=pairs)."
        )


def warn_about_few_pairs(constraints: Constraints, batch_size: int) -> None:
    """Warn where pairs are few or all of one kind, and say what is lost."""
    n_pairs = len(constraints)
    n_must = int(np.count_nonzero(constraints.is_must_link))
    message = None
    if n_pairs == 0:
        message = (
            "no constraints were given: the embedding follows the features alone, and the clusters "
            "need not be the ones you have in mind; `spherepair ask` asks for what it needs to know."
        )
    elif n_must == 0:
        message = (
            f"all {n_pairs} constraints are cannot-links: only their features pull rows of one cluster "
            "together; add some must-links."
        )
    elif n_must == n_pairs:
        message = (
            f"all {n_pairs} constraints are must-links: nothing pushes clusters apart, and their number "
            "cannot be read from the angles; add some cannot-links."
        )
    elif n_pairs < batch_size:
        message = (
            f"only {n_pairs} constraints were given, fewer than {batch_size}: expect labels that "
            "vary with random_state; a few hundred pairs make them stable."
        )
    if message is not None:
        warnings.warn(message, ConstraintWarning, stacklevel=3)


def warn_about_few_clusters(constraints: Constraints, n_clusters: Any) -> None:
    """Warn where pairs that do not contradict each other prove more groups than clusters were asked for."""
    if not isinstance(n_clusters, Integral):
        return
    proved = constraints.proved_groups()
    if proved.n_groups > n_clusters and constraints.drop_conflicts() is constraints:
        rows = ", ".join(map(str, proved.examples[:SHOWN_ROWS].tolist()))
        more = ", …" if proved.n_groups > SHOWN_ROWS else ""
        warnings.warn(
            f"the answers prove at least {proved.n_groups} groups: rows {rows}{more} all differ from each "
            f"other, but n_clusters is {n_clusters}; raise it, or take back a wrong cannot-link.",
            ConstraintWarning,
            stacklevel=3,
        )


def embedding_size(embedding_dim: int | str, n_clusters: int) -> int:
    """Dimensions of the embedding; ``"auto"`` is one per cluster, at least ten.

    Examples
    --------
    >>> embedding_size("auto", 20), embedding_size("auto", 3), embedding_size(5, 20)
    (20, 10, 5)
    """
    return max(MIN_EMBEDDING_DIM, int(n_clusters)) if embedding_dim == "auto" else int(embedding_dim)


def hidden_sizes(hidden_dims: Sequence[Any] | str, *, auto: Sequence[int] = ()) -> list[int]:
    """Sizes of the hidden layers, given as numbers, as the name of an architecture, or chosen for ``"auto"``.

    Examples
    --------
    >>> hidden_sizes("compact")
    [256, 256, 512]
    """
    sizes = {"auto": auto, **ARCHITECTURES}[hidden_dims] if isinstance(hidden_dims, str) else hidden_dims
    if getattr(sizes, "ndim", 1) != 1:
        raise InvalidParameterError(f"hidden_dims must be a list of sizes, got {quoted(hidden_dims)}.")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, Integral) or not 1 <= int(size) <= LARGEST_LAYER:
            raise InvalidParameterError(
                f"hidden_dims must be whole numbers from 1 to {LARGEST_LAYER}, got {quoted(hidden_dims)}."
            )
    if sum(wide * narrow for wide, narrow in pairwise(map(int, sizes))) > MOST_CONNECTIONS:
        raise InvalidParameterError(f"hidden_dims={quoted(hidden_dims)} have more than 2**30 weights.")
    return [int(size) for size in sizes]


def store_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Store every parameter under its own name, unchanged: all that scikit-learn lets a constructor do.

    ``given`` is ``locals()`` in the first line of the constructor.

    Examples
    --------
    >>> class Method:
    ...     def __init__(self, n_clusters=8, *, batch_size=256):
    ...         store_parameters(self, locals())
    >>> vars(Method(3))
    {'n_clusters': 3, 'batch_size': 256}
    """
    for name, value in given.items():
        if name not in ("self", "__class__"):  # the second is there where a constructor says super()
            setattr(estimator, name, value)


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
    """Convert a numeric table to one array; a column that is not numeric is an error that names it."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidDataError(
            f"X has more than one column named {quoted(twice[0])}; rename or drop one of them."
        )
    try:
        import narwhals as nw
    except ImportError:
        return table
    frame = nw.from_native(table, eager_only=True)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise InvalidDataError(
                f"column {quoted(name)} is not numeric (its type is {dtype}); drop it, or give the model "
                "encoder=TableEncoder() of spherepair.encoders, which takes tables as they are."
            )
    # Frames store column after column; training reads row after row.
    if nw.dependencies.is_pyarrow_table(table):
        return side_by_side([column.to_numpy() for column in table.columns])
    array = frame.to_numpy()
    return array if array.flags.c_contiguous and array.flags.writeable else np.array(array, order="C")


class _NotNumericError(InvalidDataError, TypeError):
    """A column is not numeric; scikit-learn's users expect a TypeError for objects."""


def _refuse_text(X: Any, names: list[str] | None, error: Exception) -> None:
    """Name the first column that cannot be read as numbers, if there is one."""
    if sparse.issparse(X):
        return
    table = np.asarray(X, dtype=object)
    for position in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, position].astype(np.float64)
        except (ValueError, TypeError):
            raise _NotNumericError(
                f"{_name_column(position, names)} is not numeric ({quoted(error)}); drop it, or give the "
                "model "
                "encoder=TableEncoder() of spherepair.encoders, which takes tables as they are."
            ) from error


def _name_column(position: int, names: list[str] | None) -> str:
    return f"column {position}" if names is None else f"column {quoted(names[position])}"


def require_finite(X: Any, names: list[str] | None = None) -> None:
    """Refuse NaN and infinity; say how many there are and where the first is."""
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


def _is_usable(values: Any) -> Any:
    """Whether values are finite in float32, in which networks compute; NaN fails the comparison."""
    return np.abs(values) <= np.finfo(np.float32).max


def _is_clean(block: Any) -> bool:
    """Whether all values are usable, in two fast passes; NaN makes both comparisons fail."""
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
        f"column(s), the first at row {int(rows[0])}, {column}; remove these rows or "
        "fill them in, for instance with sklearn.impute.SimpleImputer."
    )

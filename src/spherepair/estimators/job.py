"""What a training works with: rows, pairs, network and session; and which stage it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from torch import Tensor

from spherepair import validation
from spherepair.constraints import Constraints
from spherepair.errors import InvalidConstraintsError, InvalidDataError
from spherepair.files.arrow_rows import as_table, is_stream, open_stream
from spherepair.files.untrusted import decoding
from spherepair.training.rows import RowSource, map_rows, open_rows
from spherepair.training.session import Session

#: Share of wrong new pairs from which on a refinement makes its full effort, and the steps of that effort, at
#: the learning rate of a fit.
MUCH_WRONG, REFINE_STEPS = 1 / 3, 160
#: The smallest effort relative to the full one, and how often a refinement shows each pair at least.
MIN_EFFORT, MIN_REFINE_EPOCHS = 0.3, 4
#: A row embedded on another device or in another precision moves by less than this share of the typical
#: length of an embedding.
SAME_ROW_DISTANCE = 0.14
#: Rows that are embedded to see whether a table is the one of the fit.
N_PROBED_ROWS = 256


@dataclass(frozen=True, eq=False)
class Refinement:
    """Where a refinement starts.

    Parameters
    ----------
    share_wrong : float
        Share of the new pairs that the present labels violate.
    centers : ndarray of shape (n_clusters, embedding_dim)
        Centers of the present clusters.
    """

    share_wrong: float
    centers: NDArray[np.float32]

    @property
    def effort(self) -> float:
        """Factor of steps and learning rate: 0.3 up to a tenth of wrong pairs, 1 from a third on.

        Examples
        --------
        >>> [round(Refinement(share, np.eye(2)).effort, 6) for share in (0.0, 0.2, 0.5)]
        [0.3, 0.6, 1.0]
        """
        return max(MIN_EFFORT, min(1.0, self.share_wrong / MUCH_WRONG))

    def enough_epochs(self, steps_per_epoch: int) -> int:
        """Epochs that make the steps of this effort and show every pair a few times.

        Examples
        --------
        >>> many = Refinement(0.5, np.eye(2))
        >>> many.enough_epochs(20), many.enough_epochs(4000)
        (8, 4)
        """
        return max(MIN_REFINE_EPOCHS, math.ceil(self.effort * REFINE_STEPS / steps_per_epoch))


@dataclass(frozen=True)
class Stage:
    """Which training this is.

    Parameters
    ----------
    name : str
        Name in history, progress and checkpoints; also names the random streams.
    refinement : Refinement, optional
        Given for a refinement; ``None`` for a fit.
    """

    name: str
    refinement: Refinement | None = None


FIT = Stage("pairs")
REFINING = "refining"


@dataclass(frozen=True)
class Job:
    """Everything one training works with."""

    rows: RowSource
    pairs: Constraints
    network: Any
    session: Session
    worth: NDArray[np.float32] | None = None  # of each pair, (n_pairs,); None where all count in full

    @property
    def weighed(self) -> Constraints:
        """All pairs, weighed by what they are worth: nothing where they are more likely wrong than right."""
        return self.pairs if self.worth is None else weigh_pairs(self.pairs, self.worth)

    @property
    def trusted(self) -> Constraints:
        """The pairs that say something and are more likely right than wrong, weighed."""
        is_trusted = (
            self.pairs.is_decided if self.worth is None else self.pairs.is_decided & (self.worth >= 0.5)
        )
        return self.weighed if is_trusted.all() else self.weighed[is_trusted]


def weigh_pairs(pairs: Constraints, worth: NDArray[np.float32]) -> Constraints:
    """The pairs, weighed by what they are worth; nothing where that is below one half."""
    return replace(pairs, weight=pairs.weight * np.where(worth < 0.5, 0.0, worth))


def takes_raw_rows(model: Any) -> bool:
    """Whether an encoder turns what the user has (texts, pictures, mixed columns) into rows of numbers."""
    return hasattr(getattr(model, "encoder", None), "transform")


def encode_rows(model: Any, X: Any, *, reset: bool) -> Any:
    """Rows of numbers: ``X`` as it is, or as the encoder of the model makes them.

    Parameters
    ----------
    model : estimator
    X : rows as the user has them
    reset : bool
        Whether to fit a copy of the encoder first, as ``encoder_``.
    """
    if not takes_raw_rows(model):
        return X
    if reset:
        model.encoder_ = clone(model.encoder)
        return model.encoder_.fit_transform(X)
    is_loaded = getattr(model, "_loaded_encoder", None) is model.encoder_
    if not is_loaded:
        return model.encoder_.transform(X)
    # Most of a saved encoder belongs to other packages, whose versions and rules we do not know.
    with decoding("rows for this model", lambda reason: InvalidDataError(f"X {reason}")):
        return model.encoder_.transform(X)


def refuse_unclear_index(X: Any, constraints: Any) -> None:
    """Refuse a frame with numbers of its own as index: pairs may mean these or positions."""
    index = getattr(X, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", "") not in ("i", "u"):
        return  # no frame, or rows named by words, which no position is
    if not isinstance(constraints, Constraints) or constraints.n_rows is not None or len(constraints) == 0:
        return
    labels = np.asarray(index)
    if not np.array_equal(labels, np.arange(len(labels))):
        raise InvalidConstraintsError(
            f"constraints: the index of X begins with {', '.join(map(str, labels[:3]))}, so it is unclear "
            "whether pairs name rows by index or by position; make them with "
            "Constraints.from_pairs(..., ids=X.index), or with n_rows=len(X) for positions."
        )


def detach_encoder(model: Any) -> Any:
    """Take the fitted encoder off a model, which then works on encoded rows; ``None`` where there is none."""
    if not takes_raw_rows(model):
        return None
    model.encoder, encoder = None, model.encoder_
    del model.encoder_
    return encoder


def attach_encoder(model: Any, encoder: Any) -> None:
    """Let a model that was fitted on encoded rows take raw ones; ``None`` changes nothing."""
    if encoder is not None:
        model.encoder, model.encoder_ = clone(encoder), encoder


def training_table(model: Any, X: Any) -> Any:
    """The table of the fit: the one the model holds, or ``X`` where some of its rows embed as they did.

    Rows after those of the fit are new.
    """
    if X is None:
        if model._table is None:
            raise InvalidDataError(
                "a loaded model needs the original rows in the same order: refine(constraints, X)."
            )
        return model._table
    table, n_rows = (
        validation.check_table(model, encode_rows(model, X, reset=False), reset=False),
        len(model.labels_),
    )
    if table.shape[0] < n_rows:
        raise InvalidDataError(
            f"X has {table.shape[0]} rows, but the model was fitted on {n_rows}; refine needs "
            "the original rows in the same order, perhaps followed by new ones."
        )
    probed = np.unique(np.linspace(0, n_rows - 1, N_PROBED_ROWS).astype(np.int64))
    found = _map_table(model, table[probed], lambda x: model._embed(model.network_, x))
    moved = first_moved_row(found, model.embedding_[probed])
    if moved is not None:
        raise InvalidDataError(
            f"row {int(probed[moved])} of X is not the row that the model was fitted on; refine needs the "
            "original rows in the same order."
        )
    return table


def first_moved_row(found: Any, expected: Any) -> int | None:
    """Position of the first row whose embedding is not the expected one, both (n, D); ``None`` if all are.

    Examples
    --------
    >>> first_moved_row(np.eye(3), np.eye(3)[[0, 2, 1]])
    1
    """
    # Relative to a typical row, not to each: rows close to the origin move as far as the others.
    typical = np.sqrt(np.square(expected).sum(axis=1).mean())
    is_close = np.linalg.norm(found - expected, axis=1) <= SAME_ROW_DISTANCE * typical  # False for NaN
    return None if is_close.all() else int(np.argmin(is_close))


def joined_table(model: Any, X: Any, X_new: Any) -> Any:
    """The table of the fit, followed by new rows where there are any."""
    table = training_table(model, X)
    if X_new is None:
        return table
    new = validation.check_table(model, encode_rows(model, X_new, reset=False), reset=False)
    if sparse.issparse(table) or sparse.issparse(new):
        return sparse.vstack([sparse.csr_matrix(table), sparse.csr_matrix(new)], format="csr")
    return np.concatenate([table, new])


def joined_labels(model: Any, table: Any) -> NDArray[np.int64]:
    """Labels of the rows of the fit, and predicted ones of the rows after them."""
    known: NDArray[np.int64] = model.labels_
    if table.shape[0] == len(known):
        return known
    score = model._label_scores()
    found = _map_table(
        model,
        table[len(known) :],
        lambda x: score(model._embed(model.network_, x)).argmax(dim=1),
        dtype=np.int64,
    )
    return np.concatenate([known, found])


def _map_table(
    model: Any, table: Any, function: Callable[[Tensor], Tensor], *, dtype: Any = np.float32
) -> NDArray[Any]:
    """Apply a function to the scaled rows of a checked table."""
    rows = open_rows(table, model._scaling, model._hardware.device, keep=False)
    return map_rows(function, rows, model._hardware, dtype=dtype)


def map_checked_rows(
    model: Any, X: Any, function: Callable[[Tensor], Tensor], *, dtype: Any = np.float32
) -> NDArray[Any]:
    """Apply a function to rows a block at a time, looking for NaN in the same pass over the data."""
    if is_stream(X):  # never whole in memory
        batches = (as_table(batch) for batch in open_stream(X) if len(batch))
        parts = [map_checked_rows(model, batch, function, dtype=dtype) for batch in batches]
        if not parts:
            raise InvalidDataError("the stream has no rows; there is nothing to predict.")
        return np.concatenate(parts)
    X = encode_rows(model, X, reset=False)
    if isinstance(X, Tensor) and X.is_cuda and X.layout == torch.strided:
        table: Any = validation.check_tensor(model, X)
    else:
        table = validation.check_table(model, X, reset=False, finite=False)
    device = model._hardware.device
    rows = open_rows(table, model._scaling, device, keep=False)
    is_clean = torch.ones((), dtype=torch.bool, device=device)

    def careful(x: Tensor) -> Tensor:
        is_clean.logical_and_(x.sum().isfinite())  # one pass; a sum that overflows only looks bad
        return function(x)

    result = map_rows(careful, rows, model._hardware, dtype=dtype)
    if not bool(is_clean):
        validation.check_table(model, X, reset=False)  # says where they are
        is_usable = map_rows(lambda x: x.isfinite().all(dim=1), rows, model._hardware, dtype=np.bool_)
        _refuse_overflow(is_usable)
    return result


def _refuse_overflow(is_usable: Any) -> None:
    """Refuse rows (n,) that overflow float32 once scaled; say how many and which is the first."""
    if not is_usable.all():
        raise InvalidDataError(
            f"{np.count_nonzero(~is_usable)} row(s) of X, the first at row {int(np.argmin(is_usable))}, have "
            "values so far from those of the fit that they are too large for float32 once they are scaled; "
            "remove these rows or fill in what stands for a missing value."
        )

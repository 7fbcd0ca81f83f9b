"""Whether a table is the one a model was fitted on, which ``refine`` has to know."""

from __future__ import annotations

from typing import Any

import numpy as np

from spherepair.errors import InvalidDataError
from spherepair.estimators import inputs
from spherepair.training.embedding import map_rows
from spherepair.training.rows import open_rows

#: The same row embedded on another device or in another precision moves by less than this share of the
#: length of a typical embedding.
SAME_ROW_DISTANCE = 0.14


def training_table(model: Any, X: Any) -> Any:
    """The rows of the fit: those the model still holds, or ``X``, if it is the same."""
    if X is None:
        if model._table is None:
            raise InvalidDataError(
                "this model was loaded or copied, and so does not hold the rows: give the table it was "
                "fitted on, refine(constraints, X)."
            )
        return model._table
    table = inputs.check_table(model, X, reset=False)
    if table.shape[0] != len(model.labels_):
        raise InvalidDataError(
            f"X has {table.shape[0]} rows, but the model was fitted on {len(model.labels_)}; refine needs "
            "the same rows in the same order."
        )
    _refuse_other_rows(model, table)
    return table


def _refuse_other_rows(model: Any, table: Any) -> None:
    """Embed some rows: those of the fit come out where they were then."""
    sample = np.unique(np.linspace(0, table.shape[0] - 1, 256).astype(np.int64))
    rows = open_rows(table[sample], model._scaling, model._hardware.device, keep=False)
    found = map_rows(lambda x: model._embed(model.network_, x), rows, model._hardware)
    other = first_other_row(found, model.embedding_[sample])
    if other is not None:
        raise InvalidDataError(
            f"row {int(sample[other])} of X is not the row that the model was fitted on; "
            "refine needs the same rows in the same order."
        )


def first_other_row(found: Any, expected: Any) -> int | None:
    """Position of the first row that was embedded elsewhere than expected, both (n, D); ``None`` if none was.

    Examples
    --------
    >>> first_other_row(np.eye(3), np.eye(3)[[0, 2, 1]])
    1
    """
    # Of a typical row, not of each: one that lies close to the origin moves as far as the others.
    typical = np.sqrt(np.square(expected).sum(axis=1).mean())
    is_close = np.linalg.norm(found - expected, axis=1) <= SAME_ROW_DISTANCE * typical  # False for NaN
    return None if is_close.all() else int(np.argmin(is_close))

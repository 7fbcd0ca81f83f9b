"""What a report shows of rows that an encoder turned into numbers: words, pictures, values of columns."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from spherepair.encoders.shown import shown_content
from spherepair.estimators.job import detach_encoder, encode_rows, takes_raw_rows


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Rows for the computer and for people.

    Attributes
    ----------
    model : estimator
        The model without its encoder.
    encoded : Any
        The rows as the model sees them.
    table : ndarray or CSR matrix of shape (n_rows, n_shown)
        What is shown of them.
    names : list of str
        Name of each column of `table`.
    texts : list of str or None
    image : str
        Size of the pictures that the rows of `table` are, or "none".
    """

    model: Any
    encoded: Any
    table: Any
    names: list[str]
    texts: list[str] | None = None
    image: str = "none"


def shown_rows(model: Any, X: Any) -> ShownRows | None:
    """What to show of raw rows; ``None`` for rows that are numbers already."""
    if not takes_raw_rows(model):
        return None
    encoded = encode_rows(model, X, reset=False)
    plain = copy.copy(model)
    encoder = detach_encoder(plain)
    found = shown_content(encoder, X)
    table, names, further = found or (encoded, [f"column {k}" for k in range(encoded.shape[1])], {})
    return ShownRows(plain, encoded, table, names, **further)

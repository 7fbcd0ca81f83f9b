"""What a report shows of rows that an encoder turned into numbers: words, pictures, values of columns."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from spherepair.encoders import ImageEncoder, TextEncoder
from spherepair.encoders.image import as_pictures
from spherepair.encoders.text import as_texts
from spherepair.estimators.job import detach_encoder, takes_raw_rows

#: Words, and values of one column, that can set a cluster apart.
MOST_WORDS, MOST_VALUES = 2000, 20


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
    encoded = model.encoder_.transform(X)
    plain = copy.copy(model)
    encoder = detach_encoder(plain)
    found = _of_texts(encoder, X) or _of_pictures(encoder, X) or _of_columns(encoder, X)
    table, names, further = found or (encoded, [f"column {k}" for k in range(encoded.shape[1])], {})
    return ShownRows(plain, encoded, table, names, **further)


Shown = tuple[Any, list[str], dict[str, Any]]


def _only_column(encoder: Any, X: Any, kind: str) -> Any:
    """The column of texts or pictures, if the rows are nothing else."""
    if not hasattr(encoder, "used_columns"):
        return None
    return (
        X[encoder.used_columns()[0]]
        if len(encoder.used_columns(kind)) == len(encoder.used_columns())
        else None
    )


def _of_texts(encoder: Any, X: Any) -> Shown | None:
    """Which of the frequent words each text has."""
    column = X if isinstance(encoder, TextEncoder) else _only_column(encoder, X, "text")
    if column is None:
        return None
    texts = as_texts(column)
    counter = CountVectorizer(
        binary=True, max_features=MOST_WORDS, min_df=min(2, len(texts)), dtype=np.float32
    )
    try:
        counts = counter.fit_transform(texts)
    except ValueError:  # texts that share no word
        counts, words = np.zeros((len(texts), 1), dtype=np.float32), ["words"]
    else:
        words = counter.get_feature_names_out().tolist()
    return counts, words, {"texts": texts}


def _of_pictures(encoder: Any, X: Any) -> Shown | None:
    """Small pictures."""
    column = X if isinstance(encoder, ImageEncoder) else _only_column(encoder, X, "image")
    if column is None:
        return None
    pictures = as_pictures(column)
    small = ImageEncoder("pixels", on_unreadable="empty", progress=False)
    pixels = small.fit_transform(pictures)
    height, width, channels = small.shape_
    return pixels, [f"pixel {k}" for k in range(pixels.shape[1])], {"image": f"{height}x{width}x{channels}"}


def _of_columns(encoder: Any, X: Any) -> Shown | None:
    """Numbers as they are, and whether a column has one of its frequent values."""
    if not hasattr(encoder, "shown_columns"):
        return None
    shown: dict[str, Any] = {}
    for name, values in encoder.shown_columns(X).items():
        if values.dtype.kind == "f":
            shown[name] = np.where(np.isnan(values), np.nanmean(values), values)
            continue
        different, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
        for place in np.argsort(-counts, kind="stable")[:MOST_VALUES]:
            shown[f"{name}: {different[place] or 'missing'}"] = (codes == place).astype(np.float64)
    return (np.column_stack(list(shown.values())), list(shown), {}) if shown else None

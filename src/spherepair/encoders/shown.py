"""Encoded rows in a form that people can read: words, pictures, values of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from spherepair.encoders.image import ImageEncoder, as_pictures
from spherepair.encoders.text import TextEncoder, as_texts

#: Words, and values of one column, that can set a cluster apart.
MOST_WORDS, MOST_VALUES = 2000, 20

#: A table of numbers, the names of its columns, and texts or the size of pictures.
Shown = tuple[Any, list[str], dict[str, Any]]


def shown_content(encoder: Any, X: Any) -> Shown | None:
    """What to show of raw rows; ``None`` where the encoder is none of ours."""
    return _of_texts(encoder, X) or _of_pictures(encoder, X) or _of_columns(encoder, X)


def only_texts(encoder: Any, X: Any) -> Any:
    """The texts, if the rows are nothing else; ``None`` otherwise."""
    return X if isinstance(encoder, TextEncoder) else _only_column(encoder, X, "text")


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
    """One column per frequent word: 1 where a text has it."""
    column = only_texts(encoder, X)
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
    """Numbers as they are, and one column per frequent value of the other columns: 1 where a row has it."""
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

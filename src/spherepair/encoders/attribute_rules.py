"""What a saved encoder must look like; checked before it encodes anything.

An encoder is restored attribute by attribute, so every attribute that decides what is done with a row has a
rule here: settings have the values that our encoders give them, arrays have sizes that belong together. What
is wrong is raised as a ``ValueError``, which the reader of the file turns into its own error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spherepair.encoders.image import LARGEST_SIDE, PIXELS
from spherepair.encoders.table_columns import KINDS
from spherepair.encoders.text import TFIDF
from spherepair.errors import quoted

#: Most letters of a text, and most numbers that an encoder makes of a row.
LONGEST_TEXT, MOST_NUMBERS = 100_000, 10_000_000
#: What `fit` takes for a word; another pattern could keep a regular expression busy for ever.
_WORD_PATTERN = r"(?u)\b\w\w+\b"
_LEFT_OUT, _WORDS = "left out", "words"

#: Tells whether the value of an attribute is valid.
Rule = Callable[[Any], bool]


def _one_of(*values: Any) -> Rule:
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def _whole(least: int, most: int) -> Rule:
    return lambda value: type(value) is int and least <= value <= most


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _optional(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _list_of(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list | tuple) and all(map(rule, value))


def _dict_of(rule: Rule) -> Rule:
    return lambda value: (
        isinstance(value, dict) and all(map(_is_text, value)) and all(map(rule, value.values()))
    )


def _array(kinds: str, n_dims: int, least: float = -math.inf) -> Rule:
    """Rule for an array of finite numbers of these kinds, none of them below the least."""
    return lambda value: (
        isinstance(value, np.ndarray)
        and value.dtype.kind in kinds
        and value.ndim == n_dims
        and bool(np.isfinite(value).all())
        and (not value.size or bool(value.min() >= least))
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and all(map(_is_text, value.tolist()))


def _is_categories(value: Any) -> bool:
    """Whether a value is one column of words, of which the last may stand for missing ones."""
    if not (isinstance(value, list) and len(value) == 1 and isinstance(value[0], np.ndarray)):
        return False
    words = value[0].tolist() if value[0].ndim == 1 else []
    ends = words[-1:] if words and (words[-1] is None or words[-1] != words[-1]) else []
    known = words[: len(words) - len(ends)]
    return bool(words) and all(map(_is_text, known)) and len(set(known)) == len(known)


def _is_a(*names: str) -> Rule:
    return lambda value: type(value).__name__ in names


_FLAG = _one_of(True, False)
_NAMES = _list_of(_is_text)
_PROGRESS = _one_of("auto", True, False)
_ONE_OUTPUT = {"n_features_in_": _one_of(1)}
_OUTPUT_CONFIG = {"_sklearn_output_config": _dict_of(_one_of("pandas", "default"))}
_COUNT = _whole(0, 2**62)

#: Attributes that an object of a class must have.
NEEDED: dict[str, dict[str, Rule]] = {
    "TextEncoder": {
        "model_": _is_text,
        "on_empty": _one_of("raise", "keep"),
        "identity_": _optional(_dict_of(_is_text)),
        "_n_features_out": _whole(1, MOST_NUMBERS),
    },
    "ImageEncoder": {
        "model_": _is_text,
        "on_unreadable": _one_of("raise", "empty"),
        "identity_": _optional(_dict_of(_is_text)),
        "shape_": _list_of(_whole(1, LARGEST_SIDE)),
        "_n_features_out": _whole(1, MOST_NUMBERS),
    },
    "TableEncoder": {"plans_": _list_of(_is_a("ColumnPlan")), "keep_empty": _FLAG},
    "ColumnPlan": {
        "name": _is_text,
        "kind": _one_of(*KINDS, _WORDS, _LEFT_OUT),
        "made": _is_text,
        "is_asked": _FLAG,
        "steps": _list_of(bool),
        "outputs": _NAMES,
        "shift": _optional(_array("f", 1)),
        "factor": _optional(_array("f", 1, least=0)),
        "counts_missing": _FLAG,
    },
    "TfidfVectorizer": {
        "vocabulary_": _dict_of(_COUNT),
        "_tfidf": _is_a("TfidfTransformer"),
        "token_pattern": _one_of(_WORD_PATTERN),
        "analyzer": _one_of("word", "char_wb"),
        "ngram_range": _one_of((1, 2), (3, 4)),
    },
    "TfidfTransformer": {"idf_": _array("f", 1, least=0), "norm": _one_of("l2")},
    "TruncatedSVD": {"components_": _array("f", 2)},
    "OneHotEncoder": {
        "categories_": _is_categories,
        "handle_unknown": _one_of("infrequent_if_exist"),
        "drop_idx_": _one_of(None),
        "sparse_output": _one_of(False),
    },
    "RobustScaler": {"center_": _array("f", 1), "scale_": _array("f", 1, least=0)},
    "SquashingScaler": {"max_absolute_value": lambda value: _is_number(value) and value > 0},
    "_MinMaxScaler": {"median_": _array("f", 1), "scale_": _array("f", 1, least=0)},
    "MinMaxScaler": {"min_": _array("f", 1), "scale_": _array("f", 1)},
    "DatetimeEncoder": {"extracted_features_": _NAMES, "all_outputs_": _NAMES},
    "_CircularEncoder": {"period": _whole(1, 1000), "all_outputs_": _NAMES},
    "StringEncoder": {
        "vectorizer_": _is_a("TfidfVectorizer"),
        "n_components_": _whole(1, MOST_NUMBERS),
        "scaling_factor_": lambda value: _is_number(value) and value > 0,
        "all_outputs_": _NAMES,
    },
    "CleanNullStrings": {"null_strings_": _NAMES},
    "ToFloat": {"decimal": _one_of(".", ","), "thousand": _optional(_one_of(",", ".", " ", "'", "_"))},
}
#: Attributes that it may have; those without a rule here may be any data that is no attribute of the class.
OTHERS: dict[str, dict[str, Rule]] = {
    "TextEncoder": {
        "model": _is_text,
        "cache": _FLAG,
        "progress": _PROGRESS,
        "vectorizer_": _is_a("TfidfVectorizer"),
        "reducer_": _is_a("TruncatedSVD"),
    },
    "ImageEncoder": {"model": _is_text, "cache": _FLAG, "progress": _PROGRESS},
    "TableEncoder": {
        "as_": lambda value: value is None or _NAMES(value) or _dict_of(_one_of(*KINDS))(value),
        "drop": lambda value: _is_text(value) or _NAMES(value),
        "columns": _optional(_NAMES),
        "text_model": _is_text,
        "image_model": _is_text,
        "cache": _FLAG,
        "progress": _PROGRESS,
        "feature_names_in_": _is_names,
        "n_features_in_": _COUNT,
    },
    "TfidfVectorizer": {
        "input": _one_of("content"),
        "encoding": _one_of("utf-8"),
        "decode_error": _one_of("strict"),
        **dict.fromkeys(
            ("strip_accents", "preprocessor", "tokenizer", "stop_words", "vocabulary"), _one_of(None)
        ),
        **dict.fromkeys(("lowercase", "binary", "use_idf", "smooth_idf", "sublinear_tf"), _FLAG),
        "max_df": _one_of(1.0),
        "min_df": _whole(1, 2),
        "max_features": _optional(_COUNT),
        "dtype": lambda value: value in (np.dtype("float32"), np.dtype("float64")),
        "norm": _one_of("l2"),
        "fixed_vocabulary_": _FLAG,
    },
    "TfidfTransformer": {
        **dict.fromkeys(("use_idf", "smooth_idf", "sublinear_tf"), _FLAG),
        "n_features_in_": _COUNT,
    },
    "TruncatedSVD": {"n_components": _whole(1, MOST_NUMBERS), "n_features_in_": _COUNT},
    "OneHotEncoder": {
        "categories": _one_of("auto"),
        "dtype": lambda value: value in (np.dtype("float32"), np.dtype("float64")),
        "drop": _one_of(None),
        "min_frequency": _one_of(None),
        "max_categories": _optional(_whole(1, MOST_NUMBERS)),
        "feature_name_combiner": _one_of("concat"),
        "feature_names_in_": _is_names,
        "_infrequent_enabled": _FLAG,
        "_infrequent_indices": _list_of(_optional(_array("iu", 1, least=0))),
        "_default_to_infrequent_mappings": _list_of(_optional(_array("iu", 1, least=0))),
        "_drop_idx_after_grouping": _one_of(None),
        "_n_features_outs": _list_of(_whole(1, MOST_NUMBERS)),
        **_ONE_OUTPUT,
        **_OUTPUT_CONFIG,
    },
    "RobustScaler": {**dict.fromkeys(("with_centering", "with_scaling", "copy"), _FLAG), **_ONE_OUTPUT},
    "SquashingScaler": {
        "robust_scaler_": _optional(_is_a("RobustScaler")),
        "minmax_scaler_": _optional(_is_a("_MinMaxScaler", "MinMaxScaler")),
        **dict.fromkeys(("robust_cols_", "minmax_cols_", "zero_cols_"), _array("b", 1)),
        "feature_names_in_": _is_names,
        **_ONE_OUTPUT,
        **_OUTPUT_CONFIG,
    },
    "DatetimeEncoder": {"_periodic_encoders": _dict_of(_is_a("_CircularEncoder"))},
    "StringEncoder": {
        "to_str": _is_a("ToStr"),
        "tsvd_": _is_a("TruncatedSVD"),
        "stop_words": _one_of(None),
        "input_name_": _is_text,
        **_OUTPUT_CONFIG,
    },
    "DropUninformative": {"drop_": _one_of(False), "all_outputs_": _NAMES},
    "ToDatetime": {"format_": _optional(_is_text), "output_time_zone_": _optional(_is_text)},
}
_CLASSES = {*NEEDED, *OTHERS, "ToStr", "CleanCategories", "DurationToFloat"}


def check_encoder(encoder: Any, n_features: int | None = None) -> None:
    """Refuse a restored encoder with an attribute that cannot be.

    Parameters
    ----------
    encoder : TextEncoder, ImageEncoder or TableEncoder
    n_features : int, optional
        Numbers that it must make of a row.
    """
    if not _is_a("TextEncoder", "ImageEncoder", "TableEncoder")(encoder):
        raise ValueError(f"the encoder is {quoted(type(encoder).__name__)}")
    parts = list(_parts(encoder))
    for part in parts:
        _check_attributes(part)
    for part in parts:
        _RELATIONS.get(type(part).__name__, lambda _: None)(part)
    plans = getattr(encoder, "plans_", None)
    made = encoder._n_features_out if plans is None else sum(len(plan.outputs) for plan in plans)
    if n_features is not None and made != n_features:
        raise ValueError(f"the encoder makes {made} numbers of a row, and the model takes {n_features}")


def _parts(value: Any) -> Iterator[Any]:
    """All objects of an encoder, itself first."""
    if isinstance(value, list | tuple):
        inside: Any = value
    elif isinstance(value, dict):
        inside = value.values()
    elif type(value).__name__ in _CLASSES:
        yield value
        inside = vars(value).values()
    else:
        inside = ()
    for one in inside:
        yield from _parts(one)


def _check_attributes(part: Any) -> None:
    kind = type(part)
    needed, state = NEEDED.get(kind.__name__, {}), vars(part)
    rules = needed | OTHERS.get(kind.__name__, {})
    for name in needed:
        if name not in state:
            raise ValueError(f"a {kind.__name__} has no {name}")
    for name, value in state.items():
        if name in rules:
            if not rules[name](value):
                raise ValueError(f"{name} of a {kind.__name__} is {quoted(value)}")
        elif not isinstance(name, str) or hasattr(kind, name):  # what stands for a method would be called
            raise ValueError(f"a {kind.__name__} has no attribute {quoted(name)}")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its encoder does not fit together: {what}")


def _check_text(one: Any) -> None:
    _require((one.identity_ is None) == (one.model_ == TFIDF), f"the model {quoted(one.model_)}")
    if one.identity_ is None:
        _require(hasattr(one, "vectorizer_") and hasattr(one, "reducer_"), "words that were never learned")
        shape = (one._n_features_out, len(one.vectorizer_.vocabulary_))
        _require(one.reducer_.components_.shape == shape, "words and numbers")
    else:
        _require({"name", "package", "version", "sha256"} <= one.identity_.keys(), "the model of the texts")


def _check_picture(one: Any) -> None:
    _require((one.identity_ is None) == (one.model_ == PIXELS), f"the model {quoted(one.model_)}")
    _require(len(one.shape_) == 3 and one.shape_[2] in (1, 3), f"pictures of shape {quoted(one.shape_)}")
    _require(one.identity_ is not None or math.prod(one.shape_) == one._n_features_out, "pixels and numbers")


def _check_table(one: Any) -> None:
    names = [plan.name for plan in one.plans_]
    _require(len(set(names)) == len(names), "a column twice")
    _require(any(plan.outputs for plan in one.plans_), "no column is used")


def _check_plan(one: Any) -> None:
    inside = {"text": ["TextEncoder"], "image": ["ImageEncoder"], _LEFT_OUT: []}
    found, ours = [type(step).__name__ for step in one.steps], ("TextEncoder", "ImageEncoder", "TableEncoder")
    fits = found == inside[one.kind] if one.kind in inside else not {*ours, "ColumnPlan"} & {*found}
    _require(fits and {*found} <= _CLASSES, f"the steps of {quoted(one.name)}")
    if one.outputs:
        _require(bool(one.steps), f"the outputs of {quoted(one.name)}")
        sizes = [-1 if array is None else len(array) for array in (one.shift, one.factor)]
        _require(sizes == [len(one.outputs)] * 2, f"the numbers of {quoted(one.name)}")


def _check_words(one: Any) -> None:
    places, n_words = sorted(one.vocabulary_.values()), len(one._tfidf.idf_)
    _require(places == list(range(n_words)) and n_words > 0, "words and their weights")


def _check_categories(one: Any) -> None:
    n_words = len(one.categories_[0])
    for name in ("_infrequent_indices", "_default_to_infrequent_mappings"):
        for array in getattr(one, name, ()):
            _require(array is None or (len(array) <= n_words and array.max(initial=0) < n_words), name)


def _check_letters(one: Any) -> None:
    reducer = getattr(one, "tsvd_", None)
    n_words, n_outputs = len(one.vectorizer_.vocabulary_), len(one.all_outputs_)
    _require(n_outputs == one.n_components_, "letters and numbers")
    shape = (n_outputs, n_words)
    _require(reducer is None or reducer.components_.shape == shape, "letters and their weights")


_RELATIONS: dict[str, Callable[[Any], None]] = {
    "TextEncoder": _check_text,
    "ImageEncoder": _check_picture,
    "TableEncoder": _check_table,
    "ColumnPlan": _check_plan,
    "TfidfVectorizer": _check_words,
    "OneHotEncoder": _check_categories,
    "StringEncoder": _check_letters,
}

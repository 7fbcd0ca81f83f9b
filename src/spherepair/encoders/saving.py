"""Fitted encoders as JSON and arrays, without pickle.

Only objects of the classes listed here are written or made again: ours, and the transformers of scikit-learn
and skrub that ours hold. Their attributes are restored; no code in a file is ever run.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

import numpy as np

from spherepair.encoders.attribute_rules import check_encoder
from spherepair.errors import MissingDependencyError, ModelFileError, SpherePairWarning, quoted

#: The classes that may be saved, and their modules.
CLASSES = {
    "TextEncoder": "spherepair.encoders.text",
    "ImageEncoder": "spherepair.encoders.image",
    "TableEncoder": "spherepair.encoders.table",
    "ColumnPlan": "spherepair.encoders.table",
    "OneHotEncoder": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "TfidfVectorizer": "sklearn.feature_extraction.text",
    "TfidfTransformer": "sklearn.feature_extraction.text",
    "TruncatedSVD": "sklearn.decomposition",
    "CleanNullStrings": "skrub._clean_null_strings",
    "CleanCategories": "skrub._clean_categories",
    "DropUninformative": "skrub._drop_uninformative",
    "ToFloat": "skrub._to_float",
    "ToStr": "skrub._to_str",
    "ToDatetime": "skrub._to_datetime",
    "DatetimeEncoder": "skrub._datetime_encoder",
    "_CircularEncoder": "skrub._datetime_encoder",
    "StringEncoder": "skrub._string_encoder",
    "SquashingScaler": "skrub._squashing_scaler",
    "_MinMaxScaler": "skrub._squashing_scaler",
    "DurationToFloat": "skrub._duration_to_float",
}
#: Packages whose objects are restored attribute by attribute: another version may have others.
_VERSIONED = ("scikit-learn", "skrub")
#: Where an encoder stands in the description of a model, and how the names of its arrays begin.
ENTRY, PREFIX = "row_encoder", "encoder."
_PLAIN = (str, int, float, bool, type(None))


def pack_encoder(encoder: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A fitted encoder as a part of the description of a model, and its arrays; ``None`` is nothing."""
    if encoder is None:
        return {}, {}
    arrays: dict[str, Any] = {}
    return {ENTRY: {"encoder": pack(encoder, arrays), "versions": _versions()}}, arrays


def unpack_encoder(manifest: dict[str, Any], arrays: dict[str, Any], *, n_features: int | None = None) -> Any:
    """The encoder that :func:`pack_encoder` was given; ``None`` where there was none.

    Parameters
    ----------
    manifest : dict
        Description of a model.
    arrays : dict
    n_features : int, optional
        Numbers that the encoder must make of a row.
    """
    if ENTRY not in manifest:
        return None
    _warn_about_versions(manifest[ENTRY]["versions"])
    encoder = unpack(manifest[ENTRY]["encoder"], arrays)
    check_encoder(encoder, n_features)
    return encoder


def pack(value: Any, arrays: dict[str, Any]) -> Any:
    """A value as JSON; arrays of numbers are added to ``arrays``.

    Examples
    --------
    >>> arrays = {}
    >>> pack({"sizes": (2, np.arange(3))}, arrays)
    {'dict': [['sizes', {'tuple': [2, {'array': 'encoder.0'}]}]]}
    >>> unpack(_, arrays)
    {'sizes': (2, array([0, 1, 2]))}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    for kind, packed in _PACKED.items():
        if isinstance(value, kind):
            return packed(value, arrays)
    module = type(value).__module__.partition(".")[0]
    if CLASSES.get(type(value).__name__, "").partition(".")[0] == module:
        return {"class": type(value).__name__, "state": _pack_dict(vars(value), arrays)}
    return _pack_dtype(value)


def unpack(value: Any, arrays: dict[str, Any]) -> Any:
    """The value that :func:`pack` was given; ``ValueError`` where it cannot have been."""
    if isinstance(value, list):
        return [unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return _unpack_object(value, arrays)
    if len(value) != 1 or value.keys() - _UNPACKED.keys():
        raise ValueError(f"the encoder holds {quoted(value)}")
    ((kind, content),) = value.items()
    return _UNPACKED[kind](content, arrays)


def _pack_items(value: list[Any], arrays: dict[str, Any]) -> list[Any]:
    return [pack(item, arrays) for item in value]


def _pack_tuple(value: tuple[Any, ...], arrays: dict[str, Any]) -> dict[str, Any]:
    return {"tuple": [pack(item, arrays) for item in value]}


def _pack_dict(value: dict[Any, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    if _is_vocabulary(value):
        return {"vocabulary": sorted(value, key=value.__getitem__)}
    return {"dict": [[key, pack(item, arrays)] for key, item in value.items()]}


def _is_vocabulary(value: dict[Any, Any]) -> bool:
    """Whether words are numbered from 0 on."""
    are_numbers = all(type(place) is int or isinstance(place, np.integer) for place in value.values())
    return bool(value) and are_numbers and set(value.values()) == set(range(len(value)))


def _pack_array(value: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    if value.dtype.kind in "biuf":
        name = f"{PREFIX}{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    return {"objects": [pack(item, arrays) for item in value.tolist()]}


def _pack_dtype(value: Any) -> dict[str, str]:
    name = value.__name__ if isinstance(value, type) and issubclass(value, np.generic) else str(value)
    try:
        _unpack_dtype(name)
    except TypeError as error:
        raise ModelFileError(
            f"{type(value).__name__} objects cannot be saved with an encoder; use the settings that it "
            "comes with."
        ) from error
    return {"dtype": name}


def _unpack_dtype(name: str, _: Any = None) -> Any:
    try:
        return np.dtype(name)
    except TypeError:
        return import_module("pandas.api.types").pandas_dtype(name)


def _unpack_object(value: dict[str, Any], arrays: dict[str, Any]) -> Any:
    name = value["class"]
    if not isinstance(name, str) or name not in CLASSES:
        raise ModelFileError(
            f"the encoder holds a {quoted(name)}, which this version of spherepair does not know."
        )
    try:
        kind = getattr(import_module(CLASSES[name]), name)
    except ImportError as error:
        package = CLASSES[name].partition(".")[0]
        raise MissingDependencyError(
            f"the encoder of this model needs {package}; pip install {package}."
        ) from error
    made, state = kind.__new__(kind), unpack(value.get("state"), arrays)
    if not isinstance(state, dict):
        raise ValueError(f"the state of a {name} is {quoted(state)}")
    # Not through setattr: frozen dataclasses refuse it.
    vars(made).update(state)
    return made


_PACKED: dict[type, Callable[[Any, dict[str, Any]], Any]] = {
    list: _pack_items,
    tuple: _pack_tuple,
    dict: _pack_dict,
    np.ndarray: _pack_array,
}
_UNPACKED: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "tuple": lambda items, arrays: tuple(unpack(item, arrays) for item in _items(items)),
    "dict": lambda items, arrays: {key: unpack(item, arrays) for key, item in _items(items)},
    "vocabulary": lambda words, _: {word: place for place, word in enumerate(_items(words))},
    "array": lambda name, arrays: arrays[name],
    "objects": lambda items, _: np.fromiter(_items(items), dtype=object, count=len(items)),
    "dtype": _unpack_dtype,
}


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"the encoder holds {quoted(value)} in the place of a list")
    return value


def _warn_about_versions(saved: dict[str, str]) -> None:
    here = _versions()
    for package, version in saved.items():
        if package in here and _series(here[package]) != _series(version):
            warnings.warn(
                f"the encoder of this model was fitted with {package} {version}, and {here[package]} is "
                f"installed: rows may be encoded otherwise; pip install {package}=={version}, or fit again.",
                SpherePairWarning,
                stacklevel=6,
            )


def _versions() -> dict[str, str]:
    found = {}
    for package in _VERSIONED:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _series(version: str) -> str:
    """Major and minor version.

    Examples
    --------
    >>> _series("1.9.1")
    '1.9'
    """
    found = re.match(r"\d+\.\d+", version)
    return version if found is None else found[0]

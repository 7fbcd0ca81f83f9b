"""What a saved model must look like; checked before anything in it is used.

Checksums find accidents. What somebody wrote on purpose, or by mistake, has right checksums: every entry of
the JSON and every array is checked for its type, its size and its range. What is wrong is raised as a
``ValueError``, which the reader of the file turns into its own error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from spherepair.errors import quoted

#: Most features, dimensions, entries of a list, and levels of settings inside settings.
MOST_FEATURES, MOST_DIMENSIONS, MOST_ENTRIES, MOST_LEVELS = 100_000_000, 1_000_000, 10_000_000, 8
LONGEST_TEXT = 1_000_000
#: A center on the sphere has this length, or none where its cluster is empty; within the rounding of float32.
SPHERE_TOLERANCE = 1e-3

#: Whether a value of the JSON is what it should be.
Rule = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _whole(least: int, most: int) -> Rule:
    return lambda value: type(value) is int and least <= value <= most


def _optional(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _list_of(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list) and len(value) <= MOST_ENTRIES and all(map(rule, value))


def _named(rule: Rule) -> Rule:
    """Rule for an object whose values all follow a rule."""
    return lambda value: (
        isinstance(value, dict) and len(value) <= MOST_ENTRIES and all(map(rule, value.values()))
    )


def _fields(needed: dict[str, Rule], others: dict[str, Rule] | None = None) -> Rule:
    """Rule for an object with these entries and perhaps others."""

    def holds(value: Any) -> bool:
        if not isinstance(value, dict) or not value.keys() >= needed.keys():
            return False
        rules = (others or {}) | needed
        return all(rules[name](entry) for name, entry in value.items() if name in rules)

    return holds


def _is_plain(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Whether a parameter is a number, a text, or a list or object of such, not too deep."""
    if value is None or _is_number(value) or _is_flag(value) or _is_text(value):
        return True
    if levels == 0 or not isinstance(value, list | dict) or len(value) > MOST_ENTRIES:
        return False
    entries = value if isinstance(value, list) else value.values()
    return all(_is_plain(entry, levels - 1) for entry in entries)


def _is_record(value: Any) -> bool:
    """Whether a value is what is known of one epoch."""
    return _is_plain(value, 2) and _fields({"stage": _is_text})(value)


_COUNT = _whole(0, 2**62)
_NUMBERS = _list_of(_is_number)
_CANDIDATE = _fields({"value": _whole(1, 2**31), "weight": _is_number})
_CLUSTER_NUMBER = _fields(
    {
        "value": _whole(1, 2**31),
        "method": _is_text,
        "curve": _NUMBERS,
        "curve_spread": _NUMBERS,
        "candidates": _list_of(_CANDIDATE),
        "confidence": _is_number,
        "explanation": _is_text,
    },
    {"proved": _COUNT},
)
_RATES = _fields({"n_answers": _COUNT, "must_link": _is_share, "cannot_link": _is_share})
_WRONG_ANSWERS = _fields(
    {
        "share": _is_share,
        "must_link": _is_share,
        "cannot_link": _is_share,
        "n_suspects": _COUNT,
        "people": _named(_RATES),
    }
)
_CALIBRATION = _fields(
    {"temperature": lambda value: _is_number(value) and 0 < value < math.inf, "accuracy": _is_share}
    | {"n_pairs": _COUNT}
)

#: What every description has to say, and in words what that is.
NEEDED: dict[str, tuple[Rule, str]] = {
    "estimator": (_is_text, "the name of a method"),
    "parameters": (_named(_is_plain), "an object of named parameters"),
    "n_features_in": (_whole(1, MOST_FEATURES), f"a whole number from 1 to {MOST_FEATURES}"),
    "feature_names_in": (_optional(_list_of(_is_text)), "a list of names"),
    "seed": (_whole(0, 2**63 - 1), "a whole number"),
    "has_own_encoder": (_is_flag, "true or false"),
    "embedding_dim": (_whole(1, MOST_DIMENSIONS), f"a whole number from 1 to {MOST_DIMENSIONS}"),
    "cluster_number": (_optional(_CLUSTER_NUMBER), "how the number of clusters was found"),
    "history": (_list_of(_is_record), "a list of epochs"),
}
#: What some descriptions say besides.
OTHERS: dict[str, tuple[Rule, str]] = {
    "spherepair_version": (_is_text, "a version"),
    "versions": (_named(_is_text), "versions by name"),
    "hidden_dims": (_optional(_list_of(_whole(1, 2**20))), "a list of sizes"),
    "has_rows": (_is_flag, "true or false"),
    "spread": (_optional(lambda value: _is_number(value) and 0 <= value < math.inf), "a number"),
    "pair_texts": (_named(_list_of(_is_text)), "lists of texts"),
    "wrong_answers": (_optional(_WRONG_ANSWERS), "shares of wrong answers"),
    "calibration": (_optional(_CALIBRATION), "a temperature and an accuracy"),
    "group_names": (_list_of(_is_text), "a list of names"),
    "row_encoder": (_fields({"encoder": bool, "versions": _named(_is_text)}), "an encoder"),
}


def check_manifest(manifest: dict[str, Any]) -> None:
    """Refuse a description of a model with an entry that is not what it should be."""
    for name, (rule, what) in (NEEDED | OTHERS).items():
        if name not in manifest:
            if name in NEEDED:
                raise ValueError(f"it does not say {name}")
        elif not _follows(rule, manifest[name]):
            raise ValueError(f"{name} must be {what}, got {quoted(manifest[name])} instead")
    names = manifest["feature_names_in"]
    if names is not None and len(names) != manifest["n_features_in"]:
        raise ValueError(f"it names {len(names)} of {manifest['n_features_in']} features")


def check_checkpoint(manifest: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Refuse the description of an unfinished fit with an entry that cannot be, or tensors not finite."""
    rules: dict[str, Rule] = {
        "fingerprint": _named(_is_text),
        "seed": _whole(0, 2**31),
        "stage": _is_text,
        "records": _list_of(_is_record),
        "monitored": _list_of(lambda value: _is_plain(value, 2)),
        "history": _list_of(_is_record),
    }
    for name, rule in rules.items():
        if not _follows(rule, manifest.get(name)):
            raise ValueError(f"its {name} is {quoted(manifest.get(name))}")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{quoted(name)} is not finite")


def _follows(rule: Rule, value: Any) -> bool:
    try:
        return rule(value)
    except RecursionError:
        return False


def check_arrays(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Refuse arrays of a model whose types, shapes or values cannot be.

    Those of rows and pairs may be missing as a whole; each that is there is checked.
    """
    n_features, n_dims = manifest["n_features_in"], manifest["embedding_dim"]
    n_clusters = len(_array(arrays, "cluster_centers", "f4", 2))
    n_rows = len(_array(arrays, "labels", "i", 1)) if "labels" in arrays else 0
    n_pairs = len(_array(arrays, "pairs.left", "i", 1)) if "pairs.left" in arrays else 0
    texts = manifest.get("pair_texts", {})
    expected: dict[str, tuple[str, tuple[int, ...], float, float]] = {
        "cluster_centers": ("f4", (n_clusters, n_dims), -math.inf, math.inf),
        "labels": ("i", (n_rows,), -1, n_clusters - 1),
        "embedding": ("f4", (n_rows, n_dims), -math.inf, math.inf),
        "scaling.shift": ("f", (n_features,), -math.inf, math.inf),
        "scaling.factor": ("f", (n_features,), 0, math.inf),
        "pairs.left": ("i", (n_pairs,), 0, n_rows - 1),
        "pairs.right": ("i", (n_pairs,), 0, n_rows - 1),
        "pairs.is_must_link": ("b", (n_pairs,), 0, 1),
        "pairs.weight": ("f", (n_pairs,), 0, math.inf),
        "pairs.source_row": ("i", (n_pairs,), -1, 2**62),
        "pairs.value": ("f", (n_pairs,), 0, 1),
        **{f"pairs.{name}": ("i", (n_pairs,), 0, len(texts.get(name, ())) - 1) for name in ("by", "time")},
        "judgment.right": ("f", (n_pairs,), 0, 1),
        "judgment.neighbors_same": ("f", (n_pairs,), 0, 1),
        "judgment.informative": ("b", (n_pairs,), 0, 1),
        "judgment.weights": ("f", (n_pairs,), 0, math.inf),
    }
    for name, (kind, shape, least, most) in expected.items():
        if name in arrays:
            _check_array(name, arrays[name], kind=kind, shape=shape, least=least, most=most)
    if n_clusters == 0:
        raise ValueError("it has no cluster")
    if len(manifest.get("group_names", range(n_clusters))) != n_clusters:
        raise ValueError(f"it names {len(manifest['group_names'])} of {n_clusters} clusters")
    _check_novelty(arrays, n_features)
    if manifest["estimator"] == "SpherePair":
        _check_sphere(arrays["cluster_centers"])


def _array(arrays: dict[str, Any], name: str, kind: str, n_dims: int) -> Any:
    if name not in arrays:
        raise ValueError(f"it has no {name}")
    if not arrays[name].dtype.str[1:].startswith(kind) or arrays[name].ndim != n_dims:
        raise ValueError(f"{name} is of type {arrays[name].dtype} and shape {arrays[name].shape}")
    return arrays[name]


def _check_array(
    name: str, found: Any, *, kind: str, shape: tuple[int, ...], least: float, most: float
) -> None:
    if not found.dtype.str[1:].startswith(kind) or found.shape != shape:
        raise ValueError(f"{name} is of type {found.dtype} and shape {found.shape}, where {shape} is needed")
    if not found.size:
        return
    if not np.isfinite(found).all():
        raise ValueError(f"{name} holds values that are not finite")
    if found.min() < least or found.max() > most:
        raise ValueError(f"{name} holds values outside of {least} to {most}")


def _check_novelty(arrays: dict[str, Any], n_features: int) -> None:
    """Refuse arrays of where the rows of the fit lie that do not belong together; none is fine."""
    if not any(name.startswith("novelty.") for name in arrays):
        return
    n_axes = _array(arrays, "novelty.axes", "f4", 2).shape[1]
    is_matrix = getattr(arrays.get("novelty.whitening"), "ndim", 1) == 2  # in models of early versions
    n_centers, n_steps = (
        len(_array(arrays, f"novelty.{name}", "f4", n_dims))
        for name, n_dims in (("centers", 2), ("steps", 1))
    )
    shapes: dict[str, tuple[int, ...]] = {
        "mean": (n_features,),
        "axes": (n_features, n_axes),
        "whitening": (n_axes, n_axes) if is_matrix else (n_axes,),
        "centers": (n_centers, n_axes),
        "typical": (2,),
        "steps": (n_steps,),
    }
    for name, shape in shapes.items():
        found, least = _array(arrays, f"novelty.{name}", "f4", len(shape)), -math.inf
        if name in ("typical", "steps"):
            least = 0
        _check_array(f"novelty.{name}", found, kind="f4", shape=shape, least=least, most=math.inf)
    if n_centers == 0 or (np.diff(arrays["novelty.steps"]) < 0).any():
        raise ValueError("novelty.steps must ascend, and novelty.centers must hold a cluster")


def _check_sphere(centers: Any) -> None:
    lengths = np.linalg.norm(centers.astype(np.float64), axis=1)
    if not ((np.abs(lengths - 1) < SPHERE_TOLERANCE) | (lengths == 0)).all():
        raise ValueError("cluster_centers are not on the sphere")


def check_weights(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Refuse weights, by name, whose names, shapes or types are not those of the network, or not finite."""
    if expected.keys() != found.keys():
        other = sorted(expected.keys() ^ found.keys())[0]
        raise ValueError(f"the network and its weights differ in {quoted(other)}")
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape or tensor.dtype != expected[name].dtype:
            raise ValueError(
                f"the weights {quoted(name)} are of type {tensor.dtype} and shape {tuple(tensor.shape)}"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"the weights {quoted(name)} are not finite")


def check_size(sizes: list[int], found: dict[str, Any]) -> None:
    """Refuse layers of these sizes that have more weights than were saved; they are not made then."""
    n_needed = sum(wide * narrow for wide, narrow in pairwise(sizes))
    n_found = sum(tensor.numel() for tensor in found.values())
    if n_needed > n_found:
        raise ValueError(f"its layers need {n_needed} weights, and {n_found} were saved")

"""How parameters are stored; rules of those that several share, in scikit-learn's form; what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from spherepair.errors import InvalidParameterError
from spherepair.networks import ARCHITECTURES

POSITIVE = Interval(Real, 0.0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0.0, None, closed="left")
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
SMALLEST_DIM = 10

#: What a network with an embedding asks for, where the number of clusters has to be known.
EMBEDDING_PARAMETERS: dict[str, list[Any]] = {
    "n_clusters": [AT_LEAST_ONE],
    "embedding_dim": [AT_LEAST_ONE, StrOptions({"auto"})],
    "hidden_dims": ["array-like", StrOptions(set(ARCHITECTURES))],
}
#: What a method asks for whose embedding is cut into clusters afterwards.
CUTTING_PARAMETERS: dict[str, list[Any]] = {
    "clustering": [StrOptions({"kmeans", "ward"}), HasMethods(["fit_predict"])],
}
#: What every method asks for.
TRAINING_PARAMETERS: dict[str, list[Any]] = {
    "scaling": [StrOptions({"auto", "standard", "none"})],
    "batch_size": [AT_LEAST_ONE],
    "max_epochs": [AT_LEAST_ONE],
    "learning_rate": [POSITIVE],
    "stopping": [str, HasMethods(["should_stop"])],
    "on_conflict": [StrOptions({"raise", "drop", "keep"})],
    "checkpoint": [str, Path, None],
    "device": [str, torch.device],
    "precision": [StrOptions({"auto", "float32", "tf32", "bfloat16"})],
    "random_state": ["random_state"],
    "progress": ["boolean", StrOptions({"auto"}), callable],
}
#: What a method asks for whose autoencoder is pretrained.
PRETRAINING_PARAMETERS: dict[str, list[Any]] = {
    "pretraining": [StrOptions({"joint", "stacked"}), HasMethods(["run"]), None],
}


def store_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Keep every parameter under its own name, as it came: all that a constructor may do in scikit-learn.

    Parameters
    ----------
    estimator : estimator
    given : mapping
        What ``locals()`` is in the first line of the constructor.

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


def embedding_size(embedding_dim: int | str, n_clusters: int) -> int:
    """The size that was asked for; ``"auto"`` is one dimension per cluster, at least ten.

    Examples
    --------
    >>> embedding_size("auto", 20), embedding_size("auto", 3), embedding_size(5, 20)
    (20, 10, 5)
    """
    return max(SMALLEST_DIM, int(n_clusters)) if embedding_dim == "auto" else int(embedding_dim)


def hidden_sizes(hidden_dims: Sequence[Any] | str) -> list[int]:
    """Sizes of the hidden layers, given as numbers or as the name of an architecture.

    Examples
    --------
    >>> hidden_sizes("compact")
    [256, 256, 512]
    """
    sizes = ARCHITECTURES[hidden_dims] if isinstance(hidden_dims, str) else hidden_dims
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise InvalidParameterError(
                f"hidden_dims must be whole numbers, one or more each, got {hidden_dims!r} instead."
            )
    return [int(size) for size in sizes]

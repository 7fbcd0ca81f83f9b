"""How the model was made, and with which versions the report was."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import scipy
import sklearn
import torch

from spherepair.version import __version__

#: Places on the disk of whoever made the model, and whether a bar was shown: nobody else's business.
_PRIVATE = ("checkpoint", "progress")


@dataclass(frozen=True)
class Settings:
    """Names and values, ready to be shown.

    Attributes
    ----------
    method : str
        Class of the model.
    parameters, training, versions : tuple of (str, str)
    """

    method: str
    parameters: tuple[tuple[str, str], ...]
    training: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]


def describe_model(model: Any) -> Settings:
    """Parameters, stages of training and versions."""
    given = {} if not hasattr(model, "get_params") else model.get_params(deep=False)
    parameters = tuple((name, _describe(value)) for name, value in given.items() if name not in _PRIVATE)
    return Settings(type(model).__name__, parameters, _stages(getattr(model, "history_", [])), _versions())


def _stages(history: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """One line for each stage of training."""
    found = []
    for stage, records in groupby(history, key=lambda record: str(record.get("stage", "training"))):
        epochs = list(records)
        seconds = sum(float(record.get("seconds", 0.0)) for record in epochs)
        loss = epochs[-1].get("loss")
        end = "" if loss is None else f", loss {float(loss):.4g} at the end"
        found.append((stage, f"{len(epochs)} epochs in {seconds:.1f} s{end}"))
    return tuple(found)


def _versions() -> tuple[tuple[str, str], ...]:
    return (
        ("spherepair", __version__),
        ("Python", platform.python_version()),
        ("torch", torch.__version__),
        ("numpy", np.__version__),
        ("scipy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
    )


def _describe(value: Any) -> str:
    """A parameter in words, without addresses in memory."""
    text = value if isinstance(value, str) else repr(value)
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", text)

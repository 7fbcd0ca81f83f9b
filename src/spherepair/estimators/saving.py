"""Fitted estimators as folders: what is written, and how parameters become JSON."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spherepair.errors import InvalidParameterError
from spherepair.persistence import write_model
from spherepair.training.pretraining import JointPretraining, StackedPretraining
from spherepair.training.stopping import RULES
from spherepair.version import __version__

#: Our own objects that a parameter may hold; nothing else is ever looked up.
SETTINGS: dict[str, Any] = {
    setting.__name__: setting for setting in (*RULES.values(), JointPretraining, StackedPretraining)
}
NETWORK_PREFIX = "network."
_PLAIN = (str, int, float, bool, type(None))


def save_estimator(estimator: Any, folder: str | Path) -> None:
    """Write a fitted estimator; see :func:`spherepair.load`."""
    _refuse_other_network(estimator)
    pairs = estimator.constraints_
    number = estimator.cluster_number_
    names = getattr(estimator, "feature_names_in_", None)
    manifest = {
        "estimator": type(estimator).__name__,
        "spherepair_version": __version__,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "parameters": {k: encode_parameter(v) for k, v in estimator.get_params(deep=False).items()},
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "seed": estimator._seed,
        "has_own_encoder": getattr(estimator, "encoder", None) is not None,
        "embedding_dim": estimator._embedding_dim,
        "cluster_number": None if number is None else number.to_dict(),
        "history": estimator.history_,
    }
    arrays = {
        "labels": estimator.labels_,
        "embedding": estimator.embedding_,
        "cluster_centers": estimator.cluster_centers_,
        "pairs.left": pairs.left,
        "pairs.right": pairs.right,
        "pairs.is_must_link": pairs.is_must_link,
        "pairs.weight": pairs.weight,
        "pairs.source_row": pairs.source_row,
    }
    scaling = estimator._scaling
    if scaling.shift is not None and scaling.factor is not None:
        arrays |= {"scaling.shift": scaling.shift, "scaling.factor": scaling.factor}
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    tensors |= {NETWORK_PREFIX + k: v for k, v in estimator.network_.state_dict().items()}
    write_model(folder, manifest, tensors)


def _refuse_other_network(estimator: Any) -> None:
    """Parameters set after the fit may describe another network than it has; that would not be loaded."""
    described = estimator._build_network(estimator.n_features_in_, estimator._embedding_dim, estimator._seed)
    shapes = [
        {name: tensor.shape for name, tensor in network.state_dict().items()}
        for network in (described, estimator.network_)
    ]
    if shapes[0] != shapes[1]:
        raise InvalidParameterError(
            "the parameters describe another network than the one that was fitted (hidden_dims, n_clusters "
            "or encoder was set after fit); set them back or fit again before save."
        )


def encode_parameter(value: Any) -> Any:
    """Parameters as JSON; an object of the user's own is only described, and has to be given anew."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (tuple, list, np.ndarray)):
        return [encode_parameter(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Path, torch.device)):
        return str(value)
    if type(value) in SETTINGS.values():
        return {"class": type(value).__name__, **dataclasses.asdict(value)}
    return {"described": repr(value)}


def decode_parameter(value: Any) -> Any:
    """What :func:`encode_parameter` made JSON of."""
    if isinstance(value, list):
        return tuple(decode_parameter(item) for item in value)
    if isinstance(value, dict):
        fields = {k: v for k, v in value.items() if k != "class"}
        return SETTINGS[value["class"]](**fields)
    return value


def is_lost(value: Any) -> bool:
    """Whether a parameter was only described; the model then has the default of its class."""
    return isinstance(value, dict) and "described" in value

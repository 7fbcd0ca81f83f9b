"""Fitted estimators as folders, and back."""

from __future__ import annotations

import dataclasses
import platform
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.errors import ModelFileError, SpherePairError, SpherePairWarning
from spherepair.estimators.spherepair import SpherePair
from spherepair.persistence import read_model, write_model
from spherepair.training.hardware import choose_hardware
from spherepair.training.pretraining import JointPretraining, StackedPretraining
from spherepair.training.scaling import Scaling
from spherepair.training.stopping import RULES
from spherepair.version import __version__

#: The classes a saved model may name; nothing else is ever looked up.
ESTIMATORS: dict[str, type[SpherePair]] = {"SpherePair": SpherePair}
SETTINGS: dict[str, Any] = {
    setting.__name__: setting for setting in (*RULES.values(), JointPretraining, StackedPretraining)
}
#: Parameters that may be objects of the user's own and change what refine and fit would do.
LOST_WITH_A_WARNING = ("clustering", "pretraining", "stopping")
_NETWORK = "network."
_PLAIN = (str, int, float, bool, type(None))


def save_estimator(estimator: SpherePair, folder: str | Path) -> None:
    """Write a fitted estimator; see :func:`load`."""
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
        "parameters": {k: _encode(v) for k, v in estimator.get_params(deep=False).items()},
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "seed": estimator._seed,
        "has_own_encoder": estimator.encoder is not None,
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
    }
    scaling = estimator._scaling
    if scaling.shift is not None and scaling.factor is not None:
        arrays |= {"scaling.shift": scaling.shift, "scaling.factor": scaling.factor}
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    tensors |= {_NETWORK + k: v for k, v in estimator.network_.state_dict().items()}
    write_model(folder, manifest, tensors)


def load(folder: str | Path, *, device: str = "auto", encoder: nn.Module | None = None) -> SpherePair:
    """Read a model that was saved with ``model.save(folder)``.

    Only JSON and numbers are read; nothing in the folder is executed.

    Parameters
    ----------
    folder : path
    device : str, default="auto"
        Where the model is to predict; it need not be the device it was trained on.
    encoder : torch.nn.Module, optional
        A module of the same architecture, for models that were fitted with an encoder of their own.

    Returns
    -------
    fitted estimator
    """
    manifest, tensors = read_model(folder)
    try:
        return _rebuild(manifest, tensors, device, encoder)
    except SpherePairError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ModelFileError(f"{folder} is not a complete model ({error}); copy or fit it again.") from error


def _rebuild(
    manifest: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    device: str,
    encoder: nn.Module | None,
) -> SpherePair:
    name = manifest["estimator"]
    if name not in ESTIMATORS:
        raise ModelFileError(
            f"the saved model is a {name!r}, which this version of spherepair does not know."
        )
    if manifest["has_own_encoder"] and encoder is None:
        raise ModelFileError(
            "this model was fitted with an encoder of its own, whose code is not in the file: "
            "load(folder, encoder=module of the same architecture)."
        )
    parameters = {k: _decode(v) for k, v in manifest["parameters"].items() if not _is_lost(v)}
    _warn_of_lost(manifest["parameters"])
    model = ESTIMATORS[name](**(parameters | {"encoder": encoder, "device": device}))
    arrays = {k: v.numpy() for k, v in tensors.items() if not k.startswith(_NETWORK)}
    model.n_features_in_ = int(manifest["n_features_in"])
    if manifest["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(manifest["feature_names_in"], dtype=object)
    model._seed = int(manifest["seed"])
    model._hardware = choose_hardware(device, model.precision)
    model._scaling = Scaling(arrays.get("scaling.shift"), arrays.get("scaling.factor"))
    model._table = None
    model._embedding_dim = int(manifest["embedding_dim"])
    model.network_ = model._build_network(model.n_features_in_, model._embedding_dim, model._seed)
    model.network_.load_state_dict(
        {k.removeprefix(_NETWORK): v for k, v in tensors.items() if k.startswith(_NETWORK)}
    )
    model.network_.to(model._hardware.device).eval()
    model.labels_, model.embedding_ = arrays["labels"], arrays["embedding"]
    model.cluster_centers_ = arrays["cluster_centers"]
    model.n_clusters_ = len(model.cluster_centers_)
    model.history_ = manifest["history"]
    number = manifest["cluster_number"]
    model.cluster_number_ = None if number is None else ClusterNumber.from_dict(number)
    model.constraints_ = Constraints.from_arrays(
        arrays["pairs.left"],
        arrays["pairs.right"],
        arrays["pairs.is_must_link"],
        weight=arrays["pairs.weight"],
    )
    return model


def _encode(value: Any) -> Any:
    """Parameters as JSON; an object of the user's own is only described, and has to be given anew."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (tuple, list, np.ndarray)):
        return [_encode(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Path, torch.device)):
        return str(value)
    if type(value) in SETTINGS.values():
        return {"class": type(value).__name__, **dataclasses.asdict(value)}
    return {"described": repr(value)}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, dict):
        fields = {k: v for k, v in value.items() if k != "class"}
        return SETTINGS[value["class"]](**fields)
    return value


def _warn_of_lost(parameters: dict[str, Any]) -> None:
    for name in LOST_WITH_A_WARNING:
        if _is_lost(parameters[name]):
            warnings.warn(
                f"{name}={parameters[name]['described']} is code, which is not in the file: predictions do "
                f"not need it, but give it again with set_params({name}=...) before refine or fit.",
                SpherePairWarning,
                stacklevel=4,
            )


def _is_lost(value: Any) -> bool:
    """Whether a parameter was only described; the model then has the default of its class."""
    return isinstance(value, dict) and "described" in value

"""Fitted estimators back from their folders."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.errors import ModelFileError, SpherePairError, SpherePairWarning
from spherepair.estimators.autoembedder import AutoEmbedder
from spherepair.estimators.base import DeepConstrainedClusterer
from spherepair.estimators.cidec import CIDEC
from spherepair.estimators.dcgmm import DCGMM
from spherepair.estimators.saving import NETWORK_PREFIX, decode_parameter, is_lost
from spherepair.estimators.sdec import SDEC
from spherepair.estimators.spherepair import SpherePair
from spherepair.estimators.vanilla_dcc import VanillaDCC
from spherepair.estimators.volmax_dcc import VolMaxDCC
from spherepair.persistence import read_model
from spherepair.training.hardware import choose_hardware
from spherepair.training.scaling import Scaling

#: The classes a saved model may name; nothing else is ever looked up.
ESTIMATORS: dict[str, type[DeepConstrainedClusterer]] = {
    method.__name__: method
    for method in (SpherePair, VanillaDCC, VolMaxDCC, CIDEC, DCGMM, SDEC, AutoEmbedder)
}
#: Parameters that may be objects of the user's own and change what refine and fit would do.
LOST_WITH_A_WARNING = ("clustering", "pretraining", "stopping")


def load(folder: str | Path, *, device: str = "auto", encoder: nn.Module | None = None) -> Any:
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
) -> Any:
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
    parameters = {k: decode_parameter(v) for k, v in manifest["parameters"].items() if not is_lost(v)}
    _warn_of_lost(manifest["parameters"])
    own = {"encoder": encoder} if manifest["has_own_encoder"] else {}
    model = ESTIMATORS[name](**(parameters | own | {"device": device}))
    arrays = {k: v.numpy() for k, v in tensors.items() if not k.startswith(NETWORK_PREFIX)}
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
        {k.removeprefix(NETWORK_PREFIX): v for k, v in tensors.items() if k.startswith(NETWORK_PREFIX)}
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
        source_row=arrays.get("pairs.source_row"),  # which models of earlier states have not
    )
    return model


def _warn_of_lost(parameters: dict[str, Any]) -> None:
    for name in LOST_WITH_A_WARNING:
        if is_lost(parameters.get(name)):
            warnings.warn(
                f"{name}={parameters[name]['described']} is code, which is not in the file: predictions do "
                f"not need it, but give it again with set_params({name}=...) before refine or fit.",
                SpherePairWarning,
                stacklevel=4,
            )

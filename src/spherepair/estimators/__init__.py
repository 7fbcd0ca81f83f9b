"""Estimators with scikit-learn's interface, by name, and how a saved one is loaded.

``base.py`` tells the story of ``fit``; each method has a file of its own.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from spherepair.clustering import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.encoders import unpack_encoder
from spherepair.errors import MissingDependencyError, ModelFileError, SpherePairWarning, quoted
from spherepair.estimators.autoembedder import AutoEmbedder
from spherepair.estimators.base import DeepConstrainedClusterer
from spherepair.estimators.dcc import VanillaDCC, VolMaxDCC
from spherepair.estimators.dcgmm import DCGMM
from spherepair.estimators.dec import CIDEC, SDEC
from spherepair.estimators.fitted_state import restore_assessment
from spherepair.estimators.judging import JudgingClusterer
from spherepair.estimators.spherepair import SpherePair
from spherepair.persistence import (
    NETWORK_PREFIX,
    decode_details,
    decode_parameter,
    drop_decoder,
    has_decoder,
    is_described,
    read_model,
)
from spherepair.persistence.schema import check_arrays, check_manifest, check_size, check_weights
from spherepair.terms import Terms
from spherepair.training.batches import Schedule
from spherepair.training.hardware import choose_hardware
from spherepair.training.rows import Scaling
from spherepair.validation import hidden_sizes

__all__ = ["ESTIMATORS", "load"]

#: The classes a saved model may name; nothing else is ever looked up.
ESTIMATORS: dict[str, type[DeepConstrainedClusterer]] = {
    method.__name__: method
    for method in (SpherePair, VanillaDCC, VolMaxDCC, CIDEC, DCGMM, SDEC, AutoEmbedder)
}
#: Parameters that may hold code of the user's own and change what refine and fit would do.
WARNED_PARAMETERS = ("clustering", "pretraining", "stopping")
#: Parameters of 0.1 that are now arguments of ``fit`` only.
ARGUMENTS_OF_FIT = ("on_conflict", "checkpoint")
#: Parameters of SpherePair in 0.1 that are now fields of settings, with their new names.
MOVED_TO_TERMS = ("must_link_weight", "neighbor_weight", "pseudo_pair_weight")
MOVED_TO_SCHEDULE = {
    "min_steps": "min_steps",
    "reconstruction_rows": "reconstruction_rows",
    "averaging": "ema",
}


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

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints, SpherePair, load
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SpherePair(3, max_epochs=5, random_state=0).fit(X, constraints=pairs)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model")
    ...     bool((load(f"{folder}/model").predict(X) == model.labels_).all())
    True
    """
    choose_hardware(device)  # refuses a device that is not there
    manifest, tensors = read_model(folder)
    try:
        check_manifest(manifest)
        return _rebuild(manifest, tensors, device, encoder)
    except (ModelFileError, MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # whatever a description makes of it that no rule foresaw
        raise ModelFileError(
            f"{folder} is not a complete model ({quoted(error, 300)}); copy or fit it again."
        ) from error


def _rebuild(
    manifest: dict[str, Any], tensors: dict[str, torch.Tensor], device: str, encoder: nn.Module | None
) -> Any:
    model = _build_model(manifest, device, encoder)
    model._check_parameters()
    arrays = {k: v.numpy() for k, v in tensors.items() if not k.startswith(NETWORK_PREFIX)}
    weights = {k.removeprefix(NETWORK_PREFIX): v for k, v in tensors.items() if k.startswith(NETWORK_PREFIX)}
    check_arrays(manifest, arrays)
    if encoder is None:
        sizes = hidden_sizes(model.hidden_dims, auto=manifest.get("hidden_dims") or ())
        check_size([manifest["n_features_in"], *sizes], weights)
    row_encoder = unpack_encoder(manifest, arrays, n_features=manifest["n_features_in"])
    if row_encoder is not None:
        model.encoder_, model.encoder = row_encoder, clone(row_encoder)
        model._loaded_encoder = row_encoder
    model.n_features_in_ = int(manifest["n_features_in"])
    if manifest["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(manifest["feature_names_in"], dtype=object)
    model._seed, model._embedding_dim = int(manifest["seed"]), int(manifest["embedding_dim"])
    model._hidden_dims = hidden_sizes(manifest.get("hidden_dims") or ())
    model._hardware = choose_hardware(device, model.precision)
    model._scaling = Scaling(arrays.get("scaling.shift"), arrays.get("scaling.factor"))
    model._table = None
    model.network_ = model._build_network(model.n_features_in_, model._embedding_dim, model._seed)
    if not manifest.get("has_rows", True) and not has_decoder(weights):
        drop_decoder(model.network_)
    check_weights(model.network_.state_dict(), weights)
    model.network_.load_state_dict(weights)
    model.network_.to(model._hardware.device).eval()
    model.cluster_centers_ = arrays["cluster_centers"]
    model.n_clusters_ = len(model.cluster_centers_)
    model.history_, number = manifest["history"], manifest["cluster_number"]
    model.cluster_number_ = None if number is None else ClusterNumber.from_dict(number)
    model._saved_spread = manifest.get("spread")
    restore_assessment(model, manifest, arrays)
    if manifest.get("has_rows", True):
        _restore_rows(model, manifest, arrays)
    return model


def _restore_rows(model: Any, manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Labels, embedding and pairs of the rows of the fit."""
    model.labels_, model.embedding_ = arrays["labels"], arrays["embedding"]
    model.constraints_ = Constraints.from_arrays(
        arrays["pairs.left"],
        arrays["pairs.right"],
        arrays["pairs.is_must_link"],
        weight=arrays["pairs.weight"],
        source_row=arrays.get("pairs.source_row"),  # missing in early models
        n_rows=len(model.labels_),
        **decode_details(manifest, arrays),
    )
    if isinstance(model, JudgingClusterer):
        model.restore_judgment(manifest.get("wrong_answers"), arrays)


def _build_model(manifest: dict[str, Any], device: str, encoder: nn.Module | None) -> Any:
    """The unfitted estimator with the saved parameters."""
    name = manifest["estimator"]
    if name not in ESTIMATORS:
        raise ModelFileError(
            f"the saved model is a {quoted(name)}, which this version of spherepair does not know."
        )
    if manifest["has_own_encoder"] and encoder is None:
        raise ModelFileError(
            "this model was fitted with an encoder of its own, whose code is not in the file: "
            "load(folder, encoder=module of the same architecture)."
        )
    method, saved = ESTIMATORS[name], manifest["parameters"]
    _warn_about_code(saved)
    parameters = {k: decode_parameter(v, method._settings) for k, v in saved.items() if not is_described(v)}
    if manifest["format_version"] == 1:
        parameters = _upgrade(name, parameters)
    own = {"encoder": encoder} if manifest["has_own_encoder"] else {}
    return method(**(parameters | own | {"device": device}))


def _upgrade(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a model saved by 0.1, under the names of this version."""
    new = {key: value for key, value in parameters.items() if key not in ARGUMENTS_OF_FIT}
    if name != SpherePair.__name__:
        return new
    terms = {key: new.pop(key) for key in MOVED_TO_TERMS if key in new}
    schedule = {key: new.pop(old) for old, key in MOVED_TO_SCHEDULE.items() if old in new}
    if new.pop("entailed_weight", 0.0):
        warnings.warn(
            "this model was fitted with entailed_weight, which is gone: predictions do not need it, but give "
            "refine and fit constraints.closure() instead.",
            SpherePairWarning,
            stacklevel=5,
        )
    return new | {"terms": Terms(**terms), "schedule": Schedule(**schedule)}


def _warn_about_code(parameters: dict[str, Any]) -> None:
    for name in WARNED_PARAMETERS:
        if is_described(parameters.get(name)):
            warnings.warn(
                f"{name}={parameters[name]['described']} is code, which is not in the file: predictions do "
                f"not need it, but give it again with set_params({name}=...) before refine or fit.",
                SpherePairWarning,
                stacklevel=5,
            )

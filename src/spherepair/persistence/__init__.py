"""Saved models and checkpoints: JSON and safetensors, written whole or not at all.

A model is a folder of two files, ``model.json`` and ``weights.safetensors``. The JSON carries the
SHA-256 of the weights and of itself, so that a truncated or altered file is noticed before anything
in it is used. No file is ever unpickled or executed. :func:`spherepair.load` makes a model of it again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from spherepair import __version__
from spherepair.errors import InvalidParameterError, ModelFileError, quoted
from spherepair.files import atomic_folder, atomic_write, left_behind
from spherepair.files.untrusted import decoding

MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"
#: How often to try to read a model that is being replaced, and the seconds between.
READ_ATTEMPTS, READ_PAUSE = 25, 0.02
#: Raised when older code can no longer read a saved model; format 1 is that of spherepair 0.1.
FORMAT_VERSION, READABLE_FORMATS = 2, (1, 2)
#: Prefix of the network's weights among the tensors of a model.
NETWORK_PREFIX = "network."
#: How the names of weights begin that only training needs.
DECODER_PREFIXES = ("decoder.", "autoencoder.decoder.")
_PAIR_ARRAYS = ("left", "right", "is_must_link", "weight", "source_row")
_PLAIN = (str, int, float, bool, type(None))


def save_model(model: Any, folder: str | Path, *, further: Any = ({}, {}), rows: bool = True) -> None:
    """Write a fitted estimator, and what else belongs to it; see :func:`spherepair.load`.

    Without rows it can only predict, and so its decoder is left out too.
    """
    _refuse_other_network(model)
    number, names = model.cluster_number_, getattr(model, "feature_names_in_", None)
    judgment = getattr(model, "judgment_", None) if rows else None
    manifest = {
        "estimator": type(model).__name__,
        "spherepair_version": __version__,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "parameters": {
            name: encode_parameter(value, model._settings)
            for name, value in model.get_params(deep=False).items()
        },
        "n_features_in": model.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "seed": model._seed,
        "has_own_encoder": isinstance(getattr(model, "encoder", None), nn.Module),
        "embedding_dim": model._embedding_dim,
        "hidden_dims": model._hidden_dims,
        "cluster_number": None if number is None else number.to_dict(),
        "history": model.history_,
        "has_rows": rows,
        "spread": model._spread(),
        "pair_texts": _pair_texts(model.constraints_) if rows else {},
        "wrong_answers": None if judgment is None else judgment.wrong.to_dict(),
    }
    arrays = (_row_arrays(model) if rows else {}) | _model_arrays(model) | further[1]
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    weights = model.network_.state_dict()
    tensors |= {NETWORK_PREFIX + k: weights[k] for k in weights if rows or not k.startswith(DECODER_PREFIXES)}
    write_model(folder, manifest | further[0], tensors)


def _model_arrays(model: Any) -> dict[str, Any]:
    """Centers and scaling of a fitted estimator: with the network, all that a prediction needs."""
    arrays, scaling = {"cluster_centers": model.cluster_centers_}, model._scaling
    if scaling.shift is not None and scaling.factor is not None:
        arrays |= {"scaling.shift": scaling.shift, "scaling.factor": scaling.factor}
    return arrays


def _row_arrays(model: Any) -> dict[str, Any]:
    """Labels, embedding and pairs of the rows of the fit."""
    pairs = model.constraints_
    arrays = {
        "labels": model.labels_,
        "embedding": model.embedding_,
        **{f"pairs.{name}": getattr(pairs, name) for name in _PAIR_ARRAYS},
        **{f"pairs.{name}": codes for name, (_, codes) in _encoded_texts(pairs).items()},
    }
    if pairs.details.value is not None:
        arrays["pairs.value"] = pairs.value
    if (judgment := getattr(model, "judgment_", None)) is not None:
        judged = ("right", "neighbors_same", "informative")
        arrays |= {f"judgment.{name}": getattr(judgment, name) for name in judged}
        arrays["judgment.weights"] = model.pair_weights_
    return arrays


def _encoded_texts(pairs: Any) -> dict[str, tuple[Any, Any]]:
    """Persons and times, where known: the different texts, and which of them each pair has."""
    known = {name: getattr(pairs.details, name) for name in ("by", "time")}
    return {k: np.unique(column, return_inverse=True) for k, column in known.items() if column is not None}


def _pair_texts(pairs: Any) -> dict[str, list[str]]:
    """The different persons and times; which of them each pair has stands among the arrays."""
    return {name: texts.tolist() for name, (texts, _) in _encoded_texts(pairs).items()}


def decode_details(manifest: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Persons, times and values of the saved pairs, as ``Constraints.from_arrays`` takes them."""
    # Missing in models of spherepair 0.1, and where no pair has any.
    texts = {name: np.array(found, dtype=object) for name, found in manifest.get("pair_texts", {}).items()}
    named = {name: texts[name][arrays[f"pairs.{name}"]] for name in ("by", "time") if name in texts}
    return {**named, "value": arrays.get("pairs.value")}


def _refuse_other_network(model: Any) -> None:
    """Refuse a model whose parameters were set to another network after the fit: it could not be loaded."""
    described = model._build_network(model.n_features_in_, model._embedding_dim, model._seed)
    if not has_decoder(model.network_.state_dict()):
        drop_decoder(described)
    shapes = [
        {name: tensor.shape for name, tensor in network.state_dict().items()}
        for network in (described, model.network_)
    ]
    if shapes[0] != shapes[1]:
        raise InvalidParameterError(
            "the parameters describe another network than the one that was fitted (hidden_dims, n_clusters "
            "or encoder was set after fit); set them back or fit again before save."
        )


def has_decoder(weights: Iterable[str]) -> bool:
    """Whether there is a decoder among the names of a network's weights."""
    return any(name.startswith(DECODER_PREFIXES) for name in weights)


def drop_decoder(network: nn.Module) -> None:
    """Take the decoder out of a network that has one."""
    autoencoder = getattr(network, "autoencoder", network)
    if hasattr(autoencoder, "decoder"):
        del autoencoder.decoder


def encode_parameter(value: Any, settings: Sequence[type]) -> Any:
    """Encode a parameter as JSON.

    Parameters
    ----------
    value : object
    settings : sequence of dataclasses
        Objects of these classes are encoded by class and fields, all others by a description only.

    Examples
    --------
    >>> encode_parameter((64, 32), ()), encode_parameter(len, ())
    ([64, 32], {'described': '<built-in function len>'})
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (tuple, list, np.ndarray)):
        return [encode_parameter(item, settings) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Path, torch.device)):
        return str(value)
    if type(value) in settings:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__} | {k: encode_parameter(v, settings) for k, v in fields.items()}
    return {"described": repr(value)}


def decode_parameter(value: Any, settings: Sequence[type]) -> Any:
    """Decode what :func:`encode_parameter` made; only the classes in ``settings`` are ever looked up."""
    if isinstance(value, list):
        return tuple(decode_parameter(item, settings) for item in value)
    if isinstance(value, dict):
        fields = {k: decode_parameter(v, settings) for k, v in value.items() if k != "class"}
        return {kind.__name__: kind for kind in settings}[value["class"]](**fields)
    return value


def is_described(value: Any) -> bool:
    """Whether only a description of a parameter was saved; the loaded model has the default instead."""
    return isinstance(value, dict) and "described" in value


def write_model(folder: str | Path, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder; an older model of that name is replaced only once the new one is whole."""
    target = Path(folder).resolve()  # "." has no name, and a link to a model is followed
    refuse_foreign_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_folder(target) as fresh:
            weights = fresh / WEIGHTS_FILE
            safetensors.torch.save_file(_contiguous(tensors), weights)
            content = {"format_version": FORMAT_VERSION, **manifest, "weights_sha256": _digest(weights)}
            content["sha256"] = _json_digest(content)
            entries = ",\n".join(f"{_to_json(name)}: {_to_json(entry)}" for name, entry in content.items())
            (fresh / MODEL_FILE).write_text(f"{{\n{entries}\n}}\n", encoding="utf-8")
            shutil.copymode(fresh / MODEL_FILE, weights)  # safetensors lets only the owner read
    except (safetensors.SafetensorError, OSError) as error:
        raise _not_written(target, error) from error


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model folder after checking that both files are as they were written.

    Where another process replaces the model meanwhile, the result is the old or the new one, never a mixture.
    """
    path = Path(folder)
    path = left_behind(path) or path
    for _ in range(READ_ATTEMPTS - 1):
        before = _stamp(path)
        try:
            return _read_once(path)
        except (ModelFileError, OSError):
            if _stamp(path) == before:
                raise
            time.sleep(READ_PAUSE)
    return _read_once(path)


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Inode and time of the description, which differ for every model saved there."""
    try:
        found = (folder / MODEL_FILE).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _read_once(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    # Both at once and only once: what is used is what was checked.
    description, content = _read_files(path)
    manifest = _parse_manifest(path / MODEL_FILE, description)
    version = manifest.get("format_version")
    if version not in READABLE_FORMATS:
        raise ModelFileError(
            f"{path} was saved in format {quoted(version)} (by spherepair "
            f"{quoted(manifest.get('spherepair_version'))}); this version reads formats up to "
            f"{FORMAT_VERSION}. Use a matching spherepair or fit the model again."
        )
    stated = manifest.pop("sha256", None)
    if stated != _json_digest(manifest):
        raise ModelFileError(
            f"{path / MODEL_FILE} was altered after it was saved; fit or copy the model again."
        )
    weights = path / WEIGHTS_FILE
    if content is None:
        raise ModelFileError(f"{path} has no {WEIGHTS_FILE}; the model was not copied whole.")
    if manifest.get("weights_sha256") != hashlib.sha256(content).hexdigest():
        raise ModelFileError(
            f"{weights} is truncated or was altered after it was saved; copy the model again."
        )
    with decoding("safetensors", lambda reason: ModelFileError(f"{weights} {reason}")):
        return manifest, safetensors.torch.load(content)


def _read_files(path: Path) -> tuple[bytes, bytes | None]:
    file, weights = path / MODEL_FILE, path / WEIGHTS_FILE
    if not file.is_file():
        raise ModelFileError(f"{path} is not a saved model: {_what_is_wrong(path)}.")
    return file.read_bytes(), weights.read_bytes() if weights.is_file() else None


def _parse_manifest(file: Path, content: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{file} cannot be read ({quoted(error)}); copy the model again.") from error
    if not isinstance(manifest, dict):
        raise ModelFileError(f"{file} is not the description of a model; copy the model again.")
    return manifest


def write_tensor_file(file: Path, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write tensors and JSON into one safetensors file, through a temporary name."""
    plain = _contiguous(tensors)
    text = _to_json(manifest)
    metadata = {"manifest": text, "checksum": _checksum(text, plain)}
    try:
        # A fixed temporary name: what a killed process left behind is overwritten.
        with atomic_write(file, unique=False) as temporary:
            safetensors.torch.save_file(plain, temporary, metadata=metadata)
    except (safetensors.SafetensorError, OSError) as error:
        raise _not_written(file, error) from error


def read_tensor_file(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`write_tensor_file` wrote; a file in which a single bit is another is refused."""
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        is_whole = metadata["checksum"] == _checksum(metadata["manifest"], tensors)
        manifest = json.loads(metadata["manifest"]) if is_whole else None
    except Exception as error:  # a damaged header makes safetensors and torch raise almost anything
        raise ModelFileError(f"{file} cannot be read ({quoted(error)}); remove it to start anew.") from error
    if not isinstance(manifest, dict):
        raise ModelFileError(f"{file} was altered after it was written; remove it to start anew.")
    return manifest, tensors


def _not_written(path: Path, error: Exception) -> ModelFileError:
    """A full disk, a folder without permission: what was there before is still there."""
    return ModelFileError(
        f"{path} could not be written ({quoted(error)}); free some space or choose another place."
    )


def _what_is_wrong(folder: Path) -> str:
    if folder.is_dir():
        return f"it has no {MODEL_FILE}"
    return "it is a file, and a model is the folder with it" if folder.exists() else "it does not exist"


def refuse_foreign_folder(target: Path) -> None:
    """Never delete what is not ours: only an empty folder or an older model is replaced."""
    if target.is_dir():
        foreign = sorted(p.name for p in target.iterdir() if p.name not in {MODEL_FILE, WEIGHTS_FILE})
        if foreign:
            raise ModelFileError(
                f"{target} holds other files ({foreign[0]}); choose an empty or a new folder for the model."
            )
    elif target.exists():
        raise ModelFileError(f"{target} is a file; a model is saved as a folder.")


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    # clone: safetensors refuses tensors that share memory, such as tied weights
    return {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checksum(manifest: str, tensors: dict[str, Tensor]) -> str:
    """Digest of the JSON and of the names, types, shapes and values of the tensors.

    BLAKE2 is the fastest of Python's secure ones: a digest is taken after every epoch.
    """
    digest = hashlib.blake2b(manifest.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _json_digest(content: dict[str, Any]) -> str:
    # Through JSON and back first, so that what is hashed is what a reader will see.
    canonical = json.dumps(json.loads(_to_json(content)), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _to_json(content: Any) -> str:
    return json.dumps(content, allow_nan=True)

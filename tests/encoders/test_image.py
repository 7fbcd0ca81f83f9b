"""Pictures from files, folders and arrays become rows of numbers."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch

from spherepair.encoders import ImageEncoder, TableEncoder, image_networks, pack_encoder, unpack_encoder
from spherepair.errors import InvalidDataError, InvalidParameterError, MissingDependencyError, ModelFileError
from spherepair.files.pictures import picture_files


@pytest.fixture(autouse=True)
def fresh_models() -> None:
    image_networks.load_image_model.cache_clear()


def test_a_folder_its_files_and_arrays_give_the_same(photos: Path) -> None:
    from PIL import Image

    files = picture_files(photos)
    assert [file.parent.name for file in files] == ["blue"] * 6 + ["red"] * 6
    encoder = ImageEncoder("pixels").fit(photos)
    rows = encoder.transform(photos)
    assert rows.shape == (12, 24 * 32 * 3)
    assert encoder.describe() == "24 x 32 colored pixels"
    arrays = np.stack([np.asarray(Image.open(file)) for file in files])
    for given in ([str(file) for file in files], arrays, arrays / 255.0):
        assert np.allclose(encoder.transform(given), rows, atol=1e-6)
    red = rows.reshape(12, -1, 3).mean(axis=1)
    assert (red[6:, 0] > red[6:, 2] + 0.5).all()
    assert (red[:6, 2] > red[:6, 0] + 0.5).all()


def test_small_gray_pictures_are_their_pixels() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, size=(7, 8, 9), dtype=np.uint8)
    rows = ImageEncoder().fit_transform(pictures)
    assert np.allclose(rows, pictures.reshape(7, 72) / 255.0)


def test_unreadable_pictures_are_named_or_kept(photos: Path) -> None:
    (photos / "red" / "3.png").write_bytes(b"no picture")
    files = [*picture_files(photos), photos / "gone.png", None]
    with pytest.raises(InvalidDataError, match=r"row 9: .*3\.png \(UnidentifiedImageError\)"):
        ImageEncoder("pixels").fit_transform(files)
    encoder = ImageEncoder("pixels", on_unreadable="empty")
    rows = encoder.fit_transform(files)
    assert np.flatnonzero(~rows.any(axis=1)).tolist() == [9, 12, 13]
    good = ImageEncoder("pixels").fit(picture_files(photos)[:6])
    with pytest.raises(InvalidDataError, match=r"row 9: .*; row 12: .*; row 13: no file is named"):
        good.transform(files)


def test_a_picture_of_gigabytes_is_not_opened(photos: Path, monkeypatch: Any) -> None:
    from PIL import Image

    encoder = ImageEncoder("pixels").fit(photos)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 900)
    with pytest.raises(InvalidDataError, match="DecompressionBomb"):
        encoder.transform(photos)


def test_a_saved_encoder_encodes_as_before(photos: Path) -> None:
    encoder = ImageEncoder("pixels").fit(photos)
    content, arrays = pack_encoder(encoder)
    again = unpack_encoder(json.loads(json.dumps(content)), arrays)
    assert np.array_equal(again.transform(photos), encoder.transform(photos))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((3, 4, 4, 2)), "1 or 3 channels"),
        (np.full((3, 4, 4), 300.0), "values from 300 to 300"),
        (np.full((3, 4, 4), np.nan), "values from nan"),
        ([], "no pictures"),
        ([1, 2], "row 0 of X is a int"),
        ("no/such/folder", "is not a folder"),
        ([None, None], "cannot be read"),
    ],
)
def test_what_is_no_picture_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        ImageEncoder().fit(wrong)


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InvalidDataError, match="without pictures"):
        ImageEncoder().fit(tmp_path)


def test_pictures_in_a_table(photos: Path) -> None:
    pd = pytest.importorskip("pandas")
    files = [str(file) for file in picture_files(photos)]
    frame = pd.DataFrame({"file": files, "price": np.arange(12.0)})
    encoder = TableEncoder(["image:file"], image_model="pixels").fit(frame)
    assert "file   image, 24 x 32 colored pixels" in encoder.describe()
    assert encoder.used_columns("image") == ["file"]


def test_an_unknown_model_is_refused(photos: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(image_networks, "is_installed", lambda *_: False)
    with pytest.raises(InvalidParameterError, match=r"'resnet18' is neither .*; install torchvision or timm"):
        ImageEncoder("resnet18").fit(photos)
    with pytest.raises(InvalidParameterError, match="on_unreadable"):
        ImageEncoder(on_unreadable="skip").fit(photos)


def test_what_to_install_is_said(photos: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingDependencyError, match="pip install efficientnet_lite_pytorch"):
        ImageEncoder("efficientnet-lite0").fit(photos)


class FakeTimm(types.ModuleType):
    """timm's interface, with a network that gives the mean color."""

    def __init__(self, torch: Any, **config: str) -> None:
        super().__init__("timm")
        self.torch, self.downloads = torch, 0
        self.config = types.SimpleNamespace(**{"url": "", "hf_hub_id": "", "hf_hub_filename": ""} | config)
        shown = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "input_size": (3, 16, 16)}
        self.data = types.SimpleNamespace(resolve_model_data_config=lambda _: shown)

    def list_models(self, pretrained: bool) -> list[str]:
        return ["mean_color"]

    def get_pretrained_cfg(self, name: str) -> Any:
        return self.config

    def create_model(self, name: str, pretrained: bool, num_classes: int, **given: Any) -> Any:
        network = self.torch.nn.Conv2d(3, 3, 1, bias=False)
        overlay = given.get("pretrained_cfg_overlay", {})
        self.downloads += not overlay
        weights = overlay.get("state_dict", {"weight": self.torch.eye(3)[..., None, None]})
        network.load_state_dict(weights)
        return self.torch.nn.Sequential(network, self.torch.nn.AdaptiveAvgPool2d(1), self.torch.nn.Flatten())


@pytest.fixture
def torch(monkeypatch: Any, tmp_path: Path) -> Any:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("spherepair.encoders.embedding.metadata.version", lambda package: "1.0")
    return pytest.importorskip("torch")


def use(package: Any, name: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setattr(image_networks, "is_installed", lambda *names: names == (name,))


def test_a_network_of_timm_is_downloaded_by_fit_alone(photos: Path, torch: Any, monkeypatch: Any) -> None:
    timm = FakeTimm(torch, url="https://elsewhere/mean_color-1.pth?download=1")
    use(timm, "timm", monkeypatch)
    encoder = ImageEncoder("mean_color").fit(photos)
    assert timm.downloads == 1
    # A saved model may name anything: transforming does not download.
    for known in (encoder, unpack_encoder(*pack_encoder(encoder))):
        with pytest.raises(InvalidParameterError, match="'mean_color' are not on this machine"):
            known.transform(photos)
    kept = image_networks._downloaded(timm.config.url)
    assert kept.name == "mean_color-1.pth"
    kept.parent.mkdir(parents=True)
    torch.save({"weight": torch.eye(3)[..., None, None]}, kept)
    rows = encoder.transform(photos)
    assert timm.downloads == 1
    assert rows.shape == (12, 3)
    assert (rows[:6, 2] > 0.2).all()
    assert (rows[6:, 0] > 0.2).all()


def test_weights_that_the_hub_has_given_before_are_used(
    photos: Path, torch: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    timm, hub = FakeTimm(torch, hf_hub_id="timm/mean_color"), types.ModuleType("huggingface_hub")
    file = tmp_path / "model.safetensors"
    hub.try_to_load_from_cache = lambda _, name: str(file) if name == file.name else None  # type: ignore[attr-defined]
    use(timm, "timm", monkeypatch)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    encoder = ImageEncoder("mean_color").fit(photos)
    with pytest.raises(InvalidParameterError, match="are not on this machine"):
        encoder.transform(photos)
    weights = torch.eye(3)[..., None, None].contiguous()
    safetensors.torch.save_file({"weight": 2 * weights}, file)
    with pytest.raises(ModelFileError, match="has other weights"):
        encoder.transform(photos)
    image_networks.load_image_model.cache_clear()
    safetensors.torch.save_file({"weight": weights}, file)
    assert encoder.transform(photos).shape == (12, 3)
    assert timm.downloads == 1


def test_a_network_of_torchvision_is_downloaded_by_fit_alone(
    photos: Path, torch: Any, monkeypatch: Any
) -> None:
    class Weights:
        url = "https://elsewhere/small-1.pth"
        transforms = staticmethod(
            lambda: types.SimpleNamespace(mean=(0.5,) * 3, std=(0.5,) * 3, crop_size=[8])
        )

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)

        def forward(self, batch: Any) -> Any:
            return self.fc(batch.mean(dim=(2, 3)))

    asked, models = [], types.ModuleType("torchvision.models")
    models.list_models = lambda: ["small"]  # type: ignore[attr-defined]
    models.get_model_weights = lambda _: types.SimpleNamespace(DEFAULT=Weights)  # type: ignore[attr-defined]
    models.get_model = lambda name, weights: asked.append(name) or Network()  # type: ignore[attr-defined]
    use(types.ModuleType("torchvision"), "torchvision", monkeypatch)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    encoder = ImageEncoder("small").fit(photos)
    assert asked == ["small"]
    with pytest.raises(InvalidParameterError, match="'small' are not on this machine"):
        encoder.transform(photos)
    assert asked == ["small"]
    kept = image_networks._downloaded(Weights.url)
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"")
    assert encoder.transform(photos).shape == (12, 3)

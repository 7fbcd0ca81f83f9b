"""Pictures from files, folders and arrays become rows of numbers."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spherepair.encoders import ImageEncoder, TableEncoder, image, pack_encoder, unpack_encoder
from spherepair.errors import InvalidDataError, InvalidParameterError, MissingDependencyError
from spherepair.files.data_tables import picture_files


@pytest.fixture(autouse=True)
def fresh_models() -> None:
    image.load_image_model.cache_clear()


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
    monkeypatch.setattr(image, "is_installed", lambda *_: False)
    with pytest.raises(InvalidParameterError, match=r"'resnet18' is neither .*; install torchvision or timm"):
        ImageEncoder("resnet18").fit(photos)
    with pytest.raises(InvalidParameterError, match="on_unreadable"):
        ImageEncoder(on_unreadable="skip").fit(photos)


def test_what_to_install_is_said(photos: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingDependencyError, match="pip install efficientnet_lite_pytorch"):
        ImageEncoder("efficientnet-lite0").fit(photos)


def test_a_network_by_name(photos: Path, monkeypatch: Any) -> None:
    """timm's interface, with a network that gives the mean color."""
    torch = pytest.importorskip("torch")
    module = types.ModuleType("timm")

    class MeanColor(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, batch: Any) -> Any:
            return batch.mean(dim=(2, 3))

    module.list_models = lambda pretrained: ["mean_color"]  # type: ignore[attr-defined]
    module.create_model = lambda name, pretrained, num_classes: MeanColor()  # type: ignore[attr-defined]
    config = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "input_size": (3, 16, 16)}
    module.data = types.SimpleNamespace(resolve_model_data_config=lambda _: config)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", module)
    monkeypatch.setattr(image, "is_installed", lambda *names: names == ("timm",))
    monkeypatch.setattr("spherepair.encoders.embedding.metadata.version", lambda package: "1.0")
    rows = ImageEncoder("mean_color").fit_transform(photos)
    assert rows.shape == (12, 3)
    assert (rows[:6, 2] > 0.2).all()
    assert (rows[6:, 0] > 0.2).all()

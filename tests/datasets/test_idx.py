from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from spherepair.datasets.idx import IDX_FILES, read_idx, read_idx_folder
from spherepair.errors import InvalidDataError


def idx_bytes(array, *, code=0x08):
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def write_folder(folder, images, *, suffix=".gz"):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = (images["X_train"], images["y_train"], images["X_test"], images["y_test"])
    for name, array in zip(IDX_FILES, arrays, strict=True):
        content = idx_bytes(array.astype(np.uint8))
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_values_and_shape_survive(tmp_path, suffix):
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / f"images{suffix}"
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if suffix else content)
    found = read_idx(path)
    assert found.dtype == np.uint8
    assert np.array_equal(found, array)


def test_big_endian_numbers_come_in_native_order(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(idx_bytes(np.array([1, -2, 70000], dtype=">i4"), code=0x0C))
    found = read_idx(path)
    assert found.dtype == np.int32
    assert found.tolist() == [1, -2, 70000]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file .it starts with nothing"),
        (b"PK\x03\x04rest", "not an IDX file .it starts with 504b0304"),
        (b"\0\0\x07\x01\0\0\0\x01a", "not an IDX file"),
        (b"\0\0\x08\x03\0\0\0\x01", "cut off inside its header"),
        (b"\0\0\x08\x01\0\0\0\x05abc", r"shape \(5,\) needs 13 bytes, got 11"),
        (b"\0\0\x08\x01\0\0\0\x02abc", r"shape \(2,\) needs 10 bytes, got 11"),
    ],
)
def test_wrong_content_is_named(tmp_path, content, message):
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"no gzip" + b])
def test_damaged_gzip_is_named(tmp_path, damage):
    path = tmp_path / "broken.gz"
    path.write_bytes(damage(gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8)))))
    with pytest.raises(InvalidDataError, match=r"broken\.gz: cannot be read"):
        read_idx(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_folder_gives_training_rows_first(tmp_path, images, suffix):
    write_folder(tmp_path / "mnist", images, suffix=suffix)
    raw = read_idx_folder(tmp_path / "mnist")
    assert raw.n_train == 12
    assert np.array_equal(raw.X[:12], images["X_train"])
    assert np.array_equal(raw.y[12:], images["y_test"])


def test_labels_of_another_length_are_refused(tmp_path, images):
    write_folder(tmp_path, {**images, "y_test": images["y_test"][:-1]})
    with pytest.raises(InvalidDataError, match=r"t10k-labels.*\(5,\) do not go with.*\(6, 2, 3\)"):
        read_idx_folder(tmp_path)


def test_test_images_of_another_size_are_refused(tmp_path, images):
    write_folder(tmp_path, {**images, "X_test": images["X_test"][:, :, :2]})
    with pytest.raises(InvalidDataError, match=r"test images of \(2, 2\) pixels"):
        read_idx_folder(tmp_path)


def test_incomplete_folder_is_refused(tmp_path, images):
    write_folder(tmp_path, images)
    (tmp_path / f"{IDX_FILES[3]}.gz").unlink()
    with pytest.raises(InvalidDataError, match="must hold train-images"):
        read_idx_folder(tmp_path)

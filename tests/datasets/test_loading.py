from __future__ import annotations

import gzip
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spherepair.datasets import list_datasets, load_dataset, locating
from spherepair.datasets.catalogue import CATALOGUE, find_spec
from spherepair.datasets.idx import IDX_FILES
from spherepair.errors import DatasetNotFoundError, InvalidDataError, InvalidParameterError


def write_images(folder, images, *, name="mnist.npz"):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / name, **images)
    return folder / name


def write_idx(folder, images):
    folder.mkdir(parents=True)
    arrays = (images["X_train"], images["y_train"], images["X_test"], images["y_test"])
    for name, array in zip(IDX_FILES, arrays, strict=True):
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (folder / f"{name}.gz").write_bytes(gzip.compress(header + array.astype("u1").tobytes()))


def test_images_are_flattened_and_scaled(tmp_path, images):
    path = write_images(tmp_path, images)
    mnist = load_dataset("mnist", data_home=tmp_path)
    assert (mnist.X_train.shape, mnist.X_test.shape) == ((12, 6), (6, 6))
    assert np.allclose(mnist.X_train, images["X_train"].reshape(12, 6) * 0.02)
    assert mnist.y_train.dtype == np.int64
    assert mnist.source == str(path)
    assert mnist.target_names == ("0", "1", "2")
    assert (mnist.feature_kind, mnist.n_classes) == ("pixels", 3)


def test_folders_are_searched_in_order(tmp_path, images, monkeypatch, empty_machine):
    monkeypatch.setenv("SPHEREPAIR_DATA", str(tmp_path / "environment"))
    write_idx(tmp_path / "system" / "fashion-mnist", images)
    expected = [tmp_path / "system" / "fashion-mnist"]
    for folder in (empty_machine, tmp_path / "environment", tmp_path / "given"):
        expected.append(write_images(folder, images, name="fashion_mnist.npz"))
    for path in reversed(expected):
        found = load_dataset("fashion_mnist", data_home=tmp_path / "given")
        assert found.source == str(path)
        assert found.X_train.shape == (12, 6)
        if path.is_file():
            path.unlink()


@pytest.mark.parametrize("name", ["fmnist.npz", "fashion_mnist.npz"])
def test_other_file_names_are_understood(tmp_path, images, name):
    write_images(tmp_path, images, name=name)
    assert load_dataset("fashion_mnist", data_home=tmp_path).source.endswith(name)


def test_idx_files_in_the_data_folder_are_read(tmp_path, images):
    write_idx(tmp_path / "mnist", images)
    raw = load_dataset("mnist", data_home=tmp_path, preprocessing="raw")
    assert np.array_equal(raw.X_test, images["X_test"].reshape(6, 6))


def test_byte_features_are_pooled_and_standardised(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "cifar10_features.npz",
        X_train=rng.integers(0, 256, (80, 4), dtype=np.uint8),
        y_train=np.arange(80) % 10,
        X_test=rng.integers(0, 256, (20, 4), dtype=np.uint8),
        y_test=np.arange(20) % 10,
        scale_low=np.zeros(4, np.float32),
        scale_high=np.ones(4, np.float32),
    )
    paper = load_dataset("CIFAR-10", data_home=tmp_path)
    assert np.bincount(paper.y_train).tolist() == [8] * 10
    assert np.allclose(paper.X_train.std(axis=0), 1, atol=1e-4)
    raw = load_dataset("CIFAR-10", data_home=tmp_path, preprocessing="raw")
    assert raw.X_train.shape == (80, 4)
    assert 0.9 < raw.X_train.max() <= 1.0
    assert raw.target_names[0] == "airplane"


def test_documents_are_read_from_parquet(tmp_path):
    columns = {
        "split": ["train"] * 4 + ["test"],
        "label": [0, 1, 0, 1, 1],
        "label_name": ["grain", "ship", "grain", "ship", "ship"],
        "text": ["wheat corn", "tanker port", "corn", "port", "tanker"],
    }
    pq.write_table(pa.table(columns), tmp_path / "reuters_r8.parquet")
    r8 = load_dataset("r8", data_home=tmp_path)
    assert r8.X_train.shape == (4, 4)
    assert r8.target_names == ("grain", "ship")


def test_reuters_values_stay_as_stored(tmp_path):
    X = np.linspace(0, 9, 12).reshape(4, 3)
    np.savez(tmp_path / "reuters10k.npz", X_train=X, y_train=[0, 1, 2, 3], X_test=X, y_test=[0] * 4)
    reuters = load_dataset("reuters", data_home=tmp_path)
    assert reuters.X_train.dtype == np.float32
    assert np.array_equal(reuters.X_train, X.astype(np.float32))


def test_digits_always_load_with_a_fixed_split():
    first, second = load_dataset("digits", download=False), load_dataset("digits")
    assert (first.X_train.shape, first.X_test.shape) == ((1437, 64), (360, 64))
    assert np.array_equal(first.X_train, second.X_train)
    assert (first.X_train.min(), first.X_train.max(), first.X_train.dtype) == (0, 16, np.float32)


def test_kept_classes_only(tmp_path):
    few = load_dataset("digits", classes=[0, 1, 2])
    assert np.unique(few.y_train).tolist() == [0, 1, 2]
    assert few.n_classes == 3


def test_absent_data_set_says_file_arrays_and_folder(tmp_path):
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset("stl10", data_home=tmp_path)
    message = str(caught.value)
    assert f"stl10 is not on this machine. Put stl10_features.npz into {tmp_path}" in message
    assert "X float32 (13000, 512) and y int64 (13000,)" in message


def test_nothing_is_downloaded_when_not_wanted(monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: pytest.fail("download"))
    with pytest.raises(DatasetNotFoundError, match=r"Put mnist\.npz into"):
        load_dataset("mnist", download=False)


def test_damaged_file_is_named_and_not_replaced_by_a_download(tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: pytest.fail("download"))
    (tmp_path / "mnist.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(InvalidDataError, match=r"mnist\.npz: not a whole \.npz file"):
        load_dataset("mnist", data_home=tmp_path)


def test_file_with_wrong_labels_is_named(tmp_path, images):
    write_images(tmp_path, {**images, "y_train": np.arange(11)})
    with pytest.raises(InvalidDataError, match=r"mnist\.npz: y must hold one whole number"):
        load_dataset("mnist", data_home=tmp_path)


def test_unknown_name_gets_the_list_and_a_guess():
    with pytest.raises(InvalidParameterError, match="Did you mean 'mnist'") as caught:
        load_dataset("mnits")
    assert "banking77" in str(caught.value)


def test_unknown_preprocessing_is_refused():
    with pytest.raises(InvalidParameterError, match="'paper' or 'raw', got 'zscore'"):
        load_dataset("digits", preprocessing="zscore")


@pytest.mark.parametrize(
    ("written", "name"),
    [("FashionMNIST", "fashion_mnist"), ("CIFAR-100-20", "cifar100_20"), ("RCV1-10", "rcv1_10")],
)
def test_names_may_be_written_as_in_the_paper(written, name):
    assert find_spec(written).name == name


def test_list_has_the_eight_benchmarks_and_tells_what_is_there(tmp_path, images):
    path = write_images(tmp_path, images)
    infos = {info.name: info for info in list_datasets(data_home=tmp_path)}
    assert sum(info.in_paper for info in infos.values()) == 8
    assert (infos["mnist"].available, infos["mnist"].location) == (True, str(path))
    assert infos["digits"].available
    assert not infos["imagenet10"].available
    assert f"Put imagenet10_features.npz into {tmp_path}" in infos["imagenet10"].how_to_get
    assert infos["fashion_mnist"].how_to_get.startswith("Downloaded on first use: OpenML data set")
    assert (infos["rcv1_10"].rows, infos["rcv1_10"].classes) == (177_669, 10)


def test_every_data_set_can_be_fetched_or_says_what_file_it_needs():
    for spec in CATALOGUE:
        assert spec.is_built_in or (spec.files and spec.stored)


def test_cache_folder_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locating.search_folders() == [tmp_path / ".cache" / "spherepair"]

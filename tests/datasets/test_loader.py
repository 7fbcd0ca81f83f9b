"""Loading and downloading."""

from __future__ import annotations

import gzip
import hashlib
import struct
import warnings
from http.client import IncompleteRead
from urllib.error import URLError

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.utils import Bunch

from spherepair import datasets
from spherepair.datasets import load_dataset
from spherepair.datasets.dataset_files import IDX_FILES
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


def test_byte_features_are_pooled_and_standardized(tmp_path):
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


def test_unknown_preprocessing_is_refused():
    with pytest.raises(InvalidParameterError, match="'paper' or 'raw', got 'zscore'"):
        load_dataset("digits", preprocessing="zscore")


@pytest.fixture
def openml(monkeypatch):
    """OpenML with tiny images: 20,000 rows of three pixels, labels as strings."""
    rng = np.random.default_rng(0)
    bunch = Bunch(
        data=rng.integers(0, 256, (20_000, 3)).astype(np.float64),
        target=rng.integers(0, 10, 20_000).astype(str).astype(object),
    )
    calls = []

    def fetch_openml(**options):
        calls.append(options)
        return bunch

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    digest = hashlib.sha256()
    for part in (slice(10_000), slice(10_000, None)):
        digest.update(bunch.data[part].astype(np.uint8).tobytes())
        digest.update(bunch.target[part].astype(int).astype(np.uint8).tobytes())
    for name in ("mnist", "fashion_mnist"):
        monkeypatch.setitem(datasets.OFFICIAL_SHA256, name, digest.hexdigest())
    return bunch, calls


@pytest.mark.parametrize(("name", "data_id"), [("mnist", 554), ("fashion_mnist", 40996)])
def test_openml_images_are_bytes_with_the_last_ten_thousand_for_testing(openml, name, data_id):
    bunch, calls = openml
    raw = datasets.FETCHERS[name]()
    assert calls[0]["data_id"] == data_id
    assert raw.X.dtype == np.uint8
    assert np.array_equal(raw.X, bunch.data)
    assert raw.y.tolist() == [int(label) for label in bunch.target]
    assert raw.n_train == 10_000


def test_download_is_cached_with_a_digest_and_not_repeated(openml, empty_machine):
    bunch, calls = openml
    first = load_dataset("mnist")
    assert first.source == "OpenML dataset 554"
    assert sorted(p.name for p in empty_machine.iterdir()) == ["mnist.npz", "mnist.npz.sha256"]
    second = load_dataset("mnist")
    assert len(calls) == 1
    assert second.source == str(empty_machine / "mnist.npz")
    assert np.array_equal(first.X_test, second.X_test)
    assert np.allclose(second.X_test, bunch.data[10_000:] * 0.02)


def test_download_is_cached_in_the_given_folder(openml, tmp_path):
    load_dataset("mnist", data_home=tmp_path / "mine")
    assert (tmp_path / "mine" / "mnist.npz").is_file()


def test_folder_that_cannot_be_written_costs_a_warning_in_the_log_only(openml, tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    assert load_dataset("mnist", data_home=tmp_path / "file").X_test.shape == (10_000, 3)
    assert "mnist.npz could not be cached" in caplog.text


def test_download_that_is_not_the_official_data_is_refused(openml, empty_machine):
    bunch, _ = openml
    bunch.data[0, 0] = (bunch.data[0, 0] + 1) % 256
    with pytest.raises(InvalidDataError, match="mnist: the download is not the official"):
        load_dataset("mnist")
    assert not empty_machine.exists()


def test_liac_parser_is_used_without_pandas(openml, monkeypatch):
    _, calls = openml
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    datasets.fetch_mnist()
    assert calls[0]["parser"] == "liac-arff"


@pytest.mark.parametrize(
    "error", [URLError("no route to host"), ValueError("md5 differs"), IncompleteRead(b"")]
)
def test_failed_download_says_which_file_to_put_where(monkeypatch, empty_machine, error):
    def fetch_openml(**options):
        warnings.warn("Retry downloading", UserWarning, stacklevel=2)
        raise error

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset("fashion-mnist")
    message = str(caught.value)
    assert f"Downloading it failed: {error}" in message
    assert f"Put fashion_mnist.npz into {empty_machine}" in message
    assert "X_train uint8 (60000, 28, 28)" in message


@pytest.fixture
def rcv1(monkeypatch):
    """Sixty documents over 2,003 stems; topics of the ten and one other."""
    names = np.array(["C11", *datasets.find_spec("rcv1_10").target_names], dtype=object)
    target = np.zeros((60, 11), dtype=np.uint8)
    target[np.arange(60), 1 + np.arange(60) % 10] = 1
    target[0, 2] = 1  # two of the ten: left out
    target[11, :] = 0  # none of the ten: left out
    target[12, 0] = 1  # one of the ten and another: stays
    X = np.ones((60, 2003))
    X[:30, [0, 5, 2002]] = 0
    bunch = Bunch(data=sparse.csr_matrix(X), target=sparse.csr_matrix(target), target_names=names)
    monkeypatch.setattr("sklearn.datasets.fetch_rcv1", lambda **options: bunch)
    return bunch


def test_rcv1_keeps_documents_with_exactly_one_of_the_ten_topics(rcv1):
    raw = datasets.fetch_rcv1_10()
    expected = [i % 10 for i in range(60) if i not in (0, 11)]
    assert raw.y.tolist() == expected
    assert raw.target_names[raw.y[0]] == "C18"


def test_rcv1_keeps_the_stems_in_most_documents(rcv1):
    raw = datasets.fetch_rcv1_10()
    assert raw.X.shape == (58, 2000)
    assert raw.X.nnz == 58 * 2000
    assert raw.X.dtype == np.float32


def test_rcv1_is_kept_and_read_back_as_a_sparse_matrix(rcv1, empty_machine):
    first, second = (load_dataset("rcv1_10", preprocessing="raw") for _ in range(2))
    assert second.source == str(empty_machine / "rcv1_10.npz")
    assert (first.X_train != second.X_train).nnz == 0
    assert first.target_names == second.target_names


def test_newsgroups_come_as_documents_in_the_order_of_the_archive(monkeypatch):
    def fetch_20newsgroups(*, subset, shuffle, **options):
        assert not shuffle
        words = {"train": ["red apple", "blue sky", "red"], "test": ["blue"]}
        return Bunch(
            data=words[subset],
            target=np.array([0, 1, 0] if subset == "train" else [1]),
            target_names=["fruit", "air"],
        )

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", fetch_20newsgroups)
    dataset = load_dataset("20newsgroups")
    assert dataset.X_train.shape == (3, 4)
    assert dataset.target_names == ("fruit", "air")
    raw = load_dataset("20newsgroups", preprocessing="raw")
    assert raw.X_train.tolist() == ["red apple", "blue sky", "red"]
    assert raw.feature_kind == "text documents"

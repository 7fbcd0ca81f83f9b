from __future__ import annotations

import hashlib
import warnings
from http.client import IncompleteRead
from urllib.error import URLError

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

from spherepair.datasets import fetching, load_dataset
from spherepair.errors import DatasetNotFoundError, InvalidDataError


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
        monkeypatch.setitem(fetching.OFFICIAL_SHA256, name, digest.hexdigest())
    return bunch, calls


@pytest.mark.parametrize(("name", "data_id"), [("mnist", 554), ("fashion_mnist", 40996)])
def test_openml_images_are_bytes_with_the_last_ten_thousand_for_testing(openml, name, data_id):
    bunch, calls = openml
    raw = fetching.FETCHERS[name]()
    assert calls[0]["data_id"] == data_id
    assert raw.X.dtype == np.uint8
    assert np.array_equal(raw.X, bunch.data)
    assert raw.y.tolist() == [int(label) for label in bunch.target]
    assert raw.n_train == 10_000


def test_download_is_kept_with_a_digest_and_not_repeated(openml, empty_machine):
    bunch, calls = openml
    first = load_dataset("mnist")
    assert first.source == "OpenML data set 554"
    assert sorted(p.name for p in empty_machine.iterdir()) == ["mnist.npz", "mnist.npz.sha256"]
    second = load_dataset("mnist")
    assert len(calls) == 1
    assert second.source == str(empty_machine / "mnist.npz")
    assert np.array_equal(first.X_test, second.X_test)
    assert np.allclose(second.X_test, bunch.data[10_000:] * 0.02)


def test_download_is_kept_in_the_given_folder(openml, tmp_path):
    load_dataset("mnist", data_home=tmp_path / "mine")
    assert (tmp_path / "mine" / "mnist.npz").is_file()


def test_folder_that_cannot_be_written_costs_a_warning_in_the_log_only(openml, tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    assert load_dataset("mnist", data_home=tmp_path / "file").X_test.shape == (10_000, 3)
    assert "mnist.npz could not be kept for next time" in caplog.text


def test_download_that_is_not_the_official_data_is_refused(openml, empty_machine):
    bunch, _ = openml
    bunch.data[0, 0] = (bunch.data[0, 0] + 1) % 256
    with pytest.raises(InvalidDataError, match="mnist: what was downloaded is not the official"):
        load_dataset("mnist")
    assert not empty_machine.exists()


def test_liac_parser_is_used_without_pandas(openml, monkeypatch):
    _, calls = openml
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    fetching.fetch_mnist()
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
    names = np.array(["C11", *fetching.find_spec("rcv1_10").target_names], dtype=object)
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
    raw = fetching.fetch_rcv1_10()
    expected = [i % 10 for i in range(60) if i not in (0, 11)]
    assert raw.y.tolist() == expected
    assert raw.target_names[raw.y[0]] == "C18"


def test_rcv1_keeps_the_stems_in_most_documents(rcv1):
    raw = fetching.fetch_rcv1_10()
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

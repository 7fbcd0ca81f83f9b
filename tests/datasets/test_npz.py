from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import sparse

from spherepair.datasets.npz import digest_path, read_npz, write_npz
from spherepair.datasets.raw import RawData
from spherepair.errors import InvalidDataError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.npz"


def test_training_rows_come_first(path, images):
    np.savez(path, **images)
    raw = read_npz(path)
    assert raw.n_train == 12
    assert np.array_equal(raw.X, np.concatenate([images["X_train"], images["X_test"]]))
    assert raw.y.tolist() == [*images["y_train"], *images["y_test"]]


def test_file_without_split_has_no_training_rows_of_its_own(path):
    np.savez(path, X=np.eye(4), y=np.arange(4), target_names=["a", "b", "c", "d"])
    raw = read_npz(path)
    assert raw.n_train is None
    assert raw.target_names == ("a", "b", "c", "d")


def test_scales_of_byte_features_are_read(path):
    np.savez(path, X=np.ones((2, 3), np.uint8), y=[0, 1], scale_low=[0.0] * 3, scale_high=[2.0] * 3)
    assert read_npz(path).quantisation.high.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("n_train", [None, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_written_data_read_back_the_same(path, n_train, form):
    X = np.arange(20, dtype=np.float32).reshape(5, 4) % 3
    write_npz(path, RawData(form(X), np.arange(5), n_train, ("a", "b")))
    raw = read_npz(path)
    found = raw.X.toarray() if sparse.issparse(raw.X) else raw.X
    assert sparse.issparse(raw.X) == (form is sparse.csr_matrix)
    assert np.array_equal(found, X)
    assert (raw.n_train, raw.y.tolist(), raw.target_names) == (n_train, [0, 1, 2, 3, 4], ("a", "b"))


def test_writing_leaves_the_file_and_its_digest_and_nothing_else(path):
    write_npz(path, RawData(np.eye(2), np.arange(2), 1))
    assert sorted(p.name for p in path.parent.iterdir()) == ["data.npz", "data.npz.sha256"]
    digest, name = digest_path(path).read_text().split()
    assert (digest, name) == (hashlib.sha256(path.read_bytes()).hexdigest(), "data.npz")


def test_failed_writing_leaves_nothing(path, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write_npz(path, RawData(np.eye(2), np.arange(2), 1))
    assert list(path.parent.iterdir()) == []


def test_changed_file_is_told_by_its_digest(path):
    write_npz(path, RawData(np.eye(2), np.arange(2), 1))
    np.savez(path, X=np.eye(2), y=np.arange(2))
    with pytest.raises(InvalidDataError, match=r"data\.npz: its SHA-256 .* is not the one in"):
        read_npz(path)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_cut_file_is_named(path, images, kept):
    np.savez_compressed(path, **images)
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(InvalidDataError, match=r"data\.npz: not a whole \.npz file"):
        read_npz(path)


def test_flipped_byte_is_noticed_without_a_digest(path, images):
    np.savez_compressed(path, **images)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"data\.npz"):
        read_npz(path)


def test_single_array_under_the_name_of_an_archive_is_refused(path):
    with path.open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(InvalidDataError, match=r"not a whole \.npz file"):
        read_npz(path)


def test_pickled_objects_are_never_loaded(path):
    np.savez(path, X=np.array([{"a": 1}, None], dtype=object), y=[0, 1])
    with pytest.raises(InvalidDataError, match="allow_pickle=False"):
        read_npz(path)


@pytest.mark.parametrize("missing", ["X_train", "X_test", "y_test"])
def test_missing_array_is_named_with_those_found(path, images, missing):
    del images[missing]
    np.savez(path, **images)
    with pytest.raises(InvalidDataError, match=f"has no array '{missing}', only "):
        read_npz(path)


def test_parts_with_other_columns_are_refused(path):
    np.savez(path, X_train=np.eye(3), y_train=[0, 1, 2], X_test=np.eye(2), y_test=[0, 1])
    with pytest.raises(InvalidDataError, match=r"same columns, got shapes \(3, 3\) and \(2, 2\)"):
        read_npz(path)


def test_impossible_sparse_matrix_is_refused(path):
    np.savez(path, X_data=[1.0], X_indices=[9], X_indptr=[0, 1], X_shape=[1, 3], y=[0])
    with pytest.raises(InvalidDataError, match="X is not a CSR matrix"):
        read_npz(path)

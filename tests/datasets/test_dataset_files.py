"""Dataset files: .npz archives, IDX images and Parquet documents."""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from spherepair.datasets.dataset_files import (
    IDX_FILES,
    RawData,
    digest_path,
    read_documents,
    read_idx,
    read_idx_folder,
    read_npz,
    write_npz,
)
from spherepair.errors import InvalidDataError, MissingDependencyError


@pytest.fixture
def npz_path(tmp_path):
    return tmp_path / "data.npz"


def test_training_rows_come_first(npz_path, images):
    np.savez(npz_path, **images)
    raw = read_npz(npz_path)
    assert raw.n_train == 12
    assert np.array_equal(raw.X, np.concatenate([images["X_train"], images["X_test"]]))
    assert raw.y.tolist() == [*images["y_train"], *images["y_test"]]


def test_file_without_split_has_no_training_rows_of_its_own(npz_path):
    np.savez(npz_path, X=np.eye(4), y=np.arange(4), target_names=["a", "b", "c", "d"])
    raw = read_npz(npz_path)
    assert raw.n_train is None
    assert raw.target_names == ("a", "b", "c", "d")


def test_scales_of_byte_features_are_read(npz_path):
    np.savez(npz_path, X=np.ones((2, 3), np.uint8), y=[0, 1], scale_low=[0.0] * 3, scale_high=[2.0] * 3)
    assert read_npz(npz_path).quantization.high.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("n_train", [None, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_written_data_read_back_the_same(npz_path, n_train, form):
    X = np.arange(20, dtype=np.float32).reshape(5, 4) % 3
    write_npz(npz_path, RawData(form(X), np.arange(5), n_train, ("a", "b")))
    raw = read_npz(npz_path)
    found = raw.X.toarray() if sparse.issparse(raw.X) else raw.X
    assert sparse.issparse(raw.X) == (form is sparse.csr_matrix)
    assert np.array_equal(found, X)
    assert (raw.n_train, raw.y.tolist(), raw.target_names) == (n_train, [0, 1, 2, 3, 4], ("a", "b"))


def test_writing_leaves_the_file_and_its_digest_and_nothing_else(npz_path):
    write_npz(npz_path, RawData(np.eye(2), np.arange(2), 1))
    assert sorted(p.name for p in npz_path.parent.iterdir()) == ["data.npz", "data.npz.sha256"]
    digest, name = digest_path(npz_path).read_text().split()
    assert (digest, name) == (hashlib.sha256(npz_path.read_bytes()).hexdigest(), "data.npz")


def test_failed_writing_leaves_nothing(npz_path, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        write_npz(npz_path, RawData(np.eye(2), np.arange(2), 1))
    assert list(npz_path.parent.iterdir()) == []


def test_changed_file_is_told_by_its_digest(npz_path):
    write_npz(npz_path, RawData(np.eye(2), np.arange(2), 1))
    np.savez(npz_path, X=np.eye(2), y=np.arange(2))
    with pytest.raises(InvalidDataError, match=r"data\.npz: its SHA-256 .* is not the one in"):
        read_npz(npz_path)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_cut_file_is_named(npz_path, images, kept):
    np.savez_compressed(npz_path, **images)
    content = npz_path.read_bytes()
    npz_path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(InvalidDataError, match=r"data\.npz: not a whole \.npz file"):
        read_npz(npz_path)


def test_flipped_byte_is_noticed_without_a_digest(npz_path, images):
    np.savez_compressed(npz_path, **images)
    content = bytearray(npz_path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    npz_path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"data\.npz"):
        read_npz(npz_path)


def test_single_array_under_the_name_of_an_archive_is_refused(npz_path):
    with npz_path.open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(InvalidDataError, match=r"not a whole \.npz file"):
        read_npz(npz_path)


def test_pickled_objects_are_never_loaded(npz_path):
    np.savez(npz_path, X=np.array([{"a": 1}, None], dtype=object), y=[0, 1])
    with pytest.raises(InvalidDataError, match="allow_pickle=False"):
        read_npz(npz_path)


@pytest.mark.parametrize("missing", ["X_train", "X_test", "y_test"])
def test_missing_array_is_named_with_those_found(npz_path, images, missing):
    del images[missing]
    np.savez(npz_path, **images)
    with pytest.raises(InvalidDataError, match=f"has no array '{missing}', only "):
        read_npz(npz_path)


def test_parts_with_other_columns_are_refused(npz_path):
    np.savez(npz_path, X_train=np.eye(3), y_train=[0, 1, 2], X_test=np.eye(2), y_test=[0, 1])
    with pytest.raises(InvalidDataError, match=r"same columns, got shapes \(3, 3\) and \(2, 2\)"):
        read_npz(npz_path)


def test_impossible_sparse_matrix_is_refused(npz_path):
    np.savez(npz_path, X_data=[1.0], X_indices=[9], X_indptr=[0, 1], X_shape=[1, 3], y=[0])
    with pytest.raises(InvalidDataError, match="X is not a CSR matrix"):
        read_npz(npz_path)


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
    with pytest.raises(InvalidDataError, match=r"t10k-labels.*\(5,\) do not match.*\(6, 2, 3\)"):
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


COLUMNS = {
    "split": ["test", "train", "train", "test"],
    "label": [1, 0, 1, 0],
    "label_name": ["ship", "grain", "ship", "grain"],
    "text": ["a", "b", "c", "d"],
}


@pytest.fixture
def parquet_path(tmp_path):
    return tmp_path / "texts.parquet"


def test_training_documents_come_first_in_file_order(parquet_path):
    pq.write_table(pa.table(COLUMNS), parquet_path)
    raw = read_documents(parquet_path)
    assert raw.X.tolist() == ["b", "c", "a", "d"]
    assert raw.y.tolist() == [0, 1, 1, 0]
    assert (raw.n_train, raw.target_names) == (2, ("grain", "ship"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": ["train", "dev", "train", "test"]}, "column 'split' must hold .*'dev'"),
        ({"split": ["train"] * 4}, r"column 'split' must hold .*\['train'\]"),
        ({"text": ["a", None, "c", None]}, "column 'text' is empty in 2 rows"),
        ({"label": [5, 0, 5, 0]}, r"labels must be 0, 1, 2, \.\.\. with one name each"),
        ({"label_name": ["ship", "grain", "boat", "grain"]}, "with one name each"),
    ],
)
def test_unusable_columns_are_named(parquet_path, change, message):
    pq.write_table(pa.table({**COLUMNS, **change}), parquet_path)
    with pytest.raises(InvalidDataError, match=message):
        read_documents(parquet_path)


def test_missing_columns_are_named(parquet_path):
    pq.write_table(pa.table({"split": ["train"], "text": ["a"]}), parquet_path)
    with pytest.raises(InvalidDataError, match="label, label_name not found"):
        read_documents(parquet_path)


def test_cut_parquet_file_is_named(parquet_path):
    pq.write_table(pa.table(COLUMNS), parquet_path)
    parquet_path.write_bytes(parquet_path.read_bytes()[:100])
    with pytest.raises(InvalidDataError, match=r"texts\.parquet: not a whole Parquet file"):
        read_documents(parquet_path)


def test_missing_pyarrow_says_how_to_install_it(parquet_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "spherepair\[files\]"'):
        read_documents(parquet_path)

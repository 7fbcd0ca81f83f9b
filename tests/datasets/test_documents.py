from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spherepair.datasets.documents import read_documents
from spherepair.errors import InvalidDataError, MissingDependencyError

COLUMNS = {
    "split": ["test", "train", "train", "test"],
    "label": [1, 0, 1, 0],
    "label_name": ["ship", "grain", "ship", "grain"],
    "text": ["a", "b", "c", "d"],
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "texts.parquet"


def test_training_documents_come_first_in_file_order(path):
    pq.write_table(pa.table(COLUMNS), path)
    raw = read_documents(path)
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
def test_unusable_columns_are_named(path, change, message):
    pq.write_table(pa.table({**COLUMNS, **change}), path)
    with pytest.raises(InvalidDataError, match=message):
        read_documents(path)


def test_missing_columns_are_named(path):
    pq.write_table(pa.table({"split": ["train"], "text": ["a"]}), path)
    with pytest.raises(InvalidDataError, match="label, label_name not found"):
        read_documents(path)


def test_cut_file_is_named(path):
    pq.write_table(pa.table(COLUMNS), path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InvalidDataError, match=r"texts\.parquet: not a whole Parquet file"):
        read_documents(path)


def test_missing_pyarrow_says_how_to_install_it(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "spherepair\[files\]"'):
        read_documents(path)

"""Every kind of data file gives the same rows, and what is wrong with a file is said by name."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.files.data_tables import read_rows, read_table

ROWS = np.array([[1.0, 2.5], [0.0, -3.0], [4.0, 0.0]])


def dense(X):
    if isinstance(X, pa.Table):
        return np.column_stack([column.to_numpy() for column in X.columns])
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def write_npy(path):
    np.save(path, ROWS)


def write_npz(path):
    np.savez(path, X=ROWS, y=np.zeros(3))


def write_sparse(path):
    sparse.save_npz(path, sparse.csr_matrix(ROWS))


def write_csv(path):
    path.write_text("a,b\n1,2.5\n0,-3\n4,0\n")


def write_gzip(path):
    path.write_bytes(gzip.compress(b"a,b\n1,2.5\n0,-3\n4,0\n"))


def write_parquet(path):
    pq.write_table(pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1]}), path)


def write_svmlight(path):
    dump_svmlight_file(ROWS, np.zeros(3), str(path))


KINDS = [
    ("rows.npy", write_npy),
    ("rows.npz", write_npz),
    ("sparse.npz", write_sparse),
    ("rows.csv", write_csv),
    ("rows.csv.gz", write_gzip),
    ("rows.parquet", write_parquet),
    ("rows.svmlight", write_svmlight),
    ("rows.SVM", write_svmlight),
]


@pytest.mark.parametrize(("name", "write"), KINDS, ids=[name for name, _ in KINDS])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name, write):
    write(tmp_path / name)
    table = read_table(tmp_path / name)
    assert (table.n_rows, table.n_features) == (3, 2)
    np.testing.assert_array_equal(dense(table.X), ROWS)
    assert read_rows(tmp_path / name).n_rows == 3


def test_npy_is_mapped_and_not_loaded(tmp_path):
    write_npy(tmp_path / "rows.npy")
    assert isinstance(read_table(tmp_path / "rows.npy").X, np.memmap)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_id_column_is_no_feature_and_stays_text(tmp_path, kind):
    path = tmp_path / f"rows.{kind}"
    if kind == "csv":
        path.write_text("a,id,b\n1,007,2\n3,7,4\n")
    else:
        pq.write_table(pa.table({"a": [1, 3], "id": ["007", "7"], "b": [2, 4]}), path)
    table = read_table(path, id_column="id")
    assert table.names == ("a", "b")
    assert table.ids.to_pylist() == ["007", "7"]
    assert read_rows(path, id_column="id").ids.to_pylist() == ["007", "7"]


def test_columns_can_be_left_out(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,note,b\n1,x,2\n3,y,4\n")
    np.testing.assert_array_equal(dense(read_table(path, drop=["note"]).X), [[1, 2], [3, 4]])


def test_columns_of_a_model_are_found_by_name(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("extra,b,a\nx,2,1\ny,4,3\n")
    np.testing.assert_array_equal(dense(read_table(path, features=["a", "b"]).X), [[1, 2], [3, 4]])
    with pytest.raises(InvalidDataError, match=r"lacks 1 of the 2 columns .* 'c'"):
        read_table(path, features=["a", "c"])


def test_column_may_turn_from_whole_numbers_to_fractions_far_down(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "1,\n" * 400_000 + "0.5,2.5\n")
    X = dense(read_table(path).X)
    assert X[-1].tolist() == [0.5, 2.5]
    assert np.isnan(X[0, 1])


def test_sparse_file_takes_the_number_of_features_of_the_model(tmp_path):
    write_svmlight(tmp_path / "rows.svm")
    assert read_table(tmp_path / "rows.svm", n_features=7).n_features == 7


@settings(max_examples=20, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(-1e6, 1e6)))
def test_csv_gives_back_every_number(tmp_path_factory, X):
    path = tmp_path_factory.mktemp("numbers") / "rows.csv"
    lines = [",".join(f"c{place}" for place in range(X.shape[1]))]
    lines += [",".join(repr(float(value)) for value in row) for row in X]
    path.write_text("\n".join(lines) + "\n")
    np.testing.assert_array_equal(dense(read_table(path).X), X)


BAD_FILES = [
    ("rows.txt", b"", "unknown kind"),
    ("rows.npy", b"not an array", r"cannot be read as a NumPy array"),
    ("rows.npy", b"", r"cannot be read as a NumPy array"),
    ("rows.npz", b"PK\x03\x04 half", r"cannot be read as a NumPy archive"),
    ("rows.csv", b"", "is empty; its first line must name the columns"),
    ("rows.csv", b"a,b\n1,2\n\n3\n", "row 4 has 1 values, but the header names 2 columns"),
    ("rows.csv", b"a,a\n1,2\n", "has the column 'a' more than once"),
    ("rows.csv", b"1.5,2\n3,4\n", "its first line must name the columns"),
    ("rows.csv", b",a\n0,1\n1,2\n", "column 1 has no name"),
    (
        "rows.csv",
        b"a,b\n1,x\n2,y\n",
        r"column 'b' is not numeric \(its type is string, its first value 'x'\)",
    ),
    ("rows.csv", b"a,b\n1,\xff\n2,y\n", "row 2 is not text in UTF-8; save the file as UTF-8"),
    (
        "rows.csv",
        b"a,b\n1,\n" + b"1,2\n" * 20 + b"2,?\n",
        r"column 'b' is not numeric \(1 of its 22 values are no numbers, the first being '\?' in line 23",
    ),
    ("rows.parquet", b"PAR1 half a file", "cannot be read as parquet"),
    ("rows.svm", b"1 a:b\n", "cannot be read as svmlight"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidDataError, match=message):
        read_table(tmp_path / name)


def test_columns_named_by_their_place_are_a_header(tmp_path):
    (tmp_path / "rows.csv").write_text("0,1\n3,4\n5,6\n")
    assert read_table(tmp_path / "rows.csv").n_rows == 2


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"array of shape \(3,\)"),
        (np.array([["a", "b"]]), "features must be numbers"),
        (np.array([[None, 1]], dtype=object), "cannot be read"),
    ],
)
def test_array_that_is_no_table_of_numbers_is_refused(tmp_path, array, message):
    np.save(tmp_path / "rows.npy", array, allow_pickle=True)
    with pytest.raises(InvalidDataError, match=message):
        read_table(tmp_path / "rows.npy")


def test_archive_without_a_clear_array_lists_what_it_holds(tmp_path):
    np.savez(tmp_path / "rows.npz", left=ROWS, right=ROWS)
    with pytest.raises(
        InvalidDataError, match="holds left, right; save the rows of features under the name X"
    ):
        read_table(tmp_path / "rows.npz")
    np.savez(tmp_path / "one.npz", anything=ROWS)
    assert read_table(tmp_path / "one.npz").n_rows == 3


def test_missing_file_and_folder_are_told_apart(tmp_path):
    with pytest.raises(InvalidDataError, match="does not exist; check the path"):
        read_table(tmp_path / "rows.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidDataError, match=r"holds neither rows .* nor pictures"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("options", [{"id_column": "id"}, {"drop": ["a"]}])
def test_named_columns_need_a_file_that_has_names(tmp_path, options):
    write_npy(tmp_path / "rows.npy")
    with pytest.raises(InvalidParameterError, match="needs a file with named columns"):
        read_table(tmp_path / "rows.npy", **options)


def test_unknown_id_column_is_named_with_those_there_are(tmp_path):
    write_csv(tmp_path / "rows.csv")
    with pytest.raises(InvalidDataError, match="has no column 'id'; it has 'a', 'b'"):
        read_table(tmp_path / "rows.csv", id_column="id")
    with pytest.raises(InvalidDataError, match="has no column 'id'"):
        read_rows(tmp_path / "rows.csv", id_column="id")

"""``spherepair predict``: the same labels whatever the file, written whole or not at all."""

from __future__ import annotations

import resource

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spherepair import load


def test_labels_do_not_depend_on_the_kind_of_output(call, example, tmp_path):
    expected = load(example.model).labels_
    for name in ("l.csv", "l.parquet", "l.npy"):
        done = call(
            "predict", example.model, example.rows, "--id", "name", "--out", tmp_path / name, "--json"
        )
        assert done.json["n_rows"] == 120
        assert sum(done.json["cluster_sizes"]) == 120
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), expected)
    np.testing.assert_array_equal(pq.read_table(tmp_path / "l.parquet")["label"].to_numpy(), expected)
    np.testing.assert_array_equal(pa_csv.read_csv(tmp_path / "l.csv")["label"].to_numpy(), expected)


def test_rows_without_ids_are_numbered(call, example, tmp_path):
    assert call("predict", example.model, example.rows, "--out", tmp_path / "l.csv").code == 0
    assert (tmp_path / "l.csv").read_text().splitlines()[0] == "row,label"
    assert pa_csv.read_csv(tmp_path / "l.csv")["row"].to_pylist() == list(range(120))


def test_ids_with_commas_and_quotes_survive(call, example, tmp_path):
    ids = ['a,"b"', "c d", "plain"]
    columns = {"name": ids, **{f"f{place}": example.X[:3, place] for place in range(5)}}
    pa_csv.write_csv(pa.table(columns), tmp_path / "new.csv")
    call("predict", example.model, tmp_path / "new.csv", "--id", "name", "--out", tmp_path / "l.csv")
    assert pa_csv.read_csv(tmp_path / "l.csv")["name"].to_pylist() == ids


def test_large_files_are_labelled_in_blocks_with_the_same_result(call, example, tmp_path, monkeypatch):
    call("predict", example.model, example.rows, "--out", tmp_path / "whole.npy")
    monkeypatch.setattr("spherepair.cli.predict.BLOCK_ROWS", 50)
    call("predict", example.model, example.rows, "--out", tmp_path / "blocks.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "whole.npy"), np.load(tmp_path / "blocks.npy"))


def test_bad_row_in_a_later_block_says_from_where_it_counts(call, example, tmp_path, monkeypatch):
    monkeypatch.setattr("spherepair.cli.predict.BLOCK_ROWS", 50)
    X = example.X.copy()
    X[70, 2] = np.nan
    np.save(tmp_path / "rows.npy", X)
    done = call("predict", example.model, tmp_path / "rows.npy", "--out", tmp_path / "l.npy")
    assert done.code == 2
    assert "counting rows from row 50 of the file: X contains NaN" in done.err
    assert "at row 20, column 2" in done.err


def test_array_for_a_model_with_names_is_a_warning_line(call, example, tmp_path):
    done = call("predict", example.model, example.array, "--out", tmp_path / "l.npy", "--json")
    assert done.code == 0
    assert done.err.startswith("warning: X does not have valid feature names")
    assert done.json["warnings"] == [done.err.removeprefix("warning: ").rstrip("\n")]


def test_wrong_number_of_columns_is_said(call, example, tmp_path):
    np.save(tmp_path / "rows.npy", example.X[:, :3])
    done = call("predict", example.model, tmp_path / "rows.npy", "--out", tmp_path / "l.npy")
    assert done.code == 2
    assert "X has 3 features, but SpherePair is expecting 5 features" in done.err


def test_input_is_never_overwritten(call, example, tmp_path):
    before = example.rows.read_bytes()
    done = call("predict", example.model, example.rows, "--out", example.rows)
    assert done.code == 2
    assert "is also an input" in done.err
    assert example.rows.read_bytes() == before


def test_failed_write_leaves_the_old_file_and_nothing_else(call, example, tmp_path):
    (tmp_path / "l.csv").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        done = call("predict", example.model, example.rows, "--out", tmp_path / "l.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert "File too large" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["l.csv"]
    assert (tmp_path / "l.csv").read_text() == "old"


def test_columns_of_the_model_are_neither_left_out_nor_ids(call, example, tmp_path):
    for option in ("--drop", "--id"):
        done = call("predict", example.model, example.rows, option, "f2", "--out", tmp_path / "l.csv")
        assert done.code == 2
        assert f"{option} f2: the model was fitted on this column and needs it" in done.err
    assert not (tmp_path / "l.csv").exists()


def test_words_in_a_column_of_the_model_are_to_be_mended(call, example, tmp_path):
    columns = {f"f{place}": [str(value) for value in example.X[:20, place]] for place in range(5)}
    columns["f2"][7] = "hot"
    for name, words in (("some.csv", columns["f2"]), ("all.csv", ["hot"] * 20)):
        pa_csv.write_csv(pa.table({**columns, "f2": words}), tmp_path / name)
        done = call("predict", example.model, tmp_path / name, "--out", tmp_path / "l.csv")
        assert done.code == 2
        assert "column 'f2' is not numeric" in done.err
        assert "--drop" not in done.err

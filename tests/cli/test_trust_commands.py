from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest


def rows_file(path, X, ids):
    pa_csv.write_csv(pa.table({"name": ids, **{f"f{k}": X[:, k] for k in range(X.shape[1])}}), path)
    return path


def test_predict_writes_how_sure_it_is(call, example, tmp_path):
    done = call("predict", example.model, example.rows, "--id", "name", "--out", tmp_path / "l.csv", "--json")
    assert done.code == 0, done.err
    found = pa_csv.read_csv(tmp_path / "l.csv")
    confidence = found["confidence"].to_numpy()
    assert ((confidence > 1 / 3) & (confidence <= 1)).all()
    assert done.json["confidence"] == pytest.approx(confidence.mean(), abs=1e-3)
    assert done.json["n_unknown"] is None
    assert "novelty" not in found.column_names


def test_unknown_rows_are_in_no_cluster(call, example, tmp_path):
    strange = np.vstack([example.X, np.full((2, 5), 500.0)])
    data = rows_file(tmp_path / "new.csv", strange, [f"r{k}" for k in range(122)])
    out = tmp_path / "l.csv"
    done = call("predict", example.model, data, "--id", "name", "--out", out, "--unknown", "--json")
    assert done.code == 0, done.err
    found = pa_csv.read_csv(out)
    labels = found["label"].to_numpy()
    assert labels[-2:].tolist() == [-1, -1]
    assert (labels[:120] == -1).sum() <= 4
    assert min(found["novelty"].to_pylist()[-2:]) > 0.99
    assert done.json["n_unknown"] == (labels == -1).sum()
    assert sum(done.json["cluster_sizes"]) + done.json["n_unknown"] == 122


def test_explain_names_rows_by_their_ids(call, example):
    done = call("explain", example.model, example.rows, "--id", "name", "--row", example.ids[3], "--json")
    assert done.code == 0, done.err
    assert set(done.json["typical_ids"]) <= set(example.ids)
    assert {influence["name"] for influence in done.json["influences"]} == {f"f{k}" for k in range(5)}
    said = call("explain", example.model, example.rows, "--id", "name", "--row", example.ids[3])
    assert said.out.startswith(f"row {example.ids[3]}: cluster {done.json['label']}")
    assert "answer " in said.out


def test_explain_refuses_rows_that_are_not_there(call, example):
    done = call("explain", example.model, example.rows, "--id", "name", "--row", "nobody")
    assert done.code == 2
    assert "no row with the ID 'nobody'" in done.err
    done = call("explain", example.model, example.rows, "--row", "120")
    assert done.code == 2
    assert "rows 0 to 119" in done.err


def test_new_rows_join_a_saved_model(call, example, tmp_path):
    new = rows_file(tmp_path / "new.csv", example.X[:20] + 0.1, [f"new{k}" for k in range(20)])
    pairs = tmp_path / "more.csv"
    lines = [f"{example.ids[k]},new{k},must-link" for k in range(20)]
    pairs.write_text("left,right,link\n" + "\n".join(lines) + "\n")
    done = call(
        *("refine", example.model, example.rows, "--new", new, "--id", "name", "--constraints", pairs),
        *("--out", tmp_path / "m", "--labels-out", tmp_path / "l.csv", "--json"),
    )
    assert done.code == 0, done.err
    assert done.json["n_rows"] == 140
    assert done.json["new_pairs_kept"] > 0.9
    written = pa_csv.read_csv(tmp_path / "l.csv")
    assert written["name"].to_pylist() == [*example.ids, *(f"new{k}" for k in range(20))]


def test_with_new_rows_the_old_file_must_hold_the_old_ones(call, example, tmp_path):
    few = rows_file(tmp_path / "few.csv", example.X[:100], example.ids[:100])
    done = call(
        *("refine", example.model, few, "--new", example.rows, "--id", "name"),
        *("--constraints", example.pairs, "--out", tmp_path / "m"),
    )
    assert done.code == 2
    assert "has 100 rows, but the model was fitted on 120" in done.err


def test_explain_takes_many_files(call, example, many):
    asked = ("--id", "name", "--row", example.ids[50], "--json")
    done = call("explain", example.model, many, *asked)
    assert done.code == 0, done.err
    assert done.json == call("explain", example.model, example.rows, *asked).json
    assert "rows 0 to 119" in call("explain", example.model, many, "--row", "120").err


def test_refine_takes_many_files_and_new_ones(call, example, many, tmp_path):
    (tmp_path / "new").mkdir()
    for part in range(2):
        ids = [f"new{part}{k}" for k in range(10)]
        rows_file(tmp_path / "new" / f"{part}.csv", example.X[10 * part :][:10] + 0.1, ids)
    lines = [f"{example.ids[k]},new0{k},must-link" for k in range(10)]
    (tmp_path / "more.csv").write_text("left,right,link\n" + "\n".join(lines) + "\n")
    done = call(
        *("refine", example.model, many, "--new", tmp_path / "new", "--id", "name"),
        *("--constraints", tmp_path / "more.csv", "--out", tmp_path / "m"),
        *("--labels-out", tmp_path / "l.csv", "--json"),
    )
    assert done.code == 0, done.err
    assert done.json["n_rows"] == 140
    written = pa_csv.read_csv(tmp_path / "l.csv")["name"].to_pylist()
    assert written == [*example.ids, *(f"new{part}{k}" for part in range(2) for k in range(10))]


def test_labels_are_not_written_where_new_rows_are_read(call, example, tmp_path):
    (tmp_path / "new").mkdir()
    rows_file(tmp_path / "new" / "rows.csv", example.X[:10] + 0.1, [f"new{k}" for k in range(10)])
    done = call(
        *("refine", example.model, example.rows, "--new", tmp_path / "new", "--id", "name"),
        *("--constraints", example.pairs, "--out", tmp_path / "m"),
        *("--labels-out", tmp_path / "new" / "labels.csv"),
    )
    assert done.code == 2
    assert "would be read as rows the next time" in done.err

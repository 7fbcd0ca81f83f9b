"""``spherepair predict`` on data sets of many files, and on one file in batches."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spherepair import Constraints, load
from spherepair.cli import raw_rows
from spherepair.files import csv_files, data_sets


@pytest.fixture
def rows(example, tmp_path):
    """Three parquet files of 40 rows each, with IDs."""
    (tmp_path / "rows").mkdir()
    columns = {f"f{place}": example.X[:, place] for place in range(5)}
    table = pa.table({"name": [f"n{place}" for place in range(120)], **columns})
    for place in range(3):
        pq.write_table(table.slice(40 * place, 40), tmp_path / "rows" / f"{place}.parquet")
    pq.write_table(table, tmp_path / "all.parquet", row_group_size=30)
    return tmp_path / "rows"


@pytest.fixture
def expected(call, example, rows, tmp_path):
    call("predict", example.model, tmp_path / "all.parquet", "--out", tmp_path / "expected.npy")
    return np.load(tmp_path / "expected.npy")


def labels_in(folder):
    return np.concatenate([pq.read_table(file)["label"] for file in sorted(folder.glob("*.parquet"))])


@pytest.mark.parametrize("form", ["{}", "{}/*.parquet", "several", "file://{}"])
def test_a_data_set_becomes_a_folder_of_labels(call, example, rows, tmp_path, expected, form):
    given = sorted(rows.iterdir()) if form == "several" else [form.format(rows)]
    out = tmp_path / "labels"
    asked = ("predict", example.model, *given, "--id", "name", "--out", out, "--workers", "1", "--json")
    done = call(*asked)
    assert done.code == 0
    assert {name: done.json[name] for name in ("n_parts", "n_kept", "n_rows")} == {
        "n_parts": 3,
        "n_kept": 0,
        "n_rows": 120,
    }
    assert done.json["cluster_sizes"] == np.bincount(expected, minlength=done.json["n_clusters"]).tolist()
    np.testing.assert_array_equal(labels_in(out), expected)
    assert pq.read_table(out / "1.parquet")["name"].to_pylist()[0] == "n40"
    assert call(*asked).json["n_kept"] == 3


def test_csv_elsewhere_is_fitted_checked_and_labeled(call, example, tiny, elsewhere, tmp_path):
    (tmp_path / "rows").mkdir()
    text = example.rows.read_text().splitlines(keepends=True)
    for place in range(3):
        part = "".join([text[0], *text[1 + 40 * place : 41 + 40 * place]]).replace(",", ";")
        (tmp_path / "rows" / f"{place}.csv").write_text(part)
    said = {}
    for form in (str(tmp_path / "rows"), f"{elsewhere}/rows"):
        checked = call("check", example.pairs, "--data", form, "--id", "name", "--json")
        assert checked.code == 0
        fit = ("fit", form, "-c", example.pairs, "--id", "name", *tiny, "-o", tmp_path / "model")
        asked = ("--id", "name", "--workers", "1", "--out", tmp_path / "labels")
        assert call(*fit).code == 0
        assert call("predict", tmp_path / "model", form, *asked).code == 0
        said[form] = (checked.json, labels_in(tmp_path / "labels").tolist())
        shutil.rmtree(tmp_path / "labels")
    here, there = said.values()
    assert here == there
    assert len(there[1]) == 120


def test_rows_in_no_cluster_are_counted(call, example, rows, tmp_path):
    strange = pa.table({"name": ["far"], **{f"f{place}": [500.0] for place in range(5)}})
    pq.write_table(strange, rows / "9.parquet")
    asked = ("predict", example.model, rows, "--unknown", "--workers", "1", "--out", tmp_path / "labels")
    done = call(*asked, "--json").json
    assert labels_in(tmp_path / "labels")[-1] == -1
    assert done["n_unknown"] == np.count_nonzero(labels_in(tmp_path / "labels") < 0) < 10
    assert done["false_alarms"] == 0.01
    assert f"unknown     {done['n_unknown']} rows in no cluster" in call(*asked).out


def test_the_result_is_said_in_words(call, example, rows, tmp_path):
    done = call("predict", example.model, rows, "--out", tmp_path / "labels", "--workers", "1")
    assert "120 rows labeled" in done.out
    assert "parts       3, of which 0 were there before" in done.out
    assert "rows/s" in done.out
    again = call("predict", example.model, rows, "--out", tmp_path / "labels", "--workers", "1")
    assert "of which 3 were there before" in again.out
    assert "rows/s" not in again.out


def test_a_dry_run_writes_nothing(call, example, rows, tmp_path):
    done = call("predict", example.model, rows, "--out", tmp_path / "labels", "--dry-run")
    n_bytes = sum(file.stat().st_size for file in rows.iterdir())
    assert done.out == f"3 parts, 120 rows, {n_bytes:,} bytes; 0 parts are done\n"
    assert not (tmp_path / "labels").exists()
    found = call("predict", example.model, rows, "--out", tmp_path / "labels", "--dry-run", "--json").json
    assert (found["dry_run"], found["n_parts"], found["n_rows"]) == (True, 3, 120)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("{rows}/none-*", "--out", "{out}"), "holds no data"),
        (("{rows}", "--out", "{out}", "--id", "nobody"), "0.parquet has no column 'nobody'"),
        (("{rows}", "--out", "{out}", "--drop", "name"), "--drop is for single files"),
        (("{rows}/0.parquet", "--out", "{out}.csv", "--workers", "2"), "--workers is for data sets"),
        (("{rows}", "--out", "{out}", "--engine", "ray", "--address", "127.0.0.1:1"), "no Ray answers at"),
        (("{rows}", "--out", "{out}", "--address", "auto"), "an address is for engine='ray'"),
        (
            ("{rows}/*.parquet", "--out", "{out}.csv"),
            "labels.csv has the name of a file, but labels of a folder",
        ),
        (("{rows}/none-*", "--out", "{out}.csv"), "labels of a folder, a glob, a URI or several files are"),
        (("{rows}/0.parquet", "--out", "{out}"), "or .npy; with --workers 1, labels are written to a folder"),
        (("{rows}/nix", "--out", "{out}"), "rows/nix does not exist; check the path"),
        (("{rows}/nix.csv", "--out", "{out}"), "rows/nix.csv does not exist; check the path"),
        (("{rows}/0.parquet", "{rows}/1.parquet", "--out", "{rows}"), "0.parquet would be read as rows"),
        (("{rows}/0.parquet", "--workers", "1", "--out", "{rows}"), "0.parquet would be read as rows"),
        (("{rows}/0.parquet", "{rows}/1.parquet", "--out", "{out}.NPY", "--dry-run"), "name a folder"),
        (("file://{rows}/*.parquet", "--out", "{out}.parquet"), "name a folder"),
        (("{rows}", "--out", "{rows}/labels", "--dry-run"), "rows/labels is inside the data that is read"),
        (("{rows}/**/*.parquet", "--out", "file://{rows}/labels"), "is inside the data that is read"),
    ],
)
def test_bad_input_is_one_sentence(call, example, rows, tmp_path, given, message):
    pytest.importorskip("ray")
    words = [word.format(rows=rows, out=tmp_path / "labels") for word in given]
    done = call("predict", example.model, *words)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert message in done.err
    assert {file.name for file in tmp_path.iterdir()} == {"rows", "all.parquet"}
    assert {file.name for file in rows.iterdir()} == {"0.parquet", "1.parquet", "2.parquet"}


def test_a_file_of_this_machine_may_be_named_by_a_uri(call, example, rows, tmp_path):
    for given, out in (("{}", "a.csv"), ("file://{}", "b.csv")):
        done = call("predict", example.model, given.format(rows / "0.parquet"), "--out", tmp_path / out)
        assert done.code == 0, done.err
    there = call("predict", example.model, rows / "0.parquet", "--out", f"file://{tmp_path}/c.csv", "--json")
    assert there.json["labels"] == str(tmp_path / "c.csv")
    found = [(tmp_path / name).read_text() for name in ("a.csv", "b.csv", "c.csv")]
    assert found == found[:1] * 3


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy"])
def test_one_parquet_file_is_read_in_batches(call, example, rows, tmp_path, monkeypatch, ending):
    def label(name):
        out = tmp_path / f"{name}.{ending}"
        given = ("--id", "name") if ending == "csv" else ()
        assert call("predict", example.model, tmp_path / "all.parquet", *given, "--out", out).code == 0
        return out

    whole = label("whole")
    monkeypatch.setattr(data_sets, "BATCH_ROWS", 25)
    monkeypatch.setattr(data_sets, "FEWEST_ROWS", 1)
    monkeypatch.setattr("spherepair.files.data_tables.read_table", None)  # would read the whole file
    batches = label("batches")
    if ending == "parquet":
        assert pq.read_table(batches).equals(pq.read_table(whole))
    else:
        assert batches.read_bytes() == whole.read_bytes()


def test_one_csv_file_is_read_in_batches(call, example, rows, tmp_path, monkeypatch):
    table = pq.read_table(tmp_path / "all.parquet")
    pa_csv.write_csv(table, tmp_path / "all.csv")
    asked = ("predict", example.model, tmp_path / "all.csv", "--id", "name", "--out")
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2000)
    monkeypatch.setattr("pyarrow.csv.read_csv", None)  # would read the whole file
    assert call(*asked, tmp_path / "labels.parquet").code == 0
    found = pq.read_table(tmp_path / "labels.parquet")
    whole = pq.read_table(tmp_path / "all.parquet")
    assert found["name"].to_pylist() == whole["name"].to_pylist()
    (tmp_path / "all.csv").write_text("name," + ",".join(f"f{place}" for place in range(5)) + "\n")
    done = call(*asked, tmp_path / "none.csv")
    assert (done.code, "has no rows" in done.err) == (2, True)
    assert not (tmp_path / "none.csv").exists()


def test_a_bad_row_in_a_later_batch_says_from_where_it_counts(call, example, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(data_sets, "BATCH_ROWS", 25)
    monkeypatch.setattr(data_sets, "FEWEST_ROWS", 1)
    table = pq.read_table(tmp_path / "all.parquet")
    values = table["f2"].to_numpy().copy()
    values[70] = np.nan
    pq.write_table(table.set_column(3, "f2", pa.array(values)), tmp_path / "bad.parquet")
    done = call("predict", example.model, tmp_path / "bad.parquet", "--out", tmp_path / "l.csv")
    assert done.code == 2
    assert "counting from row 50 of the file: X contains NaN" in done.err
    assert not (tmp_path / "l.csv").exists()


def test_a_model_without_rows_predicts(call, example, rows, tmp_path, expected):
    from spherepair import load

    load(example.model).save(tmp_path / "small", rows=False)
    call("predict", tmp_path / "small", tmp_path / "all.parquet", "--out", tmp_path / "l.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), expected)
    done = call("clusters", tmp_path / "small")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "saved without the labels, embedding and pairs of its rows" in done.err


def test_a_fit_on_a_data_set_trains_on_a_sample(call, example, rows, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("left,right,link\nn0,n119,same\nn1,n50,different\nn2,n51,same\n")
    asked = ("--constraints", pairs, "--id", "name", "--clusters", "3", "--pretraining", "none")
    short = ("--hidden-dims", "8", "--max-epochs", "1", "--out", tmp_path / "model")
    done = call("fit", f"{rows}/*.parquet", *asked, *short, "--sample-rows", "20", "--json")
    assert done.code == 0
    assert done.json["n_rows_in_data"] == 120
    assert 20 <= done.json["n_rows"] <= 26
    assert done.json["n_pairs"] == 3
    labels = ("--out", tmp_path / "labels", "--workers", "1", "--json")
    assert call("predict", tmp_path / "model", rows, *labels).json["n_rows"] == 120


def sampled(call, rows, tmp_path, *options, files=()):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("left,right,link\nn0,n119,same\nn1,n50,different\nn2,n51,same\n")
    asked = ("--constraints", pairs, "--id", "name", "--clusters", "3", "--pretraining", "none")
    short = ("--hidden-dims", "8", "--max-epochs", "1", "--out", tmp_path / "model", "--json")
    return call("fit", *(files or [rows]), *asked, *short, "--sample-rows", "20", *options)


def test_a_fit_on_a_data_set_labels_it(call, rows, tmp_path):
    done = sampled(call, rows, tmp_path, "--labels-out", tmp_path / "labels", "--workers", "1")
    assert done.code == 0, done.err
    assert done.json["labels"] == str(tmp_path / "labels")
    call("predict", tmp_path / "model", tmp_path / "all.parquet", "--out", tmp_path / "expected.npy")
    np.testing.assert_array_equal(labels_in(tmp_path / "labels"), np.load(tmp_path / "expected.npy"))
    refused = sampled(call, rows, tmp_path, "--labels-out", tmp_path / "l.csv")
    assert "must be a folder" in refused.json["error"]["message"]
    refused = sampled(call, rows, tmp_path, "--labels-out", tmp_path / "labels")
    assert f"{tmp_path / 'labels'} holds 0.parquet; choose an empty" in refused.json["error"]["message"]
    ray = ("--labels-out", tmp_path / "others", "--engine", "ray", "--address", "127.0.0.1:1")
    assert sampled(call, rows, tmp_path, *ray).code == 2
    assert not (tmp_path / "others").exists()
    refused = sampled(call, rows, tmp_path, "--labels-out", rows / "labels")
    assert "rows/labels is inside the data that is read" in refused.json["error"]["message"]
    refused = sampled(call, rows, tmp_path, "--engine", "local")
    assert "--engine is for --labels-out" in refused.json["error"]["message"]


def test_a_fit_takes_several_files_and_a_folder_alike(call, rows, tmp_path):
    whole = sampled(call, rows, tmp_path)
    several = sampled(call, rows, tmp_path, files=sorted(rows.iterdir()))
    assert several.code == 0, several.err
    changing = ("seconds", "epochs")
    assert [{k: v for k, v in done.json.items() if k not in changing} for done in (whole, several)] == [
        {k: v for k, v in whole.json.items() if k not in changing}
    ] * 2


def test_very_many_rows_of_one_file_are_sampled(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", np.zeros((40, 2)))
    assert not raw_rows.is_large(str(tmp_path / "rows.npy"))
    monkeypatch.setattr(raw_rows, "SAMPLE_ROWS", 30)
    assert raw_rows.is_large(str(tmp_path / "rows.npy"))


def test_a_fit_on_a_sample_goes_on_from_its_checkpoint(call, rows, tmp_path):
    checkpoint = ("--checkpoint", tmp_path / "checkpoint")
    first = sampled(call, rows, tmp_path, *checkpoint)
    assert first.code == 0, first.err
    labels = load(tmp_path / "model").predict(pq.read_table(tmp_path / "all.parquet").drop_columns(["name"]))
    again = sampled(call, rows, tmp_path, *checkpoint)
    assert again.json["cluster_sizes"] == first.json["cluster_sizes"]
    found = load(tmp_path / "model").predict(pq.read_table(tmp_path / "all.parquet").drop_columns(["name"]))
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("first", [[None] * 40, []])
def test_a_column_of_words_may_be_empty_in_the_first_file(call, rows, tmp_path, ending, first):
    for place, file in enumerate(sorted(rows.iterdir())):
        words = [["red", "green"][row % 2] for row in range(40)] if place else first
        table = pq.read_table(file).slice(0, len(words)).append_column("color", pa.array(words, pa.string()))
        if ending == "csv":
            pa_csv.write_csv(table, file.with_suffix(".csv"))
            file.unlink()
        else:
            pq.write_table(table, file)
    pairs = tmp_path / "words.csv"
    pairs.write_text("left,right,link\nn41,n81,same\nn42,n83,different\n")
    asked = ("--constraints", pairs, "--id", "name", "--clusters", "2", "--pretraining", "none")
    done = call("fit", rows, *asked, "--hidden-dims", "8", "--max-epochs", "1", "--out", tmp_path / "model")
    assert done.code == 0, done.err
    assert "color" in load(tmp_path / "model").encoder_.used_columns()


@pytest.mark.parametrize("options", [(), ("--as", "category:color", "--drop", "f3,f4")])
def test_words_of_a_data_set_are_encoded(call, rows, tmp_path, options):
    for place, file in enumerate(sorted(rows.iterdir())):
        table = pq.read_table(file)
        color = np.array(["red", "green", "blue"])[(np.arange(40) + 40 * place) % 3]
        pq.write_table(table.append_column("color", pa.array(color)), file)
    done = sampled(call, rows, tmp_path, *options, "--labels-out", tmp_path / "labels", "--workers", "1")
    assert done.code == 0, done.err
    assert len(labels_in(tmp_path / "labels")) == 120
    assert load(tmp_path / "model").encoder_.used_columns("category") == ["color"]
    assert ("f3" in load(tmp_path / "model").encoder_.used_columns()) is not bool(options)


def test_a_size_chosen_by_pairs_is_printed(call, example, rows, tmp_path):
    pairs = Constraints.from_labels(example.y, n_pairs=120, random_state=0)
    pairs.write(tmp_path / "many.csv")
    asked = (
        "--constraints",
        tmp_path / "many.csv",
        "--drop",
        "name",
        "--clusters",
        "3",
        "--sample-rows",
        "auto",
    )
    short = ("--pretraining", "none", "--hidden-dims", "8", "--max-epochs", "1", "--out", tmp_path / "model")
    done = call("fit", rows, *asked, *short)
    assert done.code == 0, done.err
    assert "held-out pairs satisfied: " in done.err
    assert "120 rows were chosen" in done.err
    assert "--sample-rows" in call("fit", rows, *asked[:-1], "some", *short).err


def test_pictures_of_a_data_set_that_are_not_there_are_named(call, rows, tmp_path):
    refused = sampled(call, rows, tmp_path, "--images", "name")
    assert refused.code == 2
    assert "none of the pictures in column 'name' is there" in refused.json["error"]["message"]


def test_contradictions_between_rows_of_a_sample_are_named_by_id(call, rows, tmp_path):
    pairs = tmp_path / "contradictory.csv"
    pairs.write_text("left,right,link\nn7,n119,same\nn119,n50,same\nn7,n50,different\n")
    options = ("--constraints", pairs, "--id", "name", "--on-conflict", "raise", "--out", tmp_path / "m")
    done = call("fit", rows, *options, "--sample-rows", "20")
    assert done.code == 3
    assert "n119" in done.err


def test_a_fit_on_an_empty_folder_is_one_sentence(call, tmp_path):
    (tmp_path / "empty").mkdir()
    done = call("fit", tmp_path / "empty", "--out", tmp_path / "model")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "neither" in done.err
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_very_many_rows_is_sampled(call, rows, tmp_path, monkeypatch, ending):
    monkeypatch.setattr("spherepair.cli.raw_rows.SAMPLE_ROWS", 100)
    monkeypatch.setattr("spherepair.cli.model_commands.SAMPLE_ROWS", 100)
    pa_csv.write_csv(pq.read_table(tmp_path / "all.parquet"), tmp_path / "all.csv")
    short = ("--pretraining", "none", "--hidden-dims", "8", "--max-epochs", "1", "--out", tmp_path / "model")
    done = call("fit", tmp_path / f"all.{ending}", "--drop", "name", "--clusters", "3", *short, "--json")
    assert (done.json["n_rows"], done.json["n_rows_in_data"]) == (100, 120)


def test_a_folder_of_rows_does_not_become_one_file(call, example, rows, tmp_path):
    done = call("predict", example.model, rows, "--out", tmp_path / "labels.csv")
    assert done.code == 2
    assert "several files are written to a folder in parts; name a folder" in done.err

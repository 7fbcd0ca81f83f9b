"""A data set labeled in parts: every row once and in order, whatever was there before."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spherepair import Constraints, SpherePair, load, scale
from spherepair.errors import InvalidDataError, InvalidParameterError, ModelFileError, PartError
from spherepair.scale import labeling
from spherepair.scale.parts import INPUT_KEY, MODEL_KEY

#: What a killed process leaves of an output.
LEFT_BEHIND = ".part-3.parquet.0123abcd-4194304-89abcdef.tmp"


def label(rows: Any, folder: Path, out: Path, **options: Any) -> scale.Summary:
    return scale.predict(rows, model=folder, out=out, **({"workers": 1, "id_column": "id"} | options))


def read(out: Path) -> Any:
    return pa.concat_tables([pq.read_table(file) for file in sorted(out.rglob("*.parquet"))])


def stamps(out: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in out.rglob("*.parquet")}


def test_every_row_is_there_once_and_in_order(
    rows: Path, folder: Path, model: SpherePair, table: Any, tmp_path: Path
) -> None:
    done = label(rows, folder, tmp_path / "out")
    found = read(tmp_path / "out")
    assert found["id"].to_pylist() == table["id"].to_pylist()
    np.testing.assert_array_equal(found["label"], model.labels_)
    expected = model.predict_proba(table.select(["a", "b", "c"])).max(axis=1)
    np.testing.assert_allclose(found["confidence"], expected, rtol=1e-6)
    assert (done.n_parts, done.n_kept, done.n_rows) == (4, 0, 240)
    assert done.cluster_sizes == np.bincount(model.labels_).tolist()
    assert sorted(stamps(tmp_path / "out")) == [f"part-{place}.parquet" for place in range(4)]


def test_large_files_are_divided_at_their_row_groups(
    rows: Path, folder: Path, model: SpherePair, tmp_path: Path
) -> None:
    done = label(rows / "part-1.parquet", folder, tmp_path / "out", part_rows=40, id_column=None)
    assert sorted(stamps(tmp_path / "out")) == ["part-1.00000.parquet", "part-1.00001.parquet"]
    found = read(tmp_path / "out")
    assert found["row"].to_pylist() == list(range(60))
    np.testing.assert_array_equal(found["label"], model.labels_[60:120])
    assert done.n_parts == 2


def test_embedding_and_transform(rows: Path, folder: Path, model: SpherePair, tmp_path: Path) -> None:
    label(rows, folder, tmp_path / "both", embedding=True)
    scale.transform(rows, model=folder, out=tmp_path / "only", workers=1)
    for out in ("both", "only"):
        found = read(tmp_path / out)["embedding"].combine_chunks()
        assert found.type == pa.list_(pa.float32(), 10)
        np.testing.assert_allclose(found.flatten().to_numpy().reshape(240, 10), model.embedding_, atol=1e-6)
    assert read(tmp_path / "only").column_names == ["row", "embedding"]


def test_rows_in_no_cluster(rows: Path, folder: Path, model: SpherePair, table: Any, tmp_path: Path) -> None:
    strange = pa.table({"id": ["far"], **{name: np.array([90.0], np.float32) for name in "abc"}})
    pq.write_table(strange, rows / "strange.parquet")
    done = label(rows, folder, tmp_path / "out", false_alarms=0.02)
    found = read(tmp_path / "out")
    assert found.column_names == ["id", "label", "confidence", "novelty"]
    novelty = model.novelty(table.select(["a", "b", "c"]))
    np.testing.assert_array_equal(found["novelty"][:240], novelty)
    np.testing.assert_array_equal(found["label"][:240], np.where(novelty > 0.98, -1, model.labels_))
    assert found["label"][240].as_py() == -1
    assert done.n_unknown == np.count_nonzero(novelty > 0.98) + 1 == 241 - sum(done.cluster_sizes)
    assert label(rows, folder, tmp_path / "out", false_alarms=0.02).n_unknown == done.n_unknown
    with pytest.raises(InvalidParameterError, match="made by another model or with other options"):
        label(rows, folder, tmp_path / "out")
    with pytest.raises(InvalidParameterError, match="false_alarms must be between 0 and 1"):
        label(rows, folder, tmp_path / "other", false_alarms=1.0)


def test_an_id_column_keeps_its_name(rows: Path, folder: Path, tmp_path: Path) -> None:
    for file in rows.iterdir():
        pq.write_table(pq.read_table(file).rename_columns({"id": "confidence"}), file)
    label(rows, folder, tmp_path / "out", id_column="confidence")
    assert read(tmp_path / "out").column_names == ["confidence", "label", "cluster_confidence"]


def test_csv_and_arrays_are_parts_too(
    table: Any, folder: Path, model: SpherePair, rows: Path, tmp_path: Path
) -> None:
    pa_csv.write_csv(table, tmp_path / "z.csv")
    done = label([tmp_path / "z.csv", rows / "part-0.parquet"], folder, tmp_path / "out")
    assert done.n_rows == 300
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out" / "z.csv.parquet")["label"], model.labels_)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv"])
def test_rows_elsewhere_have_the_labels_that_they_have_here(
    table: Any, folder: Path, model: SpherePair, elsewhere: str, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "rows").mkdir()
    mark = "\t" if ending == "tsv" else ";"
    for place in range(2):
        with pa.output_stream(str(tmp_path / "rows" / f"{place}.{ending}")) as stream:
            pa_csv.write_csv(table.slice(120 * place, 120), stream, pa_csv.WriteOptions(delimiter=mark))
    source = f"{elsewhere}/rows/*.{ending}"
    label(str(tmp_path / "rows"), folder, tmp_path / "here")
    done = label(source, folder, tmp_path / "there")
    assert read(tmp_path / "there").equals(read(tmp_path / "here"))
    np.testing.assert_array_equal(read(tmp_path / "there")["label"], model.labels_)
    assert (done.n_parts, done.n_rows) == (2, 240)
    assert scale.estimate(source, model=folder, out=tmp_path / "there", id_column="id").n_kept == 2
    assert label(source, folder, tmp_path / "there").n_kept == 2
    with pa.output_stream(str(tmp_path / "rows" / f"1.{ending}")) as stream:
        pa_csv.write_csv(table.slice(0, 60), stream, pa_csv.WriteOptions(delimiter=mark))
    again = label(source, folder, tmp_path / "there")
    assert (again.n_kept, again.n_rows) == (1, 180)
    scale.transform(source, model=folder, out=tmp_path / "points", workers=1)
    assert len(read(tmp_path / "points")["embedding"]) == 180


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_elsewhere_have_the_labels_that_they_have_here(
    table: Any, model: SpherePair, elsewhere: str, tmp_path: Path, ending: str
) -> None:
    X = np.column_stack([table[name] for name in "abc"])
    pairs = Constraints.from_labels(table["y"].to_numpy(), n_pairs=100, random_state=0)
    fresh = SpherePair(3, hidden_dims=(8,), pretraining=None, max_epochs=2, batch_size=16, random_state=0)
    file = tmp_path / f"rows.{ending}"
    np.save(file, X) if ending == "npy" else np.savez_compressed(file, X=X)
    source = f"{elsewhere}/rows.{ending}"
    scale.fit(source, pairs, model=tmp_path / "model", estimator=fresh)
    scale.fit(file, pairs, model=tmp_path / "same", estimator=fresh)
    for out, rows in (("there", source), ("here", file)):
        label(rows, tmp_path / ("model" if out == "there" else "same"), tmp_path / out, id_column=None)
    assert read(tmp_path / "there").equals(read(tmp_path / "here"))
    assert read(tmp_path / "there")["row"].to_pylist() == list(range(240))
    np.testing.assert_array_equal(read(tmp_path / "there")["label"], load(tmp_path / "same").predict(X))


def test_a_csv_file_elsewhere_that_is_damaged_far_down_is_named_with_its_part(
    table: Any, folder: Path, elsewhere: str, tmp_path: Path
) -> None:
    pa_csv.write_csv(table, tmp_path / "z.csv")
    with (tmp_path / "z.csv").open("a") as stream:
        stream.write("only-one-value\n")
    with pytest.raises(
        PartError, match=r"part z.csv.parquet of s3://.*/z.csv could not be done: s3://.*/z.csv .*241"
    ):
        label(f"{elsewhere}/z.csv", folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_second_run_does_only_what_is_missing(
    rows: Path, folder: Path, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    label(rows, folder, out)
    (out / "part-1.parquet").unlink()
    (out / "part-2.parquet").write_bytes(b"PAR1 not whole")
    (out / LEFT_BEHIND).write_bytes(b"left by a killed process")
    before = stamps(out)
    assert scale.estimate(rows, model=folder, out=out, id_column="id").n_kept == 2
    done = label(rows, folder, out)
    after = stamps(out)
    assert (done.n_parts, done.n_kept, done.n_rows) == (4, 2, 240)
    assert {name for name in before if after[name] == before[name]} == {"part-0.parquet", "part-3.parquet"}
    assert read(out)["id"].to_pylist() == table["id"].to_pylist()
    assert not list(out.glob(".*.tmp"))
    monkeypatch.setattr(labeling, "label_rows", None)
    assert label(rows, folder, out).n_kept == 4


def test_a_changed_input_is_labeled_again(rows: Path, folder: Path, table: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    label(rows, folder, out)
    pq.write_table(table.slice(0, 7), rows / "part-2.parquet")
    os.utime(rows / "part-2.parquet", ns=(time.time_ns(), time.time_ns() + 10**9))
    done = label(rows, folder, out)
    assert (done.n_kept, done.n_rows) == (3, 187)
    assert pq.read_metadata(out / "part-2.parquet").num_rows == 7


def test_outputs_say_what_made_them(rows: Path, folder: Path, tmp_path: Path) -> None:
    label(rows, folder, tmp_path / "out")
    said = pq.read_metadata(tmp_path / "out" / "part-0.parquet").metadata
    assert len(said[MODEL_KEY]) == len(said[INPUT_KEY]) == 32
    assert sum(json.loads(said[b"spherepair.counts"])) == 60


def test_only_what_a_job_left_behind_is_removed(rows: Path, folder: Path, tmp_path: Path) -> None:
    """A refused job removes nothing, and no job what is not its own."""
    out = tmp_path / "out"
    (out / "deep").mkdir(parents=True)
    others = [out / "deep" / LEFT_BEHIND, out / ".notes.tmp", out / LEFT_BEHIND.replace("3", "9", 1)]
    for file in (*others, out / LEFT_BEHIND, out / "letter.txt"):
        file.write_text("important")
    with pytest.raises(InvalidParameterError, match=r"holds letter.txt, which is no output of this job"):
        label(rows, folder, out)
    assert all(file.exists() for file in (*others, out / LEFT_BEHIND))
    (out / "letter.txt").unlink()
    label(rows, folder, out)
    assert all(file.exists() for file in others)
    assert not (out / LEFT_BEHIND).exists()


def test_a_table_that_no_job_wrote_is_not_called_an_output(rows: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    shutil.copy(rows / "part-1.parquet", tmp_path / "out")
    with pytest.raises(InvalidParameterError, match=r"holds part-1.parquet, which is no output of a job"):
        label(rows, folder, tmp_path / "out")


def test_outputs_of_another_model_or_job_are_refused(
    rows: Path, folder: Path, model: SpherePair, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    label(rows, folder, out)
    with pytest.raises(InvalidParameterError, match="made by another model or with other options"):
        label(rows, folder, out, embedding=True)
    model.save(tmp_path / "other")
    with pytest.raises(InvalidParameterError, match="made by another model"):
        label(rows, tmp_path / "other", out)
    (rows / "part-0.parquet").unlink()
    with pytest.raises(InvalidParameterError, match=r"holds part-0.parquet, which is no output of this job"):
        label(rows, folder, out)


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_two_jobs_cannot_write_to_one_folder(rows: Path, folder: Path, tmp_path: Path, form: str) -> None:
    out: Any = form.format(tmp_path / "out")

    def again(state: scale.Progress) -> None:
        label(rows, folder, out)

    with pytest.raises(InvalidParameterError, match="another job is writing"):
        label(rows, folder, out, progress=again)
    (tmp_path / "out" / LEFT_BEHIND).write_bytes(b"left by a killed process")
    assert label(rows, folder, out).n_rows == 240
    assert not list((tmp_path / "out").glob(".*"))


def test_a_folder_inside_the_data_is_refused_before_the_work_begins(
    rows: Path, folder: Path, tmp_path: Path
) -> None:
    message = "rows/labels is inside the data that is read, so part-0.parquet would be read as rows the next"
    asked: dict[str, Any] = {"model": folder, "out": rows / "labels"}
    for source in (str(rows), [rows], f"{rows}/**/*.parquet"):
        for act in (scale.predict, scale.transform, scale.estimate):
            with pytest.raises(InvalidParameterError, match=message):
                act(source, **asked)
        with pytest.raises(InvalidParameterError, match=message):
            scale.fit(source, model=tmp_path / "model", keep="labels", out=rows / "labels")
    with pytest.raises(InvalidParameterError, match=r"part-0.parquet is a file; labels of a data set"):
        scale.fit(rows, model=tmp_path / "model", keep="labels", out=rows / "part-0.parquet")
    assert not (tmp_path / "model").exists()
    assert not (rows / "labels").exists()
    files = (file for file in sorted(rows.glob("*.parquet")))
    assert scale.predict(files, **asked, workers=1).n_rows == 240
    assert label(f"{rows}/*.parquet", folder, rows / "more").n_rows == 240


def test_progress_and_estimate(rows: Path, folder: Path, tmp_path: Path) -> None:
    found = scale.estimate(f"{rows}/*.parquet", model=folder, out=tmp_path / "out")
    size = sum(file.stat().st_size for file in rows.iterdir())
    assert (found.n_parts, found.n_kept, found.n_rows, found.n_bytes) == (4, 0, 240, size)
    assert not (tmp_path / "out").exists()
    seen: list[scale.Progress] = []
    label(rows, folder, tmp_path / "out", progress=seen.append)
    assert [(state.n_done, state.n_rows) for state in seen] == [(1, 60), (2, 120), (3, 180), (4, 240)]
    assert seen[-1].rows_per_second > 0


def rewrite(file: Path, change: Any) -> None:
    pq.write_table(change(pq.read_table(file)), file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["b"]), r"part-2.parquet lacks 1 of the columns that are needed: 'b'"),
        (lambda t: t.drop_columns(["id"]), r"part-2.parquet has no column 'id'"),
        (
            lambda t: t.set_column(0, "id", pa.array(range(60))),
            r"part-2.parquet has IDs of type int64, but .*part-0.parquet has them of type string",
        ),
        (
            lambda t: t.set_column(1, "a", pa.array(["x"] * 60)),
            r"part-2.parquet has the column 'a' of type string, but the features are numbers",
        ),
    ],
)
def test_other_columns_are_refused_before_the_work_begins(
    rows: Path, folder: Path, tmp_path: Path, change: Any, message: str
) -> None:
    rewrite(rows / "part-2.parquet", change)
    with pytest.raises(InvalidDataError, match=message):
        label(rows, folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_wider_types_and_more_columns_are_fine(
    rows: Path, folder: Path, model: SpherePair, tmp_path: Path
) -> None:
    rewrite(rows / "part-2.parquet", lambda t: t.set_column(1, "a", t["a"].cast(pa.float64())))
    rewrite(rows / "part-3.parquet", lambda t: t.append_column("more", t["id"]).select([5, 3, 2, 1, 0]))
    label(rows, folder, tmp_path / "out")
    np.testing.assert_array_equal(read(tmp_path / "out")["label"], model.labels_)


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[40:400] = bytes(360)
    file.write_bytes(content)


def test_a_damaged_part_is_named_and_the_others_stay(rows: Path, folder: Path, tmp_path: Path) -> None:
    damage(rows / "part-2.parquet")
    with pytest.raises(PartError, match=r"^part part-2.parquet of .*part-2.parquet could not be done: "):
        label(rows, folder, tmp_path / "out")
    assert sorted(stamps(tmp_path / "out")) == ["part-0.parquet", "part-1.parquet"]


def test_other_numbers_in_a_page_are_noticed_where_the_file_has_checksums(
    rows: Path, folder: Path, tmp_path: Path
) -> None:
    file = rows / "part-2.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(pq.read_table(file), file, **plain)
    content, value = file.read_bytes(), pq.read_table(file)["b"].to_numpy()[30:31].tobytes()
    assert content.count(value) == 1
    file.write_bytes(content.replace(value, np.float32(7.0).tobytes()))
    with pytest.raises(PartError, match=r"^part part-2.parquet of .*cannot be read as parquet .*CRC"):
        label(rows, folder, tmp_path / "out")


def test_a_file_that_is_no_parquet_is_named_at_once(rows: Path, folder: Path, tmp_path: Path) -> None:
    (rows / "part-1.parquet").write_text("words")
    with pytest.raises(InvalidDataError, match=r"part-1.parquet cannot be read as parquet"):
        label(rows, folder, tmp_path / "out")


def test_missing_values_are_named_with_their_part(rows: Path, folder: Path, tmp_path: Path) -> None:
    values = pa.array([1.0] * 59 + [None])
    rewrite(rows / "part-1.parquet", lambda t: t.set_column(2, "b", values))
    with pytest.raises(PartError, match=r"part part-1.parquet .*NaN.*row 59, column 'b'"):
        label(rows, folder, tmp_path / "out")


def test_a_missing_id_is_refused_before_the_work_begins(rows: Path, folder: Path, tmp_path: Path) -> None:
    ids = pa.array([*map(str, range(57)), None, "58", None])
    rewrite(rows / "part-1.parquet", lambda t: t.set_column(0, "id", ids))
    with pytest.raises(InvalidDataError, match=r"part-1.parquet has no ID in column 'id' of row 57; every"):
        label(rows, folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert label(rows, folder, tmp_path / "numbered", id_column=None).n_rows == 240


def test_a_missing_id_that_no_statistics_tell_is_named_with_its_part(
    rows: Path, folder: Path, tmp_path: Path
) -> None:
    ids = pa.array([*map(str, range(57)), None, "58", None])
    table = pq.read_table(rows / "part-1.parquet").set_column(0, "id", ids)
    pq.write_table(table, rows / "part-1.parquet", write_statistics=False)
    message = (
        r"^part part-1.parquet of .* could not be done: row 57 has no ID in column 'id'; every row needs"
    )
    with pytest.raises(PartError, match=message):
        label(rows, folder, tmp_path / "out")
    assert sorted(stamps(tmp_path / "out")) == ["part-0.parquet"]
    pq.write_table(table, rows / "part-1.parquet", write_statistics=False, row_group_size=20)
    with pytest.raises(PartError, match=r"^part part-1.00002.parquet of .* row 57 has no ID"):
        label(rows, folder, tmp_path / "divided", part_rows=20)


def test_an_empty_cell_of_a_csv_file_is_no_id(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,a,b,c\nx,0,1,2\n,1,1,2\n")
    with pytest.raises(PartError, match=r"^part rows.csv.parquet of .* row 1 has no ID in column 'id'"):
        label(tmp_path / "rows.csv", folder, tmp_path / "out")
    assert not stamps(tmp_path / "out")


def test_a_full_disk_names_the_part_and_leaves_nothing_half_written(
    rows: Path, folder: Path, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pq.ParquetWriter.write_table
    written: list[int] = []

    def fail(self: Any, *args: Any, **options: Any) -> None:
        written.append(1)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        real(self, *args, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(PartError, match=r"part part-2.parquet .*could not be done: .*No space left"):
        label(rows, folder, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["part-0.parquet", "part-1.parquet"]
    assert label(rows, folder, tmp_path / "out").n_kept == 2
    assert read(tmp_path / "out")["id"].to_pylist() == table["id"].to_pylist()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"engine": "spark"}, InvalidParameterError, "engine must be one of local, ray, got 'spark'"),
        ({"address": "auto"}, InvalidParameterError, "an address is for engine='ray'"),
        ({"out": "{rows}/part-0.parquet"}, InvalidParameterError, "is a file; labels of a data set"),
        ({"model": "{rows}"}, ModelFileError, "is not a saved model"),
        ({"source": "{rows}/none-*"}, InvalidDataError, "holds no data"),
    ],
)
def test_bad_arguments(
    rows: Path, folder: Path, tmp_path: Path, options: dict[str, str], error: Any, message: str
) -> None:
    given = {name: value.format(rows=rows) for name, value in options.items()}
    source = given.pop("source", rows)
    with pytest.raises(error, match=message):
        scale.predict(source, **({"model": folder, "out": tmp_path / "out"} | given))


def test_an_empty_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidDataError, match=r"empty holds no data; a file of rows ends in .parquet"):
        label(tmp_path / "empty", folder, tmp_path / "out")
    with pytest.raises(InvalidDataError, match=r"empty holds no data"):
        scale.fit(tmp_path / "empty", model=tmp_path / "model")
    assert not (tmp_path / "out").exists()


def test_a_model_of_other_features_is_refused_before_the_work_begins(
    table: Any, folder: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "rows.npy", table.select(["a", "b"]).to_pandas().to_numpy())
    with pytest.raises(InvalidDataError, match=r"rows.npy has 2 features, but the model was fitted on 3"):
        label(tmp_path / "rows.npy", folder, tmp_path / "out", id_column=None)
    pa_csv.write_csv(table.drop_columns(["b"]), tmp_path / "rows.csv")
    with pytest.raises(InvalidDataError, match=r"rows.csv lacks 1 of the 3 columns .*'b'"):
        label(tmp_path / "rows.csv", folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_data_set_without_rows_is_refused(rows: Path, folder: Path, tmp_path: Path) -> None:
    for file in rows.iterdir():
        rewrite(file, lambda t: t.slice(0, 0))
    with pytest.raises(InvalidDataError, match="no rows"):
        label(rows, folder, tmp_path / "out")

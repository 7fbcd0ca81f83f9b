"""A fit on a data set of any size: the rows in pairs and a sample are all that is read into memory."""

import tempfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spherepair import Constraints, SpherePair, load, scale
from spherepair.constraints.labels_and_answers import named_rows
from spherepair.errors import (
    InvalidConstraintsError,
    InvalidDataError,
    InvalidParameterError,
    MissingRowsError,
    ModelFileError,
    SpherePairError,
)
from spherepair.files.data_sets import Needs, open_data_file
from spherepair.files.places import find_files
from spherepair.scale.row_samples import Sample, choose_sample, count_rows, draw_sample, fit_sample
from spherepair.training.scaling import ColumnStream, learn_scaling

NEEDS = Needs(id_column="id", drop=("y",))


@pytest.fixture
def pairs(table: Any, tmp_path: Path) -> Path:
    drawn = Constraints.from_labels(table["y"].to_numpy(), n_pairs=40, random_state=0)
    drawn.write(tmp_path / "pairs.csv", ids=table["id"])
    return tmp_path / "pairs.csv"


def fresh() -> SpherePair:
    return SpherePair(3, hidden_dims=(8,), pretraining=None, max_epochs=2, batch_size=16, random_state=0)


def test_a_sample_has_the_rows_in_pairs_and_as_many_others(rows: Path, table: Any, pairs: Path) -> None:
    sample = draw_sample(rows, pairs, needs=NEEDS, n_sample=30, seed=1)
    ends = {name for line in pairs.read_text().splitlines()[1:] for name in line.split(",")[:2]}
    assert len(ends) <= len(sample.X) <= len(ends) + 30
    assert (sample.n_rows, sample.names, len(sample.pairs)) == (240, ["a", "b", "c"], 40)
    X = table.select(["a", "b", "c"]).to_pandas().to_numpy()
    place = {row.tobytes(): k for k, row in enumerate(X)}
    positions = [place[row.tobytes()] for row in sample.X]
    assert positions == sorted(set(positions))
    named = Constraints.read(pairs, ids=table["id"])
    np.testing.assert_array_equal(np.array(positions)[sample.pairs.left], named.left)
    np.testing.assert_array_equal(np.array(positions)[sample.pairs.right], named.right)


def test_positions_count_through_all_files(rows: Path, table: Any) -> None:
    given = Constraints.from_pairs(must_link=[(0, 239)], cannot_link=[(61, 120)], n_rows=240)
    needs = Needs(drop=("id", "y"))
    sample = draw_sample(rows, given, needs=needs, n_sample=10, seed=0)
    assert sample.pairs.n_rows == len(sample.X) < 240
    X = table.select(["a", "b", "c"]).to_pandas().to_numpy()
    np.testing.assert_array_equal(sample.X[sample.pairs.left], X[given.left])
    np.testing.assert_array_equal(sample.X[sample.pairs.right], X[given.right])
    whole = draw_sample(rows, given, needs=needs, n_sample=1000)
    np.testing.assert_array_equal(whole.X, X)


def test_the_same_rows_as_one_table_give_the_same_model(
    rows: Path, table: Any, pairs: Path, tmp_path: Path
) -> None:
    fitted = scale.fit(
        rows, pairs, model=tmp_path / "model", estimator=fresh(), id_column="id", drop=["y"],
        keep="all", out=tmp_path / "out", workers=1,
    )  # fmt: skip
    features = table.select(["a", "b", "c"])
    expected = fresh().fit(features, constraints=Constraints.read(pairs, ids=table["id"]))
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    found = pa.concat_tables([pq.read_table(file) for file in sorted((tmp_path / "out").glob("*"))])
    np.testing.assert_array_equal(found["label"], expected.labels_)
    assert found.column_names == ["id", "label", "confidence", "embedding"]
    model = load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(features), expected.labels_)
    with pytest.raises(MissingRowsError):
        _ = model.labels_


@pytest.mark.parametrize("kind", ["reader", "relation"])
def test_a_stream_is_fitted_like_its_rows_in_files(
    table: Any, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    duckdb = pytest.importorskip("duckdb")

    def rows() -> Any:
        return table.to_reader(7) if kind == "reader" else duckdb.connect().from_arrow(table)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given: dict[str, Any] = {"estimator": fresh(), "id_column": "id", "drop": ["y"], "sample_rows": 50}
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = scale.fit(tmp_path / "rows.parquet", pairs, model=tmp_path / "model", **given)
    before = sorted(tmp_path.iterdir())
    fitted = scale.fit(rows(), pairs, model=tmp_path / "model", **given)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    assert sorted(tmp_path.iterdir()) == before  # nothing is left of it
    out = tmp_path / "out"
    scale.fit(rows(), pairs, model=tmp_path / "model", **given, keep="labels", out=out, workers=1)
    assert pq.read_table(out)["id"].to_pylist() == table["id"].to_pylist()
    with pytest.raises(InvalidDataError, match="the data set has 0 rows"):
        scale.fit(table.slice(0, 0).to_reader(), pairs, model=tmp_path / "model", **given)


def test_a_stream_is_labeled_and_embedded_like_its_rows_in_files(
    table: Any, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pq.write_table(table, tmp_path / "rows.parquet")
    given: dict[str, Any] = {"estimator": fresh(), "id_column": "id", "drop": ["y"]}
    scale.fit(tmp_path / "rows.parquet", pairs, model=tmp_path / "model", **given)
    asked: dict[str, Any] = {"model": tmp_path / "model", "id_column": "id", "workers": 1}
    for number, operation in enumerate((scale.predict, scale.transform)):
        whole, streamed = tmp_path / f"{number}-whole", tmp_path / f"{number}-streamed"
        operation(tmp_path / "rows.parquet", out=whole, **asked)
        before = {*tmp_path.iterdir(), streamed}
        for n_rows in (7, 100):  # the second time another stream, which is labeled anew
            done = operation(table.to_reader(n_rows), out=streamed, **asked)
            assert done.n_kept == 0
        assert pq.read_table(streamed).equals(pq.read_table(whole))
        assert set(tmp_path.iterdir()) == before  # nothing is left of the stream
    with pytest.raises(InvalidDataError, match="no rows"):
        scale.predict(table.slice(0, 0).to_reader(), out=tmp_path / "none", **asked)
    assert not (tmp_path / "none").exists()


def test_numbers_as_ids_are_found_however_they_are_written(table: Any, tmp_path: Path) -> None:
    numbered = table.set_column(0, "id", pa.array(range(100, 340)))
    pq.write_table(numbered, tmp_path / "rows.parquet")
    (tmp_path / "pairs.csv").write_text(
        "left,right,link\n100,339,same\n 101.0,102,different\n+103,104,same\n"
    )
    sample = draw_sample(tmp_path / "rows.parquet", tmp_path / "pairs.csv", needs=NEEDS, n_sample=2)
    assert len(sample.pairs) == 3
    X = table.select(["a", "b", "c"]).to_pandas().to_numpy()
    np.testing.assert_array_equal(sample.X[sample.pairs.left], X[[0, 1, 3]])


@pytest.mark.parametrize("as_vectors", [False, True])
def test_columns_are_scaled_by_all_rows_not_by_the_sample(
    table: Any, pairs: Path, tmp_path: Path, as_vectors: bool
) -> None:
    X = table.select(["a", "b", "c"]).to_pandas().to_numpy().astype(np.float64)
    X[:, 1] *= np.linspace(1, 500, len(X))  # far apart, so that each column gets a scale of its own
    columns = {"v": pa.array(list(X))} if as_vectors else dict(zip("abc", X.T, strict=True))
    pq.write_table(pa.table({"id": table["id"], "y": table["y"], **columns}), tmp_path / "rows.parquet")
    sample = draw_sample(tmp_path / "rows.parquet", pairs, needs=NEEDS, n_sample=5)
    assert len(sample.X) < 100
    np.testing.assert_allclose(sample.columns.std, X.std(axis=0), rtol=1e-9)
    fitted = fit_sample(fresh(), sample)
    np.testing.assert_allclose(fitted._scaling.factor, learn_scaling(X, "auto").factor, rtol=1e-9)
    assert not np.allclose(fitted._scaling.factor, learn_scaling(sample.X, "auto").factor, rtol=1e-3)


def test_labels_name_rows_too(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("id,label\nann,cat\nbob,dog\n")
    assert named_rows(tmp_path / "labels.csv").to_pylist() == ["ann", "bob"]


def test_rows_are_counted(rows: Path) -> None:
    assert count_rows(rows) == 240


@pytest.mark.parametrize("mixed", [False, True])
def test_files_whose_columns_differ_are_refused_or_read_by_name(
    rows: Path, table: Any, tmp_path: Path, mixed: bool
) -> None:
    needs = replace(NEEDS, mixed=mixed)
    expected = draw_sample(rows, None, needs=needs, n_sample=240)

    def last_as(last: Any) -> Any:
        pq.write_table(last, rows / "part-3.parquet")
        return draw_sample(rows, None, needs=needs, n_sample=240)

    last = pq.read_table(rows / "part-3.parquet")
    turned = last_as(last.select(last.column_names[::-1]))
    assert np.array_equal(np.array(turned.X), np.array(expected.X))
    with pytest.raises(
        InvalidDataError, match=r"part-3.parquet lacks columns that .*part-0.parquet has: 'b'"
    ):
        last_as(last.rename_columns(["weight" if name == "b" else name for name in last.column_names]))
    with pytest.raises(InvalidDataError, match=r"part-3.parquet has columns that .* lacks: 'weight'"):
        last_as(last.append_column("weight", last["b"]))
    with pytest.raises(InvalidDataError, match=r"part-3.parquet has IDs of type int64, but .*part-0"):
        last_as(last.set_column(0, "id", pa.array(range(len(last)))))
    with pytest.raises(InvalidDataError, match=r"part-3.parquet has the column 'b' of type string, but"):
        last_as(last.set_column(last.column_names.index("b"), "b", last["b"].cast(pa.string())))


def test_bad_input(rows: Path, table: Any, pairs: Path, tmp_path: Path) -> None:
    pairs.write_text("left,right,link\nitem-0,nobody,same\n")
    with pytest.raises(InvalidConstraintsError, match="'nobody', which no row has"):
        draw_sample(rows, pairs, needs=NEEDS, n_sample=10)
    pairs.write_text("left,right,link\nitem-0,item-1,same\n")
    with pytest.raises(InvalidConstraintsError, match="links rows 0 and 240"):
        draw_sample(rows, Constraints.from_pairs(must_link=[(0, 240)]), needs=NEEDS, n_sample=10)
    pq.write_table(table.slice(0, 1), rows / "again.parquet")
    with pytest.raises((InvalidConstraintsError, InvalidDataError), match="unique"):
        draw_sample(rows, pairs, needs=NEEDS, n_sample=1)
    bad = table.slice(0, 60).set_column(2, "b", pa.array([1.0] * 59 + [np.inf]))
    pq.write_table(bad, rows / "part-3.parquet")
    with pytest.raises(InvalidDataError, match=r"part-3.parquet, counting from row 0: X contains infinity"):
        draw_sample(rows, None, needs=NEEDS, n_sample=1)
    with pytest.raises(InvalidParameterError, match="keep must be 'none'"):
        scale.fit(rows, model=tmp_path / "model", keep="labels")


class Learner:
    """Satisfies more pairs the more rows it sees, up to 80."""

    def __init__(self, enough: int) -> None:
        self.enough, self.seen = enough, []

    def fit(self, X: Any, constraints: Constraints, **options: Any) -> "Learner":
        self.seen.append((len(X), len(constraints)))
        return self

    def score_pairs(self, pairs: Constraints) -> float:
        return min(1.0, self.seen[-1][0] / self.enough)

    def __sklearn_clone__(self) -> "Learner":
        return self


@pytest.fixture
def large(table: Any) -> Sample:
    X = table.select(["a", "b", "c"]).to_pandas().to_numpy()
    drawn = Constraints.from_labels(table["y"].to_numpy()[:40], n_pairs=200, random_state=0)
    return Sample(X, ["a", "b", "c"], replace(drawn, n_rows=240), 10_000, pa.array(range(240)))


@pytest.mark.parametrize(("enough", "chosen"), [(30, 0), (80, 1), (250, 2)])
def test_a_sample_grows_while_held_out_pairs_gain(large: Sample, enough: int, chosen: int) -> None:
    learner = Learner(enough)
    found = choose_sample(learner, large, first_rows=20, seed=0)
    sizes = [trial.n_rows for trial in found.trials]
    assert sizes == sorted(sizes)
    assert found.sample.n_rows == 10_000
    assert len(found.sample.X) == [sizes[0], sizes[1], 240][chosen]
    assert {n_pairs for _, n_pairs in learner.seen} == {160}
    kept = found.sample
    assert len(kept.pairs) == 200
    np.testing.assert_array_equal(kept.X[kept.pairs.left], large.X[large.pairs.left])
    np.testing.assert_array_equal(kept.X, large.X[kept.ids.to_numpy()])
    assert f"{len(kept.X):,} rows were chosen" in found.sentence()


def test_few_pairs_choose_nothing(large: Sample) -> None:
    few = replace(large, pairs=large.pairs[:20])
    found = choose_sample(Learner(10), few, first_rows=20, seed=0)
    assert found.sample is few
    assert found.trials == ()
    assert "too few" in found.sentence()


def test_a_size_chosen_by_pairs_is_told(
    rows: Path, table: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = Constraints.from_labels(table["y"].to_numpy(), n_pairs=100, random_state=0)
    with caplog.at_level("INFO", logger="spherepair.scale"):
        scale.fit(
            rows, given, model=tmp_path / "model", estimator=fresh(), drop=["id", "y"], sample_rows="auto"
        )
    assert "held-out pairs" in caplog.text
    with pytest.raises(
        InvalidParameterError, match="sample_rows must be a whole number of at least 2 or 'auto'"
    ):
        scale.fit(rows, given, model=tmp_path / "model", estimator=fresh(), sample_rows="all")


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()])
def test_ids_that_are_only_stored_in_another_way_are_of_one_type(
    rows: Path, folder: Path, table: Any, tmp_path: Path, kind: Any
) -> None:
    ids = table["id"][60:120].combine_chunks()
    stored = ids.dictionary_encode() if pa.types.is_dictionary(kind) else ids.cast(kind)
    pq.write_table(table[60:120].set_column(0, "id", stored), rows / "part-1.parquet")
    scale.predict(rows, model=folder, out=tmp_path / "out", workers=1, id_column="id")
    assert pq.read_table(tmp_path / "out")["id"].to_pylist() == table["id"].to_pylist()
    drawn = draw_sample(rows, None, needs=replace(NEEDS, id_column="id"), n_sample=240)
    assert drawn.ids.to_pylist() == table["id"].to_pylist()


def test_ids_that_cannot_be_are_refused_before_the_work_begins(
    rows: Path, folder: Path, table: Any, tmp_path: Path
) -> None:
    pq.write_table(table[:60].set_column(0, "id", pa.array([["a"]] * 60)), rows / "part-3.parquet")
    with pytest.raises(InvalidDataError, match=r"part-3.parquet cannot use the ID column 'id' of type"):
        scale.predict(rows, model=folder, out=tmp_path / "out", workers=1, id_column="id")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("told", [True, False])
def test_a_row_without_an_id_is_told_with_its_file(
    rows: Path, table: Any, pairs: Path, tmp_path: Path, told: bool
) -> None:
    ids = pa.array([*table["id"].to_pylist()[60:117], None, None, None])
    part = table.slice(60, 60).set_column(0, "id", ids)
    pq.write_table(part, rows / "part-1.parquet", write_statistics=told)
    with pytest.raises(InvalidDataError, match=r"part-1.parquet has no ID in column 'id' of row 57; every"):
        draw_sample(rows, pairs, needs=NEEDS, n_sample=10)


def test_a_column_that_the_sample_does_not_see_vary_is_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 2)) * [1, 900], np.zeros(400)])
    X[350, 2] = 1.0  # a flag of one row
    np.save(tmp_path / "rows.npy", X)
    pairs = Constraints.from_labels(np.arange(30) % 3, 40, random_state=0)
    sample = draw_sample(tmp_path, pairs, needs=Needs(), n_sample=20)
    assert not sample.X[:, 2].any()
    assert sample.columns is not None
    assert sample.columns.std[2] > 0
    factor = fit_sample(fresh().set_params(scaling="standard"), sample)._scaling.factor
    np.testing.assert_allclose(factor, [*1 / X[:, :2].std(axis=0), 0.0])


@pytest.mark.parametrize("as_vectors", [False, True])
def test_files_of_other_widths_are_refused_with_both_numbers(tmp_path: Path, as_vectors: bool) -> None:
    for name, width in (("a", 3), ("b", 4)):
        X = np.random.default_rng(0).normal(size=(20, width))
        if as_vectors:
            pq.write_table(pa.table({"v": list(X)}), tmp_path / f"{name}.parquet")
        else:
            np.save(tmp_path / f"{name}.npy", X)
    with pytest.raises(InvalidDataError, match="has 4 features, but the files before it have 3"):
        draw_sample(tmp_path, None, needs=Needs())


@pytest.mark.parametrize("ending", ["parquet", "csv", "npy"])
def test_a_column_to_drop_that_is_not_there_is_refused(tmp_path: Path, ending: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    if ending == "npy":
        np.save(tmp_path / "rows.npy", X)
    elif ending == "csv":
        np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b", comments="")
    else:
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "rows.parquet")
    with pytest.raises(SpherePairError, match=r"no column 'labl'|needs a file with named columns"):
        draw_sample(tmp_path, None, needs=Needs(drop=("labl",)))


def test_a_vector_without_values_is_told_with_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [[1.0, 2.0], None, [3.0, 4.0]]}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidDataError, match=r"rows\.parquet, counting from row 0: .*no vector in row 1"):
        draw_sample(tmp_path, None, needs=Needs())


def test_wide_vectors_are_read_a_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spherepair.files.data_sets.BATCH_ENTRIES", 1000)
    X = np.random.default_rng(0).normal(size=(90, 100))
    pq.write_table(pa.table({"v": list(X), "a": X[:, 0]}), tmp_path / "rows.parquet")
    batches = [*open_data_file(find_files(tmp_path)[0]).batches(Needs())]
    assert {len(batch.X) for batch in batches} == {10}


def test_a_fit_goes_on_only_with_the_statistics_it_began_with(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, pairs = (
        rng.normal(size=(60, 2)) * [1, 900],
        Constraints.from_labels(np.arange(60) % 3, 40, random_state=0),
    )
    found = []
    for extra in (0.0, 5000.0):
        stream = ColumnStream()
        stream.add(np.vstack([X, [extra, extra]]))
        found.append(stream.statistics())
    fresh().fit(X, constraints=pairs, columns=found[0], checkpoint=tmp_path / "kept")
    fresh().fit(X, constraints=pairs, columns=found[0], checkpoint=tmp_path / "kept")
    with pytest.raises(ModelFileError, match="differs in data;"):
        fresh().fit(X, constraints=pairs, columns=found[1], checkpoint=tmp_path / "kept")


@pytest.mark.parametrize("scaling", ["auto", "none"])
@pytest.mark.parametrize("columns", [["a", "b"], ColumnStream(), ColumnStream().statistics()])
def test_other_things_are_no_statistics(columns: Any, scaling: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    pairs = Constraints.from_labels(np.arange(40) % 3, 40, random_state=0)
    with pytest.raises(InvalidParameterError, match="ColumnStatistics of a table with 2 columns"):
        fresh().set_params(scaling=scaling).fit(X, constraints=pairs, columns=columns)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"device": "gpu7"}, "gpu7"),
        ({"model": "there.txt"}, "is a file"),
        ({"out": "model", "keep": "labels"}, "choose two folders"),
    ],
)
def test_bad_arguments_are_refused_before_the_fit(
    rows: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.txt").touch()
    monkeypatch.setattr("spherepair.scale.draw_sample", lambda *_, **__: pytest.fail("the fit began"))
    with pytest.raises(SpherePairError, match=said):
        scale.fit(rows, pairs, **{"model": "model", "estimator": fresh(), "id_column": "id", **given})


def test_numbers_that_arrow_stores_otherwise_are_numbers(tmp_path: Path) -> None:
    whole = pa.table(
        {
            "d": [Decimal("1.5"), Decimal("2.5")],
            "b": [True, False],
            "i": pa.array(["x", "y"], pa.string_view()),
        }
    )
    pq.write_table(whole, tmp_path / "rows.parquet")
    sample = draw_sample(tmp_path, None, needs=Needs(id_column="i"))
    np.testing.assert_array_equal(sample.X, [[1.5, 1.0], [2.5, 0.0]])
    assert sample.ids.to_pylist() == ["x", "y"]
    pq.write_table(pa.table({"b": [True, None]}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidDataError, match=r"rows\.parquet.*NaN.*column 'b'"):
        draw_sample(tmp_path, None, needs=Needs())

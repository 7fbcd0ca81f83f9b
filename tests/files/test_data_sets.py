"""Files of a data set read batch by batch: csv files too are never in memory as a whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spherepair.errors import InvalidDataError
from spherepair.files import csv_files, data_sets
from spherepair.files.data_sets import Needs, RowBatch, open_data_file, read_ahead
from spherepair.files.data_tables import read_table
from spherepair.files.places import find_files

N_ROWS = 500


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(csv_files, "START_BYTES", 1000)
    monkeypatch.setattr(data_sets, "BATCH_ROWS", 40)
    monkeypatch.setattr(data_sets, "FEWEST_ROWS", 1)
    monkeypatch.setattr("pyarrow.csv.read_csv", None)  # would read the whole file


def opened(file: Path) -> Any:
    return open_data_file(find_files(file)[0])


def batches(file: Path, needs: Needs) -> list[RowBatch]:
    return list(opened(file).batches(needs))


def joined(found: list[RowBatch]) -> Any:
    return pa.concat_tables([batch.X for batch in found])


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    names = [f"00{place}" for place in range(N_ROWS)]
    # Begins with whole numbers and goes on with fractions.
    a = np.where(np.arange(N_ROWS) < 200, 3.0, 0.25)
    return pa.table({"id": names, "a": a, "b": rng.normal(size=N_ROWS), "note": ["x\ny"] * N_ROWS})


def test_reading_is_one_batch_ahead_and_ends_with_whoever_asks() -> None:
    seen: list[int] = []

    def count() -> Iterator[int]:
        try:
            for number in range(10):
                seen.append(number)
                yield number
        finally:
            seen.append(-1)

    source = count()
    found = read_ahead(source)
    assert next(found) == 0
    found.close()
    assert seen == [0, 1]
    source.close()
    assert seen == [0, 1, -1]


def test_what_goes_wrong_ahead_is_raised_in_its_place() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise InvalidDataError("the second batch is damaged.")

    found = read_ahead(fail())
    assert next(found) == 1
    with pytest.raises(InvalidDataError, match="the second batch is damaged"):
        next(found)


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_csv_is_read_in_batches_like_the_whole_file(
    table: pa.Table, tmp_path: Path, ending: str, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / f"rows.{ending}"
    with pa.output_stream(str(file)) as stream:
        pa_csv.write_csv(table, stream)
    whole = read_table(file, id_column="id", drop=["note"])
    request.getfixturevalue("in_blocks")
    needs = Needs(id_column="id", drop=("note",))
    found = batches(file, needs)
    assert len(found) > 10
    assert max(len(batch.X) for batch in found) <= 40
    assert joined(found).equals(whole.X)
    assert pa.chunked_array([c for batch in found for c in batch.ids.chunks]).equals(whole.ids)
    assert [batch.first for batch in found] == np.cumsum([0, *(len(b.X) for b in found)])[:-1].tolist()
    assert opened(file).count() == N_ROWS


@pytest.mark.usefixtures("in_blocks")
def test_decimal_commas_are_the_same_in_every_batch(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    lines = [f"{place},5;{'rot' if place % 2 else 'blau'}" for place in range(N_ROWS)]
    file.write_text("a;color\n" + "\n".join(lines) + "\n")
    found = joined(batches(file, Needs(mixed=True)))
    np.testing.assert_array_equal(found["a"], np.arange(N_ROWS) + 0.5)
    assert found["color"].to_pylist()[:2] == ["blau", "rot"]
    opened(file).check(Needs(features=("a",)))


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("5", r"rows.csv record 401 has 1 values, but the header names 2 columns"),
        ("5,word", r"rows.csv cannot be read as csv .*word"),
        ("5,\udcff", r"rows.csv row 402 is not text in UTF-8"),
    ],
)
def test_what_is_wrong_far_down_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "rows.csv"
    lines = ["a,b", *["1,2"] * 400, line, *["1,2"] * 400]
    file.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    with pytest.raises(InvalidDataError, match=message):
        batches(file, Needs())


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        (Needs(features=("a", "c")), r"rows.csv lacks 1 of the 2 columns that .*'c'"),
        (Needs(id_column="nobody"), r"rows.csv has no column 'nobody'"),
        (Needs(features=("note",)), r"rows.csv has the column 'note' of type string, but the features are"),
        (Needs(drop=("id", "note"), n_features=3), r"rows.csv has 2 features, but the model was fitted on 3"),
    ],
)
def test_other_columns_and_types_of_csv_files_are_refused_at_once(
    table: pa.Table, tmp_path: Path, needs: Needs, message: str
) -> None:
    pa_csv.write_csv(table, tmp_path / "rows.csv")
    with pytest.raises(InvalidDataError, match=message):
        opened(tmp_path / "rows.csv").check(needs)


def test_other_numbers_of_features_are_refused_at_once(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 2)))
    pq.write_table(pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "a": [1]}),
                           tmp_path / "rows.parquet")  # fmt: skip
    assert opened(tmp_path / "rows.npy").count() == 4
    with pytest.raises(InvalidDataError, match=r"rows.npy has 2 features, but the model was fitted on 3"):
        opened(tmp_path / "rows.npy").check(Needs(n_features=3))
    opened(tmp_path / "rows.parquet").check(Needs(n_features=3))
    with pytest.raises(InvalidDataError, match=r"rows.parquet has 3 features, but the model was .* on 4"):
        opened(tmp_path / "rows.parquet").check(Needs(n_features=4))


def test_an_empty_csv_file_has_no_batches(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n")
    assert batches(tmp_path / "rows.csv", Needs()) == []
    assert opened(tmp_path / "rows.csv").count() == 0

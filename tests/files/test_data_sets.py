"""Files of a data set read batch by batch: csv files too are never in memory as a whole."""

import gzip
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
from spherepair.files.untrusted import SourceFile

N_ROWS = 500


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(csv_files, "START_BYTES", 1000)
    monkeypatch.setattr(data_sets, "BATCH_ROWS", 40)
    monkeypatch.setattr(data_sets, "FEWEST_ROWS", 1)
    monkeypatch.setattr("pyarrow.csv.read_csv", None)  # would read the whole file


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each read of a file elsewhere."""
    found: list[int] = []
    monkeypatch.setattr(SourceFile, "stream", lambda file: Counted(open_stream(file), found))
    return found


open_stream = SourceFile.stream


class Counted:
    """A file that says how much is read at a time."""

    def __init__(self, file: Any, found: list[int]) -> None:
        self._file, self._found = file, found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, n_bytes: int) -> Any:
        self._found.append(n_bytes)
        return self._file.read(n_bytes)

    def read_buffer(self, n_bytes: int) -> Any:  # as Arrow does
        self._found.append(n_bytes)
        return self._file.read_buffer(n_bytes)


def opened(file: Path | str) -> Any:
    return open_data_file(find_files(file)[0])


def batches(file: Path | str, needs: Needs) -> list[RowBatch]:
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


@pytest.mark.parametrize("place", ["here", "elsewhere"])
@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("csv.gz", ","), ("csv", ";"), ("tsv", "\t")])
def test_csv_is_read_in_batches_like_the_whole_file(
    table: pa.Table,
    tmp_path: Path,
    elsewhere: str,
    place: str,
    ending: str,
    mark: str,
    request: pytest.FixtureRequest,
) -> None:
    path = tmp_path / f"rows.{ending}"
    with pa.output_stream(str(path)) as stream:
        pa_csv.write_csv(table, stream, pa_csv.WriteOptions(delimiter=mark))
    whole = read_table(path, id_column="id", drop=["note"])
    request.getfixturevalue("in_blocks")
    needs, file = (
        Needs(id_column="id", drop=("note",)),
        path if place == "here" else f"{elsewhere}/{path.name}",
    )
    found = batches(file, needs)
    assert len(found) > 10
    assert max(len(batch.X) for batch in found) <= 40
    assert joined(found).equals(whole.X)
    assert pa.chunked_array([c for batch in found for c in batch.ids.chunks]).equals(whole.ids)
    assert [batch.first for batch in found] == np.cumsum([0, *(len(b.X) for b in found)])[:-1].tolist()
    assert opened(file).count() == N_ROWS


@pytest.mark.usefixtures("in_blocks")
def test_csv_elsewhere_is_a_stream(table: pa.Table, tmp_path: Path, elsewhere: str, reads: list[int]) -> None:
    pa_csv.write_csv(table, tmp_path / "rows.csv")
    found = batches(f"{elsewhere}/rows.csv", Needs(drop=("id", "note")))
    assert sum(len(batch.X) for batch in found) == N_ROWS
    assert 0 < max(reads) <= csv_files.BLOCK_BYTES < (tmp_path / "rows.csv").stat().st_size / 5


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


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [">f8", "<f4", "i2", "?"])
def test_of_an_array_elsewhere_only_some_rows_are_read_at_a_time(
    elsewhere: str,
    tmp_path: Path,
    order: Any,
    kind: str,
    reads: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_sets, "BATCH_ROWS", 1000)
    monkeypatch.setattr(data_sets, "FEWEST_ROWS", 1)
    X = np.random.default_rng(0).normal(size=(20_500, 3)).astype(kind)
    np.save(tmp_path / "rows.npy", np.asarray(X, order=order))
    found = batches(f"{elsewhere}/rows.npy", Needs(n_features=3))
    assert [batch.first for batch in found] == list(range(0, 20_500, 1000))
    assert {batch.X.dtype for batch in found} == {X.dtype}
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in found]), X)
    assert 0 < max(reads) <= 1000 * 3 * X.itemsize
    assert opened(f"{elsewhere}/rows.npy").count() == 20_500


def test_an_array_elsewhere_that_shrinks_while_it_is_read_is_refused(
    elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_sets, "BATCH_ROWS", 60)
    monkeypatch.setattr(data_sets, "FEWEST_ROWS", 1)
    file = tmp_path / "rows.npy"
    np.save(file, np.zeros((100, 3)))
    rows = opened(f"{elsewhere}/rows.npy").batches(Needs())
    assert len(next(rows).X) == 60
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InvalidDataError, match=r"s3://.*/rows.npy cannot be read .*become shorter since"):
        next(rows)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_elsewhere_may_hold_nothing(elsewhere: str, tmp_path: Path, shape: Any, order: Any) -> None:
    np.save(tmp_path / "rows.npy", np.zeros(shape, order=order))
    for source in (f"{elsewhere}/rows.npy", tmp_path / "rows.npy"):
        assert read_table(source).X.shape == shape
        assert [batch.X.shape for batch in batches(source, Needs())] == [shape] * (shape[0] > 0)


def damaged(name: str, folder: Path) -> Path:
    """A file that has to be refused."""
    file = folder / name.rsplit(maxsplit=1)[-1]
    if name.startswith("objects"):
        np.save(file, np.array([[{}, 1]], dtype=object))
    elif name.startswith("flat"):
        np.save(file, np.zeros(5))
    elif name.startswith("short"):
        np.save(file, np.zeros((50, 2)))
        file.write_bytes(file.read_bytes()[:-3])
    elif name.startswith("texts"):
        np.save(file, np.array([["a", "b"]]))
    elif name.startswith("named"):
        np.savez(file, first=np.eye(2), second=np.eye(2))
    elif name.startswith("bomb"):
        with gzip.open(file, "wb") as stream:
            stream.write(b"a,b\n" + b"1,2\n" * 500_000)
    else:
        file.write_bytes(DAMAGED[name])
    return file


DAMAGED = {
    "empty rows.csv": b"",
    "uneven rows.csv": b"a,b\n" + b"1,2\n" * 9 + b"3\n",
    "another encoding rows.csv": b"a,b\n1,2\n1,\xff\n",
    "another encoding names.csv": b"a,\xff\n1,2\n",
    "words rows.csv": b"a,b\n" + b"1,2\n" * 9 + b"3,word\n",
    "no header rows.csv": b"1,2\n3,4\n",
    "same names rows.csv": b"a,a\n3,4\n",
    "no gzip rows.csv.gz": b"a,b\n1,2\n",
    "half a gzip rows.csv.gz": gzip.compress(b"a,b\n1,2\n" * 100)[:-20],
    "no array rows.npy": b"a,b\n1,2\n",
    "nothing rows.npy": b"",
    "no zip rows.npz": b"PK\x03\x04 and no more" * 9,
    "no numbers rows.svmlight": b"word word\n",
    "no sheet rows.xlsx": b"PK\x03\x04 and no more" * 9,
    "another kind rows.txt": b"a,b\n1,2\n",
}


@pytest.mark.parametrize(
    "name",
    [
        *DAMAGED,
        "objects rows.npy",
        "flat rows.npy",
        "short rows.npy",
        "texts rows.npy",
        "named rows.npz",
        "bomb rows.csv.gz",
    ],
)
def test_what_is_wrong_elsewhere_is_said_as_of_a_file_here(
    elsewhere: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spherepair.files.untrusted.UNPACKED_BYTES", 1_000_000)
    file = damaged(name, tmp_path)

    def use(source: str) -> None:
        found = opened(source)
        found.check(Needs())
        list(found.batches(Needs()))

    for read in (read_table, use):
        said = []
        for source in (str(file), f"{elsewhere}/{file.name}"):
            with pytest.raises(InvalidDataError) as refused:
                read(source)
            said.append(str(refused.value).replace(f" of {file.name}", ""))  # one of many, elsewhere
        assert said[1] == said[0].replace(str(file), f"{elsewhere}/{file.name}")
        assert f"{elsewhere}/{file.name}" in said[1]

"""Parquet files that would unpack to far more than they say are refused; all others are read as they are."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spherepair.errors import InvalidDataError
from spherepair.files import parquet_files, untrusted
from spherepair.files.columns import PARQUET_SUFFIXES, open_columns
from spherepair.files.data_sets import Needs, open_data_file
from spherepair.files.data_tables import read_rows, read_table
from spherepair.files.parquet_files import page_sizes
from spherepair.files.places import find_files

LIMIT = 4 * 2**20


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (untrusted, parquet_files):
        monkeypatch.setattr(module, "UNPACKED_BYTES", LIMIT)


def read(path: Path) -> Any:
    file = open_columns(
        path, suffixes=PARQUET_SUFFIXES, fail=lambda why: InvalidDataError(f"{path.name} {why}")
    )
    return file.read(file.names)


def mixed_table(n_rows: int = 3000) -> Any:
    count = np.arange(n_rows)
    return pa.table(
        {
            "a.b": count / 7,
            "words": [f"word {n % 20}" for n in count],
            "texts": [None if n % 5 == 0 else f"text number {n}" for n in count],
            "vectors": [[1.0, float(n)] for n in count],
            "records": [{"x": f"{n % 3}", "y": int(n)} for n in count],
            "nothing": pa.nulls(n_rows, pa.int64()),
        }
    )


@pytest.mark.parametrize("compression", ["snappy", "gzip", "zstd", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_whole_files_are_read_as_arrow_reads_them(
    tmp_path, monkeypatch, compression, version, use_dictionary
):
    options = {"compression": compression, "data_page_version": version, "use_dictionary": use_dictionary}
    path, table = tmp_path / "rows.parquet", mixed_table()
    pq.write_table(table, path, row_group_size=1000, data_page_size=4096, **options)
    assert read(path).equals(table)
    monkeypatch.setattr(parquet_files, "UNPACKED_BYTES", 2**20)  # a few rows at a time
    assert read(path).equals(table)


def test_pages_are_counted_as_they_are(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table({"n": np.arange(10_000.0), "s": [f"{n}" for n in range(10_000)], "other": [0] * 10_000})
    pq.write_table(table, path, use_dictionary=False, compression="none", row_group_size=2500)
    with path.open("rb") as stream:
        found = page_sizes(stream, pq.read_metadata(path), {"n", "s"})
    assert found.n_values == 20_000
    assert found.n_texts == 10_000
    assert 120_000 < found.n_bytes < 180_000
    assert found.most_bytes == 160_000


def test_a_description_is_read_once_however_many_parts_a_file_has(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": np.arange(1000.0)}), path, row_group_size=100)
    opened, before = open_data_file(find_files(path)[0]), parquet_files._described_chunks.cache_info()
    for group in range(10):
        assert [len(batch.X) for batch in opened.batches(Needs(), (group, group + 1))] == [100]
    after = parquet_files._described_chunks.cache_info()
    assert after.misses - before.misses == 1
    assert after.hits - before.hits >= 9


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("store_schema", [True, False])
def test_a_long_text_that_stands_in_every_row_is_refused(tmp_path, store_schema):
    path = tmp_path / "rows.parquet"
    words = pa.DictionaryArray.from_arrays(np.zeros(200_000, np.int32), ["x" * 100_000])
    # Without Arrow's own description of types a reader makes plain texts of the dictionary.
    pq.write_table(pa.table({"text": words}), path, store_schema=store_schema)
    assert path.stat().st_size < 50_000
    with pytest.raises(InvalidDataError, match=rf"more than {LIMIT:,} bytes .* SPHEREPAIR_LIMITS"):
        read(path)


def lie(path: Path, size: int) -> None:
    """Let the first page of a file say that it unpacks to so many bytes; nothing else knows of it."""
    chunk, content = pq.read_metadata(path).row_group(0).column(0), bytearray(path.read_bytes())
    place = chunk.data_page_offset + 3  # after the type of the page, and the mark of the next field
    length = next(n for n in range(1, 6) if content[place + n - 1] < 128)
    number = 2 * size
    coded = [(number >> (7 * n)) & 127 | (128 if n < length - 1 else 0) for n in range(length)]
    assert number < 128**length
    content[place : place + length] = bytes(coded)
    path.write_bytes(bytes(content))


@pytest.mark.usefixtures("small_limits")
def test_a_page_that_says_it_is_far_larger_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": ["x" * 2**21]}), path, use_dictionary=False, compression="gzip")
    lie(path, 100 * 2**20)
    with pytest.raises(InvalidDataError, match=rf"more than {LIMIT:,} bytes .* SPHEREPAIR_LIMITS"):
        read(path)
    opened = open_data_file(find_files(path)[0])
    with pytest.raises(InvalidDataError, match=rf"more than {LIMIT:,} bytes in one page"):
        next(opened.batches(Needs(("a",), 1, mixed=True)))


@pytest.mark.usefixtures("small_limits")
def test_values_of_a_list_are_counted_not_its_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [[0.0] * 1_000_000]}), path)
    assert path.stat().st_size < 10_000
    with pytest.raises(InvalidDataError, match=f"more than {LIMIT:,} bytes"):
        read(path)


def test_a_long_description_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "FOOTER_BYTES", 1000)
    pq.write_table(pa.table({f"column {n}": [0.0] for n in range(100)}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidDataError, match="more than 1,000 bytes that describe its columns"):
        read(tmp_path / "rows.parquet")


def opened_part(tmp_path, table, **options):
    """A part of a data set, and what is read of it."""
    pq.write_table(table, tmp_path / "0.parquet", **options)
    return open_data_file(find_files(tmp_path)[0]), Needs(tuple(table.column_names), mixed=True)


def test_columns_and_descriptions_of_a_part_are_counted_before_they_are_read(tmp_path, monkeypatch):
    table = pa.table({f"column {n}": [0.0] for n in range(100)})
    monkeypatch.setattr(parquet_files, "NAMED_COLUMNS", 50)
    with pytest.raises(InvalidDataError, match=r"0\.parquet has more than 50 columns; .* SPHEREPAIR_LIMITS"):
        opened_part(tmp_path, table)
    monkeypatch.setattr(parquet_files, "FOOTER_BYTES", 1000)
    with pytest.raises(InvalidDataError, match="more than 1,000 bytes that describe its columns"):
        opened_part(tmp_path, table)


@pytest.mark.usefixtures("small_limits")
def test_rows_of_a_part_are_counted_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SPHEREPAIR_LIMITS", "1")
    opened, needs = opened_part(tmp_path, pa.table({"a": np.zeros(5_000_000)}))
    with pytest.raises(InvalidDataError, match=r"bytes when it is unpacked; .* SPHEREPAIR_LIMITS"):
        opened.check(needs)
    monkeypatch.setenv("SPHEREPAIR_LIMITS", "100")
    opened.check(needs)


@pytest.mark.usefixtures("small_limits")
def test_a_long_list_of_a_part_is_refused(tmp_path):
    opened, needs = opened_part(tmp_path, pa.table({"a": [[0.0] * 1_000_000]}))
    with pytest.raises(InvalidDataError, match=f"more than {LIMIT:,} bytes when it is unpacked"):
        next(opened.batches(needs))


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_long_text_in_every_row_of_a_part_is_read_a_few_rows_at_a_time(tmp_path, monkeypatch, is_plain):
    monkeypatch.setattr("spherepair.files.data_sets.BATCH_BYTES", 10**6)
    words = pa.DictionaryArray.from_arrays(np.arange(2000, dtype=np.int32) % 2, ["x" * 100_000, "y"])
    opened, needs = opened_part(tmp_path, pa.table({"a": words}), store_schema=not is_plain)
    sizes = [(batch.first, len(batch.X)) for batch in opened.batches(needs)]
    assert sum(size for _, size in sizes) == 2000
    assert [first for first, _ in sizes] == [sum(size for _, size in sizes[:k]) for k in range(len(sizes))]
    assert max(size for _, size in sizes) <= 2 * 10**6 // 100_000


def test_a_wide_part_is_read_a_few_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("spherepair.files.data_sets.BATCH_ENTRIES", 1000)
    opened, needs = opened_part(tmp_path, pa.table({f"c{n}": np.zeros(300) for n in range(100)}))
    assert [len(batch.X) for batch in opened.batches(needs)] == [10] * 30


def test_a_page_longer_than_its_column_is_refused_before_room_is_made_for_it() -> None:
    """Arrow would make room for two gigabytes: the file says so."""
    path = Path(__file__).parents[1] / "fuzz/corpus/parts/page_longer_than_its_column.parquet"
    with path.open("rb") as stream, pytest.raises(ValueError, match="longer than its column"):
        page_sizes(stream, pq.read_metadata(path), {"a"})


def test_a_dictionary_that_stays_one_in_memory_counts_as_often_as_it_is_copied(tmp_path, monkeypatch):
    for module in (parquet_files, untrusted):
        monkeypatch.setattr(module, "UNPACKED_BYTES", 2**20)
    words = pa.array([f"{n:06}" + "z" * 1000 for n in range(400)])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), words)
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "word": coded}), file, compression="zstd")
    with pytest.raises(InvalidDataError, match="bytes when it is unpacked"):
        read_table(file, mixed=True)
    with pytest.raises(InvalidDataError, match="bytes in one page"):
        list(open_data_file(find_files(file)[0]).batches(Needs(mixed=True)))


ODD_TIMES = {
    "too late": pa.array([2**62] * 3, pa.timestamp("us")),
    "days too many": pa.array([2**31 - 1] * 3, pa.date32()),
    "too long": pa.array([2**62] * 3, pa.duration("s")),
    "nowhere": pa.array([2**40] * 3, pa.timestamp("us", tz="Mars/Phobos")),
}


@pytest.mark.parametrize("case", ODD_TIMES)
def test_times_that_python_has_no_name_for_are_refused(tmp_path, case):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "when": ODD_TIMES[case]}), file)
    with pytest.raises(InvalidDataError, match="column 'when' holds no time"):
        read_table(file, mixed=True)
    with pytest.raises(InvalidDataError, match="column 'when' holds no time"):
        list(open_data_file(find_files(file)[0]).batches(Needs(mixed=True)))
    assert read_table(file, drop=["when"]).n_rows == 3


def test_columns_of_a_wide_part_are_looked_up_once_and_named_in_part(tmp_path):
    """Twenty thousand columns took a minute: every name was looked for among all others."""
    names, file = [f"{n}{'x' * 200}" for n in range(8000)], tmp_path / "rows.parquet"
    pq.write_table(pa.table([[1.0, 2.0]] * len(names), names=names), file, compression="zstd")
    opened, started = open_data_file(find_files(file)[0]), time.process_time()
    opened.check(Needs(mixed=True))
    assert time.process_time() - started < 2
    with pytest.raises(InvalidDataError, match=r"has no column 'id'; it has .* and 7992 more") as caught:
        opened.check(Needs(mixed=True, id_column="id"))
    assert len(str(caught.value)) < 1000


def test_times_of_a_day_are_read_to_the_microsecond(tmp_path):
    """With nanoseconds pandas refuses them, which ended in a fault of ours."""
    file, times = tmp_path / "rows.parquet", pa.array([1, 2000, 3001], pa.time64("ns"))
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "at": times}), file)
    assert [time.microsecond for time in read_table(file, mixed=True).X["at"].to_pylist()] == [0, 2, 3]
    (batch,) = open_data_file(find_files(file)[0]).batches(Needs(mixed=True))
    assert batch.X["at"].type == pa.time64("us")


ODD_IDS = {
    "objects": pa.array([{"a": 1}] * 3),
    "lists": pa.array([[1]] * 3),
    "bytes that are no text": pa.array([b"\xff"] * 3),
}


@pytest.mark.parametrize("case", ODD_IDS)
def test_ids_that_are_neither_numbers_nor_texts_are_refused(tmp_path, case):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "id": ODD_IDS[case]}), file)
    for read in (read_table, read_rows):
        with pytest.raises(InvalidDataError, match="cannot use the ID column 'id' of type"):
            read(file, id_column="id")
    with pytest.raises(InvalidDataError, match="cannot use the ID column 'id' of type"):
        list(open_data_file(find_files(file)[0]).batches(Needs(id_column="id")))


def test_ids_in_bytes_are_texts(tmp_path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "id": pa.array([b"x", b"y"])}), file)
    assert read_table(file, id_column="id").ids.to_pylist() == ["x", "y"]


def test_what_a_file_says_of_many_groups_takes_little_memory(tmp_path: Path) -> None:
    n_groups, n_columns = 100, 50
    rows = pa.table({f"x{k}": np.zeros(n_groups, np.float32) for k in range(n_columns)})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1)
    with (tmp_path / "rows.parquet").open("rb") as stream:
        described = parquet_files.read_description(stream, InvalidDataError)
        tracemalloc.start()
        try:
            found = parquet_files.values_of_a_row(stream, described, {"x0", "x1"}, range(n_groups))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert found == 2
    assert peak < 700 * n_groups * n_columns

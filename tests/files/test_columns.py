"""The one reader of named columns: names, types, rows of the file, and damage."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spherepair.errors import InvalidDataError
from spherepair.files.columns import (
    CSV_SUFFIXES,
    JSON_LINES_SUFFIXES,
    PARQUET_SUFFIXES,
    ColumnFile,
    open_columns,
    write_columns,
)

SUFFIXES = (*CSV_SUFFIXES, *JSON_LINES_SUFFIXES, *PARQUET_SUFFIXES)


def open_file(path: Path) -> ColumnFile:
    return open_columns(
        path, suffixes=SUFFIXES, fail=lambda reason: InvalidDataError(f"{path.name} {reason}")
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_that_are_written_are_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    columns = {"id": ["007", "a,b", 'say "hi"', "line\n\nbreak", "ü"], "x": np.array([1.0, 0.5, 0, -3, 4])}
    write_columns(path, columns)
    file = open_file(path)
    assert file.names == ["id", "x"]
    table = file.read(["x", "id"], text=["id"])
    assert table.column_names == ["x", "id"]
    assert table["id"].to_pylist() == columns["id"]
    assert table["x"].to_pylist() == columns["x"].tolist()
    assert len(file.rows(5)) == 5
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_csv_is_quoted_only_where_it_must_be(tmp_path: Path) -> None:
    write_columns(tmp_path / "plain.csv", {"id": ["a", "b"], "label": [0, 1]})
    assert (tmp_path / "plain.csv").read_text() == "id,label\na,0\nb,1\n"
    write_columns(tmp_path / "special.csv", {"id": ["a", "b,c"], "label": [0, 1]})
    assert (tmp_path / "special.csv").read_text() == '"id","label"\n"a",0\n"b,c",1\n'


def test_what_is_wrong_with_a_path_is_told_apart(tmp_path: Path) -> None:
    for name, wrong in (("none", "none does not exist; check the path"), ("a.exe", "is of an unknown kind")):
        (tmp_path / "a.exe").write_text("x")
        with pytest.raises(InvalidDataError, match=wrong):
            open_file(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidDataError, match="is a folder, not a file"):
        open_file(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InvalidDataError, match="is neither a file nor a folder"):
        open_file(tmp_path / "pipe.csv")


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "\n\na,b\r\n\r\n"])
def test_header_alone_is_a_table_without_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.csv").write_text(text)
    file = open_file(tmp_path / "file.csv")
    assert file.names == ["a", "b"]
    assert file.read(["b", "a"], text=["b"]).shape == (0, 2)
    assert file.rows(0).tolist() == []


def test_rows_are_lines_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text('\ufeff\nnote,a\n"one\n\ntwo",1\n\nthree,2\n')
    file = open_file(tmp_path / "file.csv")
    assert file.names == ["note", "a"]
    assert file.read(["a"])["a"].to_pylist() == [1, 2]
    assert file.rows(2).tolist() == [3, 7]
    (tmp_path / "file.jsonl").write_text('\n{"a": 1}\n \n{"a": 2}')
    assert open_file(tmp_path / "file.jsonl").rows(2).tolist() == [2, 4]
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "file.parquet")
    assert open_file(tmp_path / "file.parquet").rows(2).tolist() == [1, 2]


def test_quoted_line_breaks_may_cross_the_blocks_of_a_large_file(tmp_path: Path) -> None:
    record = '"' + "line\n" * 2000 + '",1\n'
    (tmp_path / "file.csv").write_text("text,a\n" + record * 300)
    table = open_file(tmp_path / "file.csv").read(["a"])
    assert table["a"].to_pylist() == [1] * 300


def test_uneven_record_is_named_by_its_row_however_far_down(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("a,b\n" + "1,2\n" * 500_000 + "\n3\n" + "4,5\n" * 10 + "6,7,8\n")
    with pytest.raises(InvalidDataError, match=r"^file\.csv row 500003 has 1 values, but the header names 2"):
        open_file(tmp_path / "file.csv").read(["a"])


def test_bytes_that_are_not_utf_8_matter_only_where_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_bytes(b"a,note\n1,x\n2,\xff\n")
    file = open_file(tmp_path / "file.csv")
    assert file.read(["a"])["a"].to_pylist() == [1, 2]
    for text in ([], ["note"]):
        with pytest.raises(InvalidDataError, match=r"^file\.csv row 3 is not text in UTF-8"):
            file.read(["note"], text=text)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_header_that_is_not_utf_8_is_refused(tmp_path: Path, suffix: str) -> None:
    data = b"\nn\xe9,b\n1,2\n"
    (tmp_path / f"file.{suffix}").write_bytes(gzip.compress(data) if suffix == "csv.gz" else data)
    with pytest.raises(InvalidDataError, match="row 2 is not text in UTF-8; save the file as UTF-8"):
        open_file(tmp_path / f"file.{suffix}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("file.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:-12]),
        ("file.csv.gz", b"a,b\n1,2\n"),
        ("file.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1000, mtime=0)[:-12]),
        ("file.parquet", b"PAR1 half a file"),
        ("file.pq", b""),
    ],
)
def test_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        InvalidDataError, match=rf"^{name} cannot be read as .*; write or copy the file again"
    ):
        open_file(tmp_path / name).read(["a"])


def test_errors_of_the_disk_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file.csv").write_text("a\n1\n")
    file = open_file(tmp_path / "file.csv")

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", str(tmp_path / "file.csv"))

    monkeypatch.setattr(pa, "input_stream", fail)
    with pytest.raises(OSError, match="Input/output error"):
        file.read(["a"])

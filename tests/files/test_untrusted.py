"""Hostile and damaged files are refused with one sentence: sizes and structure first, decoding second."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from spherepair import Constraints
from spherepair.errors import (
    InvalidConstraintsError,
    InvalidDataError,
    InvalidParameterError,
    SpherePairError,
    listed,
    quoted,
)
from spherepair.files import untrusted
from spherepair.files.data_tables import read_table

MATRIX = sparse.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))


def parts(matrix: Any = MATRIX, **changed: Any) -> dict[str, Any]:
    found = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    return {"format": np.array(matrix.format), "shape": np.array(matrix.shape), **found, **changed}


BROKEN = {
    "indices beyond the columns": ({"indices": np.array([0, 3, 1])}, "point outside"),
    "indices far outside": ({"indices": np.array([0, 2**40, 1])}, "point outside"),
    "negative indices": ({"indices": np.array([0, -1, 1])}, "point outside"),
    "rows beyond the values": ({"indptr": np.array([0, 2, 2**31])}, "do not follow"),
    "rows that go back": ({"indptr": np.array([0, 5, 3])}, "do not follow"),
    "a first row that is not first": ({"indptr": np.array([1, 2, 3])}, "do not follow"),
    "too few rows": ({"indptr": np.array([0, 3])}, "not as long"),
    "more values than indices": ({"data": np.ones(4)}, "not as long"),
    "indices that are fractions": ({"indices": np.array([0.0, 2.0, 1.0])}, "whole numbers"),
    "indices in a table": ({"indices": np.zeros((3, 1), np.int32)}, "whole numbers"),
    "a negative shape": ({"shape": np.array([-2, 3])}, "negative or too large"),
    "a shape of three": ({"shape": np.array([2, 3, 4])}, "two whole numbers"),
    "an unknown format": ({"format": np.array("dok")}, "its format is none of"),
    "a format whose values are no rows": (
        {"format": np.array("dia"), "data": np.eye(3)},
        "its format is none",
    ),
    "blocks that do not fill it": ({"format": np.array("bsr"), "data": np.ones((3, 2, 2))}, "blocks"),
    "values that are text": ({"data": np.array(["a", "b", "c"])}, "not as long"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_sparse_matrix_that_points_outside_is_refused(case: str, tmp_path: Path) -> None:
    changed, reason = BROKEN[case]
    np.savez(tmp_path / "rows.npz", **parts(**changed))
    with pytest.raises(InvalidDataError, match=rf"rows\.npz cannot be read as .*{reason}"):
        read_table(tmp_path / "rows.npz")


@pytest.mark.parametrize("kind", ["dia", "coo"])
def test_the_values_of_another_format_are_not_taken_for_rows(kind: str, tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "rows.npz", MATRIX.asformat(kind))
    with pytest.raises(
        InvalidDataError, match=r"its format is none of csr, csc, bsr; save the matrix\.tocsr"
    ):
        read_table(tmp_path / "rows.npz")


def test_columns_of_a_sparse_archive_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", **parts(shape=np.array([2, 2**40])))
    with pytest.raises(InvalidDataError, match="more than 10,000,000 columns"):
        read_table(tmp_path / "rows.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_every_compressed_format_is_read(kind: str, tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "rows.npz", MATRIX.asformat(kind))
    found = read_table(tmp_path / "rows.npz").X
    assert found.format == "csr"
    np.testing.assert_array_equal(found.toarray(), MATRIX.toarray())


def npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b" " * (118 - len(header) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


HEADERS = {
    "a shape of booleans": "{'descr': '<f8', 'fortran_order': False, 'shape': (True, True), }",
    "a shape beyond 64 bits": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**70}, 2), }}",
    "a negative shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
    "a shape of a terabyte": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 128), }",
    "Python objects": "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }",
    "an unknown type": "{'descr': 'nothing', 'fortran_order': False, 'shape': (1, 1), }",
    "brackets": "(" * 100,
    "no dictionary": "1",
}


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("name", ["rows.npy", "rows.npz", "inside.npz"])
def test_an_odd_npy_header_is_refused(case: str, name: str, tmp_path: Path) -> None:
    content = npy(HEADERS[case], b"\0" * 8)
    if name == "inside.npz":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidDataError, match="cannot be read as a NumPy"):
        read_table(tmp_path / name)


def test_a_zip_named_npy_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.ones((2, 2)))
    (tmp_path / "rows.npz").rename(tmp_path / "rows.npy")
    with pytest.raises(InvalidDataError, match="cannot be read as a NumPy array"):
        read_table(tmp_path / "rows.npy")


def test_a_damaged_archive_is_refused_wherever_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, X=np.arange(20.0).reshape(4, 5))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read_table(path)
        except InvalidDataError as error:
            assert len(str(error)) < 400  # noqa: PT017


def pairs_file(folder: Path, content: bytes, name: str = "pairs.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def test_bare_carriage_returns_and_huge_fields_are_refused(tmp_path: Path) -> None:
    for content in (
        b"left,right,link\n0,1\r2,must\n",
        b"left,right,link\r0,1,must\r\r2",
        b"left,right,link\n0,1," + b"m" * 3_000_000,
        b"left,right," + b"l" * 3_000_000 + b"\n0,1,must\n",
        b'"' + b"\n" * 300_000,
    ):
        with pytest.raises(InvalidConstraintsError) as caught:
            Constraints.read(pairs_file(tmp_path, content))
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("depth", [50, 150, 900, 50_000])
def test_deeply_nested_json_is_refused(depth: int, tmp_path: Path) -> None:
    nested = "[" * depth + "]" * depth
    line = f'{{"left": {nested}, "right": 1, "link": "must"}}\n{{"left": "a", "right": 1, "link": "must"}}\n'
    with pytest.raises(InvalidConstraintsError) as caught:
        Constraints.read(pairs_file(tmp_path, line.encode(), "pairs.jsonl"))
    assert len(str(caught.value)) < 400


def test_half_a_character_in_json_is_refused(tmp_path: Path) -> None:
    line = json.dumps({"left": "\ud800", "right": 1, "link": "must"})
    with pytest.raises(InvalidConstraintsError, match="cannot be read as json lines"):
        Constraints.read(pairs_file(tmp_path, line.encode(), "pairs.jsonl"))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "UNPACKED_BYTES", 100_000)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("name", ["pairs.csv.gz", "pairs.jsonl.gz", "record.jsonl.gz"])
def test_what_unpacks_to_too_much_is_refused_while_it_is_unpacked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = {
        "pairs.csv.gz": b"left,right,link\n",
        "record.jsonl.gz": b'{"format": "spherepair answers", "version": 1}\n',
    }
    path = pairs_file(tmp_path, starts.get(name, b"") + b" " * 1_000_000, name)
    with pytest.raises(InvalidConstraintsError, match=r"more than 100,000 bytes .* SPHEREPAIR_LIMITS"):
        Constraints.read(path)
    monkeypatch.setenv("SPHEREPAIR_LIMITS", "20")
    try:
        assert len(Constraints.read(path)) == 0
    except InvalidConstraintsError as error:
        assert "SPHEREPAIR_LIMITS" not in str(error)  # noqa: PT017


SHORT_LINES = {
    "pairs.csv.gz": (b"left,right,link\n", b"0,1,must\n", 600),
    "pairs.jsonl.gz": (b"", b'{"left":0,"right":1,"link":"must"}\n', 200),
    "pairs.ndjson.jsonl.gz": (b"", b"{}\n", 350),
    "lists.jsonl.gz": (b'{"left":', b"[],", 400),
    "lines.jsonl.gz": (b"", b"\n", 600),
}


@pytest.mark.parametrize("name", SHORT_LINES)
def test_short_lines_that_take_far_more_memory_than_they_are_long_are_counted(
    name: str, small_limits: None, tmp_path: Path
) -> None:
    header, line, count = SHORT_LINES[name]
    (tmp_path / name).write_bytes(gzip.compress(header + line * count))
    assert len(header + line * count) < 100_000
    with pytest.raises(InvalidConstraintsError, match="more than 100,000 bytes when it is unpacked"):
        Constraints.read(tmp_path / name)


def test_pairs_that_stand_in_a_file_once_are_counted(small_limits: None, tmp_path: Path) -> None:
    count = 1000
    zeros = np.zeros(count, np.int8)
    columns = {"left": zeros, "right": zeros + 1, "link": zeros == 0}
    pq.write_table(pa.table(columns), tmp_path / "pairs.parquet", compression="zstd")
    with pytest.raises(InvalidConstraintsError, match="bytes when it is unpacked"):
        Constraints.read(tmp_path / "pairs.parquet")


@pytest.mark.usefixtures("small_limits")
def test_parquet_and_zip_bombs_are_refused_before_they_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": np.zeros(1_000_000), "b": np.zeros(1_000_000)}), tmp_path / "rows.parquet")
    np.savez_compressed(tmp_path / "rows.npz", X=np.zeros((1000, 100)))
    for name in ("rows.parquet", "rows.npz"):
        with pytest.raises(InvalidDataError, match="bytes when it is unpacked"):
            read_table(tmp_path / name)


def test_too_many_columns_are_counted_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spherepair.files.text_lines.NAMED_COLUMNS", 50)
    monkeypatch.setattr("spherepair.files.parquet_files.NAMED_COLUMNS", 50)
    names = [f"c{place}" for place in range(60)]
    (tmp_path / "rows.csv").write_text(f"{','.join(names)}\n{','.join('0' for _ in names)}\n")
    pq.write_table(pa.table({name: [0.0] for name in names}), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        with pytest.raises(InvalidDataError, match="has more than 50 columns"):
            read_table(tmp_path / name)


def test_a_first_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spherepair.files.text_lines.HEADER_BYTES", 1000)
    (tmp_path / "rows.csv").write_text("a," * 2000)
    with pytest.raises(InvalidDataError, match="more than 1,000 bytes in its first line"):
        read_table(tmp_path / "rows.csv")


@pytest.mark.parametrize("given", ["0", "-1", "many", "nan", "1e99"])
def test_limits_must_be_a_number(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPHEREPAIR_LIMITS", given)
    with pytest.raises(InvalidParameterError, match="SPHEREPAIR_LIMITS must be a number"):
        untrusted.limit(1)


def test_quotes_are_short_and_printable() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for value in ("x" * 10**6, "\x1b[2J\x00\n\u202e", b"\xff" * 1000, nested, ValueError("a\n" * 10**5)):
        shown = quoted(value)
        assert len(shown) <= 80
        assert shown.isprintable()
    assert quoted("as it is") == "'as it is'"
    assert quoted(KeyError()) == "KeyError"
    assert len(listed(["x" * 1000] * 1000)) < 1000


def test_what_is_quoted_from_a_file_is_short(tmp_path: Path) -> None:
    long = "[" * 50_000
    files = {
        "pairs.csv": f'left,right,link\n0,1,"{long}"\n',
        "ends.csv": f'left,right,link\n"{long}",1,must\n',
        "names.csv": f'"{long}",b\n0,1\n',
        "weight.csv": f'left,right,link,weight\n0,1,must,"{long}"\n',
        "labels.csv": f'row,label\n0,"{long}"\n0,b\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(SpherePairError) as caught:
            Constraints.read(tmp_path / name)
        assert len(str(caught.value)) < 500, name


def test_errors_of_the_disk_pass() -> None:
    with pytest.raises(FileNotFoundError), untrusted.decoding("text", InvalidDataError):
        raise FileNotFoundError(2, "no such file", "x")
    with pytest.raises(KeyboardInterrupt), untrusted.decoding("text", InvalidDataError):
        raise KeyboardInterrupt

    class Panic(BaseException):
        """As libraries written in Rust raise it."""

    with (
        pytest.raises(InvalidDataError, match="cannot be read as text"),
        untrusted.decoding("text", InvalidDataError),
    ):
        raise Panic("index out of bounds")


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path, small_limits: None) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * 10**6)
    (tmp_path / "rows.xlsx").write_bytes(stream.getvalue())
    with pytest.raises(InvalidDataError, match="bytes when it is unpacked"):
        read_table(tmp_path / "rows.xlsx")


def test_a_cell_far_away_is_refused_before_the_sheet_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rows.xlsx", "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", '<c r="A1"><v>1</v></c><c r="XFD1048576"><v>1</v></c>')
    with pytest.raises(InvalidDataError, match="more than 50,000,000 cells"):
        read_table(tmp_path / "rows.xlsx")

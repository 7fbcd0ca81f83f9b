"""Rows of several files read as one table: columns by name, the files in the order of their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy import sparse
from tests.fuzz.targets import data_seeds

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.files import joined_columns, places
from spherepair.files.data_sets import Needs, open_data_file
from spherepair.files.data_tables import column_names, is_picture_folder, read_rows, read_table
from spherepair.files.places import find_files

SOURCES = ["{}", "{}/*", "file://{}", "file://{}/*.*"]


def write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        options = pa_csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        with pa.output_stream(str(path)) as stream:
            pa_csv.write_csv(table, stream, options)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six rows in three files."""
    rows = tmp_path / "rows"
    write(rows / "b.csv", a=[3, 4], id=["003", "004"], b=[0.3, 0.4])
    write(rows / "a.parquet", id=["001", "002"], a=[1, 2], b=[0.1, 0.2])
    write(rows / "deep" / "c.parquet", b=[0.5, 0.6], a=[5.5, 6.5], id=["005", "006"])
    return rows


@pytest.mark.parametrize("source", SOURCES)
def test_rows_follow_each_other_and_columns_are_found_by_name(folder: Path, source: str) -> None:
    (folder / "deep" / "c.parquet").rename(folder / "c.parquet")
    table = read_table(source.format(folder), id_column="id")
    assert table.names == ("a", "b")
    assert table.ids.to_pylist() == ["001", "002", "003", "004", "005", "006"]
    assert table.X.to_pydict() == {"a": [1, 2, 3, 4, 5.5, 6.5], "b": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    assert read_rows(source.format(folder), id_column="id").ids.to_pylist() == table.ids.to_pylist()
    assert read_rows(source.format(folder)).n_rows == 6
    assert column_names(source.format(folder)) == ["id", "a", "b"]


def test_a_folder_of_one_file_is_that_file(tmp_path: Path) -> None:
    file = write(tmp_path / "rows" / "a.csv", a=[1, 2])
    assert read_table(tmp_path / "rows").X.equals(read_table(file).X)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["x"], "a": [1]}, r"z.parquet lacks columns that .*a.parquet has: 'b'"),
        ({"id": ["x"], "a": [1], "b": [1], "c": [1]}, r"z.parquet has columns that .*a.parquet lacks: 'c'"),
        (
            {"id": ["x"], "a": [1], "b": ["w"]},
            r"z.parquet has the column 'b' of type string, but .*a.parquet",
        ),
        ({"id": [7], "a": [1], "b": [1]}, r"z.parquet has the column 'id' of type int64, but .*a.parquet"),
    ],
)
def test_other_columns_and_types_are_refused_by_the_name_of_the_file(
    folder: Path, columns: dict[str, Any], message: str
) -> None:
    write(folder / "z.parquet", **columns)
    with pytest.raises(InvalidDataError, match=message):
        read_table(folder, id_column="id")


def test_columns_that_are_not_read_may_differ(folder: Path) -> None:
    write(folder / "z.parquet", id=["x"], a=[7], b=[0.7], note=["n"])
    assert read_table(folder, drop=["note", "id"]).n_rows == 7
    assert read_table(folder, features=["b", "a"], id_column="id").X.column_names == ["b", "a"]
    assert read_rows(folder, id_column="id").n_rows == 7
    assert read_rows(folder).n_rows == 7


def test_a_column_named_twice_in_one_file_is_refused(folder: Path) -> None:
    (folder / "z.csv").write_text("id,a,a,b\nx,1,1,1\n")
    for read in (read_table, read_rows):
        with pytest.raises(InvalidDataError, match=r"z.csv has the column 'a' more than once"):
            read(folder, id_column="a" if read is read_rows else None)


def test_places_are_told_with_the_file(folder: Path) -> None:
    write(folder / "c.csv", id=[f"r{k}" for k in range(20)], a=["x", *map(str, range(19))], b=[0.5] * 20)
    with pytest.raises(InvalidDataError, match="column 'a' of type string"):
        read_table(folder, id_column="id")
    for file in [*folder.glob("*.parquet"), *folder.glob("*/*.parquet"), folder / "b.csv"]:
        file.unlink()
    write(folder / "deep" / "d.csv", id=["s0"] * 20, a=["?", *map(str, range(19))], b=[0.5] * 20)
    with pytest.raises(InvalidDataError, match=r"2 of its 40 values .* 'x' in line 2 of c.csv \(id 'r0'\)"):
        read_table(folder, id_column="id")
    table = read_table(folder, id_column="id", mixed=True)
    assert table.locate(39) == "line 21 of deep/d.csv (id 's0')"
    assert table.locate(19) == "line 21 of c.csv (id 'r19')"
    assert table.file is not None
    assert table.file.rows(40).tolist() == [*range(2, 22)] * 2


def test_empty_files_have_no_rows(folder: Path) -> None:
    (folder / "b.csv").write_text("id,a,b\n")
    table = read_table(folder, id_column="id")
    assert table.n_rows == 4
    assert table.locate(2) == "line 1 of deep/c.parquet (id '005')"


def test_arrays_follow_each_other(tmp_path: Path) -> None:
    for place in range(3):
        np.save(tmp_path / f"{place}.npy", np.full((2, 3), place, np.float32))
    table = read_table(tmp_path)
    assert table.X.dtype == np.float32
    assert table.X[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert (read_rows(tmp_path).n_rows, column_names(tmp_path)) == (6, [])
    with pytest.raises(InvalidParameterError, match="--id needs a file with named columns"):
        read_rows(f"{tmp_path}/*.npy", id_column="id")
    np.save(tmp_path / "3.npy", np.zeros((2, 4)))
    with pytest.raises(InvalidDataError, match=r"3.npy has 4 features, but .*0.npy has 3"):
        read_table(tmp_path)
    write(tmp_path / "4.csv", a=[1])
    with pytest.raises(InvalidDataError, match=r"holds 0.npy, whose columns have no names, and 4.csv"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}/*.json", "holds no data; a file of rows ends in"),
        ("{}/empty", "holds neither rows .* nor pictures"),
        ("{}/gone/*.csv", "holds no data"),
        ("nonsense://rows", "cannot be opened"),
    ],
)
def test_what_holds_nothing_is_named(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    for read in (read_table, read_rows, column_names):
        with pytest.raises(InvalidDataError, match=message):
            read(source.format(tmp_path))


def test_a_folder_of_pictures_stays_one_until_it_holds_rows(folder: Path, tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "p.png")
    (tmp_path / "photos").mkdir()
    (tmp_path / "p.png").rename(tmp_path / "photos" / "p.png")
    assert is_picture_folder(tmp_path / "photos")
    assert read_table(tmp_path / "photos").ids.to_pylist() == ["p.png"]
    assert not is_picture_folder(folder)
    (tmp_path / "photos" / "p.png").rename(folder / "p.png")
    assert read_rows(folder).n_rows == 6


def test_pictures_lie_beside_the_file_that_names_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name / "rows.csv", picture=["p.png"])
    table = read_table(tmp_path, features=["picture"], mixed=True, text=["picture"], pictures=["picture"])
    assert table.X["picture"].to_pylist() == [str(tmp_path / name / "p.png") for name in ("one", "two")]


def test_vectors_are_features(tmp_path: Path) -> None:
    for place in range(2):
        vectors = pa.array([[1.0, place]], pa.list_(pa.float32(), 2))
        write(tmp_path / f"{place}.parquet", a=[place], v=vectors)
    table = read_table(tmp_path)
    assert table.names == ("a", "v[0]", "v[1]")
    assert table.X["v[1]"].to_pylist() == [0, 1]
    some = read_table(tmp_path, features=["v[1]", "a"])
    assert (some.names, some.X["v[1]"].to_pylist()) == (("v[1]", "a"), [0, 1])
    for absent in ("v[2]", "v"):
        with pytest.raises(
            InvalidDataError, match=rf"lacks 1 of the 2 columns .*: {re.escape(repr(absent))}"
        ):
            read_table(tmp_path, features=["v[0]", absent])
    write(tmp_path / "2.parquet", a=[2], v=pa.array([None], pa.list_(pa.float32(), 2)))
    with pytest.raises(
        InvalidDataError, match=rf"{tmp_path} cannot be used: column 'v' has no vector in row 2"
    ):
        read_table(tmp_path)


def test_categories_of_several_files_are_of_one_kind(tmp_path: Path) -> None:
    for place, word in enumerate("xy"):
        write(tmp_path / f"{place}.parquet", word=pa.array([word, "z"]).dictionary_encode())
    words = read_table(tmp_path, mixed=True).X["word"]
    assert words.take([0, 2]).to_pylist() == ["x", "y"]
    assert len({str(chunk.dictionary) for chunk in words.chunks}) == 1


def test_small_files_that_are_too_large_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in range(4):
        write(tmp_path / f"{place}.parquet", a=np.zeros(100_000))
    assert read_table(tmp_path).n_rows == 400_000
    monkeypatch.setattr("spherepair.files.untrusted.UNPACKED_BYTES", 2_000_000)
    with pytest.raises(InvalidDataError, match=rf"{re.escape(str(tmp_path))} has more than 2,000,000 bytes"):
        read_table(tmp_path)
    assert read_table(tmp_path / "0.parquet").n_rows == 100_000


def test_names_of_all_files_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_columns, "NAMED_COLUMNS", 2)
    with pytest.raises(InvalidDataError, match="has more than 2 columns"):
        read_table(folder)


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet"])
def test_many_files_are_read_from_elsewhere(elsewhere: str, folder: Path, ending: str) -> None:
    write(folder / f"b.{ending}", a=[3, 4], id=["003", "004"], b=[0.3, 0.4])
    if ending != "csv":
        (folder / "b.csv").unlink()
    table = read_table(f"{elsewhere}/rows", id_column="id")
    assert table.ids.to_pylist() == ["001", "002", "003", "004", "005", "006"]
    assert table.X.to_pydict() == {"a": [1, 2, 3, 4, 5.5, 6.5], "b": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    assert read_rows(f"{elsewhere}/rows/**/*.parquet").n_rows == 4 + 2 * (ending == "parquet")
    assert table.locate(5) == "line 2 of deep/c.parquet (id '006')"
    assert table.locate(2) == f"line {2 - (ending == 'parquet')} of b.{ending} (id '003')"
    with pytest.raises(
        InvalidDataError,
        match=r"s3://.*/rows/a.parquet is not on this machine, so the pictures that column 'b'",
    ):
        read_table(f"{elsewhere}/rows", id_column="id", mixed=True, pictures=["b"])
    (folder / "b.parquet").write_bytes(b"half a file")
    with pytest.raises(InvalidDataError, match=r"s3://.*/rows/b.parquet cannot be read as parquet"):
        read_table(f"{elsewhere}/rows")


@pytest.mark.parametrize("place", range(len(data_seeds())))
def test_every_kind_of_file_is_read_from_elsewhere(elsewhere: str, tmp_path: Path, place: int) -> None:
    ((name, content),) = data_seeds()[place].items()
    (tmp_path / name).write_bytes(content)
    here = read_table(tmp_path / name, mixed=True)
    there = read_table(f"{elsewhere}/{name}", mixed=True)
    assert (there.n_rows, there.names) == (here.n_rows, here.names)
    assert read_rows(f"{elsewhere}/{name}").n_rows == here.n_rows
    (batch,) = open_data_file(find_files(f"{elsewhere}/{name}")[0]).batches(Needs(mixed=True))
    if isinstance(here.X, pa.Table):
        assert there.X.equals(here.X)
        assert batch.X.equals(here.X)
        return
    assert type(there.X) is type(np.asarray(here.X) if isinstance(here.X, np.ndarray) else here.X)
    both = (table.X.toarray() if sparse.issparse(table.X) else table.X for table in (here, there))
    np.testing.assert_array_equal(*both)


def test_arrays_follow_each_other_from_elsewhere(elsewhere: str, tmp_path: Path) -> None:
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "a.npy", X.astype(np.int16))
    np.save(tmp_path / "b.npy", np.asfortranarray(X))
    for source in (f"{elsewhere}/*.npy", str(tmp_path)):
        read = read_table(source).X
        np.testing.assert_array_equal(read, np.concatenate([X, X]))
        assert read.dtype == np.float64
    np.save(tmp_path / "c.npy", X[:, :2])
    with pytest.raises(InvalidDataError, match=r"s3://.*/c.npy has 2 features, but s3://.*/a.npy has 3"):
        read_table(f"{elsewhere}/*.npy")


def test_a_file_elsewhere_may_not_unpack_to_too_much(
    elsewhere: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "z.parquet", id=["a text " * 200] * 5000, a=[1] * 5000, b=[1] * 5000)
    assert read_rows(f"{elsewhere}/rows", id_column="id").n_rows == 5006
    monkeypatch.setattr("spherepair.files.untrusted.UNPACKED_BYTES", 1_000_000)
    with pytest.raises(
        InvalidDataError, match=r"z.parquet has more than 1,000,000 bytes when it is unpacked"
    ):
        read_rows(f"{elsewhere}/rows", id_column="id")


@pytest.mark.parametrize(
    ("source", "out", "refused"),
    [
        ("{}", "{}/labels.csv", True),
        ("{}", "{}/deep/labels.parquet", True),
        ("{}/*.csv", "{}/labels.csv", True),
        ("{}/*.csv", "{}/labels.parquet", False),
        ("file://{}", "{}/labels.npy", True),
        ("{}", "{}/report.html", False),
        ("{}", "{}/../labels.csv", False),
        ("{}/b.csv", "{}/labels.csv", False),
        ("s3://bucket/rows", "{}/labels.csv", False),
    ],
)
def test_outputs_that_would_be_read_as_rows_are_refused(
    folder: Path, source: str, out: str, refused: bool
) -> None:
    path, given = Path(out.format(folder)), source.format(folder)
    if not refused:
        places.refuse_overwritten(path, given)
        return
    with pytest.raises(InvalidParameterError, match="would be read as rows the next time"):
        places.refuse_overwritten(path, given)


def test_an_output_that_is_an_input_is_refused(folder: Path) -> None:
    for source in (folder / "b.csv", f"file://{folder}/b.csv"):
        with pytest.raises(InvalidParameterError, match="is also an input"):
            places.refuse_overwritten(folder / "b.csv", source)

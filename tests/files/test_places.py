"""Files of a data set: folders, globs, several files and URIs, in the order of their rows."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spherepair.errors import InvalidDataError
from spherepair.files.places import (
    OutputFolder,
    find_files,
    find_place,
    find_reread,
    is_many,
    list_sources,
    local_path,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.parquet", "a.csv", "deep/c.npy", "notes.txt", ".hidden.csv", "_SUCCESS", "_tmp/x.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def names(source: object) -> list[str]:
    return [file.name for file in find_files(source)]


def test_a_folder_is_all_its_data_sorted_by_name(tree: Path) -> None:
    assert names(tree) == names(str(tree)) == ["a.csv", "b.parquet", "deep/c.npy"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.csv", ["a.csv"]),
        ("?.*", ["a.csv", "b.parquet"]),
        ("**/*.npy", ["deep/c.npy"]),
        ("**/*", ["a.csv", "b.parquet", "deep/c.npy"]),
        ("[ab].*", ["a.csv", "b.parquet"]),
        ("d*/*", ["deep/c.npy"]),
    ],
)
def test_globs(tree: Path, pattern: str, expected: list[str]) -> None:
    assert names(f"{tree}/{pattern}") == expected


def test_several_files_keep_their_order_and_have_names_from_where_they_part(tree: Path) -> None:
    assert names([tree / "deep/c.npy", tree / "a.csv"]) == ["deep/c.npy", "a.csv"]


def test_a_uri_is_left_to_the_file_systems_of_arrow(tree: Path) -> None:
    assert names(f"file://{tree}/*.csv") == ["a.csv"]
    filesystem, path = find_place("s3://bucket/rows/*.parquet?region=eu-west-1")
    assert (filesystem.type_name, filesystem.region, path) == ("s3", "eu-west-1", "bucket/rows/*.parquet")


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text("x")
    (tmp_path / "a1.csv").write_text("x")
    assert names(tmp_path / "a[1].csv") == ["a[1].csv"]
    assert not is_many(tmp_path / "a[1].csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}/none.csv", "does not exist"),
        ("{}/*.xyz", "holds no data; a file of rows ends in"),
        ("{}/empty", "holds no data"),
        ("nonsense://rows", "cannot be opened"),
    ],
)
def test_what_is_not_there_is_named(tree: Path, source: str, message: str) -> None:
    (tree / "empty").mkdir()
    with pytest.raises(InvalidDataError, match=message):
        find_files(source.format(tree))


def test_a_file_named_twice_is_refused(tree: Path) -> None:
    with pytest.raises(InvalidDataError, match="more than once"):
        find_files([tree / "a.csv", f"{tree}/*.csv"])


def test_a_file_named_twice_by_a_link_is_refused(tree: Path) -> None:
    (tree / "link.csv").symlink_to(tree / "a.csv")
    with pytest.raises(InvalidDataError, match="more than once"):
        find_files([tree / "a.csv", tree / "link.csv"])


def test_a_file_that_links_lead_to_again_is_there_once(tree: Path) -> None:
    (tree / "deep" / "loop").symlink_to("../deep")
    (tree / "deep" / "a-link.npy").symlink_to("c.npy")
    (tree / "above").symlink_to("deep")
    assert names(tree) == ["a.csv", "above/a-link.npy", "b.parquet"]
    assert names(tree / "deep") == ["a-link.npy"]
    assert names(f"{tree}/deep/*/c.npy") == ["loop/c.npy"]
    (tree / "deep" / "a-link.npy").unlink()
    (tree / "above").unlink()
    assert names(tree) == ["a.csv", "b.parquet", "deep/c.npy"]


@pytest.mark.parametrize("folder", ["names [1] x", "a*", "what?", "[", "**"])
def test_marks_in_the_name_of_a_folder_that_exists_are_no_wildcards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / folder / "in").mkdir(parents=True)
    for name in ("a.csv", "in/b.csv"):
        (tmp_path / folder / name).write_text("x")
    (tmp_path / "names 1 x").mkdir()
    (tmp_path / "names 1 x" / "c.csv").write_text("x")
    assert names(f"{tmp_path}/{folder}/*.csv") == ["a.csv"]
    assert names(f"{tmp_path}/{folder}/i[mn]/*.csv") == ["in/b.csv"]
    assert not is_many(f"{tmp_path}/{folder}/none.csv")
    monkeypatch.chdir(tmp_path / folder)
    assert names("*.csv") == ["a.csv"]
    assert find_reread("*.csv", OutputFolder("."), rename=str) == "a.csv"


def test_escapes_in_the_glob_of_a_uri_of_this_machine_are_read(tmp_path: Path) -> None:
    (tmp_path / "dir x").mkdir()
    (tmp_path / "dir x" / "p 1.csv").write_text("x")
    assert names(f"file://{tmp_path}/dir%20x/p%20*.csv") == ["p 1.csv"]
    assert names(f"file://{tmp_path}/d*/p%20[1].csv") == ["dir x/p 1.csv"]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a.csv": [1]}),
        np.zeros((2, 2)),
        np.array(3),
        {"a.csv": [1]},
    ],
)
def test_a_table_in_memory_is_no_data_set(table: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"^a table in memory has no parts; give it to predict of"):
        list_sources(table)


def test_a_dataframe_is_no_data_set() -> None:
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame({"a.csv": [1]})
        with pytest.raises(InvalidDataError, match="a table in memory has no parts"):
            list_sources(frame)


@pytest.mark.parametrize("source", [None, 3, 2.5, b"a.csv", ["a.csv", None], [["a.csv"]], object()])
def test_what_names_no_place_is_no_data_set(source: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"^a data set is a path, folder, glob or URI, or a list of"):
        list_sources(source)


def test_paths_of_any_kind_are_sources() -> None:
    assert list_sources(["a.csv", Path("b.csv")]) == ["a.csv", Path("b.csv")]
    assert list_sources(name for name in ("a.csv", "b.csv")) == ["a.csv", "b.csv"]
    assert list_sources(np.array(["a.csv"])) == ["a.csv"]


def test_a_stream_is_no_data_set() -> None:
    with pytest.raises(InvalidDataError, match="a stream of batches can be read only once"):
        find_files(pa.table({"a": [1]}).to_reader())


def test_size_and_time_are_known(tree: Path) -> None:
    file = find_files(tree / "a.csv")[0]
    assert file.n_bytes == 1
    assert file.modified == pytest.approx(os.stat(tree / "a.csv").st_mtime_ns, abs=1000)


@pytest.mark.parametrize("form", ["{}/out", "file://{}/out"])
def test_an_output_is_there_whole_or_not_at_all(tmp_path: Path, form: str) -> None:
    out = OutputFolder(form.format(tmp_path))
    with out.write("deep/a.txt") as stream:
        stream.write(b"all of it")
        assert out.names() == set()
    assert out.names() == {"deep/a.txt"}
    with pytest.raises(TypeError), out.write("b.txt") as stream:
        stream.write("no bytes")
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["a.txt"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("file:///data/a%20b/*.csv", "/data/a b/*.csv"),
        (Path("file:///data/rows"), "/data/rows"),  # of which pathlib makes file:/data/rows
        ("s3://bucket/rows", "s3://bucket/rows"),
        (Path("rows/a.csv"), "rows/a.csv"),
    ],
)
def test_uris_of_this_machine_are_paths(source: str | Path, expected: str) -> None:
    assert local_path(source) == expected


@pytest.mark.parametrize(
    ("source", "out", "expected"),
    [
        ("{}", "{}", "a.csv"),
        ("{}", "{}/labels", "a.csv"),
        ("{}/deep/..", "file://{}/deep/labels", "a.csv"),
        ("file://{}", "{}/labels", "a.csv"),
        ("{}/**/*.csv", "{}/labels", "a.csv"),
        ("{}/*/*.npy", "{}/deep", None),  # would be deep/deep/c.npy
        ("{}/*/*", "{}", "deep/c.npy"),
        ("{}/*.csv", "{}/labels", None),
        ("{}/*.csv", "{}", "a.csv"),
        ("{}", "{}/_labels", None),
        ("{}", "{}-labels", None),
        ("{}/a.csv", "{}/labels", None),
        ("{}/a.csv", "{}", "a.csv"),
        ("{}/a.csv", "{}/deep/..", "a.csv"),
        ("{}/a.csv", "{}/../link", "a.csv"),
        ("{}", "{}/../link/labels", "a.csv"),
        ("{}", "s3://bucket/labels?region=eu-west-1", None),
    ],
)
def test_outputs_that_would_be_read_as_rows_are_found(
    tmp_path: Path, tree: Path, source: str, out: str, expected: str | None
) -> None:
    (tmp_path.parent / "link").unlink(missing_ok=True)
    (tmp_path.parent / "link").symlink_to(tree)
    found = find_reread([source.format(tree)], OutputFolder(out.format(tree)), rename=str)
    assert found == expected


def test_an_output_in_place_of_one_of_several_files_is_found(tree: Path) -> None:
    assert find_reread([tree / "b.parquet", tree / "a.csv"], OutputFolder(str(tree)), rename=str)
    sources = [tree / "a.csv", tree / "deep/c.npy"]
    assert find_reread(sources, OutputFolder(f"{tree}/deep"), rename=str) is None
    (tree / "labels").mkdir()
    (tree / "labels/a.csv").symlink_to(tree / "a.csv")
    assert find_reread([tree / "a.csv"], OutputFolder(f"{tree}/labels"), rename=str) == "a.csv"


def test_an_output_is_found_wherever_one_of_several_sources_reads_it(tree: Path) -> None:
    sources = [tree / "a.csv", tree / "deep"]
    assert find_reread(sources, OutputFolder(f"{tree}/deep/labels"), rename=str) == "a.csv"
    assert find_reread(sources, OutputFolder(f"{tree}/labels"), rename=str) is None
    assert find_reread([f"{tree}/*.csv"], OutputFolder(str(tree)), rename=lambda name: f"{name}.new") is None

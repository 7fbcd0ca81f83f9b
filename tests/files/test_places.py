"""Files of a data set: folders, globs, several files and URIs, in the order of their rows."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from spherepair.errors import InvalidDataError
from spherepair.files.places import OutputFolder, find_files, find_place, find_reread, is_many, local_path


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


def test_an_output_is_found_wherever_one_of_several_sources_reads_it(tree: Path) -> None:
    sources = [tree / "a.csv", tree / "deep"]
    assert find_reread(sources, OutputFolder(f"{tree}/deep/labels"), rename=str) == "a.csv"
    assert find_reread(sources, OutputFolder(f"{tree}/labels"), rename=str) is None
    assert find_reread([f"{tree}/*.csv"], OutputFolder(str(tree)), rename=lambda name: f"{name}.new") is None

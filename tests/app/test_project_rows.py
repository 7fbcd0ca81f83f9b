from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from spherepair.app import project_rows
from spherepair.app.project_rows import Layout, Rows, Source, read_source, store_rows, suggest_layout
from spherepair.app.projects import Projects
from spherepair.cli.label_command import _project as open_project
from spherepair.errors import InvalidDataError


def png(level: int = 0, side: int = 4) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (side, side), level).save(stream, "PNG")
    return stream.getvalue()


def stored(folder: Path, table: dict, **columns) -> Rows:
    source = Source(pa.table(table))
    layout = suggest_layout(source, **columns)
    store_rows(folder, source, layout)
    return Rows(folder, layout)


def test_longest_texts_and_id_are_found(tmp_path):
    (tmp_path / "rows.csv").write_text(
        "id,topic,message\n007,a,my card was stolen today\n008,b,how do I get a loan\n"
    )
    layout = suggest_layout(read_source(tmp_path / "rows.csv"))
    assert layout == Layout("text", text="message", id="id")


def test_ids_keep_their_zeros(tmp_path):
    (tmp_path / "rows.csv").write_text("id,message\n007,my card was stolen today\n")
    source = read_source(tmp_path / "rows.csv")
    assert source.table["id"].to_pylist() == ["007"]


def test_json_lines_and_parquet_are_read(tmp_path):
    lines = [{"message": f"a message of some length {n}", "n": n} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pq.write_table(pa.Table.from_pylist(lines), tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        assert read_source(tmp_path / name).table.num_rows == 3


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_more_rows_than_a_page_can_show_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(project_rows, "MOST_ROWS", 3)
    table = pa.table({"message": ["where is my parcel?"] * 4})
    write = pq.write_table if name.endswith("parquet") else pa_csv.write_csv
    write(table, tmp_path / name)
    with pytest.raises(InvalidDataError, match=r"has more than 3 rows \(label a sample"):
        read_source(tmp_path / name)
    monkeypatch.setenv("SPHEREPAIR_LIMITS", "2")
    assert read_source(tmp_path / name).table.num_rows == 4


def test_a_file_says_its_rows_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(project_rows, "MOST_ROWS", 3)
    monkeypatch.setattr("spherepair.files.columns.read_parquet", None)  # not read at all
    pq.write_table(pa.table({"message": ["where is my parcel?"] * 4}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidDataError, match="more than 3 rows"):
        read_source(tmp_path / "rows.parquet")


def test_long_texts_are_cut_on_cards_and_whole_on_demand(tmp_path):
    rows = stored(tmp_path, {"message": ["x" * 10_000_000, "a short one"]}, text="message")
    item = rows.item(0, url="/i")
    assert len(item["text"]) == 2000
    assert item["cut"] is True
    assert len(rows.item(0, url="/i", whole=True)["text"]) == 200_000
    assert rows.item(1, url="/i")["cut"] is False


def test_a_csv_with_a_text_of_ten_megabytes_is_read(tmp_path):
    (tmp_path / "rows.csv").write_text("id,message\n1," + "word " * 2_000_000 + "\n2,short but long enough\n")
    assert read_source(tmp_path / "rows.csv").table.num_rows == 2


def test_search_ignores_case_and_stops_at_the_limit(tmp_path):
    rows = stored(tmp_path, {"message": ["Card STOLEN", "loan", None, "stolen card"] * 5}, text="message")
    assert rows.search("stolen", 3) == [0, 3, 4]
    assert rows.search("(", 3) == []


def test_values_are_shown_as_people_write_them(tmp_path):
    rows = stored(tmp_path, {"id": [12345678.0, 2.0], "x": [0.25, 1e-9], "when": [None, None]})
    assert rows.item(0, url="")["id"] == "12345678"
    assert rows.item(0, url="")["fields"] == [("x", "0.25"), ("when", "")]


def test_pictures_of_a_zip_become_rows(tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("b/../../evil.png", png(10))
        archive.writestr("a.png", png(20))
        archive.writestr("notes.txt", "no picture")
    source = read_source(tmp_path / "p.zip", trusted=False)
    layout = suggest_layout(source)
    folder = tmp_path / "project"
    folder.mkdir()
    store_rows(folder, source, layout)
    rows = Rows(folder, layout)
    assert rows.picture(1) == png(20)
    assert rows.item(0, url="/i")["image"] == "/i/0"
    assert not (tmp_path.parent / "evil.png").exists()


def test_what_is_no_picture_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a.png", png())
        archive.writestr("b.png", "<svg onload=alert(1)>")
    source = read_source(tmp_path / "p.zip", trusted=False)
    with pytest.raises(InvalidDataError, match="picture of row 1"):
        store_rows(tmp_path, source, suggest_layout(source))


def test_a_path_in_an_upload_is_never_opened(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "rows.csv").write_text("picture\na.png\n")
    layout = Layout("image", images="picture")
    with pytest.raises(InvalidDataError, match="command line only"):
        store_rows(tmp_path, read_source(tmp_path / "rows.csv", trusted=False), layout)
    store_rows(tmp_path, read_source(tmp_path / "rows.csv"), layout)
    assert Rows(tmp_path, layout).picture(0) == png()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"", "empty"),
        ("rows.csv", b"a,a\n1,2\n", "more than once"),
        ("rows.csv", b"message\n", "no rows"),
        ("rows.parquet", b"PAR1 nonsense", "parquet"),
        ("rows.zip", b"PK nonsense", "zip"),
        ("rows.exe", b"MZ", "unknown kind"),
        ("rows.jsonl", b'{"a": "\\ud800"}\n', "json lines"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidDataError, match=message):
        read_source(tmp_path / name)


@pytest.mark.parametrize("form", ["{}", "{}/*", "file://{}", "{elsewhere}/rows"])
def test_many_files_are_rows_of_one_project(tmp_path, form, elsewhere):
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "b.csv").write_text("message,id\nwhere is my parcel?,003\n")
    pq.write_table(pa.table({"id": ["001", "002"], "message": ["a loan, please", "my card"]}), rows / "a.pq")
    source = form.format(rows, elsewhere=elsewhere)
    table = read_source(source).table
    assert table["id"].to_pylist() == ["001", "002", "003"]
    home = Projects(tmp_path / "home")
    asked = {"text": "message", "images": None, "id_column": "id", "demo": False}
    project = open_project(home, source, **asked)
    assert open_project(home, source, **asked) == project
    assert [(one.name, one.n_rows) for one in home.list()] == [("rows", 3)]
    (rows / "c.csv").write_text("message,id\nanother one,004\n")
    assert open_project(home, source, **asked) != project
    with pytest.raises(InvalidDataError, match=r"does not exist|holds no pictures|is a folder"):
        read_source(rows, trusted=False)


def test_pictures_lie_beside_the_files_that_name_them(tmp_path):
    for level, name in enumerate(("one", "two")):
        (tmp_path / "rows" / name).mkdir(parents=True)
        (tmp_path / "rows" / name / "p.png").write_bytes(png(level))
        (tmp_path / "rows" / name / "rows.csv").write_text("picture\np.png\n")
    source = read_source(tmp_path / "rows")
    layout = suggest_layout(source, images="picture")
    (tmp_path / "project").mkdir()
    store_rows(tmp_path / "project", source, layout)
    stored = Rows(tmp_path / "project", layout)
    assert [bytes(stored.picture(row)) for row in range(2)] == [png(0), png(1)]

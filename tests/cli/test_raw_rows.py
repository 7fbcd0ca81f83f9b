"""Texts, pictures and mixed tables on the command line, from fit to predict, report and ask."""

from __future__ import annotations

import csv
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spherepair import Constraints, SpherePair, load
from spherepair.cli.raw_rows import ColumnChoice
from spherepair.encoders import TextEncoder
from spherepair.errors import InvalidParameterError

CARD = ("my card was stolen", "the card is lost", "somebody took my card", "block this card now")
LOAN = ("how do I get a loan", "what is the rate of a loan", "loan for a new house", "can I pay the loan")
N_ROWS = 80


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SPHEREPAIR_DATA", str(tmp_path / "cache"))


@pytest.fixture
def y() -> Any:
    return np.arange(N_ROWS) % 2


def write(path: Path, rows: list[list[Any]], separator: str = ",") -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=separator).writerows(rows)
    return path


def write_workbook(path: Path, rows: list[list[Any]]) -> None:
    """The smallest workbook that programs read: one sheet of texts."""
    cells = ("".join(f'<c t="inlineStr"><is><t>{value}</t></is></c>' for value in row) for row in rows)
    lines = "".join(f'<row r="{place}">{line}</row>' for place, line in enumerate(cells, start=1))
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    links = f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'{links}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="rows" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{links}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def write_pairs(path: Path, names: list[str], y: Any) -> Path:
    Constraints.from_labels(y, n_pairs=300, random_state=0).write(path, ids=names)
    return path


@pytest.fixture
def messages(tmp_path: Path, y: Any) -> Path:
    rng = np.random.default_rng(0)
    rows = [[f"m{k}", f"{(CARD, LOAN)[y[k]][rng.integers(4)]} number {k}", "web"] for k in range(N_ROWS)]
    write_pairs(tmp_path / "pairs.csv", [row[0] for row in rows], y)
    return write(tmp_path / "messages.csv", [["key", "message", "channel"], *rows])


@pytest.fixture
def customers(tmp_path: Path, y: Any) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    rows: list[list[Any]] = [["key", "age", "income", "city", "zip", "since", "nothing"]]
    for k in range(N_ROWS):
        income = f"{rng.lognormal(10, 2):.2f}".replace(".", ",")
        day = f"2020-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}"
        city = ("Oslo", "Rome")[y[k]]
        rows.append([f"c{k}", "" if k == 5 else rng.integers(18, 80), income, city, 10000 + k % 7, day, ""])
    write_pairs(tmp_path / "pairs.csv", [row[0] for row in rows[1:]], y)
    return rows


def share_right(path: Path, y: Any) -> float:
    found = np.array([int(row["label"]) for row in csv.DictReader(path.read_text().splitlines())])
    return float(max((found == y).mean(), (found != y).mean()))


def test_texts_from_fit_to_predict_without_options(call, brief, messages, tmp_path, y) -> None:
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    given = ("--text", "message", "--id", "key", "-c", tmp_path / "pairs.csv", "-k", 2)
    done = call("fit", messages, *given, "-o", model, *brief)
    assert done.code == 0, done.err
    assert "message  text, " in done.err
    assert "channel" not in done.err
    assert call("predict", model, messages, "--id", "key", "-o", labels).code == 0
    assert share_right(labels, y) > 0.9
    new = write(tmp_path / "new.csv", [["other", "message"], [1, "where is my card"], [2, "a loan please"]])
    assert call("predict", model, new, "-o", labels).code == 0
    assert [row["row"] for row in csv.DictReader(labels.read_text().splitlines())] == ["0", "1"]


def test_a_report_shows_the_texts_and_their_words(call, brief, messages, tmp_path) -> None:
    given = ("--text", "message", "--id", "key", "-c", tmp_path / "pairs.csv", "-k", 2)
    call("fit", messages, *given, "-o", tmp_path / "model", *brief)
    page = tmp_path / "report.html"
    done = call("report", tmp_path / "model", "--data", messages, "--id", "key", "-o", page, "--json")
    assert done.json["shown_as"] == "text"
    assert done.json["n_pairs"] == len(
        Constraints.read(tmp_path / "pairs.csv", ids=[f"m{k}" for k in range(80)])
    )
    text = page.read_text()
    assert "the card is lost" in text
    assert "▲ card<" in text
    assert "message_" not in text


def test_a_messy_table_as_it_is(call, brief, customers, tmp_path, y) -> None:
    pytest.importorskip("skrub")
    data = write(tmp_path / "customers.csv", customers, ";")
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    given = ("--id", "key", "-c", tmp_path / "pairs.csv", "-k", 2, "--as", "category:zip")
    done = call("fit", data, *given, "-o", model, *brief)
    assert done.code == 0, done.err
    for line in (
        "age      number, 1 missing",
        "income   number",
        "city     category of 2 values",
        "zip      category of 7 values",
        "since    date",
        "nothing  left out: it is empty",
    ):
        assert line in done.err
    assert call("predict", model, data, "--id", "key", "-o", labels).code == 0
    assert share_right(labels, y) > 0.8
    again = call("refine", model, data, "--id", "key", "-c", tmp_path / "pairs.csv", "-o", model)
    assert "already knows all pairs" in again.err
    page = tmp_path / "report.html"
    assert call("report", model, "--data", data, "--id", "key", "-o", page).code == 0
    assert "city: Rome" in page.read_text()


def test_refine_keeps_the_encoder(call, brief, messages, tmp_path, y) -> None:
    given = ("--text", "message", "--id", "key")
    model, more = tmp_path / "model", tmp_path / "more.csv"
    call("fit", messages, *given, "-c", tmp_path / "pairs.csv", "-k", 2, "-o", model, *brief)
    Constraints.from_labels(y, n_pairs=20, random_state=5).write(more, ids=[f"m{k}" for k in range(N_ROWS)])
    done = call("refine", model, messages, "--id", "key", "-c", more, "-o", model)
    assert done.code == 0, done.err
    assert load(model).encoder_.used_columns() == ["message"]


def test_lines_and_ids_of_wrong_values_are_named(call, brief, customers, tmp_path) -> None:
    pytest.importorskip("skrub")
    customers[41][1], customers[51][1], customers[41][2] = "forty", "fifty", "much"
    data = write(tmp_path / "customers.csv", customers, ";")
    done = call("fit", data, "--id", "key", "-o", tmp_path / "model", *brief)
    assert done.code == 2
    assert "column 'age': 2 of 79 values are no numbers, the first 'forty' in line 42 (id 'c40')" in done.err
    assert "column 'income': 1 of 80 values are no numbers, the first 'much' in line 42" in done.err
    assert "--as number:age, or leave the column out with --drop age." in done.err
    done = call(
        "fit",
        data,
        "--id",
        "key",
        "-o",
        tmp_path / "model",
        *brief,
        "--as",
        "number:age",
        "--drop",
        "income,zip",
    )
    assert done.code == 0, done.err
    assert "age      number, 3 missing" in done.err
    assert "income" not in done.err


def test_an_empty_text_is_named_with_its_line_or_kept(call, brief, messages, tmp_path) -> None:
    with messages.open("a") as stream:
        stream.write("m80,,web\n")
    given = ("fit", messages, "--text", "message", "--id", "key", "-o", tmp_path / "model", *brief)
    done = call(*given)
    assert done.code == 2
    assert "column 'message': 1 of 81 texts are empty" in done.err
    assert "Row 80 is line 82 (id 'm80')." in done.err
    assert "--keep-empty" in done.err
    assert call(*given, "--keep-empty").code == 0


def test_a_folder_of_pictures(call, brief, tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng, folder = np.random.default_rng(0), tmp_path / "photos"
    for name, channel in (("blue", 2), ("red", 0)):
        (folder / name).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 60, size=(30, 40, 3), dtype=np.uint8)
            pixels[..., channel] += 180
            image.fromarray(pixels).save(folder / name / f"{number}.png")
    names = [f"{color}/{number}.png" for color in ("blue", "red") for number in range(8)]
    y = np.repeat([0, 1], 8)
    Constraints.from_labels(y, n_pairs=40, random_state=0).write(tmp_path / "pairs.csv", ids=names)
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    done = call("fit", folder, "--images", ".", "-c", tmp_path / "pairs.csv", "-k", 2, "-o", model, *brief)
    assert done.code == 0, done.err
    assert "file  image, " in done.err
    assert call("predict", model, folder, "-o", labels).code == 0
    assert [row["file"] for row in csv.DictReader(labels.read_text().splitlines())] == names
    assert call("check", tmp_path / "pairs.csv", "--data", folder, "--json").json["n_rows"] == 16
    done = call("report", model, "--data", folder, "-o", tmp_path / "report.html", "--json")
    assert done.json["shown_as"] == "image"
    listed = write(
        tmp_path / "list.csv", [["who", "picture"], *([k, f"photos/{n}"] for k, n in enumerate(names))]
    )
    done = call("fit", listed, "--images", "picture", "-k", 2, "-o", tmp_path / "second", *brief)
    assert done.code == 0, done.err
    (folder / "red" / "3.png").write_bytes(b"no picture")
    done = call("fit", listed, "--images", "picture", "-k", 2, "-o", tmp_path / "second", *brief)
    assert "Row 11 is line 13." in done.err


def test_rows_in_a_folder_of_pictures_are_named(call, brief, example, tmp_path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"picture")
    write(tmp_path / "photos" / "notes.csv", [["a"], [1]])
    folder = tmp_path / "photos"
    for command in (
        ("fit", folder, "--images", ".", "-o", tmp_path / "model"),
        ("ask", folder, "--images", ".", "-o", tmp_path / "record.jsonl"),
        ("predict", example.model, folder, "-o", tmp_path / "labels.csv"),
    ):
        done = call(*command)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "photos holds pictures, but also rows ('notes.csv'), and only these would be read" in done.err


def test_a_workbook(call, brief, customers, tmp_path) -> None:
    pytest.importorskip("python_calamine")
    pytest.importorskip("skrub")
    write_workbook(tmp_path / "customers.xlsx", customers)
    done = call("fit", tmp_path / "customers.xlsx", "--id", "key", "-o", tmp_path / "model", *brief)
    assert done.code == 0, done.err
    assert "city     category of 2 values" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "mesage"), "has no column 'mesage'; it has 'key', 'message', 'channel'"),
        (("--as", "colour:channel"), "such as 'category:zip'"),
        (("--drop", "a,b"), "has no column 'a', 'b'"),
        (("--images", "channel"), "none of the pictures in column 'channel' is there"),
    ],
)
def test_wrong_names_are_told(call, brief, messages, tmp_path, options, message) -> None:
    done = call("fit", messages, *options, "-o", tmp_path / "model", *brief)
    assert done.code == 2
    assert message in done.err


def test_an_array_has_no_columns_to_name(call, brief, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", np.eye(30))
    done = call("fit", tmp_path / "rows.npy", "--text", "message", "-o", tmp_path / "model", *brief)
    assert "--text, --images and --as need a file with named columns" in done.err


def test_ask_about_texts_ends_in_a_model_of_texts(call, messages, tmp_path) -> None:
    program = tmp_path / "person.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    q = json.loads(line)\n"
        "    kind = lambda e: 'card' in e['text']\n"
        "    same = [e['row'] for e in q.get('exemplars', []) if kind(e) == kind(q['item'])]\n"
        "    print(json.dumps({'number': q['number'], 'answer': same[0] if same else 'none'}), flush=True)\n"
    )
    record, model = tmp_path / "answers.jsonl", tmp_path / "model"
    small = ("--hidden-dims", "16", "--max-epochs", "5", "--pretraining", "none", "--answers", "6")
    done = call(
        *("ask", messages, "--text", "message", "--id", "key", "-o", record, "--model", model, *small),
        *("--answerer", f"{sys.executable} {program}", "--json"),
    )
    assert done.code == 0, done.err
    assert load(model).encoder_.used_columns() == ["message"]
    assert call("predict", model, messages, "-o", tmp_path / "labels.csv").code == 0


def test_a_model_of_texts_fitted_in_python_predicts_a_file(call, messages, tmp_path, y) -> None:
    rows = list(csv.DictReader(messages.read_text().splitlines()))
    pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    encoder = TextEncoder("tfidf")
    model = SpherePair(2, encoder=encoder, hidden_dims=(8,), pretraining=None, max_epochs=2, random_state=0)
    model.fit([row["message"] for row in rows], constraints=pairs).save(tmp_path / "model")
    labels = tmp_path / "labels.csv"
    given = ("predict", tmp_path / "model", messages, "--id", "key", "-o", labels)
    assert "a TextEncoder takes one" in call(*given).err
    assert call(*given, "--drop", "channel").code == 0
    found = [int(row["label"]) for row in csv.DictReader(labels.read_text().splitlines())]
    assert found == model.labels_.tolist()


def test_the_choice_gives_its_options_again() -> None:
    choice = ColumnChoice.of(text=["a"], as_=["category:b"], drop=["c,d"], keep_empty=True)
    assert choice.as_options() == ["--as", "category:b", "--text", "a", "--drop", "c,d", "--keep-empty"]
    with pytest.raises(InvalidParameterError):
        ColumnChoice.of(as_=["b"])


def test_texts_of_many_files_are_asked_about(call: Any, messages: Path, tmp_path: Path) -> None:
    lines = messages.read_text().splitlines()
    (tmp_path / "parts").mkdir()
    for place in range(2):
        text = "\n".join([lines[0], *lines[1 + 40 * place :][:40]])
        (tmp_path / "parts" / f"{place}.csv").write_text(text + "\n")
    asked = ("ask", tmp_path / "parts", "--text", "message", "--id", "key", "-o", tmp_path / "a.jsonl")
    answer = "import json, sys\nfor line in sys.stdin: print(json.dumps({'answer': 'skip'}), flush=True)\n"
    (tmp_path / "skip.py").write_text(answer)
    done = call(*asked, "--answerer", f"{sys.executable} {tmp_path / 'skip.py'}", "--answers", 2, "--json")
    assert done.code == 0, done.err
    assert done.json["answers"] == 2
    done = call("ask", tmp_path / "parts", "--text", "note", "-o", tmp_path / "b.jsonl")
    assert done.code == 2
    assert "has no column 'note'; it has 'key', 'message', 'channel'" in done.err

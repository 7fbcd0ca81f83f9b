"""IDs that a spreadsheet would take for formulas: as they are, to join back, or escaped on request."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

IDS = ["=cmd|' /C calc'!A0", "+1", "@x", "-1+1", "\t=1", 'a "b", c', "plain", *(f"r{n}" for n in range(17))]
ESCAPED = [f"'{one}" for one in IDS[:5]] + IDS[5:]
BRIEF = ("--hidden-dims", "4", "--max-epochs", "1", "--pretraining", "none", "-q")
ANSWERER = 'import sys\nfor line in sys.stdin: print(\'{"answer": "unsure"}\', flush=True)'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formulas")
    X = np.random.default_rng(0).normal(size=(24, 3)) + 5 * (np.arange(24) % 3)[:, None]
    table = pa.table({"=id": IDS, **{f"f{place}": X[:, place] for place in range(3)}})
    pq.write_table(
        table.cast(table.schema.set(0, pa.field("=id", pa.large_string()))), folder / "rows.parquet"
    )
    for name, rows in (("pairs.csv", [(0, 3), (1, 4), (2, 5)]), ("more.csv", [(3, 6)])):
        with (folder / name).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(("left", "right", "link", "by"))
            writer.writerows((IDS[left], IDS[right], "must", "=ann") for left, right in rows)
            if name == "pairs.csv":
                writer.writerow((IDS[0], IDS[3], "cannot", "=ann"))
    return folder


def first_column(path: Path) -> list[str]:
    with path.open(newline="") as stream:
        return [row[0] for row in csv.reader(stream)]


@pytest.mark.parametrize("is_asked", [False, True])
def test_ids_are_escaped_in_every_csv_on_request_only(
    call: Any, files: Path, tmp_path: Path, is_asked
) -> None:
    asked = ["--escape-formulas"] if is_asked else []
    rows, pairs, model = files / "rows.parquet", files / "pairs.csv", tmp_path / "model"
    out = [tmp_path / f"{name}.csv" for name in ("fitted", "refined", "predicted", "suspects")]
    commands: list[list[Any]] = [
        ["fit", rows, "-c", pairs, "-o", model, "-k", 3, "--labels-out", out[0], *BRIEF],
        ["refine", model, rows, "-c", files / "more.csv", "-o", tmp_path / "m", "--labels-out", out[1], "-q"],
        ["predict", model, rows, "-o", out[2], "-q"],
    ]
    for command in commands:
        ended = call(*command, "--id", "=id", *asked)
        assert ended.code == 0, ended.err
    ended = call(
        "check", pairs, "--data", rows, "--id", "=id", "--model", model, "--suspects", out[3], "-q", *asked
    )
    assert ended.code == 3, ended.err
    for path in out[:3]:
        assert first_column(path) == ["'=id", *ESCAPED] if is_asked else ["=id", *IDS]
    with out[3].open(newline="") as stream:
        suspects = list(csv.DictReader(stream))
    assert {row["by"] for row in suspects} == {"'=ann" if is_asked else "=ann"}
    assert ("'-1+1" if is_asked else "-1+1") in {row["right"] for row in suspects}


def test_labels_of_an_interview_are_escaped_too(call: Any, files: Path, tmp_path: Path) -> None:
    labels, known = tmp_path / "labels.csv", ["-c", files / "pairs.csv", "--answers", 1]
    program = tmp_path / "answerer.py"
    program.write_text(ANSWERER)
    answerer = ["--answerer", f"{sys.executable} {program}"]
    ended = call(
        *("ask", files / "rows.parquet", "--id", "=id", "-o", tmp_path / "record.jsonl", *known, *answerer),
        *("--labels", labels, "--escape-formulas", *BRIEF),
    )
    assert ended.code == 0, ended.err
    assert first_column(labels) == ["'=id", *ESCAPED]

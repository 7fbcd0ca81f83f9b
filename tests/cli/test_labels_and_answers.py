"""Labels of some rows and records of interviews wherever a command takes pairs."""

from __future__ import annotations

import json

import pytest

from spherepair import Constraints, load


@pytest.fixture
def labels(example, tmp_path):
    """Labels of every second row, by ID; the other rows have a blank label."""
    path = tmp_path / "labels.csv"
    lines = [
        f"{name},{'abc'[y] if k % 2 else ''}"
        for k, (name, y) in enumerate(zip(example.ids, example.y, strict=True))
    ]
    path.write_text("\n".join(["name,label", *lines]))
    return path


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.jsonl"
    events = [
        {"format": "spherepair answers", "version": 1, "rows": "x"},
        {"event": "answer", "number": 0, "links": [[0, 1, 1], [2, 3, 0]], "by": "ann", "time": "2026-03-31"},
        {"event": "answer", "number": 1, "links": [[4, 5, 1]], "by": "ann", "time": "2026-03-31"},
        {"event": "undo", "number": 1},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_fit_takes_labels_of_some_rows(call, example, labels, tiny, tmp_path):
    ended = call(
        "fit",
        example.rows,
        "-c",
        labels,
        "--id",
        "name",
        "-o",
        tmp_path / "model",
        *tiny,
        "--clusters",
        3,
        "--json",
    )
    assert ended.code == 0, ended.err
    groups = [str(y) if k % 2 else None for k, y in enumerate(example.y)]
    assert load(tmp_path / "model").constraints_ == Constraints.from_groups(groups, random_state=0)


def test_check_summarizes_labels(call, example, labels):
    ended = call("check", labels, "--data", example.rows, "--id", "name", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["n_rows_covered"] == 60
    assert ended.json["coverage"] == 0.5
    assert ended.json["is_consistent"]


def test_two_labels_of_one_row_end_with_one_sentence(call, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("row,label\n0,a\n0,b\n")
    ended = call("check", path)
    assert ended.code == 2
    assert "labels.csv row 3 gives row 0 the label 'b', but labels.csv row 2 gives it 'a'" in ended.err
    assert "Traceback" not in ended.err


def test_check_names_columns_that_are_not_used_and_counts_pairs_without_an_answer(call, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,link,who,mood\n0,1,ml,ann,\n1,2,skip,bob,\n1,3,unsure,bob,\n")
    ended = call("check", path, "--json")
    assert ended.code == 0
    assert ended.json["n_pairs"] == 2
    assert [ended.json[f"n_{kind}"] for kind in ("must_link", "cannot_link", "unsure")] == [1, 0, 1]
    said = " ".join(ended.json["warnings"])
    assert "column 'mood' is not used" in said
    assert "1 of 3 pairs left out" in said


def test_fit_and_check_take_a_record_and_the_model_keeps_who_said_so(call, example, answers, brief, tmp_path):
    assert call("check", answers, "--data", example.array, "--json").json["n_pairs"] == 2
    ended = call(
        "fit", example.rows, "-c", answers, "--id", "name", "-o", tmp_path / "model", *brief, "--clusters", 3
    )
    assert ended.code == 0, ended.err
    pairs = load(tmp_path / "model").constraints_
    assert pairs.by.tolist() == ["ann", "ann"]
    assert pairs.time.tolist() == ["2026-03-31", "2026-03-31"]


def test_damaged_record_ends_with_one_sentence(call, answers):
    answers.write_text(answers.read_text().replace('"number": 1}', '"number": 9}'))
    ended = call("check", answers)
    assert ended.code == 2
    assert "answers.jsonl line 4 is not part of a record of answers" in ended.err

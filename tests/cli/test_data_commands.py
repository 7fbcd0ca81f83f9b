"""``spherepair check``: counts, coverage and contradictions with their proofs; ``spherepair datasets``."""

from __future__ import annotations

import pytest


@pytest.fixture
def contradictory(tmp_path):
    """Two cannot-links inside one chain of must-links, and one pair given twice."""
    path = tmp_path / "pairs.csv"
    path.write_text(
        "left,right,link\nrow-000,row-001,must\nrow-001,row-002,must\nrow-000,row-002,cannot\n"
        "row-001,row-000,cannot\nrow-005,row-006,cannot\nrow-006,row-005,cannot\n"
    )
    return path


def test_consistent_pairs_are_counted(call, example):
    done = call("check", example.pairs, "--data", example.rows, "--id", "name", "--json")
    assert done.code == 0
    result = done.json
    assert (result["n_pairs"], result["n_rows"], result["is_consistent"]) == (300, 120, True)
    assert result["n_must_link"] + result["n_cannot_link"] == 300
    assert result["coverage"] == result["n_rows_covered"] / 120
    assert result["n_entailed_cannot_link"] > 0
    assert result["conflicts"] == []


def test_coverage_is_said_only_where_the_rows_are_known(call, example):
    assert "coverage" not in call("check", example.numbered_pairs).out
    assert (
        "% of 120 rows are in at least one pair"
        in call("check", example.numbered_pairs, "--data", example.array).out
    )


def test_contradictions_are_named_by_id_with_chain_and_file_rows(call, example, contradictory):
    done = call("check", contradictory, "--data", example.rows, "--id", "name")
    assert done.code == 3
    assert "2 contradictions:" in done.out
    assert "cannot-link (row-000, row-002) at row 4" in done.out
    assert "must-links row-000 - row-001 - row-002 (rows 2, 3)" in done.out
    assert "1 repeated, kept once" in done.out


def test_list_of_contradictions_is_limited_and_the_total_is_not(call, example, contradictory):
    options = ("--data", example.rows, "--id", "name", "--limit", 1)
    done = call("check", contradictory, *options, "--json")
    assert done.code == 3
    assert (done.json["n_conflicts"], len(done.json["conflicts"])) == (2, 1)
    assert done.json["conflicts"][0]["chain_ids"] == ["row-000", "row-001", "row-002"]
    assert done.json["conflicts"][0]["chain_rows"] == [2, 3]
    assert "and 1 more" in call("check", contradictory, *options).out


def test_columns_that_are_no_numbers_do_not_matter_here(call, example, tmp_path):
    (tmp_path / "rows.csv").write_text("note,id\nx,a\ny,b\nz,c\n")
    (tmp_path / "pairs.csv").write_text("left,right,link\na,c,must\n")
    done = call("check", tmp_path / "pairs.csv", "--data", tmp_path / "rows.csv", "--id", "id", "--json")
    assert (done.code, done.json["n_rows"]) == (0, 3)


def test_id_needs_data(call, example):
    done = call("check", example.pairs, "--id", "name")
    assert done.code == 2
    assert "--data" in done.err


def test_datasets_are_listed_for_people_and_machines(call):
    assert "scikit-learn" in call("datasets").out
    found = call("datasets", "--json").json["datasets"]
    digits = next(entry for entry in found if entry["name"] == "digits")
    assert (digits["rows"], digits["available"]) == (1797, True)
    assert all(entry["how_to_get"] for entry in found)


def test_answers_that_a_model_holds_for_wrong_are_listed_and_written(call, example, tmp_path):
    lines = example.numbered_pairs.read_text().splitlines()
    words = {"must-link": "cannot-link", "cannot-link": "must-link"}
    for place in range(1, 60, 2):
        left, right, link, *rest = lines[place].replace('"', "").split(",")
        lines[place] = ",".join([left, right, words[link], *rest])
    pairs, again = tmp_path / "pairs.csv", tmp_path / "again.csv"
    pairs.write_text("\n".join(lines) + "\n")
    fit = (
        "fit",
        example.array,
        "-c",
        pairs,
        "-o",
        tmp_path / "model",
        "--hidden-dims",
        "16",
        "--max-epochs",
        "8",
    )
    fitted = call(*fit, "--clusters", "3", "--wrong-answers", "auto", "--json")
    assert fitted.json["wrong_answers"]["n_suspects"] > 15
    options = ("--data", example.array, "--model", tmp_path / "model", "--suspects", again)
    done = call("check", pairs, *options, "--json")
    found = [suspect["source_row"] for suspect in done.json["suspects"]]
    assert sum(row % 2 == 0 and row <= 60 for row in found) > 0.9 * len(found)  # the header is row 1
    violated = [suspect for suspect in done.json["suspects"] if suspect["probability"] is None]
    assert all(one["reason"].startswith("the clusters say") for one in violated)
    assert len(again.read_text().splitlines()) == 1 + len(found)
    shown = call("check", pairs, *options)
    assert f"{len(found)} answers to look at again:" in shown.out
    assert "the rows' neighbors" in shown.out


def test_a_file_of_suspects_needs_a_model(call, example, tmp_path):
    done = call("check", example.numbered_pairs, "--suspects", tmp_path / "again.csv")
    assert done.code == 2
    assert "--model" in done.err


def test_pairs_are_checked_against_many_files(call, example, many):
    asked = ("check", example.pairs, "--id", "name", "--json")
    done = call(*asked, "--data", many)
    assert done.code == 0, done.err
    assert done.json == call(*asked, "--data", example.rows).json


def test_suspects_are_not_written_where_they_would_be_read_as_rows(call, example, many, split_rows):
    suspects = split_rows / "part-4.csv"
    asked = ("check", example.pairs, "--data", many, "--id", "name", "--model", example.model)
    done = call(*asked, "--suspects", suspects)
    assert done.code == 2
    assert "would be read as rows the next time; choose another place" in done.err
    assert not suspects.exists()

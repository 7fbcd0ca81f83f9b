"""``spherepair refine``: more pairs on the rows of a model, checked before anything is changed."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from spherepair import Constraints, load
from spherepair.cli import refine as refine_command


@pytest.fixture
def more(example, tmp_path):
    """Sixty pairs, most of which the model has not seen."""
    pairs = Constraints.from_labels(example.y, 60, random_state=1)
    pairs.write(tmp_path / "more.csv", ids=example.ids)
    return pairs


@pytest.fixture
def refine(call, example, more, tmp_path):
    def run(*options, model=example.model, rows=example.rows, pairs="more.csv", out="new"):
        given = ("refine", model, rows, "-c", tmp_path / pairs, "--id", "name", "-o", tmp_path / out)
        return call(*given, *options)

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_goes_on_as_it_does_in_python(refine, example, more, tmp_path):
    done = refine("--labels-out", tmp_path / "l.csv", "--json")
    old, new = load(example.model), load(tmp_path / "new")
    fresh = more - old.constraints_
    assert done.json["n_new_pairs"] == len(fresh) > 0
    assert done.json["n_pairs"] == len(new.constraints_) == len(old.constraints_ | more)
    assert done.json["new_pairs_kept_before"] == old.score_pairs(fresh)
    assert done.json["new_pairs_kept"] == new.score_pairs(fresh)
    assert done.json["epochs"]["refining"] > 0
    columns = pa_csv.read_csv(example.rows).drop_columns(["name"])
    expected = old.refine(more, columns)
    np.testing.assert_array_equal(new.embedding_, expected.embedding_)
    np.testing.assert_array_equal(new.labels_, expected.labels_)
    written = pa_csv.read_csv(tmp_path / "l.csv")
    assert written["name"].to_pylist() == example.ids
    np.testing.assert_array_equal(written["label"].to_numpy(), new.labels_)
    # The progress bar of this run is no parameter of the model.
    assert json.loads((tmp_path / "new" / "model.json").read_text())["parameters"]["progress"] == "auto"


def test_text_says_what_became_of_the_new_pairs_and_where_the_model_is(refine, tmp_path):
    done = refine()
    assert done.code == 0
    assert "new pairs   100.0 % of" in done.out
    assert done.out.splitlines()[-1] == f"model       {tmp_path / 'new'}"
    assert " rows, 300 pairs and " in done.err


def test_the_new_model_may_take_the_place_of_the_old(refine, example, more, tmp_path):
    shutil.copytree(example.model, tmp_path / "model")
    assert refine(model=tmp_path / "model", out="model").code == 0
    assert len(load(tmp_path / "model").constraints_) > len(load(example.model).constraints_)


def test_pairs_that_are_known_already_are_refused(call, example, tmp_path):
    done = call(
        *("refine", example.model, example.rows, "-c", example.pairs, "--id", "name", "-o", tmp_path / "new"),
    )
    assert done.code == 2
    assert f"the model knows all pairs of {example.pairs}" in done.err


def test_a_column_that_may_name_the_rows_is_asked_about(call, example, more, tmp_path):
    more.write(tmp_path / "numbered.csv")
    given = ("refine", example.model, example.rows, "-c", tmp_path / "numbered.csv", "-o", tmp_path / "new")
    done = call(*given, "--json")
    assert done.code == 0
    assert ["give --id name" in warning for warning in done.json["warnings"]] == [True]


@pytest.fixture
def against(example, tmp_path):
    """A file whose second pair says the opposite of a must-link of the model."""
    known = load(example.model).constraints_
    left, right = (int(side[known.is_must_link][0]) for side in (known.left, known.right))
    pairs = [(0, 1, "must-link" if example.y[0] == example.y[1] else "cannot-link")]
    pairs.append((left, right, "cannot-link"))
    lines = [f"{example.ids[a]},{example.ids[b]},{link}\n" for a, b, link in pairs]
    (tmp_path / "against.csv").write_text("left,right,link\n" + "".join(lines))
    return example.ids[left], example.ids[right]


def test_a_contradiction_with_the_model_names_the_row_of_the_file_alone(refine, against, example, tmp_path):
    before = contents(example.model)
    shutil.copytree(example.model, tmp_path / "model")
    done = refine(model=tmp_path / "model", pairs="against.csv", out="model")
    assert done.code == 3
    left, right = against
    assert f"({left}, {right}) at row 3 of the pairs contradicts must-link {left} - {right}." in done.err
    assert f"Rows are those of {tmp_path / 'against.csv'}" in done.err
    assert contents(tmp_path / "model") == before


def test_contradictory_pairs_can_be_left_out(refine, against):
    done = refine("--on-conflict", "drop", "--json", pairs="against.csv")
    assert (done.code, done.json["n_dropped"]) == (0, 1)


def test_a_file_without_pairs_is_refused(refine, tmp_path):
    (tmp_path / "none.csv").write_text("left,right,link\n")
    done = refine(pairs="none.csv")
    assert done.code == 2
    assert "none.csv has no pairs" in done.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (slice(50), "X has 50 rows, but the model was fitted on 120"),
        (slice(None, None, -1), "of X is not the row"),
    ],
)
def test_other_rows_than_those_of_the_fit_are_refused_before_pairs_are_sought_in_them(
    refine, example, tmp_path, rows, says
):
    columns = {"name": example.ids[rows], **{f"f{place}": example.X[rows, place] for place in range(5)}}
    pa_csv.write_csv(pa.table(columns), tmp_path / "other.csv")
    done = refine(rows=tmp_path / "other.csv")
    assert done.code == 2
    assert says in done.err


def test_outputs_are_checked_before_the_work(refine, example, tmp_path, monkeypatch):
    monkeypatch.setattr(refine_command, "load", lambda *args, **options: pytest.fail("work has begun"))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.txt").write_text("mine")
    assert refine().code == 2
    assert refine("--labels-out", example.rows, out="other").code == 2
    assert refine("--labels-out", tmp_path / "other" / "l.csv", out="other").code == 2
    assert refine("--labels-out", example.model / "l.csv", out="other").code == 2


def test_an_interruption_after_the_model_was_written_says_so(refine, tmp_path, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(refine_command, "write_labels", interrupt)
    done = refine("--labels-out", tmp_path / "l.csv")
    assert (done.code, done.err.splitlines()[-1]) == (
        130,
        f"interrupted; {tmp_path / 'new'} had been written.",
    )
    assert load(tmp_path / "new")
    monkeypatch.setattr(refine_command, "load", interrupt)
    assert refine(out="other").err == "interrupted; nothing was written.\n"

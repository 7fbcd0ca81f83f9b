"""``spherepair fit``, ``refine`` and ``predict``: options reach the estimator, outputs are checked first."""

from __future__ import annotations

import json
import resource
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spherepair import Constraints, SpherePair, load
from spherepair.cli import model_commands
from spherepair.cli.model_commands import build_model
from spherepair.cli.options import Preset, Pretraining


def test_options_reach_the_saved_model(call, example, tmp_path):
    done = call(
        *("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "model", "-k", 3),
        *("--embedding-dim", 6, "--hidden-dims", "8,8", "--max-epochs", 3, "--clustering", "ward"),
        *("--pretraining", "none", "--seed", 5, "--device", "cpu", "-q"),
    )
    assert (done.code, done.out) == (0, "")
    model = load(tmp_path / "model")
    assert (model.n_clusters, model.embedding_dim, model.hidden_dims) == (3, 6, (8, 8))
    assert (model.max_epochs, model.clustering, model.pretraining) == (3, "ward", None)
    assert model.random_state == 5
    # The progress bar of this run is no parameter of the model.
    assert json.loads((tmp_path / "model" / "model.json").read_text())["parameters"]["progress"] == "auto"
    assert model.embedding_.shape == (120, 6)


def test_text_says_number_satisfied_pairs_and_where_the_model_is(array_fit, example):
    assert array_fit.code == 0
    number = load(example.array_model).cluster_number_
    assert array_fit.out.splitlines()[0] == f"clusters    {number.explanation}"
    assert "satisfied   100.0 % of 300 pairs" in array_fit.out
    assert f"model       {example.array_model}" in array_fit.out
    assert array_fit.err == "120 rows, 5 features, 300 pairs\n"


def test_labels_of_the_fitted_rows_can_be_written(call, example, brief, tmp_path):
    labels = tmp_path / "labels.parquet"
    done = call(
        *("fit", example.rows, "-c", example.pairs, "--id", "name", "-o", tmp_path / "m", *brief, "-k", 3),
        *("--labels-out", labels, "--json"),
    )
    assert done.json["cluster_number"] is None
    table = pq.read_table(labels)
    assert table["name"].to_pylist() == example.ids
    np.testing.assert_array_equal(table["label"].to_numpy(), load(tmp_path / "m").labels_)


def test_same_seed_same_labels(array_fit, call, example, tiny, tmp_path):
    call("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "again", *tiny, "-q")
    first, second = load(example.array_model), load(tmp_path / "again")
    np.testing.assert_array_equal(first.embedding_, second.embedding_)


def test_text_and_array_files_give_the_same_model(array_fit, example):
    array, text = load(example.array_model), load(example.model)
    np.testing.assert_allclose(array.embedding_, text.embedding_, atol=1e-5)


def test_finished_checkpoint_is_continued(array_fit, call, example, tiny, tmp_path):
    arguments = ("fit", example.array, "-c", example.numbered_pairs, *tiny)
    plain = load(example.array_model)
    for is_there in (False, True):
        again = call(*arguments, "-o", tmp_path / "kept", "--checkpoint", tmp_path / "checkpoint")
        assert (f"continuing from {tmp_path / 'checkpoint'}" in again.err) == is_there
        kept = load(tmp_path / "kept")
        assert [r["stage"] for r in kept.history_] == [r["stage"] for r in plain.history_]
        np.testing.assert_array_equal(kept.labels_, plain.labels_)


def test_older_model_is_replaced_and_other_folders_are_not(call, example, brief, tmp_path):
    arguments = ("fit", example.array, "-c", example.numbered_pairs, *brief, "-k", 3, "-o")
    said = f"the model in {tmp_path / 'm'} will be replaced"
    for seed in (0, 1):
        done = call(*arguments, tmp_path / "m", "--seed", seed)
        assert (done.code, said in done.err) == (0, seed == 1)
        assert load(tmp_path / "m").random_state == seed
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = call(*arguments, tmp_path / "mine")
    assert done.code == 2
    assert "holds other files (thesis.txt)" in done.err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("out", ["file/model", "file"])
def test_model_that_cannot_be_saved_is_refused_before_training(call, example, tmp_path, monkeypatch, out):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(SpherePair, "fit", lambda *_, **__: pytest.fail("trained in vain"))
    done = call("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / out)
    assert done.code == 2
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("labels", "said"), [("l.txt", "must end in"), ("no/l.csv", "does not exist")])
def test_labels_that_cannot_be_written_are_refused_before_training(
    call, example, tmp_path, monkeypatch, labels, said
):
    monkeypatch.setattr(SpherePair, "fit", lambda *_, **__: pytest.fail("trained in vain"))
    done = call(
        *("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "m"),
        *("--labels-out", tmp_path / labels),
    )
    assert done.code == 2
    assert said in done.err


def test_preset_paper_keeps_what_is_not_overridden():
    paper = build_model("auto", Preset.PAPER, embedding_dim="auto", hidden_dims=None, pretraining=None)
    assert (paper.pretraining, paper.scaling, paper.stopping) == ("stacked", "none", "released-code")
    changed = build_model(
        "4", Preset.PAPER, embedding_dim="8", hidden_dims="compact", pretraining=Pretraining.JOINT
    )
    assert (changed.n_clusters, changed.embedding_dim, changed.pretraining) == (4, 8, "joint")


@pytest.mark.parametrize("place", ["m", "m/saved", "", "a-file", "a-file/saved"])
def test_folders_in_which_no_checkpoint_can_be_kept_are_refused_before_the_work(
    call, example, tiny, tmp_path, monkeypatch, place
):
    monkeypatch.setattr(
        "spherepair.cli.model_commands.read_inputs", lambda *args, **options: pytest.fail("has begun")
    )
    (tmp_path / "a-file").write_text("mine")
    done = call(
        *("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "m", *tiny),
        *("--checkpoint", tmp_path / place),
    )
    assert done.code == 2
    assert str(tmp_path / place) in done.err
    assert not (tmp_path / "m").exists()


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
    assert "% before, 100.0 % now" in done.out
    assert done.out.splitlines()[-1] == f"model       {tmp_path / 'new'}"
    assert " rows, 300 known pairs, " in done.err


def test_the_new_model_may_take_the_place_of_the_old(refine, example, more, tmp_path):
    shutil.copytree(example.model, tmp_path / "model")
    assert refine(model=tmp_path / "model", out="model").code == 0
    assert len(load(tmp_path / "model").constraints_) > len(load(example.model).constraints_)


def test_pairs_that_are_known_already_are_refused(call, example, tmp_path):
    done = call(
        *("refine", example.model, example.rows, "-c", example.pairs, "--id", "name", "-o", tmp_path / "new"),
    )
    assert done.code == 2
    assert f"the model already knows all pairs of {example.pairs}" in done.err


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
    done = refine("--on-conflict", "raise", model=tmp_path / "model", pairs="against.csv", out="model")
    assert done.code == 3
    left, right = against
    assert f"({left}, {right}) at row 3 of the pairs contradicts must-link {left} - {right}." in done.err
    assert f"Row numbers refer to {tmp_path / 'against.csv'}" in done.err
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
    monkeypatch.setattr(model_commands, "load", lambda *args, **options: pytest.fail("work has begun"))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.txt").write_text("mine")
    assert refine().code == 2
    assert refine("--labels-out", example.rows, out="other").code == 2
    assert refine("--labels-out", tmp_path / "other" / "l.csv", out="other").code == 2
    assert refine("--labels-out", example.model / "l.csv", out="other").code == 2


def test_an_interruption_after_the_model_was_written_says_so(refine, tmp_path, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(model_commands, "write_labels", interrupt)
    done = refine("--labels-out", tmp_path / "l.csv")
    assert (done.code, done.err.splitlines()[-1]) == (
        130,
        f"interrupted; {tmp_path / 'new'} had already been written.",
    )
    assert load(tmp_path / "new")
    monkeypatch.setattr(model_commands, "load", interrupt)
    assert refine(out="other").err == "interrupted; nothing was written.\n"


def test_labels_do_not_depend_on_the_kind_of_output(call, example, tmp_path):
    expected = load(example.model).labels_
    for name in ("l.csv", "l.parquet", "l.npy"):
        done = call(
            "predict", example.model, example.rows, "--id", "name", "--out", tmp_path / name, "--json"
        )
        assert done.json["n_rows"] == 120
        assert sum(done.json["cluster_sizes"]) == 120
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), expected)
    np.testing.assert_array_equal(pq.read_table(tmp_path / "l.parquet")["label"].to_numpy(), expected)
    np.testing.assert_array_equal(pa_csv.read_csv(tmp_path / "l.csv")["label"].to_numpy(), expected)


def test_rows_without_ids_are_numbered(call, example, tmp_path):
    assert call("predict", example.model, example.rows, "--out", tmp_path / "l.csv").code == 0
    assert (tmp_path / "l.csv").read_text().splitlines()[0] == "row,label,confidence"
    assert pa_csv.read_csv(tmp_path / "l.csv")["row"].to_pylist() == list(range(120))


def test_ids_with_commas_and_quotes_survive(call, example, tmp_path):
    ids = ['a,"b"', "c d", "plain"]
    columns = {"name": ids, **{f"f{place}": example.X[:3, place] for place in range(5)}}
    pa_csv.write_csv(pa.table(columns), tmp_path / "new.csv")
    call("predict", example.model, tmp_path / "new.csv", "--id", "name", "--out", tmp_path / "l.csv")
    assert pa_csv.read_csv(tmp_path / "l.csv")["name"].to_pylist() == ids


def test_large_files_are_labelled_in_blocks_with_the_same_result(call, example, tmp_path, monkeypatch):
    call("predict", example.model, example.rows, "--out", tmp_path / "whole.npy")
    monkeypatch.setattr("spherepair.cli.predict_command.BLOCK_ROWS", 50)
    call("predict", example.model, example.rows, "--out", tmp_path / "blocks.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "whole.npy"), np.load(tmp_path / "blocks.npy"))


def test_bad_row_in_a_later_block_says_from_where_it_counts(call, example, tmp_path, monkeypatch):
    monkeypatch.setattr("spherepair.cli.predict_command.BLOCK_ROWS", 50)
    X = example.X.copy()
    X[70, 2] = np.nan
    np.save(tmp_path / "rows.npy", X)
    done = call("predict", example.model, tmp_path / "rows.npy", "--out", tmp_path / "l.npy")
    assert done.code == 2
    assert "counting from row 50 of the file: X contains NaN" in done.err
    assert "at row 20, column 2" in done.err


def test_array_for_a_model_with_names_is_a_warning_line(call, example, tmp_path):
    done = call("predict", example.model, example.array, "--out", tmp_path / "l.npy", "--json")
    assert done.code == 0
    assert done.err.startswith("warning: X does not have valid feature names")
    assert done.json["warnings"] == [done.err.removeprefix("warning: ").rstrip("\n")]


def test_wrong_number_of_columns_is_said(call, example, tmp_path):
    np.save(tmp_path / "rows.npy", example.X[:, :3])
    done = call("predict", example.model, tmp_path / "rows.npy", "--out", tmp_path / "l.npy")
    assert done.code == 2
    assert "X has 3 features, but SpherePair is expecting 5 features" in done.err


def test_input_is_never_overwritten(call, example, tmp_path):
    before = example.rows.read_bytes()
    done = call("predict", example.model, example.rows, "--out", example.rows)
    assert done.code == 2
    assert "is also an input" in done.err
    assert example.rows.read_bytes() == before


def test_failed_write_leaves_the_old_file_and_nothing_else(call, example, tmp_path):
    (tmp_path / "l.csv").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        done = call("predict", example.model, example.rows, "--out", tmp_path / "l.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert "File too large" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["l.csv"]
    assert (tmp_path / "l.csv").read_text() == "old"


def test_columns_of_the_model_are_neither_left_out_nor_ids(call, example, tmp_path):
    for option in ("--drop", "--id"):
        done = call("predict", example.model, example.rows, option, "f2", "--out", tmp_path / "l.csv")
        assert done.code == 2
        assert f"{option} f2: the model was fitted on this column and needs it" in done.err
    assert not (tmp_path / "l.csv").exists()


def test_words_in_a_column_of_the_model_are_to_be_mended(call, example, tmp_path):
    columns = {f"f{place}": [str(value) for value in example.X[:20, place]] for place in range(5)}
    columns["f2"][7] = "hot"
    for name, words in (("some.csv", columns["f2"]), ("all.csv", ["hot"] * 20)):
        pa_csv.write_csv(pa.table({**columns, "f2": words}), tmp_path / name)
        done = call("predict", example.model, tmp_path / name, "--out", tmp_path / "l.csv")
        assert done.code == 2
        assert "column 'f2' is not numeric" in done.err
        assert "--drop" not in done.err

"""``spherepair fit``: options reach the estimator, and outputs are checked before the work."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer

from spherepair import load
from spherepair.cli.fit_options import build_model
from spherepair.cli.options import Preset, Pretraining, count_or_auto, layer_sizes


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


def test_text_says_number_pairs_kept_and_where_the_model_is(call, example, tiny, tmp_path):
    done = call("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "m", *tiny)
    assert done.code == 0
    assert "3 clusters" in done.out.splitlines()[0]
    assert "pairs kept  100.0 % of 300" in done.out
    assert str(tmp_path / "m") in done.out
    assert done.err == "120 rows of 5 features, 300 pairs\n"


def test_labels_of_the_fitted_rows_can_be_written(call, example, tiny, tmp_path):
    labels = tmp_path / "labels.parquet"
    done = call(
        *("fit", example.rows, "-c", example.pairs, "--id", "name", "-o", tmp_path / "m", *tiny, "-k", 3),
        *("--labels-out", labels, "--json"),
    )
    assert done.json["cluster_number"] is None
    table = pq.read_table(labels)
    assert table["name"].to_pylist() == example.ids
    np.testing.assert_array_equal(table["label"].to_numpy(), load(tmp_path / "m").labels_)


def test_same_seed_same_labels(call, example, tiny, tmp_path):
    for name in ("first", "second"):
        call("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / name, *tiny, "-q")
    first, second = load(tmp_path / "first"), load(tmp_path / "second")
    np.testing.assert_array_equal(first.embedding_, second.embedding_)


def test_text_and_array_files_give_the_same_model(call, example, tiny, tmp_path):
    call("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "m", *tiny, "-q")
    np.testing.assert_allclose(load(tmp_path / "m").embedding_, load(example.model).embedding_, atol=1e-5)


def test_finished_checkpoint_is_taken_up(call, example, tiny, tmp_path):
    arguments = ("fit", example.array, "-c", example.numbered_pairs, *tiny)
    call(*arguments, "-o", tmp_path / "plain")
    plain = load(tmp_path / "plain")
    for is_there in (False, True):
        again = call(*arguments, "-o", tmp_path / "kept", "--checkpoint", tmp_path / "checkpoint")
        assert (f"going on from {tmp_path / 'checkpoint'}" in again.err) == is_there
        kept = load(tmp_path / "kept")
        assert [r["stage"] for r in kept.history_] == [r["stage"] for r in plain.history_]
        np.testing.assert_array_equal(kept.labels_, plain.labels_)


def test_older_model_is_replaced_and_other_folders_are_not(call, example, tiny, tmp_path):
    arguments = ("fit", example.array, "-c", example.numbered_pairs, *tiny, "-q", "-o")
    assert call(*arguments, tmp_path / "m").code == 0
    assert call(*arguments, tmp_path / "m").code == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = call(*arguments, tmp_path / "mine")
    assert done.code == 2
    assert "holds other files (thesis.txt)" in done.err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("out", ["file/model", "file"])
def test_model_that_cannot_be_saved_is_refused_before_training(call, example, tmp_path, monkeypatch, out):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("spherepair.cli.fit.fit_model", lambda *_, **__: pytest.fail("trained in vain"))
    done = call("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / out)
    assert done.code == 2
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("labels", "said"), [("l.txt", "must end in"), ("no/l.csv", "does not exist")])
def test_labels_that_cannot_be_written_are_refused_before_training(
    call, example, tmp_path, monkeypatch, labels, said
):
    monkeypatch.setattr("spherepair.cli.fit.fit_model", lambda *_, **__: pytest.fail("trained in vain"))
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


@pytest.mark.parametrize("text", ["0", "-3", "many", "2.5", ""])
def test_number_of_clusters_must_be_a_count_or_auto(text):
    with pytest.raises(typer.BadParameter, match="at least 1 or 'auto'"):
        count_or_auto(text, "--clusters")


@pytest.mark.parametrize("text", ["huge", "32,", "32,0", "a,b"])
def test_layer_sizes_must_be_a_name_or_numbers(text):
    with pytest.raises(typer.BadParameter, match="compact"):
        layer_sizes(text)


def test_a_model_that_will_be_replaced_is_said(call, example, tiny, tmp_path):
    fit = ("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "m", *tiny)
    said = f"{tmp_path / 'm'} holds a model, which the new one will replace"
    assert said not in call(*fit).err
    assert said in call(*fit).err


@pytest.mark.parametrize("place", ["m", "m/saved", "", "a-file", "a-file/saved"])
def test_folders_in_which_no_checkpoint_can_be_kept_are_refused_before_the_work(
    call, example, tiny, tmp_path, monkeypatch, place
):
    monkeypatch.setattr("spherepair.cli.fit.read_inputs", lambda *args, **options: pytest.fail("has begun"))
    (tmp_path / "a-file").write_text("mine")
    done = call(
        *("fit", example.array, "-c", example.numbered_pairs, "-o", tmp_path / "m", *tiny),
        *("--checkpoint", tmp_path / place),
    )
    assert done.code == 2
    assert str(tmp_path / place) in done.err
    assert not (tmp_path / "m").exists()

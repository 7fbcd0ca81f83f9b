"""Every row of the table of bad input, through the command line: one sentence, the right exit code."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from spherepair import SpherePair
from spherepair.errors import DeviceMemoryError


@pytest.fixture
def fit(call, example, brief, tmp_path):
    """Fit rows and pairs given as text, arrays or nothing."""

    def run(*, rows=None, pairs=None, extra=()):
        data, constraints = example.array, example.numbered_pairs
        if isinstance(rows, str):
            data = tmp_path / "rows.csv"
            data.write_text(rows)
        elif rows is not None:
            data = tmp_path / "rows.npy"
            np.save(data, rows)
        if pairs is not None:
            constraints = tmp_path / "pairs.csv"
            constraints.write_text("left,right,link\n" + pairs if "," in pairs or not pairs else pairs)
        return call("fit", data, "-c", constraints, "-o", tmp_path / "model", *brief, "-k", 3, *extra)

    return run


def with_value(value):
    X = np.random.default_rng(0).normal(size=(120, 5))
    X[7, 2] = value
    return X


BAD_ROWS = {
    "nan": (with_value(np.nan), "X contains NaN: 1 value(s) in 1 row(s) and 1 column(s), the first at row 7"),
    "infinite": (with_value(-np.inf), "X contains infinity"),
    "empty": (np.zeros((0, 5)), "has no rows"),
    "one row": (np.zeros((1, 5)), "1 sample(s)"),
    "no columns": (np.zeros((5, 0)), "0 feature(s)"),
    "words among numbers": ("a,b\n1,2\n3,x\n" + "1,1\n" * 118, "the first 'x' in line 3"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_cannot_be_used_are_exit_2(fit, case):
    rows, message = BAD_ROWS[case]
    done = fit(rows=rows, pairs="")
    assert done.code == 2
    assert message in done.err
    assert done.err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.err


BAD_PAIRS = {
    "out of range": ("0,500,must\n", "row 2 links rows 0 and 500, but there are only 120 rows"),
    "negative": ("0,-1,must\n", "row 2 holds the row number -1"),
    "with itself": ("0,1,must\n4,4,must\n", "row 3 links row 4 with itself"),
    "unknown id": ("a,1,must\n", "row 2 holds 'a'"),
    "unknown link": ("0,1,perhaps\n", "row 2 has the link 'perhaps'"),
    "missing columns": ("left\n1\n", "has no column right and no column link"),
    "uneven": ("0,1,must,1,1\n", "row 2 has 5 values"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_pairs_that_cannot_be_used_are_exit_2_and_name_the_row(fit, case):
    pairs, message = BAD_PAIRS[case]
    done = fit(pairs=pairs)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_unknown_id_is_named(call, example, tmp_path):
    (tmp_path / "pairs.csv").write_text("left,right,link\nrow-000,stranger,must\n")
    done = call("check", tmp_path / "pairs.csv", "--data", example.rows, "--id", "name")
    assert done.code == 2
    assert "'stranger', which no row has" in done.err


def test_repeated_pair_is_kept_once_and_counted(fit, example):
    pairs = example.numbered_pairs.read_text().splitlines()[1:]
    done = fit(
        pairs="\n".join(",".join(p.split(",")[:3]) for p in [*pairs, pairs[0]]) + "\n", extra=["--json"]
    )
    assert (done.code, done.json["n_pairs"], done.json["n_duplicates"]) == (0, 300, 1)


CONTRADICTIONS = {
    "both ways": "0,1,must\n1,0,cannot\n2,3,cannot\n",
    "in a chain": "0,1,must\n1,2,must\n0,2,cannot\n2,3,cannot\n",
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictory_pairs_are_exit_3_only_if_asked_for(fit, case):
    weighed = fit(pairs=CONTRADICTIONS[case], extra=["--json"])
    assert (weighed.code, weighed.json["n_dropped"]) == (0, 1)  # so few cannot be judged
    refused = fit(pairs=CONTRADICTIONS[case], extra=["--on-conflict", "raise", "--json"])
    assert refused.code == 3
    assert "1 contradiction; the first: cannot-link" in refused.err
    assert "--on-conflict weigh" in refused.err
    assert refused.json["error"]["n_conflicts"] == 1
    assert refused.json["error"]["conflicts"][0]["chain"][0] in {0, 1}
    dropped = fit(pairs=CONTRADICTIONS[case], extra=["--on-conflict", "drop", "--json"])
    assert (dropped.code, dropped.json["n_dropped"]) == (0, 1)
    kept = fit(pairs=CONTRADICTIONS[case], extra=["--on-conflict", "keep", "--json"])
    assert (kept.code, kept.json["n_dropped"]) == (0, 0)


POOR_PAIRS = {
    "none": ("", "no constraints were given"),
    "only must-links": ("0,1,must\n2,3,must\n", "all 2 constraints are must-links"),
    "only cannot-links": ("0,1,cannot\n2,3,cannot\n", "all 2 constraints are cannot-links"),
    "fewer than a batch": ("0,1,must\n2,3,cannot\n", "only 2 constraints were given"),
}


@pytest.mark.parametrize("case", POOR_PAIRS)
def test_poor_pairs_work_with_a_warning_that_says_what_is_lost(fit, case):
    pairs, message = POOR_PAIRS[case]
    done = fit(pairs=pairs, extra=["--json", "-k", 2])
    assert done.code == 0
    assert done.err.startswith("warning: ")
    assert message in done.err
    assert any(message in warning for warning in done.json["warnings"])


def test_too_few_dimensions_are_a_warning_with_the_bound(fit):
    done = fit(extra=["-k", 3, "--embedding-dim", 2])
    assert done.code == 0
    assert "warning: --embedding-dim=2 is below --clusters 3" in done.err
    assert "D >= K" in done.err


def spoil_version(folder):
    manifest = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**manifest, "format_version": 99}))


def spoil_manifest(folder):
    manifest = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**manifest, "seed": 1234}))


def truncate_weights(folder):
    weights = folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])


def truncate_manifest(folder):
    (folder / "model.json").write_text("{")


def lose_weights(folder):
    (folder / "weights.safetensors").unlink()


BAD_MODELS = {
    "another version": (spoil_version, "was saved in format 99"),
    "tampered": (spoil_manifest, "was altered after it was saved"),
    "truncated weights": (truncate_weights, "is truncated or was altered"),
    "truncated description": (truncate_manifest, "cannot be read"),
    "lost weights": (lose_weights, "has no weights.safetensors"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_spoilt_models_are_exit_2(call, example, tmp_path, case):
    spoil, message = BAD_MODELS[case]
    model = tmp_path / "model"
    model.mkdir()
    for file in example.model.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    spoil(model)
    done = call("predict", model, example.rows, "--out", tmp_path / "l.csv")
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "l.csv").exists()


def test_model_that_does_not_exist_is_exit_2(call, example, tmp_path):
    done = call("predict", tmp_path / "nowhere", example.rows, "--out", tmp_path / "l.csv", "--json")
    assert done.code == 2
    assert done.err == f"error: {tmp_path / 'nowhere'} is not a saved model: it does not exist.\n"
    assert done.json["error"]["type"] == "ModelFileError"


def test_full_gpu_is_exit_2_in_the_words_of_the_options(fit, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise DeviceMemoryError("the GPU ran out of memory; use device='cpu'.")

    monkeypatch.setattr(SpherePair, "fit", fail)
    done = fit()
    assert done.code == 2
    assert done.err.endswith("error: the GPU ran out of memory; use --device cpu.\n")


def test_gpu_that_is_not_there_is_exit_2(fit):
    done = fit(extra=["--device", "nonsense"])
    assert done.code == 2
    assert "device must be" in done.err


def test_locked_folders_are_refused_before_the_work(fit, tmp_path, monkeypatch):
    monkeypatch.setattr("spherepair.cli.options.os.access", lambda path, mode: path != tmp_path / "locked")
    (tmp_path / "locked").mkdir()
    done = fit(extra=["--labels-out", tmp_path / "locked" / "labels.csv"])
    assert done.code == 2
    assert f"labels.csv cannot be written: no permission to write to {tmp_path / 'locked'}." in done.err
    assert not (tmp_path / "model").exists()


def test_a_place_elsewhere_is_no_folder_for_a_model(call, example, brief, tmp_path):
    for option in ("--out", "--checkpoint"):
        folders = {
            "--out": tmp_path / "model",
            "--checkpoint": tmp_path / "kept",
            option: "s3://bucket/model",
        }
        words = [word for pair in folders.items() for word in pair]
        done = call("fit", example.array, "-c", example.numbered_pairs, *brief, "-k", 3, *words)
        assert done.code == 2
        assert "names a place elsewhere; give a folder of this machine" in done.err


def test_a_file_that_cannot_be_written_goes_by_its_own_name(fit, tmp_path, monkeypatch):
    replace = os.replace

    def refuse(source, target):
        if target.name == "labels.csv":
            raise OSError(30, "Read-only file system", str(source))
        replace(source, target)

    monkeypatch.setattr("spherepair.files.os.replace", refuse)
    done = fit(extra=["--labels-out", tmp_path / "labels.csv"])
    assert done.code == 2
    assert f"error: {tmp_path / 'labels.csv'}: Read-only file system." in done.err
    assert list(tmp_path.glob(".*.tmp")) == []

"""Commands in processes of their own: exit codes, streams, Ctrl-C, pipes, other encodings."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.csv as pa_csv
import pytest

from spherepair import __version__, load
from spherepair.cli import main
from spherepair.cli.app import COMMANDS
from spherepair.metrics import clustering_accuracy


def test_console_script_shows_the_version():
    script = Path(sys.executable).with_name("spherepair")
    if not script.exists():
        pytest.skip("spherepair is not installed here, only on the path")
    done = subprocess.run([script, "--version"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, f"spherepair {__version__}\n")


def test_fit_and_predict_from_files_to_files(shell, example, tiny, tmp_path):
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    fitted = shell(
        *("fit", example.rows, "--constraints", example.pairs, "--id", "name", "--out", model, *tiny),
        "--json",
    )
    assert fitted.code == 0, fitted.err
    assert fitted.json["n_clusters"] == 3
    assert fitted.json["cluster_number"]["value"] == 3
    assert fitted.json["pairs_kept"] == 1.0
    predicted = shell("predict", model, example.rows, "--id", "name", "--out", labels)
    assert predicted.code == 0, predicted.err
    table = pa_csv.read_csv(labels)
    assert table.column_names == ["name", "label"]
    assert table["name"].to_pylist() == example.ids
    assert clustering_accuracy(example.y, table["label"].to_numpy()) == 1.0
    # What another process loads is what this one predicts with.
    np.testing.assert_array_equal(load(model).labels_, table["label"].to_numpy())


def test_bad_input_is_exit_2_and_one_sentence_on_stderr(shell, tmp_path):
    done = shell("predict", tmp_path / "nowhere", tmp_path / "no.csv", "--out", tmp_path / "l.csv", "--json")
    assert done.code == 2
    assert done.err == f"error: {tmp_path / 'nowhere'} is not a saved model: it does not exist.\n"
    assert done.json["error"]["type"] == "ModelFileError"


def test_contradictory_pairs_are_exit_3(shell, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("left,right,link\n0,1,must\n1,2,must\n0,2,cannot\n")
    done = shell("check", pairs)
    assert done.code == 3
    assert "cannot-link (0, 2) at row 4 of the pairs contradicts must-links 0 - 1 - 2 (rows 2, 3)" in done.out
    assert done.err == ""


def test_interrupted_fit_is_exit_130_and_goes_on_from_its_checkpoint(call, example, tmp_path):
    checkpoint, model = tmp_path / "checkpoint", tmp_path / "model"
    arguments = ["fit", example.array, "-c", example.numbered_pairs, "-o", model, "--hidden-dims", "16"]
    arguments += ["--checkpoint", checkpoint]
    command = [sys.executable, "-m", "spherepair.cli", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", env=environment)
    deadline = time.monotonic() + 60
    while not (checkpoint / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"interrupted; run the same command again to go on from {checkpoint}.\n" in said
    assert "Traceback" not in said
    assert not model.exists()
    other = call(*arguments, "--seed", 1)
    assert other.code == 2
    assert "belongs to another fit: it differs in --seed" in other.err
    assert call(*arguments).code == 0
    assert model.exists()


def test_reader_that_leaves_early_is_no_error(example):
    command = (
        f"{sys.executable} -m spherepair.cli check {example.numbered_pairs} | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, encoding="utf-8", check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_terminal_without_unicode_gets_plain_bars(shell, example):
    done = shell("clusters", example.model, PYTHONIOENCODING="ascii")
    assert done.code == 0, done.err
    assert "####" in done.out
    assert "█" not in done.out


def test_wrong_usage_is_exit_2_and_json_where_asked(call):
    done = call("fit", "rows.csv", "--json")
    assert done.code == 2
    assert "--constraints" in done.err
    assert done.json["error"]["type"] == "UsageError"
    assert "--constraints" in done.json["error"]["message"]


def test_missing_typer_is_a_sentence_with_the_remedy(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "spherepair.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["--version"]) == 2
    assert 'pip install "spherepair[cli]"' in capsys.readouterr().err


def test_fault_of_ours_is_not_hidden(monkeypatch, example):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("spherepair.cli.check.read_rows", fail)
    with pytest.raises(ZeroDivisionError):
        main(["check", str(example.pairs), "--data", str(example.rows)])


def test_every_command_has_a_help_of_its_own(call):
    for name in ("demo", "fit", "predict", "check", "clusters", "datasets"):
        done = call(name, "--help")
        assert done.code == 0
        assert "Example: spherepair " + name in " ".join(done.out.split())


def test_datasets_are_listed_for_people_and_machines(call):
    assert "scikit-learn" in call("datasets").out
    found = json.loads(call("datasets", "--json").out)["datasets"]
    digits = next(entry for entry in found if entry["name"] == "digits")
    assert (digits["rows"], digits["available"]) == (1797, True)
    assert all(entry["how_to_get"] for entry in found)


def test_help_and_unknown_commands_do_not_wait_for_torch():
    script = "import sys; from spherepair.cli import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    for arguments, code in ((["--help"], 0), (["--version"], 0), (["nonsense"], 2), (["check", "--help"], 0)):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, encoding="utf-8", check=True
        )
        assert done.stdout.splitlines()[-1] == f"{code} False"


def test_the_list_of_commands_says_what_each_says_of_itself():
    for name, sentence in COMMANDS.items():
        module = import_module(f"spherepair.cli.{name}")
        own = module.app.info.help if name == "bench" else inspect.getdoc(module.command)
        assert own.split("\n\n")[0] == sentence


def test_an_interruption_while_a_command_is_loaded_is_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr("spherepair.cli.app.import_module", mock.Mock(side_effect=KeyboardInterrupt))
    assert main(["fit", "rows.csv"]) == 130
    assert capsys.readouterr().err == "interrupted; nothing was written.\n"

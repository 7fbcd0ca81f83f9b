"""Commands in processes of their own: exit codes, streams, environment, Ctrl-C, pipes, other encodings."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.csv as pa_csv
import pytest
from tests.forked_command import ForkedCommand

from spherepair import __version__, load
from spherepair.cli import main
from spherepair.metrics import clustering_accuracy

POLICY = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MIMALLOC_PURGE_DELAY")


def python(script, *arguments, **environment):
    """Output of a script in a process of its own, without the variables that the entry point sets."""
    clean = {name: value for name, value in os.environ.items() if name not in POLICY}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**clean, **environment},
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=120,
    )
    return done.stdout


@pytest.fixture
def fresh():
    """Run a command as a user does, in a fresh interpreter."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "spherepair", *map(str, arguments)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )

    return run


def test_console_script_shows_the_version():
    script = Path(sys.executable).with_name("spherepair")
    if not script.exists():
        pytest.skip("spherepair is not installed here, only on the path")
    done = subprocess.run([script, "--version"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, f"spherepair {__version__}\n")


def test_fit_and_predict_from_files_to_files(fresh, shell, example, tiny, tmp_path):
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    fitted = fresh(
        *("fit", example.rows, "--constraints", example.pairs, "--id", "name", "--out", model, *tiny),
        "--json",
    )
    assert fitted.returncode == 0, fitted.stderr
    told = json.loads(fitted.stdout)
    assert told["n_clusters"] == 3
    assert told["cluster_number"]["value"] == 3
    assert told["pairs_kept"] == 1.0
    predicted = shell("predict", model, example.rows, "--id", "name", "--out", labels)
    assert predicted.code == 0, predicted.err
    table = pa_csv.read_csv(labels)
    assert table.column_names == ["name", "label", "confidence"]
    assert table["name"].to_pylist() == example.ids
    assert clustering_accuracy(example.y, table["label"].to_numpy()) == 1.0
    # What another process loads is what this one predicts with.
    np.testing.assert_array_equal(load(model).labels_, table["label"].to_numpy())


def test_bad_input_is_exit_2_and_one_sentence_on_stderr(fresh, tmp_path):
    (tmp_path / "pairs.csv").write_text("left,right,link\n4,4,must\n")
    done = fresh("check", tmp_path / "pairs.csv", "--json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "row 2 links row 4 with itself" in done.stderr
    assert json.loads(done.stdout)["error"]["type"] == "InvalidConstraintsError"


def test_contradictory_pairs_are_exit_3(shell, tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("left,right,link\n0,1,must\n1,2,must\n0,2,cannot\n")
    done = shell("check", pairs)
    assert done.code == 3
    assert "cannot-link (0, 2) at row 4 of the pairs contradicts must-links 0 - 1 - 2 (rows 2, 3)" in done.out
    assert done.err == ""


def test_interrupted_fit_is_exit_130_and_continues_from_its_checkpoint(call, example, tmp_path):
    checkpoint, model = tmp_path / "checkpoint", tmp_path / "model"
    arguments = ["fit", example.array, "-c", example.numbered_pairs, "-o", model, "--hidden-dims", "16"]
    arguments += ["--checkpoint", checkpoint, "-k", 3]
    running = ForkedCommand(*arguments)
    deadline = time.monotonic() + 60
    while not (checkpoint / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.poll() == 130
    assert f"interrupted; run the same command again to continue from {checkpoint}.\n" in said
    assert "Traceback" not in said
    assert not model.exists()
    other = call(*arguments, "--seed", 1)
    assert other.code == 2
    assert "belongs to another fit: it differs in --seed" in other.err
    again = call(*arguments)
    assert again.code == 0
    assert f"continuing from {checkpoint}\n" in again.err
    assert model.exists()


def test_reader_that_leaves_early_is_no_error(example):
    command = f"{sys.executable} -m spherepair check {example.numbered_pairs} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, encoding="utf-8", check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_terminal_without_unicode_gets_plain_bars(example):
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with redirect_stdout(screen), mock.patch.dict(os.environ):
        assert main(["clusters", str(example.model)]) == 0
    screen.seek(0)
    said = screen.read()
    assert "####" in said
    assert "█" not in said


def test_missing_typer_is_a_sentence_with_the_remedy(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "spherepair.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["--version"]) == 2
    assert 'pip install "spherepair[cli]"' in capsys.readouterr().err


def test_help_unknown_commands_and_checks_of_pairs_do_not_wait_for_torch(example):
    script = (
        "import json, sys; from spherepair.cli import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    print('ended', main(words), {'torch', 'sklearn'} & {*sys.modules})"
    )
    commands = [["--help"], ["--version"], ["nonsense"], ["check", "--help"]]
    said = python(script, json.dumps([*commands, ["check", str(example.numbered_pairs)]])).splitlines()
    ended = [line.split(maxsplit=1)[1] for line in said if line.startswith("ended")]
    assert ended == [f"{code} set()" for code in (0, 0, 2, 0, 0)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["PASSIVE", "10000", "1000"]),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, ["ACTIVE", "None", "1000"]),
        ({"GOMP_SPINCOUNT": "7", "MIMALLOC_PURGE_DELAY": "5"}, ["PASSIVE", "7", "5"]),
    ],
)
def test_waiting_threads_soon_sleep_unless_the_user_says_otherwise(given, expected):
    script = f"import os; from spherepair.cli import main; main([]); print(*map(os.environ.get, {POLICY}))"
    assert python(script, **given).splitlines()[-1].split() == expected


def test_thread_policy_is_set_before_torch_is_loaded():
    script = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            print('seen', os.environ.get('OMP_WAIT_POLICY'))\n"
        "            raise SystemExit\n"
        "sys.meta_path.insert(0, Watch())\n"
        "from spherepair.cli import main\n"
        "print('before', os.environ.get('OMP_WAIT_POLICY'))\n"
        "main(['fit', '--help'])\n"
    )
    assert python(script).split("\n")[:2] == ["before None", "seen PASSIVE"]

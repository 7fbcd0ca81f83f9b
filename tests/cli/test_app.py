"""The list of commands and their help; errors as sentences and exit codes."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest
import typer
from safetensors import SafetensorError

import spherepair
from spherepair import Constraints
from spherepair.cli.app import COMMANDS, explain
from spherepair.cli.terminal import InterruptedCommand
from spherepair.errors import InvalidDataError, MissingDependencyError


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(call, name):
    done = call(name, "--help")
    assert done.code == 0
    words = " ".join(done.out.split())
    assert COMMANDS[name].summary in words
    assert f"Example: spherepair {name}" in words


@pytest.mark.parametrize("name", COMMANDS)
def test_list_of_commands_says_what_each_says_of_itself(name):
    command = getattr(import_module(f"spherepair.cli.{COMMANDS[name].module}"), name)
    own = command.info.help if isinstance(command, typer.Typer) else inspect.getdoc(command)
    assert own.split("\n\n")[0] == COMMANDS[name].summary


def test_wrong_usage_is_exit_2_and_json_where_asked(call):
    done = call("fit", "rows.csv", "--json")
    assert done.code == 2
    assert "--out" in done.err
    assert done.json["error"]["type"] == "UsageError"
    assert "--out" in done.json["error"]["message"]


def test_interruption_while_a_command_is_loaded_is_a_sentence(monkeypatch, call):
    monkeypatch.setattr("spherepair.cli.app.import_module", mock.Mock(side_effect=KeyboardInterrupt))
    done = call("fit", "rows.csv")
    assert (done.code, done.err) == (130, "interrupted; nothing was written.\n")


def test_fault_of_ours_is_one_sentence_and_its_details_are_in_a_file(monkeypatch, example, call, tmp_path):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug\n" * 1000)

    monkeypatch.setattr("spherepair.cli.data_commands.read_rows", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = call("check", example.pairs, "--data", example.rows, "--json")
    (details,) = tmp_path.iterdir()
    assert done.code == 70
    assert done.err == f"error: this is a bug of spherepair (ZeroDivisionError); details in {details}.\n"
    assert done.json["error"]["exit_code"] == 70
    assert "Traceback" in details.read_text()
    assert "check" in details.read_text()


def test_fault_in_a_module_of_a_command_is_one_sentence_too(monkeypatch, call, tmp_path):
    monkeypatch.setattr("spherepair.cli.app.import_module", mock.Mock(side_effect=ZeroDivisionError))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    done = call("fit", "rows.csv")
    assert done.code == 70
    assert "could not be written" in done.err


def test_long_and_unprintable_lines_are_cut():
    failure = explain(InvalidDataError("row \x1b[2J " + "x" * 10**6))
    assert len(failure.sentence) < 2100
    assert failure.sentence.isprintable()
    assert failure.sentence.endswith("… (1,000,016 characters)")
    assert len(failure.to_dict()["message"]) < 2100


def test_a_long_chain_of_must_links_is_named_in_part():
    pairs = Constraints.from_pairs([(k, k + 1) for k in range(5000)], cannot_link=[(0, 5000)])
    said = pairs.conflicts()[0].explain()
    assert len(said) < 400
    assert "0 - 1 - 2" in said
    assert "4999 - 5000" in said
    assert "more" in said


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_a_command_with_a_sentence(monkeypatch, example, call, number, code, word):
    def wait(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)

    before = signal.getsignal(number)
    monkeypatch.setattr("spherepair.cli.data_commands.read_rows", wait)
    done = call("check", example.pairs, "--data", example.rows)
    assert (done.code, done.err) == (code, f"{word}; nothing was written.\n")
    assert signal.getsignal(number) == before


def test_what_a_signal_breaks_is_not_called_a_bug(monkeypatch, example, call):
    """Compiled modules turn the exception of a signal into one of their own."""

    def wait(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise SystemError("initialization failed") from None

    monkeypatch.setattr("spherepair.cli.data_commands.read_rows", wait)
    done = call("check", example.pairs, "--data", example.rows)
    assert done.code == 130
    assert done.err.startswith("interrupted;")


def test_next_to_nothing_is_loaded_before_a_signal_can_be_handled():
    """Each module before it is some time in which Ctrl-C ends in a traceback of Python's own."""
    code = "import sys; before = set(sys.modules); import spherepair.cli; print(*set(sys.modules) - before)"
    # -S: what site-packages loads at every start is not ours; an editable install is found by its path then.
    source = {**os.environ, "PYTHONPATH": str(Path(spherepair.__file__).parents[1])}
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code], env=source, capture_output=True, text=True, check=True
    )
    assert not {"typing", "re", "threading", "typer", "numpy"} & set(loaded.stdout.split())


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_while_modules_load_ends_with_a_sentence(number, code, word):
    command = [sys.executable, "-X", "importtime", "-m", "spherepair", "fit", "rows.csv", "--out", "model"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "typer" in line:  # imported by our code, with most still to come
                break
        process.send_signal(number)
        rest = process.stderr.read().splitlines()
    assert process.returncode == code
    assert rest[-1] == f"{word}; nothing was written."


FAILURES = [
    (PermissionError(13, "Permission denied", "rows.csv"), 2, "error: rows.csv: Permission denied."),
    (OSError(28, "No space left on device"), 2, "error: No space left on device."),
    (OSError("odd"), 2, "error: odd"),
    (SafetensorError("I/O error"), 2, "error: the model could not be written or read: I/O error."),
    (MissingDependencyError("needs pyarrow"), 2, "error: needs pyarrow"),
    (
        MemoryError(),
        2,
        "error: not enough memory; give fewer rows, or a .npy file, which is read in blocks.",
    ),
    (InterruptedCommand("interrupted."), 130, "interrupted."),
]


@pytest.mark.parametrize(("error", "code", "sentence"), FAILURES)
def test_error_that_a_user_can_fix_becomes_a_sentence(error, code, sentence):
    failure = explain(error)
    assert (failure.code, failure.sentence) == (code, sentence)
    assert failure.to_dict()["exit_code"] == code

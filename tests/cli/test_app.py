"""The list of commands and their help; errors as sentences and exit codes."""

from __future__ import annotations

import inspect
from importlib import import_module
from unittest import mock

import pytest
import typer
from safetensors import SafetensorError

from spherepair.cli import main
from spherepair.cli.app import COMMANDS, explain
from spherepair.cli.terminal import InterruptedCommand
from spherepair.errors import MissingDependencyError


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


def test_fault_of_ours_is_not_hidden(monkeypatch, example):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("spherepair.cli.data_commands.read_rows", fail)
    with pytest.raises(ZeroDivisionError):
        main(["check", str(example.pairs), "--data", str(example.rows)])


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

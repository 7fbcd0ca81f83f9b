"""Progress only for people who wait, warnings as lines, and errors as endings."""

from __future__ import annotations

import io
import json
import math
import warnings

import pytest
from rich.console import Console
from safetensors import SafetensorError

from spherepair.cli import reporting
from spherepair.cli.endings import InterruptedCommand, explain
from spherepair.cli.reporting import LateBar, write_json
from spherepair.errors import ConstraintWarning, MissingDependencyError


def terminal():
    stream = io.StringIO()
    return stream, Console(file=stream, force_terminal=True, width=80)


def test_bar_appears_on_a_terminal_after_a_while_and_vanishes(monkeypatch):
    monkeypatch.setattr(reporting, "QUIET_SECONDS", 0.0)
    stream, console = terminal()
    bar = LateBar("starting", console, is_quiet=False)
    bar.show("pairs", 3, total=10, remark="loss 0.5")
    bar.close()
    assert "pairs" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K") or "\x1b[?25h" in stream.getvalue()


def test_quick_work_shows_no_bar():
    stream, console = terminal()
    bar = LateBar("starting", console, is_quiet=False)
    bar.show("pairs", 10, total=10)
    bar.close()
    assert stream.getvalue() == ""


def test_bar_is_silent_where_silence_was_asked_for(monkeypatch):
    monkeypatch.setattr(reporting, "QUIET_SECONDS", 0.0)
    stream, console = terminal()
    bar = LateBar("starting", console, is_quiet=True)
    bar.show("pairs", 3, total=10)
    bar.close()
    assert stream.getvalue().strip() == ""


def test_a_log_gets_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(reporting, "LINE_SECONDS", 0.0)
    stream = io.StringIO()
    bar = LateBar("starting", Console(file=stream, force_terminal=False), is_quiet=False)
    bar.show("pairs", 3, total=10, remark="loss 0.5")
    bar.close()
    assert stream.getvalue().startswith("pairs: 3 of 10 loss 0.5 (")


def test_warnings_are_lines_once_each_even_where_python_makes_errors_of_them(capsys):
    with reporting.reporting("fit", as_json=True) as report:
        for _ in range(2):
            warnings.warn("few\n  pairs", ConstraintWarning, stacklevel=1)
        report.finish({"answer": 1}, [])
    said = capsys.readouterr()
    assert said.err == "warning: few pairs\n"
    assert json.loads(said.out) == {"command": "fit", "answer": 1, "warnings": ["few pairs"]}


def test_ctrl_c_is_a_sentence():
    with pytest.raises(InterruptedCommand, match="go on"), reporting.reporting("fit", interrupted="go on"):
        raise KeyboardInterrupt


def test_quiet_result_is_silent_and_json_is_not(capsys):
    reporting.Report("fit", quiet=True).finish({}, ["text"])
    assert capsys.readouterr().out == ""
    reporting.Report("fit", quiet=True, as_json=True).finish({}, ["text"])
    assert json.loads(capsys.readouterr().out)["command"] == "fit"


def test_json_has_null_for_numbers_it_lacks(capsys):
    write_json({"a": math.nan, "b": [1.0, math.inf], "c": {"d": (-math.inf,)}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.0, None], "c": {"d": [None]}}


ENDINGS = [
    (PermissionError(13, "Permission denied", "rows.csv"), 2, "error: rows.csv: Permission denied."),
    (OSError(28, "No space left on device"), 2, "error: No space left on device."),
    (OSError("odd"), 2, "error: odd"),
    (SafetensorError("I/O error"), 2, "error: the model could not be written or read: I/O error."),
    (MissingDependencyError("needs pyarrow"), 2, "error: needs pyarrow"),
    (
        MemoryError(),
        2,
        "error: there is too little memory; give fewer rows, or a .npy file, which is streamed.",
    ),
    (InterruptedCommand("interrupted."), 130, "interrupted."),
]


@pytest.mark.parametrize(("error", "code", "sentence"), ENDINGS)
def test_what_a_user_can_mend_ends_in_a_sentence(error, code, sentence):
    ending = explain(error)
    assert (ending.code, ending.sentence) == (code, sentence)
    assert ending.to_dict()["exit_code"] == code

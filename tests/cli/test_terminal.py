"""Progress only for people who wait, warnings as lines, Ctrl-C as a sentence, numbers that JSON has."""

from __future__ import annotations

import io
import json
import math
import warnings
from pathlib import Path

import pytest
from rich.console import Console

import spherepair
from spherepair.cli import terminal
from spherepair.cli.terminal import InterruptedCommand, ProgressBar, Terminal, command_terminal, write_json
from spherepair.errors import ConstraintWarning


def screen():
    stream = io.StringIO()
    return stream, Console(file=stream, force_terminal=True, width=80)


def test_bar_appears_on_a_terminal_after_a_while_and_vanishes(monkeypatch):
    monkeypatch.setattr(terminal, "BAR_DELAY_SECONDS", 0.0)
    stream, console = screen()
    bar = ProgressBar("starting", console, is_quiet=False)
    bar.show("pairs", 3, total=10, remark="loss 0.5")
    bar.close()
    assert "pairs" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K") or "\x1b[?25h" in stream.getvalue()


def test_quick_work_shows_no_bar():
    stream, console = screen()
    bar = ProgressBar("starting", console, is_quiet=False)
    bar.show("pairs", 10, total=10)
    bar.close()
    assert stream.getvalue() == ""


def test_bar_is_silent_where_silence_was_asked_for(monkeypatch):
    monkeypatch.setattr(terminal, "BAR_DELAY_SECONDS", 0.0)
    stream, console = screen()
    bar = ProgressBar("starting", console, is_quiet=True)
    bar.show("pairs", 3, total=10)
    bar.close()
    assert stream.getvalue().strip() == ""


def test_a_log_gets_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(terminal, "LINE_SECONDS", 0.0)
    stream = io.StringIO()
    bar = ProgressBar("starting", Console(file=stream, force_terminal=False), is_quiet=False)
    bar.show("pairs", 3, total=10, remark="loss 0.5")
    bar.close()
    assert stream.getvalue().startswith("pairs: 3 of 10 loss 0.5 (")


def test_warnings_are_lines_once_each_even_where_python_makes_errors_of_them(capsys):
    with command_terminal("fit", as_json=True) as output:
        for _ in range(2):
            warnings.warn("few\n  pairs", ConstraintWarning, stacklevel=1)
        output.print_result({"answer": 1}, [])
    said = capsys.readouterr()
    assert said.err == "warning: few pairs\n"
    assert json.loads(said.out) == {"command": "fit", "answer": 1, "warnings": ["few pairs"]}


def test_ctrl_c_is_a_sentence():
    with pytest.raises(InterruptedCommand, match="go on"), command_terminal("fit", interrupted="go on"):
        raise KeyboardInterrupt


def test_quiet_result_is_silent_and_json_is_not(capsys):
    Terminal("fit", quiet=True).print_result({}, ["text"])
    assert capsys.readouterr().out == ""
    Terminal("fit", quiet=True, as_json=True).print_result({}, ["text"])
    assert json.loads(capsys.readouterr().out)["command"] == "fit"


def test_json_has_null_for_numbers_it_lacks(capsys):
    write_json({"a": math.nan, "b": [1.0, math.inf], "c": {"d": (-math.inf,)}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.0, None], "c": {"d": [None]}}


@pytest.mark.parametrize("phrase", [phrase for phrase, _ in terminal._OPTIONS])
def test_phrase_that_becomes_an_option_is_one_of_the_library(phrase):
    """A message that is worded anew must be worded anew here too."""
    package = Path(spherepair.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.parent.name != "cli"]
    assert any(phrase in path.read_text(encoding="utf-8") for path in sources)

"""What a record says it was made with."""

from __future__ import annotations

import re

import pytest

from spherepair.benchmark import environment
from spherepair.benchmark.environment import PROTOCOL, commit, describe_environment


def answer(monkeypatch, **answers):
    """Let git say this, nothing where a command is not named."""
    monkeypatch.setattr(environment, "_git", lambda command, *_: answers.get(command.replace("-", "_")))


@pytest.mark.parametrize(
    ("changed", "stated", "found"),
    [
        ("", "stated", "0123456789ab"),
        (" M grid.py", "stated", "stated"),
        (" M grid.py", "", "0123456789ab+"),
    ],
)
def test_commit_of_an_unchanged_checkout_comes_before_the_variable(monkeypatch, changed, stated, found):
    monkeypatch.setenv("SPHEREPAIR_COMMIT", stated)
    answer(monkeypatch, ls_files="environment.py", rev_parse="0123456789ab", status=changed)
    assert commit() == found


@pytest.mark.parametrize("answers", [{}, {"rev_parse": "of another project"}])
def test_without_a_checkout_the_variable_says_the_commit(monkeypatch, answers):
    answer(monkeypatch, **answers)
    monkeypatch.setenv("SPHEREPAIR_COMMIT", "stated")
    assert commit() == "stated"
    monkeypatch.setenv("SPHEREPAIR_COMMIT", "")
    assert commit() is None
    monkeypatch.delenv("SPHEREPAIR_COMMIT")
    assert commit() is None


def test_description_holds_protocol_and_commit(monkeypatch):
    monkeypatch.setenv("SPHEREPAIR_COMMIT", "0123456789ab")
    found = describe_environment()
    assert found["protocol"] == PROTOCOL
    assert re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])

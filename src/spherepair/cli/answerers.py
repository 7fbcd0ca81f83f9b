"""Who answers the questions of ``spherepair ask``: a person at a keyboard, or a program."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TextIO

import typer

from spherepair.asking import ChoiceQuestion, GroupQuestion
from spherepair.asking.questions import (
    DIFFERENT,
    NONE,
    SAME,
    SKIP,
    UNSURE,
    Question,
    Reply,
    plain_reply,
    question_to_dict,
)
from spherepair.cli.question_cards import Card
from spherepair.errors import InvalidAnswerError, InvalidParameterError, quoted

#: Bytes of a line of a program's answers; a longer one is no answer.
LONGEST_LINE = 1_000_000
#: Seconds that a program has to end by itself.
GRACE_SECONDS = 2.0
_SHOWN = 80
_ENTER, _INTERRUPT, _END, _ERASE = "\r\n", "\x03", "\x04", "\x7f\b"


class Command(StrEnum):
    """What a person may ask for instead of answering."""

    UNDO = "z"
    GROUPS = "g"
    HELP = "?"
    STOP = "q"


_WORDS: dict[str, str] = {"u": UNSURE, "k": SKIP}
_PAIR_WORDS: dict[str, str] = {"s": SAME, "d": DIFFERENT}


def parse_keys(question: Question, card: Card, keys: str) -> Reply | Command | None:
    """What the keys mean for this question; ``None`` where they mean nothing.

    Examples
    --------
    >>> from spherepair.cli.question_cards import card_of
    >>> question = GroupQuestion((4, 7, 9))
    >>> card = card_of(question, lambda row: row)
    >>> parse_keys(question, card, "2"), parse_keys(question, card, ""), parse_keys(question, card, "K")
    ((9,), (), 'skip')
    """
    typed = keys.strip().lower()
    if typed in set(Command):
        return Command(typed)
    if typed in _WORDS:
        return _WORDS[typed]
    if isinstance(question, ChoiceQuestion):
        return NONE if typed == "0" else card.row_of(typed)
    if isinstance(question, GroupQuestion):
        rows = [card.row_of(mark) for mark in typed if mark not in " ,"]
        return None if None in rows else tuple(row for row in rows if row is not None)
    return _PAIR_WORDS.get(typed)


class Keyboard:
    """Reads answers key by key from a terminal, or line by line where stdin is none.

    Parameters
    ----------
    out : text stream
        Where numbers are shown while they are typed.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._typed = ""

    def read(self, *, several: bool) -> str:
        """One key, or the keys up to Enter for an answer of several numbers; ``"q"`` at the end of the input.

        A letter needs no Enter: it is no part of a number.
        """
        if not sys.stdin.isatty():
            return self.read_line()
        line = ""
        while True:
            key = self._key()
            if key == _END:
                return Command.STOP.value
            if not several or key in _ENTER or key.isalpha() or key in set(Command):
                self._out.write("\n" if several else "")
                return key if key not in _ENTER else line
            line = line[:-1] if key in _ERASE else f"{line}{key if key.isdecimal() else ''}"
            self._out.write(f"\r\x1b[Kdo not belong: {' '.join(line)} ")
            self._out.flush()

    def read_line(self) -> str:
        """What is typed up to Enter; ``"q"`` at the end of the input."""
        line = sys.stdin.readline()
        return line.strip() if line else Command.STOP.value

    def _key(self) -> str:
        while not self._typed:
            try:
                self._typed = typer.getchar()
            except EOFError:
                return _END
            if self._typed.startswith("\x1b"):  # an arrow or a function key
                self._typed = ""
        key, self._typed = self._typed[0], self._typed[1:]
        if key == _INTERRUPT:
            raise KeyboardInterrupt
        return key


class Program:
    """A program that reads questions as JSON lines and writes an answer to each.

    Parameters
    ----------
    command : str
        As typed in a shell, but run without one.
    content : callable
        Row number in, plain data about the row out.
    timeout : float
        Seconds that it may take for an answer.
    """

    def __init__(self, command: str, content: Callable[[int], dict[str, Any]], *, timeout: float) -> None:
        self._content, self._timeout, self._n_lines = content, timeout, 0
        self._process = subprocess.Popen(
            split_command(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours; the program ends when we close its input
        )
        self._questions: queue.Queue[bytes | None] = queue.Queue()
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._thread = threading.Thread(target=self._exchange, daemon=True)
        self._thread.start()

    def __call__(self, question: Question, number: int) -> Reply:
        """The program's answer; anything but one is an ``InvalidAnswerError`` that names the line."""
        line = json.dumps({"number": number, **question_content(question, self._content)}, ensure_ascii=False)
        self._questions.put(line.encode() + b"\n")
        try:
            answer = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            raise InvalidAnswerError(
                f"the answerer gave no answer to question {number} within {self._timeout:g} seconds; "
                "give it more with --answer-seconds."
            ) from None
        self._n_lines += 1
        if not answer.endswith(b"\n"):
            raise InvalidAnswerError(f"the answerer {self._ending(answer)} at question {number}.")
        try:
            return parse_answer(answer, question, number, self._content)
        except InvalidAnswerError as error:
            shown = answer.decode(errors="replace").strip()[:_SHOWN]
            raise InvalidAnswerError(
                f"line {self._n_lines} of the answerer, {quoted(shown)}, does not answer question "
                f"{number}: {error}"
            ) from error

    def close(self) -> None:
        """Close the program's input and see it end."""
        self._questions.put(None)
        for name in ("SIGTERM", "SIGKILL"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=GRACE_SECONDS)
                break
            self._signal(name)
        self._thread.join(timeout=GRACE_SECONDS)

    def _signal(self, name: str) -> None:
        """Send a signal to the program and to its children."""
        if not hasattr(os, "killpg"):
            self._process.kill()
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, getattr(signal, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self) -> None:
        """Write questions and read answers; in a thread, because either may block for good."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while (line := self._questions.get()) is not None:
            with contextlib.suppress(OSError):  # it has ended: reading says so
                self._process.stdin.write(line)
                self._process.stdin.flush()
            self._answers.put(self._process.stdout.readline(LONGEST_LINE))
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()

    def _ending(self, answer: bytes) -> str:
        if len(answer) >= LONGEST_LINE:
            return f"wrote a line of more than {LONGEST_LINE:,} bytes"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=GRACE_SECONDS)
            return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        return "closed its output"


def split_command(command: str) -> list[str]:
    """The words of a command whose program is there."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidParameterError(f"--answerer {quoted(command)} cannot be read: {error}.") from error
    if not words or shutil.which(words[0]) is None:
        name = words[0] if words else ""
        raise InvalidParameterError(
            f"--answerer: there is no program {quoted(name)}; give its path or install it."
        )
    return words


def program_name(command: str) -> str:
    """The name of a command's program.

    Examples
    --------
    >>> program_name("/usr/bin/env answer --fast")
    'env'
    """
    return Path(shlex.split(command)[0]).name


def question_content(question: Question, content: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """A question as plain data, with the content of each row in place of its number."""

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [content(row) for row in value]
        return value if isinstance(value, bool | str) else content(value)

    return {name: filled(value) for name, value in question_to_dict(question).items()}


def parse_answer(
    line: bytes, question: Question, number: int, content: Callable[[int], dict[str, Any]]
) -> Reply:
    """The reply in a line such as ``{"answer": 904}``; rows may be named by number or by ID."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidAnswerError('it is not JSON; an answer is a line such as {"answer": "none"}.') from None
    if not isinstance(said, dict) or "answer" not in said:
        raise InvalidAnswerError('it has no "answer"; an answer is a line such as {"answer": "none"}.')
    if said.get("number", number) != number:
        raise InvalidAnswerError(f"it answers question {str(said['number'])[:_SHOWN]}.")
    reply = plain_reply(_rows_of(said["answer"], question.rows, content))
    question.links(reply)  # refuses what does not fit
    return reply


def _rows_of(answer: Any, rows: Sequence[int], content: Callable[[int], dict[str, Any]]) -> Any:
    """The answer with row numbers in place of IDs."""
    row_of = {content(row).get("id"): row for row in rows}
    if isinstance(answer, list):
        return [row_of.get(part, part) if isinstance(part, str) else part for part in answer]
    return row_of.get(answer, answer) if isinstance(answer, str) else answer

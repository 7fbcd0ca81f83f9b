"""What a command prints: results on stdout, everything else on stderr, progress only on a terminal."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from spherepair.cli import ending_word

if TYPE_CHECKING:
    from spherepair.training import TrainingState

DONE, BAD_INPUT, CONTRADICTORY, BUG, INTERRUPTED = 0, 2, 3, 70, 130
#: Seconds between two lines of progress in a log.
LINE_SECONDS = 10.0
#: Seconds before a progress bar appears.
BAR_DELAY_SECONDS = 2.0
NOTHING_WRITTEN = "interrupted; nothing was written."

#: Phrases in the library's messages, and the command-line options that replace them.
_OPTIONS = (
    ("fill them in, for instance with sklearn.impute.SimpleImputer.", "fill them in."),
    ("Give ids= if the file names rows by an id.", "Give --id COLUMN if the file names rows by an id."),
    ('on_conflict="weigh"', "--on-conflict weigh"),
    ("lower batch_size or hidden_dims,", "choose smaller --hidden-dims,"),
    ("device='cpu'", "--device cpu"),
    ("device='auto'", "--device auto"),
    ("embedding_dim", "--embedding-dim"),
    ("n_clusters=", "--clusters "),
    ("max_epochs", "--max-epochs"),
    ("random_state", "--seed"),
)
#: The same for parameters that hold names of columns.
_COLUMN_OPTIONS = (
    (r"as_=\{['\"](.+?)['\"]: ['\"](\w+)['\"]\}", r"--as \2:\1"),
    (r"drop=\['(.+?)'\]", r"--drop \1"),
    (r'on_(?:empty="keep"|unreadable="empty")', "--keep-empty"),
)


class InterruptedCommand(Exception):  # noqa: N818
    """Ctrl-C, with a sentence that says what to do next."""


class ReaderGone(Exception):  # noqa: N818
    """The reader of our output (``head``, a pager) has closed the pipe."""


class Terminal:
    """Collects warnings, shows progress and prints the result of one command.

    Parameters
    ----------
    command : str
        Name of the command, the first entry of its JSON.
    as_json : bool
        Print one JSON object instead of text.
    quiet : bool
        Print no progress and no text; warnings, errors and JSON remain.
    """

    def __init__(self, command: str, *, as_json: bool = False, quiet: bool = False) -> None:
        self.command, self.as_json, self.quiet = command, as_json, quiet
        self.warnings: list[str] = []
        self.written: list[str] = []
        self._errors = Console(stderr=True)

    def wrote(self, path: object) -> None:
        """Remember a finished output; a later interruption names it."""
        self.written.append(str(path))

    def warn(self, message: str) -> None:
        """Print a warning on stderr, once, and add it to the JSON."""
        line = in_options(message)
        if line not in self.warnings:
            self.warnings.append(line)
            sys.stderr.write(f"warning: {line}\n")

    def note(self, text: str) -> None:
        """Print on stderr what is being done."""
        if not (self.quiet or self.as_json):
            sys.stderr.write(f"{text}\n")

    @contextmanager
    def spinner(self, text: str) -> Iterator[None]:
        """Show a spinner for work of unknown length."""
        if self.quiet or not self._errors.is_terminal:
            yield
            return
        with self._errors.status(text):
            yield

    @contextmanager
    def progress_bar(self, text: str) -> Iterator[ProgressBar]:
        """Show a progress bar once two seconds have passed."""
        bar = ProgressBar(text, self._errors, is_quiet=self.quiet)
        try:
            yield bar
        finally:
            bar.close()

    def print_result(self, fields: dict[str, Any], text: Sequence[str]) -> None:
        """Print the fields as JSON, or the lines of text."""
        if self.as_json:
            write_json({"command": self.command, **fields, "warnings": self.warnings})
        elif not self.quiet:
            write_out("\n".join(text) + "\n")


class ProgressBar:
    """A progress bar on stderr that appears after two seconds and disappears when the work is done.

    If stderr is a file or a pipe, a line is printed every ten seconds instead.
    """

    def __init__(self, text: str, console: Console, *, is_quiet: bool) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[remark]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=is_quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task(text, total=None, remark="")
        self._started = self._last_line = time.monotonic()
        self._is_shown = False
        self._log = None if console.is_terminal or is_quiet else console.file

    def show(self, text: str, done: int, *, total: int | None, remark: str = "") -> None:
        """Move the bar; the total may be unknown."""
        now = time.monotonic()
        if self._log is not None and now - self._last_line > LINE_SECONDS:
            self._last_line = now
            told = f"{done}" if total is None else f"{done} of {total}"
            self._log.write(f"{text}: {told} {remark} ({now - self._started:.0f} s)\n")
            self._log.flush()
        if not self._is_shown and now - self._started > BAR_DELAY_SECONDS:
            self._progress.start()
            self._is_shown = True
        self._progress.update(self._task, description=text, completed=done, total=total, remark=remark)

    def follow(self, state: TrainingState) -> None:
        """Show the state of the training; passed to an estimator as ``progress``."""
        loss = f"loss {state.records[-1]['loss']:.4f}"
        self.show(state.stage, state.epoch, total=state.max_epochs, remark=loss)

    def close(self) -> None:
        """Remove the bar."""
        if self._is_shown:
            self._progress.stop()


@contextmanager
def command_terminal(
    command: str, *, as_json: bool = False, quiet: bool = False, interrupted: str = NOTHING_WRITTEN
) -> Iterator[Terminal]:
    """Terminal of a command: Python warnings become lines, Ctrl-C becomes a sentence."""
    terminal = Terminal(command, as_json=as_json, quiet=quiet)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        terminal.warn(str(message))

    with warnings.catch_warnings():
        # PYTHONWARNINGS=error is meant for developers, not for this command.
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield terminal
        except KeyboardInterrupt as error:
            done = f"interrupted; {' and '.join(terminal.written)} had already been written."
            said = done if terminal.written else interrupted
            raise InterruptedCommand(said.replace("interrupted", ending_word(), 1)) from error


def in_options(sentence: str) -> str:
    """The sentence on one line, with options in place of parameters.

    Examples
    --------
    >>> in_options("the GPU is full; use device='cpu'.")
    'the GPU is full; use --device cpu.'
    """
    line = " ".join(sentence.split())
    for parameter, option in _OPTIONS:
        # Not in a list of names: an experiment may be named like a parameter.
        line = re.sub(f"(?<!, ){re.escape(parameter)}(?!, )", option, line)
    return column_options(line)


def column_options(text: str) -> str:
    """The text with options in place of parameters that name columns.

    Examples
    --------
    >>> column_options("leave it out with drop=['age'], or as_={'age': 'number'}")
    'leave it out with --drop age, or --as number:age'
    """
    for parameter, option in _COLUMN_OPTIONS:
        text = re.sub(parameter, option, text)
    return text


def as_text(renderable: RenderableType) -> str:
    """Render a rich object as text for stdout; in color only on a terminal."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else 110
    stream = io.StringIO()
    Console(file=stream, force_terminal=is_terminal, width=width).print(renderable)
    return stream.getvalue().rstrip("\n")


def write_json(content: dict[str, Any]) -> None:
    """Print one JSON object on one line of stdout; NaN and infinity become null."""
    write_out(json.dumps(_finite(content), allow_nan=False, default=str) + "\n")


def write_out(text: str) -> None:
    """Write to stdout; raise `ReaderGone` if the pipe is closed."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        # Python flushes stdout again at exit and would complain about the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ReaderGone from error


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

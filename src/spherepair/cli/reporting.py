"""What a command says: results on stdout, everything else on stderr, progress only on a terminal."""

from __future__ import annotations

import io
import json
import math
import os
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

from spherepair.cli.endings import InterruptedCommand, ReaderGone, in_options

if TYPE_CHECKING:
    from spherepair.training.engine import TrainingState

#: Between two lines of progress in a log.
LINE_SECONDS = 10.0
#: Anything that takes longer shows a bar.
QUIET_SECONDS = 2.0
INTERRUPTED = "interrupted; nothing was written."


class Report:
    """Collects warnings, shows progress and prints the result of one command.

    Parameters
    ----------
    command : str
        Name of the command, the first entry of its JSON.
    as_json : bool
        Print one JSON object instead of text.
    quiet : bool
        No progress and no text; warnings, errors and JSON remain.
    """

    def __init__(self, command: str, *, as_json: bool = False, quiet: bool = False) -> None:
        self.command, self.as_json, self.quiet = command, as_json, quiet
        self.warnings: list[str] = []
        self.written: list[str] = []
        self._errors = Console(stderr=True)

    def wrote(self, path: object) -> None:
        """Something is done already, whatever happens to the rest."""
        self.written.append(str(path))

    def warn(self, message: str) -> None:
        """One line on stderr, and an entry of the JSON."""
        line = in_options(message)
        if line not in self.warnings:
            self.warnings.append(line)
            sys.stderr.write(f"warning: {line}\n")

    def note(self, text: str) -> None:
        """Say on stderr what is being done."""
        if not (self.quiet or self.as_json):
            sys.stderr.write(f"{text}\n")

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show a spinner for work whose length is unknown."""
        if self.quiet or not self._errors.is_terminal:
            yield
            return
        with self._errors.status(what):
            yield

    @contextmanager
    def bar(self, what: str) -> Iterator[LateBar]:
        """Show a bar once two seconds are over."""
        bar = LateBar(what, self._errors, is_quiet=self.quiet)
        try:
            yield bar
        finally:
            bar.close()

    def finish(self, fields: dict[str, Any], text: Sequence[str]) -> None:
        """Print the result: the fields as JSON, or the lines of text."""
        if self.as_json:
            write_json({"command": self.command, **fields, "warnings": self.warnings})
        elif not self.quiet:
            write_out("\n".join(text) + "\n")


class LateBar:
    """A progress bar on stderr that appears after two seconds and vanishes when all is done.

    Where stderr is a file or a pipe, a line now and then says how far things are.
    """

    def __init__(self, what: str, console: Console, *, is_quiet: bool) -> None:
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
        self._task = self._progress.add_task(what, total=None, remark="")
        self._started = self._last_line = time.monotonic()
        self._is_shown = False
        self._lines = None if console.is_terminal or is_quiet else console.file

    def show(self, what: str, done: int, *, total: int, remark: str = "") -> None:
        """Move the bar."""
        now = time.monotonic()
        if self._lines is not None and now - self._last_line > LINE_SECONDS:
            self._last_line = now
            self._lines.write(f"{what}: {done} of {total} {remark} ({now - self._started:.0f} s)\n")
            self._lines.flush()
        if not self._is_shown and now - self._started > QUIET_SECONDS:
            self._progress.start()
            self._is_shown = True
        self._progress.update(self._task, description=what, completed=done, total=total, remark=remark)

    def follow(self, state: TrainingState) -> None:
        """Show where training stands; an estimator's ``progress``."""
        loss = f"loss {state.records[-1]['loss']:.4f}"
        self.show(state.stage, state.epoch, total=state.max_epochs, remark=loss)

    def close(self) -> None:
        """Take the bar away."""
        if self._is_shown:
            self._progress.stop()


@contextmanager
def reporting(
    command: str, *, as_json: bool = False, quiet: bool = False, interrupted: str = INTERRUPTED
) -> Iterator[Report]:
    """A report whose warnings are lines, and whose Ctrl-C is a sentence."""
    report = Report(command, as_json=as_json, quiet=quiet)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        report.warn(str(message))

    with warnings.catch_warnings():
        # Python's own switches (PYTHONWARNINGS=error) are for developers, not for this command.
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        try:
            yield report
        except KeyboardInterrupt as error:
            done = f"interrupted; {' and '.join(report.written)} had been written."
            raise InterruptedCommand(done if report.written else interrupted) from error


def as_text(renderable: RenderableType) -> str:
    """What rich draws, as text for stdout; with colours only where a person is watching."""
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal else 110
    stream = io.StringIO()
    Console(file=stream, force_terminal=is_terminal, width=width).print(renderable)
    return stream.getvalue().rstrip("\n")


def write_json(content: dict[str, Any]) -> None:
    """One JSON object on one line of stdout; a number that JSON lacks becomes null."""
    write_out(json.dumps(_finite(content), allow_nan=False, default=str) + "\n")


def write_out(text: str) -> None:
    """Write to stdout, and notice when nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        # Python flushes stdout once more at its end, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ReaderGone from error


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

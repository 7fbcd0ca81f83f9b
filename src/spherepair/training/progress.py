"""A line of progress on the terminal, after two seconds, at most ten times a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from spherepair.errors import InvalidParameterError
from spherepair.training.engine import Monitor, TrainingState

QUIET_SECONDS = 2.0
REFRESH_SECONDS = 0.1


class TerminalProgress:
    """Writes stage, epoch and loss over one line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._started = self._last = time.monotonic()

    def __call__(self, state: TrainingState) -> None:
        """Show the state, unless it is too early or too soon."""
        now = time.monotonic()
        is_end = state.epoch == state.max_epochs
        if now - self._started < QUIET_SECONDS or (now - self._last < REFRESH_SECONDS and not is_end):
            return
        self._last = now
        loss = state.records[-1]["loss"]
        self._stream.write(f"\r{state.stage}: epoch {state.epoch}/{state.max_epochs}, loss {loss:.4f}\x1b[K")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._last > self._started:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def resolve_progress(progress: bool | str | Callable[[TrainingState], None]) -> Monitor | None:
    """The monitor for a ``progress`` parameter.

    ``"auto"`` shows progress where a person is watching (an interactive terminal), ``True`` always,
    ``False`` never; a callable is called with the state after every epoch.
    """
    if callable(progress):
        return progress
    if progress == "auto":
        progress = sys.stderr.isatty()
    if not isinstance(progress, bool):
        raise InvalidParameterError(
            f"progress must be 'auto', True, False or a callable, got {progress!r} instead."
        )
    return TerminalProgress(sys.stderr) if progress else None

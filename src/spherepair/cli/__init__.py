"""The command line: parse, call the library, print."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress

#: Until the first signal can be handled, nothing is loaded that takes time; see the package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType
    from typing import Any

#: Packages of the extra ``cli`` that every command needs.
_REQUIRED = frozenset({"typer", "rich", "click"})


#: Signals that end a command, with what is said.
_ENDING = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
#: The signal that was received, if any.
_received: list[int] = []


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    The codes are 0 done, 2 bad input, 3 contradictory pairs, 70 a bug of ours, 130 interrupted, 143
    terminated; ``bench run`` returns 1 when some runs failed.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program name; by default those of this process.
    """
    try:
        with _signals(_end_at_once):
            _set_thread_policy()
            from spherepair.cli.app import prepare

            command = prepare(list(sys.argv[1:] if argv is None else argv))
        with _signals(_end_in_order):
            return command()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _REQUIRED:
            raise
        sys.stderr.write(f'error: the command line needs {error.name}; pip install "spherepair[cli]".\n')
        return 2
    except KeyboardInterrupt:  # outside of what a command watches itself
        sys.stderr.write(f"{ending_word()}; nothing was written.\n")
        return ending_code()


@contextmanager
def _signals(handler: Any) -> Iterator[None]:
    """Handle signals while the block runs; Python lets nobody do so in another thread than the first."""
    before = {}
    with suppress(ValueError):
        before = {number: signal.signal(number, handler) for number in _ENDING}
        _received.clear()
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """Nothing is written while modules load, and an exception would be lost in them."""
    os.write(2, f"{_ENDING[signal.Signals(number)]}; nothing was written.\n".encode())
    os._exit(128 + number)


def _end_in_order(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C: what is being written is put in order first."""
    _received.append(number)
    raise KeyboardInterrupt


def ending_code() -> int:
    """Exit code of a command that a signal has ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def ending_word() -> str:
    """What to say of it."""
    return _ENDING[signal.Signals(_received[0])] if _received else _ENDING[signal.SIGINT]


def was_ended() -> bool:
    """Whether a signal was received: errors that follow are its consequences."""
    return bool(_received)


def _set_thread_policy() -> None:
    """Set what OpenMP and mimalloc read when torch loads them; the user's own settings win.

    By default OpenMP threads spin while they wait for each other. On a busy machine this keeps the thread
    they wait for from running, and a training step takes many times as long. GNU OpenMP can spin briefly
    and then sleep. Mimalloc, torch's allocator on ARM, can keep freed memory for a second, so that the
    next step reuses it.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")

"""The command line: parse, call the library, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

#: Packages of the extra ``cli`` that every command needs.
_REQUIRED = frozenset({"typer", "rich", "click"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    The codes are 0 done, 2 bad input, 3 contradictory pairs, 130 interrupted; ``bench run`` returns 1 when
    some runs failed.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the program name; by default those of this process.
    """
    try:
        _set_thread_policy()
        from spherepair.cli.app import run

        return run(list(sys.argv[1:] if argv is None else argv))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _REQUIRED:
            raise
        sys.stderr.write(f'error: the command line needs {error.name}; pip install "spherepair[cli]".\n')
        return 2
    except KeyboardInterrupt:  # while modules are loading; commands handle their own
        sys.stderr.write("interrupted; nothing was written.\n")
        return 130


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

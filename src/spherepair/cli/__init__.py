"""The command line: parse, call the library, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: What the extra ``cli`` brings and the commands cannot do without.
_NEEDED = frozenset({"typer", "rich", "click"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input, 3 contradictory pairs, 130 interrupted.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the name of the program; those of this process when missing.
    """
    try:
        from spherepair.cli.app import run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(f'error: the command line needs {error.name}; pip install "spherepair[cli]".\n')
        return 2
    except KeyboardInterrupt:
        return _interrupted()
    try:
        return run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # while a command's module is loaded
        return _interrupted()


def _interrupted() -> int:
    sys.stderr.write("interrupted; nothing was written.\n")
    return 130

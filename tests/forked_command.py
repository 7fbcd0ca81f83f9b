"""A command of ours in a process that is forked off: a fresh interpreter takes seconds to load torch."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

import spherepair
from spherepair.cli import main

Process = multiprocessing.process.BaseProcess


def fork_process(function: Callable[..., None], *arguments: object) -> Process:
    """Start a function in a process of its own."""
    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads; what is started here uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
        process.start()
    return process


class ForkedCommand:
    """Like :class:`subprocess.Popen` of ``python -m spherepair``, as far as tests need it."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self._said = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        files = [file.fileno() for file in self._said]
        self._process = fork_process(_run_into, list(map(str, arguments)), environment, *files)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def out(self) -> str:
        """What it has said so far."""
        return _content(self._said[0])

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        """Wait for its end; what it said on stdout and stderr."""
        self._process.join(timeout)
        assert self.poll() is not None, "the command did not end in time"
        said = [_content(file) for file in self._said]
        for file in self._said:
            file.close()
        return said[0], said[1]


def _content(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), 1 << 24, 0).decode()


def _run_into(arguments: list[str], environment: dict[str, str], out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    run_and_leave(arguments, **environment)


def run_and_leave(arguments: list[str], **environment: str) -> NoReturn:
    """Be the command, in a process that was forked off."""
    code = 70
    try:
        os.environ.update({"OMP_NUM_THREADS": "1", **environment})
        asyncio._set_running_loop(None)  # a browser of the tests left one in the process that was forked
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False) for number in range(3)
        )
        sys.argv = [str(Path(spherepair.__file__).with_name("__main__.py")), *arguments]
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # nothing that the tests have left to do is done here

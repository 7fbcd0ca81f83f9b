"""Locks between processes, so that none does the work of another."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spherepair.errors import MissingDependencyError


@contextmanager
def file_lock(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock while the block runs; yields False if another process holds it.

    The operating system releases the lock when the process dies, so a killed process blocks nobody. The
    file says who holds it, for people.

    Parameters
    ----------
    path : Path
        The lock file; its folder must exist.
    wait : bool, default=False
        Wait until the other process releases the lock.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "lock"
    >>> with file_lock(file) as first, file_lock(file) as second:
    ...     print(first, second)
    True False
    """
    descriptor = _acquire(path, wait=wait)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        # Removed while still locked: whoever waits for this very file sees that it is gone and tries again.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path, *, wait: bool) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(descriptor, wait=wait):
                os.close(descriptor)
                return None
            if _is_still_there(descriptor, path):
                _write_holder(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    try:
        import fcntl
    except ImportError as error:
        raise MissingDependencyError("bench run needs the file locks of Linux or macOS.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _is_still_there(descriptor: int, path: Path) -> bool:
    """Whether the locked file still has that name: its former holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _write_holder(descriptor: int) -> None:
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)

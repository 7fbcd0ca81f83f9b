"""Who does what: a claim on a piece of work that ends with its process, however that ends.

A claim is a locked file. The operating system lets go of the lock when the process dies, so a killed
process leaves nothing to be cleaned up and nothing that could be taken for alive (process numbers come
round again). The file says who holds it, for people.
"""

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
def claim(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a claim while the block runs; gives False where another process holds it.

    Parameters
    ----------
    path : Path
        The file that stands for the work; its folder must exist.
    wait : bool, default=False
        Wait until the other process lets go.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "work"
    >>> with claim(file) as mine, claim(file) as also_mine:
    ...     print(mine, also_mine)
    True False
    """
    descriptor = _take(path, wait=wait)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        # Unlinked while still locked: whoever waits for this very file sees that it is gone and tries anew.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path, *, wait: bool) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(descriptor, wait=wait):
                os.close(descriptor)
                return None
            if _is_still_there(descriptor, path):
                _sign(descriptor)
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
    """Whether the locked file is the one of that name: its former holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)

"""Files: atomic writes and locks here; readers in :mod:`~spherepair.files.columns` and ``data_tables``.

A file or folder that is written appears whole, or what was there before stays.

The content is written under a temporary name in the same folder, flushed to the disk and renamed.
On any failure the temporary is removed, and the error names the target instead of the temporary.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spherepair.errors import MissingDependencyError

#: Names the folder of data sets and of what is kept between runs.
DATA_VARIABLE = "SPHEREPAIR_DATA"


def data_folders() -> list[Path]:
    """Where data sets are looked for, in order; the first is also where downloads and encodings are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    given = os.environ.get(DATA_VARIABLE)
    return [*([Path(given).expanduser()] if given else []), Path(base).expanduser() / "spherepair"]


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, suffix: str = ".tmp", unique: bool = True
) -> Iterator[Path]:
    """Temporary path to write to; it replaces `path` when the block ends without an error.

    Parameters
    ----------
    path : path
        The file to write.
    suffix : str
        Ending of the temporary name, for writers that go by it.
    unique : bool
        Whether the temporary name is drawn at random. A fixed name is overwritten by the next
        write if a killed process left it behind, but allows one writer at a time only.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(f"{folder}/note.txt") as temporary:
    ...         _ = temporary.write_text("hello")
    ...     [file.name for file in Path(folder).iterdir()]
    ['note.txt']
    """
    target = Path(path)
    token = f".{secrets.token_hex(4)}" if unique else ""
    temporary = target.with_name(f".{target.name}{token}{suffix}")
    try:
        yield temporary
        _flush_to_disk(temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise _about_target(error, temporary, target) from error.__cause__
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes to a file, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text to a file in UTF-8, whole or not at all; lone surrogates become question marks."""
    atomic_write_bytes(path, text.encode("utf-8", errors="replace"))


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Temporary folder to write into; it replaces the folder `path` when the block ends without an error.

    A rename cannot replace a folder that holds files: the older one is first renamed to
    ``.NAME.TOKEN.old``, which is what a process killed between the two renames leaves behind.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            _flush_to_disk(file)
        _swap(temporary, target)
    except OSError as error:
        raise _about_target(error, temporary, target) from error.__cause__
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(fresh: Path, target: Path) -> None:
    if not target.exists():
        os.replace(fresh, target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    try:
        os.replace(target, old)
        os.replace(fresh, target)
    except BaseException:
        if not target.exists():
            os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _flush_to_disk(file: Path) -> None:
    """Wait until a file is on the disk: after a power cut, a renamed file may else be empty."""
    descriptor = os.open(file, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _about_target(error: OSError, temporary: Path, target: Path) -> OSError:
    """The error with the name of the target; an error about some other file stays as it is."""
    if error.errno is None:  # only a sentence
        error.args = tuple(str(part).replace(str(temporary), str(target)) for part in error.args)
        return error
    if error.filename is not None and not os.fsdecode(error.filename).startswith(str(temporary)):
        return error
    # Not error.strerror: Arrow puts the temporary name into it.
    return OSError(error.errno, os.strerror(error.errno), str(target)).with_traceback(error.__traceback__)


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

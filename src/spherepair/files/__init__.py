"""Files: atomic writes and locks here; readers in :mod:`~spherepair.files.columns` and ``data_tables``.

A file or folder that is written appears whole, or what was there before stays.

The content is written under a temporary name in the same folder, flushed to the disk and renamed.
On any failure the temporary is removed, and the error names the target instead of the temporary.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spherepair.errors import MissingDependencyError

#: Names the folder of data sets and of what is kept between runs.
DATA_VARIABLE = "SPHEREPAIR_DATA"
#: Bytes of a name that leave room for what a temporary name adds; a name may have 255.
LONGEST_NAME = 200
#: What :func:`atomic_write` writes to, on any host, for a target of a short name: the group.
TEMPORARY_NAME = re.compile(r"\.(.+)\.[0-9a-f]{8}-[0-9]+-[0-9a-f]{8}\.tmp")


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

    A link is followed; a pipe or a device is written to, not replaced.

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
    target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
    if target.is_fifo() or target.is_char_device():
        with _copied_to(target, suffix) as temporary:
            yield temporary
        return
    temporary = _temporary_name(target, suffix, unique=unique)
    try:
        yield temporary
        _flush_to_disk(temporary)
        os.replace(temporary, target)
        _flush_to_disk(target.parent)
    except OSError as error:
        raise _about_target(error, temporary, target) from error.__cause__
    finally:
        temporary.unlink(missing_ok=True)
    if unique:
        _sweep(target)


@contextmanager
def _copied_to(target: Path, suffix: str) -> Iterator[Path]:
    """Temporary path whose content is copied to a pipe or a device at the end."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"content{suffix}"
        yield temporary
        with temporary.open("rb") as source, target.open("wb") as stream:
            shutil.copyfileobj(source, stream)


def _temporary_name(target: Path, suffix: str, *, unique: bool = True) -> Path:
    """A hidden name beside the target that says which process writes there.

    Of a long name only the beginning is taken, so that the temporary name is not too long.
    """
    token = f".{_host()}-{os.getpid()}-{secrets.token_hex(4)}" if unique else ""
    return target.with_name(f"{_hidden(target)}{token}{suffix}")


def _hidden(target: Path) -> str:
    return f".{target.name if len(os.fsencode(target.name)) <= LONGEST_NAME else target.name[:40]}"


def _host() -> str:
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _sweep(target: Path, *, is_written: bool = True) -> None:
    """Remove what killed writers of the same target have left behind.

    An older folder that was just being replaced stays until the new one is written: it may be all there is.
    """
    start, host = f"{_hidden(target)}.", _host()
    names = [name for name in os.listdir(target.parent) if name.startswith(start)]
    for found in (target.with_name(name) for name in names):
        written_by = re.match(r"([0-9a-f]{8})-([0-9]+)-[0-9a-f]{8}\.", found.name[len(start) :])
        if written_by is None or written_by[1] != host or _is_running(int(written_by[2])):
            continue
        if found.is_dir() and (is_written or found.suffix != ".old"):
            shutil.rmtree(found, ignore_errors=True)
        elif not found.is_dir():
            with suppress(OSError):  # of another user
                found.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def try_to_create(path: str | os.PathLike[str], *, folder: bool = False) -> None:
    """Raise the ``OSError`` that writing this file or folder would raise; nothing of the trial stays.

    Examples
    --------
    >>> try_to_create("/proc/none/model", folder=True)
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: '/proc/none'
    """
    target = Path(os.path.realpath(path))
    if target.is_fifo() or target.is_char_device():
        return
    missing = [parent for parent in target.parents if not parent.exists()]
    made: list[Path] = []
    # Not the target itself: a process that is killed at this moment would leave an empty one.
    trial = _temporary_name(target, ".tmp")
    try:
        for parent in reversed(missing):
            parent.mkdir()
            made.append(parent)
        with suppress(FileNotFoundError):
            os.lstat(target)  # its name may be too long
        if folder:
            trial.mkdir()
            trial.rmdir()
        else:
            os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            trial.unlink()
        _sweep(target, is_written=False)
    except OSError as error:
        raise _about_target(error, trial, target) from None
    finally:
        for parent in reversed(made):
            parent.rmdir()


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

    On Linux the two are exchanged in one step. Elsewhere a rename cannot replace a folder that holds files:
    the older one is first renamed to what :func:`left_behind` finds, should the process be killed then.
    """
    target = Path(path)
    temporary = _temporary_name(target, ".tmp")
    try:
        temporary.mkdir()
        yield temporary
        for file in (*temporary.iterdir(), temporary):
            _flush_to_disk(file)
        _swap(temporary, target)
        _flush_to_disk(target.parent)
    except OSError as error:
        raise _about_target(error, temporary, target) from error.__cause__
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sweep(target)


def left_behind(target: Path) -> Path | None:
    """The older folder of a writer that was killed just before the new one took its name."""
    if target.exists() or not target.parent.is_dir():
        return None
    found = [p for p in target.parent.iterdir() if p.name.startswith(f"{_hidden(target)}.")]
    return max((p for p in found if p.suffix == ".old"), key=lambda p: p.stat().st_mtime_ns, default=None)


def _swap(fresh: Path, target: Path) -> None:
    if not target.exists():
        try:
            os.replace(fresh, target)
            return
        except OSError:
            if not target.exists():
                raise  # else another writer was faster
    if _exchange(fresh, target):
        return
    old = fresh.with_suffix(".old")
    try:
        os.replace(target, old)
        os.replace(fresh, target)
    except BaseException:
        if not target.exists():
            os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _flush_to_disk(file: Path) -> None:
    """Wait until a file or folder is on the disk: after a power cut, a renamed file may else be empty."""
    if os.name != "posix" and file.is_dir():
        return  # cannot be opened
    descriptor = os.open(file, os.O_RDONLY if file.is_dir() else os.O_RDWR)
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
        raise MissingDependencyError("this needs the file locks of Linux or macOS.") from error
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

"""Small disks that become full, for ``chaos.py``."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Size of the small disk.
DISK = "3m"
#: Exit codes of a command that could not write: 1 where some runs of a grid failed.
REFUSED = (1, 2)


@contextmanager
def too_little_room(out: Path, left: int, *, is_disk: bool = True) -> Iterator[int | None]:
    """Fill the disk but for some bytes, or say how long a file may become."""
    if not is_disk:
        yield max(left, 4096)  # what the command says goes into a file too
        return
    filler = out / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while stream.write(bytes(4096)):
            pass
    os.truncate(filler, max(0, filler.stat().st_size - left))
    try:
        yield None
    finally:
        filler.unlink()


@contextmanager
def small_disk(given: Path | None) -> Iterator[tuple[Path, bool]]:
    """A folder on a small file system, and whether it is one."""
    if given is not None:
        yield given, True
        return
    with tempfile.TemporaryDirectory() as folder:
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder]
        is_disk = subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode == 0
        try:
            yield Path(folder), is_disk
        finally:
            if is_disk:
                subprocess.run(["umount", "-l", folder], check=False)

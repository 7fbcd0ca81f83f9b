"""The record of an interview, one line of JSON an answer, and the project folder it lies in.

The first line names the rows by their fingerprint; every further line is an answer or takes one back.
Lines are only ever appended. A line that a killed process left half-written was never acknowledged and is
cut off.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from scipy import sparse

from spherepair.asking.questions import Answer, require_rows
from spherepair.constraints.labels_and_answers import FORMAT, LONGEST_LINE, VERSION
from spherepair.errors import RecordError
from spherepair.files import atomic_write, atomic_write_text

RECORD_FILE, DENSE_FILE, SPARSE_FILE, ITEMS_FILE = "answers.jsonl", "rows.npy", "rows.npz", "items.json"


class Record(Protocol):
    """Where events are appended to; the interview reads it once, at the start."""

    def append(self, event: dict[str, Any]) -> None:
        """Keep an event for good before returning."""
        ...

    def __iter__(self) -> Iterator[dict[str, Any]]: ...


class MemoryRecord:
    """A record that lives as long as the interview."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def append(self, event: dict[str, Any]) -> None:
        """Keep an event."""
        self._events.append(event)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(list(self._events))


class FileRecord:
    """A record in a file that one process at a time may append to.

    Parameters
    ----------
    path : path
        Made if it is not there.
    fingerprint : str
        Of the rows; a record of other rows is refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, fingerprint: str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{self.path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RecordError(
                f"{self.path} is in use by another process; close it there first, or give another file."
            ) from error
        try:
            self._events = self._recover(fingerprint)
            self._file = self.path.open("ab", buffering=0)
            if not self._file.tell():
                self._write({"format": FORMAT, "version": VERSION, "rows": fingerprint})
        except BaseException:
            self._lock.release()
            raise

    def append(self, event: dict[str, Any]) -> None:
        """Write an event and wait until the disk has it."""
        self._write(event)
        self._events.append(event)

    def close(self) -> None:
        """Let other processes have the file."""
        self._file.close()
        self._lock.release()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(list(self._events))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, event: dict[str, Any]) -> None:
        start = self._file.seek(0, os.SEEK_END)
        try:
            line = memoryview(json.dumps(event, ensure_ascii=False).encode() + b"\n")
            while line:
                line = line[self._file.write(line) or 0 :]
            os.fsync(self._file.fileno())
        except BaseException as error:  # a full disk, Ctrl-C: nothing half-written stays
            os.truncate(self.path, start)
            if not isinstance(error, OSError):
                raise
            raise RecordError(
                f"the answer could not be written to {self.path} ({error.strerror}); nothing was changed."
            ) from error

    def _recover(self, fingerprint: str) -> list[dict[str, Any]]:
        if not self.path.exists() or not self.path.stat().st_size:
            return []
        events, end = read_events(self.path)
        if events[0].get("rows") != fingerprint:
            raise RecordError(
                f"{self.path} is a record of other rows; give the table it was made with, or another file."
            )
        os.truncate(self.path, end)
        return events[1:]


def open_record(record: str | os.PathLike[str] | Record | None, *, fingerprint: str) -> Record:
    """The record at a path, a record as it is, or one in memory."""
    if record is None:
        return MemoryRecord()
    if isinstance(record, str | os.PathLike):
        return FileRecord(record, fingerprint=fingerprint)
    return record


def close_record(record: Record) -> None:
    """Let other processes have a record that lies in a file."""
    if isinstance(record, FileRecord):
        record.close()


def standing_answers(events: Iterable[dict[str, Any]], n_rows: int) -> list[Answer]:
    """The answers that no later event takes back; each must be about rows that there are."""
    answers: list[Answer] = []
    for event in events:
        if event.get("event") == "undo":
            answers = [answer for answer in answers if answer.number != event.get("number")]
        else:
            answers.append(Answer.from_dict(event))
            require_rows(answers[-1].question, n_rows)
    return answers


def read_events(path: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], int]:
    """All whole lines of a record, the header first, and where the last of them ends."""
    events: list[dict[str, Any]] = []
    end = 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                break  # half-written
            events.append(_event(line, number, path))
            end += len(line)
    if not events or events[0].get("format") != FORMAT or events[0].get("version") != VERSION:
        raise RecordError(f"{path} is not a record of answers of this version of spherepair.")
    return events, end


def _event(line: bytes, number: int, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: line {number} is not a line of a record of answers.") from error
    if not isinstance(event, dict):
        raise RecordError(f"{path}: line {number} is not a line of a record of answers.")
    return event


def write_project(
    folder: Path, X: Any, items: Any, *, events: list[dict[str, Any]], fingerprint: str
) -> FileRecord:
    """Write rows and items, and a record with these events; returns the record, open for more."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECORD_FILE
    if path.exists() and path.stat().st_size:
        raise RecordError(
            f"{folder} holds an interview already; go on with it by Interview.open, or give another folder."
        )
    if sparse.issparse(X):
        with atomic_write(folder / SPARSE_FILE, suffix=".npz") as temporary:
            sparse.save_npz(temporary, X)
    else:
        with atomic_write(folder / DENSE_FILE, suffix=".npy") as temporary:
            np.save(temporary, np.asarray(X), allow_pickle=False)
    if items is not None:
        shown = [item if isinstance(item, str | int | float) else str(item) for item in items]
        atomic_write_text(folder / ITEMS_FILE, json.dumps(shown))
    record = FileRecord(path, fingerprint=fingerprint)
    for event in events:
        record.append(event)
    return record


def read_project(folder: Path, X: Any = None) -> tuple[Any, Any, FileRecord]:
    """Rows, items and the record of a project."""
    path = folder / RECORD_FILE
    if not path.exists():
        raise RecordError(f"{folder} is not a project: it has no {RECORD_FILE}.")
    if X is None:
        X = _rows(folder)
    items_file = folder / ITEMS_FILE
    items = json.loads(items_file.read_text()) if items_file.exists() else None
    return X, items, FileRecord(path, fingerprint=fingerprint_rows(X))


def _rows(folder: Path) -> Any:
    if (folder / SPARSE_FILE).exists():
        return sparse.load_npz(folder / SPARSE_FILE)
    if (folder / DENSE_FILE).exists():
        return np.load(folder / DENSE_FILE, mmap_mode="c", allow_pickle=False)
    raise RecordError(f"{folder} does not hold the rows; give them: Interview.open(folder, X).")


def take_rows(X: Any, index: NDArray[np.int64]) -> Any:
    """Some rows of an array, a CSR matrix or a table of pandas, polars or Arrow."""
    if hasattr(X, "iloc"):
        return X.iloc[index]
    return X.take(index) if hasattr(X, "column_names") else X[index]


def fingerprint_rows(X: Any) -> str:
    """A hash of the shape and of up to 4,096 rows, evenly spaced: the same table has the same one."""
    some = np.unique(np.linspace(0, X.shape[0] - 1, 4096).astype(np.int64))
    rows = take_rows(X, some)
    parts = _sparse_parts(rows) if sparse.issparse(rows) else [np.asarray(rows)]
    digest = hashlib.sha256(repr((tuple(X.shape),)).encode())
    for part in parts:
        plain = part.astype(np.float64) if part.dtype.kind in "fiub" else part.astype(str)
        digest.update(np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()[:32]


def _sparse_parts(rows: Any) -> list[NDArray[Any]]:
    """The values of a sparse matrix and where they stand; as a dense array they may not fit into memory."""
    plain = sparse.coo_array(rows)
    plain.sum_duplicates()
    filled = plain.data != 0
    return [part[filled] for part in (*plain.coords, plain.data)]

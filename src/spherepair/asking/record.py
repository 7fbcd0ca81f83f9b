"""The record of an interview, one line of JSON an answer, and the project folder it lies in.

The first line names the rows by their fingerprint; every further line is an answer or takes one back.
Lines are only ever appended. A line that a killed process left half-written was never acknowledged and is
cut off.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from scipy import sparse

from spherepair.constraints import Constraints
from spherepair.constraints.labels_and_answers import FORMAT, LONGEST_LINE, VERSION, is_json
from spherepair.errors import RecordError
from spherepair.estimators import load
from spherepair.files import atomic_write, atomic_write_text
from spherepair.files.array_files import open_npy, read_array_file

RECORD_FILE, DENSE_FILE, SPARSE_FILE, ITEMS_FILE = "answers.jsonl", "rows.npy", "rows.npz", "items.json"
KNOWN_FILE, SETTINGS_FILE, MODEL_FOLDER = "known_pairs.csv", "interview.json", "model"

#: Rows that are hashed at a time.
HASHED_ROWS = 65_536


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
        self._lock = FileLock(f"{self.path}.lock", thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RecordError(
                f"{self.path} is in use by another process; close it there first, or give another file."
            ) from error
        try:
            header = {"format": FORMAT, "version": VERSION, "rows": fingerprint}
            self._events = self._recover(header)
            self._file = self.path.open("ab", buffering=0)
            if not self._file.tell():
                self._write(header)
        except BaseException:
            self._lock.release()
            raise

    def append(self, event: dict[str, Any]) -> None:
        """Write an event and wait until the disk has it."""
        if self._file.closed:
            raise RecordError(
                f"{self.path} is closed; open the interview again to go on. Nothing was written."
            )
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

    def _recover(self, header: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of the file; what a killed process left half-written is cut off."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            start = file.read(LONGEST_LINE)
        if (
            json.dumps(header).encode().startswith(start)
        ):  # the first line was not finished, or nothing is there
            os.truncate(self.path, 0)
            return []
        events, end = read_events(self.path)
        if not is_of_rows(events[0].get("rows"), header["rows"]):
            raise RecordError(
                f"{self.path} is a record of other rows; give the table it was made with, or another file."
            )
        os.truncate(self.path, end)
        with self.path.open("rb+") as file:  # an editor may have taken the last end of line away
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        return events[1:]


def open_record(record: str | os.PathLike[str] | Record | None, *, fingerprint: Callable[[], str]) -> Record:
    """The record at a path, a record as it is, or one in memory."""
    if record is None:
        return MemoryRecord()
    if isinstance(record, str | os.PathLike):
        return FileRecord(record, fingerprint=fingerprint())
    return record


def close_record(record: Record) -> None:
    """Let other processes have a record that lies in a file."""
    if isinstance(record, FileRecord):
        record.close()


def read_events(path: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], int]:
    """All whole lines of a record, the header first, and where the last of them ends."""
    events: list[dict[str, Any]] = []
    end = 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            is_whole = line.endswith(b"\n") or len(line) == LONGEST_LINE
            if not is_whole and not is_json(line):
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


@dataclass(frozen=True)
class Project:
    """What is in the folder of an interview besides its record and its model.

    Parameters
    ----------
    X : array, CSR matrix or table
    items : sequence or None
    known : Constraints
        Pairs from before the first question.
    strategy : str or None
        Name of one of the strategies; ``None`` for another.
    seed : int
    """

    X: Any
    items: Any
    known: Constraints
    strategy: str | None
    seed: int


def write_project(folder: Path, project: Project, *, record: Record, fingerprint: str) -> Record:
    """Write a project with the events of a record; returns the record in the folder, open for more."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECORD_FILE
    if isinstance(record, FileRecord) and path.exists() and path.samefile(record.path):
        return record  # saved here before: all but the model is there
    if path.exists() and path.stat().st_size:
        raise RecordError(
            f"{folder} holds an interview already; go on with it by Interview.open, or give another folder."
        )
    if sparse.issparse(project.X):
        with atomic_write(folder / SPARSE_FILE, suffix=".npz") as temporary:
            sparse.save_npz(temporary, project.X)
    else:
        with atomic_write(folder / DENSE_FILE, suffix=".npy") as temporary:
            np.save(temporary, np.asarray(project.X), allow_pickle=False)
    if project.items is not None:
        shown = [item if isinstance(item, str | int | float) else str(item) for item in project.items]
        atomic_write_text(folder / ITEMS_FILE, json.dumps(shown))
    if len(project.known):
        project.known.write(folder / KNOWN_FILE)
    settings = {"strategy": project.strategy, "random_state": project.seed}
    atomic_write_text(folder / SETTINGS_FILE, json.dumps(settings))
    saved = FileRecord(path, fingerprint=fingerprint)
    for event in record:
        saved.append(event)
    return saved


def read_project(folder: Path, X: Any = None) -> tuple[Project, FileRecord]:
    """A project and its record, open for more."""
    path = folder / RECORD_FILE
    if not path.exists():
        raise RecordError(f"{folder} is not a project: it has no {RECORD_FILE}.")
    X = _rows(folder) if X is None else X
    items = _json(folder / ITEMS_FILE, default=None)
    settings = _json(folder / SETTINGS_FILE, default={})
    try:
        strategy, seed = settings.get("strategy") or "cards", int(settings.get("random_state", 0))
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"{folder / SETTINGS_FILE} is damaged: it holds no settings.") from error
    known_file = folder / KNOWN_FILE
    known = Constraints.read(known_file) if known_file.exists() else Constraints.from_pairs()
    project = Project(X, items, known, strategy, seed)
    return project, FileRecord(path, fingerprint=fingerprint_rows(X))


def save_project_model(folder: Path, model: Any, n_answers: int) -> None:
    """Keep a model that has learned from so many answers."""
    model.save(folder / MODEL_FOLDER)
    settings = _json(folder / SETTINGS_FILE, default={})
    atomic_write_text(folder / SETTINGS_FILE, json.dumps({**settings, "model_answers": n_answers}))


def load_project_model(folder: Path) -> tuple[Any, int] | None:
    """The model of a project and how many answers it has learned from; ``None`` where there is none."""
    n_answers = _json(folder / SETTINGS_FILE, default={}).get("model_answers")
    if not isinstance(n_answers, int) or not (folder / MODEL_FOLDER).is_dir():
        return None
    return load(folder / MODEL_FOLDER), n_answers


def _json(path: Path, *, default: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: it holds no JSON.") from error


def _rows(folder: Path) -> Any:
    if (folder / SPARSE_FILE).exists():
        return read_array_file(folder / SPARSE_FILE)
    if (folder / DENSE_FILE).exists():
        file = folder / DENSE_FILE
        return open_npy(file, lambda reason: RecordError(f"{file} {reason}"), mode="c")
    raise RecordError(f"{folder} does not hold the rows; give them: Interview.open(folder, X).")


def take_rows(X: Any, index: NDArray[np.int64]) -> Any:
    """Some rows of an array, a CSR matrix or a table of pandas, polars or Arrow."""
    if hasattr(X, "iloc"):
        return X.iloc[index]
    return X.take(index) if hasattr(X, "column_names") else X[index]


def fingerprint_rows(X: Any) -> str:
    """Hashes of the shape with 4,096 rows, evenly spaced, and of all rows: the same table has the same ones.

    Records of 0.1.0 and of early 0.2.0 hold the first hash alone; see :func:`is_of_rows`.
    """
    some = np.unique(np.linspace(0, X.shape[0] - 1, 4096).astype(np.int64))
    shape = repr((tuple(X.shape),)).encode()
    sample = hashlib.sha256(shape)
    for part in _plain_parts(take_rows(X, some), np.float64):
        sample.update(part)
    whole = hashlib.blake2b(shape, digest_size=8)
    for start in range(0, X.shape[0], HASHED_ROWS):
        rows = take_rows(X, np.arange(start, min(start + HASHED_ROWS, X.shape[0])))
        for part in _plain_parts(rows, np.float32):
            whole.update(part)
    return f"{sample.hexdigest()[:32]}-{whole.hexdigest()}"


def is_of_rows(recorded: Any, fingerprint: str) -> bool:
    """Whether what a record says of its rows agrees with a fingerprint.

    Examples
    --------
    >>> is_of_rows("ab-12", "ab-12"), is_of_rows("ab", "ab-12"), is_of_rows("ab-99", "ab-12")
    (True, True, False)
    """
    return recorded in (fingerprint, fingerprint.partition("-")[0])


def _plain_parts(rows: Any, kind: type[np.floating[Any]]) -> list[bytes]:
    """The bytes of the values as numbers of one kind, of texts as they are."""
    parts = _sparse_parts(rows) if sparse.issparse(rows) else [np.asarray(rows)]
    plain = [part.astype(kind if part.dtype.kind in "fiub" else str) for part in parts]
    return [part.tobytes() for part in plain]


def _sparse_parts(rows: Any) -> list[NDArray[Any]]:
    """The values of a sparse matrix and where they stand; as a dense array they may not fit into memory."""
    plain = sparse.coo_array(rows)
    plain.sum_duplicates()
    filled = plain.data != 0
    return [part[filled] for part in (*plain.coords, plain.data)]

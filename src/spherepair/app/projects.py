"""Projects: a folder with rows, features, a log of answers and models; and all projects of a home.

project.json     what it is: name, kind, which column is what
rows.*           the rows (see :mod:`spherepair.app.project_rows`)
features.npy     what models learn from, one line a row
encoder.npz      makes the same of new rows, unless these are numbers already
project.db       the log of answers, unless it lies in a shared database
versions/        models
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import secrets
import shutil
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Engine

from spherepair.app.database import open_database, open_project_database
from spherepair.app.open_project import Labeling
from spherepair.app.project_rows import Layout, Rows, Source, store_rows, suggest_layout
from spherepair.app.security import clean_name, read_secret
from spherepair.app.worker import ENCODER, FEATURES
from spherepair.asking.questions import utc_now
from spherepair.encoders import ImageEncoder, TableEncoder, pack_encoder, unpack_encoder
from spherepair.encoders.table_columns import is_mixed
from spherepair.errors import InvalidAnswerError, InvalidDataError, RecordError, quoted
from spherepair.files import atomic_write, atomic_write_text
from spherepair.files.arrow_rows import side_by_side
from spherepair.files.places import data_set_files, is_uri, local_path
from spherepair.files.untrusted import Fail, decoding, refuse_zip_bomb

DETAILS, DATABASE, LOCK = "project.json", "project.db", "project.lock"
FORMAT = 1
_ENTRY = "entry"


@dataclass(frozen=True)
class Details:
    """What a project is."""

    id: str
    name: str
    layout: Layout
    n_rows: int
    created: str
    source: str = ""


@dataclass
class _Counts:
    """What the list says of a project that is not open."""

    opened: str
    answers: int = 0
    groups: int = 0


class Projects:
    """All projects of a home folder; a project is opened when somebody first asks for it.

    Parameters
    ----------
    home : Path
    database : str, optional
        URL of a shared database; by default each project has its own.
    seed : int
    """

    def __init__(self, home: Path, *, database: str | None = None, seed: int = 0) -> None:
        self.home, self._seed = home, seed
        home.mkdir(parents=True, exist_ok=True)
        self._secret = read_secret(home)
        self._shared = None if database is None else open_database(database)
        self._open: dict[str, Labeling] = {}
        self._locks: dict[str, FileLock] = {}
        self._opening = threading.RLock()

    def list(self) -> list[Details]:
        """Projects that can be read, the newest first."""
        return list(self.list_all()[0])

    def list_all(self) -> tuple[tuple[Details, ...], dict[str, str]]:
        """Projects that can be read, the newest first; and what is wrong with each of the others."""
        found, damaged = [], {}
        for file in sorted(self.home.glob(f"*/{DETAILS}")):
            try:
                details = self._details(file.parent.name)
            except (RecordError, OSError) as error:
                damaged[file.parent.name] = str(error)
            else:
                found += [] if details is None else [details]
        return tuple(sorted(found, key=lambda one: one.created, reverse=True)), damaged

    def find(self, source: str) -> Details | None:
        """The project that was made from this source."""
        return next((one for one in self.list() if one.source == source), None)

    def create(
        self,
        source: Source,
        *,
        name: str,
        text: str | None = None,
        images: str | None = None,
        id_column: str | None = None,
        guess: bool = True,
        origin: str = "",
    ) -> Details:
        """Make a project; it is there whole or not at all.

        Parameters
        ----------
        source : Source
        name : str
        text, images, id_column : str, optional
            Columns.
        guess : bool
            Whether columns that are not given are guessed.
        origin : str
            Tells the same source again, see :meth:`find`.
        """
        layout = suggest_layout(source, text=text, images=images, id_column=id_column, guess=guess)
        shown = clean_name(name) or "project"
        details = Details(_new_id(shown), shown, layout, source.table.num_rows, utc_now(), origin)
        fresh = self.home / f".new-{details.id}"
        fresh.mkdir()
        try:
            store_rows(fresh, source, layout)
            rows = Rows(fresh, layout)
            encoder = new_encoder(rows)
            X = raw_rows(rows, encoder is not None)
            with atomic_write(fresh / FEATURES, suffix=".npy") as temporary:
                np.save(temporary, X if encoder is None else encoder.fit_transform(X))
            write_encoder(fresh, encoder)
            atomic_write_text(fresh / DETAILS, json.dumps({"format": FORMAT, **asdict(details)}))
            fresh.rename(self.home / details.id)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return details

    def get(self, project: str) -> Labeling:
        """An open project; raises ``KeyError`` where there is none of that id."""
        found = self._open.get(project)
        if found is not None and not found.record.is_uncertain:
            return found
        with self._opening:
            found = self._open.get(project)
            if found is not None and not found.record.is_uncertain:
                return found
            details = self._details(project)
            if details is None:
                raise KeyError(project)
            if found is not None:
                self._close(found)
            self._take(details)
            self._open[project] = self._labeling(details)
            return self._open[project]

    def summary(self, details: Details) -> dict[str, Any]:
        """What the list of projects says."""
        opened = self._open.get(details.id)
        if opened is not None:
            opened.write_summary()
        return {
            "id": details.id,
            "name": details.name,
            "rows": details.n_rows,
            "kind": details.layout.kind,
            **read_summary(self.home / details.id, details.created),
        }

    def close(self) -> None:
        """Close all projects."""
        with self._opening:
            for one in self._open.values():
                self._close(one)
            for lock in self._locks.values():
                lock.release()
            self._open.clear()
            self._locks.clear()
            if self._shared is not None:
                self._shared.dispose()

    def _close(self, opened: Labeling) -> None:
        opened.close()
        if self._shared is None:
            opened.record.engine.dispose()

    def _labeling(self, details: Details) -> Labeling:
        folder = self.home / details.id
        own = self._shared if self._shared is not None else self._own_database(details)
        try:
            with decoding("a project", _damage(folder)):
                rows = Rows(folder, details.layout)
                return Labeling(
                    folder,
                    details.id,
                    details.name,
                    rows,
                    engine=own,
                    seed=self._seed,
                    secret=self._secret,
                )
        except BaseException as error:
            if self._shared is None:
                own.dispose()
            if not isinstance(error, InvalidAnswerError):
                raise
            raise RecordError(f"the log of project {details.id} holds a wrong answer: {error}") from error

    def _own_database(self, details: Details) -> Engine:
        """The log of a project in its folder; one that is gone is missed, not begun again."""
        folder = self.home / details.id
        file, n_answers = folder / DATABASE, read_summary(folder, details.created)["answers"]
        if n_answers and not (file.exists() and file.stat().st_size):
            raise RecordError(
                f"{file} with {n_answers} answers is gone; bring it back, or remove summary.json beside it "
                "to begin anew."
            )
        return open_project_database(file, details.id)

    def _take(self, details: Details) -> None:
        """One process at a time has a project."""
        if details.id in self._locks:
            return
        lock = FileLock(self.home / details.id / LOCK, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RecordError(
                f"the project {quoted(details.name)} is open in another process; use the page that it "
                "serves, or close it there first."
            ) from error
        self._locks[details.id] = lock

    def _details(self, project: str) -> Details | None:
        """Only ids that have the form of ours become a path."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", project):
            return None
        file = self.home / project / DETAILS
        if not file.is_file():
            return None
        with decoding("a project", _damage(file)):
            content = json.loads(file.read_text(encoding="utf-8"))
            if content.pop("format", None) != FORMAT:
                raise RecordError(
                    f"the project {project} was made by a newer version of spherepair; update spherepair."
                )
            return _as_details(content, project)


def _as_details(content: dict[str, Any], project: str) -> Details:
    """Every field is of its type, or ``ValueError``."""
    try:
        found = TypeAdapter(Details).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if found.id != project or found.n_rows < 1:
        raise ValueError(f"it is about {found.n_rows} rows of the project {quoted(found.id)}")
    return found


def _damage(path: Path) -> Fail:
    return lambda reason: RecordError(f"{path} {reason}")


def read_summary(folder: Path, created: str) -> dict[str, Any]:
    """Counts that a project wrote when it was last open; none where they cannot be read."""
    try:
        return vars(TypeAdapter(_Counts).validate_json((folder / "summary.json").read_bytes(), strict=True))
    except (OSError, ValueError):
        return vars(_Counts(opened=created))


def origin_of(data: str, layout: tuple[str | None, ...]) -> str:
    """A name for a source: the same files with the same columns have the same one."""
    path = Path(local_path(data))
    place = data if is_uri(data) else str(path.absolute())
    digest = hashlib.sha256(repr((place, layout)).encode())
    if parts := data_set_files(data):
        digest.update(repr(parts).encode())
    for file in [] if parts else sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def new_encoder(rows: Rows) -> Any:
    """An encoder for these rows, not fitted yet, as in ``spherepair fit``; ``None`` for numbers alone."""
    layout = rows.layout
    if layout.kind == "image":
        return ImageEncoder(progress=False)
    if layout.text is not None:
        return TableEncoder({layout.text: "text"}, columns=[layout.text], keep_empty=True, progress=False)
    names = _features(rows)
    if not names:
        raise InvalidDataError("there is nothing but an ID to group the rows by.")
    if is_mixed(rows.table.select(names)):
        return TableEncoder(columns=names, keep_empty=True, progress=False)
    return None


def raw_rows(rows: Rows, is_encoded: bool, like: Rows | None = None) -> Any:
    """Rows as a model takes them.

    Parameters
    ----------
    rows : Rows
    is_encoded : bool
        Whether an encoder makes numbers of them. It takes pictures or a table.
    like : Rows, optional
        Rows of the fit, which have the columns that are needed.
    """
    if rows.layout.kind == "image":
        return [rows.picture(row) for row in range(len(rows))]
    if is_encoded:
        return rows.table
    names = _features(like or rows)
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise InvalidDataError(f"the file has no column {quoted(missing[0])}, which the project is about.")
    numbers = []
    try:
        for name in names:
            numbers.append(pc.cast(rows.table[name], pa.float32()).to_numpy())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidDataError(f"the column {quoted(name)} holds more than numbers.") from error
    return side_by_side(numbers)


def _features(rows: Rows) -> list[str]:
    return [name for name in rows.columns if name != rows.layout.id]


def write_encoder(folder: Path, encoder: Any) -> None:
    """Keep a fitted encoder in the folder of a project; nothing for ``None``."""
    if encoder is None:
        return
    entry, arrays = pack_encoder(encoder)
    arrays[_ENTRY] = np.frombuffer(json.dumps(entry).encode(), dtype=np.uint8)
    with atomic_write(folder / ENCODER, suffix=".npz") as temporary:
        np.savez(temporary, **arrays)


def read_encoder(folder: Path) -> Any:
    """The encoder of a project; ``None`` where its rows are numbers."""
    if not (folder / ENCODER).exists():
        return None
    file = folder / ENCODER
    refuse_zip_bomb(file, "an encoder", _damage(file))
    with decoding("an encoder", _damage(file)):
        with np.load(file, allow_pickle=False) as opened:
            arrays = dict(opened)
        return unpack_encoder(json.loads(arrays.pop(_ENTRY).tobytes()), arrays)


def _new_id(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:30].strip("-") or "project"
    return f"{words}-{secrets.token_hex(3)}"


def demo_source() -> Source:
    """Pictures of handwritten digits that come with scikit-learn."""
    from PIL import Image
    from sklearn.datasets import load_digits

    pictures = []
    for pixels in load_digits().images:
        stream = io.BytesIO()
        Image.fromarray((pixels * 15.9).astype(np.uint8)).save(stream, "PNG")
        pictures.append(stream.getvalue())
    names = [f"digit-{number:04d}.png" for number in range(len(pictures))]
    return Source(pa.table({"file": pa.array(names, pa.large_string())}), pictures)

"""Databases of label projects, altered as files, as tables and inside their JSON."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.alterations import VALUES, alter_bytes, alter_json

from spherepair import Constraints, Interview
from spherepair.app.database import DatabaseRecord, open_project_database
from spherepair.asking import PairQuestion
from spherepair.asking.conversation import Conversation
from spherepair.asking.questions import Gesture
from spherepair.errors import SpherePairError

FILE, PROJECT, FINGERPRINT = "project.db", "p", "abc"
X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
TABLES = ("projects", "people", "events", "names", "alembic_version")
#: Statements of somebody who knows SQL.
STATEMENTS = (
    "DROP TABLE events",
    "DROP TABLE people",
    "DROP TABLE alembic_version",
    "DELETE FROM alembic_version",
    "DELETE FROM projects",
    "DELETE FROM events WHERE place = 2",
    "UPDATE events SET place = place + 1000",
    "UPDATE events SET body = 'null'",
    "ALTER TABLE events RENAME COLUMN body TO bodies",
    "ALTER TABLE events ADD COLUMN more TEXT",
    "CREATE VIEW more AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END",
    "INSERT INTO names SELECT 9, project, id, body, person, time FROM events LIMIT 1",
)


def database_seeds() -> list[dict[str, bytes]]:
    """The log of a small project: answers, one taken back, a gesture, a name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        engine = open_project_database(path, PROJECT)
        record = DatabaseRecord(engine, PROJECT, name="Project", fingerprint=FINGERPRINT)
        interview = Interview(X, record=record, random_state=0)
        for left in range(5):
            question = interview.ask(PairQuestion(left, left + 7), by="ann")
            with record.noting(person="ann", ticket=f"t{left}"):
                interview.answer(question, "same", by="ann")
        with record.noting(person="ann", note={"took_back": [[1, 8, 1]]}):
            interview.take_back(1)
            interview.answer(Gesture("merge", ((2, 5, True),)), "done", by="bob")
        record.give_name("g1", "cards", person="ann")
        interview.close()
        engine.dispose()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return [{FILE: path.read_bytes()}]


def alter_database(source: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """A database with other bytes, rows, tables or JSON, or something else in its place."""
    way = source.random()
    if way < 0.25:
        return {FILE: alter_bytes(source, files[FILE])}
    if way < 0.3:
        return {
            FILE: source.choice((b"", b"id,answer\n1,same\n", b"SQLite format 3\0", source.randbytes(4096)))
        }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        path.write_bytes(files[FILE])
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            if way < 0.4:
                connection.execute(source.choice(STATEMENTS))
            elif way < 0.75:
                _alter_payload(source, connection)
            else:
                _alter_cell(source, connection)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return {FILE: path.read_bytes()}


def _alter_payload(source: random.Random, connection: sqlite3.Connection) -> None:
    column = source.choice(("body", "body", "body", "note"))
    rows = connection.execute(f"SELECT id, {column} FROM events WHERE {column} IS NOT NULL").fetchall()
    number, content = source.choice(rows)
    changed = json.dumps(alter_json(source, json.loads(content)))
    connection.execute(f"UPDATE events SET {column} = ? WHERE id = ?", (changed, number))


def _alter_cell(source: random.Random, connection: sqlite3.Connection) -> None:
    table = source.choice(TABLES)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    value: Any = source.choice((*VALUES, b"\xff", "0002", "{", '{"event": "answer"}', "[" * 2000))
    if not isinstance(value, str | int | float | bytes | None) or (isinstance(value, int) and value >= 2**63):
        value = json.dumps(value)
    if isinstance(value, str):
        value = value.encode(errors="replace").decode()
    chosen, which = source.choice(columns), source.choice((1, "rowid % 2"))
    with suppress(sqlite3.IntegrityError):  # of a number or a value that SQLite itself insists on
        connection.execute(f"UPDATE OR REPLACE {table} SET {chosen} = ? WHERE {which}", (value,))


def read_database(folder: Path) -> object:
    """As the page opens the log of a project; what is refused must be left as it was."""
    path = folder / FILE
    before = path.read_bytes()
    try:
        engine = open_project_database(path, PROJECT)
        try:
            record = DatabaseRecord(engine, PROJECT, name="Project", fingerprint=FINGERPRINT)
            names = record.names()
            # As an interview does, without its search for the first question.
            talk = Conversation(len(X), Constraints.from_pairs(), record, fingerprint=FINGERPRINT)
            return len(talk.answers), talk.groups, names
        finally:
            engine.dispose()
    except SpherePairError:
        assert path.read_bytes() == before, "a database that was refused was written to"
        raise

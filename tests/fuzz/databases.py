"""Databases of label projects, altered as files, by statements and inside their JSON."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine
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


def write_log(engine: Engine) -> None:
    """The log of a small project: answers, one taken back, a gesture, a name."""
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


def open_log(engine: Engine) -> object:
    """As the page opens the log of a project."""
    try:
        record = DatabaseRecord(engine, PROJECT, name="Project", fingerprint=FINGERPRINT)
        names = record.names()
        # As an interview does, without its search for the first question.
        talk = Conversation(len(X), Constraints.from_pairs(), record, fingerprint=lambda: FINGERPRINT)
        return len(talk.answers), talk.groups, names
    finally:
        engine.dispose()


@cache
def database_seeds() -> list[dict[str, bytes]]:
    """The file of a small project."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        write_log(open_project_database(path, PROJECT))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return [{FILE: path.read_bytes()}]


@cache
def _columns() -> dict[str, list[str]]:
    """The columns of every table, and under "body" and "note" the JSON that stands there, by event."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        path.write_bytes(database_seeds()[0][FILE])
        with closing(sqlite3.connect(path)) as connection:
            found = {
                table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                for table in TABLES
            }
            for column in ("body", "note"):
                query = f"SELECT id, {column} FROM events WHERE {column} IS NOT NULL"
                found[column] = connection.execute(query).fetchall()
    return found


def draw_statement(source: random.Random) -> tuple[str, list[Any]]:
    """A statement that alters the log, and its values."""
    way = source.random()
    if way < 0.15:
        return source.choice(STATEMENTS), []
    return _alter_payload(source) if way < 0.6 else _alter_cell(source)


def _alter_payload(source: random.Random) -> tuple[str, list[Any]]:
    column = source.choice(("body", "body", "body", "note"))
    number, content = source.choice(_columns()[column])
    changed = json.dumps(alter_json(source, json.loads(content)))
    return f"UPDATE events SET {column} = ? WHERE id = ?", [changed, number]


def _alter_cell(source: random.Random) -> tuple[str, list[Any]]:
    table = source.choice(TABLES)
    value: Any = source.choice((*VALUES, "0002", "{", '{"event": "answer"}', "[" * 2000))
    if not isinstance(value, str | int | float | None) or (isinstance(value, int) and value >= 2**63):
        value = json.dumps(value)
    if isinstance(value, str):
        value = value.encode(errors="replace").decode()
    chosen, which = source.choice(_columns()[table]), source.choice(("1 = 1", "1 = 1", "place % 2 = 0"))
    which = which if table == "events" else "1 = 1"
    return f"UPDATE OR REPLACE {table} SET {chosen} = ? WHERE {which}", [value]


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
            statement, values = draw_statement(source)
            if values and source.random() < 0.05:
                values = [b"\xff", *values[1:]]
            with suppress(sqlite3.IntegrityError):  # of a number or a value that SQLite itself insists on
                connection.execute(statement, values)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return {FILE: path.read_bytes()}


def read_database(folder: Path) -> object:
    """As the page opens a project; what is refused must be left as it was."""
    path = folder / FILE
    before = path.read_bytes()
    try:
        return open_log(open_project_database(path, PROJECT))
    except SpherePairError:
        assert path.read_bytes() == before, "a database that was refused was written to"
        raise

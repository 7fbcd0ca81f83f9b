"""Logs of answers in PostgreSQL, altered as in ``databases.py`` by somebody who may write to the tables."""

from __future__ import annotations

import glob
import json
import os
import random
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.fuzz.databases import TABLES, draw_statement, open_log, write_log

from spherepair.app.database import open_database
from spherepair.errors import SpherePairError

FILE = "statements.json"
#: Names the socket folder of a server; without it there is nothing to fuzz.
SERVER = "SPHEREPAIR_FUZZ_POSTGRESQL"
WHOLE, ALTERED = "whole", "altered"
#: What only PostgreSQL can do: columns of other types, and tables of somebody else.
STATEMENTS = (
    "ALTER TABLE events ALTER COLUMN body TYPE text",
    "ALTER TABLE events ALTER COLUMN body TYPE jsonb",
    "ALTER TABLE events ALTER COLUMN place TYPE text",
    "ALTER TABLE events ALTER COLUMN person TYPE bytea USING person::bytea",
    "ALTER TABLE names ALTER COLUMN name TYPE bytea USING name::bytea",
    "DROP TABLE people CASCADE",
    "DROP TABLE projects CASCADE",
    "DROP SCHEMA public CASCADE",
    "ALTER TABLE events RENAME TO others",
    "CREATE VIEW more AS SELECT * FROM events",
    "CREATE RULE r AS ON INSERT TO projects DO INSTEAD NOTHING",
    "ALTER TABLE projects DISABLE TRIGGER ALL",
)


def find_postgresql() -> Path | None:
    """The folder with the programs of the newest server on this machine."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    return Path(found[-1]) if found else None


@contextmanager
def running_postgresql() -> Iterator[Path]:
    """The socket folder of a server that is stopped at the end."""
    tools, folder = find_postgresql(), Path(f"/tmp/spherepair-pg-{uuid.uuid4().hex[:8]}")
    assert tools is not None
    folder.mkdir()
    prefix: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
        prefix = ["runuser", "-u", "postgres", "--"]
    data = folder / "data"

    def run(*words: object) -> None:
        quiet = subprocess.DEVNULL
        subprocess.run([*prefix, *map(str, words)], check=True, stdout=quiet, stderr=quiet, cwd="/")

    run(tools / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    run(tools / "pg_ctl", "-D", data, "-w", "-o", options, "start")
    try:
        yield folder
    finally:
        run(tools / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def make_database(folder: Path, name: str, *, template: str = "template1") -> str:
    """The URL of a fresh database of the server."""
    with _connect(folder, "postgres") as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    return f"postgresql+psycopg://postgres@/{name}?host={folder}"


def _connect(folder: Path, name: str) -> Any:
    import psycopg

    return psycopg.connect(host=str(folder), user="postgres", dbname=name, autocommit=True)


def statement_seeds() -> list[dict[str, bytes]]:
    """No statement at all; the log that they alter is made once."""
    engine = open_database(make_database(Path(os.environ[SERVER]), WHOLE))
    write_log(engine)
    return [{FILE: b"[]"}]


def alter_statements(source: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """One or two statements with their values."""
    drawn = [
        (source.choice(STATEMENTS), []) if source.random() < 0.15 else draw_statement(source)
        for _ in range(source.choice((1, 1, 2)))
    ]
    return {FILE: json.dumps(drawn).encode()}


def read_server(folder: Path) -> object:
    """As ``label --database`` opens a log; what is refused must be left as it was."""
    server, statements = Path(os.environ[SERVER]), json.loads((folder / FILE).read_bytes())
    url = make_database(server, ALTERED, template=WHOLE)
    with _connect(server, ALTERED) as connection:
        connection.execute("SET session_replication_role = replica")  # links between tables are not checked
        for statement, values in statements:
            _execute(connection, statement, values)
        before = _content(connection)
        try:
            return open_log(open_database(url))
        except SpherePairError:
            assert _content(connection) == before, "a log that was refused was written to"
            raise


def _execute(connection: Any, statement: str, values: list[Any]) -> None:
    import psycopg

    with suppress(psycopg.Error, ValueError):  # of a value that PostgreSQL itself does not take
        connection.execute(statement.replace("?", "%s").replace(" OR REPLACE", ""), values)


def _content(connection: Any) -> dict[str, Any]:
    import psycopg

    found: dict[str, Any] = {}
    for table in TABLES:
        try:
            found[table] = connection.execute(f"SELECT t::text FROM {table} t ORDER BY 1").fetchall()
        except psycopg.Error as error:  # there is no such table
            found[table] = type(error).__name__
    return found

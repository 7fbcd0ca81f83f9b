"""Logs of answers that were damaged, altered or exchanged: one sentence, and nothing is written to them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.app.conftest import as_person, text_source

from spherepair.app import database
from spherepair.app.database import open_database, sqlite_url
from spherepair.app.projects import Projects, origin_of
from spherepair.cli import main
from spherepair.errors import RecordError


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.fixture
def log(home: Projects, project: str) -> Path:
    """The closed database of a project with three answers."""
    labeling = home.get(project)
    for _ in range(3):
        card = labeling.card("ann")
        labeling.answer("ann", card.ticket, "skip", 1.0)
    home.close()
    path = home.home / project / "project.db"
    execute(path, "PRAGMA user_version")
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = '{' WHERE place = 1",
        "UPDATE events SET body = '[]' WHERE place = 1",
        "UPDATE events SET body = 5 WHERE place = 1",
        "UPDATE events SET body = json_set(body, '$.number', 7) WHERE place = 1",
        "UPDATE events SET body = json_set(body, '$.item', 10000) WHERE place = 1",
        "UPDATE events SET body = json_set(body, '$.answer', 'perhaps') WHERE place = 1",
        'UPDATE events SET note = \'{"took_back": [[1, "2"]]}\' WHERE place = 1',
        "UPDATE events SET person = x'ff' WHERE place = 1",
        "UPDATE projects SET id = 'other'",
        "UPDATE projects SET rows = 'other'",
        "UPDATE alembic_version SET version_num = '9999'",
        "DELETE FROM events WHERE place = 1",
        "DROP TABLE names",
        "DROP TABLE alembic_version",
        "INSERT INTO names VALUES (1, (SELECT id FROM projects), 'g', x'ff', 'ann', '')",
    ],
)
def test_an_altered_log_is_a_sentence_and_stays_as_it_is(client, home, project, log, statement):
    execute(log, statement)
    before = log.read_bytes()
    reply = client.get(f"/api/projects/{project}", headers=as_person(client, "ann"))
    assert reply.status_code == 503, reply.text
    assert reply.json()["error"].endswith(".")
    assert "\n" not in reply.json()["error"]
    assert log.read_bytes() == before


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_a_truncated_log_is_a_sentence_and_is_not_begun_anew(home, project, log, share):
    content = log.read_bytes()
    log.write_bytes(content[: int(share * len(content))])
    before = log.read_bytes()
    with pytest.raises(RecordError, match=project):
        home.get(project)
    assert log.read_bytes() == before


def test_a_log_that_is_gone_is_missed(home, project, log):
    log.unlink()
    with pytest.raises(RecordError, match="3 answers is gone"):
        home.get(project)
    assert not log.exists()


def test_answers_beside_an_empty_database_are_not_thrown_away(tmp_path):
    path, beside = tmp_path / "project.db", tmp_path / "project.db-wal"
    path.touch()
    beside.write_bytes(b"answers that are not in the database yet")
    with pytest.raises(RecordError, match="is empty"):
        database.open_project_database(path, "p")
    assert beside.read_bytes() == b"answers that are not in the database yet"


def test_a_database_of_something_else_gets_no_tables_of_ours(tmp_path):
    path = tmp_path / "photos.db"
    execute(path, "CREATE TABLE photos (id INTEGER)")
    with pytest.raises(RecordError, match="other tables, such as 'photos'"):
        open_database(sqlite_url(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("photos",)]


def test_a_process_that_ends_while_it_makes_the_tables_leaves_none(tmp_path, monkeypatch):
    real = database.command.upgrade

    def upgrade(*arguments):
        real(*arguments)
        raise RuntimeError("ended")

    with monkeypatch.context() as patch:
        patch.setattr(database.command, "upgrade", upgrade)
        with pytest.raises(RecordError, match="ended"):
            open_database(sqlite_url(tmp_path / "log.db"))
    open_database(sqlite_url(tmp_path / "log.db")).dispose()


def test_the_command_line_says_one_sentence(tmp_path, without_training, capsys):
    data = tmp_path / "rows.csv"
    data.write_text("id,text\n" + "".join(f"m{n},a text about thing {n}\n" for n in range(20)))
    home = Projects(tmp_path / "projects")
    project = home.create(text_source(), name="rows", origin=origin_of(data, (None, None, None))).id
    (home.home / project / "project.db").write_text("id,answer\n1,same\n")
    code = main(["label", str(data), "--projects", str(home.home), "--no-browser"])
    said = capsys.readouterr().err
    assert code == 2
    assert "cannot be opened" in said
    assert "Traceback" not in said
    assert (home.home / project / "project.db").read_text() == "id,answer\n1,same\n"


def test_a_full_disk_keeps_neither_the_list_nor_the_end_of_a_project_from_working(
    client, home, project, monkeypatch
):
    home.get(project)

    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("spherepair.app.open_project.atomic_write_text", full)
    assert client.get("/api/projects", headers=as_person(client, "ann")).json()[0]["id"] == project
    home.close()

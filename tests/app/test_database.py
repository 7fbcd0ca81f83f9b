from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text
from tests.app.conftest import as_person, text_source

from spherepair.app.database import Base, DatabaseRecord, open_database, shown_url, sqlite_url
from spherepair.errors import InvalidParameterError, RecordError


@pytest.fixture
def open_record(database):
    """Opens the record of the database as a process would; all are closed at the end."""
    opened = []

    def open_one(*, rows: str = "abc") -> DatabaseRecord:
        opened.append(open_database(database))
        return DatabaseRecord(opened[-1], "p", name="Project", fingerprint=rows)

    yield open_one
    for engine in opened:
        engine.dispose()


def answer(number: int, by: str = "ann") -> dict:
    return {"event": "answer", "number": number, "by": by, "time": "2026-01-01T00:00:00+00:00"}


def _append_and_fail(record: DatabaseRecord):
    record.append(answer(2, by="new"))
    yield 1 / 0


def test_events_come_back_in_order_with_person_and_ticket(open_record):
    record = open_record()
    with record.noting(person="ann", ticket="t0"):
        record.append(answer(0))
    with record.noting(person="bob", note={"took_back": [[1, 2, 1]]}):
        record.append({"event": "undo", "number": 0, "time": "2026-01-01T00:00:01+00:00"})
    again = open_record()
    assert [event["event"] for event in again] == ["answer", "undo"]
    assert [event.person for event in again.events] == ["ann", "bob"]
    assert again.find("t0").place == 0
    assert again.find("t1") is None
    assert again.events[1].note == {"took_back": [[1, 2, 1]]}


def test_a_ticket_is_written_once_even_by_two_processes(open_record):
    first, second = open_record(), open_record()
    with first.noting(person="ann", ticket="same"):
        first.append(answer(0))
    with second.noting(person="ann", ticket="same"), pytest.raises(RecordError, match="nothing was changed"):
        second.append(answer(0))
    assert second.is_uncertain
    with pytest.raises(RecordError, match="send it again"):
        second.append(answer(1))
    assert len(list(open_record())) == 1


def test_events_of_a_block_are_written_together_or_not_at_all(open_record):
    record = open_record()
    with record.together(), record.noting(person="ann"):
        record.append(answer(0))
        record.append(answer(1))
    failing = _append_and_fail(record)
    with pytest.raises(ZeroDivisionError), record.together(), record.noting(person="new"):
        next(failing)
    assert record.is_uncertain
    assert len(list(open_record())) == 2


def test_the_latest_name_of_a_group_counts(open_record):
    record = open_record()
    record.give_name("g", "cards", person="ann")
    record.give_name("g", "stolen cards", person="bob")
    assert open_record().names() == {"g": ("stolen cards", "bob")}


def test_hostile_texts_come_back_as_they_were(open_record):
    name = "<script>'; drop table events; -- \u202e 🙂"
    record = open_record()
    record.append(answer(0, by=name))
    assert open_record().events[0].person == name


def test_a_log_of_other_rows_is_refused(open_record):
    open_record()
    with pytest.raises(RecordError, match="about other rows"):
        open_record(rows="others")


def test_a_log_whose_names_cannot_be_read_is_refused(open_record):
    record = open_record()
    with record.engine.begin() as connection:
        connection.execute(text("ALTER TABLE names RENAME COLUMN name TO other"))
    with pytest.raises(RecordError, match="the log of project p"):
        open_record()


def test_a_log_whose_project_is_gone_is_refused_and_left_as_it_was(open_record):
    record = open_record()
    record.append(answer(0))
    is_sqlite = record.engine.dialect.name == "sqlite"
    unchecked = "PRAGMA foreign_keys = OFF" if is_sqlite else "SET session_replication_role = replica"
    with record.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(unchecked))
        connection.execute(text("DELETE FROM projects"))
        with pytest.raises(RecordError, match="about other rows"):
            open_record()
        assert connection.scalar(text("SELECT count(*) FROM projects")) == 0


def test_a_database_of_a_newer_version_is_refused(database):
    engine = open_database(database)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    engine.dispose()
    with pytest.raises(RecordError, match="newer version of spherepair"):
        open_database(database)


def test_migrations_make_the_tables_that_the_code_expects(database):
    engine = open_database(database)
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    engine.dispose()
    assert [d for d in differences if "comment" not in str(d[0])] == []


def test_sqlite_keeps_every_commit_and_checks_its_links(tmp_path):
    engine = open_database(sqlite_url(tmp_path / "log.db"))
    with engine.connect() as connection:
        settings = [
            connection.execute(text(f"pragma {name}")).scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous")
        ]
    engine.dispose()
    assert settings == ["wal", 1, 2]


@pytest.mark.parametrize("url", ["nonsense", "oracle+foo://x/y"])
def test_a_wrong_url_is_one_sentence(url):
    with pytest.raises(InvalidParameterError, match="must be a URL"):
        open_database(url)


def test_a_database_that_is_down_is_told_from_a_log_that_cannot_be_read():
    engine = create_engine("postgresql+psycopg://ann:secret@127.0.0.1:9/none?connect_timeout=1")
    with pytest.raises(RecordError, match=r"the database does not answer \(.*; try again later") as caught:
        DatabaseRecord(engine, "one", name="one", fingerprint="rows")
    assert "secret" not in str(caught.value)


def test_a_database_that_is_not_there_is_one_sentence_without_the_password():
    with pytest.raises(RecordError, match="cannot be opened") as caught:
        open_database("postgresql+psycopg://ann:secret@127.0.0.1:9/none?connect_timeout=1")
    assert "secret" not in str(caught.value)
    assert "***" in shown_url("postgresql+psycopg://ann:secret@h/d")


@pytest.mark.parametrize("name", ["project.json", "rows.arrow", "project.db", "features.npy"])
def test_a_damaged_project_is_refused_with_a_sentence_that_names_it(home, project, name):
    home.get(project)
    home.close()
    for file in (home.home / project).glob(f"{name}*"):  # SQLite keeps more beside its own file
        file.write_bytes(b"not what it was")
    with pytest.raises(RecordError) as caught:
        home.get(project)
    assert project in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"format": 99}',
        b'{"format": 1, "id": 5, "name": {}, "layout": {"kind": "x"}, "n_rows": "many", "created": 0}',
    ],
)
def test_a_damaged_project_stands_beside_the_others_in_the_list(client, home, project, content):
    other = home.create(text_source(), name="Spoiled").id
    (home.home / other / "project.json").write_bytes(content)
    (home.home / project / "summary.json").write_text('{"answers": "many", "rows": []}')
    reply = client.get("/api/projects", headers=as_person(client, "ann"))
    assert reply.status_code == 200, reply.text
    whole, damaged = reply.json()
    assert (whole["id"], whole["answers"]) == (project, 0)
    assert damaged["id"] == other
    assert other in damaged["problem"]
    assert "\n" not in damaged["problem"]
    assert [one.id for one in home.list()] == [project]

"""The log of answers in a database: SQLite in the folder of a project, PostgreSQL for teams.

Events are only ever appended. An event has its place in the log, and an answer has the ticket of the card it
answers; both are unique, so that nothing is written twice, whatever is sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
    Connection,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    String,
    UniqueConstraint,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from spherepair.asking.questions import utc_now
from spherepair.asking.record import is_of_rows
from spherepair.errors import (
    InvalidParameterError,
    MissingDependencyError,
    RecordError,
    SpherePairError,
    quoted,
)
from spherepair.files.untrusted import decoding

MIGRATIONS = Path(__file__).parent / "migrations"
LONGEST_NAME = 200


class Base(DeclarativeBase):
    """Tables of the log."""


class ProjectTable(Base):
    """Projects that have a log here."""

    __tablename__ = "projects"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(String(LONGEST_NAME))
    rows: Mapped[str] = mapped_column(String(64), comment="fingerprint of the rows")
    created: Mapped[str] = mapped_column(String(40))


class PersonTable(Base):
    """People who took part in a project."""

    __tablename__ = "people"
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(LONGEST_NAME), primary_key=True)
    since: Mapped[str] = mapped_column(String(40))


class EventTable(Base):
    """Answers, and answers taken back."""

    __tablename__ = "events"
    __table_args__ = (
        UniqueConstraint("project", "place"),
        UniqueConstraint("project", "ticket"),
        ForeignKeyConstraint(["project", "person"], ["people.project", "people.name"]),
    )
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    place: Mapped[int] = mapped_column(comment="in the log of the project, from 0")
    person: Mapped[str] = mapped_column(String(LONGEST_NAME))
    time: Mapped[str] = mapped_column(String(40))
    ticket: Mapped[str | None] = mapped_column(String(80))
    body: Mapped[dict[str, Any]] = mapped_column(JSON, comment="the event as in a record of spherepair ask")
    note: Mapped[dict[str, Any] | None] = mapped_column(
        JSON(none_as_null=True), comment="what a gesture took back"
    )


class NameTable(Base):
    """Names given to groups; the latest counts."""

    __tablename__ = "names"
    __table_args__ = (ForeignKeyConstraint(["project", "person"], ["people.project", "people.name"]),)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    project: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    group_id: Mapped[str] = mapped_column(String(80))
    name: Mapped[str] = mapped_column(String(LONGEST_NAME))
    person: Mapped[str] = mapped_column(String(LONGEST_NAME))
    time: Mapped[str] = mapped_column(String(40))


def open_database(url: str) -> Engine:
    """Connect, and bring the tables up to date; a database of a newer version is refused."""
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"), pool_size=10, max_overflow=20)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InvalidParameterError(
            "the database must be a URL such as postgresql+psycopg://user@host/name or sqlite:///file.db."
        ) from error
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f'this database needs {error.name}; pip install "spherepair[postgresql]".'
        ) from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    try:
        _migrate(engine)
    except BaseException as error:
        engine.dispose()
        if isinstance(error, SpherePairError) or not isinstance(error, Exception):
            raise
        # Of the database, or of alembic on tables that are not as it left them.
        raise RecordError(
            f"the database {shown_url(url)} cannot be opened ({_reason(error)}); check that it is there and "
            "whole."
        ) from error
    return engine


def open_project_database(path: Path, project: str) -> Engine:
    """Open the database in the folder of a project, or make it; a damaged or foreign one is refused."""
    log = Path(f"{path}-wal")
    if path.exists() and not path.stat().st_size and log.exists() and log.stat().st_size:
        # SQLite would throw away the answers that are still in the log.
        raise RecordError(f"{path} is empty, but {log.name} beside it is not; bring back a copy of both.")
    engine = open_database(sqlite_url(path))
    try:
        with decoding("a log of answers", lambda why: RecordError(f"{path} {why}")):
            with engine.connect() as connection:
                said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                projects = set(connection.scalars(select(ProjectTable.id)))
            if said != "ok":
                raise ValueError(f"it is damaged, {said}")
            if projects - {project}:
                raise ValueError(f"it is the log of {min(map(str, projects - {project}))}")
    except BaseException:
        engine.dispose()
        raise
    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a file."""
    return f"sqlite:///{path.absolute()}"


def shown_url(url: str) -> str:
    """The URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


@dataclass(frozen=True)
class Event:
    """One event of the log, with what the record of an interview does not hold."""

    place: int
    person: str
    time: str
    ticket: str | None
    body: dict[str, Any]
    note: dict[str, Any] | None


class DatabaseRecord:
    """The record of one project's interview, in a database.

    A failed write leaves open whether the database has it. The record then takes nothing more
    (``is_uncertain``): whoever uses it opens the project again, from what the database has.

    Parameters
    ----------
    engine : Engine
    project : str
    name : str
    fingerprint : str
        Of the rows; a log of other rows is refused.
    """

    def __init__(self, engine: Engine, project: str, *, name: str, fingerprint: str) -> None:
        self.engine, self.project = engine, project
        self.is_uncertain = False
        self._local = threading.local()
        with (
            decoding("a log of answers", lambda why: RecordError(f"the log of project {project} {why}")),
            _connected(engine) as connection,
        ):
            found = connection.execute(
                select(EventTable.__table__).where(EventTable.project == project).order_by(EventTable.place)
            ).all()
            people = select(PersonTable.name).where(PersonTable.project == project)
            self._people = set(connection.scalars(people))
            self.names()  # refused where they cannot be read
            self.events = [
                Event(row.place, row.person, row.time, row.ticket, row.body, row.note) for row in found
            ]
            for place, one in enumerate(self.events):
                _check_event(one, place)
            self._enter(connection, name, fingerprint)
        self._places = {one.ticket: one.place for one in self.events if one.ticket is not None}

    def append(self, event: dict[str, Any]) -> None:
        """Keep an event for good before returning."""
        if self.is_uncertain:
            raise RecordError("an earlier answer could not be written; nothing was changed, send it again.")
        noted = getattr(self._local, "noted", {})
        one = Event(
            place=len(self.events),
            person=str(event.get("by") or noted.get("person", "")),
            time=str(event.get("time", utc_now())),
            ticket=noted.get("ticket"),
            body=event,
            note=noted.get("note"),
        )
        with self._writing() as connection:
            self._write_person(connection, one.person)
            connection.execute(insert(EventTable), {"project": self.project, **vars(one)})
        self.events.append(one)
        if one.ticket is not None:
            self._places[one.ticket] = one.place

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([one.body for one in self.events])

    def find(self, ticket: str) -> Event | None:
        """The answer to the card with this ticket, where there is one."""
        place = self._places.get(ticket)
        return None if place is None else self.events[place]

    @contextmanager
    def noting(
        self, *, person: str, ticket: str | None = None, note: dict[str, Any] | None = None
    ) -> Iterator[None]:
        """Keep these beside the events that this thread appends in the block."""
        self._local.noted = {"person": person, "ticket": ticket, "note": note}
        try:
            yield
        finally:
            self._local.noted = {}

    @contextmanager
    def together(self) -> Iterator[None]:
        """All events that this thread appends in the block, or none of them."""
        with self._writing() as connection:
            self._local.connection = connection
            try:
                yield
            finally:
                self._local.connection = None

    def names(self) -> dict[str, tuple[str, str]]:
        """The latest name of each group, and who gave it."""
        with self.engine.connect() as connection:
            rows = connection.execute(
                select(NameTable.__table__).where(NameTable.project == self.project).order_by(NameTable.id)
            ).all()
        found = {row.group_id: (row.name, row.person) for row in rows}
        for group, given in found.items():
            if not all(isinstance(text, str) for text in (group, *given)):
                raise RecordError(
                    f"the log of project {self.project} has {quoted(given)} as a name; bring back a copy."
                )
        return found

    def give_name(self, group: str, name: str, *, person: str) -> None:
        """Name a group."""
        with self._writing() as connection:
            self._write_person(connection, person)
            given = {"group_id": group, "name": name, "person": person, "time": utc_now()}
            connection.execute(insert(NameTable), {"project": self.project, **given})

    def _enter(self, connection: Connection, name: str, fingerprint: str) -> None:
        known = connection.scalar(select(ProjectTable.rows).where(ProjectTable.id == self.project))
        if known is None and not self.events:
            connection.execute(
                insert(ProjectTable),
                {"id": self.project, "name": name, "rows": fingerprint, "created": utc_now()},
            )
        elif not is_of_rows(known, fingerprint):
            raise RecordError(
                f"the log of project {self.project} is about other rows; its folder was changed or mixed up."
            )

    def _write_person(self, connection: Connection, name: str) -> None:
        if name not in self._people:
            found = connection.scalar(
                select(PersonTable.name).where(PersonTable.project == self.project, PersonTable.name == name)
            )
            if found is None:
                connection.execute(
                    insert(PersonTable), {"project": self.project, "name": name, "since": utc_now()}
                )
            if getattr(self._local, "connection", None) is None:
                self._people.add(name)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction; inside :meth:`together` the one that is open."""
        shared = getattr(self._local, "connection", None)
        try:
            if shared is not None:
                yield shared
            else:
                with self.engine.begin() as connection:
                    yield connection
        except SQLAlchemyError as error:
            self.is_uncertain = True
            raise RecordError(
                f"the database could not write it ({_reason(error)}); nothing was changed, send it again."
            ) from error
        except BaseException:
            self.is_uncertain = True  # events of a block that failed half-way are known here, but not there
            raise


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    """A transaction. A database that is down is no log that cannot be read."""
    try:
        connection = engine.connect()
    except OperationalError as error:
        raise RecordError(f"the database does not answer ({_reason(error)}); try again later.") from error
    with connection, connection.begin():
        yield connection


def _check_event(one: Event, place: int) -> None:
    """Raise ``ValueError`` where an event cannot be what was written; the interview checks its answer."""
    if one.place != place:
        raise ValueError(f"event {place} is missing")
    number, took_back = one.body.get("number"), (one.note or {}).get("took_back", [])
    is_answer = one.body.get("event") == "answer"
    holds = (
        all(isinstance(text, str) for text in (one.person, one.time, one.ticket or ""))
        and (is_answer or one.body.get("event") == "undo")
        and type(number) is int
        and (number == place if is_answer else 0 <= number < place)
        and isinstance(took_back, list)
        and all(isinstance(link, list) and list(map(type, link)) == [int] * 3 for link in took_back)
    )
    if not holds:
        raise ValueError(f"event {place} is {quoted(one.body)} by {quoted(one.person)}")


def _prepare_sqlite(connection: Any, _: Any) -> None:
    """Readers beside a writer (WAL), links checked, every commit on the disk."""
    cursor = connection.cursor()
    for setting in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # Its driver begins no transaction for tables: a process killed now would leave half of them.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        current = MigrationContext.configure(connection).get_current_revision()
        foreign = set(inspect(connection).get_table_names()) if current is None else set()
        if foreign and engine.dialect.name == "sqlite":
            raise RecordError(
                f"the database {shown_url(str(engine.url))} holds other tables, such as "
                f"{quoted(min(foreign))}; give another one."
            )
        if current == scripts.get_current_head():
            return
        if current is not None and current not in {one.revision for one in scripts.walk_revisions()}:
            raise RecordError(
                "the database was written by a newer version of spherepair; update spherepair to open it."
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _reason(error: Exception) -> str:
    """The first line of what the database says."""
    said = str(getattr(error, "orig", None) or error).strip().splitlines()
    return said[0].rstrip(".") if said else type(error).__name__

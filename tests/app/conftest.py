from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient
from tests.fuzz.postgresql import find_postgresql, make_database, running_postgresql

from spherepair.app.database import sqlite_url
from spherepair.app.project_rows import Source
from spherepair.app.projects import Projects
from spherepair.app.security import Door
from spherepair.app.server import create_app
from spherepair.app.worker import Trainer

TOPICS = ("my card was stolen on the train", "how do I get a loan for a car", "what is the weather in rome")
TOKEN = "a token of the tests"


def topic_texts(count: int) -> tuple[list[str], np.ndarray]:
    topic = np.arange(count) % len(TOPICS)
    return [f"{TOPICS[t]} number {n}" for n, t in enumerate(topic)], topic


def text_source(count: int = 60) -> Source:
    texts, _ = topic_texts(count)
    table = pa.table({"id": [f"m{n}" for n in range(count)], "text": pa.array(texts, pa.large_string())})
    return Source(table)


@pytest.fixture
def without_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions come from the rows as they are; a process that imports torch takes seconds."""
    monkeypatch.setattr(Trainer, "start", lambda self: None)
    monkeypatch.setattr(Trainer, "close", lambda self: None)


@pytest.fixture
def home(tmp_path: Path, without_training: None):
    projects = Projects(tmp_path / "projects")
    yield projects
    projects.close()


@pytest.fixture
def project(home: Projects) -> str:
    return home.create(text_source(), name="Messages").id


@pytest.fixture
def client(home: Projects) -> TestClient:
    return TestClient(create_app(home, Door(token=TOKEN)), raise_server_exceptions=False)


def as_person(client: TestClient, name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}", "X-Person": name}


@pytest.fixture(scope="session")
def postgresql():
    """The socket folder of a server that these tests start and stop."""
    pytest.importorskip("psycopg")
    if find_postgresql() is None:
        pytest.skip("PostgreSQL's server is not installed (apt install postgresql)")
    with running_postgresql() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "log.db")
    return make_database(request.getfixturevalue("postgresql"), f"t{uuid.uuid4().hex}")

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

from spherepair.app.database import sqlite_url
from spherepair.app.projects import Projects
from spherepair.app.rows import Source
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
def postgresql(tmp_path_factory: pytest.TempPathFactory):
    """The socket folder of a server that these tests start and stop."""
    pytest.importorskip("psycopg")
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        pytest.skip("PostgreSQL's server is not installed (apt install postgresql)")
    tools, folder = Path(found[-1]), Path(f"/tmp/spherepair-pg-{uuid.uuid4().hex[:8]}")
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
    run(tools / "pg_ctl", "-D", data, "-w", "-o", f"-k {folder} -c listen_addresses=''", "start")
    yield folder
    run(tools / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "log.db")
    folder = request.getfixturevalue("postgresql")
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True) as admin:
        admin.execute(f"create database {name}")
    return f"postgresql+psycopg://postgres@/{name}?host={folder}"

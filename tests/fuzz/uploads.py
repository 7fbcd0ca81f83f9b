"""Files as people upload them to the page, and the columns that they choose."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi.testclient import TestClient
from PIL import Image

from spherepair.app.projects import Projects
from spherepair.app.security import Door
from spherepair.app.server import create_app
from spherepair.errors import InvalidDataError

FIELDS, TOKEN = "fields.json", "a token of the fuzzer"
COLUMNS: dict[str, list[Any]] = {
    "id": [f"m{n}" for n in range(9)],
    "text": [f"some words about number {n}" for n in range(9)],
    "age": [n / 7 for n in range(9)],
}


@cache
def upload_seeds() -> list[dict[str, bytes]]:
    """Files of every kind that the page takes, with and without chosen columns."""
    lines = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)]
    text = "\n".join([",".join(COLUMNS), *(",".join(map(str, line.values())) for line in lines)])
    table = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), table)
    files = {
        "rows.csv": text.encode(),
        "rows.csv.gz": gzip.compress(text.encode()),
        "rows.tsv": text.replace(",", "\t").encode(),
        "rows.jsonl": "\n".join(map(json.dumps, lines)).encode(),
        "rows.parquet": table.getvalue(),
        "rows.zip": zip_of_pictures("PNG"),
    }
    given = {"name": "Messages", "id": "id", "text": "text", "chosen": "true"}
    chosen = [
        {name: files[name], FIELDS: json.dumps(given).encode()} for name in ("rows.csv", "rows.parquet")
    ]
    return [{name: content} for name, content in files.items()] + chosen


def read_upload(folder: Path) -> object:
    """As the page shows a file before it makes a project of it, and then does."""
    chosen, home = folder / FIELDS, folder / "home"
    fields = _fields(chosen.read_bytes()) if chosen.exists() else {}
    (path,) = (file for file in folder.iterdir() if file != chosen)
    home.mkdir()
    client = _client()
    client.app.state.projects.home = home
    for route in ("/api/preview", "/api/projects"):
        reply = client.post(route, files={"file": (path.name, path.read_bytes())}, data=fields)
        if reply.status_code == 422:
            raise InvalidDataError(reply.json()["error"])
        assert reply.is_success, reply.text
    return reply.json()["rows"]


@cache
def _client() -> Any:
    """Faults of the server are raised here."""
    app = create_app(Projects(Path(tempfile.gettempdir())), Door(token=TOKEN))
    return TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})


def _fields(content: bytes) -> dict[str, str]:
    with suppress(ValueError):
        found = json.loads(content)
        if isinstance(found, dict):
            return {_sendable(name): _sendable(value) for name, value in found.items()}
    return {}


def _sendable(value: Any) -> str:
    return str(value).encode(errors="replace").decode()


def zip_of_pictures(kind: str) -> bytes:
    """Nine pictures of a kind, all named ``.png``."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for shade in range(9):
            picture = io.BytesIO()
            Image.new("RGB", (6, 6), (20 * shade, 0, 0)).save(picture, kind)
            archive.writestr(f"{shade}.png", picture.getvalue())
    return stream.getvalue()

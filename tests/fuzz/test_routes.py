"""Requests for every route of the page: replies are as described, and strangers get nothing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("schemathesis")

from tests.app.conftest import TOKEN, as_person, client, home, project, topic_texts, without_training  # noqa: F401
from tests.fuzz.routes import try_routes
from tests.fuzz.uploads import zip_of_pictures

from spherepair.app.projects import Projects

#: Refused whatever schemathesis draws: a file needs a name that says what it is. See uploads.py.
UPLOADS = {"POST /api/preview", "POST /api/projects", "POST /api/projects/{project}/predict"}
PICTURE = "GET /api/projects/{project}/images/{row}"


@pytest.mark.parametrize(("rows", "examples"), [("texts", 4), ("pictures", 2), ("table", 1)])
def test_replies_are_as_described(rows: str, examples: int, home: Projects) -> None:  # noqa: F811
    outcome = try_routes(home, rows, examples=examples)
    assert not outcome.faults, "\n\n".join(f"{name}: {why}" for name, why in outcome.faults.items())
    routes = {route for route, _ in outcome.replies}
    answered = {route for route, status in outcome.replies if status == 200}
    assert len(routes - answered - UPLOADS) < 4  # the requests make sense
    assert (PICTURE in answered) == (rows == "pictures")


def every_route(client: Any, project: str) -> Iterator[tuple[str, str]]:  # noqa: F811
    for path, methods in client.app.openapi()["paths"].items():
        for method in methods:
            yield method, path.format(project=project, row=1, group="g", what="labels")


def test_strangers_get_nothing_from_any_route(client: Any, project: str) -> None:  # noqa: F811
    for method, path in every_route(client, project):
        assert client.request(method, path).status_code == 401, (method, path)


def test_every_change_needs_the_csrf_value(client: Any, project: str) -> None:  # noqa: F811
    client.get(f"/?token={TOKEN}", follow_redirects=False)
    for method, path in every_route(client, project):
        if method != "get":
            assert client.request(method, path).status_code == 403, (method, path)


def test_no_request_writes_outside_of_the_projects(client: Any, home: Projects, tmp_path: Path) -> None:  # noqa: F811
    texts = "text\n" + "".join(f"{text}\n" for text in topic_texts(30)[0])
    pictures = io.BytesIO(zip_of_pictures("PNG"))
    with zipfile.ZipFile(pictures, "a") as archive:
        archive.writestr("../../outside.png", archive.read("1.png"))
        archive.writestr("/outside.png", archive.read("2.png"))
    headers, before = as_person(client, "../../ann"), sorted(tmp_path.iterdir())
    for name, content in (("../../rows.csv", texts.encode()), ("/rows.zip", pictures.getvalue())):
        files, data = {"file": (name, content)}, {"name": "../../outside", "id": "../x"}
        for route in ("/api/preview", "/api/projects"):
            assert client.post(route, files=files, data=data, headers=headers).status_code in (200, 201, 422)
    for method, path in every_route(client, "..%2f..%2foutside"):
        reply = client.request(method, path, headers=headers, json={"name": "../x"})
        assert reply.status_code >= 400 or "outside" not in path, path
    assert sorted(tmp_path.iterdir()) == before == [home.home]
    assert not Path("/outside.png").exists()

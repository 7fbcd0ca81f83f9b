"""Requests for every route of the page: replies are as described, and strangers get nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("schemathesis")

from tests.app.conftest import TOKEN, client, home, project, without_training  # noqa: F401
from tests.fuzz.routes import try_routes

from spherepair.app.projects import Projects

#: Refused whatever schemathesis draws: a file needs a name that says what it is. See uploads.py.
UPLOADS = {"POST /api/preview", "POST /api/projects", "POST /api/projects/{project}/predict"}
PICTURE = "GET /api/projects/{project}/images/{row}"


@pytest.mark.parametrize(("rows", "examples"), [("texts", 10), ("pictures", 2), ("table", 2)])
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

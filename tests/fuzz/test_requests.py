"""Odd requests for every route of the page: never a fault of the server, and nothing for strangers."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

from tests.app.conftest import as_person, client, home, project, without_training  # noqa: F401
from tests.fuzz.requests import draw_requests


def test_odd_requests_are_answered_or_refused(client: Any, project: str) -> None:  # noqa: F811
    spec, seen = client.app.openapi(), Counter[str]()
    for method, path, given in islice(draw_requests(spec, project, 0), 250):
        headers = as_person(client, "ann") | given.pop("headers", {})
        reply = client.request(method, path, headers=headers, **given)
        assert reply.status_code < 500, (method, path, given, reply.text[:500])
        assert "Traceback" not in reply.text
        seen[str(reply.status_code)[0]] += 1
    assert seen["2"] > 20
    assert seen["4"] > 20


def test_strangers_get_nothing_from_any_route(client: Any, project: str) -> None:  # noqa: F811
    spec = client.app.openapi()
    for method, path, given in islice(draw_requests(spec, project, 1), 120):
        if not path.startswith("/api/session"):
            reply = client.request(method, path, headers=given.pop("headers", {}), **given)
            assert reply.status_code in (401, 403, 404, 405, 422), (method, path, reply.status_code)

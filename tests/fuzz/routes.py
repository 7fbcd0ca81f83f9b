"""Requests for every route of the page, which schemathesis draws from its OpenAPI description.

Of every kind of request some are right and some break a rule of the description. A reply must have a status,
a content type and a body that are described there, what breaks a rule is refused, and strangers get nothing.
"""

from __future__ import annotations

import io
import itertools
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import schemathesis
from fastapi.testclient import TestClient
from PIL import Image
from schemathesis.engine import events, from_schema
from tests.app.conftest import TOKEN, as_person, text_source
from tests.app.test_api import Person

from spherepair.app.open_project import Labeling
from spherepair.app.project_rows import Source
from spherepair.app.projects import Projects
from spherepair.app.security import CSRF_HEADER, PERSON_HEADER, Door, Session
from spherepair.app.server import create_app

SETTINGS: dict[str, Any] = {
    "continue-on-failure": True,
    "max-stream-events": 1,  # events come without end
    "request-timeout": 20,
    "suppress-health-check": ["all"],  # some routes take any word: nothing about it can be wrong
    "generation": {"mode": "all", "database": "none", "with-security-parameters": False},
    "phases": {"stateful": {"enabled": False}},  # nearly all of its time goes to uploads that are refused
    "checks": {
        # What is right may be refused all the same: there is no model yet, the answer was taken back.
        "positive_data_acceptance": {"enabled": False},
        # FastAPI names the methods of one function, not those of all functions with the same path.
        "allow_header_conformance": {"enabled": False},
    },
}
PERSON, ROWS = "ann", 12
#: Seconds for one kind of rows, before it is the turn of the next.
LONGEST = 30


@dataclass
class Outcome:
    """Replies by route and status, and what was wrong with some, by route and check."""

    replies: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: dict[str, str] = field(default_factory=dict)


def picture_source() -> Source:
    contents = [io.BytesIO() for _ in range(40)]
    for shade, stream in enumerate(contents):
        Image.new("RGB", (6, 6), (6 * shade, 0, 0)).save(stream, "JPEG")
    names = pa.array([f"{row}.jpg" for row in range(40)], pa.large_string())
    return Source(pa.table({"file": names}), [stream.getvalue() for stream in contents])


def table_source() -> Source:
    count = np.arange(40)
    cities = pa.array([None if n % 9 == 0 else "abc"[n % 3] for n in count], pa.large_string())
    return Source(pa.table({"age": count % 7 * 1.5, "city": cities, "list": [[int(n)] for n in count]}))


SOURCES = {"texts": text_source, "pictures": picture_source, "table": table_source}


def try_routes(
    home: Projects, rows: str, *, examples: int, seed: int = 0, seconds: int | None = None
) -> Outcome:
    """Send requests about a project with some answers: some for each route, and more while there is time."""
    app = create_app(home, Door(token=TOKEN))
    project = home.create(SOURCES[rows](), name="Rows").id
    Person(TestClient(app), project, PERSON).answer_many(14)
    settings = SETTINGS | {"seed": seed} | ({"max-time": seconds} if seconds else {})
    settings |= _token() if rows == "texts" else _cookie(app.state.door)
    settings["generation"] = SETTINGS["generation"] | {"max-examples": examples}
    config = schemathesis.Config.from_dict(settings)
    headers = as_person(TestClient(app), PERSON)
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers=headers, config=config)
    _use_known_names(schema, home.get(project))
    outcome = Outcome()
    for event in from_schema(schema).execute():
        _note(event, outcome)
    return outcome


def fuzz_routes(seed: int, seconds: float) -> Outcome:
    """Send requests for some seconds, about rows of every kind in turn."""
    found, end = Outcome(), time.monotonic() + seconds
    while (left := int(end - time.monotonic())) > 0:
        rows = sorted(SOURCES)[seed % len(SOURCES)]
        with tempfile.TemporaryDirectory() as folder, closing(Projects(Path(folder))) as home:
            outcome = try_routes(home, rows, examples=20, seed=seed, seconds=min(left, LONGEST))
        found.replies += outcome.replies
        found.faults |= outcome.faults
        seed += 1
    return found


def _token() -> dict[str, Any]:
    """How programs sign in."""
    return {"headers": {PERSON_HEADER: PERSON}, "auth": {"openapi": {"HTTPBearer": {"bearer": TOKEN}}}}


def _cookie(door: Door) -> dict[str, Any]:
    """How the page signs in."""
    session = Session("abc", PERSON)
    cookie = {"APIKeyCookie": {"api_key": door.cookie(session)}}
    return {"headers": {CSRF_HEADER: door.csrf(session)}, "auth": {"openapi": cookie}}


def _use_known_names(schema: Any, labeling: Labeling) -> None:
    """Seven requests of eight are about what is there: the project, its rows, groups, answers, the card."""
    turn = itertools.count(1)

    @schema.hook
    def map_case(context: Any, case: Any) -> Any:
        if next(turn) % 8:
            known = _known(labeling, case.operation.path)
            if case.meta.generation.mode != schemathesis.GenerationMode.POSITIVE:
                known = {"project": known["project"]}  # what is wrong stays wrong
            for part in (case.path_parameters, case.body):
                if isinstance(part, dict):
                    part.update({name: _replaced(value, known.get(name)) for name, value in part.items()})
        return case


def _known(labeling: Labeling, path: str) -> dict[str, Any]:
    groups = [group.id for group in labeling.view.groups] or ["none"]
    card = labeling.card(PERSON) if path.endswith("/answers") else None
    return {
        "project": labeling.id,
        "ticket": card.ticket if card else None,
        "group": groups[0],
        "to": groups[-1],
        "groups": groups[:2],
        **dict.fromkeys(("row", "rows", "seeds", "number", "reply"), ROWS),
    }


def _replaced(value: Any, known: Any) -> Any:
    """A known value in place of a drawn one of the same type; numbers below a known one."""
    if isinstance(known, int):
        if isinstance(value, list):
            return [_replaced(one, known) for one in value]
        return value % known if type(value) is int else value
    if isinstance(known, list):
        return known if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
    return known if isinstance(known, str) and isinstance(value, str) else value


def _note(event: Any, outcome: Outcome) -> None:
    if isinstance(event, events.NonFatalError | events.FatalError):
        error = getattr(event, "value", None) or event.exception
        outcome.faults[f"{getattr(event, 'label', '')}: {type(error).__name__}"] = str(error)
    recorder = getattr(event, "recorder", None)
    if recorder is None:
        return
    routes = {number: node.value.operation.label for number, node in recorder.cases.items()}
    for number, seen in recorder.interactions.items():
        if seen.response is not None:
            outcome.replies[routes[number], seen.response.status_code] += 1
    for number, checks in recorder.checks.items():
        for check in checks:
            if (found := check.failure_info) is not None:
                said = f"{found.failure.title}\n{found.failure.message}\n{found.code_sample}"
                outcome.faults.setdefault(f"{routes[number]}: {check.name}", said)

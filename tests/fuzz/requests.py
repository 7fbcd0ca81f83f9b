"""Requests for every route of the page, drawn at random from its OpenAPI description, with odd values."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.fuzz.alterations import PIECES, VALUES, alter_bytes

#: A stream that does not end.
ENDLESS = "/events"
ODD = (
    "",
    "-1",
    "1e9",
    "99999999999999999999",
    "nan",
    "../../etc/passwd",
    "%00",
    "a" * 300,
    "é…\u202e",
    "null",
)


def draw_requests(spec: dict[str, Any], project: str, seed: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and arguments of requests without end; the same seed gives the same."""
    source = random.Random(seed)
    routes = [
        (path, method, operation)
        for path, methods in sorted(spec["paths"].items())
        for method, operation in sorted(methods.items())
        if not path.endswith(ENDLESS)
    ]
    while True:
        path, method, operation = source.choice(routes)
        query = {}
        for parameter in operation.get("parameters", []):
            name, usual = parameter["name"], source.random() < 0.6
            value = (project if name == "project" else "1") if usual else source.choice(ODD)
            if parameter["in"] == "path":
                path = path.replace(f"{{{name}}}", value.replace("/", "%2F").replace("?", "%3F") or "x")
            elif parameter["in"] == "query" and source.random() < 0.8:
                query[name] = value
        yield method, path, {"params": query, **_body(source, operation, spec)}


def _body(source: random.Random, operation: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        given = json.dumps(_value(source, content["application/json"]["schema"], spec)).encode()
        sent = source.choice(PIECES) if source.random() < 0.1 else given
        return {"content": sent, "headers": {"Content-Type": "application/json"}}
    if "multipart/form-data" in content:
        table = alter_bytes(source, b"id,text\n" + b"".join(b"m%d,some words\n" % n for n in range(9)))
        name = source.choice(("rows.csv", "rows.jsonl", "rows.parquet", "rows.zip", "../rows.csv", ""))
        fields = {key: str(source.choice(ODD)) for key in ("name", "text", "id") if source.random() < 0.3}
        return {"files": {"file": (name, table)}, "data": fields}
    return {}


def _value(source: random.Random, schema: dict[str, Any], spec: dict[str, Any], depth: int = 0) -> Any:
    """A value that follows a schema, except where it does not."""
    if source.random() < 0.15 or depth > 5:
        return source.choice(VALUES)
    if "$ref" in schema:
        return _value(
            source, spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], spec, depth + 1
        )
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return _value(source, source.choice(options), spec, depth + 1)
    if "enum" in schema or "const" in schema:
        return source.choice(schema.get("enum") or [schema["const"]])
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {
            k: _value(source, inner, spec, depth + 1) for k, inner in fields.items() if source.random() < 0.9
        }
    if kind == "array":
        count = source.choice((0, 1, 3))
        return [_value(source, schema.get("items", {}), spec, depth + 1) for _ in range(count)]
    plain = {"integer": source.choice((0, 1, 5, -1, 10**9)), "number": 1.5, "boolean": True, "null": None}
    return plain.get(str(kind), source.choice(("", "same", "none", "ann", *ODD)))

"""Random changes of bytes, JSON, files and tensors."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from typing import Any

#: What is put in the place of a piece of a file or of a value of JSON.
PIECES = (
    *(
        b"",
        b"\0",
        b"\xff\xfe",
        b"\r",
        b"\n\n\n",
        b'"',
        b",",
        b";",
        b"[" * 40,
        b"{" * 40,
        b"\x1b[2J",
        b"=cmd()",
    ),
    *(b"-1", b"0", b"1e999", b"nan", b"99999999999999999999", b"-9223372036854775809", b"1:1", b"9" * 400),
    *(b"\xed\xa0\x80", b"\\ud800", b"null", b"true", "é…\u202e".encode(), b"A" * 3000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**63, 2**70, 0.5, 1e300, float("nan"), float("inf")),
    *("", "x", "\ud800", "=1", [], [[]], {}, [None], {"class": "os"}, {"described": 1}, "9" * 5000),
)


def alter_bytes(source: random.Random, content: bytes) -> bytes:
    """The content with one to four changes."""
    found = bytearray(content)
    for _ in range(source.choice((1, 1, 2, 4))):
        place, length = source.randrange(len(found) + 1), source.choice((0, 1, 2, 8, 100))
        change = source.randrange(6)
        if change == 0 and place < len(found):
            found[place] ^= 1 << source.randrange(8)
        elif change == 1:
            found[place : place + length] = source.choice(PIECES)
        elif change == 2:
            found[place : place + length] = source.randbytes(length)
        elif change == 3:
            del found[place:]
        elif change == 4:
            other = source.randrange(len(found) + 1)
            found[place:place] = found[other : other + source.choice((1, 10, 200))]
        elif place + 8 <= len(found):
            number = source.choice((0, 1, 255, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1))
            found[place : place + 8] = number.to_bytes(8, "little")
    return bytes(found)


def alter_json(source: random.Random, content: Any) -> Any:
    """JSON with another value at a random place."""
    content = json.loads(json.dumps(content))
    inner = content
    while inner:
        key = source.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        if not isinstance(inner[key], dict | list) or not inner[key] or source.random() < 0.3:
            if isinstance(inner, dict) and source.random() < 0.2:
                del inner[key]
            else:
                inner[key] = source.choice(VALUES)
            break
        inner = inner[key]
    return content


def alter_file(source: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """One of the files altered; what is packed is often altered inside."""
    name = source.choice(sorted(files))
    content = files[name]
    if name.endswith(".gz") and source.random() < 0.7:
        return files | {name: gzip.compress(alter_bytes(source, gzip.decompress(content)), 1)}
    if name.endswith((".npz", ".xlsx", ".zip")) and source.random() < 0.7:
        return files | {name: _alter_inside(source, content)}
    if name.endswith((".json", ".jsonl")) and source.random() < 0.5:
        lines = content.decode().splitlines()
        place = source.randrange(len(lines)) if name.endswith(".jsonl") else 0
        given = lines[place] if name.endswith(".jsonl") else content.decode()
        changed = json.dumps(alter_json(source, json.loads(given)))
        rest = [*lines[:place], changed, *lines[place + 1 :]] if name.endswith(".jsonl") else [changed]
        return files | {name: "\n".join(rest).encode()}
    return files | {name: alter_bytes(source, content)}


def _alter_inside(source: random.Random, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        names = old.namelist()
        chosen = source.choice(names)
        for name in names:
            inside = old.read(name)
            new.writestr(name, alter_bytes(source, inside) if name == chosen else inside)
    return stream.getvalue()


def alter_tensors(source: random.Random, tensors: dict[str, Any]) -> None:
    """Another value, type, shape or name for one tensor."""
    name = source.choice(sorted(tensors))
    tensor = tensors[name]
    change = source.randrange(5)
    if change == 0 and tensor.numel():
        value = (
            source.choice((-1, 0, 2, 10**6, -(2**31)))
            if not tensor.is_floating_point()
            else source.choice((float("nan"), float("inf"), -1.0, 1e30, 0.0))
        )
        tensor.reshape(-1)[source.randrange(tensor.numel())] = value
    elif change == 1:
        tensors[name] = source.choice(
            (tensor.double(), tensor.long(), tensor.bool(), tensor.half())
        ).contiguous()
    elif change == 2:
        tensors[name] = source.choice(
            (tensor.reshape(-1), tensor[None], tensor.reshape(-1)[:1], tensor.reshape(-1)[:0])
        ).clone()
    elif change == 3:
        del tensors[name]
    else:
        tensors[source.choice((f"{name}x", "network.more", "encoder.0"))] = tensor.clone()

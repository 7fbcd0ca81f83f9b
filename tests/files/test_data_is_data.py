"""Nothing in a file of rows or pairs is executed, and no other file or place is opened because of it."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fuzz.targets import data_seeds

from spherepair import Constraints
from spherepair.errors import SpherePairError
from spherepair.files.data_sets import Needs, open_data_file
from spherepair.files.data_tables import read_table
from spherepair.files.places import find_files

#: What an audit hook notes; such hooks cannot be taken away again.
_noted: list[list[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _noted and event in ("open", "socket.connect", "os.system", "subprocess.Popen", "os.mkdir"):
        _noted[-1].append(f"{event} {arguments[:2]}")


sys.addaudithook(_note)


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


def bytes_of(write: Callable[[Any], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def hostile_files(secret: Path) -> dict[str, bytes]:
    """Files that would open the secret, call home or explode in a reader that does what they say."""
    bomb = np.array([[Bomb()]], dtype=object)
    columns = {
        "a": [str(secret)] * 3,
        "b": [f"file://{secret}", '=WEBSERVICE("http://127.0.0.1:9/")', "|id"],
    }
    book = next(files for files in data_seeds() if "rows.xlsx" in files)["rows.xlsx"]
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.startswith("xl/worksheets"):
                entity = f'<!DOCTYPE x [<!ENTITY y SYSTEM "file://{secret}">]>'.encode()
                content = b"<?xml version='1.0'?>" + entity + content.replace(b"<v>1</v>", b"<v>&y;</v>")
            new.writestr(name, content)
    text = "\n".join([",".join(columns), *map(",".join, zip(*columns.values(), strict=True))])
    return {
        "pickled.npy": bytes_of(lambda file: np.save(file, bomb, allow_pickle=True)),
        "bare.npy": pickle.dumps(Bomb()),
        "pickled.npz": bytes_of(lambda file: np.savez(file, X=bomb)),
        "outside.npz": bytes_of(lambda file: np.savez(file, **{f"../../{secret.name}": np.ones((3, 2))})),
        "called.npy": b"\x93NUMPY\x01\x00\x40\x00" + b"__import__('os').mkdir('exploded')".ljust(63) + b"\n",
        "rows.csv": text.encode(),
        "rows.parquet": bytes_of(lambda file: pq.write_table(pa.table(columns), file)),
        "rows.xlsx": stream.getvalue(),
        "rows.svmlight": f"1 1:1 # {secret}\n2 1:2\n".encode(),
        "pairs.csv": f"left,right,link\n{secret},@{secret},must\n".encode(),
        "pairs.jsonl": f'{{"left": {{"$ref": "file://{secret}"}}, "right": 1, "link": "must"}}\n'.encode(),
    }


def in_parts(source: Path | str) -> object:
    return list(open_data_file(find_files(source)[0]).batches(Needs(mixed=True)))


READERS: dict[str, Callable[[Path, str], object]] = {
    "whole": lambda path, _: read_table(path, mixed=True),
    "whole, elsewhere": lambda _, uri: read_table(uri, mixed=True),
    "in parts": lambda path, _: in_parts(path),
    "in parts, elsewhere": lambda _, uri: in_parts(uri),
    "as pairs": lambda path, _: Constraints.read(path),
}


@pytest.mark.parametrize("name", hostile_files(Path("secret.txt")))
@pytest.mark.parametrize("reader", READERS)
def test_what_a_file_says_is_neither_done_nor_opened(
    reader: str, name: str, tmp_path: Path, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "outside" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("4711")
    path = tmp_path / "given" / name
    path.parent.mkdir()
    path.write_bytes(hostile_files(secret)[name])
    monkeypatch.chdir(path.parent)
    _noted.append([])
    try:
        found = READERS[reader](path, f"{elsewhere}/given/{name}")
    except SpherePairError as error:
        found = error
    finally:
        done = _noted.pop()
    assert "4711" not in str(getattr(found, "X", found))
    assert not [event for event in done if not event.startswith("open")]
    assert not [event for event in done if str(secret) in event]
    assert os.listdir(path.parent) == [name]


def test_the_hook_notes_what_is_opened(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    (tmp_path / "exploded").write_text("")
    _noted.append([])
    (tmp_path / "exploded").read_text()
    pickle.loads(pickle.dumps(Bomb()).replace(b"exploded", b"exploda0"))
    done = _noted.pop()
    os.rmdir("exploda0")
    assert any("exploded" in event for event in done)
    assert any(event.startswith("os.mkdir") for event in done)

"""Read and write files of pairs: csv, parquet, json lines, with columns left, right, link, weight.

Rows of a file are counted as a text editor shows its lines: the header of a csv file is row 1, so
its first pair is row 2; the first line of a json lines file is row 1; the first pair of a parquet
file is row 1.
"""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spherepair.constraints import reading, writing
from spherepair.constraints.parsing import RawColumns, parse_columns
from spherepair.constraints.table import PairTable
from spherepair.errors import InvalidConstraintsError, MissingDependencyError


def read_pairs(path: str | os.PathLike[str], *, ids: Any, n_rows: int | None) -> PairTable:
    """Read a file of pairs; repeated pairs are still there."""
    path = Path(path)
    kind = _kind_of(path)
    _require_pyarrow(path)
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist; check the path"
        raise InvalidConstraintsError(f"constraints: {path} {what}.")
    return parse_columns(_READERS[kind](path), ids=ids, n_rows=n_rows)


def write_pairs(pairs: PairTable, path: str | os.PathLike[str], *, ids: Any) -> None:
    """Write a file of pairs under another name first, so that no half of one is ever seen."""
    path = Path(path)
    kind = _kind_of(path)
    _require_pyarrow(path)
    if not path.parent.is_dir():
        raise InvalidConstraintsError(f"constraints: the folder of {path} does not exist.")
    data = _WRITERS[kind](writing.arrow_table(pairs, ids))
    if path.suffix.lower() == ".gz":
        # No time stamp: the same pairs give the same file.
        data = gzip.compress(data, mtime=0)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _kind_of(path: Path) -> str:
    name = path.name.lower()
    for suffix, kind in _KINDS.items():
        if name.endswith(suffix):
            return kind
    raise InvalidConstraintsError(
        f"constraints: {path} is of an unknown kind; its name must end in {', '.join(_KINDS)}."
    )


def _require_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f'constraints: {path.name} needs pyarrow; pip install "spherepair[files]".'
        ) from error


_KINDS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".jsonl.gz": "json lines",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_READERS: dict[str, Callable[[Path], RawColumns]] = {
    "csv": reading.read_csv,
    "json lines": reading.read_json_lines,
    "parquet": reading.read_parquet,
}
_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "csv": writing.csv_bytes,
    "json lines": writing.json_lines_bytes,
    "parquet": writing.parquet_bytes,
}

"""Take the columns of pairs out of csv, json lines and parquet files, and know their rows."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.constraints.parsing import RawColumns, text_array
from spherepair.constraints.table import BoolArray, IndexArray
from spherepair.errors import InvalidConstraintsError

_NEEDED = ("left", "right", "link")
_USED = (*_NEEDED, "weight")
_WHITE = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_csv(path: Path) -> RawColumns:
    """Columns of a csv file, whose first line names them."""
    data = _read_text(path)
    lines = _csv_lines(data)
    header, body = _split_header(data)
    names = [name.strip().lower() for name in next(csv.reader([header]), [])]
    if not lines.size:
        raise InvalidConstraintsError(
            f"constraints: {path.name} is empty, without even a line that names its columns; the columns "
            "must be left, right, link and perhaps weight."
        )
    _check_names(names, path)
    if not body.strip():
        return _no_pairs(path)
    table = _parse_csv(body, names, lines=lines[1:], path=path)
    # A quote in the middle of a value upsets the count of lines; then number the records.
    rows = lines[1:] if len(lines) == table.num_rows + 1 else np.arange(2, table.num_rows + 2)
    return RawColumns(path.name, dict(zip(table.column_names, table.columns, strict=True)), rows)


def _parse_csv(body: bytes, names: list[str], *, lines: IndexArray, path: Path) -> Any:
    """A table of text; numbers are parsed later, as an id such as 007 must stay what it is."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    uneven: list[Any] = []

    def note(row: Any) -> str:
        uneven.append(row)
        return "skip"

    used = [name for name in _USED if name in names]
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(body),
            # Only one thread counts the rows that invalid_row_handler is told about.
            read_options=pa_csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=pa_csv.ParseOptions(
                newlines_in_values=True,
                invalid_row_handler=note,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=used, column_types=dict.fromkeys(used, pa.string())
            ),
        )
    except pa.ArrowInvalid as error:
        raise InvalidConstraintsError(f"constraints: {path.name} is no csv file; {error}") from error
    if uneven:
        row = lines[min(uneven[0].number, len(lines)) - 1]
        raise InvalidConstraintsError(
            f"constraints: {path.name} row {row} has {uneven[0].actual_columns} values, "
            f"but the header names {len(names)} columns."
        )
    return table


def read_json_lines(path: Path) -> RawColumns:
    """Columns of a json lines file: one object per line."""
    data = _read_text(path)
    rows = _filled_lines(data, blank=_WHITE)
    lines = (line for line in data.decode().split("\n") if line.strip(_WHITE.decode()))
    records = _parse_records(lines, rows, path)
    if not records:
        return _no_pairs(path)
    _check_names(list(dict.fromkeys(key for record in records for key in record)), path)
    columns = {name: _json_column([record.get(name) for record in records]) for name in _USED}
    return RawColumns(path.name, columns, rows)


def _parse_records(lines: Iterable[str], rows: IndexArray, path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    try:
        # Grows line by line, so that its length tells which line was at fault.
        records.extend(map(json.loads, lines))
    except (ValueError, RecursionError) as error:
        raise InvalidConstraintsError(
            f"constraints: {path.name} row {rows[len(records)]} is not JSON; {error}."
        ) from error
    wrong = [index for index, record in enumerate(records) if not isinstance(record, dict)]
    if wrong:
        raise InvalidConstraintsError(
            f"constraints: {path.name} row {rows[wrong[0]]} is not a JSON object with left, right and link."
        )
    return records


def _json_column(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return text_array(values)


def read_parquet(path: Path) -> RawColumns:
    """Columns of a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = {name.strip().lower(): name for name in file.schema_arrow.names}
            _check_names(list(names), path)
            table = file.read(columns=[names[name] for name in _USED if name in names])
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidConstraintsError(
            f"constraints: {path.name} is no parquet file, or only a part of one; {error}"
        ) from error
    columns = {name: table[names[name]] for name in _USED if name in names}
    return RawColumns(path.name, columns, np.arange(1, table.num_rows + 1))


def _read_text(path: Path) -> bytes:
    """The bytes of a text file in UTF-8, unpacked, without a byte order mark."""
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidConstraintsError(
                f"constraints: {path.name} is no gzip file, or only a part of one; {error}."
            ) from error
    data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise InvalidConstraintsError(
            f"constraints: {path.name} row {row} is not text in UTF-8; save the file as UTF-8."
        ) from error
    return data


def _csv_lines(data: bytes) -> IndexArray:
    """Numbers, from 1, of the lines where the header and the records begin."""
    lines, starts = _filled_lines(data, blank=b"\r\n"), _line_starts(data)
    if b'"' not in data:
        return lines
    # A line that begins inside quotes, after an odd number of them, goes on with a record.
    n_quotes = np.add.reduceat(np.frombuffer(data, np.uint8) == ord('"'), starts, dtype=np.int64)
    is_inside: BoolArray = (np.cumsum(n_quotes) - n_quotes) % 2 == 1
    return lines[~is_inside[lines - 1]]


def _filled_lines(data: bytes, *, blank: bytes) -> IndexArray:
    """Numbers, from 1, of the lines that hold more than the bytes in `blank`."""
    if not data:
        return np.empty(0, np.int64)
    is_ink = ~np.isin(np.frombuffer(data, np.uint8), list(blank))
    return np.flatnonzero(np.logical_or.reduceat(is_ink, _line_starts(data))) + 1


def _line_starts(data: bytes) -> IndexArray:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
    return starts[starts < len(data)]


def _split_header(data: bytes) -> tuple[str, bytes]:
    header, _, body = data.lstrip(b"\r\n").partition(b"\n")
    return header.decode("utf-8").strip(), body


def _check_names(names: list[str], path: Path) -> None:
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise InvalidConstraintsError(
            f"constraints: {path.name} has no column {' and no column '.join(missing)}; it has "
            f"{', '.join(names)}. The columns must be left, right, link and perhaps weight."
        )
    repeated = [name for name in _USED if names.count(name) > 1]
    if repeated:
        raise InvalidConstraintsError(
            f"constraints: {path.name} has the column {repeated[0]} more than once."
        )


def _no_pairs(path: Path) -> RawColumns:
    import pyarrow as pa

    columns = {name: pa.array([], pa.string()) for name in _NEEDED}
    return RawColumns(path.name, columns, np.empty(0, np.int64))

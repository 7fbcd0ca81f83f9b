"""Parquet files from elsewhere: the sizes of their pages first, decoding second.

A reader of parquet makes room for whatever the header of a page says, and repeats the words of a dictionary
as often as the page wants; what the end of the file says of sizes need not be true. So the headers of the
pages are read here: small structures in Thrift's compact protocol, one before each page.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from spherepair.files.arrow_rows import unfolded_bytes, with_usual_times
from spherepair.files.untrusted import (
    FOOTER_BYTES,
    NAMED_COLUMNS,
    UNPACKED_BYTES,
    Fail,
    FilePlace,
    limit,
    refuse_above,
    refuse_large,
    size_of,
)

#: Rows read at a time where a text of the dictionary may be repeated in every row.
MOST_BATCH_ROWS = 65_536
#: Longest header of a page in bytes; it may hold the least and the greatest value.
LONGEST_HEADER, _SHORT_HEADER = 2**24, 2**10
#: Fields of a page's header, and of the headers of data inside it.
_UNPACKED_SIZE, _PACKED_SIZE, _DATA, _DICTIONARY, _DATA_V2, _N_VALUES = 2, 3, 5, 7, 8, 1
#: Fields of the description of a file, of a group of rows, of a column in it, and of its content.
_ROW_GROUPS, _COLUMNS, _COLUMN, _TYPE, _PATH = 4, 1, 3, 1, 3
_CHUNK_VALUES, _CHUNK_SIZE, _DATA_AT, _DICTIONARY_AT, _STATISTICS, _N_NULL = 5, 7, 9, 11, 12, 3
_BYTE_ARRAY = 6
#: Types of whole numbers in Thrift.
_NUMBERS = frozenset((4, 5, 6))
#: A dictionary of texts takes so many times its size in memory while it is read.
DICTIONARY_COPIES = 8
#: Bytes at the end: the length of the description, and a mark.
END_BYTES = 8
_DEEPEST = 16


def read_description(stream: Any, fail: Fail) -> Any:
    """What the end of a parquet file says of it; columns are counted before they are used."""
    import pyarrow.parquet as pq

    refuse_above(footer_bytes(stream), FOOTER_BYTES, "bytes that describe its columns", fail)
    metadata = pq.read_metadata(stream)
    refuse_above(metadata.num_columns, NAMED_COLUMNS, "columns", fail)
    return metadata


def groups_with_missing(stream: Any, metadata: Any, name: str | None) -> list[int]:
    """Row groups whose statistics say that a column, which is not nested, has missing values."""
    if name is None:
        return []
    described = _column_chunks(stream, len(metadata.schema))
    return [k for k, chunks in enumerate(described) for c in chunks if c.path == [name] and c.n_missing]


def read_parquet(path: FilePlace, metadata: Any, names: list[str], fail: Fail) -> Any:
    """Arrow table of some columns; refused where it would be too large, whatever the file says."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    # Runs of one value take no room in the file, but eight bytes each in memory.
    values = sum(group.num_rows for group in groups) * len(names) * 8
    refuse_large(max(values, sum(group.total_byte_size for group in groups)), size_of(path), fail)
    if isinstance(path, Path):
        table = _read_here(path, metadata, names, fail)
    else:  # elsewhere each header of a page would be a request of its own
        table = _read_batches(path, names, MOST_BATCH_ROWS, fail)
    table.validate(full=True)  # texts may be no texts
    table = with_usual_times(table)
    if names and len(table) != metadata.num_rows:
        raise fail(f"has {len(table):,} rows, but says that it has {metadata.num_rows:,}; write it again.")
    return table


def open_parquet(path: FilePlace) -> Any:
    """The bytes of a file of this machine, or of a file system of pyarrow."""
    return path.open("rb") if isinstance(path, Path) else path.stream()


def _read_here(path: Path, metadata: Any, names: list[str], fail: Fail) -> Any:
    import pyarrow.parquet as pq

    with path.open("rb") as stream:
        pages = page_sizes(stream, metadata, set(names))
    refuse_large(pages.most_bytes, path.stat().st_size, fail)
    if pages.largest_text * pages.n_texts > limit(UNPACKED_BYTES):
        return _read_batches(path, names, _rows_of(pages.largest_text), fail)
    return pq.read_table(path, columns=names, partitioning=None)


def _read_batches(path: FilePlace, names: list[str], n_rows: int, fail: Fail) -> Any:
    """Read rows a few at a time: a long text may be stored once in the file and be repeated in every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches, n_bytes = [], 0
    with open_parquet(path) as stream, pq.ParquetFile(stream) as opened:
        for batch in opened.iter_batches(batch_size=n_rows, columns=names):
            batches.append(batch)
            n_bytes += unfolded_bytes(batch)
            refuse_large(n_bytes, size_of(path), fail)
        schema = opened.schema_arrow
    chosen = pa.schema([schema.field(name) for name in names], schema.metadata)
    return pa.Table.from_batches([batch.select(names) for batch in batches], chosen).combine_chunks()


def _rows_of(longest: int) -> int:
    """Rows that may be read at a time where each may hold a text so long."""
    return min(MOST_BATCH_ROWS, max(1, limit(UNPACKED_BYTES) // (16 * max(1, longest))))


@dataclass
class PageSizes:
    """What the pages of some columns hold together.

    Attributes
    ----------
    n_bytes : int
        When they are unpacked.
    n_values : int
    largest, largest_text : int
        Bytes of the largest page, and of the largest with texts, unpacked; a text is no longer.
    n_texts, n_listed : int
        Values that are texts, and those that stand in lists.
    """

    n_bytes: int = 0
    n_values: int = 0
    largest: int = 0
    largest_text: int = 0
    n_texts: int = 0
    n_listed: int = 0

    @property
    def most_bytes(self) -> int:
        """Bytes of all values in memory, at least; more only where texts are repeated."""
        return max(self.n_bytes, 8 * self.n_values)


def footer_bytes(stream: Any) -> int:
    """Length of the description at the end of a parquet file; ``ValueError`` where there is none."""
    stream.seek(0, os.SEEK_END)
    stream.seek(max(0, stream.tell() - END_BYTES))
    end = stream.read(END_BYTES)
    if len(end) < END_BYTES or end[4:] not in (b"PAR1", b"PARE"):
        raise ValueError("it does not end as a parquet file does")
    return int.from_bytes(end[:4], "little")


def safe_batch_rows(
    stream: Any, metadata: Any, names: AbstractSet[str], groups: Iterable[int], fail: Fail
) -> int:
    """Rows of a file that may be read at a time; one with a page or lists that are too large is refused."""
    pages = page_sizes(stream, metadata, names, groups)
    refuse_above(pages.largest, UNPACKED_BYTES, "bytes in one page when it is unpacked", fail)
    # A single row may hold all of them.
    refuse_large(8 * pages.n_listed, stream.seek(0, os.SEEK_END), fail)
    is_repeated = pages.largest_text * pages.n_texts > limit(UNPACKED_BYTES)
    return _rows_of(pages.largest_text) if is_repeated else MOST_BATCH_ROWS


def values_of_a_row(stream: Any, metadata: Any, names: AbstractSet[str], groups: Iterable[int]) -> int:
    """Values of these columns in a row of some row groups, rounded up: a vector has many."""
    described, groups = _column_chunks(stream, len(metadata.schema)), [*groups]
    n_rows = 1 + int(sum(metadata.row_group(group).num_rows for group in groups))
    n_values = 1 + sum(chunk.n_values for group in groups for chunk in described[group] if chunk.is_of(names))
    return -(-n_values // n_rows)


def page_sizes(
    stream: Any, metadata: Any, names: AbstractSet[str], groups: Iterable[int] | None = None
) -> PageSizes:
    """Sizes of all pages of some columns.

    Parameters
    ----------
    stream : file, opened for reading bytes
    metadata : FileMetaData of pyarrow
    names : set of str
        Columns; of a nested one all parts count.
    groups : iterable of int, optional
        Row groups; all by default.
    """
    found, described = PageSizes(), _column_chunks(stream, len(metadata.schema))
    coded = {field.name for field in metadata.schema.to_arrow_schema() if "dictionary<" in str(field.type)}
    for group in range(metadata.num_row_groups) if groups is None else groups:
        for place, chunk in enumerate(described[group]):
            if chunk.is_of(names):
                is_list = metadata.schema.column(place).max_repetition_level > 0
                _add_chunk(found, stream, chunk, is_list=is_list, is_coded=chunk.path[0] in coded)
    return found


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Position of the pages of one column in one row group."""

    path: list[str]
    is_text: bool
    n_values: int
    n_missing: int  # as the statistics say, if there are any
    start: int
    end: int

    def is_of(self, names: AbstractSet[str]) -> bool:
        """Whether it belongs to one of these columns."""
        # A part of a nested column is called column.part; a name may itself have a dot.
        return not names.isdisjoint(accumulate(self.path, "{}.{}".format))


def _column_chunks(stream: Any, n_columns: int) -> list[list[_Chunk]]:
    """The columns of every row group.

    Not by pyarrow, which ends the process where sizes in the description do not fit each other.
    """
    length = footer_bytes(stream)
    stream.seek(-END_BYTES - length, os.SEEK_END)
    found = _described_chunks(stream.read(length))
    if any(len(columns) != n_columns for columns in found):
        raise ValueError("a group of rows has more or fewer columns than the file")
    return found


@lru_cache(maxsize=1)  # many parts may be of one file, and each would read the whole description
def _described_chunks(footer: bytes) -> list[list[_Chunk]]:
    groups = _Description(footer).struct().get(_ROW_GROUPS) or []
    if not all(type(group) is list for group in groups):
        raise ValueError("a group of rows has no columns")
    return groups


def _chunk(described: dict[int, Any]) -> _Chunk:
    path = [sys.intern(str(name, "utf-8")) for name in described[_PATH]]
    # Zero stands for no such page: the file begins with a mark.
    starts = [place for place in (_field(described, _DATA_AT), _field(described, _DICTIONARY_AT)) if place]
    start = min(starts, default=0)
    end = start + _field(described, _CHUNK_SIZE) if start else 0
    counts = _field(described, _CHUNK_VALUES), _field(described, _STATISTICS, _N_NULL)
    return _Chunk(path, described[_TYPE] == _BYTE_ARRAY, *counts, start, end)


def _add_chunk(found: PageSizes, stream: Any, chunk: _Chunk, *, is_list: bool, is_coded: bool) -> None:
    for header in _headers(stream, chunk):
        size = header[_UNPACKED_SIZE]
        if is_coded and chunk.is_text and _DICTIONARY in header:
            size *= DICTIONARY_COPIES
        found.n_bytes += size
        found.largest = max(found.largest, size)
        n_values = max(_field(header, kind, _N_VALUES) for kind in (_DATA, _DATA_V2))
        found.n_values += n_values
        found.n_listed += n_values if is_list else 0
        if chunk.is_text:
            found.largest_text = max(found.largest_text, size)
            found.n_texts += n_values


def _headers(stream: Any, chunk: _Chunk) -> Iterator[dict[int, Any]]:
    """Headers of the pages of one column in one row group."""
    place = chunk.start
    while place < chunk.end:
        header, length = _header_at(stream, place)
        sizes = (header.get(_UNPACKED_SIZE), header.get(_PACKED_SIZE))
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise ValueError("a page does not say how long it is")
        place += length + header[_PACKED_SIZE]
        if place > chunk.end:  # Arrow makes room for it before it looks for its bytes
            raise ValueError("a page is longer than its column")
        yield header


def _header_at(stream: Any, place: int) -> tuple[dict[int, Any], int]:
    for longest in (_SHORT_HEADER, LONGEST_HEADER):
        stream.seek(place)
        reader = _Compact(stream.read(longest))
        try:
            return reader.struct(), reader.place
        except IndexError:
            continue
    raise ValueError("the header of a page does not end")


def _field(header: dict[int, Any], *path: int) -> int:
    value: Any = header
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


class _Compact:
    """Thrift's compact protocol; ``IndexError`` where the bytes end too early.

    A file may have a hundred thousand columns and pages, and calls are slow: hence few of them.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields by number."""
        found: dict[int, Any] = {}
        number, content = 0, self.content
        while head := content[self.place]:
            self.place += 1
            number = number + (head >> 4) if head > 15 else self._number()
            kind = head & 15
            found[number] = self._number() if kind in _NUMBERS else self._value(kind, depth)
        self.place += 1
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind == 8:
            return self._take(self._varint())
        if depth > _DEEPEST:
            raise ValueError("the header of a page is nested too deeply")
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (9, 10):
            return self._list(depth)
        if kind in (1, 2):  # a flag, which is its own type
            return kind == 1
        if kind in _NUMBERS:
            return self._number()
        if kind not in (3, 7):
            raise ValueError(f"the header of a page holds something of type {kind}")
        return self._take(1 if kind == 3 else 8)  # a byte, a floating-point number

    def _list(self, depth: int) -> list[Any]:
        """Structures and texts; of numbers, of which there may be millions, only the last."""
        head = self.content[self.place]
        self.place += 1
        count = head >> 4 if head >> 4 < 15 else self._varint()
        # A flag in a list takes a byte.
        kind = 3 if head & 15 in (1, 2) else head & 15
        values = (self._value(kind, depth + 1) for _ in range(min(count, len(self.content))))
        return list(values) if kind in (8, 12) else list(deque(values, maxlen=1))

    def _take(self, count: int) -> bytes:
        self.place += count
        if self.place > len(self.content):
            raise IndexError
        return self.content[self.place - count : self.place]

    def _varint(self) -> int:
        content, place = self.content, self.place
        value, shift = content[place] & 127, 7
        while content[place] > 127:
            place += 1
            value |= (content[place] & 127) << shift
            shift += 7
            if shift > 70:
                raise ValueError("the header of a page holds a number that does not end")
        self.place = place + 1
        return value

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


class _Description(_Compact):
    """The end of a file. Of each group of rows only the columns are kept: there may be 100,000 in all."""

    def struct(self, depth: int = 0) -> Any:
        """Fields by number; the columns of a group of rows."""
        found = super().struct(depth)
        is_group = depth == 2 and type(found.get(_COLUMNS)) is list
        return [_chunk(column[_COLUMN]) for column in found[_COLUMNS]] if is_group else found

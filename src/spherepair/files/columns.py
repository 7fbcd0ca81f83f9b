"""Files of named columns: csv, json lines and parquet.

Tables of features and files of pairs are read and written here, as Arrow tables. Rows are counted as a text
editor counts lines: the header of a csv file is row 1, so its first record is row 2; the first line of a json
lines file and the first record of a parquet file are row 1. pyarrow is optional, imported where it is used.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import MissingDependencyError, quoted
from spherepair.files import atomic_write_bytes
from spherepair.files.csv_files import CsvReader, csv_bytes
from spherepair.files.parquet_files import open_parquet, read_description, read_parquet
from spherepair.files.text_lines import decode, filled_lines, read_bytes
from spherepair.files.untrusted import (
    NAMED_COLUMNS,
    Fail,
    FilePlace,
    decoding,
    refuse_above,
    refuse_gzip_bomb,
    refuse_wide_sheet,
    refuse_zip_bomb,
)

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv")
SHEET_SUFFIXES = (".xlsx",)
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
#: Kinds that are written as well as read.
TABLE_SUFFIXES = (*CSV_SUFFIXES, *JSON_LINES_SUFFIXES, *PARQUET_SUFFIXES)
_WHITE = b" \t\r\n"


class ColumnFile(ABC):
    """An opened file of named columns; see :func:`open_columns`.

    Attributes
    ----------
    path : Path
    source : str
        What it was opened as; a path cannot hold a URI.
    kind : str
        "csv", "json lines" or "parquet".
    names : list of str
        Names of the columns, as they stand in the file.
    is_blank : bool
        Whether a json lines file holds nothing at all, and therefore has no names either.
    n_rows : int or None
        Number of rows, where the file says it without being read.
    is_local : bool
        Whether it is on this machine.
    """

    kind: str
    is_blank = False
    n_rows: int | None = None
    names: list[str]

    def __init__(self, path: FilePlace | str, fail: Fail) -> None:
        self.path, self.source, self.fail = Path(str(path)), str(path), fail
        self.is_local = isinstance(path, Path)

    @property
    def parts(self) -> Sequence[ColumnFile]:
        """The files that it is put together from: itself, unless it is a data set."""
        return [self]

    @abstractmethod
    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        """Arrow table of some columns, in the order asked for.

        Parameters
        ----------
        names : sequence of str
            Columns to read.
        text : collection of str
            Columns of a csv file to leave as text; the types of all others are inferred.
        """

    @abstractmethod
    def rows(self, n_records: int) -> NDArray[np.int64]:
        """Row of the file of each record, of shape (n_records,)."""

    def split(self, table: Any) -> Iterator[tuple[ColumnFile, Any]]:
        """The rows of each of the parts, of a table that was read."""
        yield self, table

    def locate(self, row: int, n_records: int) -> str:
        """Where a row is found: its line, as editors count."""
        return f"line {self.rows(n_records)[row]}"

    def schema(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        """Arrow schema of some columns; of a csv file, inferred from its beginning."""
        return self.read(names, text=text).schema

    def batches(self, names: Sequence[str], *, text: Collection[str] = ()) -> Iterator[Any]:
        """Some columns as Arrow tables one after another; of a csv file one for each block."""
        yield self.read(names, text=text)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn whatever a damaged file makes its readers raise into one error; the disk's errors pass."""
        with decoding(self.kind, self.fail):
            yield


def open_columns(path: FilePlace, *, suffixes: Sequence[str], fail: Fail) -> ColumnFile:
    """Open a file of named columns; the ending of its name says what it is.

    Parameters
    ----------
    path : Path or SourceFile
    suffixes : sequence of str
        Endings that are accepted.
    fail : callable
        Makes the error to raise of what is wrong with the file.
    """
    suffix = suffix_of(path, suffixes, fail)
    require_pyarrow(path)
    refuse_gzip_bomb(path, fail)
    if suffix in PARQUET_SUFFIXES:
        return _ParquetFile(path, fail)
    if suffix in SHEET_SUFFIXES:
        return _SheetFile(path, fail)
    return _CsvFile(path, fail) if suffix in CSV_SUFFIXES else _JsonLinesFile(path, fail)


def suffix_of(path: FilePlace, suffixes: Sequence[str], fail: Fail) -> str:
    """Ending of the name, one of `suffixes`; a path that is no file is refused too."""
    if isinstance(path, Path) and os.path.isdir(path):
        raise fail("is a folder, not a file.")
    if isinstance(path, Path) and not os.path.exists(path):
        raise fail("does not exist; check the path.")
    suffix = next((suffix for suffix in suffixes if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise fail(f"is of an unknown kind; its name must end in {', '.join(suffixes)}.")
    if isinstance(path, Path) and not path.is_file():
        raise fail("is neither a file nor a folder; write its rows to a file.")
    return suffix


def require_pyarrow(path: FilePlace) -> None:
    """Say how to install pyarrow where it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f'{path.name} needs pyarrow; pip install "spherepair[files]".'
        ) from error


def write_columns(path: Path, columns: Mapping[str, Any], *, escape: bool = False) -> None:
    """Write columns of one length to a file, whole or not at all; its ending decides the format.

    Parameters
    ----------
    path : Path
    columns : mapping of str to arrays
    escape : bool
        Whether cells of a csv file are escaped that a spreadsheet would take for a formula.
    """
    import pyarrow as pa

    table, name = pa.table(dict(columns)), path.name.lower()
    if name.endswith(PARQUET_SUFFIXES):
        content = _parquet_bytes(table)
    elif name.endswith(JSON_LINES_SUFFIXES):
        content = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    else:
        content = csv_bytes(table, escape=escape)
    # No time stamp: the same columns give the same file.
    atomic_write_bytes(path, gzip.compress(content, mtime=0) if name.endswith(".gz") else content)


def text_array(values: Iterable[Any]) -> Any:
    """Arrow array of the values as text, for values that are not of one type."""
    import pyarrow as pa

    return pa.array([None if value is None else str(value) for value in values], pa.string())


def first_missing(ids: Any) -> int | None:
    """Position of the first ID that is missing, or is an empty text as in a csv file.

    Examples
    --------
    >>> first_missing(text_array(["a", "", None])), first_missing(text_array(["a"]))
    (1, None)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    is_text = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    if not (is_text or ids.null_count):
        return None
    place = pc.index(pc.fill_null(pc.equal(ids, ""), True) if is_text else ids.is_null(), True).as_py()
    return None if place < 0 else int(place)


def known_ids(ids: Any, name: str, fail: Fail) -> Any:
    """The IDs of rows, bytes as texts; refused where they are neither numbers nor texts."""
    import pyarrow as pa

    kinds = pa.types  # of string views Arrow cannot take some
    tests = (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary, kinds.is_string_view)
    try:
        if kinds.is_nested(ids.type):
            raise ValueError("lists and objects are no IDs")
        return ids.cast(pa.string()) if any(test(ids.type) for test in tests) else ids
    except ValueError as error:  # of Arrow, too
        what = f"{quoted(name)} of type {quoted(str(ids.type))}"
        raise fail(
            f"cannot use the ID column {what} ({quoted(error)}); IDs must be numbers or texts."
        ) from error


class _CsvFile(ColumnFile):
    kind = "csv"

    def __init__(self, path: FilePlace, fail: Fail) -> None:
        super().__init__(path, fail)
        self._reader = CsvReader(path, fail)
        self.names = self._reader.names

    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        return self._reader.read(names, text=text)

    def schema(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        return self._reader.schema(names, text=text)

    def batches(self, names: Sequence[str], *, text: Collection[str] = ()) -> Iterator[Any]:
        return self._reader.batches(names, text=text)

    def rows(self, n_records: int) -> NDArray[np.int64]:
        return self._reader.rows(n_records)


class _JsonLinesFile(ColumnFile):
    kind = "json lines"

    def __init__(self, path: FilePlace, fail: Fail) -> None:
        super().__init__(path, fail)
        with self._reading():
            data = read_bytes(path)
        self._rows = filled_lines(data, blank=_WHITE)
        lines = (line for line in decode(data, fail).split("\n") if line.strip(_WHITE.decode()))
        self._records = self._parse(lines)
        self.is_blank = not self._records
        self.names = list(dict.fromkeys(key for record in self._records for key in record))
        refuse_above(len(self.names), NAMED_COLUMNS, "columns", fail)

    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        import pyarrow as pa

        with self._reading():
            values = {name: [record.get(name) for record in self._records] for name in names}
            return pa.table({name: _json_array(column) for name, column in values.items()})

    def rows(self, n_records: int) -> NDArray[np.int64]:
        return self._rows

    def _parse(self, lines: Iterable[str]) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        try:
            # Grows line by line, so that its length tells which line was at fault.
            records.extend(map(json.loads, lines))
        except (ValueError, RecursionError) as error:
            raise self.fail(f"row {self._rows[len(records)]} is not JSON; {quoted(error)}.") from error
        wrong = [index for index, record in enumerate(records) if not isinstance(record, dict)]
        if wrong:
            raise self.fail(f"row {self._rows[wrong[0]]} is not a JSON object with named values.")
        return records


class _ParquetFile(ColumnFile):
    kind = "parquet"

    def __init__(self, path: FilePlace, fail: Fail) -> None:
        super().__init__(path, fail)
        self._place = path
        with self._reading(), open_parquet(path) as stream:
            self._metadata = read_description(stream, fail)
            self._schema = self._metadata.schema.to_arrow_schema()
            self.names, self.n_rows = list(self._schema.names), self._metadata.num_rows

    def schema(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        import pyarrow as pa

        return pa.schema([self._schema.field(name) for name in names])

    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        with self._reading():
            return read_parquet(self._place, self._metadata, list(names), self.fail)

    def rows(self, n_records: int) -> NDArray[np.int64]:
        return np.arange(1, n_records + 1)


class _SheetFile(ColumnFile):
    """The first sheet of a workbook; its first row that is not empty names the columns."""

    kind = "xlsx"

    def __init__(self, path: FilePlace, fail: Fail) -> None:
        super().__init__(path, fail)
        try:
            from python_calamine import CalamineWorkbook
        except ImportError as error:
            raise MissingDependencyError(
                f'{path.name} needs python-calamine; pip install "spherepair[tables]", or save it as csv.'
            ) from error
        refuse_zip_bomb(path, self.kind, fail, read=True)
        refuse_wide_sheet(path, fail)
        with self._reading(), path.open("rb") as stream:
            sheet = CalamineWorkbook.from_filelike(stream).get_sheet_by_index(0)
            cells = sheet.to_python(skip_empty_area=False)
        filled = [(row, line) for row, line in enumerate(cells, start=1) if any(cell != "" for cell in line)]
        if not filled:
            raise self.fail("is empty; its first row must name the columns.")
        self.names = [_cell_text(cell) or "" for cell in filled[0][1]]
        self._rows = np.array([row for row, _ in filled[1:]], dtype=np.int64)
        self._columns = list(zip(*(line for _, line in filled[1:]), strict=False)) or [()] * len(self.names)

    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        import pyarrow as pa

        columns = {name: self._columns[self.names.index(name)] for name in names}
        return pa.table({name: _cells(column, name in text) for name, column in columns.items()})

    def rows(self, n_records: int) -> NDArray[np.int64]:
        return self._rows


def _cells(column: Sequence[Any], as_text: bool) -> Any:
    if as_text:
        return text_array(map(_cell_text, column))
    return _json_array([None if cell == "" else cell for cell in column])


def _cell_text(cell: Any) -> str | None:
    """Every number of a sheet is a float; an id such as 7 must not become 7.0."""
    if cell == "":
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _parquet_bytes(table: Any) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def _json_array(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return text_array(values)

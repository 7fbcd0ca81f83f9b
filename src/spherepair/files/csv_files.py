"""csv files: read whole or block by block, with any separator; written with formulas escaped on request."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import SpherePairError
from spherepair.files.text_lines import (
    comma_columns,
    csv_lines,
    read_bytes,
    read_header,
    refuse_other_encodings,
    with_decimal_commas,
)
from spherepair.files.untrusted import Fail, FilePlace, decoding

#: Bytes of a file that are parsed at a time, and those at its beginning that tell the types of its columns.
BLOCK_BYTES, START_BYTES = 2**23, 2**20
#: How a formula begins in a spreadsheet.
FORMULA = r"^([\t\r]|\s*[=+\-@])"


class CsvReader:
    """A csv file whose header has been read.

    Parameters
    ----------
    path : Path or SourceFile
    fail : callable
        Makes the error to raise of what is wrong with the file.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    """

    def __init__(self, path: FilePlace, fail: Fail) -> None:
        self.path, self._fail = path, fail
        with self._reading():
            self.names, self._separator, self._has_records = read_header(path, fail)

    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        """Arrow table of some columns."""
        import pyarrow.csv as pa_csv

        if not self._has_records:
            return self._empty(names, text)
        uneven: list[Any] = []
        with self._reading():
            options = self._convert(names, text)
            with self._stream() as stream:
                table = pa_csv.read_csv(stream, parse_options=self._parse(uneven), convert_options=options)
            if uneven:
                raise self._uneven_row()
            return table if self._separator == "," else with_decimal_commas(table, text)

    def schema(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        """Arrow schema of some columns, as the beginning of the file has them."""
        return self._start(names, text).schema

    def batches(self, names: Sequence[str], *, text: Collection[str] = ()) -> Iterator[Any]:
        """Arrow tables of some columns, one for each block of the file.

        Columns of numbers are those of :meth:`schema`; one that holds words further down is refused.
        """
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        commas = () if self._separator == "," else comma_columns(self._raw_start(names, text), text)
        uneven: list[Any] = []
        # Rows have numbers only where a single thread reads them.
        options = pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
        with self._stream() as stream:
            with self._reading():
                if not self._has_records:
                    return
                convert = self._convert(names, text)
                reader = pa_csv.open_csv(
                    stream, read_options=options, parse_options=self._parse(uneven), convert_options=convert
                )
            # Not around the whole loop: between two batches the errors are not those of the file.
            while True:
                with self._reading():
                    batch = next(reader, None)
                    if uneven:
                        raise self._fail(_unevenness(f"record {uneven[0].number - 1}", uneven[0], self.names))
                    if batch is None:
                        return
                    table = with_decimal_commas(pa.Table.from_batches([batch]), text, commas)
                yield table

    def rows(self, n_records: int) -> NDArray[np.int64]:
        """Line of the file where each record stands, of shape (n_records,)."""
        lines = csv_lines(read_bytes(self.path))[1:]
        # A quote in the middle of a value upsets the count of lines; then number the records.
        return lines if len(lines) == n_records else np.arange(2, n_records + 2)

    def _empty(self, names: Sequence[str], text: Collection[str]) -> Any:
        import pyarrow as pa

        return pa.table({name: pa.array([], pa.string() if name in text else None) for name in names})

    def _start(self, names: Sequence[str], text: Collection[str]) -> Any:
        if not self._has_records:
            return self._empty(names, text)
        table = self._raw_start(names, text)
        return table if self._separator == "," else with_decimal_commas(table, text)

    def _raw_start(self, names: Sequence[str], text: Collection[str]) -> Any:
        """The first block of the file."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        with self._reading(), self._stream() as stream:
            convert = self._convert(names, text)
            start = pa_csv.ReadOptions(block_size=START_BYTES)
            reader = pa_csv.open_csv(
                stream, read_options=start, parse_options=self._parse([]), convert_options=convert
            )
            return pa.Table.from_batches([batch for batch in [next(reader, None)] if batch is not None])

    def _convert(self, names: Sequence[str], text: Collection[str]) -> Any:
        import pyarrow.csv as pa_csv

        return pa_csv.ConvertOptions(include_columns=names, column_types=self._types(names, text))

    def _types(self, names: Sequence[str], text: Collection[str]) -> dict[str, Any]:
        """Types of the columns, inferred from the first block of the file."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        types = {name: pa.string() for name in text}  # an id such as 007 must stay what it is
        if types.keys() >= set(names):
            return types
        with self._stream() as stream:
            start = pa_csv.ReadOptions(block_size=START_BYTES)
            inferred = pa_csv.open_csv(stream, read_options=start, parse_options=self._parse([])).schema
        for name, found in zip(inferred.names, inferred.types, strict=True):
            # A column that begins with whole numbers or with nothing may go on with fractions.
            is_open = pa.types.is_integer(found) or pa.types.is_null(found)
            # What is no UTF-8 would come as bytes; as text it is refused.
            known = pa.string() if pa.types.is_binary(found) else found
            types.setdefault(name, pa.float64() if is_open else known)
        return {name: types[name] for name in names}

    def _stream(self) -> Any:
        import pyarrow as pa

        is_packed = self.path.suffix.lower() == ".gz"
        source = str(self.path) if isinstance(self.path, Path) else self.path.stream()
        return pa.input_stream(source, compression="gzip" if is_packed else None)

    def _parse(self, uneven: list[Any]) -> Any:
        """Options of Arrow's parser; records of a wrong length are skipped and added to `uneven`."""
        import pyarrow.csv as pa_csv

        def note(row: Any) -> str:
            uneven.append(row)
            return "skip"

        return pa_csv.ParseOptions(
            delimiter=self._separator, newlines_in_values=True, invalid_row_handler=note
        )

    def _uneven_row(self) -> SpherePairError:
        """What to say of the first record with more or fewer values than the header has names."""
        import pyarrow.csv as pa_csv

        uneven: list[Any] = []
        # Rows have numbers only where a single thread reads them.
        options = pa_csv.ReadOptions(use_threads=False)
        with self._stream() as stream:
            table = pa_csv.read_csv(stream, read_options=options, parse_options=self._parse(uneven))
        first, rows = uneven[0], self.rows(table.num_rows + len(uneven))
        return self._fail(_unevenness(f"row {rows[first.number - 2]}", first, self.names))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn whatever a damaged file makes its readers raise into one error; the disk's errors pass."""
        with decoding("csv", self._fail), _HUSH:
            try:
                yield
            except ValueError:  # of Arrow's parser, which does not say where
                refuse_other_encodings(self.path, self._fail)
                raise


class _Hush:
    """No tracebacks of Arrow, which prints one for each uneven record that is not UTF-8.

    The hook is that of the process: the first of several threads that read takes it away, the last one puts
    it back.
    """

    def __init__(self) -> None:
        self._lock, self._n_readers = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_readers:
                self._shown, sys.unraisablehook = sys.unraisablehook, lambda _: None
            self._n_readers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_readers -= 1
            if not self._n_readers:
                sys.unraisablehook = self._shown


_HUSH = _Hush()


def _unevenness(place: str, row: Any, names: Sequence[str]) -> str:
    return f"{place} has {row.actual_columns} values, but the header names {len(names)} columns."


def csv_bytes(table: Any, *, header: bool = True, escape: bool = False) -> bytes:
    """An Arrow table as csv; quotes only where a value needs them.

    Parameters
    ----------
    table : Arrow table
    header : bool
        Whether the first line names the columns.
    escape : bool
        Whether cells are escaped that a spreadsheet would take for a formula.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv

    if escape:
        table = escape_formulas(table)
    texts = [column for column in table.columns if is_text(column.type)]
    texts.append(pa.chunked_array([table.column_names]))
    # With "needed" Arrow quotes every text; most files read better without quotes.
    is_special = any(pc.any(pc.match_substring_regex(text, '[",\\r\\n]')).as_py() for text in texts)
    style = "needed" if is_special else "none"
    stream = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=header, quoting_style=style, quoting_header=style)
    pa_csv.write_csv(table, stream, options)
    return stream.getvalue()


def escape_formulas(table: Any) -> Any:
    """An Arrow table with a ' before all texts and names of columns that begin like a formula.

    Examples
    --------
    >>> import pyarrow as pa
    >>> escape_formulas(pa.table({"id": ["=1+1", "a=1", None], "n": [-1, 0, 1]})).to_pydict()
    {'id': ["'=1+1", 'a=1', None], 'n': [-1, 0, 1]}
    """
    import pyarrow as pa

    columns = [_escaped(column) if is_text(column.type) else column for column in table.columns]
    names = _escaped(pa.array(table.column_names, pa.string())).to_pylist()
    return pa.table(columns, names=names)


def _escaped(texts: Any) -> Any:
    import pyarrow.compute as pc

    is_risky = pc.fill_null(pc.match_substring_regex(texts, FORMULA), False)
    return pc.if_else(is_risky, pc.replace_substring_regex(texts, "(?s)^(.*)$", "'\\1"), texts)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

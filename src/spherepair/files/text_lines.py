"""Lines of text files: unpacked, decoded, and counted as a text editor counts them."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Collection
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.files.untrusted import (
    HEADER_BYTES,
    NAMED_COLUMNS,
    Fail,
    FilePlace,
    limit,
    open_binary,
    refuse_above,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: What may stand between the values of a csv file.
SEPARATORS = (",", ";", "\t", "|")
#: Share of the values of a column that have to be numbers for it to be one of numbers.
MOSTLY = 0.9
_BLOCK_BYTES = 2**20
_COMMA_NUMBER = r"^[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?$"


def read_bytes(path: FilePlace) -> bytes:
    """Content of a text file, unpacked, without a byte order mark."""
    with open_binary(path) as stream:
        data: bytes = stream.read()
    return data.removeprefix(_BYTE_ORDER_MARK)


def decode(data: bytes, fail: Callable[[str], Exception]) -> str:
    """Text of bytes in UTF-8; an error names the line that is not."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise fail(f"row {row} is not text in UTF-8; save the file as UTF-8.") from error


def refuse_other_encodings(path: FilePlace, fail: Callable[[str], Exception]) -> None:
    """Raise an error that names the first line that is not UTF-8, if there is one."""
    decoder, n_lines = codecs.getincrementaldecoder("utf-8")(), 0
    with open_binary(path) as stream:
        for block in iter(lambda: stream.read(_BLOCK_BYTES), b""):
            held = decoder.getstate()[0]
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                row = n_lines + (held + block).count(b"\n", 0, error.start) + 1
                raise fail(f"row {row} is not text in UTF-8; save the file as UTF-8.") from error
            n_lines += block.count(b"\n")


def csv_lines(data: bytes) -> NDArray[np.int64]:
    """Numbers, from 1, of the lines where the header and the records begin."""
    lines, starts = filled_lines(data, blank=b"\r\n"), _line_starts(data)
    if b'"' not in data:
        return lines
    # A line that begins inside quotes, after an odd number of them, continues a record.
    n_quotes = np.add.reduceat(np.frombuffer(data, np.uint8) == ord('"'), starts, dtype=np.int64)
    is_inside = (np.cumsum(n_quotes) - n_quotes) % 2 == 1
    begins: NDArray[np.int64] = lines[~is_inside[lines - 1]]
    return begins


def filled_lines(data: bytes, *, blank: bytes) -> NDArray[np.int64]:
    """Numbers, from 1, of the lines that hold more than the bytes in `blank`."""
    if not data:
        return np.empty(0, np.int64)
    is_ink = ~np.isin(np.frombuffer(data, np.uint8), list(blank))
    return np.flatnonzero(np.logical_or.reduceat(is_ink, _line_starts(data))) + 1


def _line_starts(data: bytes) -> NDArray[np.int64]:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
    return starts[starts < len(data)]


def read_header(path: FilePlace, fail: Fail) -> tuple[list[str], str, bool]:
    """Names of the columns of a csv file, what stands between them, and whether any record follows."""
    with open_binary(path) as stream:
        start = stream.read(limit(HEADER_BYTES) + 1)
        # Bytes that are not UTF-8 may stand in columns that nobody asks for.
        text = start.decode("utf-8-sig", errors="surrogateescape").lstrip("\r\n")
        lines = io.StringIO(text, newline="")
        if not (first := lines.readline()):
            raise fail("is empty; its first line must name the columns.")
        n_bytes = len(first.encode(errors="surrogateescape"))
        refuse_above(n_bytes, HEADER_BYTES, "bytes in its first line", fail)
        separator = find_separator(first)
        names = next(csv.reader(chain([first], lines), delimiter=separator))
        refuse_above(len(names), NAMED_COLUMNS, "columns", fail)
        "".join(names).encode()  # fails where the names are not UTF-8
        rest = iter(lambda: stream.read(HEADER_BYTES), b"")
        has_records = bool(lines.read().strip("\r\n")) or any(block.strip(b"\r\n") for block in rest)
        return names, separator, has_records


def find_separator(header: str) -> str:
    """What stands between the names in the first line of a csv file: whatever gives most names.

    Examples
    --------
    >>> find_separator("id;price, EUR;city"), find_separator("name")
    (';', ',')
    """
    return max(SEPARATORS, key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))


def comma_columns(table: Any, text: Collection[str]) -> list[str]:
    """Columns of texts that are mostly numbers such as 1.234,5; files with semicolons often write them so."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [name for name in table.column_names if name not in text and pa.types.is_string(table[name].type)]
    shares = (pc.mean(_is_comma_number(table[name])[1].cast(pa.float64())).as_py() for name in texts)
    return [name for name, share in zip(texts, shares, strict=True) if (share or 0.0) >= MOSTLY]


def with_decimal_commas(table: Any, text: Collection[str], names: Collection[str] | None = None) -> Any:
    """Columns of texts such as 1.234,5 as numbers: those of these names, or by default those that are mostly.

    Where a few values are no numbers, the others become texts such as 1234.5.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in comma_columns(table, text) if names is None else names:
        given, is_number = _is_comma_number(table[name])
        dotted = pc.replace_substring(pc.replace_substring(given, ".", ""), ",", ".")
        plain = pc.if_else(is_number, dotted, given)
        are_all = pc.all(is_number).as_py()
        column = plain.cast(pa.float64()) if are_all or are_all is None else plain
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _is_comma_number(column: Any) -> tuple[Any, Any]:
    """The values without blanks, and whether each is a number with a decimal comma; neither where empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    given = pc.utf8_trim_whitespace(column)
    given = pc.if_else(pc.equal(given, ""), pa.scalar(None, pa.string()), given)
    return given, pc.match_substring_regex(given, _COMMA_NUMBER)

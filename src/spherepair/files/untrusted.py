"""Files from elsewhere: how they are opened; sizes and structure are checked first, decoding comes second.

A packed file may unpack to a thousand times its size, and a damaged one makes its decoder raise almost
anything. What is too large is refused while it is unpacked; what a decoder raises becomes one error of ours.
All limits can be raised by one environment variable, which the messages name.
"""

from __future__ import annotations

import errno
import gzip
import io
import math
import os
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.errors import InvalidParameterError, SpherePairError, quoted

#: Makes an error of what is wrong with a file, such as "row 3 has 1 values, ...".
Fail = Callable[[str], SpherePairError]

#: All limits are multiplied by the value of this variable.
LIMITS_VARIABLE = "SPHEREPAIR_LIMITS"
#: A packed file may unpack to so many bytes, or to so many times its own size where that is more.
UNPACKED_BYTES, UNPACKED_RATIO = 2**30, 20
#: The same for a file that is read a batch at a time: it takes time, not memory.
STREAMED_RATIO = 1000
#: Columns of a file with names, and of a sparse one.
NAMED_COLUMNS, SPARSE_COLUMNS = 100_000, 10_000_000
#: Cells of the rectangle that holds all cells of a sheet; each takes some 30 bytes while it is read.
SHEET_CELLS = 50_000_000
#: Bytes of memory per line of a packed text; and by its ending, the characters that begin a further value and
#: the bytes per value. A list or an object of json lines takes far more memory than its text.
LINE_BYTES, MARKS = 200, {".csv.gz": (b",;\t|", 16), ".jsonl.gz": (b",[{", 160)}
#: Bytes of memory per pair while pairs are checked.
PAIR_BYTES = 150
#: Most columns that the format allows in a sheet.
SHEET_COLUMNS = 2**14
#: The description at the end of a parquet file, in bytes; each takes some ten in memory.
FOOTER_BYTES = 2**26
#: Longest header of a csv file, in bytes.
HEADER_BYTES = 2**24
_BLOCK_BYTES = 2**20
#: Bytes that are asked for at a time from a file that is not on this machine.
_BUFFER_BYTES = 2**20
_HEADER_READERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class SourceFile:
    """A file of a data set.

    Attributes
    ----------
    path : str
        Where it is in its file system.
    name : str
        Its path inside the data set.
    n_bytes, modified : int
        Its size, and when it was last written, in nanoseconds; zero where that is not known.
    filesystem : pyarrow.fs.FileSystem
    scheme : str
        How the URI begins that it was found by, such as "s3"; empty for a path.
    """

    path: str
    name: str
    n_bytes: int
    modified: int
    filesystem: Any = field(repr=False, compare=False)
    scheme: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self.path if self.is_local else f"{self.scheme}://{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine."""
        return is_local(self.filesystem)

    @property
    def place(self) -> FilePlace:
        """What readers take: a path, or the file itself if it is not on this machine."""
        return Path(self.path) if self.is_local else self

    @property
    def suffix(self) -> str:
        """Ending of its name, as of a path."""
        return posixpath.splitext(self.path)[1]

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Its bytes, for readers of Python; the mode is that of paths."""
        return io.BufferedReader(self.stream(), _BUFFER_BYTES)

    def stream(self) -> Any:
        """Its bytes, for readers of pyarrow; any of them can be read without the others."""
        return self.filesystem.open_input_file(self.path)


#: What readers take: a path of this machine, or a file that is elsewhere.
FilePlace = Path | SourceFile


def is_local(filesystem: Any) -> bool:
    """Whether a file system is that of this machine."""
    return bool(filesystem.type_name == "local")


def size_of(path: FilePlace) -> int:
    """Bytes of a file."""
    return path.stat().st_size if isinstance(path, Path) else path.n_bytes


@contextmanager
def open_binary(path: FilePlace) -> Iterator[Any]:
    """Open a file for reading its bytes, unpacked where its name ends in .gz."""
    with path.open("rb") as stream:
        if path.suffix.lower() == ".gz":
            with gzip.open(stream) as unpacked:
                yield unpacked
        else:
            yield stream


@contextmanager
def decoding(what: str, fail: Fail) -> Iterator[None]:
    """Turn whatever a decoder raises on a damaged file into one error; the disk's own errors pass.

    Examples
    --------
    >>> with decoding("a number", lambda reason: SpherePairError(f"n.txt {reason}")):
    ...     int("seven" * 100)
    Traceback (most recent call last):
    spherepair.errors.SpherePairError: n.txt cannot be read as a number (invalid literal for int() ...
    """
    try:
        yield
    except (SpherePairError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of a library written in Rust is no Exception
        # A damaged zip may send its reader to a place before the file: an invalid argument.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else quoted(error)
        raise fail(f"cannot be read as {what} ({reason}); write or copy the file again.") from error


def limit(usual: int) -> int:
    """A limit, raised as the user wishes.

    Examples
    --------
    >>> limit(100)
    100
    """
    given = os.environ.get(LIMITS_VARIABLE, "1")
    try:
        factor = float(given)
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= 2**20:
        raise InvalidParameterError(
            f"{LIMITS_VARIABLE} must be a number from 1 to {2**20}, got {quoted(given)} instead."
        )
    return int(usual * factor)


def refuse_above(count: int, usual: int, what: str, fail: Fail) -> None:
    """Refuse more than a limit; `what` says what is counted, such as "columns"."""
    if count > limit(usual):
        raise fail(
            f"has more than {limit(usual):,} {what}; if that is right, set the environment variable "
            f"{LIMITS_VARIABLE} to 2 or more, which raises all limits so many times."
        )


def refuse_gzip_bomb(path: FilePlace, fail: Fail) -> None:
    """Refuse a file that ends in .gz and unpacks to too much, or not at all; nothing of it is kept."""
    if path.suffix.lower() == ".gz":
        marks, size = next((MARKS[end] for end in MARKS if path.name.lower().endswith(end)), (b"", 0))
        with decoding("gzip", fail), open_binary(path) as stream:
            _refuse_long((_in_memory(block, marks, size) for block in _blocks(stream)), path, fail)


def _in_memory(block: bytes, marks: bytes, size: int) -> int:
    """Bytes of memory that a piece of text takes once it is parsed."""
    n_lines = max(block.count(b"\n"), block.count(b"\r"))
    return len(block) + LINE_BYTES * n_lines + size * sum(map(block.count, marks))


def refuse_zip_bomb(path: FilePlace, what: str, fail: Fail, *, read: bool = False) -> None:
    """Refuse a zip that says that it unpacks to too much.

    With `read` every part is unpacked once, for readers that do not stop where the zip says that it ends.
    """
    with decoding(what, fail), path.open("rb") as packed, zipfile.ZipFile(packed) as archive:
        _refuse_long((member.file_size for member in archive.infolist()), path, fail)
        for member in archive.infolist() if read else ():
            with archive.open(member) as stream:
                for _ in _blocks(stream):
                    pass  # raises where the part is longer or other than it says


def refuse_wide_sheet(path: FilePlace, fail: Fail) -> None:
    """Refuse a workbook with a cell so far away that the rectangle up to it would not fit into memory."""
    with decoding("xlsx", fail), path.open("rb") as packed, zipfile.ZipFile(packed) as archive:
        for member in archive.infolist():
            if not member.filename.startswith("xl/worksheets/"):
                continue
            row = column = 0
            with archive.open(member) as stream:
                for block in _blocks(stream):
                    # Readers take small letters and columns that no sheet has.
                    places = set(re.findall(rb"""\sR=["']([A-Z]{1,20})([0-9]{1,20})["']""", block.upper()))
                    row = max([row, *(int(number) for _, number in places)])
                    column = max([column, *map(_column_number, {letters for letters, _ in places})])
                    refuse_above(column, SHEET_COLUMNS, "columns", fail)
                    refuse_above(row * column, SHEET_CELLS, "cells, most of them empty", fail)


def _column_number(letters: bytes) -> int:
    """Number of a column of a sheet, from 1.

    Examples
    --------
    >>> _column_number(b"A"), _column_number(b"AA"), _column_number(b"XFD")
    (1, 27, 16384)
    """
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def refuse_large(n_bytes: int, packed: int, fail: Fail, *, ratio: int = UNPACKED_RATIO) -> None:
    """Refuse a file that unpacks to too many bytes for its packed size."""
    allowed = max(UNPACKED_BYTES, ratio * packed)
    refuse_above(n_bytes, allowed, "bytes when it is unpacked", fail)


def _refuse_long(sizes: Iterator[int], path: FilePlace, fail: Fail) -> None:
    for total in accumulate(sizes):
        refuse_large(total, size_of(path), fail)


def _blocks(stream: Any) -> Iterator[bytes]:
    while block := stream.read(_BLOCK_BYTES):
        yield block


def check_npy(stream: Any, n_bytes: int) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, whether columns are stored one after another, and type of the numbers in a .npy file.

    ``ValueError`` unless its header describes numbers that the file can hold; the stream is then behind it.

    NumPy allocates or maps what the header says before it looks at the rest.
    """
    version = np.lib.format.read_magic(stream)
    if version not in _HEADER_READERS:
        raise ValueError(f"its version is {version}")
    shape, by_columns, dtype = _HEADER_READERS[version](stream)
    if not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise ValueError(f"its shape is {quoted(shape)}")
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if math.prod(shape) * dtype.itemsize > n_bytes - stream.tell():
        raise ValueError(f"it is shorter than its shape {quoted(shape)} says")
    return shape, by_columns, dtype

"""Files of named columns read as one: their rows one after the other, their columns found by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import InvalidDataError, listed, quoted
from spherepair.files.arrow_rows import unfolded_bytes
from spherepair.files.columns import ColumnFile
from spherepair.files.untrusted import (
    NAMED_COLUMNS,
    Fail,
    FilePlace,
    SourceFile,
    decoding,
    refuse_above,
    refuse_large,
)

#: Files opened at a time.
N_OPENED = 16


def open_joined(
    files: Sequence[SourceFile], source: str, *, open_one: Callable[[FilePlace], ColumnFile]
) -> ColumnFile:
    """Open the files of a data set as one file of named columns.

    Parameters
    ----------
    files : sequence of SourceFile
    source : str
        What names them all, for messages.
    open_one : callable
        Opens one of them.
    """
    with ThreadPoolExecutor(N_OPENED) as pool:
        return _JoinedFile(list(pool.map(lambda file: open_one(file.place), files)), files, source)


def refuse_other_columns(first: str, known: Mapping[str, Any], other: str, fields: Mapping[str, Any]) -> None:
    """Refuse a file whose columns are not those of the first one, in types that fit.

    Parameters
    ----------
    first, other : str
        Names of the files.
    known, fields : mapping of str to Arrow field
        Their columns that are read.
    """
    if missing := [name for name in known if name not in fields]:
        raise InvalidDataError(f"{other} lacks columns that {first} has: {listed(missing)}.")
    if further := [name for name in fields if name not in known]:
        raise InvalidDataError(f"{other} has columns that {first} lacks: {listed(further)}.")
    for name, field in fields.items():
        if not _agree(known[name], field):
            raise InvalidDataError(
                f"{other} has the column {quoted(name)} of type {field.type}, but {first} has it of type "
                f"{known[name].type}; write it in one type."
            )


def _agree(left: Any, right: Any) -> bool:
    """Whether the values of two columns fit into one, such as whole numbers and others."""
    import pyarrow as pa

    try:
        pa.unify_schemas([pa.schema([left]), pa.schema([right])], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return False
    return True


class _JoinedFile(ColumnFile):
    """Its names are those of all files; whoever reads a column that one of them lacks is refused."""

    kind = "data set"

    def __init__(self, parts: Sequence[ColumnFile], files: Sequence[SourceFile], source: str) -> None:
        super().__init__(source, _fail(source))
        self._parts, self._files = parts, files
        self.names = list(dict.fromkeys(name for part in parts for name in part.names))
        refuse_above(len(self.names), NAMED_COLUMNS, "columns", self.fail)
        known = [part.n_rows for part in parts if part.n_rows is not None]
        self.n_rows = sum(known) if len(known) == len(parts) else None
        self._ends = [0]

    @property
    def parts(self) -> Sequence[ColumnFile]:
        return self._parts

    def read(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        import pyarrow as pa

        self.schema(names, text=text)
        tables, n_bytes, n_packed = [], 0, sum(file.n_bytes for file in self._files)
        for part in self._parts:
            tables.append(part.read(names, text=text))
            n_bytes += sum(map(unfolded_bytes, tables[-1].to_batches()))
            refuse_large(n_bytes, n_packed, self.fail)  # each file may be small enough, and all too large
        self._ends = list(accumulate(map(len, tables), initial=0))
        with decoding("one table", self.fail):
            return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()

    def schema(self, names: Sequence[str], *, text: Collection[str] = ()) -> Any:
        """Arrow schema of some columns in the first file, once those of all others were found to agree."""
        found = [part.schema([n for n in names if n in part.names], text=text) for part in self._parts]
        fields = [dict(zip(schema.names, schema, strict=True)) for schema in found]
        for part, own in zip(self._parts, fields, strict=True):
            refuse_other_columns(self._parts[0].source, fields[0], part.source, own)
        return found[0]

    def rows(self, n_records: int) -> NDArray[np.int64]:
        sizes = [stop - start for start, stop in pairwise(self._ends)]
        return np.concatenate([part.rows(size) for part, size in zip(self._parts, sizes, strict=True)])

    def split(self, table: Any) -> Iterator[tuple[ColumnFile, Any]]:
        for part, (start, stop) in zip(self._parts, pairwise(self._ends), strict=True):
            yield part, table.slice(start, stop - start)

    def locate(self, row: int, n_records: int) -> str:
        place = int(np.searchsorted(self._ends, row, side="right")) - 1
        start, stop = self._ends[place : place + 2]
        line = self._parts[place].locate(row - start, stop - start)
        return f"{line} of {self._files[place].name}"


def _fail(source: str) -> Fail:
    return lambda reason: InvalidDataError(f"{source} {reason}")

"""Data sets of any size: files read batch by batch, only the columns that are needed.

A parquet file is read by its row groups, a csv file by blocks, and of a .npy file only the rows asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spherepair.errors import InvalidDataError, listed
from spherepair.files.array_files import ARRAY_SUFFIXES, read_array_file
from spherepair.files.arrow_rows import (
    is_vector,
    not_numeric,
    stored_columns,
    unfolded_bytes,
    with_usual_times,
)
from spherepair.files.columns import PARQUET_SUFFIXES, first_missing, known_ids
from spherepair.files.data_tables import feature_columns, open_file, refuse_named_columns, split_names
from spherepair.files.parquet_files import (
    groups_with_missing,
    read_description,
    safe_batch_rows,
    values_of_a_row,
)
from spherepair.files.pictures import locate_pictures
from spherepair.files.untrusted import STREAMED_RATIO, SourceFile, decoding, refuse_large

#: Most rows, and most values, in a batch.
BATCH_ROWS, BATCH_ENTRIES, FEWEST_ROWS = 65_536, 2**23, 1024
#: Most bytes in a batch with long texts.
BATCH_BYTES = 2**26
#: Buffer of a column in bytes; without one a whole row group would be read at once.
READ_AHEAD = 2**18


@dataclass(frozen=True)
class Needs:
    """What is read of every file.

    Attributes
    ----------
    features : tuple of str or None
        Columns that a model was fitted on, in this order; ``None`` for all but the ID column and `drop`.
    n_features : int or None
        How many features there are, where it is known.
    id_column : str or None
    drop : tuple of str
    mixed : bool
        Whether columns may hold anything, not only numbers.
    text : tuple of str
        Columns of a csv file that are text, whatever they look like.
    pictures : tuple of str
        Columns of pictures: their contents, or names of files from the folder of the file.
    """

    features: tuple[str, ...] | None = None
    n_features: int | None = None
    id_column: str | None = None
    drop: tuple[str, ...] = ()
    mixed: bool = False
    text: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    @property
    def batch_rows(self) -> int:
        """Rows in a batch: fewer where there are many features."""
        return max(FEWEST_ROWS, min(BATCH_ROWS, BATCH_ENTRIES // max(1, self.n_features or 1)))


@dataclass(frozen=True)
class RowBatch:
    """Some rows of a file.

    Attributes
    ----------
    X : Arrow table or ndarray of shape (n_rows, n_features)
    ids : Arrow array of shape (n_rows,) or None
    first : int
        Position of the first of them in the file.
    """

    X: Any
    ids: Any
    first: int

    def row_without_id(self) -> int | None:
        """Position in the file of the first row whose ID is missing."""
        place = None if self.ids is None else first_missing(self.ids)
        return None if place is None else self.first + place


class DataFile(ABC):
    """A file of a data set; see :func:`open_data_file`.

    Attributes
    ----------
    file : SourceFile
    group_sizes : list of int or None
        Rows in each of the groups that can be read by themselves; ``None`` where only reading will tell.
    """

    group_sizes: list[int] | None

    def __init__(self, file: SourceFile) -> None:
        self.file = file

    def _fail(self, reason: str) -> InvalidDataError:
        return InvalidDataError(f"{self.file} {reason}.")

    def count(self) -> int:
        """How many rows there are; a file that does not say is read."""
        return sum(self.group_sizes or ())

    @abstractmethod
    def fields(self, needs: Needs) -> list[Any]:
        """Arrow fields of the features, of which an array has none."""

    def has_words(self, needs: Needs) -> bool:
        """Whether some features are no numbers."""
        return bool(_words(self.fields(needs)))

    @abstractmethod
    def check(self, needs: Needs) -> Any:
        """Refuse a file that lacks a column or has it in another type; returns the type of the IDs."""

    @abstractmethod
    def batches(self, needs: Needs, groups: tuple[int, int] | None = None) -> Iterator[RowBatch]:
        """The rows in order: all, or those of the groups from the first up to the second."""

    def _with_pictures(self, table: Any, needs: Needs) -> Any:
        folder = Path(self.file.path).parent if self.file.is_local else None
        return locate_pictures(table, needs.pictures, folder, self.file)


def open_data_file(file: SourceFile, id_column: str | None = None) -> DataFile:
    """Open a file of a data set; its ``check`` refuses missing IDs if it knows of them without reading."""
    if file.path.lower().endswith(PARQUET_SUFFIXES):
        return _ParquetRows(file, id_column)
    return _ArrayRows(file) if file.path.lower().endswith(ARRAY_SUFFIXES) else _NamedRows(file)


def read_ahead(batches: Iterator[Any]) -> Generator[Any]:
    """The same batches, each read by another thread while whoever asks is at work on the one before.

    Close it where something may go wrong between two batches: it waits for the one that is being read.

    Examples
    --------
    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(next, batches, end)
        while (batch := ahead.result()) is not end:
            ahead = pool.submit(next, batches, end)
            yield batch


class _ParquetRows(DataFile):
    def __init__(self, file: SourceFile, id_column: str | None) -> None:
        super().__init__(file)
        with self._reading(), self._stream() as stream:
            self._n_bytes, described = stream.size(), read_description(stream, self._fail_with)
            self._schema = described.schema.to_arrow_schema()
            self.group_sizes = [described.row_group(k).num_rows for k in range(described.num_row_groups)]
            self._without_ids = groups_with_missing(stream, described, id_column)

    def fields(self, needs: Needs) -> list[Any]:
        fields = dict(zip(self._schema.names, self._schema, strict=True))
        return [fields[name] for name in self._wanted(needs) if name in fields]

    def check(self, needs: Needs) -> Any:
        import pyarrow as pa

        names = self._schema.names
        if needs.id_column is not None and needs.id_column not in names:
            raise self._fail(f"has no column {needs.id_column!r}; it has {listed(names)}")
        if len(set(names)) < len(names):
            raise self._fail("has columns of the same name; rename one of them")
        wanted, known = self._wanted(needs), set(names)
        if missing := [name for name in wanted if name not in known]:
            raise self._fail(f"lacks {len(missing)} of the columns that are needed: {listed(missing)}")
        if not wanted:
            raise self._fail(f"has no column left to be a feature; it has {listed(names)}")
        _check_features(self.fields(needs), needs, self._fail)
        n_bytes = 8 * self.count() * len(wanted)
        refuse_large(n_bytes, self._n_bytes, self._fail_with, ratio=STREAMED_RATIO)
        if needs.id_column is None:
            return None
        self._require_ids(needs.id_column)
        none = pa.nulls(0, self._schema.field(needs.id_column).type)
        return known_ids(none, needs.id_column, self._fail_with).type

    def batches(self, needs: Needs, groups: tuple[int, int] | None = None) -> Iterator[RowBatch]:
        wanted, sizes = self._wanted(needs), self.group_sizes or []
        start, stop = groups or (0, len(sizes))
        first = sum(sizes[:start])
        columns = [*wanted, *([] if needs.id_column is None else [needs.id_column])]
        with self._reading(), self._open() as opened:
            with self._stream() as stream:
                width = values_of_a_row(stream, opened.metadata, {*columns}, range(start, stop))
            most_rows = min(needs.batch_rows, max(1, BATCH_ENTRIES // width))
            n_rows = min(most_rows, self._safe_rows(opened.metadata, {*columns}, range(start, stop)))
            found = opened.iter_batches(batch_size=n_rows, row_groups=[*range(start, stop)], columns=columns)
            for table in map(with_usual_times, _gather(found, most_rows)):
                ids = None
                if needs.id_column is not None:
                    ids = known_ids(table[needs.id_column], needs.id_column, self._fail_with)
                yield RowBatch(self._with_pictures(table.select(wanted), needs), ids, first)
                first += len(table)
        if first != sum(sizes[:stop]):
            raise self._fail("has fewer or more rows than it says; write or copy the file again")

    def _require_ids(self, column: str) -> None:
        for group in self._without_ids:
            for batch in self.batches(Needs(features=(), id_column=column), (group, group + 1)):
                if (row := batch.row_without_id()) is not None:
                    raise self._fail(f"has no ID in column {column!r} of row {row}; every row needs one")

    def _safe_rows(self, metadata: Any, names: set[str], groups: range) -> int:
        if not self.file.is_local:  # elsewhere each header of a page would be a request of its own
            return BATCH_ROWS
        with Path(self.file.path).open("rb") as stream:
            return safe_batch_rows(stream, metadata, names, groups, self._fail_with)

    def _wanted(self, needs: Needs) -> list[str]:
        names = self._schema.names
        if needs.features is not None:
            return stored_columns(needs.features, names)
        dropped = split_names(needs.drop, names)
        if missing := [name for name in dropped if name not in names]:
            raise self._fail(f"has no column {missing[0]!r}; it has {listed(names)}")
        return [name for name in names if name not in {*dropped, needs.id_column}]

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            self._stream(), buffer_size=READ_AHEAD, pre_buffer=False, page_checksum_verification=True
        )

    def _stream(self) -> Any:
        return self.file.stream()

    def _fail_with(self, sentence: str) -> InvalidDataError:
        return self._fail(sentence.rstrip("."))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with decoding("parquet", self._fail_with):
            try:
                yield
            except OSError as error:  # of the disk or the store too: one file of many is at fault
                raise ValueError(" ".join(str(error).split())) from error


def _gather(batches: Iterator[Any], most_rows: int) -> Iterator[Any]:
    """Arrow tables of neighboring batches: small ones are read where a text may stand in every row."""
    import pyarrow as pa

    held: list[Any] = []
    n_rows = n_bytes = 0
    for batch in batches:
        size = unfolded_bytes(batch)
        if held and (n_rows + len(batch) > most_rows or n_bytes + size > BATCH_BYTES):
            yield pa.Table.from_batches(held)
            held, n_rows, n_bytes = [], 0, 0
        held.append(batch)
        n_rows, n_bytes = n_rows + len(batch), n_bytes + size
    if held:
        yield pa.Table.from_batches(held)


class _NamedRows(DataFile):
    """A csv file, or a sheet."""

    group_sizes = None

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._columns = open_file(file.place)

    def count(self) -> int:
        name = self._columns.names[0]
        # As text: rows can be counted whatever stands in the column.
        return sum(len(batch) for batch in self._columns.batches([name], text=[name]))

    def fields(self, needs: Needs) -> list[Any]:
        return list(self._columns.schema(self._wanted(needs), text=needs.text))

    def check(self, needs: Needs) -> Any:
        import pyarrow as pa

        _check_features(self.fields(needs), needs, self._fail)
        return None if needs.id_column is None else pa.string()

    def batches(self, needs: Needs, groups: tuple[int, int] | None = None) -> Iterator[RowBatch]:
        wanted, first = self._wanted(needs), 0
        ids = [] if needs.id_column is None else [needs.id_column]
        for table in self._columns.batches([*wanted, *ids], text=[*ids, *needs.text]):
            for start in range(0, len(table), needs.batch_rows):
                part = table.slice(start, needs.batch_rows)
                rows = self._with_pictures(part.select(wanted), needs)
                yield RowBatch(rows, part[ids[0]] if ids else None, first)
                first += len(part)

    def _wanted(self, needs: Needs) -> list[str]:
        drop = needs.drop if needs.features is None else ()
        return feature_columns(self._columns, id_column=needs.id_column, drop=drop, features=needs.features)


class _ArrayRows(DataFile):
    """A file of an array; of a .npy file only the rows asked for are read."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self.group_sizes = [read_array_file(file.place).shape[0]]

    def fields(self, needs: Needs) -> list[Any]:
        return []

    def check(self, needs: Needs) -> Any:
        _check_number(self._read(needs).shape[1], needs, self._fail)
        return None

    def batches(self, needs: Needs, groups: tuple[int, int] | None = None) -> Iterator[RowBatch]:
        X = self._read(needs)
        for first in range(0, X.shape[0], needs.batch_rows):
            yield RowBatch(X[first : first + needs.batch_rows], None, first)

    def _read(self, needs: Needs) -> Any:
        drop = needs.drop if needs.features is None else ()
        refuse_named_columns(self.file.path, needs.id_column, drop)
        return read_array_file(self.file.place)


def _check_features(fields: Sequence[Any], needs: Needs, fail: Callable[[str], InvalidDataError]) -> None:
    """Refuse columns that are no numbers where only these are features, and another number of features."""
    names = [field.name for field in fields]
    if missing := [name for name in needs.pictures if name not in names]:
        raise fail(f"has no column {missing[0]!r} of pictures among its features: {listed(names)}")
    if needs.mixed:
        return
    if words := _words(fields):
        raise fail(f"has the column {words[0].name!r} of type {words[0].type}, but the features are numbers")
    if all(hasattr(field.type, "list_size") or not is_vector(field.type) for field in fields):
        _check_number(sum(getattr(field.type, "list_size", 1) for field in fields), needs, fail)


def _words(fields: Sequence[Any]) -> list[Any]:
    """Fields that are neither numbers nor vectors of numbers."""
    import pyarrow as pa

    others = set(not_numeric(pa.schema(fields)))
    return [field for field in fields if field.name in others and not is_vector(field.type)]


def _check_number(n_features: int, needs: Needs, fail: Callable[[str], InvalidDataError]) -> None:
    if needs.n_features is not None and n_features != needs.n_features:
        raise fail(f"has {n_features} features, but the model was fitted on {needs.n_features}")


def group_bounds(sizes: Sequence[int], most_rows: int) -> list[tuple[int, int]]:
    """Neighboring groups put together up to so many rows; a larger group stays by itself.

    Examples
    --------
    >>> group_bounds([4, 4, 9, 1], 8)
    [(0, 2), (2, 3), (3, 4)]
    """
    starts, rows = [0], 0
    for place, size in enumerate(sizes):
        if rows and rows + size > most_rows:
            starts.append(place)
            rows = 0
        rows += size
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))

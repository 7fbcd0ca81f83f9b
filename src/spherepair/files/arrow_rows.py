"""Arrow data as rows of numbers: streams of batches, and columns that hold vectors.

A column of vectors, such as embeddings, stands for as many features as they have entries, which are called
``name[0]``, ``name[1]``, and so on.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import InvalidDataError, quoted
from spherepair.files.untrusted import Fail

#: Entries of the rows that are transposed at a time.
_TURNED_ENTRIES = 2**19
#: Rows of a stream that are stored at a time.
_STORED_ROWS = 65_536
_ENTRY = re.compile(r"^(.*)\[\d+\]$", re.DOTALL)


def is_stream(X: Any) -> bool:
    """Whether ``X`` gives Arrow batches one after another: a record batch reader or a DuckDB relation.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": [1.0, 2.0]})
    >>> is_stream(table), is_stream(table.to_reader())
    (False, True)
    """
    if not hasattr(X, "__arrow_c_stream__"):
        return False
    import narwhals as nw

    return not nw.dependencies.is_into_dataframe(X) and not nw.dependencies.is_into_series(X)


def open_stream(X: Any) -> Any:
    """A record batch reader of a stream (see :func:`is_stream`) or of an Arrow table."""
    import pyarrow as pa

    return X if isinstance(X, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(X)


def as_table(X: Any) -> Any:
    """A stream or a record batch as an Arrow table; anything else as it is."""
    if is_stream(X):
        return open_stream(X).read_all()
    if hasattr(X, "__arrow_c_array__") and hasattr(X, "to_struct_array"):
        import pyarrow as pa

        return pa.Table.from_batches([X])
    return X


@contextmanager
def stored(X: Any) -> Iterator[Any]:
    """A stream as a parquet file, which is removed afterwards; anything else as it is."""
    if not is_stream(X):
        yield X
        return
    with tempfile.TemporaryDirectory(prefix="spherepair-") as folder:
        path = Path(folder, "rows.parquet")
        _store(open_stream(X), path)
        yield path


def _store(reader: Any, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(path, reader.schema) as writer:
            held: list[Any] = []
            for batch in reader:
                held.append(batch)
                if sum(map(len, held)) >= _STORED_ROWS:
                    writer.write_table(pa.Table.from_batches(held))
                    held = []
            writer.write_table(pa.Table.from_batches(held, reader.schema))
    except pa.ArrowException as error:
        raise InvalidDataError(f"the stream cannot be stored as parquet: {error}") from error


def vector_columns(X: Any) -> list[str]:
    """Names of the columns of an Arrow table that hold vectors; none of any other table."""
    if not (hasattr(X, "schema") and hasattr(X, "combine_chunks")):
        return []
    return [field.name for field in X.schema if is_vector(field.type)]


def not_numeric(table: Any) -> list[str]:
    """Names of the columns of an Arrow table, or of its schema, that hold no numbers."""
    import pyarrow.types as kinds

    tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    schema = getattr(table, "schema", table)
    typed = zip(schema.names, schema.types, strict=True)
    return [name for name, kind in typed if not any(test(kind) for test in tests)]


def is_vector(kind: Any) -> bool:
    """Whether this is Arrow's type of a column of vectors of numbers."""
    import pyarrow.types as kinds

    is_list = kinds.is_fixed_size_list(kind) or kinds.is_list(kind) or kinds.is_large_list(kind)
    return bool(is_list and (kinds.is_floating(kind.value_type) or kinds.is_integer(kind.value_type)))


def stored_columns(features: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns of a file that hold these features; a feature that no column holds stays as it is.

    Examples
    --------
    >>> stored_columns(["age", "v[0]", "v[1]", "other[0]"], ["id", "v", "age"])
    ['age', 'v', 'other[0]']
    """
    known = set(names)
    entries = ((name, _ENTRY.match(name)) for name in features)
    stored = (
        entry.group(1) if name not in known and entry is not None and entry.group(1) in known else name
        for name, entry in entries
    )
    return list(dict.fromkeys(stored))


def widen(table: Any) -> tuple[NDArray[Any], list[str]]:
    """An Arrow table with columns of vectors as an array (n_rows, n_features), and the names of these."""
    blocks, names = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        block = _vectors(name, column) if is_vector(column.type) else _numbers(name, column)
        blocks.append(block)
        names += [f"{name}[{place}]" for place in range(block.shape[1])] if is_vector(column.type) else [name]
    if len(blocks) == 1 and blocks[0].ndim == 2:
        return np.array(blocks[0]), names  # a copy that may be written to: torch shares no other
    return side_by_side(blocks), names


def spread(table: Any, fail: Fail) -> Any:
    """An Arrow table whose columns of vectors have become columns of numbers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> spread(pa.table({"a": [1], "v": [[0.5, 2.0]]}), InvalidDataError).to_pylist()
    [{'a': 1, 'v[0]': 0.5, 'v[1]': 2.0}]
    """
    import pyarrow as pa

    if not vector_columns(table):
        return table
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not is_vector(column.type):
            columns[name] = column
            continue
        try:
            block = _vectors(name, column)
        except InvalidDataError as error:
            raise fail(f"cannot be used: {error}") from error
        columns |= {f"{name}[{place}]": pa.array(values) for place, values in enumerate(block.T)}
    return pa.table(columns)


def side_by_side(blocks: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Columns (n_rows,) and blocks of columns (n_rows, k) as one array of rows.

    A few rows at a time are gathered column by column and turned round, all in the cache of the processor.

    Examples
    --------
    >>> side_by_side([np.array([1, 2]), np.array([[0.5, 0.0], [1.0, 1.0]])])
    array([[1. , 0.5, 0. ],
           [2. , 1. , 1. ]])
    """
    columns = [column for block in blocks for column in np.atleast_2d(block.T)]
    n_rows, kind = len(blocks[0]), np.result_type(*blocks)
    rows = np.empty((n_rows, len(columns)), kind)
    size = max(1, min(n_rows, _TURNED_ENTRIES // max(1, len(columns))))
    turned = np.empty((len(columns), size), kind)
    for start in range(0, n_rows, size):
        part = turned[:, : min(size, n_rows - start)]
        for place, column in enumerate(columns):
            part[place] = column[start : start + size]
        rows[start : start + size] = part.T
    return rows


def with_usual_times(table: Any) -> Any:
    """The table with times of a day to the microsecond, the finest that Python and pandas have.

    ``ValueError`` where a column holds a time that they have no name for, such as the year 100,000: whoever
    shows such a value, in a message or on a card, would fail at it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if column.type == pa.time64("ns"):
            table = table.set_column(place, name, column.cast(pa.time64("us"), safe=False))
        elif pa.types.is_temporal(column.type) and getattr(column.type, "unit", "") != "ns":
            try:
                pc.min_max(column).as_py()
            except Exception as error:  # too far away, or in a time zone that is nowhere
                raise ValueError(f"column {quoted(name)} holds no time: {quoted(error)}") from error
    return table


def unfolded_bytes(batch: Any) -> int:
    """Bytes of a batch once texts that repeat are written out, as whoever uses them does."""
    unfolded = (getattr(column, "dictionary_decode", lambda c=column: c)() for column in batch.columns)
    return sum(int(column.nbytes) for column in unfolded)


def empty_table(names: Sequence[str]) -> Any:
    """An Arrow table of numbers without rows, for whoever asks only for the names of its columns."""
    import pyarrow as pa

    return pa.table({name: pa.array([], pa.float64()) for name in names})


def _numbers(name: str, column: Any) -> NDArray[Any]:
    import pyarrow as pa

    kinds = pa.types
    is_stored_otherwise = kinds.is_decimal(column.type) or kinds.is_null(column.type)
    if is_stored_otherwise or (kinds.is_boolean(column.type) and column.null_count):
        column = column.cast(pa.float64())
    values = np.asarray(column.to_numpy())
    if values.dtype.kind not in "biuf":
        raise InvalidDataError(f"column {name!r} is not numeric (its type is {column.type}); drop it.")
    return values


def _vectors(name: str, column: Any) -> NDArray[Any]:
    """Vectors of one length as an array (n_rows, length)."""
    import pyarrow.compute as pc

    array = column.combine_chunks()
    if array.null_count:
        row = int(np.argmax(np.asarray(array.is_null())))
        raise InvalidDataError(f"column {name!r} has no vector in row {row}; fill it in.", row=row)
    lengths = np.asarray(pc.list_value_length(array))
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise InvalidDataError(
            f"column {name!r} has a vector of {lengths[row]} numbers in row {row}, but of {lengths[0]} in "
            "row 0; all must have one length.",
            row=row,
        )
    values = array.flatten().to_numpy(zero_copy_only=False)
    size = int(lengths[0]) if len(lengths) else getattr(array.type, "list_size", 0)
    return np.asarray(values.reshape(len(array), size))

"""Files of labels (.csv, .parquet, .npy), written batch by batch, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from spherepair.files import atomic_write
from spherepair.files.columns import PARQUET_SUFFIXES
from spherepair.files.csv_files import csv_bytes

#: More columns by name, as long as the labels.
Columns = Mapping[str, Any]
#: Takes some labels, the names of their rows, and more columns, the same in every call.
Write = Callable[[NDArray[np.int64], Any, Columns], None]


def write_labels(
    path: Path,
    labels: NDArray[np.int64],
    *,
    ids: Any = None,
    id_name: str | None = None,
    further: Columns | None = None,
    escape: bool = False,
) -> None:
    """Write labels as columns ``row`` (or the IDs), ``label`` and more, or as a plain .npy array.

    Parameters
    ----------
    path : Path
        The file; its ending decides the format.
    labels : ndarray of shape (n_rows,)
    ids : Arrow array of shape (n_rows,), optional
    id_name : str, optional
        Name of the ID column.
    further : mapping of str to arrays of shape (n_rows,), optional
        More columns; a .npy file has none.
    escape : bool
        Whether cells of a csv file are escaped that a spreadsheet would take for a formula.
    """
    with open_labels(path, id_name=id_name, escape=escape) as write:
        write(labels, np.arange(len(labels)) if ids is None else ids, further or {})


@contextmanager
def open_labels(path: Path, *, id_name: str | None = None, escape: bool = False) -> Iterator[Write]:
    """A function that appends labels, names of their rows and more to a file, which is there once all are.

    Parameters
    ----------
    path : Path
        The file; its ending decides the format.
    id_name : str, optional
        Name of the ID column; without it rows are numbered in a column ``row``.
    escape : bool
        Whether cells of a csv file are escaped that a spreadsheet would take for a formula.
    """
    with atomic_write(path) as temporary, temporary.open("w+b") as stream:
        if path.suffix.lower() == ".npy":
            yield from _write_array(stream)
        elif path.name.lower().endswith(PARQUET_SUFFIXES):
            yield from _write_parquet(stream, id_name)
        else:
            yield from _write_csv(stream, id_name, escape=escape)


def label_columns(id_name: str | None, further: Iterable[str] = ()) -> list[str]:
    """Names of the columns; what is added must not replace an ID column of the same name.

    Examples
    --------
    >>> label_columns(None), label_columns("label"), label_columns("name", ["name", "confidence"])
    (['row', 'label'], ['label', 'cluster'], ['name', 'label', 'cluster_name', 'confidence'])
    """
    first = "row" if id_name is None else id_name
    added = [name if name != first else f"cluster_{name}" for name in further]
    return [first, "label" if first != "label" else "cluster", *added]


def _write_array(stream: Any) -> Iterator[Write]:
    """An array whose length is known at the end: its header has room for any."""
    n_rows = 0

    def header() -> None:
        described = {"descr": "<i8", "fortran_order": False, "shape": (n_rows,)}
        npy_format.write_array_header_1_0(stream, described)

    def write(labels: NDArray[np.int64], ids: Any, further: Columns) -> None:
        nonlocal n_rows
        stream.write(np.ascontiguousarray(labels, dtype="<i8").data)
        n_rows += len(labels)

    header()
    yield write
    stream.seek(0)
    header()


def open_writer(stream: Any, schema: Any) -> Any:
    """A writer of a parquet file of labels: the names of rows all differ, so they get no dictionary."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(stream, schema, use_dictionary=schema.names[1:])


def _write_parquet(stream: Any, id_name: str | None) -> Iterator[Write]:
    writer: Any = None

    def write(labels: NDArray[np.int64], ids: Any, further: Columns) -> None:
        nonlocal writer
        table = _table(id_name, labels, ids, further)
        writer = writer or open_writer(stream, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _write_csv(stream: Any, id_name: str | None, *, escape: bool) -> Iterator[Write]:
    def write(labels: NDArray[np.int64], ids: Any, further: Columns) -> None:
        table = _table(id_name, labels, ids, further)
        stream.write(csv_bytes(table, header=stream.tell() == 0, escape=escape))

    yield write


def _table(id_name: str | None, labels: NDArray[np.int64], ids: Any, further: Columns) -> Any:
    import pyarrow as pa

    return pa.table([ids, labels, *further.values()], names=label_columns(id_name, further))

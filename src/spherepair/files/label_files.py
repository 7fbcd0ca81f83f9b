"""Files of labels (.csv, .parquet, .npy), written batch by batch, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from spherepair.files import atomic_write
from spherepair.files.columns import PARQUET_SUFFIXES, csv_bytes

#: Takes some labels, the names of their rows, and the values of further columns.
Write = Callable[..., None]


def write_labels(
    path: Path,
    labels: NDArray[np.int64],
    *,
    ids: Any = None,
    id_name: str | None = None,
    further: Mapping[str, Any] | None = None,
) -> None:
    """Write labels as columns ``row`` (or the IDs), ``label`` and others, or as a plain .npy array.

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
    """
    more = further or {}
    with open_labels(path, id_name=id_name, further=tuple(more)) as write:
        write(labels, np.arange(len(labels)) if ids is None else ids, *more.values())


@contextmanager
def open_labels(path: Path, *, id_name: str | None = None, further: Sequence[str] = ()) -> Iterator[Write]:
    """A function that appends labels and the names of their rows to a file, which is there once all are.

    Parameters
    ----------
    path : Path
        The file; its ending decides the format.
    id_name : str, optional
        Name of the ID column; without it rows are numbered in a column ``row``.
    further : sequence of str
        Names of more columns; a .npy file has none.
    """
    names = label_columns(id_name)
    names += tuple(name if name not in names else f"{names[1]}_{name}" for name in further)
    with atomic_write(path) as temporary, temporary.open("w+b") as stream:
        if path.suffix.lower() == ".npy":
            yield from _write_array(stream)
        elif path.name.lower().endswith(PARQUET_SUFFIXES):
            yield from _write_parquet(stream, names)
        else:
            yield from _write_csv(stream, names)


def label_columns(id_name: str | None) -> tuple[str, ...]:
    """Names of the two columns; the labels must not replace an ID column that is itself named "label".

    Examples
    --------
    >>> label_columns(None), label_columns("label")
    (('row', 'label'), ('label', 'cluster'))
    """
    name = "row" if id_name is None else id_name
    return name, "label" if name != "label" else "cluster"


def _write_array(stream: Any) -> Iterator[Write]:
    """An array whose length is known at the end: its header has room for any."""
    n_rows = 0

    def header() -> None:
        described = {"descr": "<i8", "fortran_order": False, "shape": (n_rows,)}
        npy_format.write_array_header_1_0(stream, described)

    def write(labels: NDArray[np.int64], ids: Any, *further: Any) -> None:
        nonlocal n_rows
        stream.write(np.ascontiguousarray(labels, dtype="<i8").data)
        n_rows += len(labels)

    header()
    yield write
    stream.seek(0)
    header()


def _write_parquet(stream: Any, names: tuple[str, ...]) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(labels: NDArray[np.int64], ids: Any, *further: Any) -> None:
        nonlocal writer
        table = pa.table([ids, labels, *further], names=names)
        writer = writer or pq.ParquetWriter(stream, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _write_csv(stream: Any, names: tuple[str, ...]) -> Iterator[Write]:
    import pyarrow as pa

    def write(labels: NDArray[np.int64], ids: Any, *further: Any) -> None:
        stream.write(csv_bytes(pa.table([ids, labels, *further], names=names), header=stream.tell() == 0))

    yield write

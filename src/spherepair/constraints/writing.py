"""Turn pairs into the bytes of csv, json lines and parquet files."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from spherepair.constraints.checks import check_range, locate_in
from spherepair.constraints.parsing import RowIds
from spherepair.constraints.table import PairTable


def arrow_table(pairs: PairTable, ids: Any) -> Any:
    """An Arrow table with the columns left, right, link and weight."""
    import pyarrow as pa

    left, right = pa.array(pairs.left), pa.array(pairs.right)
    if ids is not None:
        names = RowIds(ids).array
        check_range(pairs.left, pairs.right, locate=locate_in(pairs), n_rows=len(names))
        left, right = names.take(left), names.take(right)
    words = pa.array(np.where(pairs.is_must_link, "must-link", "cannot-link"), pa.string())
    return pa.table([left, right, words, pa.array(pairs.weight)], names=["left", "right", "link", "weight"])


def csv_bytes(table: Any) -> bytes:
    """The table as csv."""
    import pyarrow.csv as pa_csv

    stream = io.BytesIO()
    options = pa_csv.WriteOptions(quoting_style="needed", quoting_header="none")
    pa_csv.write_csv(table, stream, options)
    return stream.getvalue()


def json_lines_bytes(table: Any) -> bytes:
    """The table as one JSON object per line."""
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


def parquet_bytes(table: Any) -> bytes:
    """The table as parquet."""
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()

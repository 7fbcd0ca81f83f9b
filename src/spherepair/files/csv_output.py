"""Tables as csv, for programs as they are, or for spreadsheets with formulas escaped."""

from __future__ import annotations

import io
from typing import Any

#: How a formula begins in a spreadsheet.
FORMULA = r"^([\t\r]|\s*[=+\-@])"


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
    texts = [column for column in table.columns if _is_text(column.type)]
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

    columns = [_escaped(column) if _is_text(column.type) else column for column in table.columns]
    names = _escaped(pa.array(table.column_names, pa.string())).to_pylist()
    return pa.table(columns, names=names)


def _escaped(texts: Any) -> Any:
    import pyarrow.compute as pc

    is_risky = pc.fill_null(pc.match_substring_regex(texts, FORMULA), False)
    return pc.if_else(is_risky, pc.replace_substring_regex(texts, "(?s)^(.*)$", "'\\1"), texts)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

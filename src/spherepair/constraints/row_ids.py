"""IDs of rows, and how they and row numbers are found in columns that people wrote."""

from __future__ import annotations

from typing import Any

import numpy as np

from spherepair.constraints.array_inputs import as_row_numbers
from spherepair.constraints.pair_arrays import IndexArray, Locate, invalid, refuse
from spherepair.errors import quoted
from spherepair.files.columns import text_array
from spherepair.files.csv_files import is_text

_WHOLE_NUMBER = r"^[+-]?[0-9]{1,18}(\.0*)?$"


class RowIds:
    """ID of each row, to be looked up: whole numbers as numbers, everything else as text."""

    def __init__(self, ids: Any) -> None:
        self.array = _id_array(ids)
        refuse(np.asarray(self.array.is_null()), lambda k: f"ids[{k}] is missing; every row needs an id.")
        self._refuse_repeated()

    def __len__(self) -> int:
        return len(self.array)

    def find(self, column: Any, locate: Locate) -> IndexArray:
        """Row number of each id of the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_integer(self.array.type):
            found = pc.index_in(_whole_numbers(column, locate), value_set=self.array)
        else:
            column = as_text(column)
            found = pc.index_in(column, value_set=self.array)
            # Hand-written files put a space after the comma; an id with spaces of its own comes first.
            trimmed = pc.index_in(pc.utf8_trim_whitespace(column), value_set=self.array)
            found = pc.coalesce(found, trimmed)
        refuse(
            np.asarray(found.is_null()),
            lambda k: (
                f"{locate(k)} holds the id {quoted(column[k].as_py())}, which no row has; "
                f"{found.null_count} of {len(column)} ids in this column are unknown."
            ),
        )
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _refuse_repeated(self) -> None:
        import pyarrow.compute as pc

        counts = pc.value_counts(self.array)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(repeated):
            first = repeated[0].as_py()
            raise invalid(
                f"the id {quoted(first['values'])} stands for {first['counts']} rows; ids must be unique, "
                f"and {len(repeated)} of them are not."
            )


def look_up(ids: Any, **named: Any) -> tuple[list[IndexArray], int]:
    """Row numbers of lists of IDs, each in the shape in which it was given, and the number of rows.

    Examples
    --------
    >>> look_up(["ann", "bob", "cem"], must_link=[("cem", "ann")])[0][0].tolist()
    [[2, 0]]
    """
    lookup = RowIds(ids)

    def rows_of(values: Any, name: str) -> IndexArray:
        given = values if hasattr(values, "__array__") else np.array(list(values), dtype=object)
        width = max(1, np.asarray(given).shape[-1]) if np.ndim(given) > 1 else 1
        column = _id_array(np.asarray(given).ravel())
        found = lookup.find(column, lambda k: f"{name}[{k // width}]")
        return found.reshape(np.shape(given))

    return [rows_of(values, name) for name, values in named.items()], len(lookup)


def find_rows(column: Any, lookup: RowIds | None, locate: Locate) -> IndexArray:
    """Row number of each entry: looked up where rows have IDs, otherwise the number that stands there."""
    if lookup is not None:
        return lookup.find(column, locate)
    return np.asarray(_whole_numbers(column, locate).to_numpy(zero_copy_only=False))


def _whole_numbers(column: Any, locate: Locate) -> Any:
    """The column as an Arrow array of int64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_text(column.type):
        return pa.array(as_row_numbers(column.to_numpy(zero_copy_only=False), locate))
    text = pc.utf8_trim_whitespace(column)
    refuse(
        np.asarray(pc.invert(pc.match_substring_regex(text, _WHOLE_NUMBER))),
        lambda k: (
            f"{locate(k)} holds {quoted(column[k].as_py())}; row numbers must be whole numbers counted from "
            "0. Give ids= if the file names rows by an id."
        ),
    )
    digits = pc.replace_substring_regex(text, pattern=r"^\+|\.0*$", replacement="")
    return digits.cast(pa.int64())


def _id_array(ids: Any) -> Any:
    import pyarrow as pa

    values = ids if hasattr(ids, "__array__") else np.array(list(ids), dtype=object)
    try:
        array = plain(pa.array(np.asarray(values), from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        array = text_array(values)
    return array.cast(pa.int64() if pa.types.is_integer(array.type) else pa.string())


def plain(column: Any) -> Any:
    """The column in one chunk and without a dictionary."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def as_text(column: Any) -> Any:
    """The column as an Arrow array of text."""
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowNotImplementedError:
        # Lists and objects of a json lines file: neither ids nor links, but messages can show them.
        return text_array(column.to_pylist())

"""Turn the columns of a file of pairs into arrays, naming the row of whatever cannot be used.

Columns arrive as Arrow arrays of text, numbers or truth values. pyarrow is imported inside the
functions: it is an optional dependency, and the reader has made sure of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spherepair.constraints.checks import Locate, as_row_numbers, as_weight, check_pairs
from spherepair.constraints.table import BoolArray, IndexArray, PairTable, WeightArray
from spherepair.errors import InvalidConstraintsError

MUST_LINK_WORDS = ("must-link", "must_link", "must", "ml", "same", "1", "1.0", "true", "yes")
CANNOT_LINK_WORDS = (
    *("cannot-link", "cannot_link", "cannot", "cl", "different"),
    *("0", "0.0", "-0", "-1", "-1.0", "false", "no"),
)
# 18 digits always fit into 64 bits; more is no row number.
_WHOLE_NUMBER = r"^[+-]?[0-9]{1,18}(\.0*)?$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"


@dataclass(frozen=True)
class RawColumns:
    """The columns of a file as they stand there.

    Parameters
    ----------
    name : str
        Name of the file, for messages.
    columns : dict of str to Arrow array
        Under ``left``, ``right``, ``link`` and perhaps ``weight``.
    source_row : array of shape (n_pairs,)
        Row of the file of each pair.
    """

    name: str
    columns: dict[str, Any]
    source_row: IndexArray

    def locate(self, index: int) -> str:
        """Name the pair at a position."""
        return f"{self.name} row {self.source_row[index]}"


def parse_columns(raw: RawColumns, *, ids: Any, n_rows: int | None) -> PairTable:
    """Check the columns and turn them into pairs; repeated pairs are still there."""
    columns = {name: _plain(column) for name, column in raw.columns.items()}
    for name in ("left", "right", "link"):
        _refuse_missing(columns[name], name, raw.locate)
    lookup = None if ids is None else RowIds(ids)
    left = _ends(columns["left"], lookup, raw.locate)
    right = _ends(columns["right"], lookup, raw.locate)
    n_rows = n_rows if lookup is None else len(lookup)
    check_pairs(left, right, locate=raw.locate, n_rows=n_rows)
    is_must_link = _links(columns["link"], raw.locate)
    weight = _weights(columns.get("weight"), len(left), raw.locate)
    return PairTable(left, right, is_must_link, weight, raw.source_row)


class RowIds:
    """The id of each row, to be looked up: whole numbers as numbers, everything else as text."""

    def __init__(self, ids: Any) -> None:
        self.array = _id_array(ids)
        if self.array.null_count:
            first = self.array.is_null().to_numpy(zero_copy_only=False).argmax()
            raise InvalidConstraintsError(f"constraints: ids[{first}] is missing; every row needs an id.")
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
            column = _as_text(column)
            found = pc.index_in(column, value_set=self.array)
            # Hand-written files put a space after the comma; an id with spaces of its own wins.
            trimmed = pc.index_in(pc.utf8_trim_whitespace(column), value_set=self.array)
            found = pc.coalesce(found, trimmed)
        if found.null_count:
            first = int(found.is_null().to_numpy(zero_copy_only=False).argmax())
            raise InvalidConstraintsError(
                f"constraints: {locate(first)} holds the id {column[first].as_py()!r}, which no "
                f"row has; {found.null_count} of {len(column)} ids in this column are unknown."
            )
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _refuse_repeated(self) -> None:
        import pyarrow.compute as pc

        counts = pc.value_counts(self.array)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(repeated):
            first = repeated[0].as_py()
            raise InvalidConstraintsError(
                f"constraints: the id {first['values']!r} stands for {first['counts']} rows; "
                f"ids must be unique, and {len(repeated)} of them are not."
            )


def _id_array(ids: Sequence[Any]) -> Any:
    import pyarrow as pa

    values = ids if hasattr(ids, "__array__") else np.array(list(ids), dtype=object)
    try:
        array = _plain(pa.array(np.asarray(values), from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        array = text_array(values)
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64())
    return array.cast(pa.string())


def _plain(column: Any) -> Any:
    """One chunk, no dictionary."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def _refuse_missing(column: Any, name: str, locate: Locate) -> None:
    if column.null_count:
        first = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} has no {name}; every pair needs left, right and link."
        )


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _as_text(column: Any) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowNotImplementedError:
        # Lists and objects of a json lines file: no id and no link, but they can be shown.
        return text_array(column.to_pylist())


def text_array(values: Iterable[Any]) -> Any:
    """An Arrow array of the values as text, for values that are not of one kind."""
    import pyarrow as pa

    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _ends(column: Any, lookup: RowIds | None, locate: Locate) -> IndexArray:
    if lookup is not None:
        return lookup.find(column, locate)
    return np.asarray(_whole_numbers(column, locate).to_numpy(zero_copy_only=False))


def _whole_numbers(column: Any, locate: Locate) -> Any:
    """An Arrow array of int64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_text(column):
        return pa.array(as_row_numbers(column.to_numpy(zero_copy_only=False), locate))
    text = pc.utf8_trim_whitespace(column)
    bad = np.asarray(pc.invert(pc.match_substring_regex(text, _WHOLE_NUMBER)))
    if bad.any():
        first = int(bad.argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} holds {column[first].as_py()!r}; row numbers must be "
            "whole numbers counted from 0. Give ids= if the file names rows by an id."
        )
    digits = pc.replace_substring_regex(text, pattern=r"^\+|\.0*$", replacement="")
    return digits.cast(pa.int64())


def _links(column: Any, locate: Locate) -> BoolArray:
    import pyarrow.compute as pc

    text = pc.utf8_lower(pc.utf8_trim_whitespace(_as_text(column)))
    encoded = text.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    is_known = np.array([word in MUST_LINK_WORDS + CANNOT_LINK_WORDS for word in words], bool)
    if not is_known.all():
        first = int((~is_known[codes]).argmax())
        raise InvalidConstraintsError(
            f"constraints: {locate(first)} has the link {column[first].as_py()!r}; it must be "
            "must-link (or must, ml, same, 1, true) or cannot-link (or cannot, cl, different, 0, "
            "-1, false)."
        )
    return np.array([word in MUST_LINK_WORDS for word in words], bool)[codes]


def _weights(column: Any | None, n_pairs: int, locate: Locate) -> WeightArray:
    """Weights; a blank one means one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None:
        return np.ones(n_pairs, np.float32)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        text = pc.utf8_trim_whitespace(_as_text(column))
        text = pc.if_else(pc.equal(text, ""), pa.scalar("1", text.type), text)
        bad = np.asarray(pc.invert(pc.fill_null(pc.match_substring_regex(text, _NUMBER), True)))
        if bad.any():
            first = int(bad.argmax())
            raise InvalidConstraintsError(
                f"constraints: {locate(first)} has weight {column[first].as_py()!r}; "
                "a weight must be a number."
            )
        column = pc.replace_substring_regex(text, pattern=r"^\+", replacement="")
    numbers = pc.fill_null(column.cast(pa.float64()), 1.0)
    return as_weight(numbers.to_numpy(zero_copy_only=False), n_pairs, name="weight", locate=locate)

"""Files of pairs: csv, json lines or parquet with the columns left, right, link and perhaps more.

The columns of all files that people annotate are parsed here: rows by number or ID, texts and numbers.
What cannot be used is named by its row of the file; :mod:`spherepair.files.columns` says how rows are
counted.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.constraints.array_inputs import as_details, as_weight
from spherepair.constraints.pair_arrays import (
    AnswerDetails,
    BoolArray,
    IndexArray,
    Locate,
    PairArrays,
    Pairs,
    TextArray,
    ValueArray,
    WeightArray,
    check_pairs,
    check_range,
    invalid,
    locate_in,
    refuse,
)
from spherepair.constraints.row_ids import RowIds, as_text, find_rows, plain
from spherepair.errors import ConstraintWarning, listed, quoted
from spherepair.files.columns import (
    TABLE_SUFFIXES,
    ColumnFile,
    open_columns,
    require_pyarrow,
    write_columns,
)
from spherepair.files.untrusted import PAIR_BYTES, refuse_large

MUST_LINK_WORDS = ("must-link", "must_link", "must", "ml", "same", "1", "1.0", "true", "yes")
CANNOT_LINK_WORDS = (
    *("cannot-link", "cannot_link", "cannot", "cl", "different"),
    *("0", "0.0", "-0", "-1", "-1.0", "false", "no"),
)
#: Links that say nothing; such pairs are left out.
NO_ANSWER_WORDS = ("", "skip")
#: A link that says how sure the answer is: a number between 0 and 1, or a word for 0.5.
UNSURE_WORDS = ("unsure",)
# 18 digits always fit into 64 bits; no row number has more.
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
_NEEDED = ("left", "right", "link")
_USED = {
    **{name: (name,) for name in (*_NEEDED, "weight", "time", "value")},
    "by": ("by", "who", "annotator"),
}


def open_annotations(path: Path) -> ColumnFile:
    """Open a file of pairs or labels."""
    return open_columns(path, suffixes=TABLE_SUFFIXES, fail=lambda reason: invalid(f"{path} {reason}"))


def read_pairs(kind: type[Pairs], file: ColumnFile, *, ids: Any, n_rows: int | None) -> Pairs:
    """Pairs of a file; repeated ones are still there."""
    lookup = None if ids is None else RowIds(ids)
    if file.is_blank:
        return kind(*np.empty((5, 0)))
    _require_columns(file)
    columns = read_used(file, _USED)
    is_answer = _is_answer(columns["link"], file)
    rows = file.rows(len(is_answer))[is_answer]
    columns = {name: column.filter(is_answer) for name, column in columns.items()}

    def locate(index: int) -> str:
        return f"{file.path.name} row {rows[index]}"

    left, right = (_ends(columns, end, lookup, locate) for end in ("left", "right"))
    check_pairs(left, right, locate=locate, n_rows=n_rows if lookup is None else len(lookup))
    is_must_link, graded = _links(columns["link"], locate)
    weight = _weights(columns.get("weight"), len(left), locate)
    details = _details(columns, is_must_link, graded, locate)
    return kind(left, right, is_must_link, weight, rows, details=details)


def read_questions(
    path: str | os.PathLike[str], *, ids: Any = None, n_rows: int | None = None
) -> tuple[IndexArray, IndexArray]:
    """Both ends of the pairs of a file to be asked about, whatever their links; each pair once."""
    file = open_annotations(Path(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)  # what else stands there is for the reader
        columns = {} if file.is_blank else read_used(file, {end: (end,) for end in ("left", "right")})
    missing = [end for end in ("left", "right") if end not in columns]
    if missing and not file.is_blank:
        raise invalid(f"{file.path.name} has no column {missing[0]}; questions need left and right.")
    if not columns:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    lookup, rows = None if ids is None else RowIds(ids), file.rows(len(columns["left"]))

    def locate(index: int) -> str:
        return f"{file.path.name} row {rows[index]}"

    left, right = (_ends(columns, end, lookup, locate) for end in ("left", "right"))
    check_pairs(left, right, locate=locate, n_rows=n_rows if lookup is None else len(lookup))
    pairs = np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1)
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    return left[first], right[first]


def _ends(columns: Mapping[str, Any], end: str, lookup: RowIds | None, locate: Locate) -> IndexArray:
    """Rows at one end of the pairs."""
    refuse(
        np.asarray(columns[end].is_null()),
        lambda k: f"{locate(k)} has no {end}; every pair needs left, right and link.",
    )
    return find_rows(columns[end], lookup, locate)


def _links(column: Any, locate: Locate) -> tuple[BoolArray, ValueArray | None]:
    """Whether each link is a must-link, and their values where some are graded."""
    import pyarrow.compute as pc

    encoded = pc.utf8_lower(pc.utf8_trim_whitespace(as_text(column))).dictionary_encode()
    words = encoded.dictionary.to_pylist()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    values = np.array([_value_of(word) for word in words], np.float64)
    refuse(
        np.isnan(values)[codes],
        lambda k: (
            f"{locate(k)} has the link {quoted(column[k].as_py())}; it must be must-link (or must, ml, same, "
            "1, true), cannot-link (or cannot, cl, different, 0, -1, false), unsure, or a number from 0 "
            "(surely different) to 1 (surely the same)."
        ),
    )
    is_graded = ((values > 0.0) & (values < 1.0)).any()
    return (values > 0.5)[codes], values[codes] if is_graded else None


def _value_of(word: str) -> float:
    """From 0, surely different, to 1, surely the same; NaN for a word that is no link."""
    if word in MUST_LINK_WORDS or word in CANNOT_LINK_WORDS:
        return float(word in MUST_LINK_WORDS)
    if word in UNSURE_WORDS:
        return 0.5
    value = float(word) if re.match(_NUMBER, word) else math.nan
    return value if 0.0 <= value <= 1.0 else math.nan


def _weights(column: Any | None, n_pairs: int, locate: Locate) -> WeightArray:
    """Weights of the pairs; a blank one means one."""
    if column is None:
        return np.ones(n_pairs, np.float32)
    found = numbers(column, np.ones(n_pairs), name="weight", locate=locate)
    return as_weight(found, n_pairs, name="weight", locate=locate)


def _details(
    columns: dict[str, Any], is_must_link: BoolArray, graded: ValueArray | None, locate: Locate
) -> AnswerDetails:
    by, time = (texts(columns[name]) if name in columns else None for name in ("by", "time"))
    value = graded
    if "value" in columns:
        by_link = is_must_link.astype(np.float64) if graded is None else graded
        value = numbers(columns["value"], by_link, name="value", locate=locate)
        _refuse_two_values(value, by_link, locate)
    return as_details(by, time, value, is_must_link, locate=locate)


def _refuse_two_values(value: ValueArray, by_link: ValueArray, locate: Locate) -> None:
    """Refuse a link that is a number between 0 and 1 beside another one in the column value."""
    is_graded = (by_link > 0.0) & (by_link < 1.0)
    refuse(
        is_graded & (value != by_link),
        lambda k: (
            f"{locate(k)} has the link {by_link[k]:g} and the value {value[k]:g}; leave one of them blank or "
            "make them equal."
        ),
    )


def write_pairs(pairs: PairArrays, path: str | os.PathLike[str], *, ids: Any) -> None:
    """Write a file of pairs, whole or not at all."""
    path = Path(path)
    if not path.name.lower().endswith(TABLE_SUFFIXES):
        raise invalid(f"{path} is of an unknown kind; its name must end in {', '.join(TABLE_SUFFIXES)}.")
    require_pyarrow(path)
    if not path.parent.is_dir():
        raise invalid(f"the folder of {path} does not exist; make it first.")
    left, right = _names_of(pairs, ids)
    words = np.where(pairs.is_must_link, "must-link", "cannot-link")
    known = {name: column for name, column in pairs.details._asdict().items() if column is not None}
    write_columns(path, {"left": left, "right": right, "link": words, "weight": pairs.weight, **known})


def _names_of(pairs: PairArrays, ids: Any) -> tuple[Any, Any]:
    """Both ends of the pairs, as IDs where there are any."""
    import pyarrow as pa

    left, right = pa.array(pairs.left), pa.array(pairs.right)
    if ids is None:
        return left, right
    names = RowIds(ids).array
    check_range(pairs.left, pairs.right, locate=locate_in(pairs), n_rows=len(names))
    return names.take(left), names.take(right)


def _require_columns(file: ColumnFile) -> None:
    names = column_names(file)
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise invalid(
            f"{file.path.name} has no column {' and no column '.join(missing)}; it has {listed(names)}. "
            "The columns must be left, right, link and perhaps weight, by, time and value; or row and label."
        )


def _is_answer(column: Any, file: ColumnFile) -> BoolArray:
    """Mask of the pairs whose link says something."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(as_text(column), "")))
    is_answer = ~np.asarray(pc.is_in(words, value_set=pa.array(NO_ANSWER_WORDS)))
    n_left_out = len(words) - int(is_answer.sum())
    if n_left_out:
        file_warning(
            f"{file.path.name}: {n_left_out} of {len(words)} pairs left out, because their link is blank or "
            "skip.",
            stacklevel=5,
        )
    return is_answer


def file_warning(sentence: str, *, stacklevel: int = 6) -> None:
    """Warn that something in a file is not used."""
    warnings.warn(f"constraints: {sentence}", ConstraintWarning, stacklevel=stacklevel)


def holds_labels(file: ColumnFile) -> bool:
    """Whether this is a file of labels, not of pairs."""
    names = column_names(file)
    return "label" in names and "left" not in names


def column_names(file: ColumnFile) -> list[str]:
    """Names of the columns in lower case, without spaces around them."""
    return [name.strip().lower() for name in file.names]


def read_used(file: ColumnFile, used: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The columns that are used, as Arrow arrays; a warning names the others.

    `used` maps what a column holds to the names it may have in the file, in lower case.
    """
    names = column_names(file)
    places: dict[str, int] = {}
    for what, aliases in used.items():
        found = [place for place, name in enumerate(names) if name in aliases]
        if len(found) > 1:
            raise invalid(_repeated(file.path.name, sorted({names[place] for place in found})))
        if found:
            places[what] = found[0]
    unused = [name for place, name in enumerate(file.names) if place not in places.values()]
    if unused:
        _warn_unused(file, unused)
    # As text: numbers are parsed later, because an id such as 007 must stay what it is.
    in_file = {what: file.names[place] for what, place in places.items()}
    table = file.read(list(in_file.values()), text=list(in_file.values()))
    refuse_large(PAIR_BYTES * len(table), file.path.stat().st_size, file.fail)
    return {what: plain(table[name]) for what, name in in_file.items()}


def _repeated(file: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"{file} has the column {names[0]} more than once; rename one of them."
    return f"{file} has the columns {' and '.join(names)}, which mean the same; rename one of them."


def _warn_unused(file: ColumnFile, unused: Sequence[str]) -> None:
    shown = listed(unused)
    verb = f"column {shown} is" if len(unused) == 1 else f"columns {shown} are"
    file_warning(f"{file.path.name}: {verb} not used.")


def numbers(column: Any, blank: ValueArray, *, name: str, locate: Locate) -> ValueArray:
    """The column as numbers, with those of `blank` where it is blank."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        text = pc.utf8_trim_whitespace(as_text(column))
        text = pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
        given = column
        refuse(
            np.asarray(pc.invert(pc.fill_null(pc.match_substring_regex(text, _NUMBER), True))),
            lambda k: f"{locate(k)} has {name} {quoted(given[k].as_py())}; a {name} must be a number.",
        )
        column = pc.replace_substring_regex(text, pattern=r"^\+", replacement="")
    found = np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))
    return np.where(np.asarray(column.is_null()), blank, found)


def texts(column: Any) -> TextArray:
    """The column as texts without spaces around them; empty text where it is blank."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.fill_null(pc.utf8_trim_whitespace(as_text(column)), "")
    if pa.types.is_timestamp(column.type):
        text = pc.replace_substring(text, " ", "T", max_replacements=1)
    encoded = text.dictionary_encode()
    words = np.array([*encoded.dictionary.to_pylist(), ""], dtype=object)
    return words[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)]

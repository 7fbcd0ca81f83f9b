"""Labels of rows and records of interviews, which are read as pairs.

A file of labels has a column that names the rows and a column label. A record is json lines: the first
says what the file is, each further one is an answer with the pairs that it states, or takes an answer
back. Lines of a record are only ever appended: a last line that breaks off was never finished and is
ignored.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.constraints.array_inputs import as_details
from spherepair.constraints.pair_arrays import (
    IndexArray,
    Locate,
    Pairs,
    TextArray,
    check_pairs,
    invalid,
    refuse,
)
from spherepair.constraints.pairs_file import (
    UNSURE_WORDS,
    column_names,
    file_warning,
    holds_labels,
    open_annotations,
    read_used,
    texts,
)
from spherepair.constraints.row_ids import RowIds, as_text, find_rows
from spherepair.constraints.sampling import group_pairs
from spherepair.errors import InvalidConstraintsError, quoted
from spherepair.files.columns import JSON_LINES_SUFFIXES, ColumnFile
from spherepair.files.untrusted import open_binary, refuse_gzip_bomb

#: Labels that mean an unknown one, besides a blank.
UNKNOWN_LABELS = ("", "-1", "-1.0")
#: Of more pairs than this as many are drawn.
MOST_PAIRS = 200_000
#: The same file gives the same pairs.
SEED = 0
#: What the first line of a record says.
FORMAT, VERSION = "spherepair answers", 1
#: Bytes of one line of a record; a longer one is no answer.
LONGEST_LINE = 1_000_000


def read_labels(kind: type[Pairs], file: ColumnFile, *, ids: Any, n_rows: int | None) -> Pairs:
    """Pairs of the labeled rows, as those of :meth:`Constraints.from_groups`."""
    lookup = None if ids is None else RowIds(ids)
    column = _row_column(column_names(file), has_ids=lookup is not None)
    if column is None:
        raise invalid(
            f"{file.path.name} has no column that says which row a label belongs to; add a column row "
            "(numbers from 0) or id."
        )
    columns = read_used(file, {"row": (column,), "label": ("label",)})
    labels = texts(columns["label"])
    is_known = ~np.isin(labels, UNKNOWN_LABELS)
    labels, file_rows = labels[is_known], file.rows(len(labels))[is_known]

    def locate(index: int) -> str:
        return f"{file.path.name} row {file_rows[index]}"

    named = columns["row"].filter(is_known)
    refuse(
        np.asarray(named.is_null()),
        lambda k: f"{locate(k)} has a label but no {column}; say which row it belongs to.",
    )
    rows = find_rows(named, lookup, locate)
    _check_rows(rows, locate, n_rows=n_rows if lookup is None else len(lookup))
    _refuse_two_labels(rows, labels, locate)
    rows, first_given = np.unique(rows, return_index=True)
    pairs = group_pairs(kind, labels[first_given].tolist(), None, SEED)
    origin = file_rows[first_given][pairs.left]
    return _at_most(
        replace(pairs, left=rows[pairs.left], right=rows[pairs.right], source_row=origin), file.path.name
    )


def named_rows(path: Path) -> Any:
    """The different IDs that a file of pairs or labels names, as Arrow texts; a record has none: ``None``.

    A number is there as it stands and as a whole number, without a sign or a fraction of zeros.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if path.name.lower().endswith(JSON_LINES_SUFFIXES) and is_record(path):
        return None
    file = open_annotations(path)
    row = _row_column(column_names(file), has_ids=True) if holds_labels(file) else None
    wanted = {"left": ("left",), "right": ("right",)} if row is None else {"row": (row,)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns that are not used are told when the pairs are read
        columns = [as_text(column) for column in read_used(file, wanted).values()]
    given = (
        pa.concat_arrays([column.drop_null() for column in columns]) if columns else pa.array([], pa.string())
    )
    trimmed = pc.utf8_trim_whitespace(given)
    whole = pc.replace_substring_regex(trimmed, pattern=r"^\+([0-9])|^(-?[0-9]+)\.0*$", replacement=r"\1\2")
    return pa.concat_arrays([given, trimmed, whole]).unique()


def _row_column(names: Sequence[str], *, has_ids: bool) -> str | None:
    """Name of the column that says which row is meant."""
    preferred = ("id", "row") if has_ids else ("row", "id")
    others = [name for name in names if name != "label"]
    return next((name for name in (*preferred, *others) if name in others), None)


def _check_rows(rows: IndexArray, locate: Locate, *, n_rows: int | None) -> None:
    outside = (rows < 0) | (rows >= (np.iinfo(np.int64).max if n_rows is None else n_rows))
    count = "" if n_rows is None else f", but there are {n_rows} rows"
    refuse(outside, lambda k: f"{locate(k)} labels row {rows[k]}{count}; row numbers count from 0.")


def _refuse_two_labels(rows: IndexArray, labels: TextArray, locate: Locate) -> None:
    """Refuse a row that is given two labels; the same label again does no harm."""
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    earlier = first[inverse]
    refuse(
        labels != labels[earlier],
        lambda k: (
            f"{locate(k)} gives row {rows[k]} the label {quoted(labels[k])}, but {locate(earlier[k])} gives "
            f"it {quoted(labels[earlier[k]])}; a row has one label."
        ),
    )


def _at_most(pairs: Pairs, name: str) -> Pairs:
    """Not too many pairs: one for every labeled row, then others at random."""
    if len(pairs) <= MOST_PAIRS:
        return pairs
    _, first = np.unique(np.concatenate([pairs.left, pairs.right]), return_index=True)
    cover = np.unique(first % len(pairs))
    others = np.setdiff1d(np.arange(len(pairs)), cover)
    drawn = np.random.default_rng(SEED).permutation(others)[: max(0, MOST_PAIRS - len(cover))]
    chosen = np.sort(np.concatenate([cover, drawn]))
    file_warning(
        f"{name}: the labels make {len(pairs)} pairs; {len(chosen)} of them are used, drawn at random so "
        "that every labeled row is in one of them.",
        stacklevel=5,
    )
    return pairs[chosen]


def is_record(path: Path) -> bool:
    """Whether the first line of a json lines file says that this is a record of answers."""
    if not path.is_file():
        return False
    try:
        with open_binary(path) as stream:
            first = json.loads(stream.readline(LONGEST_LINE))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        return False  # no record; what else is wrong with it, the reader of pairs says
    return isinstance(first, dict) and first.get("format") == FORMAT


def read_record(kind: type[Pairs], path: Path, *, n_rows: int | None) -> Pairs:
    """Pairs of all answers that were not taken back, with who gave them and when.

    ``source_row`` is the line of the record.
    """
    standing: dict[int, list[tuple[Any, ...]]] = {}
    for line, event in _events(path):
        what: Any = event.get("event")
        number: Any = event.get("number")
        is_standing = _is_whole(number) and number in standing
        if what == "undo" and is_standing:
            del standing[number]
        elif what == "answer" and _is_whole(number) and not is_standing:
            standing[number] = _stated(event, path, line)
        else:
            raise _damage(path, line, "it is no new answer and takes back no earlier one")
    stated = [pair for pairs in standing.values() for pair in pairs]
    left, right, values, by, time, lines = zip(*stated, strict=True) if stated else ((),) * 6

    def locate(index: int) -> str:
        return f"{path.name} line {lines[index]}"

    ends = np.array(left, np.int64), np.array(right, np.int64)
    value = np.array(values, np.float64)
    is_must_link = value > 0.5
    check_pairs(*ends, locate=locate, n_rows=n_rows)
    details = as_details(by, time, value, is_must_link, locate=locate)
    return kind(*ends, is_must_link, np.ones(len(stated), np.float32), np.array(lines), details=details)


def _events(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and content of each whole line after the first."""
    refuse_gzip_bomb(path, lambda reason: invalid(f"{path} {reason}"))
    with open_binary(path) as stream:
        for line, text in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
            if not text.endswith(b"\n") and len(text) < LONGEST_LINE and not is_json(text):
                return  # half-written
            event = _parse(text, path, line)
            if line > 1:
                yield line, event
            elif event.get("version") != VERSION:
                raise _damage(path, line, f"its version is {quoted(event.get('version'))}, not {VERSION}")


def is_json(text: bytes) -> bool:
    """Whether a line is whole, though it has no end of line."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _parse(text: bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damage(path, line, "it is not JSON") from error
    if not isinstance(event, dict):
        raise _damage(path, line, "it is not a JSON object with named values")
    return event


def _stated(event: dict[str, Any], path: Path, line: int) -> list[tuple[Any, ...]]:
    """Pairs of one answer, each with its value, person, time and line; an unsure answer has the value 0.5."""
    links, by, time = event.get("links"), event.get("by", ""), event.get("time", "")
    if not (isinstance(by, str) and isinstance(time, str)):
        raise _damage(path, line, "by and time must be text")
    if not (isinstance(links, list) and all(map(_is_link, links))):
        raise _damage(path, line, "links must be a list of [row, row, 1 or 0]")
    if event.get("kind") == "pair" and event.get("answer") in UNSURE_WORDS:
        links = [[event.get("left"), event.get("right"), 0.5]]
        if not all(map(_is_whole, links[0][:2])):
            raise _damage(path, line, "left and right must be rows")
    return [(*link, by, time, line) for link in links]


def _is_link(link: Any) -> bool:
    return isinstance(link, list) and len(link) == 3 and all(map(_is_whole, link[:2])) and link[2] in (0, 1)


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and abs(number) < 2**63


def _damage(path: Path, line: int, reason: str) -> InvalidConstraintsError:
    return invalid(f"{path.name} line {line} is not part of a record of answers: {reason}.")

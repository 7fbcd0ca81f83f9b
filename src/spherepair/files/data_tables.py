"""Tables from files: arrays (``array_files.py``), named columns (.csv, .parquet, .xlsx), many files, folders.

Messages speak of the command line's options --id and --drop, which choose the columns.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from spherepair.errors import LISTED_NAMES, InvalidDataError, InvalidParameterError, listed, quoted
from spherepair.files.array_files import ARRAY_SUFFIXES, read_array_file, read_array_files
from spherepair.files.arrow_rows import not_numeric, spread, stored_columns
from spherepair.files.columns import (
    CSV_SUFFIXES,
    PARQUET_SUFFIXES,
    SHEET_SUFFIXES,
    ColumnFile,
    known_ids,
    open_columns,
    suffix_of,
)
from spherepair.files.joined_columns import open_joined
from spherepair.files.pictures import FILE_COLUMN, locate_pictures, picture_files
from spherepair.files.places import Source, data_set_files, local_path
from spherepair.files.untrusted import FilePlace, SourceFile

COLUMN_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *SHEET_SUFFIXES)
#: Up to this share of words, a column is taken for numbers with typing errors.
RARE_SHARE = 0.1


@dataclass(frozen=True)
class Table:
    """Rows of features, with their names.

    Attributes
    ----------
    X : memory map, ndarray, CSR matrix or Arrow table of shape (n_rows, n_features)
    ids : Arrow array of shape (n_rows,) or None
        ID of each row.
    names : tuple of str or None
        Name of each feature.
    id_name : str or None
        Name of the ID column.
    file : ColumnFile or None
        Where named columns come from.
    raw : the rows as they were read, where `X` holds what an encoder made of them
    """

    X: Any
    ids: Any = None
    names: tuple[str, ...] | None = None
    id_name: str | None = None
    file: ColumnFile | None = field(default=None, repr=False)
    raw: Any = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def locate(self, row: int) -> str:
        """Where a row is found: the line of the file, as editors count, and its ID."""
        place = f"row {row}" if self.file is None else self.file.locate(row, self.n_rows)
        return place if self.ids is None else f"{place} (id {quoted(self.ids[row].as_py())})"


@dataclass(frozen=True)
class Rows:
    """Number of rows, and their IDs if they have any."""

    n_rows: int
    ids: Any


def read_table(
    source: Source,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    mixed: bool = False,
    text: Sequence[str] = (),
    pictures: Sequence[str] = (),
) -> Table:
    """Read rows of features; the ending of the name says what a file is.

    Parameters
    ----------
    source : path or str
        A file, a folder, a glob or a URI. Rows of several files are read as one table.
    id_column : str, optional
        ID column of a csv or parquet file; not a feature.
    drop : sequence of str
        Columns to leave out.
    features : sequence of str, optional
        Columns that a model was fitted on: exactly these are read, in this order.
    n_features : int, optional
        Number of features of a sparse file; its last ones may be zero in all rows.
    mixed : bool
        Whether columns may hold anything, not only numbers.
    text : sequence of str
        Columns of a csv file that are text, whatever they look like.
    pictures : sequence of str
        Columns with names of pictures, from the folder of the file that names them.
    """
    found = _find(source)
    if found.kind == "pictures":
        return _read_folder(Path(found.source))
    if found.kind == "arrays":
        refuse_named_columns(found.source, id_column, drop)
        return Table(_read_arrays(found, n_features))
    file = _open(found)
    table = _read_columns(file, id_column=id_column, drop=drop, features=features, text=text)
    if not mixed:
        _refuse_text(table, found.source, needed=features is not None)
    return replace(table, X=_with_pictures(file, table.X, pictures)) if pictures else table


def read_rows(source: Source, *, id_column: str | None = None) -> Rows:
    """Count rows and read their IDs; features are not read where that can be avoided."""
    found = _find(source)
    if found.kind != "columns":
        table = read_table(source, id_column=id_column)
        return Rows(table.n_rows, table.ids)
    file = _open(found)
    if id_column is not None:
        _require_column(id_column, file)
        _refuse_repeated(file, only=[id_column])
        ids = known_ids(file.read([id_column], text=[id_column])[id_column], id_column, file.fail)
        return Rows(len(ids), ids)
    firsts = ((part, part.names[:1]) for part in file.parts)
    # As text: rows can be counted whatever stands in the column.
    return Rows(sum(part.read(first, text=first).num_rows for part, first in firsts), None)


def column_names(source: Source) -> list[str]:
    """Names of the columns of a csv, parquet or xlsx file, or of several; none of arrays."""
    found = _find(source)
    if found.kind == "columns":
        return _open(found).names
    return [FILE_COLUMN] if found.kind == "pictures" else []


def is_picture_folder(source: Source) -> bool:
    """Whether this is a folder with pictures and without files of rows."""
    return _find(source).kind == "pictures"


def open_table(source: Source) -> ColumnFile:
    """Open a csv, parquet or xlsx file, or several as one; a csv file without a header is refused."""
    return _open(_find(source))


@dataclass(frozen=True)
class _Found:
    """What a source is; there are no files where it is one file of this machine or a folder of pictures."""

    source: str
    kind: Literal["pictures", "columns", "arrays"]
    files: list[SourceFile]


def _find(source: Source) -> _Found:
    path, files = local_path(source), data_set_files(source)
    if not files:
        if os.path.isdir(path):
            return _Found(path, "pictures", files)
        return _Found(path, "columns" if _suffix_of(Path(path)) in COLUMN_SUFFIXES else "arrays", files)
    arrays = [file for file in files if file.path.lower().endswith(ARRAY_SUFFIXES)]
    if arrays and len(arrays) < len(files):
        named = next(file for file in files if file not in arrays)
        raise InvalidDataError(
            f"{path} holds {arrays[0].name}, whose columns have no names, and {named.name}, whose columns "
            "have; give files of one kind."
        )
    return _Found(path, "arrays" if arrays else "columns", files)


def _open(found: _Found) -> ColumnFile:
    if found.files:
        return open_joined(found.files, found.source, open_one=open_file)
    return open_file(Path(found.source))


def open_file(path: FilePlace) -> ColumnFile:
    """Open one csv, parquet or xlsx file; a csv file without a header is refused."""
    _suffix_of(path)  # names all endings that there are
    file = open_columns(path, suffixes=COLUMN_SUFFIXES, fail=_fail(path))
    if file.kind == "csv":
        _refuse_numbers_as_names(file)
    return file


def _read_arrays(found: _Found, n_features: int | None) -> Any:
    if not found.files:
        return read_array_file(Path(found.source), n_features=n_features)
    return read_array_files([file.place for file in found.files])


def _with_pictures(file: ColumnFile, table: Any, names: Sequence[str]) -> Any:
    """The table with full paths of pictures, which each file names from its own folder."""
    import pyarrow as pa

    parts = [
        locate_pictures(rows, names, part.path.parent if part.is_local else None, part.source)
        for part, rows in file.split(table)
    ]
    return pa.concat_tables(parts)


def _read_folder(folder: Path) -> Table:
    """A folder of pictures as a table with one column, the files; their names inside are the IDs."""
    import pyarrow as pa

    files = picture_files(folder)
    ids = pa.array([file.relative_to(folder).as_posix() for file in files])
    return Table(pa.table({FILE_COLUMN: list(map(str, files))}), ids, (FILE_COLUMN,), FILE_COLUMN)


def _fail(path: FilePlace) -> Any:
    return lambda reason: InvalidDataError(f"{path} {reason}")


def _suffix_of(path: FilePlace) -> str:
    return suffix_of(path, (*COLUMN_SUFFIXES, *ARRAY_SUFFIXES), _fail(path))


def _read_columns(
    file: ColumnFile,
    *,
    id_column: str | None,
    drop: Sequence[str],
    features: Sequence[str] | None,
    text: Sequence[str],
) -> Table:
    wanted = feature_columns(file, id_column=id_column, drop=drop, features=features)
    ids = [] if id_column is None else [id_column]
    table = file.read([*wanted, *ids], text=[*ids, *(name for name in text if name in wanted)])
    given = None if id_column is None else known_ids(table[id_column], id_column, file.fail)
    X = spread(table.select(wanted), file.fail)
    if features is not None:
        _refuse_missing(features, file, X.column_names)  # vectors may be shorter than those of the fit
        X = X.select(list(features))
    return Table(X, given, tuple(X.column_names), id_column, file)


def feature_columns(
    file: ColumnFile, *, id_column: str | None, drop: Sequence[str], features: Sequence[str] | None
) -> list[str]:
    """Columns of a file that are features; takes what :func:`read_table` does, and refuses what it does."""
    ids = [] if id_column is None else [id_column]
    drop = split_names(drop, file.names)
    for name in (*drop, *ids):
        _require_column(name, file)
    _refuse_repeated(file)
    if features is None:
        wanted = [name for name in file.names if name not in {*drop, *ids}]
    else:
        _refuse_features(features, ids=ids, drop=drop)
        wanted = stored_columns(features, file.names)
    _refuse_missing(wanted, file, file.names)
    _refuse_unnamed(wanted, file)
    return wanted


def split_names(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names that may be listed with commas, as in ``--drop a,b``.

    Examples
    --------
    >>> split_names(["a,b", "price, EUR"], ["a", "b", "price, EUR"])
    ['a', 'b', 'price, EUR']
    """
    parts = ([name] if name in known else [part.strip() for part in name.split(",")] for name in given)
    return [name for part in parts for name in part]


def _require_column(name: str, file: ColumnFile) -> None:
    if name not in file.names:
        raise InvalidDataError(f"{file.source} has no column {quoted(name)}; it has {listed(file.names)}.")


def _refuse_features(features: Sequence[str], *, ids: Sequence[str], drop: Sequence[str]) -> None:
    """A column that the model was fitted on can be neither dropped nor the ID column."""
    for option, names in (("--drop", drop), ("--id", ids)):
        for name in names:
            if name in features:
                raise InvalidDataError(
                    f"{option} {name}: the model was fitted on this column and needs it; leave the option "
                    "out, or fit without the column."
                )


def _refuse_missing(wanted: Sequence[str], file: ColumnFile, names: Sequence[str]) -> None:
    known = set(names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InvalidDataError(
            f"{file.source} lacks {len(missing)} of the {len(wanted)} columns that the model was fitted on: "
            f"{listed(missing)}."
        )
    if not wanted:
        raise InvalidDataError(
            f"{file.source} has no column left to be a feature; it has {listed(file.names)}."
        )


def _refuse_repeated(file: ColumnFile, *, only: Sequence[str] | None = None) -> None:
    for part in file.parts:
        for name, count in Counter(part.names).items():
            if count > 1 and (only is None or name in only):
                raise InvalidDataError(
                    f"{part.source} has the column {quoted(name)} more than once; rename one of them."
                )


def _refuse_unnamed(wanted: list[str], file: ColumnFile) -> None:
    if "" in wanted:
        raise InvalidDataError(
            f"{file.source}: column {file.names.index('') + 1} has no name; if it is the index of a table, "
            "save the table without it, or leave it out with --drop ''."
        )


def _refuse_numbers_as_names(file: ColumnFile) -> None:
    """A file without a header would lose its first row; names 0, 1, 2, ... are fine."""
    names = file.names
    if names != [str(place) for place in range(len(names))] and all(map(_is_number, names)):
        raise InvalidDataError(
            f"{file.source} begins with numbers ({listed(names)}); its first line must name the columns."
        )


def _refuse_text(table: Table, source: str, *, needed: bool) -> None:
    """Name the columns that are no numbers, at once."""
    names = not_numeric(table.X)
    if not names:
        return
    shown = names[:LISTED_NAMES]
    said = [f"column {quoted(name)} is not numeric {_why(table, name, needed=needed)}" for name in shown]
    if len(names) > len(shown):
        said.append(f"{len(names) - len(shown)} more columns are not numeric.")
    raise InvalidDataError(f"{source}: {' '.join(said)}")


def _why(table: Table, name: str, *, needed: bool) -> str:
    """What a column holds instead of numbers, and the remedy; a `needed` column cannot be dropped."""
    values = table.X[name].to_pylist()
    words = [
        row for row, value in enumerate(values) if value not in (None, "") and not _is_number(str(value))
    ]
    if words and len(words) <= RARE_SHARE * len(values):
        first = f"the first being {quoted(values[words[0]])} in {table.locate(words[0])}"
        remedy = "correct them" if needed else f"correct them, or leave out the column with --drop {name}"
        return f"({len(words)} of its {len(values)} values are no numbers, {first}); {remedy}."
    holds = f"(its type is {table.X[name].type}, its first value {quoted(values[0] if values else None)})"
    if needed:
        return f"{holds}, but the model was fitted on numbers."
    return f"{holds}; give --id {name} if it is the ID column, or drop it with --drop {name}."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_named_columns(source: str, id_column: str | None, drop: Sequence[str]) -> None:
    """Refuse options that name columns where columns have no names."""
    for option, wanted in (("--id", id_column), ("--drop", drop)):
        if wanted:
            raise InvalidParameterError(
                f"{option} needs a file with named columns (.csv, .parquet); {Path(source).name} has none. "
                "Leave the option out; its rows are numbered from 0."
            )

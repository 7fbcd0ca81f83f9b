"""Rows as people have them, for every command that reads data: --text, --images, --as, --drop, --keep-empty.

Numbers in all columns are used as they are. Everything else goes through a
:class:`~spherepair.encoders.TableEncoder`, which is saved with the model: ``predict`` needs no options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from spherepair.cli.terminal import Terminal, column_options
from spherepair.encoders import TableEncoder, pack_encoder
from spherepair.encoders.table import parse_kinds
from spherepair.encoders.table_columns import is_mixed
from spherepair.errors import InvalidDataError, InvalidParameterError, UnusableColumnsError, listed, quoted
from spherepair.estimators.job import takes_raw_rows
from spherepair.files.columns import CSV_SUFFIXES, text_array
from spherepair.files.csv_files import is_text
from spherepair.files.data_sets import Needs, open_data_file
from spherepair.files.data_tables import (
    Table,
    column_names,
    is_picture_folder,
    read_table,
    split_names,
)
from spherepair.files.joined_columns import N_OPENED
from spherepair.files.pictures import FILE_COLUMN, picture_files
from spherepair.files.places import (
    DATA_SET_SUFFIXES,
    Source,
    data_set_files,
    find_files,
    is_many,
    local_path,
)
from spherepair.files.untrusted import SourceFile
from spherepair.scale.row_samples import SAMPLE_ROWS, Sample, choose_sample, count_rows, draw_sample

#: Kinds that are read as text, whatever the values look like.
TEXT_KINDS = ("category", "boolean", "date", "text", "image", "words")
#: As the name of a column of pictures: the folder that is read is one of pictures.
FOLDER_ITSELF = "."
#: Columns that are listed with what was made of them, at most.
SHOWN_COLUMNS = 60
_T = TypeVar("_T")


@dataclass(frozen=True)
class ColumnChoice:
    """What the options say about the columns.

    Attributes
    ----------
    kinds : dict of str to str
        Kind of each column that was named.
    drop : tuple of str
    only_named : bool
        Whether only the columns that were named are features.
    keep_empty : bool
        Whether empty texts and unreadable pictures are kept as rows.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    only_named: bool = False
    keep_empty: bool = False

    @classmethod
    def of(
        cls,
        *,
        text: Sequence[str] | None = None,
        images: Sequence[str] | None = None,
        as_: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        keep_empty: bool = False,
    ) -> ColumnChoice:
        """The choice that a command was given.

        Examples
        --------
        >>> ColumnChoice.of(text=["message"], as_=["category:zip"]).kinds
        {'zip': 'category', 'message': 'text'}
        """
        kinds = parse_kinds(list(as_ or ()))
        kinds |= dict.fromkeys(text or (), "text") | dict.fromkeys(images or (), "image")
        return cls(kinds, tuple(drop or ()), bool(text or images), keep_empty)

    def as_options(self) -> list[str]:
        """The options that give this choice, for a command to run next.

        Examples
        --------
        >>> ColumnChoice.of(text=["message"], drop=["a,b"]).as_options()
        ['--text', 'message', '--drop', 'a,b']
        """
        words = {"text": "--text", "image": "--images"} if self.only_named else {}
        found = [
            part
            for name, kind in self.kinds.items()
            for part in ((words[kind], name) if kind in words else ("--as", f"{kind}:{name}"))
        ]
        found += [part for name in self.drop for part in ("--drop", name)]
        return [*found, "--keep-empty"] if self.keep_empty else found

    def for_data(self, data: Source) -> ColumnChoice:
        """The choice with the name of the only column of a folder of pictures; wrong names are refused."""
        if is_picture_folder(data):
            return replace(self, kinds={FILE_COLUMN: "image"}, drop=(), only_named=True)
        if not (names := column_names(data)):
            if self.kinds:
                raise InvalidParameterError(
                    "--text, --images and --as need a file with named columns (.csv, .parquet, .xlsx); "
                    f"{Path(data).name} has none."
                )
            return self
        unknown = [name for name in (*self.kinds, *split_names(self.drop, names)) if name not in names]
        if unknown:
            if self.kinds.get(FOLDER_ITSELF) == "image":
                refuse_stray_rows(data)
            lacking = listed(list(dict.fromkeys(unknown)))
            raise InvalidDataError(f"{data} has no column {lacking}; it has {listed(names)}.")
        return self


def read_raw(
    data: Source, choice: ColumnChoice, *, id_column: str | None
) -> tuple[Table, TableEncoder | None]:
    """The rows of a file or of many, and an encoder not fitted yet where they are more than numbers."""
    choice = choice.for_data(data)
    kept = list(choice.kinds) if choice.only_named else None
    table = read_table(
        data,
        id_column=id_column,
        drop=choice.drop if kept is None else (),
        features=kept,
        mixed=True,
        text=[name for name, kind in choice.kinds.items() if kind in TEXT_KINDS],
        pictures=[name for name, kind in choice.kinds.items() if kind == "image"],
    )
    if not choice.kinds and not (hasattr(table.X, "schema") and is_mixed(table.X)):
        return table, None
    return table, TableEncoder(choice.kinds or None, keep_empty=choice.keep_empty)


def read_rows_for(model: Any, data: Source, *, id_column: str | None, drop: Sequence[str]) -> Table:
    """Read rows with the columns of the fit; other columns of the file are ignored."""
    if takes_raw_rows(model):
        encoder = model.encoder_
        if not hasattr(encoder, "used_columns"):  # of texts or pictures alone, fitted in Python
            return read_table(data, id_column=id_column, drop=drop, mixed=True)
        return read_table(
            data,
            id_column=id_column,
            drop=drop,
            features=encoder.used_columns(),
            mixed=True,
            text=[name for kind in TEXT_KINDS for name in encoder.used_columns(kind)],
            pictures=encoder.used_columns("image"),
        )
    names = getattr(model, "feature_names_in_", None)
    return read_table(
        data,
        id_column=id_column,
        drop=drop,
        features=None if names is None else [str(name) for name in names],
        n_features=model.n_features_in_,
    )


def encode(table: Table, encoder: TableEncoder, terminal: Terminal) -> Table:
    """The rows as numbers; what was made of each column is said, one line each."""
    with terminal.progress_bar("encoding") as bar:
        encoder.set_params(progress=lambda done, total: bar.show("encoding", done, total=total))
        rows = located(table, lambda: encoder.fit_transform(table.X))
        encoder.set_params(progress="auto")
    for plan in encoder.plans_:
        for step in plan.steps:
            if hasattr(step, "progress"):  # a bar cannot be saved with the model
                step.set_params(progress="auto")
    pack_encoder(encoder)  # what cannot be saved is refused before the training
    lines = encoder.describe().splitlines()
    for line in lines[:SHOWN_COLUMNS]:
        terminal.note(column_options(line))
    if len(lines) > SHOWN_COLUMNS:
        terminal.note(f"and {len(lines) - SHOWN_COLUMNS} more columns")
    return replace(table, X=rows, names=tuple(encoder.get_feature_names_out()), raw=table.X)


def refuse_stray_rows(data: Source) -> None:
    """Refuse a folder of pictures in which a file of rows lies, so that it is read as rows."""
    folder = Path(local_path(data))
    if not folder.is_dir() or not (rows := data_set_files(folder)):
        return
    try:
        picture_files(folder)
    except InvalidDataError:
        return
    raise InvalidDataError(
        f"{folder} holds pictures, but also rows ({quoted(rows[0].name)}), and only these would be read; "
        "move one kind to another folder."
    )


def located(table: Table, work: Callable[[], _T]) -> _T:
    """Do something with the rows; what is wrong with columns is said with lines and IDs of the file."""
    try:
        return work()
    except UnusableColumnsError as error:
        raise UnusableColumnsError(error.problems, table.locate) from error
    except InvalidDataError as error:
        if error.row is None or table.file is None:
            raise
        raise InvalidDataError(f"{error} Row {error.row} is {table.locate(error.row)}.") from error


def is_large(data: str | Sequence[str]) -> bool:
    """Whether a model is trained on a sample: of a data set of many files, and of very many rows."""
    if not isinstance(data, str) or is_many(data):
        return True
    path = Path(data)
    if path.is_dir():
        return bool(data_set_files(path))
    if not path.name.lower().endswith(DATA_SET_SUFFIXES):
        return False
    try:
        if path.suffix.lower() in CSV_SUFFIXES and path.stat().st_size < SAMPLE_ROWS:
            return False  # it would have to be read to be counted, and has not even a byte for each row
        return count_rows(path) > SAMPLE_ROWS
    except (InvalidDataError, OSError):
        return False  # its reader will refuse it


def trust_weights(model: Any, encoder: TableEncoder | None) -> None:
    """Leave encoded rows as they are, unless a scaling was asked for: the encoder has weighed the columns."""
    if encoder is not None and model.scaling == "auto":
        model.set_params(scaling="none")


@dataclass(frozen=True)
class SampleInputs:
    """Where the rows and pairs of a fit on a sample come from."""

    data: str | Sequence[str]
    constraints: Path | None
    choice: ColumnChoice
    id_column: str | None
    seed: int

    def needs(self) -> Needs:
        """What is read of every file."""
        kinds = self.choice.kinds
        if kinds.get(FOLDER_ITSELF) == "image" and isinstance(self.data, str):
            refuse_stray_rows(self.data)
        needs = Needs(
            features=tuple(kinds) if self.choice.only_named else None,
            id_column=self.id_column,
            drop=tuple(self.choice.drop),
            text=tuple(name for name, kind in kinds.items() if kind in TEXT_KINDS),
            pictures=tuple(name for name, kind in kinds.items() if kind == "image"),
        )
        if self.choice.only_named:
            return replace(needs, mixed=True)
        with ThreadPoolExecutor(N_OPENED) as pool:
            # All files: a column of words may be empty in the first one.
            found = list(pool.map(lambda file: _find_words(file, needs), find_files(self.data)))
        texts = [name for _, names in found for name in names if name not in kinds]
        is_mixed = bool(kinds) or any(has_words for has_words, _ in found)
        return replace(needs, mixed=is_mixed, text=(*needs.text, *dict.fromkeys(texts)))


def _find_words(file: SourceFile, needs: Needs) -> tuple[bool, list[str]]:
    """Whether a file holds more than numbers, and its columns of texts."""
    opened = open_data_file(file)
    return opened.has_words(needs), [field.name for field in opened.fields(needs) if is_text(field.type)]


def read_sample(
    inputs: SampleInputs, size: int | str, model: Any, terminal: Terminal
) -> tuple[Sample, Any, TableEncoder | None]:
    """Rows in pairs and others drawn at random of a data set, encoded where they are more than numbers.

    Returns the sample, its rows as they were read, and the encoder. With the size "auto" pairs choose it.
    """
    with terminal.spinner(f"reading {inputs.data if isinstance(inputs.data, str) else listed(inputs.data)}"):
        n_sample, needs = SAMPLE_ROWS if isinstance(size, str) else size, inputs.needs()
        sample = draw_sample(
            inputs.data, inputs.constraints, needs=needs, n_sample=n_sample, seed=inputs.seed
        )
    raw, encoder = sample.X, None
    if needs.mixed:
        encoder = TableEncoder(inputs.choice.kinds or None, keep_empty=inputs.choice.keep_empty)
        table = Table(raw, None if inputs.id_column is None else sample.ids)
        sample = replace(sample, X=encode(table, encoder, terminal).X)
        trust_weights(model, encoder)
    if isinstance(size, str):
        with terminal.spinner("choosing the size of the sample"):
            chosen = choose_sample(model, sample, seed=inputs.seed)
        sample, raw = chosen.sample, raw.take(chosen.kept) if needs.mixed else chosen.sample.X
        terminal.note(chosen.sentence())
    said = f"{sample.n_rows:,} rows, {len(sample.pairs):,} pairs; trained on {len(sample.X):,} rows"
    terminal.note(f"{said}: those in pairs, and others drawn at random")
    return sample, raw, encoder


def joined_tables(table: Table, further: Table, *, n_known: int, data: Source) -> Table:
    """The rows of the fit, followed by those of another file or of many."""
    if table.n_rows != n_known:
        raise InvalidDataError(
            f"{data} has {table.n_rows} rows, but the model was fitted on {n_known}; with --new it must hold "
            "exactly these."
        )
    X: Any
    if hasattr(table.X, "schema"):
        import pyarrow as pa

        X = pa.concat_tables([table.X, further.X], promote_options="permissive")
    else:
        parts = (table.X, further.X)
        X = sparse.vstack(parts, format="csr") if sparse.issparse(table.X) else np.concatenate(parts)
    ids = None if table.ids is None else [*table.ids.to_pylist(), *further.ids.to_pylist()]
    return replace(table, X=X, ids=None if ids is None else text_array(ids), file=None)

"""The rows of a project: read from what people bring, kept as parquet, shown one by one from a memory map.

rows.parquet     all columns, as they were
rows.arrow       the same, uncompressed, so that any row can be read without the others
pictures.bin     pictures one after the other; pictures.npy says where each begins
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spherepair.errors import InvalidDataError, quoted
from spherepair.files import atomic_write
from spherepair.files.columns import TABLE_SUFFIXES, ColumnFile, open_columns
from spherepair.files.csv_files import is_text
from spherepair.files.joined_columns import open_joined
from spherepair.files.pictures import unzip_pictures
from spherepair.files.places import data_set_files, local_path
from spherepair.files.untrusted import FilePlace, refuse_above

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
ID_NAMES = ("id", "key", "uuid")
#: Texts of this length on average are taken for what the rows are about.
LONG_TEXT = 15.0
#: What a zip may hold when unpacked.
MOST_UNPACKED = 4 * 2**30
#: Rows of a project: each is shown, drawn and searched. The labels of more are predicted from its model.
MOST_ROWS = 5_000_000
_ROWS_OF_A_PROJECT = "rows (label a sample of them, and let spherepair predict do the rest)"
_SAMPLE = 1000
ROWS, SHOWN_ROWS, PICTURES, PICTURE_ENDS = "rows.parquet", "rows.arrow", "pictures.bin", "pictures.npy"
#: Formats that browsers show and that cannot hold a script.
PICTURE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
#: Letters of a text on a card, and of one that is asked for whole; of one value; columns on a card.
CUT_TEXT, WHOLE_TEXT, CUT_VALUE, MOST_FIELDS = 2_000, 200_000, 200, 30
#: Pixels of one picture.
MOST_PIXELS = 50_000_000


@dataclass(frozen=True)
class Layout:
    """Which column is what.

    Attributes
    ----------
    kind : {"text", "image", "table"}
    text, images, id : str or None
        Names of columns.
    """

    kind: Literal["text", "image", "table"]
    text: str | None = None
    images: str | None = None
    id: str | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A file, many or a folder that was read.

    Attributes
    ----------
    table : Arrow table
    pictures : list of bytes or None
        One for each row, where the file itself holds pictures.
    folders : list of (Path or None, int), or None
        Where paths in a column begin, for so many rows each; ``None`` for rows elsewhere, and at all for what
        came over the network: they are never opened.
    """

    table: pa.Table
    pictures: list[bytes] | None = None
    folders: list[tuple[Path | None, int]] | None = None


def read_source(source: Path | str, *, text: Sequence[str] = (), trusted: bool = True) -> Source:
    """Read a csv, json lines or parquet file, many of them, a folder of pictures or a zip of them.

    Parameters
    ----------
    source : path or str
        A file or, if `trusted`, a folder, glob or URI.
    text : sequence of str
        Columns to be read as text, such as IDs.
    trusted : bool
        Whether the user of this machine gave the path; what came over the network opens no other file.
    """
    if trusted and (found := data_set_files(source)):
        return _read_columns(open_joined(found, str(source), open_one=_open), text, trusted=True)
    path = Path(local_path(source))
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.suffix.lower() in PICTURE_SUFFIXES and f.is_file())
        names = [f.relative_to(path).as_posix() for f in files]
        return _pictures(path.name, names, [f.read_bytes() for f in files])
    if path.suffix.lower() == ".zip":
        unpack = partial(unzip_pictures, most_bytes=MOST_UNPACKED, fail=partial(_error, path))
        return _pictures(path.name, *unpack(path, PICTURE_SUFFIXES))
    return _read_columns(_open(path), text, trusted=trusted)


def _open(path: FilePlace) -> ColumnFile:
    return open_columns(path, suffixes=(*TABLE_SUFFIXES, ".zip"), fail=partial(_error, path))


def _read_columns(file: ColumnFile, text: Sequence[str], *, trusted: bool) -> Source:
    refuse_above(file.n_rows or 0, MOST_ROWS, _ROWS_OF_A_PROJECT, file.fail)
    for part in file.parts:
        if repeated := {name for name in part.names if part.names.count(name) > 1}:
            raise part.fail(f"has column {quoted(min(repeated))} more than once; rename one.")
    # An ID such as 007 must stay what it is.
    as_text = [name for name in file.names if name in text or name.lower() in ID_NAMES]
    try:
        table = file.read(file.names, text=as_text)
    except UnicodeEncodeError as error:
        raise file.fail("holds what is no text (half a character); mend it.") from error
    except InvalidDataError as error:
        if "block boundaries" not in str(error) or file.parts[0] is not file:
            raise
        table = _read_long_records(file.path, as_text)
    refuse_above(table.num_rows, MOST_ROWS, _ROWS_OF_A_PROJECT, file.fail)
    if not table.num_rows:
        raise file.fail("has no rows.")
    folders = [(part.path.parent if part.is_local else None, len(rows)) for part, rows in file.split(table)]
    return Source(_wide_texts(table), folders=folders if trusted else None)


def suggest_layout(
    source: Source,
    *,
    text: str | None = None,
    images: str | None = None,
    id_column: str | None = None,
    guess: bool = True,
) -> Layout:
    """What was asked for; else, as guesses, the longest texts, picture files, a column called id."""
    table = source.table
    for name in (text, images, id_column):
        if name is not None and name not in table.column_names:
            raise InvalidDataError(
                f"there is no column {quoted(name)}; there are {', '.join(table.column_names[:20])}."
            )
    if source.pictures is not None:
        return Layout("image", id=id_column or table.column_names[0])
    sample = table.slice(0, _SAMPLE)
    if guess and id_column is None:
        id_column = next((name for name in table.column_names if name.lower() in ID_NAMES), None)
    words = [name for name in sample.column_names if is_text(sample[name].type) and name != id_column]
    if guess and images is None and text is None:
        images = next((name for name in words if _are_pictures(sample[name])), None)
    if images is not None:
        return Layout("image", images=images, id=id_column)
    if guess and text is None:
        lengths = {name: pc.mean(pc.utf8_length(sample[name])).as_py() or 0.0 for name in words}
        longest = max(lengths, key=lambda name: lengths[name], default=None)
        text = longest if longest is not None and lengths[longest] >= LONG_TEXT else None
    return Layout("text" if text is not None else "table", text=text, id=id_column)


def column_kinds(table: pa.Table) -> dict[str, str]:
    """``"text"``, ``"picture"``, ``"number"`` or ``"other"`` for each column."""
    sample = table.slice(0, _SAMPLE)
    return {name: _kind(sample[name]) for name in sample.column_names}


def _read_long_records(path: Path, text: Sequence[str]) -> pa.Table:
    """A csv file with records of megabytes, which have to fit into one block of the parser."""
    import pyarrow.csv as pa_csv

    return pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(block_size=min(path.stat().st_size + 1, 2**30)),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string())),
    )


def _error(path: FilePlace, why: str) -> InvalidDataError:
    return InvalidDataError(f"{path.name} {why}")


def _pictures(name: str, names: list[str], contents: list[bytes]) -> Source:
    if not contents:
        raise InvalidDataError(f"{name} holds no pictures (png, jpeg, gif, webp).")
    return Source(pa.table({"file": pa.array(names, pa.large_string())}), contents)


def _wide_texts(table: pa.Table) -> pa.Table:
    """Texts with wide offsets: a column may hold more than 2 GB."""
    wide = (f.with_type(pa.large_string()) if is_text(f.type) else f for f in table.schema)
    return table.cast(pa.schema(list(wide)))


def _kind(column: Any) -> str:
    if is_text(column.type):
        return "picture" if _are_pictures(column) else "text"
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return "number" if is_number or pa.types.is_boolean(column.type) else "other"


def _are_pictures(column: Any) -> bool:
    ending = "(?i)\\.(" + "|".join(suffix[1:] for suffix in PICTURE_SUFFIXES) + ")$"
    return bool(len(column)) and bool(pc.all(pc.match_substring_regex(column, ending)).as_py())


def store_rows(folder: Path, source: Source, layout: Layout) -> None:
    """Write the rows, and the pictures where there are any."""
    repeating = [f.name for f in source.table.schema if not pa.types.is_floating(f.type)]
    with atomic_write(folder / ROWS) as temporary:
        pq.write_table(source.table, temporary, use_dictionary=repeating)
    _write_shown(folder, source.table)
    pictures = source.pictures if layout.images is None else _read_pictures(source, layout.images)
    if layout.kind != "image" or pictures is None:
        return
    for row, content in enumerate(pictures):
        picture_type(content, row)
    ends = np.cumsum([0, *(len(content) for content in pictures)], dtype=np.int64)
    with atomic_write(folder / PICTURES) as temporary, temporary.open("wb") as file:
        file.writelines(pictures)
    with atomic_write(folder / PICTURE_ENDS, suffix=".npy") as temporary:
        np.save(temporary, ends)


def picture_type(content: bytes | memoryview, row: int) -> str:
    """The content type of a picture, from what it is, not from its name."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=tuple(PICTURE_TYPES)) as picture:
            if picture.width * picture.height <= MOST_PIXELS:
                return PICTURE_TYPES[str(picture.format)]
    except (OSError, ValueError, Image.DecompressionBombError):
        pass
    raise InvalidDataError(
        f"the picture of row {row} (counting from 0) is no png, jpeg, gif or webp of at most "
        f"{MOST_PIXELS // 10**6} million pixels."
    )


class Rows:
    """Rows as people see them.

    Parameters
    ----------
    folder : Path
    layout : Layout
    table : Arrow table, optional
    """

    def __init__(self, folder: Path, layout: Layout, table: pa.Table | None = None) -> None:
        self.folder, self.layout = folder, layout
        if table is None:
            if not (folder / SHOWN_ROWS).exists():
                _write_shown(folder, pq.read_table(folder / ROWS))
            table = pa.ipc.open_file(pa.memory_map(str(folder / SHOWN_ROWS))).read_all()
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(self.table.column_names)

    def id(self, row: int) -> str:
        """The ID of a row, or its number."""
        return str(row) if self.layout.id is None else _as_text(self.table[self.layout.id][row])

    def ids(self) -> Any:
        """The IDs of all rows as texts."""
        if self.layout.id is None:
            return pc.cast(pa.array(np.arange(len(self))), pa.string())
        return _texts(self.table[self.layout.id])

    def texts(self) -> Any:
        """The texts of all rows, empty where there is none."""
        if self.layout.text is None:
            raise InvalidDataError("the rows have no texts.")
        return pc.fill_null(_texts(self.table[self.layout.text]), "")

    def item(self, row: int, *, url: str, whole: bool = False) -> dict[str, Any]:
        """A row as the page gets it.

        Parameters
        ----------
        row : int
        url : str
            Where pictures are served.
        whole : bool
            Whether long texts are wanted whole.
        """
        longest, value_length = (WHOLE_TEXT, WHOLE_TEXT) if whole else (CUT_TEXT, CUT_VALUE)
        layout = self.layout
        text = None if layout.text is None else _as_text(self.table[layout.text][row])
        names = [name for name in self.columns if name not in (layout.text, layout.id, layout.images)]
        values = [(name, _as_text(self.table[name][row])) for name in names[:MOST_FIELDS]]
        is_cut = len(names) > MOST_FIELDS or len(text or "") > longest
        return {
            "row": row,
            "id": self.id(row)[:CUT_VALUE],
            "text": None if text is None else text[:longest],
            "image": f"{url}/{row}" if layout.kind == "image" else None,
            "fields": [(name, value[:value_length]) for name, value in values],
            "cut": is_cut or any(len(value) > value_length for _, value in values),
        }

    def search(self, words: str, limit: int) -> list[int]:
        """Rows whose texts, values or IDs hold the words, in any case; the first ones."""
        texts = [name for name in self.columns if is_text(self.table[name].type)]
        found: list[int] = []
        start = 0
        for batch in self.table.select(texts or self.columns).to_batches(max_chunksize=50_000):
            hit = np.zeros(batch.num_rows, dtype=bool)
            for column in batch.columns:
                match = pc.match_substring(_texts(column), words, ignore_case=True)
                hit |= pc.fill_null(match, False).to_numpy(zero_copy_only=False)
            found += (start + np.flatnonzero(hit)).tolist()
            start += batch.num_rows
            if len(found) >= limit:
                break
        return found[:limit]

    def picture(self, row: int) -> memoryview:
        """The content of a picture."""
        start, end = self._picture_ends[row : row + 2]
        return self._picture_bytes[start:end]

    @cached_property
    def _picture_ends(self) -> NDArray[np.int64]:
        ends: NDArray[np.int64] = np.load(self.folder / PICTURE_ENDS, mmap_mode="r", allow_pickle=False)
        return ends

    @cached_property
    def _picture_bytes(self) -> memoryview:
        return memoryview(np.memmap(self.folder / PICTURES, dtype=np.uint8, mode="r"))  # type: ignore[arg-type]


def _read_pictures(source: Source, column: str) -> list[bytes]:
    """Pictures at the paths of a column; paths that came over the network are not opened."""
    if source.folders is None:
        raise InvalidDataError(
            "pictures named in a column are read at the command line only: "
            "spherepair label FILE --images COLUMN; upload a zip of pictures instead."
        )
    folders = [folder for folder, n_rows in source.folders for _ in range(n_rows)]
    contents: list[bytes] = []
    for row, (folder, name) in enumerate(zip(folders, source.table[column].to_pylist(), strict=True)):
        if folder is None:
            raise InvalidDataError(
                "the rows are not on this machine, so pictures that they name are not read."
            )
        try:
            contents.append((folder / str(name)).read_bytes())
        except OSError as error:
            raise InvalidDataError(
                f"row {row} (counting from 0): the picture {quoted(name)} cannot be read ({error.strerror})."
            ) from error
    return contents


def _write_shown(folder: Path, table: pa.Table) -> None:
    with (
        atomic_write(folder / SHOWN_ROWS) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=50_000)


def _texts(column: Any) -> Any:
    if is_text(column.type):
        return column
    try:
        return pc.cast(column, pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists and objects, which Arrow does not write
        return pa.array([_as_text(value) for value in column], pa.large_string())


def _as_text(value: Any) -> str:
    plain = value.as_py()
    if plain is None:
        return ""
    if isinstance(plain, float):
        return f"{plain:.0f}" if plain.is_integer() and abs(plain) < 1e15 else f"{plain:.6g}"
    return str(plain)

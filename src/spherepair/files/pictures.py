"""Pictures: folders of them, zips of them, and names of files in a column."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from spherepair.errors import InvalidDataError, quoted
from spherepair.files.untrusted import Fail, decoding

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
#: Name of the only column of a folder of pictures.
FILE_COLUMN = "file"
#: Of so many names of pictures some must be there.
MANY_PICTURES = 10


def picture_files(folder: Path) -> list[Path]:
    """All picture files of a folder and of the folders inside, sorted by name."""
    files = (file for file in folder.rglob("*") if file.suffix.lower() in PICTURE_SUFFIXES)
    found = sorted(file for file in files if not file.name.startswith(".") and file.is_file())
    if not found:
        endings = ", ".join(PICTURE_SUFFIXES)
        raise InvalidDataError(f"{folder} is a folder without pictures; their names must end in {endings}.")
    return found


def locate_pictures(table: Any, names: Sequence[str], folder: Path | None, data: object) -> Any:
    """An Arrow table with full paths in its columns of pictures; those that hold the contents stay.

    Where none of many names is there, the folder is wrong; a few are left to the encoder, which names them.

    Parameters
    ----------
    table : Arrow table
    names : sequence of str
        Columns of pictures; their files are named from `folder`.
    folder : Path or None
        ``None`` for data elsewhere, whose pictures are read only where columns hold their contents.
    data : object
        What the table was read from, for messages.
    """
    import pyarrow as pa

    for name in (name for name in names if not holds_bytes(table[name].type)):
        if folder is None:
            raise InvalidDataError(
                f"{data} is not on this machine, so the pictures that column {name!r} names are not read; "
                "put their contents into the column."
            )
        try:
            told = table[name].cast(pa.string()).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            problem = f"of type {table[name].type} holds neither names nor contents of pictures"
            raise InvalidDataError(f"{data}: column {quoted(name)} {problem}.") from error
        files = [str(folder / file) if file else None for file in told]
        some = [file for file in files if file is not None][:1000]
        if len(some) >= MANY_PICTURES and not any(map(os.path.isfile, some)):
            raise InvalidDataError(
                f"{data}: none of the pictures in column {quoted(name)} is there, such as {quoted(some[0])}; "
                "names are taken from the folder of the data."
            )
        table = table.set_column(table.column_names.index(name), name, pa.array(files, pa.string()))
    return table


def holds_bytes(kind: Any) -> bool:
    """Whether an Arrow type is one of bytes, such as the contents of pictures."""
    import pyarrow.types as kinds

    is_kind = (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary, kinds.is_binary_view)
    return any(is_one(kind) for is_one in is_kind)


def unzip_pictures(
    path: Path, suffixes: Sequence[str], *, most_bytes: int, fail: Fail
) -> tuple[list[str], list[bytes]]:
    """Names and contents of the pictures in a zip.

    Parameters
    ----------
    path : Path
    suffixes : sequence of str
        Endings of the pictures that are taken.
    most_bytes : int
        What they may unpack to.
    fail : callable
        Makes the error to raise of what is wrong with the file.
    """
    with decoding("a zip", fail), zipfile.ZipFile(path) as archive:
        places = ((PurePosixPath(file.filename), file) for file in archive.infolist())
        files = [f for p, f in places if p.suffix.lower() in suffixes and p.name[0] != "."]
        if sum(file.file_size for file in files) > most_bytes:
            raise fail(f"unpacks to more than {most_bytes // 2**30} GiB; split it.")
        return [file.filename for file in files], list(_unpack(archive, files, fail))


def _unpack(archive: zipfile.ZipFile, files: Sequence[zipfile.ZipInfo], fail: Fail) -> Iterator[bytes]:
    for file in files:
        with archive.open(file) as stream:
            content = stream.read(file.file_size + 1)
        if len(content) > file.file_size:  # the sizes in a zip may lie
            raise fail(f"is damaged: {quoted(file.filename)} is larger than it says.")
        yield content

"""Places where data sets lie: paths, folders, globs and URIs such as ``s3://bucket/rows/*.parquet``.

pyarrow's own file systems read and write all of them; ``pathlib`` would make ``s3:/`` of ``s3://``.
"""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spherepair.errors import InvalidDataError, InvalidParameterError, quoted
from spherepair.files import atomic_write
from spherepair.files.arrow_rows import is_stream
from spherepair.files.columns import CSV_SUFFIXES, PARQUET_SUFFIXES, require_pyarrow
from spherepair.files.pictures import picture_files
from spherepair.files.untrusted import SourceFile, is_local

#: A path, a folder, a glob or a URI.
Source = str | os.PathLike[str]
#: Endings of the files of a data set.
DATA_SET_SUFFIXES = (*PARQUET_SUFFIXES, *CSV_SUFFIXES, ".npy")
_GLOB_MARKS = "*?["
#: How the URI of a file of this machine begins; pathlib makes ``file:/rows`` of ``file:///rows``.
_LOCAL = "file:/"
#: Names that begin so are temporary files or files of other programs, not data.
_HIDDEN = (".", "_")


def is_uri(source: Any) -> bool:
    """Whether this names a place by its scheme.

    Examples
    --------
    >>> is_uri("s3://bucket/rows"), is_uri("C:/rows"), is_uri(Path("rows"))
    (True, False, False)
    """
    return isinstance(source, str) and ("://" in source or source.startswith(_LOCAL))


def is_many(source: Any) -> bool:
    """Whether this may name more than one file: a glob, a URI or several sources."""
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        return is_uri(text) or len(_split_at_glob(text, os.path.exists)) > 1
    return True


def local_path(source: str | os.PathLike[str]) -> str:
    """The path that a URI of this machine stands for; other sources stay as they are.

    Examples
    --------
    >>> local_path("file:///data/rows"), local_path("rows"), local_path("s3://bucket/rows")
    ('/data/rows', 'rows', 's3://bucket/rows')
    """
    text = os.fspath(source)
    return find_place(text)[1] if text.startswith(_LOCAL) else text


def find_place(source: str | os.PathLike[str]) -> tuple[Any, str]:
    """File system and path of a source; what a URI needs to be opened is left to pyarrow."""
    from pyarrow import ArrowInvalid, fs

    text = os.fspath(source)
    if not is_uri(text):
        return fs.LocalFileSystem(), Path(text).absolute().as_posix()
    place, mark, options = text.partition("?")  # such as ?region=eu-west-1
    root, *rest = _split_at_glob(place)
    try:
        filesystem, path = fs.FileSystem.from_uri(f"{root}{mark}{options}")
    except (ArrowInvalid, NotImplementedError, OSError) as error:
        raise InvalidDataError(f"{text} cannot be opened ({_reason(error)}); check its address.") from error
    rest = list(map(unquote, rest)) if text.startswith(_LOCAL) else rest
    return filesystem, posixpath.join(path, *rest)


def find_files(source: Any) -> list[SourceFile]:
    """Files of a data set in the order of their rows.

    Parameters
    ----------
    source : path, URI, glob, folder, or a sequence of these
        The files of a folder and of the folders inside, or of a glob, are sorted by name; names that begin
        with a dot or an underscore are left out. A file that links lead to again is there once, under the
        name in the fewest folders. Several sources keep their order.
    """
    sources = list_sources(source)
    found = [file for one in sources for file in _files_of(one)]
    told = ", ".join(map(str, sources)) or "the list of files"
    if not found:
        raise InvalidDataError(
            f"{told} holds no data; a file of rows ends in {', '.join(DATA_SET_SUFFIXES)}."
        )
    if len(set(_real_paths(found))) < len(found):
        raise InvalidDataError(f"{told}: a file is named more than once; its rows would be there twice.")
    return found if len(sources) == 1 else _named_from_common_root(found)


def data_set_files(source: Source) -> list[SourceFile]:
    """The files of a folder, glob or URI; none of one file of this machine or of a folder of pictures."""
    path = local_path(source)
    if is_many(path):
        return find_files(path)
    if not os.path.isdir(path):
        return []
    try:
        return find_files(path)
    except InvalidDataError as no_rows:
        try:
            picture_files(Path(path))
        except InvalidDataError:
            raise InvalidDataError(
                f"{path} holds neither rows ({', '.join(DATA_SET_SUFFIXES)}) nor pictures."
            ) from no_rows
        return []


def list_sources(source: Any) -> list[str | os.PathLike[str]]:
    """The sources of a data set, which may be one."""
    require_pyarrow(Path("the data set"))
    if is_stream(source):
        raise InvalidDataError(
            "a stream of batches can be read only once; give it to predict, transform or fit of "
            "spherepair.scale, or to predict of the model."
        )
    if isinstance(source, Mapping) or len(getattr(source, "shape", (1,))) != 1:
        raise InvalidDataError(
            "a table in memory has no parts; give it to predict of the model, or to "
            "spherepair.scale.predict_fn."
        )
    is_one = isinstance(source, str | os.PathLike) or not isinstance(source, Iterable)
    sources = [source] if is_one else list(source)
    for one in sources:
        if not isinstance(one, str | os.PathLike):
            raise InvalidDataError(
                f"a data set is a path, folder, glob or URI, or a list of these, got {quoted(one)} instead."
            )
    return sources


def find_reread(source: Any, out: OutputFolder, *, rename: Callable[[str], str]) -> str | None:
    """An output that is an input, or would be read as part of the data set the next time, if there is one.

    Parameters
    ----------
    source : path, URI, glob, folder, or a sequence of these
    out : OutputFolder
    rename : callable
        Gives the name of an output for that of a file of the data set.
    """
    sources = list_sources(source)
    reached = [found for one in sources for found in _reach(one, out)]
    files, (filesystem, folder) = find_files(sources), find_place(out.source)
    taken = set(_real_paths([file for file in files if file.filesystem == filesystem]))
    names = [rename(file.name) for file in files]
    outputs = [SourceFile(posixpath.join(folder, name), name, 0, 0, filesystem) for name in names]
    for name, path in zip(names, _real_paths(outputs), strict=True):
        if path in taken or any(_is_read(posixpath.join(inner, name), pattern) for inner, pattern in reached):
            return name
    return None


def refuse_overwritten(path: Path, source: Source) -> None:
    """Refuse an output that is an input, or that would be read as part of it the next time."""
    given = local_path(source)
    if is_uri(given):
        return
    if path.exists() and os.path.exists(given) and os.path.samefile(path, given):
        raise InvalidParameterError(f"{path} is also an input; choose another name for the output.")
    if (is_many(given) or os.path.isdir(given)) and _is_part(path, given):
        raise InvalidParameterError(
            f"{path} is inside the data that is read, so it would be read as rows the next time; choose "
            "another place."
        )


def _is_part(path: Path, source: str) -> bool:
    """Whether a file at this path is read with a folder or glob."""
    require_pyarrow(Path("the data set"))
    reached = _reach(source, OutputFolder(str(path.parent)))
    return any(_is_read(posixpath.join(inner, path.name), pattern) for inner, pattern in reached)


def _is_read(path: str, pattern: Sequence[str]) -> bool:
    path = posixpath.normpath(path)
    return _is_data(path) and _matches(path.split("/"), pattern)


def _reach(source: Any, out: OutputFolder) -> list[tuple[str, list[str]]]:
    """Where the outputs lie below what a source looks through, and the pattern of what it reads there."""
    from pyarrow import fs

    (filesystem, path), (other, target) = find_place(source), find_place(out.source)
    if filesystem != other:
        return []
    is_folder = filesystem.get_file_info(path).type == fs.FileType.Directory
    root, pattern = _look_through(path, filesystem, is_folder=is_folder)
    # A link is followed both when outputs are written and when a data set is listed.
    pairs = [(target, root)]
    if is_local(filesystem):
        pairs.append((os.path.realpath(target), os.path.realpath(root)))
    inner = [posixpath.relpath(*pair) for pair in pairs]
    return [(place, pattern) for place in inner if place.split("/")[0] != ".."]


def _look_through(path: str, filesystem: Any, *, is_folder: bool) -> tuple[str, list[str]]:
    """The folder that is listed for a folder or glob, and the pattern of the paths that are read."""
    if is_folder:
        return path, ["**", "*"]
    root, *pattern = _split_at_glob(path, os.path.exists if is_local(filesystem) else None)
    return root, pattern


def _files_of(source: Any) -> list[SourceFile]:
    from pyarrow import fs

    filesystem, path = find_place(source)
    try:
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.File:
            return [_file(info, posixpath.dirname(path), filesystem, source)]
        root, pattern = _look_through(path, filesystem, is_folder=info.type == fs.FileType.Directory)
        if not pattern:
            raise InvalidDataError(f"{source} does not exist; check the path.")
        listed = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
    except OSError as error:
        raise InvalidDataError(f"{source} cannot be listed ({_reason(error)}).") from error
    files = [_file(entry, root, filesystem, source) for entry in listed if entry.type == fs.FileType.File]
    kept = [file for file in files if _is_data(file.name) and _matches(file.name.split("/"), pattern)]
    kept.sort(key=lambda file: (file.name.count("/"), file.name), reverse=True)
    once = dict(zip(_real_paths(kept), kept, strict=True))  # of each file the last, in the fewest folders
    return sorted(once.values(), key=lambda file: file.name)


def _real_paths(files: Sequence[SourceFile]) -> list[str]:
    """Where files lie, links followed on this machine."""
    folders = {posixpath.dirname(file.path) for file in files if file.is_local}
    real = {folder: os.path.realpath(folder) for folder in folders}  # once for all files of a folder

    def real_path(file: SourceFile) -> str:
        if file.is_local and os.path.islink(file.path):
            return os.path.realpath(file.path)
        folder, name = posixpath.split(file.path)
        return posixpath.join(real.get(folder, folder), name)

    return list(map(real_path, files))


def _file(info: Any, root: str, filesystem: Any, source: Any) -> SourceFile:
    name = posixpath.relpath(info.path, root) if root else info.path
    scheme = source.partition("://")[0] if is_uri(source) else ""
    return SourceFile(info.path, name, int(info.size or 0), int(info.mtime_ns or 0), filesystem, scheme)


def _is_data(name: str) -> bool:
    is_hidden = any(part.startswith(_HIDDEN) for part in name.split("/"))
    return not is_hidden and name.lower().endswith(DATA_SET_SUFFIXES)


def _split_at_glob(path: str, exists: Callable[[str], bool] | None = None) -> list[str]:
    """A path split before its first segment with a wildcard: the part before, and all further segments.

    As long as the path up to a segment exists as it is, its marks are no wildcards.
    """
    segments = path.split("/")
    for place, part in enumerate(segments):
        before = "/".join(segments[: place + 1])
        if any(mark in part for mark in _GLOB_MARKS) and not (exists is not None and exists(before)):
            return ["/".join(segments[:place]) or "/", *segments[place:]]
    return [path or "/"]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path matches a glob, segment by segment; ``**`` stands for any number of them.

    Examples
    --------
    >>> _matches(["a", "b", "x.csv"], ["**", "*.csv"]), _matches(["a", "x.csv"], ["*.csv"])
    (True, False)
    """
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or _matches(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _named_from_common_root(files: list[SourceFile]) -> list[SourceFile]:
    root = posixpath.commonpath([posixpath.dirname(file.path) for file in files])
    return [replace(file, name=posixpath.relpath(file.path, root)) for file in files]


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


@dataclass(frozen=True)
class OutputFolder:
    """A folder or URI that takes files, each whole or not at all.

    Attributes
    ----------
    source : str
        As the user names it.
    """

    source: str

    @property
    def folder(self) -> Path | None:
        """The folder, if it is one of this machine."""
        path = local_path(self.source)
        return None if is_uri(path) else Path(path)

    def locate(self, name: str) -> tuple[Any, str]:
        """File system and path of a file in it."""
        filesystem, root = find_place(self.source)
        return filesystem, posixpath.join(root, name)

    def names(self) -> set[str]:
        """Files that are there, hidden ones left out."""
        from pyarrow import fs

        filesystem, root = find_place(self.source)
        selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
        files = [entry for entry in filesystem.get_file_info(selector) if entry.type == fs.FileType.File]
        named = (posixpath.relpath(entry.path, root) for entry in files)
        return {name for name in named if not any(part.startswith(".") for part in name.split("/"))}

    @contextmanager
    def write(self, name: str) -> Iterator[Any]:
        """A stream of bytes to a file; the file is there once the block ends without an error."""
        filesystem, path = self.locate(name)
        filesystem.create_dir(posixpath.dirname(path), recursive=True)
        if is_local(filesystem):
            with atomic_write(path) as temporary, temporary.open("wb") as stream:
                yield stream
            return
        temporary_name = posixpath.join(
            posixpath.dirname(path), f".{posixpath.basename(path)}.{secrets.token_hex(4)}.tmp"
        )
        try:
            with filesystem.open_output_stream(temporary_name) as stream:
                yield stream
            filesystem.move(temporary_name, path)
        except BaseException:
            with suppress(OSError):
                filesystem.delete_file(temporary_name)
            raise

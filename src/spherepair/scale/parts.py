"""The parts of a job: a file of rows, or some row groups of a large one, and the file of labels it becomes.

What is there already is known by the metadata of the output: the model, and what the part was read from. A
job that was killed goes on with the parts that are missing; nothing else has to be remembered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.files.columns import PARQUET_SUFFIXES
from spherepair.files.data_sets import DataFile, Needs, group_bounds, open_data_file
from spherepair.files.places import OutputFolder, find_files, find_reread
from spherepair.files.untrusted import SourceFile

#: Files with more rows than this are divided at their row groups.
PART_ROWS = 1_000_000
#: Files opened at a time to read their schema.
N_OPENED = 16
#: Names in the metadata of an output.
MODEL_KEY, INPUT_KEY, COUNTS_KEY = b"spherepair.model", b"spherepair.input", b"spherepair.counts"


@dataclass(frozen=True)
class Part:
    """One input and the output that it becomes.

    Attributes
    ----------
    file : SourceFile
    groups : tuple of int or None
        First row group, and the one after the last; ``None`` for the whole file.
    output : str
        Name of the output, inside the folder of outputs.
    n_rows : int or None
        How many rows there are; ``None`` where only reading will tell.
    n_bytes : int
        Size of the input.
    """

    file: SourceFile
    groups: tuple[int, int] | None
    output: str
    n_rows: int | None
    n_bytes: int

    @property
    def fingerprint(self) -> str:
        """What the part is read from: another size, time or division of the file gives another one."""
        told = (self.file.name, self.file.n_bytes, self.file.modified, self.groups)
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Outcome:
    """What became of a part.

    Attributes
    ----------
    part : Part
    n_rows : int
    counts : list of int
        Rows in each cluster; empty where none were labeled.
    error : str or None
        What went wrong, in one sentence.
    """

    part: Part
    n_rows: int = 0
    counts: tuple[int, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    n_parts: int
    n_done: int
    n_kept: int  # of an earlier run, among those that are done
    n_rows: int  # of this run
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows labeled in a second."""
        return self.n_rows / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Seconds that the other parts will take at this speed."""
        return (self.n_parts - self.n_done) * self.seconds / max(1, self.n_done - self.n_kept)


@dataclass(frozen=True)
class Summary:
    """What a job has done.

    Attributes
    ----------
    out : str
    n_parts : int
        Files in ``out``.
    n_kept : int
        Those that an earlier run had made.
    n_rows : int
        Rows in all of them.
    cluster_sizes : list of int
        Rows in each cluster; empty after ``transform``.
    seconds : float
    rows_per_second : float
        Of this run.
    """

    out: str
    n_parts: int
    n_kept: int
    n_rows: int
    cluster_sizes: list[int]
    seconds: float
    rows_per_second: float

    @property
    def n_unknown(self) -> int:
        """Rows that belong to no cluster, where ``predict`` was to look for them."""
        return self.n_rows - sum(self.cluster_sizes) if self.cluster_sizes else 0


@dataclass(frozen=True)
class Estimate:
    """What a job would do: its parts, rows and bytes; see :func:`spherepair.scale.estimate`.

    Attributes
    ----------
    n_parts, n_kept : int
        All parts, and those that an earlier run has made.
    n_rows : int or None
        ``None`` where files have to be read to count their rows.
    n_bytes : int
        Size of the files.
    """

    n_parts: int
    n_kept: int
    n_rows: int | None
    n_bytes: int


def plan_parts(source: Any, needs: Needs, *, part_rows: int = PART_ROWS) -> list[Part]:
    """Parts of a data set in the order of its rows; what cannot be read is refused before the work begins."""
    files = find_files(source)
    opened = open_files(files, needs)
    return [part for file in opened for part in _divide(file, part_rows)]


def open_files(files: Sequence[SourceFile], needs: Needs) -> list[DataFile]:
    """Open files of a data set; one that lacks what is needed is refused, and IDs of different types are."""
    with ThreadPoolExecutor(N_OPENED) as pool:
        opened = list(pool.map(lambda file: open_data_file(file, needs.id_column), files))
        kinds = list(pool.map(lambda file: file.check(needs), opened))
    for file, kind in zip(files, kinds, strict=True):
        if common_id_type(kind) != common_id_type(kinds[0]):
            raise InvalidDataError(
                f"{file} has IDs of type {kind}, but {files[0]} has them of type {kinds[0]}; write "
                "them in one type."
            )
    return opened


def common_id_type(kind: Any) -> Any:
    """One type for IDs that differ only in how their writer stores them, such as texts by pandas and csv.

    Examples
    --------
    >>> import pyarrow as pa
    >>> common_id_type(pa.string()), common_id_type(pa.dictionary(pa.int32(), pa.int16()))
    (DataType(large_string), DataType(int64))
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if kind is None:
        return None
    if kinds.is_dictionary(kind):
        return common_id_type(kind.value_type)
    if kinds.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
    return pa.large_string() if is_text else kind


def _divide(opened: DataFile, part_rows: int) -> list[Part]:
    file, sizes = opened.file, opened.group_sizes
    name = _output_name(file.name)
    whole = Part(file, None, name, None if sizes is None else sum(sizes), file.n_bytes)
    bounds = [] if sizes is None else group_bounds(sizes, part_rows)
    if sizes is None or len(bounds) < 2:
        return [whole]
    stem, ending = name.rsplit(".", 1)
    n_rows = [sum(sizes[start:stop]) for start, stop in bounds]
    return [
        replace(
            whole,
            groups=bound,
            output=f"{stem}.{place:05d}.{ending}",
            n_rows=rows,
            n_bytes=file.n_bytes * rows // max(1, sum(sizes)),
        )
        for place, (bound, rows) in enumerate(zip(bounds, n_rows, strict=True))
    ]


def _output_name(name: str) -> str:
    return name if name.lower().endswith(PARQUET_SUFFIXES) else f"{name}.parquet"


def check_out(source: Any, out: OutputFolder) -> None:
    """Refuse outputs whose folder is a file, or that the next run would read as rows."""
    if out.folder is not None and out.folder.exists() and not out.folder.is_dir():
        raise InvalidParameterError(f"{out.source} is a file; labels of a data set are written to a folder.")
    if (name := find_reread(source, out, rename=_output_name)) is not None:
        raise InvalidParameterError(
            f"{out.source} is inside the data that is read, so {name} would be read as rows the next time; "
            "choose a folder outside it."
        )


def find_done(parts: Sequence[Part], out: OutputFolder, model: str) -> dict[str, Outcome]:
    """Outputs that are there already, by name; those of another model or of other data are refused.

    Parameters
    ----------
    parts : sequence of Part
    out : OutputFolder
    model : str
        Digest of the model and of what is asked of it.
    """
    planned = {part.output: part for part in parts}
    if len(planned) < len(parts):
        raise InvalidDataError("two files of the data set would have one output; give them other names.")
    there = out.names()
    if foreign := sorted(there - planned.keys()):
        raise InvalidParameterError(
            f"{out.source} holds {foreign[0]}, which is no output of this job; choose an empty or new folder."
        )
    with ThreadPoolExecutor(N_OPENED) as pool:
        found = pool.map(lambda name: _outcome(planned[name], out, model), sorted(there))
        return {outcome.part.output: outcome for outcome in found if outcome is not None}


def _outcome(part: Part, out: OutputFolder, model: str) -> Outcome | None:
    """What an output says of itself; ``None`` if it is damaged or its input has changed since."""
    import pyarrow.parquet as pq

    filesystem, path = out.locate(part.output)
    try:
        with filesystem.open_input_file(path) as stream:
            described = pq.read_metadata(stream)
    except (OSError, ValueError):
        return None
    said = described.metadata or {}
    if MODEL_KEY not in said:
        raise InvalidParameterError(
            f"{out.source} holds {part.output}, which is no output of a job; choose an empty or new folder."
        )
    if said[MODEL_KEY] != model.encode():
        raise InvalidParameterError(
            f"{path} was made by another model or with other options; choose another folder, or remove it."
        )
    if said.get(INPUT_KEY) != part.fingerprint.encode():
        return None
    return Outcome(part, described.num_rows, tuple(json.loads(said.get(COUNTS_KEY, b"[]"))))

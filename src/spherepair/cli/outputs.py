"""Files that commands write: checked before the work begins, and written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import InvalidParameterError
from spherepair.persistence import refuse_foreign_folder

LABEL_SUFFIXES = (".csv", ".parquet", ".npy")


def check_label_file(path: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse a name for labels that has no known ending, no folder, or belongs to an input."""
    if path.suffix.lower() not in LABEL_SUFFIXES:
        raise InvalidParameterError(
            f"{path} is no name for a file of labels; it must end in {', '.join(LABEL_SUFFIXES)}."
        )
    check_output(path, inputs)


def check_output(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse an output that is a folder, lies in none or in a locked one, or would overwrite an input."""
    if path.is_dir():
        raise InvalidParameterError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InvalidParameterError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameterError(f"{path} cannot be written: {path.parent} is no folder you may write to.")
    for given in inputs:
        if given is not None and path.exists() and given.exists() and os.path.samefile(path, given):
            raise InvalidParameterError(f"{path} is also an input; choose another name for the output.")


def check_model_folder(folder: Path) -> None:
    """Refuse a folder for a model that could not be saved there, before hours of training."""
    refuse_foreign_folder(folder)
    _refuse_locked(folder)


def check_checkpoint_folder(folder: Path, model: Path) -> None:
    """Likewise for a folder of checkpoints; one within that of the model would keep the model from it."""
    refuse_within(folder, model, option="--checkpoint")
    refuse_within(model, folder, option="--out")
    if folder.exists() and not folder.is_dir():
        raise InvalidParameterError(f"--checkpoint {folder} is a file; give the name of a folder.")
    _refuse_locked(folder)


def refuse_within(path: Path, folder: Path, *, option: str) -> None:
    """A model has its folder for itself: beside other files it is not replaced."""
    if path.resolve().is_relative_to(folder.resolve()):
        raise InvalidParameterError(
            f"{option} {path} lies in {folder}, which is for something else; choose another place."
        )


def _refuse_locked(folder: Path) -> None:
    nearest = next(parent for parent in [folder, *folder.absolute().parents] if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidParameterError(f"{folder} cannot be written: {nearest} is no folder you may write to.")


def write_labels(
    path: Path, labels: NDArray[np.int64], *, ids: Any = None, id_name: str | None = None
) -> None:
    """Write labels as columns ``row`` (or the ids) and ``label``, or as a plain .npy array.

    Parameters
    ----------
    path : Path
        The file; its ending says what it becomes.
    labels : ndarray of shape (n_rows,)
    ids : Arrow array of shape (n_rows,), optional
    id_name : str, optional
        Name of the column of ids.
    """
    with written_whole(path) as temporary:
        if path.suffix.lower() == ".npy":
            with temporary.open("wb") as stream:
                np.save(stream, labels, allow_pickle=False)
        else:
            write_columns(temporary, _label_columns(labels, ids, id_name), kind=path.suffix.lower())


def write_columns(path: Path, columns: dict[str, Any], *, kind: str) -> None:
    """Write named columns as csv or parquet."""
    import pyarrow as pa

    table = pa.table(columns)
    if kind == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    else:
        import pyarrow.csv as pa_csv

        # "needed" means around every text for pyarrow; most files read better without.
        style = "needed" if _has_special_characters(table) else "none"
        pa_csv.write_csv(table, path, pa_csv.WriteOptions(quoting_style=style, quoting_header=style))


def _has_special_characters(table: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [column for column in table.columns if pa.types.is_string(column.type)]
    texts.append(pa.chunked_array([table.column_names]))
    return any(pc.any(pc.match_substring_regex(text, '[",\\r\\n]')).as_py() for text in texts)


def _label_columns(labels: NDArray[np.int64], ids: Any, id_name: str | None) -> dict[str, Any]:
    first = np.arange(len(labels)) if ids is None else ids
    name = "row" if id_name is None else id_name
    # An id column that is itself called label must not hide the labels.
    return {name: first, "label" if name != "label" else "cluster": labels}


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` that takes its place once everything is written."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)

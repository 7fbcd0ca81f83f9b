"""Labelled documents in Parquet files with the columns ``split, label, label_name, text``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spherepair.datasets.raw import RawData
from spherepair.errors import InvalidDataError, MissingDependencyError

_COLUMNS = ("split", "label", "label_name", "text")


def read_documents(path: Path) -> RawData:
    """Read documents and their classes; training rows come first, otherwise in file order."""
    columns = _read_columns(path)
    split = np.array(columns["split"], dtype=np.str_)
    is_train, is_test = split == "train", split == "test"
    if not ((is_train | is_test).all() and is_train.any() and is_test.any()):
        raise InvalidDataError(
            f"{path}: column 'split' must hold 'train' and 'test', got "
            f"{sorted(set(split.tolist()))[:5]} instead."
        )
    order = np.argsort(is_test, kind="stable")
    labels = np.array(columns["label"])
    names = _target_names(columns["label"], columns["label_name"], path=path)
    texts = np.array(columns["text"], dtype=object)
    return RawData(texts[order], labels[order], int(is_train.sum()), names)


def _read_columns(path: Path) -> dict[str, list[Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingDependencyError(
            f'{path.name} needs pyarrow to be read: pip install "spherepair[files]".'
        ) from error
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidDataError(
            f"{path}: not a whole Parquet file ({error}); delete it and get it again."
        ) from error
    missing = [name for name in _COLUMNS if name not in table.column_names]
    if missing:
        raise InvalidDataError(
            f"{path}: must have the columns {', '.join(_COLUMNS)}; {', '.join(missing)} not found."
        )
    _check_no_gaps(table, path=path)
    return {name: table[name].to_pylist() for name in _COLUMNS}


def _check_no_gaps(table: Any, *, path: Path) -> None:
    for name in _COLUMNS:
        if table[name].null_count:
            raise InvalidDataError(
                f"{path}: column {name!r} is empty in {table[name].null_count} rows; remove them."
            )


def _target_names(labels: list[int], names: list[str], *, path: Path) -> tuple[str, ...]:
    pairs = sorted(set(zip(labels, names, strict=True)))
    if [label for label, _ in pairs] != list(range(len(pairs))):
        raise InvalidDataError(
            f"{path}: labels must be 0, 1, 2, ... with one name each, got {pairs[:3]} ... instead."
        )
    return tuple(name for _, name in pairs)

"""The folder of results: one small JSON file per run, there as a whole or not at all.

experiments/ID.toml   what was asked for           runs/KEY.json     what came out
failed/KEY.json       what went wrong              claims/KEY        who is at it
arrays/KEY.npz        rows for pictures            pretrained/       shared autoencoders
results.jsonl         all runs, one line each
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.benchmark.experiments import Experiment, in_order, read_experiment
from spherepair.errors import InvalidParameterError

Record = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class Store:
    """A folder of results.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> Store:
        """Make the folder and what it needs; one that is there is used as it is."""
        store = cls(folder)
        for name in ("experiments", "runs", "failed", "claims", "arrays", "pretrained"):
            (store.folder / name).mkdir(parents=True, exist_ok=True)
        return store

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """A folder that ``bench run`` has made."""
        store = cls(folder)
        if not (store.folder / "experiments").is_dir():
            raise InvalidParameterError(
                f"{folder} holds no results; make some with: spherepair bench run toy --out {folder}"
            )
        return store

    def claim_path(self, key: str) -> Path:
        """The file to be locked by whoever does this run."""
        return self.folder / "claims" / key

    @property
    def pretrained(self) -> Path:
        """Folder of the shared autoencoders."""
        return self.folder / "pretrained"

    def keep_experiment(self, experiment: Experiment) -> None:
        """Remember what was asked for, so that the report knows what is missing."""
        write_whole(self.folder / "experiments" / f"{experiment.id}.toml", experiment.text)

    def experiments(self) -> list[Experiment]:
        """What was asked for so far."""
        return in_order(map(read_experiment, (self.folder / "experiments").glob("*.toml")))

    def record(self, key: str) -> Record | None:
        """What came out of a run; ``None`` where it is not done, or its file is not whole."""
        return _read(self.folder / "runs" / f"{key}.json", key)

    def failure(self, key: str) -> Record | None:
        """What went wrong with a run, if it did and was not done since."""
        return _read(self.folder / "failed" / f"{key}.json", key)

    def keep(self, key: str, record: Record, arrays: Arrays | None = None) -> None:
        """Write what came out of a run; arrays first, since the record says that all is there."""
        if arrays:
            self._keep_arrays(key, arrays)
        write_whole(self.folder / "runs" / f"{key}.json", _line(record))
        (self.folder / "failed" / f"{key}.json").unlink(missing_ok=True)

    def keep_failure(self, key: str, record: Record) -> None:
        """Write what went wrong."""
        write_whole(self.folder / "failed" / f"{key}.json", _line(record))

    def arrays(self, key: str) -> Arrays:
        """Rows kept for pictures."""
        path = self.folder / "arrays" / f"{key}.npz"
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def write_lines(self) -> Path:
        """All records as JSON lines in one file."""
        path = self.folder / "results.jsonl"
        keys = sorted(file.stem for file in (self.folder / "runs").glob("*.json"))
        write_whole(path, "".join(_line(record) for record in self._records(keys)))
        return path

    def _records(self, keys: Iterable[str]) -> Iterable[Record]:
        return (record for record in map(self.record, keys) if record is not None)

    def _keep_arrays(self, key: str, arrays: Arrays) -> None:
        path = self.folder / "arrays" / f"{key}.npz"
        temporary = path.with_name(f".{key}.{secrets.token_hex(4)}.npz")
        named: dict[str, Any] = dict(arrays)
        try:
            np.savez_compressed(temporary, **named)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name, wait until it is on the disk, then give it its name."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _line(record: Record) -> str:
    return json.dumps(record, sort_keys=True) + "\n"


def _read(path: Path, key: str) -> Record | None:
    """A record that is whole and belongs to the key; whatever else is there counts as nothing."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("key") == key else None

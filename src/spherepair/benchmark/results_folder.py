"""The folder of results: every file is there whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.benchmark.experiments import Experiment, read_experiment, sort_experiments
from spherepair.benchmark.measure import Arrays, Record
from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.files import atomic_write, atomic_write_text
from spherepair.files.array_files import read_archive


class ResultsFolder:
    """The folder of results.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> ResultsFolder:
        """Create the folder and its subfolders, or use those that are there."""
        results = cls(folder)
        for name in ("experiments", "runs", "failed", "locks", "arrays", "pretrained"):
            (results.folder / name).mkdir(parents=True, exist_ok=True)
        return results

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> ResultsFolder:
        """Open a folder that ``bench run`` created."""
        results = cls(folder)
        if not (results.folder / "experiments").is_dir():
            raise InvalidParameterError(
                f"{folder} holds no results; make some with: spherepair bench run toy --out {folder}"
            )
        return results

    def lock_path(self, key: str) -> Path:
        """File to lock while a run is in progress."""
        return self.folder / "locks" / key

    @property
    def pretrained(self) -> Path:
        """Folder of the shared autoencoders."""
        return self.folder / "pretrained"

    def save_experiment(self, experiment: Experiment) -> None:
        """Save the experiment, so that the report knows which runs are missing."""
        atomic_write_text(self.folder / "experiments" / f"{experiment.id}.toml", experiment.text)

    def experiments(self) -> list[Experiment]:
        """The saved experiments."""
        return sort_experiments(map(read_experiment, (self.folder / "experiments").glob("*.toml")))

    def record(self, key: str) -> Record | None:
        """Result of a run; ``None`` if it is not done or its file is damaged."""
        return _read(self.folder / "runs" / f"{key}.json", key)

    def failure(self, key: str) -> Record | None:
        """Error of a run that failed and was not done since."""
        return _read(self.folder / "failed" / f"{key}.json", key)

    def save_record(self, key: str, record: Record, arrays: Arrays | None = None) -> None:
        """Save the result of a run; arrays first, since the record says that everything is there."""
        if arrays:
            named: dict[str, Any] = dict(arrays)
            path = self.folder / "arrays" / f"{key}.npz"
            with atomic_write(path) as temporary, temporary.open("wb") as stream:
                np.savez_compressed(stream, **named)
        atomic_write_text(self.folder / "runs" / f"{key}.json", _line(record))
        (self.folder / "failed" / f"{key}.json").unlink(missing_ok=True)

    def save_failure(self, key: str, record: Record) -> None:
        """Save the error of a run."""
        atomic_write_text(self.folder / "failed" / f"{key}.json", _line(record))

    def arrays(self, key: str) -> Arrays:
        """Rows saved for pictures."""
        path = self.folder / "arrays" / f"{key}.npz"
        if not path.exists():
            return {}
        return read_archive(path, lambda reason: InvalidDataError(f"{path} {reason}"))

    def write_lines(self) -> Path:
        """Write all records to one file of JSON lines."""
        path = self.folder / "results.jsonl"
        keys = sorted(file.stem for file in (self.folder / "runs").glob("*.json"))
        atomic_write_text(path, "".join(_line(record) for record in self._records(keys)))
        return path

    def _records(self, keys: Iterable[str]) -> Iterable[Record]:
        return (record for record in map(self.record, keys) if record is not None)


def _line(record: Record) -> str:
    return json.dumps(record, sort_keys=True) + "\n"


def _read(path: Path, key: str) -> Record | None:
    """The record of the key; anything else in the file counts as nothing."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("key") == key else None

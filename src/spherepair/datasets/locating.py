"""Where data files are looked for, and what to say when they are not there."""

from __future__ import annotations

import os
from pathlib import Path

from spherepair.datasets.catalogue import DatasetSpec
from spherepair.datasets.idx import find_idx_files
from spherepair.errors import DatasetNotFoundError

ENVIRONMENT_VARIABLE = "SPHEREPAIR_DATA"

# Debian's package dataset-fashion-mnist installs into a folder of this one.
SYSTEM_FOLDER = Path("/usr/share/datasets")


def search_folders(data_home: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders to look in, first one first; downloads are kept in the first."""
    given = [data_home, os.environ.get(ENVIRONMENT_VARIABLE), _cache_folder()]
    return [Path(folder).expanduser() for folder in given if folder]


def find_local(spec: DatasetSpec, data_home: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of a data set, or the folder of its four IDX files, or None."""
    folders = search_folders(data_home)
    for folder in folders:
        for name in spec.files:
            if (folder / name).is_file():
                return folder / name
    if spec.idx_folder:
        for folder in [*folders, SYSTEM_FOLDER]:
            if find_idx_files(folder / spec.idx_folder):
                return folder / spec.idx_folder
    return None


def not_found(spec: DatasetSpec, folder: Path, *, reason: str = "") -> DatasetNotFoundError:
    """Return the error that says which file to put where, and why a download did not do."""
    failed = f" Downloading it failed: {reason.rstrip('.')}." if reason else ""
    return DatasetNotFoundError(f"{spec.name} is not on this machine.{failed} {_which_file(spec, folder)}")


def how_to_get(spec: DatasetSpec, folder: Path) -> str:
    """Return one or two sentences on how to get a data set."""
    if spec.is_built_in:
        return "Ships inside scikit-learn."
    download = f"Downloaded on first use: {spec.download}. Otherwise: " if spec.download else ""
    return download + _which_file(spec, folder)


def _which_file(spec: DatasetSpec, folder: Path) -> str:
    idx = f" Or put the four IDX files into {folder / spec.idx_folder}." if spec.idx_folder else ""
    return (
        f"Put {spec.files[0]} into {folder} (or into the folder given as data_home or "
        f"{ENVIRONMENT_VARIABLE}). It holds {spec.stored}.{idx}"
    )


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "spherepair"

"""The files of the demo: inputs made from the digits of scikit-learn, and what to run on them next."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.cli.outputs import write_columns, written_whole
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError

N_PAIRS = 1000
ID_COLUMN = "id"
IMAGE_SIZE = "8x8"


@dataclass(frozen=True)
class DemoFiles:
    """Everything the demo leaves behind."""

    folder: Path
    rows: Path
    pairs: Path
    new_rows: Path
    model: Path
    predictions: Path
    picture: Path
    report: Path
    result: Path

    @classmethod
    def under(cls, folder: Path) -> DemoFiles:
        """The files in a folder, which is made where it is missing; files of others are left alone."""
        files = cls(
            folder,
            rows=folder / "rows.csv",
            pairs=folder / "pairs.csv",
            new_rows=folder / "new_rows.csv",
            model=folder / "model",
            predictions=folder / "predictions.csv",
            picture=folder / "picture.png",
            report=folder / "report.html",
            result=folder / "demo.json",
        )
        if folder.exists() and not folder.is_dir():
            raise InvalidParameterError(f"{folder} is a file; --out must be a folder.")
        if folder.is_dir() and any(folder.iterdir()) and not files.result.exists():
            raise InvalidParameterError(
                f"{folder} holds files that no demo has made; choose an empty or a new folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        return files


@dataclass(frozen=True)
class Truth:
    """The digits on the images: they make the pairs and the score, and no fit sees them."""

    seen: NDArray[np.int64]
    held_out: NDArray[np.int64]


def write_inputs(files: DemoFiles, seed: int) -> Truth:
    """Split the images 80 to 20, draw pairs of the larger part, and write all three files."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    ids = np.array([f"image-{number:04d}" for number in range(len(X))])
    seen, new = train_test_split(np.arange(len(X)), test_size=0.2, random_state=seed, stratify=y)
    write_result(files, {"is_finished": False})
    Constraints.from_labels(y[seen], N_PAIRS, random_state=seed).write(files.pairs, ids=ids[seen])
    _write_rows(files.rows, ids[seen], X[seen])
    _write_rows(files.new_rows, ids[new], X[new])
    return Truth(y[seen], y[new])


def write_result(files: DemoFiles, content: dict[str, Any]) -> None:
    """Write what was found; the file also marks the folder as one of a demo."""
    with written_whole(files.result) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def next_commands(files: DemoFiles, *, seed: int, hidden_dims: str) -> list[str]:
    """The same job in commands that can be copied."""
    model, labels = files.folder / "my-model", files.folder / "my-predictions.csv"
    page = files.folder / "my-report.html"
    pairs = ["--constraints", files.pairs, "--id", ID_COLUMN]
    lines: list[list[Any]] = [
        ["check", files.pairs, "--data", files.rows, "--id", ID_COLUMN],
        ["fit", files.rows, *pairs, "--hidden-dims", hidden_dims, "--seed", seed, "--out", model],
        ["predict", model, files.new_rows, "--id", ID_COLUMN, "--out", labels],
        ["clusters", model],
        ["report", model, "--data", files.rows, *pairs, "--image", IMAGE_SIZE, "--out", page],
    ]
    return [" ".join([_program(), *(shlex.quote(str(word)) for word in line)]) for line in lines]


def _write_rows(path: Path, ids: NDArray[np.str_], pixels: NDArray[np.float64]) -> None:
    columns = {f"pixel_{place}": column for place, column in enumerate(pixels.astype(np.int64).T)}
    with written_whole(path) as temporary:
        write_columns(temporary, {ID_COLUMN: ids, **columns}, kind=path.suffix)


def _program() -> str:
    """How this program was called, so that its name works when it is copied."""
    called = sys.argv[0]
    if Path(called).name != "spherepair":
        return f"{shlex.quote(sys.executable)} -m spherepair.cli"
    found = shutil.which("spherepair")
    is_on_path = found is not None and Path(found).resolve() == Path(called).resolve()
    return "spherepair" if is_on_path else shlex.quote(called)

"""A small table with ids, its pairs, models fitted once per session, and two ways to run a command."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import make_blobs
from tests.forked_command import ForkedCommand

from spherepair import Constraints
from spherepair.cli import main

#: Learns the example in about a second.
TINY = ("--hidden-dims", "16", "--max-epochs", "20", "--pretraining", "none")
#: Trains for a fraction of a second; for tests in which it does not matter what is learned.
BRIEF = ("--hidden-dims", "8", "--max-epochs", "2", "--pretraining", "none")


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        content: dict[str, Any] = json.loads(self.out)
        return content


@dataclass(frozen=True)
class Example:
    """Three clear clusters of 40 rows: X, the names of its rows, the true clusters, and the files."""

    X: np.ndarray[Any, Any]
    ids: list[str]
    y: np.ndarray[Any, Any]
    folder: Path

    @property
    def rows(self) -> Path:
        return self.folder / "rows.csv"

    @property
    def pairs(self) -> Path:
        return self.folder / "pairs.csv"

    @property
    def array(self) -> Path:
        return self.folder / "rows.npy"

    @property
    def numbered_pairs(self) -> Path:
        return self.folder / "numbered.csv"

    @property
    def model(self) -> Path:
        """Fitted on ``rows``."""
        return self.folder / "model"

    @property
    def array_model(self) -> Path:
        """Fitted on ``array``; there once the fixture `array_fit` was asked for."""
        return self.folder / "array-model"


@pytest.fixture(scope="session")
def tiny() -> Sequence[str]:
    return TINY


@pytest.fixture(scope="session")
def brief() -> Sequence[str]:
    return BRIEF


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp("example")
    X, y = make_blobs(120, n_features=5, centers=3, cluster_std=0.5, random_state=0)
    ids = [f"row-{number:03d}" for number in range(len(X))]
    data = Example(X, ids, y, folder)
    columns = {"name": ids, **{f"f{place}": X[:, place] for place in range(5)}}
    pa_csv.write_csv(pa.table(columns), data.rows)
    np.save(data.array, X)
    pairs = Constraints.from_labels(y, 300, random_state=0)
    pairs.write(data.pairs, ids=ids)
    pairs.write(data.numbered_pairs)
    fit = ["fit", str(data.rows), "-c", str(data.pairs), "--id", "name", "-o", str(data.model), *TINY, "-q"]
    with mock.patch.dict(os.environ):
        assert main(fit) == 0
    return data


@pytest.fixture(scope="session")
def split_rows(example: Example) -> Path:
    """The rows in a folder of three files: parquet, csv with its columns in another order, parquet."""
    folder = example.folder / "split"
    folder.mkdir()
    columns = {"name": example.ids, **{f"f{place}": example.X[:, place] for place in range(5)}}
    parts = [pa.table(columns).slice(40 * place, 40) for place in range(3)]
    pq.write_table(parts[0], folder / "part-1.parquet")
    pa_csv.write_csv(parts[1].select(sorted(columns)), folder / "part-2.csv")
    pq.write_table(parts[2], folder / "part-3.parquet")
    return folder


@pytest.fixture(params=["{}", "{}/part-*", "file://{}"], ids=["folder", "glob", "uri"])
def many(request: pytest.FixtureRequest, split_rows: Path) -> str:
    """The rows in many files, named in each way that there is."""
    return str(request.param).format(split_rows)


@pytest.fixture(scope="session")
def array_fit(example: Example) -> Ended:
    """A fit on an array with numbered pairs, and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    fit = ["fit", example.array, "-c", example.numbered_pairs, "-o", example.array_model, *TINY]
    with mock.patch.dict(os.environ), redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in fit])
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a command in this process."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with mock.patch.dict(os.environ):  # the entry point sets variables for its process
            code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def shell() -> Callable[..., Ended]:
    """Run a command in a process of its own; test_entry_point.py does so from a fresh interpreter."""

    def run(*arguments: object, **environment: str) -> Ended:
        command = ForkedCommand(*arguments, **environment)
        out, err = command.communicate()
        code = command.poll()
        assert code is not None
        return Ended(code, out, err)

    return run

"""A tiny model of named columns and its rows in files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spherepair import Constraints, SpherePair

N_ROWS, N_FILES = 240, 4


@pytest.fixture(scope="session")
def table() -> Any:
    rng = np.random.default_rng(0)
    y = np.arange(N_ROWS) % 3
    X = (rng.normal(size=(N_ROWS, 3)) + 6 * np.eye(3)[y]).astype(np.float32)
    ids = [f"item-{place}" for place in range(N_ROWS)]
    return pa.table({"id": ids, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})


@pytest.fixture(scope="session")
def model(table: Any) -> SpherePair:
    pairs = Constraints.from_labels(table["y"].to_numpy(), n_pairs=300, random_state=0)
    fresh = SpherePair(3, hidden_dims=(8,), pretraining=None, max_epochs=3, batch_size=64, random_state=0)
    return fresh.fit(table.select(["a", "b", "c"]), constraints=pairs)


@pytest.fixture(scope="session")
def folder(model: SpherePair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("saved") / "model"
    model.save(target, rows=False)
    return target


@pytest.fixture
def rows(table: Any, tmp_path: Path) -> Path:
    """Four parquet files of 60 rows in row groups of 20."""
    (tmp_path / "rows").mkdir()
    size = N_ROWS // N_FILES
    for place in range(N_FILES):
        part = table.slice(place * size, size)
        pq.write_table(part, tmp_path / "rows" / f"part-{place}.parquet", row_group_size=20)
    return tmp_path / "rows"

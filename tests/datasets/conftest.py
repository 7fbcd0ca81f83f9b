from __future__ import annotations

import numpy as np
import pytest

from spherepair.datasets import catalog


@pytest.fixture(autouse=True)
def empty_machine(tmp_path, monkeypatch):
    """No data anywhere: what a test loads is what it wrote itself. Returns the cache folder."""
    monkeypatch.delenv("SPHEREPAIR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(catalog, "SYSTEM_FOLDER", tmp_path / "system")
    return tmp_path / "cache" / "spherepair"


@pytest.fixture
def images():
    """Twelve training and six test images of 2 x 3 pixels, three classes."""
    rng = np.random.default_rng(0)
    return {
        "X_train": rng.integers(0, 256, (12, 2, 3), dtype=np.uint8),
        "y_train": np.arange(12) % 3,
        "X_test": rng.integers(0, 256, (6, 2, 3), dtype=np.uint8),
        "y_test": np.arange(6) % 3,
    }

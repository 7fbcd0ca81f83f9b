from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from spherepair import Constraints, Schedule, SpherePair
from spherepair.training.pretraining import JointPretraining

#: Enough training for blobs, a fraction of a second.
QUICK = {
    "hidden_dims": (32,),
    "pretraining": JointPretraining(epochs=2, min_steps=2),
    "max_epochs": 4,
    "schedule": Schedule(min_steps=4),
    "random_state": 0,
    "progress": False,
}


@pytest.fixture(scope="session")
def make() -> Callable[..., SpherePair]:
    """Quick models: ``make(3, omega=1.5)``."""

    def build(n_clusters: int | str = 3, **parameters: Any) -> SpherePair:
        return SpherePair(n_clusters, **(QUICK | parameters))

    return build


@pytest.fixture(scope="session")
def y() -> np.ndarray:
    return make_blobs(120, centers=3, n_features=5, random_state=0)[1]


@pytest.fixture(scope="session")
def X() -> np.ndarray:  # noqa: N802
    """Blobs on a grid of integers, so that every numeric type holds the same values."""
    rows = make_blobs(120, centers=3, n_features=5, random_state=0)[0]
    return np.round(4 * (rows - rows.min())).astype(np.float32)


@pytest.fixture(scope="session")
def pairs(y: np.ndarray) -> Constraints:
    return Constraints.from_labels(y, 300, random_state=0)


@pytest.fixture(scope="session")
def fitted(make: Callable[..., SpherePair], X: np.ndarray, pairs: Constraints) -> SpherePair:
    """A model that tests may look at but not change."""
    return make().fit(X, constraints=pairs)

"""A small fitted model."""

from __future__ import annotations

import pytest
from sklearn.datasets import make_blobs

from spherepair import Constraints, SpherePair


@pytest.fixture(scope="session")
def fitted():
    """A model of three clusters in an embedding of more than three dimensions."""
    X, y = make_blobs(90, centers=3, n_features=5, random_state=0)
    pairs = Constraints.from_labels(y, 300, random_state=0)
    model = SpherePair(
        3,
        embedding_dim=6,
        hidden_dims=(16,),
        pretraining=None,
        max_epochs=5,
        random_state=0,
        progress=False,
    )
    return model.fit(X, constraints=pairs)

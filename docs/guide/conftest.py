"""The names that pages of the guide take from the quick start; the network is smaller, to be quick."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def quick_start() -> dict[str, Any]:
    """Rows, pairs and a fitted model."""
    # Here and not above: what hands tests out to workers reads this file, too, and needs no torch.
    from sklearn.datasets import load_wine

    from spherepair import Constraints, SpherePair

    X, y = load_wine(return_X_y=True)
    pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    model = SpherePair(hidden_dims=(64,), max_epochs=10, pretraining=None, random_state=0, progress=False)
    return {
        "X": X,
        "y": y,
        "pairs": pairs,
        "Constraints": Constraints,
        "model": model.fit(X, constraints=pairs),
    }


@pytest.fixture(autouse=True)
def _names_of_the_quick_start(request, doctest_namespace) -> None:
    if request.node.path.stem not in {"quickstart", "data", "pairs"}:
        doctest_namespace.update(request.getfixturevalue("quick_start"))

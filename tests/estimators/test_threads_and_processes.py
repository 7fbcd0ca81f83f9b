"""Fits in threads, in processes and inside scikit-learn's tools end with the labels of a fit alone."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from spherepair import SpherePair
from spherepair.training.pretraining import JointPretraining

SETTINGS = {
    "hidden_dims": (8,),
    "pretraining": JointPretraining(epochs=1, min_steps=1),
    "max_epochs": 2,
    "progress": False,
    "device": "cpu",
}


def labels_of(seed: int, X: Any, pairs: Any) -> Any:
    return SpherePair(3, random_state=seed, **SETTINGS).fit(X, constraints=pairs).embedding_


@pytest.fixture(scope="module")
def alone(X: Any, pairs: Any) -> list[Any]:
    return [labels_of(seed, X, pairs) for seed in range(3)]


def test_fits_in_threads(alone: list[Any], X: Any, pairs: Any) -> None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: labels_of(seed, X, pairs), range(3)))
    np.testing.assert_array_equal(found, alone)


def test_fits_of_joblib_in_threads(alone: list[Any], X: Any, pairs: Any) -> None:
    jobs = (joblib.delayed(labels_of)(seed, X, pairs) for seed in range(3))
    np.testing.assert_array_equal(joblib.Parallel(2, backend="threading")(jobs), alone)


def _fit_in(folder: str, seed: int, X: Any, pairs: Any) -> None:
    np.save(Path(folder) / f"{seed}.npy", labels_of(seed, X, pairs))


def test_a_fit_in_a_forked_process(alone: list[Any], X: Any, pairs: Any, tmp_path: Path) -> None:
    """With one thread: OpenMP's threads do not survive a fork, whoever uses it."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        pytest.skip("several threads do not survive a fork")
    process = multiprocessing.get_context("fork").Process(target=_fit_in, args=(str(tmp_path), 1, X, pairs))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "1.npy"), alone[1])


def test_fits_of_joblib_in_fresh_processes(alone: list[Any], X: Any, pairs: Any) -> None:
    """loky starts processes afresh, as spawn does."""
    model = SpherePair(3, random_state=2, **SETTINGS)
    (found,) = joblib.Parallel(2, backend="loky")([joblib.delayed(model.fit)(X, constraints=pairs)])
    np.testing.assert_array_equal(found.embedding_, alone[2])
    np.testing.assert_array_equal(found.predict(X), found.labels_)


def test_pickled_models_predict_the_same_and_fit_the_same(alone: list[Any], X: Any, pairs: Any) -> None:
    model = SpherePair(3, random_state=0, **SETTINGS).fit(X, constraints=pairs)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    np.testing.assert_array_equal(clone(copied).fit(X, constraints=pairs).embedding_, alone[0])


@pytest.mark.filterwarnings("ignore::spherepair.errors.SpherePairWarning")
def test_grid_search_with_two_jobs_chooses_as_with_one(X: Any) -> None:
    def score(model: Any, rows: Any, y: Any = None) -> float:
        return float(len(np.unique(model.predict(rows))) + model.omega)

    split = PredefinedSplit(np.arange(len(X)) % 2)
    found = [
        GridSearchCV(
            SpherePair(3, random_state=0, **SETTINGS),
            {"omega": [1.5, 2.0]},
            scoring=score,
            cv=split,
            n_jobs=n_jobs,
        ).fit(X)
        for n_jobs in (1, 2)
    ]
    assert found[0].best_params_ == found[1].best_params_
    np.testing.assert_array_equal(found[0].best_estimator_.labels_, found[1].best_estimator_.labels_)

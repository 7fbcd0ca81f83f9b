"""A model saved without the labels, embedding and pairs of its rows: small, and it predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from spherepair import Constraints, SpherePair, load
from spherepair.baselines import DCGMM, SDEC, AutoEmbedder, VanillaDCC
from spherepair.errors import MissingRowsError
from spherepair.estimators.fitted_state import ROW_ATTRIBUTES

TINY = {"hidden_dims": (16,), "max_epochs": 2, "random_state": 0}
UNTRAINED = {**TINY, "pretraining": None}


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    return rng.normal(size=(400, 5)) + 4 * np.eye(5)[y], y


@pytest.fixture(scope="module")
def pairs(rows: Any) -> Constraints:
    return Constraints.from_labels(rows[1], n_pairs=300, random_state=0)


@pytest.fixture(scope="module")
def fitted(rows: Any, pairs: Constraints) -> SpherePair:
    return SpherePair(3, wrong_answers="auto", **UNTRAINED).fit(rows[0], constraints=pairs)


@pytest.fixture
def folder(fitted: SpherePair, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model", rows=False)
    return tmp_path / "model"


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "novelty"])
def test_it_predicts_as_before(folder: Path, fitted: SpherePair, rows: Any, method: str) -> None:
    expected = getattr(fitted, method)(rows[0])
    np.testing.assert_array_equal(getattr(load(folder), method)(rows[0]), expected)


@pytest.mark.parametrize("method", [AutoEmbedder, DCGMM, SDEC, VanillaDCC])
def test_other_methods_too(method: Any, rows: Any, pairs: Constraints, tmp_path: Path) -> None:
    model = method(3, **TINY).fit(rows[0], constraints=pairs)
    model.save(tmp_path / "model", rows=False)
    assert load(tmp_path / "model").calibration_ == model.calibration_ is not None
    expected = model.predict_proba(rows[0])
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(rows[0]), expected)


def test_it_is_smaller_than_its_network(rows: Any, pairs: Constraints, tmp_path: Path) -> None:
    model = SpherePair(3, **{**UNTRAINED, "hidden_dims": "small"}).fit(rows[0], constraints=pairs)
    model.save(tmp_path / "model", rows=False)
    network = sum(tensor.nbytes for tensor in model.network_.state_dict().values())
    stored = sum(file.stat().st_size for file in (tmp_path / "model").iterdir())
    assert stored < 0.75 * network


def test_the_decoder_is_left_out(folder: Path, fitted: SpherePair, tmp_path: Path) -> None:
    names = list(load(folder).network_.state_dict())
    assert names == [name for name in fitted.network_.state_dict() if name.startswith("encoder.")]
    fitted.save(tmp_path / "whole")
    assert load(tmp_path / "whole").network_.state_dict().keys() == fitted.network_.state_dict().keys()


@pytest.mark.parametrize("name", ROW_ATTRIBUTES)
def test_what_is_not_there_is_said(folder: Path, name: str) -> None:
    model = load(folder)
    assert not hasattr(model, name)
    with pytest.raises(MissingRowsError, match=f"^{name} is not there: this model was saved without"):
        getattr(model, name)


@pytest.mark.parametrize(
    "work",
    [
        lambda model, X, pairs: model.refine(pairs, X),
        lambda model, X, pairs: model.score_pairs(pairs),
        lambda model, X, pairs: model.suspects(),
        lambda model, X, pairs: model.count_clusters(),
        lambda model, X, pairs: model.explain(X[:1]),
        lambda model, X, pairs: model.calibrate(pairs),
        lambda model, X, pairs: model.save("never-written"),
    ],
)
def test_what_needs_rows_is_refused(folder: Path, rows: Any, pairs: Constraints, work: Any) -> None:
    with pytest.raises(MissingRowsError, match="saved without"):
        work(load(folder), rows[0], pairs)


def test_it_can_be_saved_again_and_fitted_anew(
    folder: Path, rows: Any, pairs: Constraints, tmp_path: Path
) -> None:
    model = load(folder)
    model.save(tmp_path / "again", rows=False)
    np.testing.assert_array_equal(load(tmp_path / "again").predict(rows[0]), model.predict(rows[0]))
    assert model.score_pairs(pairs, rows[0]) > 0.5
    assert len(model.fit(rows[0], constraints=pairs).labels_) == 400


def test_unfitted_models_say_that_they_are(rows: Any, fitted: SpherePair) -> None:
    with pytest.raises(AttributeError, match="'SpherePair' object has no attribute 'labels_'"):
        _ = clone(fitted).labels_
    with pytest.raises(NotFittedError):
        clone(fitted).predict(rows[0])


def test_arrays_that_may_not_be_written_to_make_no_warning(
    fitted: SpherePair, rows: Any, folder: Path
) -> None:
    model = load(folder)
    for array in (model.cluster_centers_, model._scaling.shift, model._scaling.factor):
        array.flags.writeable = False
    np.testing.assert_array_equal(model.predict(rows[0]), fitted.predict(rows[0]))

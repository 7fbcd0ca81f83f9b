"""SpherePair as scikit-learn's users know estimators; scikit-learn's own checks run in test_battery.py."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from spherepair import Schedule, SpherePair
from spherepair.errors import InvalidDataError


def test_clone_has_the_parameters_and_no_fit(fitted: SpherePair) -> None:
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        twin.predict(np.zeros((2, 5)))


def test_constraints_pass_through_a_pipeline(make: Any, X: Any, y: Any, pairs: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = make(scaling="none").set_fit_request(constraints=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("cluster", model)]).fit(X, constraints=pairs)
    direct = make(scaling="none").fit(StandardScaler().fit_transform(X), constraints=pairs)
    assert len(pipeline[-1].constraints_) == len(pairs)
    assert np.array_equal(pipeline.predict(X), direct.labels_)


def test_constraints_reach_fit_predict_of_a_pipeline(make: Any, X: Any, pairs: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(constraints=True)
        # fit_predict hands its metadata to fit, whose request therefore decides.
        labels = Pipeline([("cluster", model)]).fit(X, constraints=pairs).predict(X)
    assert np.array_equal(labels, make().fit_predict(X, constraints=pairs))


def test_set_output_pandas_gives_named_columns(make: Any, X: Any, pairs: Any) -> None:
    model = make().set_output(transform="pandas").fit(X, constraints=pairs)
    frame = model.transform(X[:4])
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert frame.columns[0] == "spherepair0"
    assert frame.shape == (4, model.embedding_.shape[1])


def test_fit_predict_gives_labels(make: Any, fitted: SpherePair, X: Any, pairs: Any) -> None:
    assert np.array_equal(make().fit_predict(X, constraints=pairs), fitted.labels_)


def test_fit_transform_gives_the_embedding(make: Any, fitted: SpherePair, X: Any, pairs: Any) -> None:
    embedding = make().fit_transform(X, constraints=pairs)
    assert np.array_equal(embedding, fitted.embedding_)


def test_y_never_takes_part(make: Any, fitted: SpherePair, X: Any, y: Any, pairs: Any) -> None:
    model = make().fit(X, np.random.default_rng(0).permutation(y), constraints=pairs)
    assert np.array_equal(model.embedding_, fitted.embedding_)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_predict_but_leave_the_table_behind(twin: Any, make: Any, y: Any, pairs: Any) -> None:
    wide = np.random.default_rng(0).normal(size=(120, 5000)).astype(np.float32)
    model = make(hidden_dims=(8,), max_epochs=1).fit(wide, constraints=pairs)
    other = twin(model)
    assert np.array_equal(other.predict(wide), model.labels_)
    assert len(pickle.dumps(model)) < wide.nbytes / 2
    with pytest.raises(InvalidDataError, match=r"refine\(constraints, X\)"):
        other.refine(pairs)
    assert model.refine(pairs) is model


def test_a_refit_that_fails_leaves_no_mixture_of_two_models(make: Any, X: Any, pairs: Any) -> None:
    model = make().fit(X, constraints=pairs)
    bad = np.full((120, 7), np.nan)
    with pytest.raises(InvalidDataError, match="NaN"):
        model.fit(bad, constraints=pairs)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_paper_protocol_can_be_overridden() -> None:
    model = SpherePair.paper(10, max_epochs=7)
    assert (model.pretraining, model.scaling, model.max_epochs) == ("stacked", "none", 7)
    assert model.stopping == "released-code"
    assert model.schedule == Schedule(min_steps=1, reconstruction_rows="all", ema=False)


def test_fitted_attributes_have_the_documented_shapes(fitted: SpherePair, X: Any, pairs: Any) -> None:
    n_dims = fitted.embedding_.shape[1]
    assert fitted.labels_.shape == (120,)
    assert set(fitted.labels_) == {0, 1, 2}
    assert fitted.cluster_centers_.shape == (3, n_dims)
    np.testing.assert_allclose(np.linalg.norm(fitted.embedding_, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(fitted.cluster_centers_, axis=1), 1, atol=1e-5)
    assert {"stage", "epoch", "loss", "pairs", "reconstruction", "seconds"} <= set(fitted.history_[-1])
    assert fitted.cluster_number_ is None
    assert fitted.n_features_in_ == 5

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from spherepair import Constraints, SpherePair, load
from spherepair.constraints import PairFold
from spherepair.errors import InvalidConstraintsError, InvalidDataError
from spherepair.estimators import setting_search
from spherepair.metrics import expected_calibration_error, match_labels


def overlapping(n_rows: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """Two clouds of which about one row in seven lies on the wrong side."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    X = rng.normal(size=(n_rows, 6)).astype(np.float32)
    X[:, 0] += 2.2 * y
    return X, y


@pytest.fixture(scope="module")
def unsure(make: Any) -> SpherePair:
    X, y = overlapping()
    model = make(2, max_epochs=16, wrong_answers=None)
    return model.fit(X, constraints=Constraints.from_labels(y, 300, random_state=0))


def test_confidence_of_new_rows_is_their_accuracy(unsure: SpherePair) -> None:
    X, y = overlapping(2000, seed=1)
    proba = unsure.predict_proba(X)
    is_right = match_labels(y, unsure.predict(X)) == y
    logits = unsure._membership_logits()(torch.from_numpy(unsure.transform(X)))
    before = logits.softmax(dim=1).amax(dim=1).numpy()
    assert 0.7 < is_right.mean() < 0.95
    assert expected_calibration_error(is_right, proba.max(axis=1)) < 0.07
    assert expected_calibration_error(is_right, before) > 0.1


def test_calibration_changes_no_label(unsure: SpherePair) -> None:
    X, _ = overlapping(500, seed=1)
    assert np.array_equal(unsure.predict_proba(X).argmax(axis=1), unsure.predict(X))


def test_labels_are_those_of_a_fit_that_does_not_look_at_itself(
    make: Any, X: Any, pairs: Any, fitted: SpherePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SpherePair, "_hold_out", lambda self, job: None)
    monkeypatch.setattr(SpherePair, "_assess", lambda self, job, hold_out=None: None)
    blind = make().fit(X, constraints=pairs)
    assert np.array_equal(blind.labels_, fitted.labels_)
    assert np.array_equal(blind.embedding_, fitted.embedding_)


def test_held_out_pairs_of_the_user_set_the_accuracy(make: Any) -> None:
    X, y = overlapping(300)
    pairs = Constraints.from_labels(y, 900, random_state=0)
    model = make(2).fit(X, constraints=pairs[:300]).calibrate(pairs[300:])
    truth = (match_labels(y, model.labels_) == y).mean()
    assert model.calibration_.n_pairs == 600
    assert model.calibration_.accuracy == pytest.approx(truth, abs=0.04)
    with pytest.raises(InvalidConstraintsError, match="calibrate needs pairs"):
        model.calibrate(Constraints.from_pairs())


def test_without_pairs_nothing_is_calibrated(make: Any, X: Any) -> None:
    with pytest.warns(match="no constraints"):
        assert make(max_epochs=1).fit(X).calibration_ is None


def test_held_out_pairs_need_to_be_some_pairs_of_both_kinds(
    make: Any, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(setting_search, "HoldOut", lambda *parts: seen.append(parts[0]))
    make(max_epochs=8).fit(X, constraints=pairs)
    assert [len(held_out) for held_out in seen] == [75]
    with pytest.warns(match="cannot-links"):
        make(max_epochs=8).fit(X, constraints=pairs.cannot_links)
    assert len(seen) == 1


def test_a_refinement_with_the_first_pairs_calibrates(make: Any, X: Any, pairs: Any) -> None:
    with pytest.warns(match="no constraints"):
        model = make(max_epochs=2).fit(X)
    assert model.refine(pairs).calibration_.n_pairs == len(pairs)


def test_one_in_a_hundred_ordinary_rows_is_a_false_alarm(unsure: SpherePair) -> None:
    found = unsure.novelty(overlapping(4000, seed=2)[0])
    assert (found > 0.99).mean() == pytest.approx(0.01, abs=0.012)
    assert (found > 0.9).mean() == pytest.approx(0.1, abs=0.04)


def test_strange_rows_are_new_wherever_they_go(unsure: SpherePair) -> None:
    strange = np.random.default_rng(0).normal(np.array([0, 6, 6, -6, 0, 0]), size=(50, 6))
    assert (unsure.novelty(strange) > 0.99).all()


def test_novelty_of_few_rows_and_many_columns(make: Any) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(40, 300, 0.1, "csr", dtype=np.float32, random_state=0)
    pairs = Constraints.from_labels(rng.integers(2, size=40), 60, random_state=0)
    with pytest.warns(match="only 60 constraints"):
        model = make(2, max_epochs=1).fit(X, constraints=pairs)
    assert np.isfinite(model.novelty(X)).all()
    assert (model.novelty(sparse.csr_matrix(np.full((1, 300), 5.0))) > 0.95).all()


def test_assess_says_what_the_three_methods_say(unsure: SpherePair) -> None:
    X, _ = overlapping(50, seed=3)
    found = unsure.assess(X)
    assert np.array_equal(found.labels, unsure.predict(X))
    np.testing.assert_allclose(found.confidence, unsure.predict_proba(X).max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.novelty, unsure.novelty(X), rtol=1e-6)


def test_a_saved_model_is_as_sure_as_before(unsure: SpherePair, tmp_path: Path) -> None:
    X, _ = overlapping(50, seed=3)
    unsure.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.calibration_ == unsure.calibration_
    assert np.array_equal(again.novelty(X), unsure.novelty(X))
    assert np.array_equal(again.predict_proba(X), unsure.predict_proba(X))


def test_score_counts_both_kinds_of_pairs_alike(fitted: SpherePair, X: Any) -> None:
    labels = fitted.predict(X)
    same = np.flatnonzero(labels == labels[0])[1:4]
    other = np.flatnonzero(labels != labels[0])[:1]
    wrong = Constraints.from_pairs(
        must_link=[(0, int(row)) for row in same], cannot_link=[(0, int(same[0])), (0, int(other[0]))]
    )
    assert fitted.score(X, constraints=wrong) == pytest.approx((1.0 + 0.5) / 2)
    assert fitted.score(X, constraints=wrong.must_links) == 1.0
    with pytest.raises(InvalidConstraintsError, match="score needs pairs"):
        fitted.score(X)


@pytest.fixture
def routed() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def asks_for_pairs(model: SpherePair) -> SpherePair:
    return model.set_fit_request(constraints=True).set_score_request(constraints=True)


def test_pairs_follow_their_rows_into_the_folds(make: Any, X: Any, y: Any, routed: Any) -> None:
    pairs = Constraints.from_labels(y, 600, random_state=0)
    scores = cross_val_score(
        asks_for_pairs(make(3, max_epochs=3, batch_size=16)),
        X,
        cv=PairFold(pairs, n_splits=3, random_state=0),
        params={"constraints": pairs.for_rows(len(X))},
    )
    assert (scores > 0.9).all()


@pytest.mark.filterwarnings("ignore:the answers prove at least")
def test_a_grid_finds_the_number_of_clusters(make: Any, X: Any, y: Any, routed: Any) -> None:
    pairs = Constraints.from_labels(y, 600, random_state=0)
    search = GridSearchCV(
        asks_for_pairs(make(3, max_epochs=3, batch_size=16)),
        {"n_clusters": [2, 3]},
        cv=PairFold(pairs, n_splits=2, random_state=0),
    )
    search.fit(X, constraints=pairs.for_rows(len(X)))
    assert search.best_params_ == {"n_clusters": 3}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.best_estimator_.constraints_) == 600


def test_pairs_of_the_whole_table_are_refused_in_a_fold(make: Any, X: Any, y: Any, routed: Any) -> None:
    beginning = Constraints.from_labels(y, 600, random_state=0)
    beginning = beginning[(beginning.left < 60) & (beginning.right < 60)]
    with pytest.raises(InvalidConstraintsError, match=r"a table of 120 rows, but X has 80.*for_rows"):
        cross_val_score(
            asks_for_pairs(make(3)), X, cv=KFold(3), params={"constraints": beginning}, error_score="raise"
        )


def test_new_rows_join_a_model(make: Any, X: Any, y: Any) -> None:
    old, new = X[:80], X[80:]
    model = make(3).fit(old, constraints=Constraints.from_labels(y[:80], 300, random_state=0))
    more = Constraints.from_labels(y, 400, random_state=1)
    before = model.labels_.copy()
    model.refine(more, X_new=new)
    assert len(model.labels_) == len(model.embedding_) == 120
    assert (model.labels_[:80] == before).mean() > 0.9
    assert (match_labels(y, model.labels_) == y).mean() > 0.95
    assert model.score_pairs(more) > 0.95
    model.refine(Constraints.from_labels(y, 50, random_state=2))  # the table has grown
    assert len(model.labels_) == 120


def test_new_rows_may_follow_the_old_ones(make: Any, X: Any, y: Any, tmp_path: Path) -> None:
    make(3).fit(X[:80], constraints=Constraints.from_labels(y[:80], 300, random_state=0)).save(tmp_path / "m")
    more = Constraints.from_labels(y, 200, random_state=1)
    model = load(tmp_path / "m").refine(more, X)
    assert len(model.labels_) == 120
    with pytest.raises(InvalidDataError, match="row 0 of X is not the row"):
        load(tmp_path / "m").refine(more, X[::-1].copy())
    with pytest.raises(InvalidDataError, match="has 70 rows, but the model was fitted on 80"):
        load(tmp_path / "m").refine(more, X[:70])


def test_a_shuffled_frame_is_not_fitted_by_position(make: Any, X: Any, y: Any) -> None:
    import pandas as pd

    order = np.random.default_rng(0).permutation(len(X))
    frame = pd.DataFrame(X, columns=list("abcde")).iloc[order]
    named = Constraints.from_labels(y, 300, random_state=0)
    unclear = Constraints.from_arrays(named.left, named.right, named.is_must_link)
    with pytest.raises(InvalidConstraintsError, match=r"by index or by position.*ids=X\.index"):
        make(3).fit(frame, constraints=unclear)
    by_index = Constraints.from_arrays(named.left, named.right, named.is_must_link, ids=frame.index)
    model = make(3).fit(frame, constraints=by_index)
    assert (match_labels(y[order], model.labels_) == y[order]).mean() > 0.95
    by_position = Constraints.from_labels(y[order], 300, random_state=0)
    assert len(make(3, max_epochs=1).fit(frame, constraints=by_position).labels_) == 120


def test_a_fit_interrupted_while_it_is_assessed_is_no_model(monkeypatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    X, pairs = np.eye(8), Constraints.from_labels(np.arange(8) % 2, 28, random_state=0)
    model = SpherePair(2, hidden_dims=(4,), max_epochs=1, pretraining=None, batch_size=8, progress=False)
    monkeypatch.setattr(SpherePair, "_assess", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, constraints=pairs)
    with pytest.raises(NotFittedError):
        model.predict(X)

"""One battery for all methods: what holds for every estimator, whatever it optimises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.estimators.battery_settings import EXPECTED_FAILURES, LEARNING, TINY, accuracy_on_digits, build
from tests.estimators.never_waits import NeverWaits

from spherepair import Constraints, baselines, load, training
from spherepair.clustering import assigners
from spherepair.clustering.assigners import kmeans
from spherepair.errors import (
    ConflictError,
    ConstraintWarning,
    InvalidConstraintsError,
    InvalidDataError,
    InvalidParameterError,
)
from spherepair.estimators import ESTIMATORS
from spherepair.estimators.method_families import AssigningClusterer, EmbeddingClusterer
from spherepair.terms import row_terms
from spherepair.terms.neighbor_search import nearest_neighbors
from spherepair.training.batches import Batches
from spherepair.training.optimization import PaperRule, StableLabels

every_method = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="session")
def fitted_models(X: Any, pairs: Any) -> dict[str, Any]:
    """One model of each kind that tests may look at but not change."""
    return {name: build(name).fit(X, constraints=pairs) for name in ESTIMATORS}


@pytest.fixture
def fitted_one(name: str, fitted_models: dict[str, Any]) -> Any:
    return fitted_models[name]


@pytest.mark.filterwarnings("ignore::spherepair.errors.SpherePairWarning")
@parametrize_with_checks(
    [build(name, 2) for name in ESTIMATORS],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__],
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_battery_covers_every_method() -> None:
    assert set(TINY) == set(LEARNING) == set(ESTIMATORS) == {"SpherePair", *baselines.__all__}


@every_method
def test_nothing_in_an_epoch_waits_for_the_device(
    name: str, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_steps, n_starts, n_looks = Counter(), Counter(), Counter()

    class Watched(training._EagerPart):
        def step(self) -> None:
            n_steps.update([self.batches.part])
            with NeverWaits():
                super().step()

    def plan(self: Any, epoch: int, plan: Any = Batches.plan) -> None:
        with NeverWaits():
            plan(self, epoch)

    def watch(self: Any, job: Any, stage: Any, build: Any = ESTIMATORS[name]._plan) -> Any:
        found = build(self, job, stage)
        objective = found.objective
        start = objective.on_epoch_start

        def watched(epoch: int, state: Any) -> None:
            n_starts.update([state.stage])
            with NeverWaits():
                start(epoch, state)

        objective.on_epoch_start = watched
        return found

    monkeypatch.setattr(row_terms.PseudoPairs, "_only_known", row_terms.PseudoPairs._all)  # as on a GPU
    monkeypatch.setattr(assigners, "_is_at_rest", lambda *_: False)
    monkeypatch.setattr(training, "_EagerPart", Watched)
    monkeypatch.setattr(Batches, "plan", plan)
    monkeypatch.setattr(ESTIMATORS[name], "_plan", watch)
    for function in (kmeans, nearest_neighbors):

        def look(*args: Any, function: Any = function, **options: Any) -> Any:
            n_looks.update([function.__name__])
            return function(*args, **options)

        monkeypatch.setattr(row_terms, function.__name__, look)
    monkeypatch.setattr(row_terms, "EVERY", 2)
    monkeypatch.setattr("spherepair.estimators.spherepair.FIRST_EPOCH", 1)
    monkeypatch.setattr(row_terms, "MAX_ROWS", len(X) // 2)
    model = build(name)
    if name == "SpherePair":
        model.set_params(wrong_answers=None)  # the judge of wrong answers waits, every other epoch
    model.fit(X, constraints=pairs)
    model.refine(Constraints.from_pairs(must_link=[(0, 1)]), on_conflict="drop")
    assert n_steps
    assert n_starts["pairs"] == model.max_epochs
    assert n_starts["refining"] > 0
    # A refinement looks at the clusters it has.
    assert n_looks == ({"kmeans": 1, "nearest_neighbors": 2} if name == "SpherePair" else {})


@pytest.mark.parametrize(
    "ask",
    [
        *(methodcaller(name) for name in ("item", "cpu", "numpy", "tolist", "unique", "nonzero", "bincount")),
        bool, torch.repeat_interleave, lambda x: x[x > 0],
    ],
)  # fmt: skip
def test_what_waits_for_the_device_is_noticed(ask: Any) -> None:
    with pytest.raises(AssertionError, match=r"waits for the GPU|by a mask"), NeverWaits():
        ask(torch.ones(1, dtype=torch.int64))


@every_method
def test_the_same_seed_gives_the_same_bits(name: str, fitted_one: Any, X: Any, pairs: Any) -> None:
    again = build(name).fit(X, constraints=pairs)
    assert np.array_equal(again.embedding_, fitted_one.embedding_)
    assert np.array_equal(again.labels_, fitted_one.labels_)
    assert np.array_equal(again.predict_proba(X), fitted_one.predict_proba(X))


@every_method
def test_another_seed_gives_another_embedding(name: str, fitted_one: Any, X: Any, pairs: Any) -> None:
    other = build(name, random_state=1).fit(X, constraints=pairs)
    assert not np.array_equal(other.embedding_, fitted_one.embedding_)


@every_method
def test_global_random_states_are_not_moved(name: str, X: Any, pairs: Any) -> None:
    numpy_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    build(name).fit(X, constraints=pairs).refine(pairs)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


@every_method
def test_a_loaded_model_answers_alike(name: str, fitted_one: Any, X: Any, tmp_path: Path) -> None:
    fitted_one.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is type(fitted_one)
    for method in ("predict", "predict_proba", "transform"):
        assert np.array_equal(getattr(loaded, method)(X), getattr(fitted_one, method)(X))
    assert np.array_equal(loaded.labels_, fitted_one.labels_)
    assert loaded.get_params() == {**fitted_one.get_params(), "device": "auto"}


@every_method
def test_a_loaded_model_refines_alike(name: str, X: Any, y: Any, pairs: Any, tmp_path: Path) -> None:
    model = build(name).fit(X, constraints=pairs)
    model.save(tmp_path / "model")
    more = Constraints.from_labels(y, 50, random_state=9)
    loaded = load(tmp_path / "model").refine(more, X)
    assert np.array_equal(loaded.embedding_, model.refine(more).embedding_)


@every_method
def test_sparse_rows_and_tables_give_the_same_model(name: str, fitted_one: Any, X: Any, pairs: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcde"))
    for table in (sparse.csr_matrix(X), frame):
        model = build(name).fit(table, constraints=pairs)
        np.testing.assert_allclose(model.embedding_, fitted_one.embedding_, rtol=1e-4, atol=1e-4)
        assert np.array_equal(model.predict(table), model.labels_)
    assert list(model.feature_names_in_) == list("abcde")


@every_method
def test_unseen_rows_get_labels_and_probabilities(name: str, fitted_one: Any, X: Any) -> None:
    unseen = np.random.default_rng(0).uniform(X.min(), X.max(), size=(37, 5)).astype(np.float32)
    probabilities = fitted_one.predict_proba(unseen)
    assert probabilities.shape == (37, 3)
    assert fitted_one.transform(unseen).shape == (37, fitted_one.embedding_.shape[1])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-5)
    assert np.array_equal(probabilities.argmax(axis=1), fitted_one.predict(unseen))


@every_method
def test_rows_far_away_get_finite_answers(name: str, fitted_one: Any) -> None:
    far = np.full((2, 5), 1e6, dtype=np.float32)
    assert np.isfinite(fitted_one.predict_proba(far)).all()


@every_method
def test_training_rows_are_predicted_as_they_were_labelled(name: str, fitted_one: Any, X: Any) -> None:
    assert np.array_equal(fitted_one.predict(X), fitted_one.labels_)
    assert np.array_equal(fitted_one.predict_proba(X).argmax(axis=1), fitted_one.labels_)
    np.testing.assert_allclose(fitted_one.transform(X), fitted_one.embedding_, rtol=1e-5, atol=1e-5)


@every_method
def test_fitted_attributes_have_the_documented_shapes(name: str, fitted_one: Any) -> None:
    n_dims = fitted_one.embedding_.shape[1]
    assert fitted_one.labels_.shape == (120,)
    assert fitted_one.labels_.dtype == np.int64
    assert fitted_one.n_clusters_ == 3
    assert fitted_one.cluster_centers_.shape == (3, n_dims)
    last = fitted_one.history_[-1]
    assert last["stage"] == "pairs"
    terms = {k: v for k, v in last.items() if k not in ("stage", "epoch", "loss", "seconds")}
    assert terms
    assert last["loss"] == pytest.approx(sum(terms.values()), rel=1e-5, abs=1e-6)


@every_method
def test_the_number_of_clusters_can_be_asked_of_what_embeds_first(name: str, fitted_one: Any) -> None:
    if isinstance(fitted_one, EmbeddingClusterer):
        assert fitted_one.count_clusters().value >= 2
    else:
        assert not hasattr(fitted_one, "count_clusters")


@every_method
def test_spherical_embeddings_are_unit_vectors(name: str, fitted_one: Any, X: Any) -> None:
    if getattr(fitted_one, "_is_spherical", False):
        assert np.linalg.norm(fitted_one.transform(X), axis=1) == pytest.approx(1.0, abs=1e-5)


@every_method
def test_inputs_are_not_changed(name: str, X: Any, pairs: Any) -> None:
    rows, left = X.copy(), pairs.left.copy()
    build(name).fit(rows, constraints=pairs)
    assert np.array_equal(rows, X)
    assert np.array_equal(pairs.left, left)


BAD_PARAMETERS = [
    {"n_clusters": 0},
    {"n_clusters": 2.5},
    {"n_clusters": 500},
    {"learning_rate": 0.0},
    {"max_epochs": 0},
    {"batch_size": 0},
    {"hidden_dims": (16, 0)},
    {"hidden_dims": "huge"},
    {"scaling": "log"},
    {"stopping": "never"},
    {"device": "abacus"},
    {"precision": "float8"},
]


@every_method
def test_bad_parameters_are_named(name: str, X: Any, pairs: Any) -> None:
    for bad in BAD_PARAMETERS:
        with pytest.raises(InvalidParameterError, match=next(iter(bad))):
            build(name).set_params(**bad).fit(X, constraints=pairs)


@every_method
def test_bad_rows_are_refused(name: str, fitted_one: Any, X: Any, pairs: Any) -> None:
    hole = X.copy()
    hole[3, 1] = np.nan
    with pytest.raises(InvalidDataError, match="NaN"):
        build(name).fit(hole, constraints=pairs)
    with pytest.raises(InvalidDataError, match="NaN"):
        fitted_one.predict(hole)
    with pytest.raises(InvalidDataError, match="features"):
        fitted_one.predict(X[:, :4])


@every_method
def test_bad_constraints_are_refused(name: str, X: Any) -> None:
    with pytest.raises(InvalidConstraintsError, match="rows 0 and 500"):
        build(name).fit(X, constraints=Constraints.from_pairs(must_link=[(0, 500)]))
    with pytest.raises(ConflictError):
        build(name).fit(
            X, constraints=Constraints.from_pairs([(0, 1), (1, 2)], [(0, 2)]), on_conflict="raise"
        )
    with pytest.raises(InvalidConstraintsError, match="got list"):
        build(name).fit(X, constraints=[(0, 1)])


ONE_SIDED: dict[str, Callable[[], Constraints | None]] = {
    "no constraints": lambda: None,
    "all 3 constraints are must-links": lambda: Constraints.from_pairs(must_link=[(0, 1), (2, 3), (4, 5)]),
    "all 1 constraints are cannot-links": lambda: Constraints.from_pairs(cannot_link=[(0, 1)]),
    "only 2 constraints": lambda: Constraints.from_pairs([(0, 1)], [(2, 3)]),
}


@every_method
def test_few_or_one_sided_pairs_work_with_a_warning(name: str, X: Any) -> None:
    for message, make_pairs in ONE_SIDED.items():
        with pytest.warns(match=message):
            model = build(name).fit(X, constraints=make_pairs())
        assert np.isfinite(model.embedding_).all()
        assert np.array_equal(model.predict(X), model.labels_)


@every_method
def test_equal_rows_do_no_harm(name: str) -> None:
    pairs = Constraints.from_pairs([(0, 1)], [(2, 3)])
    with pytest.warns() as caught:
        model = build(name, 2).fit(np.ones((20, 3)), constraints=pairs)
    assert "only 2 constraints" in str(caught[0].message)
    assert all("1 of 2 clusters are empty" in str(more.message) for more in caught[1:])
    assert np.isfinite(model.predict_proba(np.ones((2, 3)))).all()


@every_method
def test_an_interrupted_fit_goes_on_and_ends_the_same(
    name: str, fitted_one: Any, X: Any, pairs: Any, tmp_path: Path
) -> None:
    for stage in dict.fromkeys(record["stage"] for record in fitted_one.history_):

        def interrupt(state: Any, stage: str = stage) -> None:
            if (state.stage, state.epoch) == (stage, 2):
                raise KeyboardInterrupt

        folder = tmp_path / stage
        with pytest.raises(KeyboardInterrupt):
            build(name, progress=interrupt).fit(X, constraints=pairs, checkpoint=folder)
        resumed = build(name).fit(X, constraints=pairs, checkpoint=folder)
        assert np.array_equal(resumed.embedding_, fitted_one.embedding_)
        assert np.array_equal(resumed.labels_, fitted_one.labels_)
        assert [r["loss"] for r in resumed.history_] == [r["loss"] for r in fitted_one.history_]


@pytest.mark.parametrize(
    "name", [n for n, kind in ESTIMATORS.items() if issubclass(kind, AssigningClusterer)]
)
def test_a_resumed_fit_remembers_the_labels_that_its_stopping_rule_watches(
    name: str, X: Any, pairs: Any, tmp_path: Path
) -> None:
    def interrupt(state: Any) -> None:
        if (state.stage, state.epoch) == ("pairs", 3):
            raise KeyboardInterrupt

    settings = {"max_epochs": 9, "stopping": StableLabels(min_epochs=4, tolerance=2.0)}
    whole = build(name, **settings).fit(X, constraints=pairs)
    assert sum(record["stage"] == "pairs" for record in whole.history_) == 5
    with pytest.raises(KeyboardInterrupt):
        build(name, progress=interrupt, **settings).fit(X, constraints=pairs, checkpoint=tmp_path)
    resumed = build(name, **settings).fit(X, constraints=pairs, checkpoint=tmp_path)
    assert np.array_equal(resumed.embedding_, whole.embedding_)


@every_method
def test_the_whole_objective_can_be_watched(name: str, X: Any, pairs: Any) -> None:
    rule = PaperRule(min_epochs=2, tolerance=1e9, patience=1)  # any finite change is small enough
    model = build(name, stopping=rule, max_epochs=9).fit(X, constraints=pairs)
    assert sum(record["stage"] == "pairs" for record in model.history_) == 2


@every_method
def test_refining_goes_on_from_the_model(name: str, X: Any, y: Any, pairs: Any) -> None:
    model = build(name).fit(X, constraints=pairs)
    before = len(model.history_)
    model.refine(Constraints.from_labels(y, 50, random_state=9))
    assert {record["stage"] for record in model.history_[before:]} == {"refining"}
    assert np.array_equal(model.predict(X), model.labels_)
    assert len(model.constraints_) > len(pairs)


@every_method
def test_the_papers_protocol_can_be_overridden(name: str) -> None:
    model = ESTIMATORS[name].paper(10, max_epochs=7)
    assert (model.n_clusters, model.scaling, model.max_epochs) == (10, "none", 7)


@every_method
def test_it_learns_digits(name: str) -> None:
    assert accuracy_on_digits(name) > LEARNING[name][1]


@every_method
def test_without_pairs_only_what_learns_from_rows_is_trained(name: str, X: Any) -> None:
    with pytest.warns(ConstraintWarning, match="no constraints"):
        model = build(name).fit(X)
    is_trained = "pairs" in {record["stage"] for record in model.history_}
    assert is_trained is not model._needs_pairs
    assert is_trained or name not in ("CIDEC", "DCGMM", "SDEC")

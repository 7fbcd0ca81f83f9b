from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from spherepair import Schedule, SpherePair, Terms
from spherepair.baselines import AutoEmbedder, VolMaxDCC
from spherepair.errors import InvalidParameterError, TrainingDivergedError
from spherepair.training.optimization import (
    FixedEpochs,
    PaperRule,
    ReleasedCodeRule,
    SettledRule,
    StableLabels,
)
from spherepair.training.pretraining import JointPretraining, StackedPretraining


def test_more_clusters_than_rows_are_refused(make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidParameterError, match="n_clusters=121 is more than the 120 rows"):
        make(121).fit(X, constraints=pairs)


INVALID = {
    "n_clusters": [0, -1, 2.5, "many", None, True, "x" * 10**6],
    "embedding_dim": [0, 1.5, "wide"],
    "hidden_dims": [(0,), (-3, 4), (32.5,), ("a",), "huge", 7, np.array(3), np.eye(2)],
    "omega": [0.5, -1.0, "2", np.nan, np.inf, True],
    "reconstruction_weight": [-0.1, None, np.nan],
    "pretraining": ["stack", 3, True],
    "scaling": ["minmax", None],
    "clustering": ["dbscan", 3, KMeans],
    "terms": ["all", 0.2, {"neighbor_weight": 0.0}, Terms],
    "tail_ratio": [0.0, 1.0, -0.5],
    "batch_size": [0, 2.5, "auto", True],
    "max_epochs": [0, 1.5],
    "schedule": ["paper", 20, {"min_steps": 1}],
    "wrong_answers": ["none", 1.5, -0.1, False],
    "learning_rate": [0.0, -1e-3, np.inf],
    "stopping": ["never", 5, object()],
    "encoder": ["mlp", 3],
    "device": ["gpu", 3.5],
    "precision": ["float16", None],
    "random_state": ["zero", -1, True, float("nan")],
    "progress": ["always", 2.5],
}


INVALID_FIELDS = {
    (Terms, "must_link_weight"): [0, -1.0, "balanced", None, np.nan, np.inf, True, np.array([1, 2])],
    (Terms, "neighbor_weight"): [-0.1, None, np.nan, "auto"],
    (Terms, "pseudo_pair_weight"): [-0.1, "auto", np.inf],
    (Schedule, "min_steps"): [0, 2.5, None, True],
    (Schedule, "reconstruction_rows"): [0, "some", 1.5, None],
    (Schedule, "ema"): ["yes", 0.5, None],
    (SettledRule, "min_epochs"): [-1, 0.5, "x", None, np.nan, True],
    (SettledRule, "settled"): [-1.0, "x", None, np.inf],
    (SettledRule, "patience"): [0, 2.5, [1], np.array([1, 2])],
    (SettledRule, "stale"): [0, "40"],
    (SettledRule, "watches"): [None, 3, np.array([1, 2])],
    (PaperRule, "min_epochs"): [-1, "x"],
    (PaperRule, "tolerance"): [np.nan, "x"],
    (PaperRule, "patience"): [0, None],
    (PaperRule, "watches"): [b"loss"],
    (ReleasedCodeRule, "min_epochs"): [-1, {}],
    (ReleasedCodeRule, "watches"): [0],
    (StableLabels, "min_epochs"): [-1, 1e300],
    (StableLabels, "tolerance"): [-0.1, np.nan],
    (StableLabels, "watches"): [()],
    (FixedEpochs, "watches"): [None],
    (JointPretraining, "epochs"): [0, 10**9, True, "x"],
    (JointPretraining, "min_steps"): [0, 2.5],
    (JointPretraining, "learning_rate"): [-1.0, True, np.nan, 1e300],
    (JointPretraining, "batch_size"): [0, np.array([1, 2])],
    (JointPretraining, "warm_up"): [2.0, -0.1, False],
    (StackedPretraining, "layer_epochs"): [0, None],
    (StackedPretraining, "epochs"): [0, None],
    (StackedPretraining, "batch_size"): [0, None],
    (StackedPretraining, "initial_range"): [np.nan, -1, "x", None, object(), 1e300],
}


def test_every_field_of_the_settings_is_tried_with_invalid_values() -> None:
    kinds = (*SpherePair._settings, StackedPretraining)
    assert {(kind, field.name) for kind in kinds for field in fields(kind)} == set(INVALID_FIELDS)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for (kind, name), values in INVALID_FIELDS.items() for value in values],
)
def test_an_invalid_field_of_the_settings_is_named(kind: Any, name: str, value: Any) -> None:
    wanted = rf"^{kind.__name__}: {name} must be .*, got .* instead\.$"
    with pytest.raises(InvalidParameterError, match=wanted):
        kind(**{name: value})


def test_settings_take_numbers_of_numpy() -> None:
    assert Terms(must_link_weight=np.float32(2), neighbor_weight=np.int64(0)).must_link_weight == 2.0
    assert Schedule(min_steps=np.int32(3), ema=np.bool_(True)).min_steps == 3


@pytest.mark.parametrize("rule", [SettledRule(min_epochs=0), PaperRule(0, patience=1), ReleasedCodeRule(0)])
def test_rules_without_a_least_number_of_epochs_run_at_least_one(rule: Any) -> None:
    assert rule.should_stop([]) is False


@pytest.mark.parametrize("method", [SpherePair, VolMaxDCC])
def test_numbers_of_few_bytes_are_the_numbers_that_they_are(method: Any, X: Any, pairs: Any) -> None:
    """Sums and products of them would begin again below zero."""
    brief = {"hidden_dims": (8,), "max_epochs": 1, "progress": False, "random_state": 0}
    found = [
        method(kind(3), batch_size=kind(100), **brief).fit(X, constraints=pairs).embedding_
        for kind in (int, np.int8)
    ]
    np.testing.assert_array_equal(*found)


def test_every_parameter_is_tried_with_invalid_values() -> None:
    assert set(INVALID) == set(SpherePair().get_params())


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in INVALID.items() for value in values]
)
def test_an_invalid_parameter_is_named(name: str, value: Any, make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidParameterError, match=name) as caught:
        make().set_params(**{name: value}).fit(X, constraints=pairs)
    assert len(str(caught.value)) < 400


def test_an_encoder_that_does_not_fit_the_table_is_refused(make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidParameterError, match="encoder does not accept rows of 5 features"):
        make(encoder=torch.nn.Linear(6, 4)).fit(X, constraints=pairs)
    with pytest.raises(InvalidParameterError, match="encoder must map"):
        make(encoder=torch.nn.Flatten(0)).fit(X, constraints=pairs)
    with pytest.raises(InvalidParameterError, match="embedding_dim=9, but the encoder gives 4"):
        make(encoder=torch.nn.Linear(5, 4), embedding_dim=9).fit(X, constraints=pairs)


def test_stacked_pretraining_refuses_an_encoder_without_mirrored_layers(
    make: Any, X: Any, pairs: Any
) -> None:
    with pytest.raises(InvalidParameterError, match="pretraining='stacked'"):
        make(encoder=torch.nn.Linear(5, 4), pretraining="stacked").fit(X, constraints=pairs)


@pytest.mark.parametrize("method", [SpherePair, AutoEmbedder])
@pytest.mark.parametrize("rule", ["stable-labels", StableLabels(min_epochs=3)])
def test_methods_without_clusters_while_they_train_refuse_to_stop_on_stable_labels(
    method: Any, rule: Any, X: Any, pairs: Any
) -> None:
    epochs: list[Any] = []
    model = method(3, hidden_dims=(8,), pretraining=None, stopping=rule, progress=epochs.append)
    with pytest.raises(InvalidParameterError, match=rf"stopping=.*, but {method.__name__} .*; use 'settled'"):
        model.fit(X, constraints=pairs)
    assert not epochs


def test_training_that_diverges_says_what_to_lower(make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(TrainingDivergedError, match="learning_rate"):
        make(scaling="none", pretraining=None).fit(1e30 * X, constraints=pairs)

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from spherepair import Schedule, SpherePair, Terms
from spherepair.baselines import AutoEmbedder
from spherepair.errors import InvalidParameterError, TrainingDivergedError
from spherepair.training.optimization import StableLabels


def test_more_clusters_than_rows_are_refused(make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidParameterError, match="n_clusters=121 is more than the 120 rows"):
        make(121).fit(X, constraints=pairs)


INVALID = {
    "n_clusters": [0, -1, 2.5, "many", None],
    "embedding_dim": [0, 1.5, "wide"],
    "hidden_dims": [(0,), (-3, 4), (32.5,), ("a",), "huge", 7],
    "omega": [0.5, -1.0, "2", np.nan, np.inf],
    "reconstruction_weight": [-0.1, None, np.nan],
    "pretraining": ["stack", 3, True],
    "scaling": ["minmax", None],
    "clustering": ["dbscan", 3, KMeans],
    "terms": ["all", 0.2, {"neighbor_weight": 0.0}, Terms],
    "tail_ratio": [0.0, 1.0, -0.5],
    "batch_size": [0, 2.5, "auto"],
    "max_epochs": [0, 1.5],
    "schedule": ["paper", 20, {"min_steps": 1}],
    "wrong_answers": ["none", 1.5, -0.1],
    "learning_rate": [0.0, -1e-3, np.inf],
    "stopping": ["never", 5, object()],
    "encoder": ["mlp", 3],
    "device": ["gpu", 3.5],
    "precision": ["float16", None],
    "random_state": ["zero", -1],
    "progress": ["always", 2.5],
}


INVALID_FIELDS = {
    (Terms, "must_link_weight"): [0, -1.0, "balanced", None, np.nan, np.inf, True],
    (Terms, "neighbor_weight"): [-0.1, None, np.nan, "auto"],
    (Terms, "pseudo_pair_weight"): [-0.1, "auto", np.inf],
    (Schedule, "min_steps"): [0, 2.5, None, True],
    (Schedule, "reconstruction_rows"): [0, "some", 1.5, None],
    (Schedule, "ema"): ["yes", 0.5, None],
}


def test_every_field_of_the_settings_is_tried_with_invalid_values() -> None:
    assert {(kind, field.name) for kind in (Terms, Schedule) for field in fields(kind)} == set(INVALID_FIELDS)


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


def test_every_parameter_is_tried_with_invalid_values() -> None:
    assert set(INVALID) == set(SpherePair().get_params())


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in INVALID.items() for value in values]
)
def test_an_invalid_parameter_is_named(name: str, value: Any, make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        make().set_params(**{name: value}).fit(X, constraints=pairs)


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

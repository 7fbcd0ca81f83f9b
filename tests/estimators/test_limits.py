"""Parameters beyond all reason, rows that do not differ, and random layers of a user's encoder."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from spherepair import Constraints, Schedule, SpherePair, Terms
from spherepair.baselines import CIDEC, DCGMM, SDEC, AutoEmbedder, VanillaDCC, VolMaxDCC
from spherepair.errors import (
    ConstraintWarning,
    InvalidDataError,
    InvalidParameterError,
    SpherePairWarning,
)
from spherepair.training.pretraining import JointPretraining

BRIEF = {"hidden_dims": (8,), "pretraining": None, "max_epochs": 2, "progress": False, "random_state": 0}

ABSURD: dict[str, Any] = {
    "hidden_dims": [(10**6, 10**6), (2**17,), (65536, 65536), (0,), (True,), (8.5,), [10**30]],
    "embedding_dim": [10**12, 0, 65537],
    "device": ["meta", "fpga", "cuda:99", "no such device"],
    "batch_size": [10**12],
    "max_epochs": [10**12],
    "learning_rate": [1e300, float("inf"), float("nan")],
    "omega": [1e300, 0.5],
    "reconstruction_weight": [1e300, -1],
    "n_clusters": [10**12, -1],
}


@pytest.mark.parametrize("name", ABSURD)
def test_a_parameter_beyond_all_reason_is_refused_with_a_sentence(name: str, X: Any, pairs: Any) -> None:
    for value in ABSURD[name]:
        with pytest.raises(InvalidParameterError) as caught:
            SpherePair(**({"n_clusters": 3} | BRIEF | {name: value})).fit(X, constraints=pairs)
        assert len(str(caught.value)) < 400


def test_settings_beyond_all_reason_are_refused() -> None:
    for given in (
        {"must_link_weight": 1e300},
        {"neighbor_weight": 1e7},
        {"pseudo_pair_weight": float("nan")},
    ):
        with pytest.raises(InvalidParameterError, match=r"(up|from 0) to 1e\+06"):
            Terms(**given)
    for given in ({"min_steps": 10**5}, {"reconstruction_rows": 10**9}):
        with pytest.raises(InvalidParameterError, match="from 1 to"):
            Schedule(**given)
    absurd = ({"epochs": 0}, {"epochs": 10**9}, {"min_steps": "x"}, {"learning_rate": -1.0}, {"warm_up": 2.0})
    for settings in absurd:
        with pytest.raises(InvalidParameterError, match="JointPretraining"):
            JointPretraining(**settings)


@pytest.mark.filterwarnings("ignore::spherepair.errors.ConstraintWarning")
def test_empty_clusters_are_reported() -> None:
    same = np.ones((20, 3))
    with pytest.warns(SpherePairWarning, match=r"2 of 3 clusters are empty.* lower n_clusters"):
        SpherePair(3, **BRIEF).fit(same)


@pytest.mark.filterwarnings("ignore::spherepair.errors.ConstraintWarning")
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_more_groups_than_clusters_are_proved_by_a_clique(n_clusters: int, X: Any) -> None:
    clique = [(i, j) for i in range(5) for j in range(i)]
    with pytest.warns(ConstraintWarning, match=r"at least 5 groups: rows .*, but n_clusters is"):
        SpherePair(n_clusters, **BRIEF).fit(X, constraints=Constraints.from_pairs([(10, 11)], clique))


def fit_with_dropout(encoder: Any, X: Any, pairs: Any, seed: int) -> Any:
    """Dropout draws from torch's global generator."""
    settings = {"pretraining": None, "max_epochs": 1, "progress": False, "random_state": seed}
    schedule = Schedule(min_steps=3)
    model = SpherePair(3, encoder=copy.deepcopy(encoder), schedule=schedule, **settings)
    return model.fit(X, constraints=pairs).embedding_


def test_random_layers_draw_the_same_in_threads_and_leave_the_global_generator_alone(
    X: Any, pairs: Any
) -> None:
    layers = [torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(8, 4)]
    encoder = torch.nn.Sequential(*layers)
    alone = [fit_with_dropout(encoder, X, pairs, seed) for seed in range(3)]
    before = torch.get_rng_state()
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: fit_with_dropout(encoder, X, pairs, seed), range(3)))
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(alone[0], alone[1])


METHODS = [
    (SpherePair, {"pretraining": JointPretraining(epochs=1, min_steps=1)}),
    (CIDEC, {"pretraining": None}),
    (SDEC, {"pretraining": None}),
    (DCGMM, {"pretraining_epochs": 1}),
    (VanillaDCC, {}),
    (VolMaxDCC, {}),
    (AutoEmbedder, {"pretraining": None}),
]


@pytest.mark.parametrize(("method", "settings"), METHODS, ids=lambda value: getattr(value, "__name__", ""))
def test_no_method_draws_from_the_global_generator(method: Any, settings: Any, X: Any, pairs: Any) -> None:
    before = torch.get_rng_state()
    common = {"hidden_dims": (8,), "max_epochs": 1, "progress": False, "random_state": 0}
    method(3, **(common | settings)).fit(X, constraints=pairs)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.filterwarnings("ignore::spherepair.errors.ConstraintWarning")
@pytest.mark.parametrize("method", [SpherePair, VanillaDCC])
def test_a_network_for_too_many_columns_is_refused_before_it_is_made(method: Any) -> None:
    wide = sparse.csr_matrix((np.ones(3), ([0, 1, 2], [0, 5, 9_999_999])), shape=(3, 10**7))
    with pytest.raises(InvalidDataError, match=r"GiB, where there are .*; give fewer columns"):
        method(2, hidden_dims=(60_000,), progress=False).fit(wide)

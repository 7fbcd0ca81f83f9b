"""VolMaxDCC: its objective, its two learning rates, and the search for the weight of the volume."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from spherepair import Constraints, load
from spherepair.baselines import VolMaxDCC
from spherepair.errors import InvalidParameterError
from spherepair.estimators.dcc import VOLUME_WEIGHTS, VolMaxDCCObjective
from spherepair.estimators.job import FIT, Job
from spherepair.estimators.setting_search import split_pairs
from spherepair.networks.baseline_networks import NoisyLinkClassifier, classifier_body
from spherepair.training import Recipe
from spherepair.training.batches import Batch
from spherepair.training.hardware import choose_hardware
from spherepair.training.rows import ResidentRows, Scaling

CPU = choose_hardware("cpu", "float32")
QUICK = {"hidden_dims": (16,), "max_epochs": 4, "volume_rows": 60, "random_state": 0, "progress": False}


def make_objective(*, volume_weight: float) -> tuple[VolMaxDCCObjective, Batch]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 4, generator=generator)
    body = classifier_body(4, 3, hidden_dims=(8,), generator=generator)
    network = NoisyLinkClassifier(body, 3, volume_weight=volume_weight)
    rows = ResidentRows(x, Scaling.identity())
    objective = VolMaxDCCObjective(network, rows, CPU, batch_norm=False, link_rate_factor=0.2)
    link, ones = torch.tensor([True, False, False, True]), torch.ones(12)
    return objective, Batch(x, link, ones[:4], ones, torch.arange(8, 20))


def literal(network: Any, batch: Batch, volume_weight: float) -> torch.Tensor:
    q = network.encode(batch.x).softmax(dim=1)
    p = torch.einsum("ni,ij,nj->n", q[:4], network.link_logits.sigmoid(), q[4:8])
    pairs = torch.nn.functional.binary_cross_entropy(p, batch.is_must_link.float())
    gram = q[8:].T @ q[8:] + 1e-6 * torch.eye(3)
    return pairs - volume_weight * torch.logdet(gram)


@pytest.mark.parametrize("volume_weight", [0.0, 1e-2, 1.0])
def test_the_objective_is_the_literal_formula(volume_weight: float) -> None:
    objective, batch = make_objective(volume_weight=volume_weight)
    ours, theirs = sum(objective.terms(batch).values()), literal(objective.network, batch, volume_weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    parameters = [p for group, _ in objective.parameter_groups() for p in group]
    for one, other in zip(
        torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_b_starts_at_plus_and_minus_one_and_learns_at_its_own_rate() -> None:
    objective, _ = make_objective(volume_weight=0.0)
    assert objective.network.link_logits.tolist() == [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    (_, network_factor), (links, link_factor) = objective.parameter_groups()
    assert (network_factor, link_factor) == (1.0, 0.2)
    assert len(links) == 1
    assert links[0] is objective.network.link_logits


def test_the_learning_rates_are_the_papers() -> None:
    model = VolMaxDCC.paper(10)
    model._hardware = CPU
    rows = ResidentRows(torch.zeros(4, 2), Scaling.identity())
    network = make_objective(volume_weight=0.0)[0].network
    job = Job(rows, Constraints.from_pairs([(0, 1)]), network, SimpleNamespace(seed=0))
    assert model._plan(job, FIT).recipe == Recipe("sgd", learning_rate=0.5, clip_norm=1.0)
    assert (model.link_learning_rate, model.batch_size, model.volume_rows) == (0.1, 128, 10_000)


def test_every_parameter_is_trained() -> None:
    objective, _ = make_objective(volume_weight=0.0)
    grouped = {id(p) for group, _ in objective.parameter_groups() for p in group}
    assert grouped == {id(p) for p in objective.parameters()}


def test_the_volume_keeps_clusters_from_falling_together(X: Any, pairs: Any) -> None:
    """With must-links only, one cluster for all satisfies every pair; the volume speaks against it."""
    must = pairs[pairs.is_must_link]
    settings = QUICK | {"max_epochs": 60, "stopping": "fixed"}
    used = []
    for weight in (0.0, 0.1):
        with pytest.warns(match="must-links"):
            model = VolMaxDCC(3, volume_weight=weight, **settings).fit(X, constraints=must)
        used.append(len(np.unique(model.labels_)))
    assert used[0] < used[1] == 3


def test_the_search_takes_a_value_of_the_grid_and_remembers_it(X: Any, pairs: Any, tmp_path: Path) -> None:
    stages: list[str] = []
    model = VolMaxDCC(3, volume_weight="search", **QUICK | {"progress": lambda s: stages.append(s.stage)})
    model.fit(X, constraints=pairs)
    assert stages[:4].count("search") == 4
    assert stages.count("search") == 4 * len(VOLUME_WEIGHTS)
    assert model.volume_weight == "search"
    assert any(model.volume_weight_ == pytest.approx(value) for value in VOLUME_WEIGHTS)
    assert {record["stage"] for record in model.history_} == {"pairs"}
    model.set_params(progress=False).save(tmp_path / "model")
    assert load(tmp_path / "model").volume_weight_ == model.volume_weight_
    given = VolMaxDCC(3, volume_weight=model.volume_weight_, **QUICK).fit(X, constraints=pairs)
    assert np.array_equal(given.embedding_, model.embedding_)


def test_the_search_takes_the_first_of_the_best_by_held_out_pairs(
    X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.5, 0.7, 0.9, 0.9, 0.6, 0.4])
    held_out: list[int] = []

    def share(labels: Any, left: Any, *args: Any, **kwargs: Any) -> SimpleNamespace:
        held_out.append(len(left))
        return SimpleNamespace(total=next(shares))

    monkeypatch.setattr("spherepair.estimators.setting_search.pair_satisfaction", share)
    model = VolMaxDCC(3, volume_weight="search", **QUICK).fit(X, constraints=pairs)
    assert model.volume_weight_ == pytest.approx(VOLUME_WEIGHTS[2])
    assert held_out == [60] * 6


def test_an_interrupted_fit_does_not_search_again(X: Any, pairs: Any, tmp_path: Path) -> None:
    def interrupt(state: Any) -> None:
        if (state.stage, state.epoch) == ("pairs", 3):
            raise KeyboardInterrupt

    seen: list[str] = []
    settings = QUICK | {"volume_weight": "search"}
    whole = VolMaxDCC(3, **settings).fit(X, constraints=pairs)
    with pytest.raises(KeyboardInterrupt):
        VolMaxDCC(3, **settings | {"progress": interrupt}).fit(X, constraints=pairs, checkpoint=tmp_path)
    resumed = VolMaxDCC(3, **settings | {"progress": lambda state: seen.append(state.stage)})
    resumed.fit(X, constraints=pairs, checkpoint=tmp_path)
    assert set(seen) == {"pairs"}
    assert resumed.volume_weight_ == whole.volume_weight_
    assert np.array_equal(resumed.embedding_, whole.embedding_)


def test_a_fifth_of_the_pairs_is_held_out(pairs: Any) -> None:
    kept, held_out = split_pairs(pairs, seed=0)
    assert (len(kept), len(held_out)) == (240, 60)
    assert len(kept | held_out) == 300


def test_bad_weights_are_refused(X: Any, pairs: Any) -> None:
    for bad in ({"volume_weight": -1.0}, {"volume_weight": "best"}, {"link_learning_rate": 0.0}):
        with pytest.raises(InvalidParameterError, match=next(iter(bad))):
            VolMaxDCC(3, **QUICK | bad).fit(X, constraints=pairs)

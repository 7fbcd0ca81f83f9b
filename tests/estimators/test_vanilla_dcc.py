"""VanillaDCC: its objective, batch normalisation, and what is left without pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from spherepair import Constraints
from spherepair.baselines import VanillaDCC
from spherepair.estimators.dcc import VanillaDCCObjective
from spherepair.networks.baseline_networks import Classifier, classifier_body
from spherepair.training.batches import Batch
from spherepair.training.hardware import choose_hardware
from spherepair.training.rows import ResidentRows, Scaling

CPU = choose_hardware("cpu", "float32")


def make_objective(*, batch_norm: bool, n_rows: int = 12) -> tuple[VanillaDCCObjective, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n_rows, 4, generator=generator)
    body = classifier_body(4, 3, hidden_dims=(8,), batch_norm=batch_norm, generator=generator)
    rows = ResidentRows(x, Scaling.identity())
    return VanillaDCCObjective(Classifier(body), rows, CPU, batch_norm=batch_norm), x


def make_batch(x: torch.Tensor, *, weight: torch.Tensor | None = None) -> Batch:
    n_pairs = len(x) // 2
    return Batch(
        x=x,
        is_must_link=torch.arange(n_pairs) % 2 == 0,
        pair_weight=torch.ones(n_pairs) if weight is None else weight,
        row_weight=torch.ones(0),
        row_index=torch.zeros(0, dtype=torch.int64),
    )


def test_the_objective_is_the_binary_cross_entropy_of_shared_clusters() -> None:
    objective, x = make_objective(batch_norm=False)
    q = objective.network.encode(x).softmax(dim=1)
    similarity = (q[:6] * q[6:]).sum(dim=1)
    batch = make_batch(x)
    expected = torch.nn.functional.binary_cross_entropy(similarity, batch.is_must_link.float())
    torch.testing.assert_close(objective.terms(batch)["pairs"], expected)
    ours = torch.autograd.grad(objective.terms(batch)["pairs"], list(objective.parameters()))
    theirs = torch.autograd.grad(expected, list(objective.parameters()))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_either_side_of_the_pairs_is_normalised_by_its_own_statistics() -> None:
    objective, x = make_objective(batch_norm=True)
    together = objective.encode(make_batch(x))
    apart = torch.cat([objective.network.encode(x[:6]), objective.network.encode(x[6:])])
    torch.testing.assert_close(together, apart)
    assert not torch.allclose(together, objective.network.encode(x))


def test_a_single_pair_survives_batch_normalisation(X: Any) -> None:
    pairs = Constraints.from_pairs(must_link=[(0, 1)])
    model = VanillaDCC(3, hidden_dims=(8,), batch_norm=True, max_epochs=2, progress=False)
    with pytest.warns(match="must-links"):
        assert np.isfinite(model.fit(X, constraints=pairs).embedding_).all()


def test_batch_normalisation_predicts_by_running_statistics(X: Any, y: Any, pairs: Any) -> None:
    model = VanillaDCC(3, hidden_dims=(32,), batch_norm=True, random_state=0, progress=False)
    model.fit(X, constraints=pairs)
    assert model.score_pairs(pairs) > 0.95
    one_by_one = np.concatenate([model.predict(X[i : i + 1]) for i in range(20)])
    assert np.array_equal(one_by_one, model.labels_[:20])


def test_training_stops_when_labels_are_stable(X: Any, pairs: Any) -> None:
    model = VanillaDCC(3, hidden_dims=(32,), random_state=0, progress=False).fit(X, constraints=pairs)
    assert 11 <= len(model.history_) < 300


def test_swapped_cluster_numbers_are_no_change_of_labels() -> None:
    objective, _ = make_objective(batch_norm=False)
    assert objective.changed_labels() == 1.0
    assert objective.changed_labels() == 0.0
    last = objective.network.body[-1]
    with torch.no_grad():
        last.weight.copy_(last.weight.roll(1, dims=0))
        last.bias.copy_(last.bias.roll(1))
    assert objective.changed_labels() == 0.0


def test_without_pairs_nothing_is_trained(X: Any) -> None:
    with pytest.warns(match="no constraints"):
        model = VanillaDCC(3, hidden_dims=(8,), progress=False).fit(X)
    assert model.history_ == []
    assert model.predict(X).shape == (120,)

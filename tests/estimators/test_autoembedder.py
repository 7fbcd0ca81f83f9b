"""AutoEmbedder: its two branches, its objective, its margins and its clusterers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spherepair import load
from spherepair.baselines import AutoEmbedder
from spherepair.errors import InvalidParameterError
from spherepair.estimators.autoembedder import AutoEmbedderObjective
from spherepair.estimators.job import FIT
from spherepair.metrics import clustering_accuracy
from spherepair.networks.baseline_networks import build_twin
from spherepair.training.batches import Batch
from spherepair.training.pretraining import JointPretraining, StackedPretraining

QUICK = {
    "hidden_dims": (16, 8),
    "pretraining": JointPretraining(epochs=2, min_steps=2),
    "max_epochs": 4,
    "random_state": 0,
    "progress": False,
}


def make_network(*, tied: bool) -> Any:
    generator = torch.Generator().manual_seed(0)
    return build_twin(4, 3, hidden_dims=(8, 6), tied=tied, margin=2.0, cap=5.0, generator=generator)


def make_batch() -> Batch:
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))
    return Batch(x, torch.arange(6) % 2 == 0, torch.ones(6), torch.ones(0), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize("tied", [True, False])
def test_the_objective_is_the_literal_formula(tied: bool) -> None:
    network, batch = make_network(tied=tied), make_batch()
    objective = AutoEmbedderObjective(network)
    d = (network.encode(batch.x[:6]) - network.encode_right(batch.x[6:])).norm(dim=1)
    must, cannot = d.clamp(max=5.0).square(), (2.0 - d.clamp(max=2.0)).square()
    expected = torch.where(batch.is_must_link, must, cannot).mean()
    ours = objective.terms(batch)["pairs"]
    torch.testing.assert_close(ours, expected)
    parameters = objective.parameter_groups()[0][0]
    for one, other in zip(
        torch.autograd.grad(ours, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_untied_branches_have_their_own_weights_and_no_relu_before_the_last_layer() -> None:
    network, x = make_network(tied=False), make_batch().x
    first = network.autoencoder.encoder
    torch.testing.assert_close(network.encode(x), first[4](first[2](first[1](first[0](x)))))
    assert not torch.allclose(network.encode(x), network.encode_right(x))
    assert len(list(network.encoder_parameters())) == 12


def test_tied_ends_pass_the_autoencoders_encoder() -> None:
    network, x = make_network(tied=True), make_batch().x
    torch.testing.assert_close(network.encode(x), network.autoencoder.encode(x))
    torch.testing.assert_close(network.encode_right(x), network.encode(x))
    assert len(list(network.encoder_parameters())) == 6


def test_pretraining_touches_the_first_branch_only(X: Any, pairs: Any) -> None:
    seen: list[dict[str, torch.Tensor]] = []

    def look(state: Any) -> None:
        if state.stage == "pairs" and state.epoch == 1:
            seen.append({k: v.clone() for k, v in state.objective.state_dict().items()})

    for pretraining in (None, QUICK["pretraining"]):
        settings = QUICK | {"pretraining": pretraining, "progress": look, "learning_rate": 1e-30}
        AutoEmbedder(3, **settings).fit(X, constraints=pairs)
    plain, pretrained = seen
    assert torch.equal(plain["network.second.0.weight"], pretrained["network.second.0.weight"])
    first = "network.autoencoder.encoder.0.weight"
    assert not torch.equal(plain[first], pretrained[first])


def test_the_decoder_is_left_alone_by_pairs(X: Any, pairs: Any) -> None:
    decoders = []
    for n_epochs in (1, 4):
        model = AutoEmbedder(3, **QUICK | {"max_epochs": n_epochs}).fit(X, constraints=pairs)
        decoders.append(model.network_.autoencoder.decoder[0].weight)
    assert torch.equal(*decoders)


def test_stacked_pretraining_works(X: Any, pairs: Any) -> None:
    stacked = StackedPretraining(layer_epochs=2, epochs=2)
    model = AutoEmbedder(3, **QUICK | {"pretraining": stacked}).fit(X, constraints=pairs)
    assert model.history_[0]["stage"] == "pretraining layer 1"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("clustering", ["kmeans", "ward"])
def test_blobs_are_learned(tied: bool, clustering: str, X: Any, y: Any, pairs: Any) -> None:
    if clustering == "ward":
        pytest.importorskip("fastcluster")
    settings = QUICK | {"max_epochs": 60, "margin": 10.0, "tied": tied, "clustering": clustering}
    model = AutoEmbedder(3, **settings).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) > 0.9
    assert clustering_accuracy(y, model.predict(X)) > 0.9


def test_pairs_are_turned_round_alike_in_every_fit_and_about_half_of_them(X: Any, pairs: Any) -> None:
    """Lists of pairs often have the smaller position first: each branch would see its own rows."""
    seen = []

    def look(self: Any, job: Any, stage: Any) -> Any:
        plan = original(self, job, stage)
        if stage == FIT:
            seen.append(plan.batches[0].pairs.left.numpy())
        return plan

    original = AutoEmbedder._plan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoEmbedder, "_plan", look)
        for _ in range(2):
            AutoEmbedder(3, **QUICK).fit(X, constraints=pairs)
    assert np.array_equal(*seen)
    assert 0.4 < np.mean(seen[0] == pairs.left) < 0.6


def test_the_search_takes_values_of_the_grid(X: Any, pairs: Any, tmp_path: Path) -> None:
    stages: list[str] = []
    settings = QUICK | {"max_epochs": 1, "margin": "search", "cap": "search"}
    model = AutoEmbedder(3, **settings | {"progress": lambda state: stages.append(state.stage)})
    model.fit(X, constraints=pairs)
    assert stages.count("search") == 21
    assert stages.count("pretraining") == 2
    assert model.margin_ in (1, 10, 50, 100, 500, 1000, 5000)
    assert model.cap_ in (100, 1000, 10_000)
    model.set_params(progress=False).save(tmp_path / "model")
    assert load(tmp_path / "model").margin_ == model.margin_


def test_only_what_was_asked_for_is_searched(X: Any, pairs: Any) -> None:
    model = AutoEmbedder(3, **QUICK | {"max_epochs": 1, "margin": 7.0, "cap": "search"})
    assert model.fit(X, constraints=pairs).margin_ == 7.0


def test_the_number_of_clusters_can_be_read_from_the_embedding(X: Any, pairs: Any) -> None:
    model = AutoEmbedder(3, **QUICK | {"max_epochs": 60, "margin": 10.0}).fit(X, constraints=pairs)
    assert model.count_clusters(method="silhouette").value == 3


def test_bad_margins_are_refused(X: Any, pairs: Any) -> None:
    for bad in ({"margin": 0.0}, {"margin": "wide"}, {"cap": -1.0}, {"tied": "no"}, {"clustering": "magic"}):
        with pytest.raises(InvalidParameterError, match=next(iter(bad))):
            AutoEmbedder(3, **QUICK | bad).fit(X, constraints=pairs)

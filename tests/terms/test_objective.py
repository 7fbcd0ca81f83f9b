"""Further terms and averaged weights: in the objective, and in whole fits under all circumstances."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from spherepair import Schedule, SpherePair, Terms
from spherepair.errors import ConstraintWarning
from spherepair.losses import PairGroup
from spherepair.metrics import clustering_accuracy
from spherepair.networks import build_autoencoder
from spherepair.terms import SemiSupervisedObjective, SpherePairObjective
from spherepair.training.batches import Batches, PairTensors
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import StackedPretraining
from spherepair.training.rows import ResidentRows, Scaling

CPU = Hardware(torch.device("cpu"), "float32")
NO_TERMS = Terms(must_link_weight=1.0, neighbor_weight=0.0, pseudo_pair_weight=0.0)
PLAIN = {"terms": NO_TERMS, "schedule": Schedule(min_steps=4, ema=False)}
#: More than the ten epochs after which pseudo-pairs take part.
LONGER = {"hidden_dims": (16,), "max_epochs": 22, "stopping": "fixed"}


def make_objective(*, ema: bool = True, network: Any = None, **further: nn.Module) -> Any:
    generator = torch.Generator().manual_seed(0)
    if network is None:
        network = build_autoencoder(4, 3, hidden_dims=[8], generator=generator)
    rows = ResidentRows(torch.randn(30, 4, generator=generator), Scaling.identity())
    return SemiSupervisedObjective(
        network, rows, CPU, omega=2.0, reconstruction_weight=0.1, further=further, ema=ema
    )


def weights(network: nn.Module) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in network.state_dict().values()]


def averages(objective: SemiSupervisedObjective) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in objective.ema.buffers()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def train_a_little(objective: SemiSupervisedObjective, amount: float) -> None:
    """What an epoch does to the weights, here the same to all of them."""
    with torch.no_grad():
        for parameter in objective.network.parameters():
            parameter.add_(amount)


def pass_epochs(objective: SemiSupervisedObjective, n_epochs: int, amount: float = 1.0) -> list[Any]:
    """So many epochs that move the weights; returns them after each."""
    seen = []
    for epoch in range(n_epochs):
        objective.on_epoch_start(epoch, None)
        train_a_little(objective, amount)
        seen.append(weights(objective.network))
    return seen


class Ended:
    """Of the state of training, what the end looks at."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


def test_the_average_of_constant_weights_is_the_weights_bit_for_bit():
    objective = make_objective()
    before = weights(objective.network)
    pass_epochs(objective, 30, amount=0.0)
    objective.on_end(Ended(30))
    assert same(averages(objective), before)
    assert same(weights(objective.network), before)


def test_averages_lag_behind_and_the_end_gives_them_to_the_network():
    objective = make_objective()
    last = pass_epochs(objective, 12)[-1]
    objective.on_end(Ended(12))
    assert same(weights(objective.network), averages(objective))
    assert all((after < now).all() for after, now in zip(weights(objective.network), last, strict=True))


def test_without_ema_the_weights_stay_as_trained():
    objective = make_objective(ema=False)
    last = pass_epochs(objective, 12)[-1]
    objective.on_end(Ended(12))
    assert same(weights(objective.network), last)


def averaged_network(objective: SemiSupervisedObjective) -> nn.Module:
    """A copy of the network with the averages for weights."""
    network = copy.deepcopy(objective.network).eval()
    state = dict(zip(network.state_dict(), averages(objective), strict=True))
    network.load_state_dict(state)
    return network


def test_embed_uses_the_averaged_weights_and_puts_the_present_back_bit_for_bit():
    objective = make_objective()
    pass_epochs(objective, 9, amount=0.1)
    before, index = weights(objective.network), torch.tensor([3, 1, 4, 1, 29])
    z = objective.embed(index)
    with torch.no_grad():
        literal = averaged_network(objective).encode(objective._rows.gather(index))
        present = objective.network.encode(objective._rows.gather(index))
    assert torch.allclose(z, F.normalize(literal, dim=1), atol=1e-6)
    assert not torch.allclose(z, F.normalize(present, dim=1), atol=1e-3)
    assert same(weights(objective.network), before)


def test_the_present_weights_come_back_where_a_look_fails():
    objective = make_objective()
    pass_epochs(objective, 9)
    before = weights(objective.network)
    with pytest.raises(IndexError):
        objective.embed(torch.tensor([30]))
    assert same(weights(objective.network), before)


def test_embed_looks_without_dropout_and_leaves_the_network_in_training():
    encoder = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3))
    network = build_autoencoder(4, 3, hidden_dims=[8], encoder=encoder)
    objective = make_objective(network=network).train()
    before = weights(objective.network)
    z = objective.embed(torch.arange(30))
    assert torch.equal(z, objective.embed(torch.arange(30)))
    assert all(module.training for module in objective.network.modules())
    assert same(weights(objective.network), before)


def test_what_batch_norm_remembers_is_averaged_and_what_it_counts_is_not():
    encoder = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    objective = make_objective(network=build_autoencoder(4, 3, hidden_dims=[], encoder=encoder))
    layer = objective.network.encoder[1]
    for epoch in range(2):
        objective.on_epoch_start(epoch, None)
        layer.running_mean.fill_(float(epoch))
        layer.num_batches_tracked.add_(1)
    objective.on_end(Ended(2))
    assert layer.running_mean.tolist() == [0.5] * 3
    assert layer.num_batches_tracked.item() == 2


class Counting(nn.Module):
    """A further term of one must-link at a right angle, whose loss is log 2 times its share."""

    def __init__(self, cost: float) -> None:
        super().__init__()
        self.cost, self.seen = cost, []

    def on_epoch_start(self, epoch: int, embed: Callable[..., torch.Tensor]) -> None:
        self.seen.append((epoch, embed(torch.arange(2)).shape))

    def pairs(self, batch: Any, z: torch.Tensor) -> PairGroup:
        one, other = torch.eye(z.shape[1])[:2]
        return PairGroup(one[None], other[None], torch.tensor([True]), z.new_full((1,), self.cost))


def make_batch(objective: SemiSupervisedObjective) -> Any:
    left = torch.arange(5)
    pairs = PairTensors(left, left + 1, left % 2 == 0, torch.ones(5))
    batches = Batches(
        objective._rows, pairs, pairs_per_step=5, rows_per_step=4, n_steps=1, seed=0, stream="s"
    )
    batches.start_epoch(0)
    return batches.next()


def test_further_terms_stand_beside_those_of_the_paper_while_training():
    objective = make_objective(one=Counting(2.0), other=Counting(3.0)).train()
    plain = SpherePairObjective(objective.network, omega=2.0, reconstruction_weight=0.1)
    terms = objective.terms(make_batch(objective))
    assert list(terms) == ["pairs", "reconstruction", "one", "other"]
    found = [terms[name].item() / math.log(2.0) for name in ("one", "other")]
    assert found == pytest.approx([2.0, 3.0])
    for name, term in plain.terms(make_batch(objective)).items():
        assert torch.equal(term, terms[name])


def test_both_ends_of_pairs_and_the_rows_pass_the_encoder_at_once():
    objective = make_objective(one=Counting(2.0)).train()
    passed = []
    objective.network.encoder.register_forward_hook(lambda _, given, z: passed.append(len(given[0])))
    objective.network.decoder.register_forward_hook(lambda _, given, x: passed.append(len(given[0])))
    objective.terms(make_batch(objective))
    assert passed == [5 + 5 + 4, 4]  # only the rows are decoded


def test_the_objective_as_a_whole_is_without_further_terms():
    """Rules that watch it stop by the pairs and the rows, as in the paper."""
    objective = make_objective(one=Counting(2.0)).eval()
    assert list(objective.terms(make_batch(objective))) == ["pairs", "reconstruction"]


def test_further_terms_are_told_of_every_epoch_with_a_way_to_look():
    term = Counting(0.0)
    pass_epochs(make_objective(one=term), 3)
    assert term.seen == [(epoch, (2, 3)) for epoch in range(3)]


def test_averages_are_in_the_state_of_a_checkpoint_and_are_not_trained():
    objective = make_objective()
    n_tensors = len(weights(objective.network))
    assert sum(name.startswith("ema.") for name in objective.state_dict()) == n_tensors
    assert len(list(objective.parameters())) == len(list(objective.network.parameters()))


def trained_terms(model: SpherePair, stage: str = "pairs") -> set[str]:
    records = [record for record in model.history_ if record["stage"] == stage]
    return {name for record in records for name in record} - {"stage", "epoch", "loss", "seconds"}


def test_a_fit_has_all_terms_by_default(make: Any, X: Any, y: Any, pairs: Any) -> None:
    model = make(**LONGER).fit(X, constraints=pairs)
    assert trained_terms(model) == {"pairs", "reconstruction", "neighbors", "pseudo_pairs"}
    records = [record for record in model.history_ if record["stage"] == "pairs"]
    assert all(record["neighbors"] > 0 for record in records)
    assert all(record["pseudo_pairs"] == 0 for record in records[:10])
    assert all(record["pseudo_pairs"] > 0 for record in records[10:])
    assert clustering_accuracy(y, model.labels_) == 1.0


@pytest.mark.parametrize(
    ("parameters", "terms"),
    [
        ({"terms": Terms(neighbor_weight=0.0)}, {"pseudo_pairs"}),
        ({"terms": Terms(pseudo_pair_weight=0.0)}, {"neighbors"}),
        ({"n_clusters": "auto"}, {"neighbors"}),
        ({"n_clusters": 1}, {"neighbors"}),
        ({"terms": NO_TERMS}, set()),
    ],
)
def test_each_term_can_be_left_out(
    parameters: Any, terms: set[str], make: Any, X: Any, y: Any, pairs: Any
) -> None:
    is_too_few = parameters.get("n_clusters") == 1
    expected = pytest.warns(ConstraintWarning, match="at least 3 groups") if is_too_few else nullcontext()
    with expected:
        model = make(**(LONGER | parameters)).fit(X, constraints=pairs)
    assert trained_terms(model) == {"pairs", "reconstruction"} | terms
    assert np.isfinite(model.embedding_).all()
    if not is_too_few:
        assert model.n_clusters_ == 3
        assert clustering_accuracy(y, model.labels_) == 1.0


@pytest.mark.parametrize(
    ("given", "n_must", "n_cannot", "factor"),
    [
        ("auto", 10, 90, 3.0),
        ("auto", 90, 10, 1.0),  # never less than a cannot-link
        ("auto", 7, 0, 1.0),
        ("auto", 0, 7, None),
        (2.5, 10, 90, 2.5),
        (0.5, 10, 90, 0.5),
    ],
)
def test_weight_of_must_links(given: Any, n_must: int, n_cannot: int, factor: float | None) -> None:
    is_must_link = torch.arange(n_must + n_cannot) < n_must
    own = torch.where(is_must_link, 1.0, 1.0 + torch.arange(len(is_must_link)) % 3)
    own[~is_must_link] /= own[~is_must_link].mean()  # what counts are totals, here the numbers of pairs
    ends = torch.arange(len(is_must_link))
    model = SpherePair(2, terms=Terms(must_link_weight=given))
    found = model._weigh(PairTensors(ends, ends, is_must_link, own)).weight
    assert torch.equal(found[~is_must_link], own[~is_must_link])
    if factor is not None:
        assert torch.allclose(found[is_must_link], factor * own[is_must_link])


def test_must_links_are_not_heavier_where_the_number_of_clusters_is_to_be_found() -> None:
    is_must_link, ends = torch.arange(20) < 5, torch.arange(20)
    pairs = PairTensors(ends, ends, is_must_link, torch.ones(20))
    assert torch.equal(SpherePair("auto")._weigh(pairs).weight, pairs.weight)
    assert not torch.equal(SpherePair(3)._weigh(pairs).weight, pairs.weight)


def test_cannot_links_of_weight_zero_do_not_make_must_links_heavier() -> None:
    is_must_link, ends = torch.arange(20) < 5, torch.arange(20)
    pairs = PairTensors(ends, ends, is_must_link, is_must_link.float())
    assert torch.equal(SpherePair(2)._weigh(pairs).weight, pairs.weight)


def test_heavier_must_links_are_kept_better(make: Any, X: Any, pairs: Any) -> None:
    """Every pair is given both ways, so only one of the two can be kept."""
    contrary = type(pairs).from_arrays(
        np.r_[pairs.left, pairs.left], np.r_[pairs.right, pairs.right],
        np.r_[pairs.is_must_link, ~pairs.is_must_link], n_rows=len(X),
    )  # fmt: skip
    cosines = {}
    for weight in (0.2, 5.0):
        terms = replace(NO_TERMS, must_link_weight=weight)
        model = make(**PLAIN | {"terms": terms, "wrong_answers": None})
        z = model.fit(X, constraints=contrary, on_conflict="keep").embedding_
        cosines[weight] = np.einsum("ij,ij->i", z[pairs.left], z[pairs.right]).mean()
    assert cosines[5.0] > cosines[0.2] + 0.1


def test_the_protocol_of_the_paper_has_nothing_of_this(X: Any, pairs: Any, monkeypatch: Any) -> None:
    model = SpherePair.paper(3)
    assert model.terms == NO_TERMS
    assert model.schedule == Schedule(min_steps=1, reconstruction_rows="all", ema=False)
    plans = []
    plan = SpherePair._plan
    monkeypatch.setattr(
        SpherePair, "_plan", lambda self, job, stage: plans.append(plan(self, job, stage)) or plans[-1]
    )
    stacked = StackedPretraining(layer_epochs=1, epochs=1)
    model.set_params(hidden_dims=(8,), pretraining=stacked, max_epochs=2, progress=False, random_state=0)
    model.fit(X, constraints=pairs)
    for found in plans:  # that of the short training, and that of the fit
        assert type(found.objective) is SpherePairObjective
        assert found.batches[0]._neighbor_table is None
    assert trained_terms(model) == {"pairs", "reconstruction"}


def test_ema_changes_the_end_and_nothing_before(make: Any, X: Any, pairs: Any) -> None:
    """Without terms that look at the averages, every epoch is the same."""
    one = make(**(LONGER | PLAIN)).fit(X, constraints=pairs)
    other = make(**(LONGER | {"terms": NO_TERMS})).fit(X, constraints=pairs)
    assert [r["loss"] for r in one.history_] == [r["loss"] for r in other.history_]
    assert not np.array_equal(one.embedding_, other.embedding_)


def test_fitting_again_gives_the_same_labels(make: Any, X: Any, pairs: Any) -> None:
    model = make(**LONGER).fit(X, constraints=pairs)
    before = model.embedding_
    assert np.array_equal(model.fit(X, constraints=pairs).embedding_, before)


@pytest.mark.parametrize("is_must_link", [True, False])
@pytest.mark.parametrize("n_clusters", [3, "auto"])
def test_one_kind_of_pairs_is_enough_to_fit(
    is_must_link: bool, n_clusters: Any, make: Any, X: Any, pairs: Any
) -> None:
    """Pseudo-pairs need cannot-links, or all rows might be taken for one cluster."""
    some = pairs[pairs.is_must_link == is_must_link]
    with pytest.warns(ConstraintWarning):
        model = make(n_clusters, **LONGER).fit(X, constraints=some)
    has_pseudo_pairs = n_clusters == 3 and not is_must_link
    assert trained_terms(model) == {"pairs", "reconstruction", "neighbors"} | (
        {"pseudo_pairs"} if has_pseudo_pairs else set()
    )
    assert np.isfinite(model.embedding_).all()
    assert model.score_pairs(some) > 0.9


def test_a_refinement_has_all_terms_from_its_first_epoch(make: Any, X: Any, y: Any, pairs: Any) -> None:
    model = make(**LONGER, batch_size=64).fit(X, constraints=pairs[:150])
    model.refine(pairs[150:])
    assert trained_terms(model, "refining") == {"pairs", "reconstruction", "neighbors", "pseudo_pairs"}
    assert all(record["pseudo_pairs"] > 0 for record in model.history_ if record["stage"] == "refining")
    assert clustering_accuracy(y, model.labels_) == 1.0

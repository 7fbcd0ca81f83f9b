"""CIDEC and SDEC: objectives against literal formulas, their unsupervised parents, corners, epochs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from spherepair import Constraints
from spherepair.estimators.dec import CIDEC, LARGEST_STEP, SDEC, CIDECObjective, SDECObjective
from spherepair.estimators.job import Job
from spherepair.losses.soft_assignments import target_distribution
from spherepair.networks import build_autoencoder
from spherepair.networks.baseline_networks import ClusteredAutoencoder
from spherepair.training.batches import Batch
from spherepair.training.hardware import Hardware
from spherepair.training.optimization import StableLabels
from spherepair.training.pretraining import JointPretraining
from spherepair.training.rows import ResidentRows, Scaling

CPU = Hardware(torch.device("cpu"), "float32")
K, D, FEATURES = 3, 2, 4
WEIGHTS = {
    CIDECObjective: {"clustering_weight": 1.0, "must_link_weight": 1.0},
    SDECObjective: {"pair_weight": 1.0},
}
QUICK = {
    "hidden_dims": (16,),
    "pretraining": JointPretraining(epochs=2, min_steps=20),
    "max_epochs": 4,
    "random_state": 0,
    "progress": False,
}


def make_objective(kind: type, **weights: float) -> Any:
    """An objective in float64 over ten rows, with a target that is not its own memberships."""
    generator = torch.Generator().manual_seed(0)
    autoencoder = build_autoencoder(FEATURES, D, hidden_dims=(5,), spherical=False, generator=generator)
    network = ClusteredAutoencoder(autoencoder, K, D, exponent=2.0)
    with torch.no_grad():
        network.centers.normal_(generator=generator)
    rows = ResidentRows(torch.randn(10, FEATURES, generator=generator), Scaling.identity())
    objective = kind(network, rows, CPU, **weights).double()
    drawn = torch.rand(10, K, generator=generator, dtype=torch.float64)
    objective.target.copy_(target_distribution(drawn / drawn.sum(dim=1, keepdim=True)))
    return objective


def make_batch(n_pairs: int, n_rows: int, links: list[bool], part: str) -> Batch:
    """Drawn rows; the last pair and the last row are padding."""
    generator = torch.Generator().manual_seed(1)
    pair_weight, row_weight = torch.ones(n_pairs).double(), torch.ones(n_rows).double()
    pair_weight[-1:], row_weight[-1:] = 0.0, 0.0
    return Batch(
        x=torch.randn(2 * n_pairs + n_rows, FEATURES, generator=generator, dtype=torch.float64),
        is_must_link=torch.tensor(links, dtype=torch.bool),
        pair_weight=pair_weight,
        row_weight=row_weight,
        row_index=torch.arange(n_rows),
        part=part,
    )


def q_of(network: Any, x: torch.Tensor) -> torch.Tensor:
    """Memberships of one row, one centre after the other, as the authors' code has them."""
    z = network.encode(x[None])[0]
    kernel = torch.stack([(1 + ((z - center) ** 2).sum()) ** -2 for center in network.centers])
    return kernel / kernel.sum()


def mse(network: Any, x: torch.Tensor) -> torch.Tensor:
    return ((network.decode(network.encode(x[None]))[0] - x) ** 2).mean()


def kl(objective: Any, batch: Batch) -> torch.Tensor:
    """Mean over the real rows of Σ p log(p / q)."""
    rows = []
    for i in range(len(batch.row_index) - 1):
        p, q = objective.target[batch.row_index[i]], q_of(objective.network, batch.rows[i])
        rows.append(sum(p[k] * (p[k] / q[k]).log() for k in range(K)))
    return sum(rows) / len(rows)


def assert_same_loss_and_gradients(objective: Any, found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    parameters = list(objective.parameters())
    ours, theirs = (
        torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        for loss in (found, expected)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-12)


def total(objective: Any, batch: Batch) -> torch.Tensor:
    return sum(objective.terms(batch).values())


def test_cidec_on_rows_is_idec():
    """0.1 KL(p || q) + reconstruction, which is all there is without constraints."""
    objective = make_objective(CIDECObjective, clustering_weight=1.0, must_link_weight=0.1)
    batch = make_batch(0, 6, [], "rows")
    reconstruction = sum(mse(objective.network, x) for x in batch.rows[:5]) / 5
    assert_same_loss_and_gradients(
        objective, total(objective, batch), 0.1 * kl(objective, batch) + reconstruction
    )


def test_cidec_on_must_links_is_the_literal_formula():
    objective = make_objective(CIDECObjective, clustering_weight=1.0, must_link_weight=0.1)
    batch = make_batch(4, 0, [True] * 4, "must-links")
    network, expected = objective.network, torch.zeros(())
    for i in range(3):
        a, b = batch.x[i], batch.x[4 + i]
        agreement = (q_of(network, a) * q_of(network, b)).sum()
        expected = expected + (-0.1 * agreement.log() + mse(network, a) + mse(network, b)) / 3
    assert_same_loss_and_gradients(objective, total(objective, batch), expected)


def test_cidec_on_cannot_links_is_the_literal_formula():
    objective = make_objective(CIDECObjective, clustering_weight=1.0, must_link_weight=0.1)
    batch = make_batch(4, 0, [False] * 4, "cannot-links")
    network, expected = objective.network, torch.zeros(())
    for i in range(3):
        agreement = (q_of(network, batch.x[i]) * q_of(network, batch.x[4 + i])).sum()
        expected = expected - (1 - agreement).log() / 3
    assert_same_loss_and_gradients(objective, total(objective, batch), expected)


def test_sdec_is_the_literal_formula():
    objective = make_objective(SDECObjective, pair_weight=0.3)
    links = [True, False, False, True]
    batch = make_batch(4, 6, links, "joint")
    network, pairs = objective.network, torch.zeros(())
    for i in range(3):
        a, b = (network.encode(x[None])[0] for x in (batch.x[i], batch.x[4 + i]))
        pairs = pairs + (1 if links[i] else -1) * ((a - b) ** 2).sum() / 3
    assert_same_loss_and_gradients(objective, total(objective, batch), kl(objective, batch) + 0.3 * pairs)


def test_sdec_pushes_cannot_links_no_farther_than_the_farthest_centers():
    objective = make_objective(SDECObjective, pair_weight=1.0)
    batch = make_batch(2, 0, [False, True], "joint")
    with torch.no_grad():
        objective.network.centers *= 1e-3  # any two rows are now farther apart than the centres
    pairs = objective.terms(batch)["pairs"]
    pairs.backward()
    centers = objective.network.centers
    expected = -max(((a - b) ** 2).sum() for a in centers for b in centers)
    assert pairs.item() == pytest.approx(expected.item())
    assert all(not p.grad.any() for p in objective.network.autoencoder.encoder.parameters())


def test_sdec_without_constraints_is_dec():
    objective = make_objective(SDECObjective, pair_weight=0.3)
    batch = make_batch(0, 6, [], "joint")
    assert_same_loss_and_gradients(objective, total(objective, batch), kl(objective, batch))


def test_sdec_leaves_the_decoder_as_it_is():
    objective = make_objective(SDECObjective, pair_weight=0.3)
    trained = {id(p) for group, _ in objective.parameter_groups() for p in group}
    network = objective.network
    assert trained == {id(p) for p in [*network.autoencoder.encoder.parameters(), network.centers]}


@pytest.mark.parametrize("place", ["same", "on a centre", "far away"])
@pytest.mark.parametrize(
    ("kind", "part", "link"),
    [
        (CIDECObjective, "rows", True),
        (CIDECObjective, "must-links", True),
        (CIDECObjective, "cannot-links", False),
        (SDECObjective, "joint", True),
        (SDECObjective, "joint", False),
    ],
)
def test_gradients_are_finite_in_every_corner(kind, part, link, place):
    objective = make_objective(kind, **WEIGHTS[kind]).float()
    n_pairs, n_rows = (0, 4) if part == "rows" else (3, 4 if part == "joint" else 0)
    batch = make_batch(n_pairs, n_rows, [link] * n_pairs, part)
    x = torch.ones_like(batch.x, dtype=torch.float32)
    if place == "far away":
        x[::2] *= 1e6
    if place == "on a centre":
        with torch.no_grad():
            objective.network.centers.copy_(objective.network.encode(x[:1]).expand(K, D))
    corner = Batch(
        x, batch.is_must_link, batch.pair_weight.float(), batch.row_weight.float(), batch.row_index, part
    )
    loss = total(objective, corner)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in objective.parameters() if p.grad is not None)


@pytest.mark.parametrize("is_watched", [True, False])
@pytest.mark.parametrize("kind", [CIDECObjective, SDECObjective])
def test_the_target_is_made_anew_from_all_rows_before_every_epoch(kind, is_watched):
    """Whether or not a stopping rule has just asked for the labels."""
    objective = make_objective(kind, **WEIGHTS[kind]).float()
    address, table = objective.target.data_ptr(), objective._rows.table
    for _ in range(3):
        with torch.no_grad():
            objective.network.centers.add_(0.5)
            expected = target_distribution(
                objective.network.logits(objective.network.encode(table)).softmax(1)
            )
        if is_watched:
            objective.changed_labels()
        objective.on_epoch_start(0, SimpleNamespace())
        torch.testing.assert_close(objective.target, expected)
    assert objective.target.data_ptr() == address


def make_job(n_rows: int, pairs: Constraints) -> Job:
    rows = ResidentRows(torch.zeros(n_rows, 2), Scaling.identity())
    return Job(rows, pairs, None, SimpleNamespace(seed=0))


def test_an_epoch_of_cidec_shows_every_row_and_every_pair_once():
    pairs = Constraints.from_labels(np.arange(500) % 5, 700, random_state=0)
    parts = CIDEC(5)._batches(make_job(500, pairs), "pairs")
    assert [part.part for part in parts] == ["rows", "must-links", "cannot-links"]
    rows, *links = parts
    rows.start_epoch(0)
    seen = [rows.next() for _ in range(rows.n_steps)]
    assert sorted(int(i) for b in seen for i, w in zip(b.row_index, b.row_weight, strict=True) if w) == list(
        range(500)
    )
    for part, must in zip(links, (True, False), strict=True):
        part.start_epoch(0)
        seen = [part.next() for _ in range(part.n_steps)]
        assert sum(float(b.pair_weight.sum()) for b in seen) == (pairs.is_must_link == must).sum()
        assert all((b.is_must_link == must).all() for b in seen)


@pytest.mark.parametrize(
    ("n_rows", "n_pairs", "n_steps"), [(6_000, 1_000, 4), (6_000, 10, 1), (6_000, 0, 24)]
)
def test_an_epoch_of_sdec_divides_the_rows_among_one_pass_of_the_pairs(n_rows, n_pairs, n_steps):
    pairs = Constraints.from_labels(np.arange(n_rows) % 5, n_pairs, random_state=0)
    batches = SDEC(5)._batches(make_job(n_rows, pairs), "pairs")
    assert (batches.n_steps, batches.rows_per_step) == (n_steps, n_rows // n_steps)


def test_no_step_of_sdec_holds_too_many_rows():
    pairs = Constraints.from_labels(np.arange(40_000) % 5, 10, random_state=0)
    batches = SDEC(5)._batches(make_job(40_000, pairs), "pairs")
    assert batches.rows_per_step <= LARGEST_STEP


@pytest.mark.parametrize(("kind", "least"), [(CIDEC, 31), (SDEC, 1)])
def test_the_methods_own_rule_waits_for_its_number_of_epochs(kind, least, X, pairs):
    """Nothing ever changes at so small a rate, so the rule stops as soon as it may."""
    settings = QUICK | {"max_epochs": 100, "learning_rate": 1e-12}
    model = kind(3, **settings).fit(X, constraints=pairs)
    assert sum(record["stage"] == "pairs" for record in model.history_) == least


def test_a_rule_given_by_the_user_is_not_replaced(X, pairs):
    settings = QUICK | {"max_epochs": 100, "learning_rate": 1e-12, "stopping": StableLabels(min_epochs=3)}
    model = CIDEC(3, **settings).fit(X, constraints=pairs)
    assert sum(record["stage"] == "pairs" for record in model.history_) == 4


@pytest.mark.parametrize("kind", [CIDEC, SDEC])
@pytest.mark.parametrize("pretraining", [None, JointPretraining(epochs=1, min_steps=5)])
def test_it_trains_without_constraints(kind, pretraining, X):
    with pytest.warns(match="no constraints"):
        model = kind(3, **(QUICK | {"pretraining": pretraining})).fit(X)
    assert any(record["stage"] == "pairs" for record in model.history_)
    assert np.unique(model.labels_).size > 1


@pytest.mark.parametrize("kind", [CIDEC, SDEC])
@pytest.mark.parametrize("stopping", ["paper", "released-code", "settled", "stable-labels", "fixed"])
def test_every_stopping_rule_can_be_used(kind, stopping, X, pairs):
    model = kind(3, **(QUICK | {"stopping": stopping})).fit(X, constraints=pairs)
    assert np.isfinite([record["loss"] for record in model.history_]).all()


@pytest.mark.parametrize("kind", [CIDEC, SDEC])
def test_the_centres_are_the_learned_ones_and_unseen_rows_go_to_the_nearest(kind, X, pairs):
    model = kind(3, **QUICK).fit(X, constraints=pairs)
    distances = np.linalg.norm(model.embedding_[:, None] - model.cluster_centers_, axis=2)
    assert np.array_equal(distances.argmin(axis=1), model.predict(X))


@pytest.mark.parametrize("kind", [CIDEC, SDEC])
def test_identical_rows_do_no_harm(kind):
    pairs = Constraints.from_pairs([(0, 1), (4, 5)], [(2, 3)])
    with pytest.warns(match="only 3 constraints"):
        model = kind(2, **QUICK).fit(np.ones((20, 3)), constraints=pairs)
    assert np.isfinite(model.embedding_).all()

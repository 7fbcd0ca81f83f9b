"""DCGMM: the objective against a literal formula, VaDE without pairs, corners, likelihood, first mixture."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn import functional as F  # noqa: N812

from spherepair import Constraints
from spherepair.accel import compiled
from spherepair.errors import InvalidParameterError
from spherepair.estimators import dcgmm
from spherepair.estimators.dcgmm import DCGMM, DCGMMObjective
from spherepair.estimators.job import Job
from spherepair.estimators.mixture_start import AutoencodingObjective, fit_mixture, pixel_ceiling
from spherepair.metrics import clustering_accuracy
from spherepair.networks.baseline_networks import MixtureVAE
from spherepair.training.batches import Batch
from spherepair.training.hardware import Hardware
from spherepair.training.optimization import Adam
from spherepair.training.rows import ResidentRows, Scaling

CPU = Hardware(torch.device("cpu"), "float32")
K, D, FEATURES = 3, 2, 4
WEIGHT = 50.0
QUICK = {"hidden_dims": (16,), "pretraining_epochs": 1, "max_epochs": 4, "random_state": 0, "progress": False}


def make_network(*, is_bernoulli: bool = True) -> MixtureVAE:
    generator = torch.Generator().manual_seed(0)
    network = MixtureVAE(FEATURES, D, K, hidden_dims=(5,), generator=generator)
    with torch.no_grad():
        network.centers.normal_(generator=generator)
        network.log_variances.normal_(generator=generator)
    network.is_bernoulli.fill_(is_bernoulli)
    network.ceiling.fill_(2.0 if is_bernoulli else 1.0)
    return network


def make_objective(*, is_bernoulli: bool = True) -> DCGMMObjective:
    rows = ResidentRows(torch.zeros(10, FEATURES), Scaling.identity())
    objective = DCGMMObjective(make_network(is_bernoulli=is_bernoulli), rows, CPU, pair_weight=WEIGHT)
    return objective.double()


def make_batch(n_pairs: int, n_rows: int, links: list[bool], part: str) -> Batch:
    """Drawn rows; the last pair and the last row are padding."""
    generator = torch.Generator().manual_seed(1)
    pair_weight, row_weight = torch.ones(n_pairs).double(), torch.ones(n_rows).double()
    pair_weight[-1:], row_weight[-1:] = 0.0, 0.0
    return Batch(
        x=2 * torch.rand(2 * n_pairs + n_rows, FEATURES, generator=generator, dtype=torch.float64),
        is_must_link=torch.tensor(links, dtype=torch.bool),
        pair_weight=pair_weight,
        row_weight=row_weight,
        row_index=torch.arange(n_rows),
        part=part,
    )


def noise_of(seed: int, n: int) -> torch.Tensor:
    return torch.empty(n, D, dtype=torch.float64).normal_(generator=torch.Generator().manual_seed(seed))


def terms(objective: DCGMMObjective, batch: Batch, seed: int = 5) -> dict[str, torch.Tensor]:
    """With the noise of that seed."""
    generator = torch.Generator().manual_seed(seed)
    objective.on_epoch_start(0, SimpleNamespace(generator=generator))
    return objective.terms(batch)


def row_bound(network: MixtureVAE, x: torch.Tensor, eps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Negative evidence bound of one row and its responsibilities, in torch's own distributions."""
    first, last = network.encoder[0], network.encoder[2]
    hidden = F.relu(first(x / network.ceiling))
    mean = hidden @ last.weight[:D].T + last.bias[:D]
    v = hidden @ last.weight[D:].T + last.bias[D:]
    z = mean + (v / 2).exp() * eps
    components = [
        Independent(Normal(m, (log_s.exp() + 1e-7).sqrt()), 1)
        for m, log_s in zip(network.centers, network.log_variances, strict=True)
    ]
    densities = torch.stack([component.log_prob(z).exp() for component in components])
    g = densities / densities.sum()
    answer = Independent(Normal(mean, (v / 2).exp()), 1)
    divergence = sum(g[c] * (kl_divergence(answer, components[c]) + (g[c] / (1 / K)).log()) for c in range(K))
    decoded, wanted = network.decode(z), x / network.ceiling
    if bool(network.is_bernoulli):
        p = decoded.sigmoid()
        error = -(wanted * p.log() + (1 - wanted) * (1 - p).log()).sum()
    else:
        error = ((decoded - wanted) ** 2).sum()
    return error + divergence, g


def assert_same_loss_and_gradients(objective: Any, found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    parameters = list(objective.parameters())
    ours, theirs = torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("is_bernoulli", [True, False])
def test_on_rows_it_is_the_evidence_bound_of_vade(is_bernoulli):
    objective = make_objective(is_bernoulli=is_bernoulli)
    batch = make_batch(0, 6, [], "rows")
    noise = noise_of(5, 6)
    expected = sum(row_bound(objective.network, batch.x[i], noise[i])[0] for i in range(5)) / 5
    found = sum(terms(objective, batch).values())
    assert_same_loss_and_gradients(objective, found, expected)


@pytest.mark.parametrize("is_bernoulli", [True, False])
def test_on_pairs_it_is_the_bound_of_both_ends_less_their_weighted_agreement(is_bernoulli):
    """-(1 / B) Σ_ij W_ij g_i·g_j over the B = 2P rows; every pair stands twice in the symmetric W."""
    objective = make_objective(is_bernoulli=is_bernoulli)
    links = [True, False, True, False]
    batch = make_batch(4, 0, links, "pairs")
    noise, n_real = noise_of(5, 8), 3
    expected = torch.zeros(())
    for i in range(n_real):
        (a, g), (b, h) = (row_bound(objective.network, batch.x[j], noise[j]) for j in (i, 4 + i))
        w = WEIGHT if links[i] else -WEIGHT
        expected = expected + (a + b - 2 * w * (g * h).sum()) / (2 * n_real)
    found = sum(terms(objective, batch).values())
    assert_same_loss_and_gradients(objective, found, expected)


@contextmanager
def fail_on_log(name: str) -> Iterator[None]:
    """Whatever is logged there becomes an error: what falls back does so aloud."""
    handler = logging.Handler()
    handler.emit = lambda record: pytest.fail(record.getMessage())
    logger = logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.parametrize("part", ["rows", "pairs"])
@pytest.mark.parametrize("is_bernoulli", [True, False])
def test_compiled_terms_are_the_same(is_bernoulli, part, monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    plain = make_objective(is_bernoulli=is_bernoulli)
    fused = DCGMMObjective(plain.network, plain._rows, CPU, pair_weight=WEIGHT)
    fused.pure_functions = type(fused.pure_functions)(*map(compiled, fused.pure_functions))
    batch = make_batch(0, 6, [], part) if part == "rows" else make_batch(3, 0, [True, False, True], part)
    with fail_on_log(compiled.__module__):
        found = sum(terms(fused, batch).values())
    assert_same_loss_and_gradients(plain, found, sum(terms(plain, batch).values()))


def test_without_pairs_an_epoch_is_rows_only(X):
    with pytest.warns(match="no constraints"):
        model = DCGMM(3, **QUICK).fit(X)
    assert {"reconstruction", "divergence"} < set(model.history_[-1])
    assert "pairs" not in model.history_[-1]


def test_the_reconstruction_and_divergence_bound_the_evidence():
    """The mean of exp(-bound) over the noise may exceed no true probability: here, of one binary row."""
    objective = make_objective()
    batch = make_batch(0, 2, [], "rows")
    network = objective.network
    z = network.centers.detach()[torch.arange(3).repeat(20_000)]
    generator = torch.Generator().manual_seed(0)
    spread = (network.log_variances.detach() / 2).exp()[torch.arange(3).repeat(20_000)]
    z = z + spread * torch.empty_like(z).normal_(generator=generator)
    with torch.no_grad():
        x = (batch.x[:1] / 2).round()
        evidence = math.log(
            torch.exp(
                -F.binary_cross_entropy_with_logits(
                    network.decode(z), x.expand(len(z), -1), reduction="none"
                ).sum(dim=1)
            ).mean()
        )
        binary = Batch(
            2 * x, batch.is_must_link, batch.pair_weight, torch.ones(1), torch.zeros(1).long(), "rows"
        )
        bounds = [-sum(terms(objective, binary, seed).values()).item() for seed in range(300)]
    assert np.mean(bounds) < evidence + 0.05


@pytest.mark.parametrize("place", ["same", "on a centre", "far away"])
@pytest.mark.parametrize("part", ["rows", "pairs"])
@pytest.mark.parametrize("is_bernoulli", [True, False])
def test_gradients_are_finite_in_every_corner(is_bernoulli, part, place):
    objective = make_objective(is_bernoulli=is_bernoulli).float()
    n_pairs, n_rows = (0, 4) if part == "rows" else (3, 0)
    batch = make_batch(n_pairs, n_rows, [True, False, True][:n_pairs], part)
    x = torch.ones_like(batch.x, dtype=torch.float32)
    if place == "far away":
        x[::2] *= 1e4
    if place == "on a centre":
        with torch.no_grad():
            objective.network.centers.copy_(objective.network.encode(x[:1]).expand(K, D))
            objective.network.log_variances.fill_(-200.0)
    corner = Batch(
        x, batch.is_must_link, batch.pair_weight.float(), batch.row_weight.float(), batch.row_index, part
    )
    loss = sum(terms(objective, corner).values())
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in objective.parameters())


def test_the_noise_is_that_of_the_state_and_there_is_none_in_evaluation():
    objective, batch = make_objective(), make_batch(0, 6, [], "rows")
    first, again, other = (terms(objective, batch, seed)["reconstruction"].item() for seed in (1, 1, 2))
    assert first == again != other
    objective.eval()
    assert terms(objective, batch, 1)["divergence"].item() == terms(objective, batch, 2)["divergence"].item()


def test_pretraining_is_a_plain_autoencoder_of_the_mean():
    network = make_network().double()
    objective, batch = AutoencodingObjective(network), make_batch(0, 6, [], "rows")
    p = network.decode(network.encode(batch.x)).sigmoid()
    wanted = batch.x / 2
    expected = -(wanted * p.log() + (1 - wanted) * (1 - p).log())[:5].mean()
    assert objective.terms(batch)["reconstruction"].item() == pytest.approx(expected.item(), rel=1e-9)
    trained = {id(p) for group, _ in objective.parameter_groups() for p in group}
    assert id(network.centers) not in trained
    optimizer = Adam(objective.parameter_groups(), torch.device("cpu"))
    optimizer.start_epoch(0.1)
    before = network.encoder[-1].weight.detach().clone()
    objective.terms(batch)["reconstruction"].backward()
    optimizer.step()
    means, variances = (network.encoder[-1].weight.detach() != before).chunk(2)
    assert means.any()
    assert not variances.any()


def make_job(n_rows: int, n_pairs: int) -> Job:
    pairs = Constraints.from_labels(np.arange(n_rows) % 5, n_pairs, random_state=0)
    rows = ResidentRows(torch.arange(n_rows)[:, None], Scaling.identity())
    return Job(rows, pairs, None, SimpleNamespace(seed=0))


def test_an_epoch_has_all_whole_batches_of_rows_and_half_of_the_pairs():
    rows, pairs = DCGMM(5)._batches(make_job(1_000, 600), "pairs")
    assert (rows.rows_per_step, rows.n_steps) == (128, 7)
    assert (pairs.pairs_per_step, pairs.n_steps) == (64, 4)
    shown = []
    for epoch in range(2):
        pairs.start_epoch(epoch)
        batches = [pairs.next() for _ in range(pairs.n_steps)]
        shown.append(torch.cat([batch.x[:64, 0] for batch in batches]).tolist())
        assert all(bool((batch.pair_weight == 1).all()) for batch in batches)
    assert shown[0] != shown[1]


def test_fewer_pairs_than_a_batch_are_all_shown():
    _, pairs = DCGMM(5)._batches(make_job(100, 10), "pairs")
    pairs.start_epoch(0)
    assert float(pairs.next().pair_weight.sum()) == 10


def rows_of(table: Any) -> ResidentRows:
    return ResidentRows(torch.as_tensor(np.asarray(table, dtype=np.float32)), Scaling.identity())


def test_pixels_are_taken_for_bernoulli_and_divided_by_their_maximum():
    assert pixel_ceiling(rows_of(load_digits().data), "auto") == 16.0


def test_signed_values_and_values_without_a_common_maximum_are_gaussian():
    rng = np.random.default_rng(0)
    assert pixel_ceiling(rows_of(rng.choice([-1.0, 1.0], size=(50, 5))), "auto") is None
    assert pixel_ceiling(rows_of(rng.exponential(size=(50, 5)) * [1, 2, 30, 4, 5]), "auto") is None
    assert pixel_ceiling(rows_of(np.zeros((5, 2))), "auto") is None
    assert pixel_ceiling(rows_of(load_digits().data), "gaussian") is None


def test_bernoulli_is_refused_where_values_are_negative():
    with pytest.raises(InvalidParameterError, match="got values from -1 to 1; use"):
        pixel_ceiling(rows_of([[1.0], [-1.0]]), "bernoulli")


def test_the_first_mixture_finds_blobs_and_is_the_same_every_time():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    rows = (places[rng.integers(0, 3, 600)] + 0.3 * rng.normal(size=(600, 2))).astype(np.float32)
    first, again = fit_mixture(rows, 3, seed=1), fit_mixture(rows, 3, seed=1)
    assert np.array_equal(first.centers, again.centers)
    nearest = np.linalg.norm(first.centers[:, None] - places, axis=2).min(axis=0)
    assert nearest.max() < 0.1
    np.testing.assert_allclose(np.exp(first.log_variances), 0.09, rtol=0.3)


def strips():
    """Four squares in two far groups, which two components fit best by the groups; pairs go across them."""
    rng = np.random.default_rng(0)
    group, side = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    rows = np.column_stack([4.0 * group, 3.0 * side]) + 0.3 * rng.normal(size=(400, 2))
    return rows.astype(np.float32), group, side


def test_pairs_can_choose_the_first_mixture():
    rows, group, side = strips()
    found = {}
    for name, classes in (("group", group), ("side", side)):
        pairs = Constraints.from_labels(classes, n_pairs=200, random_state=0)
        start = fit_mixture(rows, 2, seed=0, pairs=pairs)
        nearest = np.linalg.norm(rows[:, None] - start.centers, axis=2).argmin(axis=1)
        found[name] = clustering_accuracy(classes, nearest)
    assert found == {"group": 1.0, "side": 1.0}


def test_one_kind_of_pairs_chooses_no_mixture():
    # Must-links alone would choose whatever throws most rows together.
    rows, group, _ = strips()
    pairs = Constraints.from_labels(group, n_pairs=200, random_state=0)
    likeliest = fit_mixture(rows, 2, seed=0)
    for kind in (pairs.must_links, pairs.cannot_links):
        assert np.array_equal(fit_mixture(rows, 2, seed=0, pairs=kind).centers, likeliest.centers)


@pytest.mark.parametrize("start", ["likelihood", "pairs"])
def test_fit_shows_the_pairs_to_the_first_mixture_where_they_shall_choose(X, pairs, monkeypatch, start):
    shown = []

    def spy(*args, pairs, **kwargs):
        shown.append(pairs)
        return fit_mixture(*args, pairs=pairs, **kwargs)

    monkeypatch.setattr(dcgmm, "fit_mixture", spy)
    DCGMM(3, **QUICK, start=start).fit(X, constraints=pairs)
    assert [None if seen is None else len(seen) for seen in shown] == [300 if start == "pairs" else None]


def test_the_first_mixture_survives_identical_rows():
    start = fit_mixture(np.ones((20, 2), dtype=np.float32), 3, seed=0)
    assert np.isfinite(start.log_variances).all()


def test_likelihood_and_ceiling_are_part_of_what_is_saved(X, pairs):
    settings = QUICK | {"likelihood": "bernoulli", "scaling": "none"}
    state = DCGMM(3, **settings).fit(X, constraints=pairs).network_.state_dict()
    assert bool(state["is_bernoulli"])
    assert float(state["ceiling"]) == X.max()


@pytest.mark.parametrize("stopping", ["paper", "settled", "stable-labels"])
def test_every_stopping_rule_can_be_used(stopping, X, pairs):
    model = DCGMM(3, **(QUICK | {"stopping": stopping})).fit(X, constraints=pairs)
    assert np.isfinite([record["loss"] for record in model.history_]).all()


def test_the_centres_are_those_of_the_mixture(X, pairs):
    model = DCGMM(3, **QUICK).fit(X, constraints=pairs)
    assert np.array_equal(model.cluster_centers_, model.network_.centers.detach().numpy())


def test_identical_rows_do_no_harm():
    pairs = Constraints.from_pairs([(0, 1), (4, 5)], [(2, 3)])
    with pytest.warns(match="only 3 constraints"):
        model = DCGMM(2, **QUICK).fit(np.ones((20, 3)), constraints=pairs)
    assert np.isfinite(model.embedding_).all()

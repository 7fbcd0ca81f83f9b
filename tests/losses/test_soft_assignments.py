"""DEC's target distribution and VolMaxDCC's volume against the printed formulas and in their corners."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spherepair.losses.soft_assignments import log_volume, target_distribution, target_divergence


def memberships(n_rows: int = 6, n_clusters: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n_rows, n_clusters, generator=generator, dtype=torch.float64).softmax(dim=1)


def literal_target(q: list[list[float]]) -> list[list[float]]:
    """The equation of the paper's appendix, word for word."""
    clusters = range(len(q[0]))
    f = [sum(row[k] for row in q) for k in clusters]
    return [
        [row[k] ** 2 / f[k] / sum(row[other] ** 2 / f[other] for other in clusters) for k in clusters]
        for row in q
    ]


def literal_divergence(p: list[list[float]], q: list[list[float]]) -> float:
    """The mean over rows of Σ p log(p / q), with 0 log 0 = 0."""
    rows = [
        sum(a * math.log(a / b) for a, b in zip(wanted, found, strict=True) if a > 0)
        for wanted, found in zip(p, q, strict=True)
    ]
    return sum(rows) / len(rows)


def test_target_is_the_printed_formula():
    q = memberships()
    expected = torch.tensor(literal_target(q.tolist()), dtype=torch.float64)
    torch.testing.assert_close(target_distribution(q), expected, rtol=1e-12, atol=0)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n_clusters=st.integers(1, 12))
def test_targets_are_distributions(seed, n_clusters):
    target = target_distribution(memberships(20, n_clusters, seed).float())
    torch.testing.assert_close(target.sum(dim=1), torch.ones(20))
    assert (target >= 0).all()


def test_targets_are_surer_than_the_memberships_of_equally_large_clusters():
    q = torch.tensor([[0.6, 0.4], [0.4, 0.6]])
    assert target_distribution(q)[0, 0] > q[0, 0]


def test_an_empty_cluster_stays_empty():
    q = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert torch.equal(target_distribution(q), q)


def test_a_cluster_of_vanishing_size_gives_finite_targets():
    q = torch.tensor([[1.0, 1e-38], [1.0, 1e-42]])
    assert torch.isfinite(target_distribution(q)).all()


def test_divergence_is_the_printed_formula():
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    target = target_distribution(memberships())
    expected = literal_divergence(target.tolist(), logits.softmax(dim=1).tolist())
    assert target_divergence(logits, target).item() == pytest.approx(expected, rel=1e-12)


def test_divergence_gradcheck():
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    target = target_distribution(memberships(5))
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: target_divergence(x, target, weight=weight), (logits.requires_grad_(),)
    )


def test_padding_rows_do_not_count_in_the_divergence():
    logits, target = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(3))
    target = target.softmax(dim=1)
    padded = target_divergence(logits, target, weight=torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert padded.item() == pytest.approx(target_divergence(logits[:2], target[:2]).item(), rel=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1e2, 1e6])
def test_sure_memberships_and_targets_have_finite_gradients(size):
    logits = (size * torch.tensor([[1.0, -1.0], [-1.0, 1.0]])).requires_grad_()
    loss = target_divergence(logits, torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_half_precision_is_divided_in_float32():
    loss = target_divergence(torch.zeros(2, 3, dtype=torch.bfloat16), torch.full((2, 3), 1 / 3))
    assert loss.dtype == torch.float32


def draw(n: int, n_clusters: int, *, seed: int = 0) -> Tensor:
    return 2 * torch.randn(n, n_clusters, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_volume(logits: Tensor) -> Tensor:
    q = logits.softmax(-1)
    gram = sum(torch.outer(row, row) for row in q) + 1e-6 * torch.eye(q.shape[1], dtype=q.dtype)
    return torch.log(torch.linalg.det(gram))


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_volume_has_the_values_and_gradients_of_the_literal_formula(n_clusters: int) -> None:
    results = []
    for volume in (log_volume, literal_volume):
        logits = draw(30, n_clusters).requires_grad_()
        value = volume(logits)
        results.append([value.detach(), *torch.autograd.grad(value, [logits])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_volume_gradcheck() -> None:
    assert torch.autograd.gradcheck(log_volume, (draw(6, 3).requires_grad_(),))


def test_volume_is_largest_when_all_clusters_are_used_alike() -> None:
    balanced = 50 * torch.eye(3).repeat(20, 1)
    lopsided = torch.cat([balanced[:40], balanced[:1].repeat(20, 1)])
    undecided = torch.zeros(60, 3)
    assert log_volume(balanced) > log_volume(lopsided) > log_volume(undecided)
    assert log_volume(balanced).item() == pytest.approx(3 * math.log(20), abs=1e-4)


CORNERS = {
    "an empty cluster": 300 * torch.eye(4)[torch.arange(500) % 3],
    "one cluster only": torch.tensor([[200.0, 0, 0, 0]]).repeat(500, 1),
    "identical rows": torch.tensor([[0.3, 0.2, 0.1, 0.0]]).repeat(10_000, 1),
    "all undecided": torch.zeros(10_000, 4),
    "far-away rows": 1e30 * torch.randn(100, 4, generator=torch.Generator().manual_seed(0)),
    "fewer rows than clusters": torch.zeros(1, 4),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_volume_and_gradient_are_finite_in_every_corner(corner: str) -> None:
    logits = CORNERS[corner].clone().requires_grad_()
    volume = log_volume(logits)
    volume.backward()
    assert volume.dtype == torch.float32
    assert torch.isfinite(volume)
    assert torch.isfinite(logits.grad).all()


def test_padding_has_no_volume_and_neither_have_no_rows() -> None:
    logits = draw(10, 3)
    weight = (torch.arange(10) < 6).double()
    torch.testing.assert_close(log_volume(logits, weight=weight), log_volume(logits[:6]))
    assert log_volume(logits[:0]).item() == 0.0

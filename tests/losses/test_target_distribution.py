"""DEC's target distribution and the divergence from it, against the printed formulas."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spherepair.losses.target_distribution import target_distribution, target_divergence


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


def test_gradient_matches_finite_differences():
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    target = target_distribution(memberships(5))
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: target_divergence(x, target, weight=weight), (logits.requires_grad_(),)
    )


def test_padding_rows_take_no_part():
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

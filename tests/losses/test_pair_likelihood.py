"""The pair likelihood loss against its literal formula, its corners and its symmetries."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spherepair.losses.pair_likelihood import log_agreement, log_disagreement, pair_likelihood_loss

TWO_LINKS = torch.tensor([True, False])


def literal(left: Tensor, right: Tensor, is_must_link: Tensor) -> Tensor:
    """Binary cross-entropy of Σ_k q_ak q_bk, pair by pair."""
    losses = []
    for a, b, must in zip(left.softmax(-1), right.softmax(-1), is_must_link, strict=True):
        similarity = sum(a[k] * b[k] for k in range(len(a)))
        losses.append(-torch.log(similarity) if must else -torch.log(1 - similarity))
    return torch.stack(losses).mean()


def draw(
    n_pairs: int, n_clusters: int, *, seed: int = 0, scale: float = 2.0
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left, right = scale * torch.randn(2, n_pairs, n_clusters, generator=generator, dtype=torch.float64)
    return left, right, torch.arange(n_pairs) % 2 == 0


@pytest.mark.parametrize("n_clusters", [2, 3, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_values_and_gradients_are_those_of_the_literal_formula(n_clusters: int, seed: int) -> None:
    left, right, link = draw(12, n_clusters, seed=seed)
    gradients = []
    for loss in (pair_likelihood_loss, literal):
        ends = [left.clone().requires_grad_(), right.clone().requires_grad_()]
        value = loss(*ends, link)
        gradients.append([value.detach(), *torch.autograd.grad(value, ends)])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_gradcheck() -> None:
    left, right, link = draw(6, 4)
    assert torch.autograd.gradcheck(
        lambda a, b: pair_likelihood_loss(a, b, link), (left.requires_grad_(), right.requires_grad_())
    )


def test_agreement_and_disagreement_sum_to_one() -> None:
    left, right, _ = draw(50, 5)
    total = log_agreement(left, right).exp() + log_disagreement(left, right).exp()
    torch.testing.assert_close(total, torch.ones(50, dtype=torch.float64), rtol=1e-12, atol=0)


def test_float32_still_tells_how_far_apart_two_sure_rows_are() -> None:
    """1 - s is 2e-18 here, which 1 - s in float32 would call zero; the loss is 40.7."""
    sure = torch.tensor([[41.4, 0.0]])
    loss = pair_likelihood_loss(sure, sure, torch.tensor([False]))
    assert loss.item() == pytest.approx(41.4 - math.log(2), abs=1e-4)


@pytest.mark.parametrize("gap", [0.0, 1.0, 90.0, 1e4, 1e30])
@pytest.mark.parametrize("n_clusters", [1, 2, 7])
@pytest.mark.parametrize("opposite", [True, False])
def test_loss_and_gradient_are_finite_in_every_corner(gap: float, n_clusters: int, opposite: bool) -> None:
    """From q_a·q_b = 0 through all equal to q_a·q_b = 1, and with one cluster only."""
    left = torch.zeros(2, n_clusters)
    left[:, 0] = gap
    right = left.roll(1, dims=1) if opposite else left.clone()
    left, right = left.requires_grad_(), right.requires_grad_()
    loss = pair_likelihood_loss(left, right, TWO_LINKS)
    gradients = torch.autograd.grad(loss, (left, right))
    assert torch.isfinite(loss)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_a_saturated_violation_is_still_pushed_apart() -> None:
    left = torch.tensor([[60.0, 0.0]], requires_grad=True)
    pair_likelihood_loss(left, left.detach(), torch.tensor([False])).backward()
    assert left.grad[0, 0] > 0.4


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_ends_and_clusters_can_be_swapped(seed: int, n_clusters: int) -> None:
    left, right, link = draw(5, n_clusters, seed=seed, scale=5.0)
    order = torch.randperm(n_clusters, generator=torch.Generator().manual_seed(seed))
    loss = pair_likelihood_loss(left, right, link)
    torch.testing.assert_close(pair_likelihood_loss(right, left, link), loss)
    torch.testing.assert_close(pair_likelihood_loss(left[:, order], right[:, order], link), loss)


def test_padding_takes_no_part_and_weights_count() -> None:
    left, right, link = draw(4, 3)
    weight = torch.tensor([2.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    single = [pair_likelihood_loss(left[i : i + 1], right[i : i + 1], link[i : i + 1]) for i in range(2)]
    loss = pair_likelihood_loss(left, right, link, weight=weight)
    torch.testing.assert_close(loss, (2 * single[0] + single[1]) / 3)
    assert pair_likelihood_loss(left, right, link, weight=0 * weight).item() == 0.0


def test_bfloat16_logits_give_a_float32_loss() -> None:
    left, right, link = draw(8, 3)
    assert pair_likelihood_loss(left.bfloat16(), right.bfloat16(), link).dtype == torch.float32

"""Pair losses of the baselines against their literal formulas, in their corners, and their symmetries."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spherepair.losses.pair_losses import (
    log_agreement,
    log_disagreement,
    margin_pair_loss,
    noisy_pair_loss,
    pair_likelihood_loss,
)

TWO_LINKS = torch.tensor([True, False])


def literal_likelihood(left: Tensor, right: Tensor, is_must_link: Tensor) -> Tensor:
    """Binary cross-entropy of Σ_k q_ak q_bk, pair by pair."""
    losses = []
    for a, b, must in zip(left.softmax(-1), right.softmax(-1), is_must_link, strict=True):
        similarity = sum(a[k] * b[k] for k in range(len(a)))
        losses.append(-torch.log(similarity) if must else -torch.log(1 - similarity))
    return torch.stack(losses).mean()


def draw_logits(
    n_pairs: int, n_clusters: int, *, seed: int = 0, scale: float = 2.0
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left, right = scale * torch.randn(2, n_pairs, n_clusters, generator=generator, dtype=torch.float64)
    return left, right, torch.arange(n_pairs) % 2 == 0


@pytest.mark.parametrize("n_clusters", [2, 3, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_likelihood_and_gradients_are_those_of_the_literal_formula(n_clusters: int, seed: int) -> None:
    left, right, link = draw_logits(12, n_clusters, seed=seed)
    gradients = []
    for loss in (pair_likelihood_loss, literal_likelihood):
        ends = [left.clone().requires_grad_(), right.clone().requires_grad_()]
        value = loss(*ends, link)
        gradients.append([value.detach(), *torch.autograd.grad(value, ends)])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_likelihood_gradcheck() -> None:
    left, right, link = draw_logits(6, 4)
    assert torch.autograd.gradcheck(
        lambda a, b: pair_likelihood_loss(a, b, link), (left.requires_grad_(), right.requires_grad_())
    )


def test_agreement_and_disagreement_sum_to_one() -> None:
    left, right, _ = draw_logits(50, 5)
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
def test_likelihood_and_gradient_are_finite_in_every_corner(
    gap: float, n_clusters: int, opposite: bool
) -> None:
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
    left, right, link = draw_logits(5, n_clusters, seed=seed, scale=5.0)
    order = torch.randperm(n_clusters, generator=torch.Generator().manual_seed(seed))
    loss = pair_likelihood_loss(left, right, link)
    torch.testing.assert_close(pair_likelihood_loss(right, left, link), loss)
    torch.testing.assert_close(pair_likelihood_loss(left[:, order], right[:, order], link), loss)


def test_padding_does_not_count_in_the_likelihood_and_weights_do() -> None:
    left, right, link = draw_logits(4, 3)
    weight = torch.tensor([2.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    single = [pair_likelihood_loss(left[i : i + 1], right[i : i + 1], link[i : i + 1]) for i in range(2)]
    loss = pair_likelihood_loss(left, right, link, weight=weight)
    torch.testing.assert_close(loss, (2 * single[0] + single[1]) / 3)
    assert pair_likelihood_loss(left, right, link, weight=0 * weight).item() == 0.0


def test_bfloat16_logits_give_a_float32_loss() -> None:
    left, right, link = draw_logits(8, 3)
    assert pair_likelihood_loss(left.bfloat16(), right.bfloat16(), link).dtype == torch.float32


def draw_table(n: int, n_clusters: int, *, seed: int = 0) -> Tensor:
    return 2 * torch.randn(n, n_clusters, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_noisy(left: Tensor, right: Tensor, is_must_link: Tensor, link_logits: Tensor) -> Tensor:
    losses = []
    for a, b, must in zip(left.softmax(-1), right.softmax(-1), is_must_link, strict=True):
        p = a @ torch.sigmoid(link_logits) @ b
        losses.append(-torch.log(p) if must else -torch.log(1 - p))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("n_clusters", [2, 5])
def test_noisy_likelihood_and_gradients_are_those_of_the_literal_formula(n_clusters: int) -> None:
    link = torch.arange(10) % 3 == 0
    results = []
    for name in ("ours", "literal"):
        inputs = [draw_table(10, n_clusters, seed=i).requires_grad_() for i in range(2)]
        blur = draw_table(n_clusters, n_clusters, seed=2).requires_grad_()
        if name == "ours":
            loss = noisy_pair_loss(*inputs, link, link_logits=blur)
        else:
            loss = literal_noisy(*inputs, link, blur)
        results.append([loss.detach(), *torch.autograd.grad(loss, [*inputs, blur])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_noisy_likelihood_gradcheck() -> None:
    link = torch.tensor([True, False, True])
    blur = draw_table(3, 3, seed=5).requires_grad_()
    ends = draw_table(3, 3).requires_grad_(), draw_table(3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b, c: noisy_pair_loss(a, b, link, link_logits=c), (*ends, blur))


def test_noisy_likelihood_without_noise_is_the_pair_likelihood() -> None:
    """Logits of ±1000 make B the identity; what is left is VanillaDCC's loss."""
    left, right, link = draw_table(20, 4), draw_table(20, 4, seed=1), torch.arange(20) % 2 == 0
    exact = 1000 * (2 * torch.eye(4, dtype=torch.float64) - 1)
    loss = noisy_pair_loss(left, right, link, link_logits=exact)
    torch.testing.assert_close(loss, pair_likelihood_loss(left, right, link), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("blur", [-1e4, 0.0, 1e4])
def test_noisy_likelihood_has_finite_gradients_in_every_corner(blur: float) -> None:
    sure = torch.tensor([[1e4, 0.0], [0.0, 1e4], [1e4, 0.0], [0.0, 1e4]], requires_grad=True)
    links = torch.full((2, 2), blur, requires_grad=True)
    link = torch.tensor([True, True, False, False])
    loss = noisy_pair_loss(sure, sure.detach().roll(1, dims=0), link, link_logits=links)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(sure.grad).all()
    assert torch.isfinite(links.grad).all()


def test_padding_does_not_count_in_the_noisy_likelihood() -> None:
    logits, blur = draw_table(10, 3), draw_table(3, 3, seed=3)
    weight, link = (torch.arange(10) < 6).double(), torch.arange(10) % 2 == 0
    loss = noisy_pair_loss(logits, logits.flip(0), link, link_logits=blur, weight=weight)
    kept = noisy_pair_loss(logits[:6], logits.flip(0)[:6], link[:6], link_logits=blur)
    torch.testing.assert_close(loss, kept)


def test_noisy_pairs_without_weight_cost_nothing_in_float32_too() -> None:
    logits, blur, link = torch.zeros(2, 3), torch.zeros(3, 3), torch.tensor([True, False])
    assert noisy_pair_loss(logits, logits, link, link_logits=blur, weight=torch.zeros(2)).item() == 0.0
    none = torch.zeros(0)
    assert noisy_pair_loss(logits[:0], logits[:0], link[:0], link_logits=blur, weight=none).item() == 0.0


def literal_margin(left: Tensor, right: Tensor, is_must_link: Tensor, margin: float, cap: float) -> Tensor:
    losses = []
    for a, b, must in zip(left, right, is_must_link, strict=True):
        d = torch.sqrt(((a - b) ** 2).sum() + 1e-12)
        if must:
            losses.append(torch.clamp(d, max=cap) ** 2)
        else:
            losses.append((margin - torch.clamp(d, max=margin)) ** 2)
    return torch.stack(losses).mean()


def draw_rows(n: int, *, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    left, right = scale * torch.randn(2, n, 3, generator=generator, dtype=torch.float64)
    return left, right, torch.arange(n) % 2 == 0


@pytest.mark.parametrize(("margin", "cap"), [(1.0, 1e4), (3.0, 2.0), (100.0, 1e4)])
def test_margin_loss_and_gradients_are_those_of_the_literal_formula(margin: float, cap: float) -> None:
    left, right, link = draw_rows(40)
    results = []
    for name in ("ours", "literal"):
        ends = left.clone().requires_grad_(), right.clone().requires_grad_()
        if name == "ours":
            loss = margin_pair_loss(*ends, link, margin=margin, cap=cap)
        else:
            loss = literal_margin(*ends, link, margin, cap)
        results.append([loss.detach(), *torch.autograd.grad(loss, ends)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_margin_gradcheck() -> None:
    left, right, link = draw_rows(10)
    assert torch.autograd.gradcheck(
        lambda a, b: margin_pair_loss(a, b, link, margin=2.0),
        (left.requires_grad_(), right.requires_grad_()),
    )


def test_margins_may_be_tensors() -> None:
    left, right, link = draw_rows(10)
    margin, cap = torch.tensor(2.0), torch.tensor(1.5)
    loss = margin_pair_loss(left, right, link, margin=margin, cap=cap)
    torch.testing.assert_close(loss, margin_pair_loss(left, right, link, margin=2.0, cap=1.5))


@pytest.mark.parametrize("distance", [0.0, 1.0, 1e4, 1e18, 1e25])
def test_margin_gradients_are_finite_at_every_distance(distance: float) -> None:
    left = torch.zeros(2, 3, requires_grad=True)
    right = torch.full((2, 3), distance)
    loss = margin_pair_loss(left, right, torch.tensor([True, False]), margin=1.0)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(left.grad).all()


def test_must_links_beyond_the_cap_and_cannot_links_beyond_the_margin_are_left_alone() -> None:
    left = torch.zeros(2, 1, requires_grad=True)
    right = torch.tensor([[20.0], [20.0]])
    margin_pair_loss(left, right, torch.tensor([True, False]), margin=10.0, cap=15.0).backward()
    assert left.grad.abs().max() == 0.0


def test_padding_does_not_count_in_the_margin_loss() -> None:
    left, right, link = draw_rows(10)
    weight = (torch.arange(10) < 4).double()
    loss = margin_pair_loss(left, right, link, margin=2.0, weight=weight)
    torch.testing.assert_close(loss, margin_pair_loss(left[:4], right[:4], link[:4], margin=2.0))
    assert margin_pair_loss(left, right, link, margin=2.0, weight=0 * weight).item() == 0.0

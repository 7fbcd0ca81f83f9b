"""The terms of VolMaxDCC against their literal formulas and in their corners."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from spherepair.losses.pair_likelihood import pair_likelihood_loss
from spherepair.losses.volume import log_volume, noisy_pair_loss


def draw(n: int, n_clusters: int, *, seed: int = 0) -> Tensor:
    return 2 * torch.randn(n, n_clusters, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_pairs(left: Tensor, right: Tensor, is_must_link: Tensor, link_logits: Tensor) -> Tensor:
    losses = []
    for a, b, must in zip(left.softmax(-1), right.softmax(-1), is_must_link, strict=True):
        p = a @ torch.sigmoid(link_logits) @ b
        losses.append(-torch.log(p) if must else -torch.log(1 - p))
    return torch.stack(losses).mean()


def literal_volume(logits: Tensor) -> Tensor:
    q = logits.softmax(-1)
    gram = sum(torch.outer(row, row) for row in q) + 1e-6 * torch.eye(q.shape[1], dtype=q.dtype)
    return torch.log(torch.linalg.det(gram))


@pytest.mark.parametrize("n_clusters", [2, 5])
def test_pairs_have_the_values_and_gradients_of_the_literal_formula(n_clusters: int) -> None:
    link = torch.arange(10) % 3 == 0
    results = []
    for name in ("ours", "literal"):
        inputs = [draw(10, n_clusters, seed=i).requires_grad_() for i in range(2)]
        blur = draw(n_clusters, n_clusters, seed=2).requires_grad_()
        if name == "ours":
            loss = noisy_pair_loss(*inputs, link, link_logits=blur)
        else:
            loss = literal_pairs(*inputs, link, blur)
        results.append([loss.detach(), *torch.autograd.grad(loss, [*inputs, blur])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_volume_has_the_values_and_gradients_of_the_literal_formula(n_clusters: int) -> None:
    results = []
    for volume in (log_volume, literal_volume):
        logits = draw(30, n_clusters).requires_grad_()
        value = volume(logits)
        results.append([value.detach(), *torch.autograd.grad(value, [logits])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_gradcheck() -> None:
    link = torch.tensor([True, False, True])
    blur = draw(3, 3, seed=5).requires_grad_()
    ends = draw(3, 3).requires_grad_(), draw(3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b, c: noisy_pair_loss(a, b, link, link_logits=c) - log_volume(a), (*ends, blur)
    )


def test_without_blur_it_is_the_pair_likelihood() -> None:
    """B' of ±1000 makes B the identity; what is left is VanillaDCC's loss."""
    left, right, link = draw(20, 4), draw(20, 4, seed=1), torch.arange(20) % 2 == 0
    exact = 1000 * (2 * torch.eye(4, dtype=torch.float64) - 1)
    loss = noisy_pair_loss(left, right, link, link_logits=exact)
    torch.testing.assert_close(loss, pair_likelihood_loss(left, right, link), rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("blur", [-1e4, 0.0, 1e4])
def test_pairs_have_finite_gradients_in_every_corner(blur: float) -> None:
    sure = torch.tensor([[1e4, 0.0], [0.0, 1e4], [1e4, 0.0], [0.0, 1e4]], requires_grad=True)
    links = torch.full((2, 2), blur, requires_grad=True)
    link = torch.tensor([True, True, False, False])
    loss = noisy_pair_loss(sure, sure.detach().roll(1, dims=0), link, link_logits=links)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(sure.grad).all()
    assert torch.isfinite(links.grad).all()


def test_padding_takes_no_part_and_no_rows_have_no_volume() -> None:
    logits = draw(10, 3)
    weight = (torch.arange(10) < 6).double()
    torch.testing.assert_close(log_volume(logits, weight=weight), log_volume(logits[:6]))
    assert log_volume(logits[:0]).item() == 0.0
    link = torch.arange(10) % 2 == 0
    blur = draw(3, 3, seed=3)
    loss = noisy_pair_loss(logits, logits.flip(0), link, link_logits=blur, weight=weight)
    kept = noisy_pair_loss(logits[:6], logits.flip(0)[:6], link[:6], link_logits=blur)
    torch.testing.assert_close(loss, kept)


def test_pairs_of_no_weight_cost_nothing_in_float32_too() -> None:
    logits, blur, link = torch.zeros(2, 3), torch.zeros(3, 3), torch.tensor([True, False])
    assert noisy_pair_loss(logits, logits, link, link_logits=blur, weight=torch.zeros(2)).item() == 0.0
    none = torch.zeros(0)
    assert noisy_pair_loss(logits[:0], logits[:0], link[:0], link_logits=blur, weight=none).item() == 0.0

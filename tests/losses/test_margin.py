"""The margin loss of AutoEmbedder against its literal formula and in its corners."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from spherepair.losses.margin import margin_pair_loss


def literal(left: Tensor, right: Tensor, is_must_link: Tensor, margin: float, cap: float) -> Tensor:
    losses = []
    for a, b, must in zip(left, right, is_must_link, strict=True):
        d = torch.sqrt(((a - b) ** 2).sum() + 1e-12)
        if must:
            losses.append(torch.clamp(d, max=cap) ** 2)
        else:
            losses.append((margin - torch.clamp(d, max=margin)) ** 2)
    return torch.stack(losses).mean()


def draw(n: int, *, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    left, right = scale * torch.randn(2, n, 3, generator=generator, dtype=torch.float64)
    return left, right, torch.arange(n) % 2 == 0


@pytest.mark.parametrize(("margin", "cap"), [(1.0, 1e4), (3.0, 2.0), (100.0, 1e4)])
def test_values_and_gradients_are_those_of_the_literal_formula(margin: float, cap: float) -> None:
    left, right, link = draw(40)
    results = []
    for name in ("ours", "literal"):
        ends = left.clone().requires_grad_(), right.clone().requires_grad_()
        if name == "ours":
            loss = margin_pair_loss(*ends, link, margin=margin, cap=cap)
        else:
            loss = literal(*ends, link, margin, cap)
        results.append([loss.detach(), *torch.autograd.grad(loss, ends)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_gradcheck() -> None:
    left, right, link = draw(10)
    assert torch.autograd.gradcheck(
        lambda a, b: margin_pair_loss(a, b, link, margin=2.0),
        (left.requires_grad_(), right.requires_grad_()),
    )


def test_margins_may_be_tensors() -> None:
    left, right, link = draw(10)
    margin, cap = torch.tensor(2.0), torch.tensor(1.5)
    loss = margin_pair_loss(left, right, link, margin=margin, cap=cap)
    torch.testing.assert_close(loss, margin_pair_loss(left, right, link, margin=2.0, cap=1.5))


@pytest.mark.parametrize("distance", [0.0, 1.0, 1e4, 1e18, 1e25])
def test_gradients_are_finite_at_every_distance(distance: float) -> None:
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


def test_padding_takes_no_part() -> None:
    left, right, link = draw(10)
    weight = (torch.arange(10) < 4).double()
    loss = margin_pair_loss(left, right, link, margin=2.0, weight=weight)
    torch.testing.assert_close(loss, margin_pair_loss(left[:4], right[:4], link[:4], margin=2.0))
    assert margin_pair_loss(left, right, link, margin=2.0, weight=0 * weight).item() == 0.0

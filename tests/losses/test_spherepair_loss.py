"""The angular loss against exact angles and a literal formula; the reconstruction error as a mean."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spherepair.losses import (
    PairGroup,
    angular_losses,
    angular_pair_loss,
    pair_angles,
    reconstruction_loss,
    shares,
)

DEGREES = [0, 20, 40, 60, 90, 120, 150, 180]


def at_angle(theta: float, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Two vectors of different lengths with the angle theta between them."""
    left = torch.tensor([[3.0, 0.0, 0.0]], dtype=dtype)
    right = 0.5 * torch.tensor([[math.cos(theta), math.sin(theta), 0.0]], dtype=dtype)
    return left, right


def literal(theta: float, is_must_link: bool, omega: float) -> float:
    """Eq. 1 of the paper, word for word."""
    if is_must_link:
        return -math.log((math.cos(theta) + 1) / 2)
    return -math.log(1 - (math.cos(min(omega * theta, math.pi)) + 1) / 2)


@pytest.mark.parametrize("degrees", DEGREES[:-1])
def test_must_link_loss_is_the_papers_formula(degrees):
    theta = math.radians(degrees)
    loss = angular_pair_loss(*at_angle(theta), torch.tensor([True]))
    assert loss.item() == pytest.approx(literal(theta, True, 2.0), abs=1e-12)


@pytest.mark.parametrize("omega", [1.0, 1.5, 2.0, 3.0, 10.0])
@pytest.mark.parametrize("degrees", DEGREES[1:])
def test_cannot_link_loss_is_the_papers_formula(degrees, omega):
    theta = math.radians(degrees)
    loss = angular_pair_loss(*at_angle(theta), torch.tensor([False]), omega=omega)
    assert loss.item() == pytest.approx(literal(theta, False, omega), abs=1e-9)


def test_loss_is_zero_when_must_link_pair_coincides():
    assert angular_pair_loss(*at_angle(0.0), torch.tensor([True])).item() == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("degrees", [90, 100, 135, 180])
def test_cannot_link_outside_its_zone_costs_nothing_and_pulls_nothing(degrees):
    left, right = at_angle(math.radians(degrees))
    left.requires_grad_()
    loss = angular_pair_loss(left, right, torch.tensor([False]))
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    assert left.grad.abs().max() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("is_must_link", [True, False])
@pytest.mark.parametrize("theta", [0.0, math.pi / 2, math.pi])
def test_loss_and_gradient_are_finite_in_every_corner(theta, is_must_link, dtype):
    left, right = (t.requires_grad_() for t in at_angle(theta, dtype))
    left = left.detach().requires_grad_()
    loss = angular_pair_loss(left, right, torch.tensor([is_must_link]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(left.grad).all()


def test_zero_and_equal_embeddings_have_finite_gradients():
    left = torch.zeros(2, 4, requires_grad=True)
    right = torch.zeros(2, 4)
    angular_pair_loss(left, right, torch.tensor([True, False])).backward()
    assert torch.isfinite(left.grad).all()


def test_small_angles_are_resolved_in_float32():
    """With acos the loss of a cannot-link at 1e-3 rad would be off by several per cent."""
    theta = 1e-3
    loss = angular_pair_loss(*at_angle(theta, torch.float32), torch.tensor([False]))
    assert loss.item() == pytest.approx(literal(theta, False, 2.0), rel=1e-4)


def test_bfloat16_embeddings_give_a_float32_loss_close_to_the_float32_one():
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 256, 10, generator=generator)
    link = torch.arange(256) % 2 == 0
    with torch.autocast("cpu", torch.bfloat16):
        rough = angular_pair_loss(left.bfloat16(), right.bfloat16(), link)
    exact = angular_pair_loss(left, right, link)
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(exact.item(), rel=1e-2)


@pytest.mark.parametrize("omega", [1.2, 2.0, 3.0])
def test_gradient_matches_finite_differences(omega):
    generator = torch.Generator().manual_seed(1)
    left, right = torch.randn(2, 6, 3, generator=generator, dtype=torch.float64)
    link = torch.tensor([True, False] * 3)
    weight = torch.tensor([1.0, 2.0, 0.0, 0.5, 1.0, 3.0], dtype=torch.float64)

    def loss(a, b):
        return angular_pair_loss(a, b, link, weight=weight, omega=omega)

    assert torch.autograd.gradcheck(loss, (left.requires_grad_(), right.requires_grad_()))


def test_padding_of_weight_zero_changes_nothing():
    generator = torch.Generator().manual_seed(2)
    left, right = torch.randn(2, 8, 5, generator=generator)
    link = torch.arange(8) < 3
    weight = torch.ones(8)
    weight[5:] = 0
    padded = angular_pair_loss(left, right, link, weight=weight)
    assert padded.item() == pytest.approx(angular_pair_loss(left[:5], right[:5], link[:5]).item(), rel=1e-6)


def test_all_padding_is_zero_with_zero_gradient():
    left = torch.randn(3, 4, generator=torch.Generator().manual_seed(3), requires_grad=True)
    loss = angular_pair_loss(left, -left.detach(), torch.tensor([True] * 3), weight=torch.zeros(3))
    loss.backward()
    assert loss.item() == 0.0
    assert left.grad.abs().max() == 0.0


def test_groups_taken_at_once_are_the_groups_one_by_one():
    generator = torch.Generator().manual_seed(4)

    def group(n):
        left, right = (torch.randn(n, 5, generator=generator).requires_grad_() for _ in range(2))
        weight = torch.rand(n, generator=generator)
        return PairGroup(left, right, torch.rand(n, generator=generator) < 0.5, 0.3 * shares(weight)), weight

    groups = [group(n) for n in (7, 0, 3)]
    together = angular_losses([one for one, _ in groups], omega=1.7)
    sum(together).backward()
    for (one, weight), loss in zip(groups, together, strict=True):
        gradients = [end.grad.clone() for end in one[:2]]
        one.left.grad = one.right.grad = None
        alone = 0.3 * angular_pair_loss(one.left, one.right, one.is_must_link, weight=weight, omega=1.7)
        alone.backward()
        assert loss.item() == pytest.approx(alone.item(), rel=1e-5)
        for end, gradient in zip(one[:2], gradients, strict=True):
            assert torch.allclose(end.grad, gradient, rtol=1e-4, atol=1e-7)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100.0), n_dims=st.integers(2, 12))
def test_loss_ignores_rotation_scale_and_the_order_of_the_ends(seed, scale, n_dims):
    generator = torch.Generator().manual_seed(seed)
    left, right = torch.randn(2, 7, n_dims, generator=generator, dtype=torch.float64)
    link = torch.rand(7, generator=generator) < 0.5
    rotation, _ = torch.linalg.qr(torch.randn(n_dims, n_dims, generator=generator, dtype=torch.float64))
    expected = angular_pair_loss(left, right, link).item()
    moved = angular_pair_loss(scale * left @ rotation, right @ rotation, link).item()
    assert moved == pytest.approx(expected, rel=1e-9)
    assert angular_pair_loss(right, left, link).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("degrees", DEGREES)
def test_pair_angles_are_exact(degrees):
    theta = math.radians(degrees)
    assert pair_angles(*at_angle(theta)).item() == pytest.approx(theta, abs=1e-12)


def test_reconstruction_error_is_a_mean_over_rows_and_features():
    output, target = torch.zeros(4, 5), torch.full((4, 5), 3.0)
    assert reconstruction_loss(output, target).item() == pytest.approx(9.0)


def test_reconstruction_of_wider_rows_does_not_weigh_more():
    narrow = reconstruction_loss(torch.zeros(2, 3), torch.ones(2, 3))
    wide = reconstruction_loss(torch.zeros(2, 300), torch.ones(2, 300))
    assert narrow.item() == pytest.approx(wide.item())


def test_padding_rows_take_no_part_in_the_reconstruction_error():
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(2, 6, 4, generator=generator)
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    padded = reconstruction_loss(output, target, weight=weight)
    assert padded.item() == pytest.approx(reconstruction_loss(output[:4], target[:4]).item(), rel=1e-6)


def test_reconstruction_error_of_half_precision_is_summed_in_float32():
    loss = reconstruction_loss(torch.zeros(2, 3, dtype=torch.bfloat16), torch.ones(2, 3))
    assert loss.dtype == torch.float32


def test_reconstruction_gradient_matches_finite_differences():
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    weight = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: reconstruction_loss(x, target, weight=weight), (output.requires_grad_(),)
    )

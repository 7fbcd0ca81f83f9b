"""The reconstruction error: a mean over rows and features."""

from __future__ import annotations

import pytest
import torch

from spherepair.losses import reconstruction_loss


def test_mean_is_over_rows_and_features():
    output, target = torch.zeros(4, 5), torch.full((4, 5), 3.0)
    assert reconstruction_loss(output, target).item() == pytest.approx(9.0)


def test_wider_rows_do_not_weigh_more():
    narrow = reconstruction_loss(torch.zeros(2, 3), torch.ones(2, 3))
    wide = reconstruction_loss(torch.zeros(2, 300), torch.ones(2, 300))
    assert narrow.item() == pytest.approx(wide.item())


def test_padding_rows_take_no_part():
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(2, 6, 4, generator=generator)
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    padded = reconstruction_loss(output, target, weight=weight)
    assert padded.item() == pytest.approx(reconstruction_loss(output[:4], target[:4]).item(), rel=1e-6)


def test_half_precision_is_summed_in_float32():
    loss = reconstruction_loss(torch.zeros(2, 3, dtype=torch.bfloat16), torch.ones(2, 3))
    assert loss.dtype == torch.float32


def test_gradient_matches_finite_differences():
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    weight = torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: reconstruction_loss(x, target, weight=weight), (output.requires_grad_(),)
    )

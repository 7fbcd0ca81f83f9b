"""The autoencoder with centres: memberships by distance, exact near a centre and far away."""

from __future__ import annotations

import pytest
import torch

from spherepair.networks import build_autoencoder
from spherepair.networks.clustered import ClusteredAutoencoder


def make(exponent: float = 1.0) -> ClusteredAutoencoder:
    generator = torch.Generator().manual_seed(0)
    autoencoder = build_autoencoder(4, 2, hidden_dims=(3,), spherical=False, generator=generator)
    network = ClusteredAutoencoder(autoencoder, 3, 2, exponent=exponent).double()
    with torch.no_grad():
        network.centers.normal_(generator=generator)
    return network


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_memberships_are_the_printed_formula(exponent):
    network = make(exponent)
    z = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = network.logits(z).softmax(dim=1)
    for row, q in zip(z, found, strict=True):
        kernel = torch.stack([(1 + ((row - c) ** 2).sum()) ** -exponent for c in network.centers])
        torch.testing.assert_close(q, kernel / kernel.sum(), rtol=1e-12, atol=0)


def test_the_nearest_centre_is_the_most_probable():
    network = make()
    assert network.logits(network.centers.detach()).argmax(dim=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("place", [0.0, 1e4, 1e15])
def test_gradients_are_finite_on_a_centre_and_far_away(place):
    network = make().float()
    z = (network.centers.detach()[:1] + place).requires_grad_()
    network.logits(z).softmax(dim=1)[0, 0].backward()
    assert torch.isfinite(z.grad).all()
    assert torch.isfinite(network.centers.grad).all()


def test_a_distance_far_from_the_origin_is_not_lost_to_rounding():
    network = make().float()
    with torch.no_grad():
        network.centers.copy_(torch.tensor([[1000.0, 1000.0], [1000.0, 1000.5], [0.0, 0.0]]))
    found = network.logits(torch.tensor([[1000.0, 1000.0]]))[0]
    assert found[0].item() == 0.0
    assert found[1].item() == pytest.approx(-torch.log1p(torch.tensor(0.25)).item())


def test_half_precision_embeddings_give_float32_logits():
    assert make().float().logits(torch.zeros(2, 2, dtype=torch.bfloat16)).dtype == torch.float32

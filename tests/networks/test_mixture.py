"""The variational autoencoder with a mixture: densities against torch's, finite in every corner."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Independent, Normal

from spherepair.networks.mixture import LOG_VARIANCE_BOUND, MixtureVAE, mean_and_log_variance


def make() -> MixtureVAE:
    generator = torch.Generator().manual_seed(0)
    network = MixtureVAE(4, 2, 3, hidden_dims=(6, 5), generator=generator)
    with torch.no_grad():
        network.centers.normal_(generator=generator)
        network.log_variances.normal_(generator=generator)
    return network


def test_logits_are_log_densities_of_the_components():
    network = make().double()
    z = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for c in range(3):
        component = Normal(network.centers[c], (network.log_variances[c] / 2).exp())
        expected = Independent(component, 1).log_prob(z) + math.log(2 * math.pi)
        torch.testing.assert_close(network.logits(z)[:, c], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("log_variance", [-1e4, -100.0, 0.0, 80.0])
@pytest.mark.parametrize("place", [0.0, 1.0, 1e6])
def test_gradients_are_finite_for_points_and_far_away(place, log_variance):
    network = make()
    with torch.no_grad():
        network.log_variances.fill_(log_variance)
    z = (network.centers.detach()[:1] + place).requires_grad_()
    network.logits(z).log_softmax(dim=1)[0, 1].backward()
    assert torch.isfinite(z.grad).all()
    assert torch.isfinite(network.log_variances.grad).all()


def test_log_variances_of_far_away_rows_are_bounded():
    _, log_variance = mean_and_log_variance(make().answer(torch.full((1, 4), 1e9)))
    assert log_variance.abs().max() <= LOG_VARIANCE_BOUND


def test_rows_are_divided_by_the_ceiling():
    network = make()
    rows = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
    plain = network.encode(rows)
    network.ceiling.fill_(5.0)
    torch.testing.assert_close(network.encode(5 * rows), plain)


def test_weights_are_glorots_and_biases_zero():
    network = make()
    last = network.encoder[-1]
    assert (last.bias == 0).all()
    means, variances = last.weight.chunk(2)
    assert not torch.equal(means, variances)
    for half in (means, variances):  # each a layer of two units
        assert 0.6 * math.sqrt(6 / (5 + 2)) < half.abs().max() <= math.sqrt(6 / (5 + 2))


def test_same_generator_same_weights():
    first, second = (make().state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_no_hidden_layers_is_a_linear_encoder():
    network = MixtureVAE(4, 2, 3, hidden_dims=())
    assert network.decode(network.encode(torch.zeros(1, 4))).shape == (1, 4)

"""The autoencoder: shapes, the sphere in the middle, weights from our own generator."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from spherepair.networks import ARCHITECTURES, build_autoencoder


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_maps_rows_to_rows(name):
    network = build_autoencoder(30, 10, hidden_dims=ARCHITECTURES[name])
    x = torch.zeros(3, 30)
    assert network.encode(x).shape == (3, 10)
    assert network(x).shape == (3, 30)
    sizes = [layer.out_features for layer in network.encoder if isinstance(layer, nn.Linear)]
    assert sizes == [*ARCHITECTURES[name], 10]


def test_decoding_depends_on_the_direction_alone():
    network = build_autoencoder(6, 3, hidden_dims=(8,), generator=torch.Generator().manual_seed(0))
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(network.decode(z), network.decode(17.0 * z))


def test_a_flat_autoencoder_keeps_the_length():
    network = build_autoencoder(6, 3, hidden_dims=(8,), spherical=False)
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    assert not torch.allclose(network.decode(z), network.decode(17.0 * z))


def test_weights_come_from_the_generator_and_leave_the_global_one_alone():
    before = torch.get_rng_state()
    first, second = (build_autoencoder(5, 2, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    other = build_autoencoder(5, 2, generator=torch.Generator().manual_seed(4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.encoder[0].weight, other.encoder[0].weight)


def test_weights_are_spread_as_in_pytorch():
    network = build_autoencoder(400, 2, hidden_dims=(300,), generator=torch.Generator().manual_seed(0))
    weight, bound = network.encoder[0].weight, 1 / math.sqrt(400)
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_a_given_encoder_is_copied():
    encoder = nn.Linear(5, 2)
    network = build_autoencoder(5, 2, encoder=encoder)
    with torch.no_grad():
        network.encoder.weight.zero_()
    assert encoder.weight.abs().max() > 0

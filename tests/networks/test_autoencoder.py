"""Autoencoders: shapes and the sphere in the middle. MLPs: the explicit pass against autograd's own."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from spherepair.networks import ALIGNED, ARCHITECTURES, MLP, build_autoencoder, mlp
from spherepair.training.hardware import Hardware


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


@pytest.fixture(autouse=True)
def switches_of_training() -> Iterator[None]:
    with Hardware(torch.device("cpu"), "bfloat16").matrix_products():
        yield


def gradients(network: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    network = copy.deepcopy(network)
    x = x.clone().requires_grad_()
    output = network(x)
    output.float().square().mean().backward()
    return output, [p.grad for p in network.parameters() if p.grad is not None], x.grad


def flat(results: tuple[Tensor, list[Tensor], Tensor]) -> list[Tensor]:
    output, of_parameters, of_rows = results
    return [output, *of_parameters, of_rows]


@pytest.mark.parametrize("unit", [1, 8])  # on a GPU widths are padded
@pytest.mark.parametrize("ends_in_relu", [False, True])
@pytest.mark.parametrize("sizes", [(20, 12), (20, 16, 8), (20, 33, 17, 5)])
def test_values_and_gradients_are_those_of_autograd_up_to_rounding(sizes, ends_in_relu, unit, monkeypatch):
    monkeypatch.setitem(ALIGNED, "cpu", unit)
    network = mlp(sizes, ends_in_relu=ends_in_relu, generator=torch.Generator().manual_seed(0))
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(1))
    exact = gradients(network, x)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = gradients(network, x)
    for mine, true in zip(flat(rounded), flat(exact), strict=True):
        assert mine.dtype == torch.float32
        assert (mine - true).norm() < 0.08 * true.norm()  # a ReLU may flip
        assert not torch.equal(mine, true)  # bfloat16 was really used


def test_without_autocast_nothing_is_rounded():
    network = mlp((6, 5, 4))
    x = torch.randn(3, 6)
    assert torch.equal(network(x), nn.Sequential(*network)(x))


@pytest.mark.parametrize("frozen", [0, 1, 2, 3])
def test_a_frozen_parameter_gets_no_gradient_and_the_others_keep_theirs(frozen):
    network = mlp((6, 5, 4), generator=torch.Generator().manual_seed(0))
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        network(x).sum().backward()
        whole = [p.grad for p in network.parameters()]
        network.zero_grad()
        list(network.parameters())[frozen].requires_grad_(False)
        network(x).sum().backward()
    for number, (parameter, before) in enumerate(zip(network.parameters(), whole, strict=True)):
        if number == frozen:
            assert parameter.grad is None
        else:
            assert torch.equal(parameter.grad, before)


def test_rows_that_it_does_not_know_take_the_ordinary_way():
    network = MLP(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 2))
    with torch.autocast("cpu", torch.bfloat16):
        assert network(torch.randn(3, 6)).dtype == torch.bfloat16  # a layer without bias
        assert mlp((6, 5, 4))(torch.randn(2, 3, 6)).shape == (2, 3, 4)  # more than one dimension of rows
        double = mlp((6, 4)).double()
        assert double(torch.randn(3, 6, dtype=torch.float64)).dtype == torch.float64


def test_a_layer_that_was_put_in_is_not_passed_over():
    network = mlp((6, 5, 4), generator=torch.Generator().manual_seed(0))
    network.insert(1, nn.BatchNorm1d(5))
    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
    exact, cut = network(x), network[1:]
    assert isinstance(cut, MLP)
    with torch.autocast("cpu", torch.bfloat16):
        assert (network(x).float() - exact).norm() < 0.05 * exact.norm()
        assert (cut(x[:, :5]).float() - nn.Sequential(*cut)(x[:, :5]).float()).norm() == 0


def test_what_is_embedded_without_gradients_is_the_same():
    network = mlp((6, 5, 4), generator=torch.Generator().manual_seed(0))
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        with_gradients = network(x)
        with torch.no_grad():
            assert torch.equal(network(x), with_gradients)


def test_shapes_can_be_asked_for_without_memory():
    assert mlp((6, 5, 4)).to("meta")(torch.empty(3, 6, device="meta")).shape == (3, 4)


def test_names_in_a_saved_model_are_those_of_a_plain_sequence():
    assert list(mlp((4, 3, 2)).state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]

"""Which networks the kernels know, and how often a step passes them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spherepair.accel.layers import (
    autoencoder_links,
    fit_kernels,
    links_of,
    single_passes,
    update_rule,
)
from spherepair.networks import MLP, Autoencoder, build_autoencoder, mlp
from spherepair.training import Objective, Recipe
from spherepair.training.hardware import Hardware

CPU = Hardware(torch.device("cpu"), "float32")


class Two(Objective):
    """An encoder and a decoder; ``passes`` says how a step uses them."""

    def __init__(self, passes="once"):
        super().__init__()
        self.encoder, self.decoder = mlp((6, 5, 4)), mlp((4, 5, 6))
        self.norm = nn.BatchNorm1d(6)
        self.passes = passes

    def terms(self, batch):
        x = self.norm(batch)
        z = torch.dropout(self.encoder(x), 0.5, True)
        terms = {"size": z.square().mean()}
        if self.passes == "encoder twice":
            terms["other"] = self.encoder(-x).mean()
        if self.passes == "weights decay":
            terms["decay"] = self.encoder[0].weight.square().sum()
        if self.passes == "layer by layer":
            terms["other"] = self.decoder[0](z).mean()
        elif self.passes != "encoder alone":
            terms["error"] = (self.decoder(z) - x).abs().mean()
        return terms


@pytest.mark.parametrize(
    ("passes", "encoder", "decoder"),
    [
        ("once", 1, 1),
        ("encoder alone", 1, 0),
        ("encoder twice", None, 1),
        ("weights decay", None, 1),
        ("layer by layer", 1, None),
    ],
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_only_networks_that_a_step_passes_at_most_once_are_named(passes, encoder, decoder, precision):
    objective, hardware = Two(passes), Hardware(CPU.device, precision)
    with hardware.matrix_products():
        found = single_passes([objective.encoder, objective.decoder], objective, torch.rand(8, 6), hardware)
    assert found.get(objective.encoder) == encoder
    assert found.get(objective.decoder) == decoder


def test_trying_a_step_leaves_no_trace():
    objective = Two()
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    random = torch.random.get_rng_state()
    single_passes([objective.encoder], objective, torch.rand(8, 6, generator=torch.Generator()), CPU)
    assert all(torch.equal(tensor, before[name]) for name, tensor in objective.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert not objective.encoder._forward_hooks


def test_chains_of_another_kind_have_no_links():
    assert links_of(MLP(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))) is None
    assert links_of(nn.Linear(6, 4)) is None
    assert links_of(nn.Sequential()) is None
    assert [link.activation for link in links_of(mlp((6, 5, 4)))] == ["relu", "linear"]
    assert [link.activation for link in links_of(mlp((6, 4), ends_in_relu=True))] == ["relu"]


@pytest.mark.parametrize(
    ("ends_in_relu", "spherical", "dropout", "activation"),
    [
        (False, True, 0.0, "sphere"),
        (False, False, 0.0, "linear"),
        (True, False, 0.0, "relu"),
        (True, False, 0.2, "dropped relu"),
        (True, True, 0.0, None),
        (False, True, 0.2, None),
    ],
)
def test_the_code_of_an_autoencoder_has_an_activation_of_its_own(
    ends_in_relu, spherical, dropout, activation
):
    network = Autoencoder(mlp((6, 5, 4), ends_in_relu=ends_in_relu), mlp((4, 5, 6)), spherical=spherical)
    links = autoencoder_links(network, dropout)
    if activation is None:
        assert links is None
    else:
        assert [link.activation for link in links] == ["relu", activation, "relu", "linear"]


def test_an_encoder_with_a_pass_of_its_own_has_no_links():
    class Own(nn.Sequential):
        def forward(self, x):
            return super().forward(x.log1p())

    network = build_autoencoder(6, 4, hidden_dims=(5,))
    assert autoencoder_links(network) is not None
    network.encoder = Own(*network.encoder)
    assert autoencoder_links(network) is None


def test_an_autoencoder_of_another_class_has_no_links():
    class Own(Autoencoder):
        def encode(self, x):
            return super().encode(x).tanh()

    assert autoencoder_links(Own(mlp((6, 4)), mlp((4, 6)))) is None
    assert autoencoder_links(mlp((6, 6))) is None


def test_layers_without_bias_have_no_links():
    network = build_autoencoder(6, 4, hidden_dims=(5,))
    network.encoder[0].register_parameter("bias", None)
    assert autoencoder_links(network) is None


class Whole(Objective):
    def __init__(self, network):
        super().__init__()
        self.network = network


def test_frozen_layers_and_wide_embeddings_do_not_fit_the_kernels():
    for dims, is_frozen, fits in [(4, False, True), (4, True, False), (65, False, False)]:
        network = build_autoencoder(6, dims, hidden_dims=(5,))
        network.encoder[0].bias.requires_grad_(not is_frozen)
        optimizer = Recipe().build(Whole(network), CPU)
        assert fit_kernels(autoencoder_links(network), optimizer) == fits


def test_there_are_kernels_for_adam_and_for_sgd_with_momentum():
    objective = Whole(mlp((6, 4)))
    assert update_rule(Recipe().build(objective, CPU)).is_adam
    momentum = update_rule(Recipe("sgd", momentum=0.9).build(objective, CPU))
    assert (momentum.is_adam, momentum.constants) == (False, (0.9, 0.0, 0.0))
    assert update_rule(Recipe("sgd").build(objective, CPU)) is None

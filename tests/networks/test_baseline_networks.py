"""Networks of the baselines: layers, memberships by distance, densities of the mixture."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal

from spherepair.networks import build_autoencoder
from spherepair.networks.baseline_networks import (
    LOG_VARIANCE_BOUND,
    Classifier,
    ClusteredAutoencoder,
    MixtureVAE,
    NoisyLinkClassifier,
    build_twin,
    classifier_body,
    mean_and_log_variance,
)


def test_layers_have_the_sizes_that_were_asked_for() -> None:
    layers = classifier_body(7, 4, hidden_dims=(6, 5))
    sizes = [(layer.in_features, layer.out_features) for layer in layers if isinstance(layer, nn.Linear)]
    assert sizes == [(7, 6), (6, 5), (5, 4)]
    assert not any(isinstance(layer, nn.BatchNorm1d) for layer in layers)


def test_batch_normalization_stands_between_every_linear_layer_and_its_relu() -> None:
    kinds = [type(layer) for layer in classifier_body(7, 4, hidden_dims=(6, 5), batch_norm=True)]
    assert kinds == [nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2 + [nn.Linear]


def test_the_same_generator_gives_the_same_weights_with_or_without_normalization() -> None:
    layers = [
        classifier_body(5, 3, batch_norm=flag, generator=torch.Generator().manual_seed(3))
        for flag in (False, True)
    ]
    assert torch.equal(layers[0][0].weight, layers[1][0].weight)
    assert torch.equal(layers[0][-1].weight, layers[1][-1].weight)


def test_embeddings_are_the_logits() -> None:
    network = Classifier(classifier_body(5, 3, hidden_dims=(4,)))
    z = network.encode(torch.ones(2, 5))
    assert network.logits(z) is z


def test_what_a_search_found_is_part_of_the_weights() -> None:
    network = NoisyLinkClassifier(classifier_body(5, 3, hidden_dims=(4,)), 3, volume_weight=0.5)
    assert network.state_dict()["volume_weight"].item() == 0.5
    assert network.state_dict()["link_logits"].diagonal().tolist() == [1.0, 1.0, 1.0]


def make_clustered(exponent: float = 1.0) -> ClusteredAutoencoder:
    generator = torch.Generator().manual_seed(0)
    autoencoder = build_autoencoder(4, 2, hidden_dims=(3,), spherical=False, generator=generator)
    network = ClusteredAutoencoder(autoencoder, 3, 2, exponent=exponent).double()
    with torch.no_grad():
        network.centers.normal_(generator=generator)
    return network


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_memberships_are_the_printed_formula(exponent):
    network = make_clustered(exponent)
    z = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = network.logits(z).softmax(dim=1)
    for row, q in zip(z, found, strict=True):
        kernel = torch.stack([(1 + ((row - c) ** 2).sum()) ** -exponent for c in network.centers])
        torch.testing.assert_close(q, kernel / kernel.sum(), rtol=1e-12, atol=0)


def test_the_nearest_center_is_the_most_probable():
    network = make_clustered()
    assert network.logits(network.centers.detach()).argmax(dim=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("place", [0.0, 1e4, 1e15])
def test_membership_gradients_are_finite_on_a_center_and_far_away(place):
    network = make_clustered().float()
    z = (network.centers.detach()[:1] + place).requires_grad_()
    network.logits(z).softmax(dim=1)[0, 0].backward()
    assert torch.isfinite(z.grad).all()
    assert torch.isfinite(network.centers.grad).all()


def test_a_distance_far_from_the_origin_is_not_lost_to_rounding():
    network = make_clustered().float()
    with torch.no_grad():
        network.centers.copy_(torch.tensor([[1000.0, 1000.0], [1000.0, 1000.5], [0.0, 0.0]]))
    found = network.logits(torch.tensor([[1000.0, 1000.0]]))[0]
    assert found[0].item() == 0.0
    assert found[1].item() == pytest.approx(-torch.log1p(torch.tensor(0.25)).item())


def test_half_precision_embeddings_give_float32_logits():
    assert make_clustered().float().logits(torch.zeros(2, 2, dtype=torch.bfloat16)).dtype == torch.float32


@pytest.mark.parametrize("tied", [True, False])
def test_a_twin_embeds_both_ends_and_only_tied_branches_agree(tied):
    generator = torch.Generator().manual_seed(0)
    network = build_twin(6, 3, hidden_dims=(5,), tied=tied, margin=1.0, cap=10.0, generator=generator)
    x = torch.randn(4, 6, generator=generator)
    left, right = network.encode(x), network.encode_right(x)
    assert left.shape == right.shape == (4, 3)
    assert torch.equal(left, right) == tied
    assert len(list(network.encoder_parameters())) == (4 if tied else 8)


def make_mixture() -> MixtureVAE:
    generator = torch.Generator().manual_seed(0)
    network = MixtureVAE(4, 2, 3, hidden_dims=(6, 5), generator=generator)
    with torch.no_grad():
        network.centers.normal_(generator=generator)
        network.log_variances.normal_(generator=generator)
    return network


def test_logits_are_log_densities_of_the_components():
    network = make_mixture().double()
    z = torch.randn(5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for c in range(3):
        component = Normal(network.centers[c], (network.log_variances[c] / 2).exp())
        expected = Independent(component, 1).log_prob(z) + math.log(2 * math.pi)
        torch.testing.assert_close(network.logits(z)[:, c], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("log_variance", [-1e4, -100.0, 0.0, 80.0])
@pytest.mark.parametrize("place", [0.0, 1.0, 1e6])
def test_mixture_gradients_are_finite_for_points_and_far_away(place, log_variance):
    network = make_mixture()
    with torch.no_grad():
        network.log_variances.fill_(log_variance)
    z = (network.centers.detach()[:1] + place).requires_grad_()
    network.logits(z).log_softmax(dim=1)[0, 1].backward()
    assert torch.isfinite(z.grad).all()
    assert torch.isfinite(network.log_variances.grad).all()


def test_log_variances_of_far_away_rows_are_bounded():
    _, log_variance = mean_and_log_variance(make_mixture().posterior(torch.full((1, 4), 1e9)))
    assert log_variance.abs().max() <= LOG_VARIANCE_BOUND


def test_rows_are_divided_by_the_ceiling():
    network = make_mixture()
    rows = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
    plain = network.encode(rows)
    network.ceiling.fill_(5.0)
    torch.testing.assert_close(network.encode(5 * rows), plain)


def test_mixture_weights_are_glorots_and_biases_zero():
    network = make_mixture()
    last = network.encoder[-1]
    assert (last.bias == 0).all()
    means, variances = last.weight.chunk(2)
    assert not torch.equal(means, variances)
    for half in (means, variances):  # each a layer of two units
        assert 0.6 * math.sqrt(6 / (5 + 2)) < half.abs().max() <= math.sqrt(6 / (5 + 2))


def test_the_same_generator_gives_the_same_mixture():
    first, second = (make_mixture().state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_no_hidden_layers_is_a_linear_encoder():
    network = MixtureVAE(4, 2, 3, hidden_dims=())
    assert network.decode(network.encode(torch.zeros(1, 4))).shape == (1, 4)

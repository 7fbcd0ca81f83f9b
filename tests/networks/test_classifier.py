from __future__ import annotations

import torch
from torch import nn

from spherepair.networks.classifier import Classifier, NoisyLinkClassifier, classifier_body


def test_layers_have_the_sizes_that_were_asked_for() -> None:
    layers = classifier_body(7, 4, hidden_dims=(6, 5))
    sizes = [(layer.in_features, layer.out_features) for layer in layers if isinstance(layer, nn.Linear)]
    assert sizes == [(7, 6), (6, 5), (5, 4)]
    assert not any(isinstance(layer, nn.BatchNorm1d) for layer in layers)


def test_batch_normalisation_stands_between_every_linear_layer_and_its_relu() -> None:
    kinds = [type(layer) for layer in classifier_body(7, 4, hidden_dims=(6, 5), batch_norm=True)]
    assert kinds == [nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2 + [nn.Linear]


def test_the_same_generator_gives_the_same_weights_with_or_without_normalisation() -> None:
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

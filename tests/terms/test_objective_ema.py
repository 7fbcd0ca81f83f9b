"""The moving average of weights by itself; in the objective and in whole fits: test_objective.py."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spherepair.terms import DECAY, WeightEMA


def make_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def weights(network: nn.Module) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in network.state_dict().values()]


def move(network: nn.Module, amount: float) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(amount)


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("n_epochs", [1, 2, 5, 6])
def test_of_the_first_epochs_it_is_the_plain_mean(n_epochs: int) -> None:
    network = make_network()
    average, seen = WeightEMA(network), []
    for epoch in range(1, n_epochs + 1):
        move(network, 1.0)
        seen.append(weights(network))
        average.update(network, epoch)
    average.copy_to(network)
    for number, tensor in enumerate(weights(network)):
        mean = torch.stack([epoch[number].float() for epoch in seen]).mean(dim=0)
        assert torch.allclose(tensor.float(), mean, atol=1e-6)


def test_later_epochs_leave_a_fixed_share_in_place() -> None:
    network = make_network()
    average = WeightEMA(network)
    for epoch in range(1, 21):
        move(network, 1.0)
        average.update(network, epoch)
    before = [tensor.clone() for tensor in average.buffers()]
    move(network, 1.0)
    average.update(network, 21)
    present = [tensor for tensor in weights(network) if tensor.is_floating_point()]
    for old, new, now in zip(before, average.buffers(), present, strict=True):
        assert torch.allclose(new, DECAY * old + (1 - DECAY) * now, atol=1e-5)


def test_without_decay_it_is_the_present_weights() -> None:
    network = make_network()
    average = WeightEMA(network, decay=0.0)
    for epoch in range(1, 4):
        move(network, 1.0)
        average.update(network, epoch)
    before = weights(network)
    average.copy_to(network)
    assert same(weights(network), before)


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_applied_within_a_block_and_the_present_weights_come_back(fails: bool) -> None:
    network = make_network()
    average = WeightEMA(network)
    start = weights(network)
    move(network, 1.0)
    present = weights(network)
    try:
        with average.applied_to(network):
            inside = weights(network)
            if fails:
                raise OSError
    except OSError:
        assert fails
    assert same(inside, start)
    assert same(weights(network), present)


def test_it_has_no_parameters_and_does_not_hold_the_network() -> None:
    network = make_network()
    average = WeightEMA(network)
    n_floats = sum(tensor.is_floating_point() for tensor in network.state_dict().values())
    assert not list(average.parameters())
    assert len(average.state_dict()) == n_floats

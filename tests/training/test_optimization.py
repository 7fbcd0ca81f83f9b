"""Optimizers take the steps of torch's own; stopping rules as functions of the history."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spherepair.errors import InvalidParameterError
from spherepair.training.optimization import (
    SGD,
    Adam,
    FixedEpochs,
    PaperRule,
    ReleasedCodeRule,
    SettledRule,
    resolve_stopping,
)

CPU = torch.device("cpu")


def make_parameters():
    generator = torch.Generator().manual_seed(0)
    return [
        nn.Parameter(torch.randn(3, 4, generator=generator)),
        nn.Parameter(torch.randn(5, generator=generator)),
    ]


def run(optimizer, parameters, n_steps=7):
    for step in range(n_steps):
        optimizer.zero_grad()
        loss = sum((p.square() * (step + 1)).sum() + p.sin().sum() for p in parameters)
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (lambda groups: Adam(groups, CPU), lambda p: torch.optim.Adam(p, lr=0.05)),
        (lambda groups: SGD(groups, CPU, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
        (lambda groups: SGD(groups, CPU), lambda p: torch.optim.SGD(p, lr=0.05)),
    ],
    ids=["adam", "momentum", "sgd"],
)
def test_steps_are_those_of_torch_optim(build, reference):
    ours, theirs = make_parameters(), make_parameters()
    optimizer = build([(ours, 1.0)])
    optimizer.start_epoch(0.05)
    run(optimizer, ours)
    run(reference(theirs), theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_parameters_of_two_types_are_moved_too():
    ours, theirs = (
        [nn.Parameter(p.detach().to(dtype)) for p, dtype in zip(make_parameters(), types, strict=True)]
        for types in [(torch.float32, torch.float64)] * 2
    )
    optimizer = Adam([(ours, 1.0)], CPU)
    optimizer.start_epoch(0.05)
    run(optimizer, ours)
    run(torch.optim.Adam(theirs, lr=0.05), theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_a_group_has_its_share_of_the_rate():
    slow, fast = make_parameters()
    before = fast.detach().clone(), slow.detach().clone()
    optimizer = SGD([([fast], 1.0), ([slow], 0.1)], CPU)
    optimizer.start_epoch(0.5)
    optimizer.zero_grad()
    (fast.sum() + slow.sum()).backward()
    optimizer.step()
    torch.testing.assert_close(before[0] - fast, torch.full_like(fast, 0.5))
    torch.testing.assert_close(before[1] - slow, torch.full_like(slow, 0.05))


def test_a_parameter_without_gradient_stays():
    moving, still = make_parameters()
    before = still.detach().clone()
    optimizer = Adam([([moving, still], 1.0)], CPU)
    optimizer.start_epoch(0.1)
    moving.sum().backward()
    optimizer.step()
    assert torch.equal(still, before)


@pytest.mark.parametrize("most", [0.1, 1e9])
def test_gradients_are_clipped_as_torch_does(most):
    ours, theirs = make_parameters(), make_parameters()
    for parameters in (ours, theirs):
        sum(p.square().sum() for p in parameters).backward()
        parameters.append(nn.Parameter(torch.ones(2)))  # without gradient
    Adam([(ours, 1.0)], CPU).clip(most)
    nn.utils.clip_grad_norm_(theirs, most)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours[:2], theirs[:2], strict=True))
    assert ours[2].grad is None
    Adam([(ours[2:], 1.0)], CPU).clip(most)  # nothing to clip


def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened():
    whole, first, second = make_parameters(), make_parameters(), make_parameters()
    straight, before, after = (Adam([(p, 1.0)], CPU) for p in (whole, first, second))
    for optimizer in (straight, before, after):
        optimizer.start_epoch(0.05)
    run(straight, whole, 4)
    run(straight, whole, 3)
    run(before, first, 4)
    after.restore({name: tensor.clone() for name, tensor in before.tensors().items()})
    with torch.no_grad():
        for target, source in zip(second, first, strict=True):
            target.copy_(source)
    run(after, second, 3)
    for a, b in zip(whole, second, strict=True):
        assert torch.equal(a, b)


def stops_at(rule, values):
    """The first number of epochs after which the rule stops, or None."""
    return next((n for n in range(1, len(values) + 1) if rule.should_stop(values[:n])), None)


def test_settled_rule_stops_after_patience_epochs_below_the_threshold():
    values = [0.5] * 30 + [1e-4] * 10
    assert stops_at(SettledRule(min_epochs=5, patience=3), values) == 33


def test_settled_rule_never_stops_in_a_spike():
    values = [1e-4, 1e-4, 0.1] * 20
    assert stops_at(SettledRule(min_epochs=5, patience=3, stale=1000), values) is None


def test_settled_rule_gives_up_on_pairs_that_cannot_be_satisfied():
    values = [1.0, 0.5, 0.3] + [0.31] * 100
    assert stops_at(SettledRule(min_epochs=5, stale=40), values) == 43


def test_settled_rule_waits_for_the_least_number_of_epochs():
    assert stops_at(SettledRule(min_epochs=12), [0.0] * 50) == 12


def test_paper_rule_wants_five_small_changes_after_a_hundred_epochs():
    assert stops_at(PaperRule(), [1.0] * 200) == 101
    restless = [1.0 + 0.5 * (n % 2) for n in range(103)] + [1.0] * 20
    assert stops_at(PaperRule(), restless) == 108


def test_released_code_rule_stops_at_the_first_new_minimum_after_epoch_100():
    falling = [1.0 / (n + 1) for n in range(200)]
    assert stops_at(ReleasedCodeRule(), falling) == 102
    valley = [1.0] * 50 + [0.1] + [0.5] * 80 + [0.05] + [0.04]
    assert stops_at(ReleasedCodeRule(), valley) == 132


def test_fixed_epochs_never_stop():
    assert stops_at(FixedEpochs(), [0.0] * 500) is None


@pytest.mark.parametrize("name", ["settled", "paper", "released-code", "fixed"])
def test_rules_have_names(name):
    assert resolve_stopping(name).should_stop([]) is False


@pytest.mark.parametrize("wrong", ["soon", 3])
def test_unknown_rules_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match="stopping must be"):
        resolve_stopping(wrong)


def test_settled_rule_by_default_waits_for_forty_epochs_and_three_below_a_thousandth():
    assert stops_at(SettledRule(), [0.0] * 100) == 40
    assert stops_at(SettledRule(), [9e-4] * 100) == 40
    assert stops_at(SettledRule(), [0.5 / (n + 1) for n in range(60)] + [9e-4] * 10) == 63
    assert stops_at(SettledRule(), [1.1e-3] * 41) == 41  # the best epoch lies forty behind
    assert stops_at(SettledRule(), [0.1 / (n + 1) for n in range(99)]) is None


def test_settled_rule_looks_at_the_pairs_and_not_at_further_terms():
    assert resolve_stopping("settled").watches == "pairs"

import pytest
import torch
from torch import nn

from spherepair.training.optimizers import SGD, Adam

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
    optimizer.set_rate(0.05)
    run(optimizer, ours)
    run(reference(theirs), theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_a_group_has_its_share_of_the_rate():
    slow, fast = make_parameters()
    before = fast.detach().clone(), slow.detach().clone()
    optimizer = SGD([([fast], 1.0), ([slow], 0.1)], CPU)
    optimizer.set_rate(0.5)
    optimizer.zero_grad()
    (fast.sum() + slow.sum()).backward()
    optimizer.step()
    torch.testing.assert_close(before[0] - fast, torch.full_like(fast, 0.5))
    torch.testing.assert_close(before[1] - slow, torch.full_like(slow, 0.05))


def test_a_parameter_without_gradient_stays():
    moving, still = make_parameters()
    before = still.detach().clone()
    optimizer = Adam([([moving, still], 1.0)], CPU)
    optimizer.set_rate(0.1)
    moving.sum().backward()
    optimizer.step()
    assert torch.equal(still, before)


def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened():
    whole, first, second = make_parameters(), make_parameters(), make_parameters()
    straight, before, after = (Adam([(p, 1.0)], CPU) for p in (whole, first, second))
    for optimizer in (straight, before, after):
        optimizer.set_rate(0.05)
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

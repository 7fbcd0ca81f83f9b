"""The fused pass in Triton's interpreter against autograd and the ordinary optimiser."""

from __future__ import annotations

import copy
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from spherepair import Constraints, accel, training
from spherepair.accel import _standing_in
from spherepair.accel.layers import links_of, update_rule
from spherepair.baselines import CIDEC, DCGMM
from spherepair.networks import mlp
from spherepair.training import Objective, Recipe
from spherepair.training.hardware import Hardware

pytest.importorskip("triton", reason="Triton comes for Linux only")

CPU = Hardware(torch.device("cpu"), "float32")
SGD, ADAM = Recipe("sgd", learning_rate=0.1, momentum=0.9), Recipe("adam", learning_rate=0.01)


class Two(Objective):
    """An encoder, whose rows want no gradient, and a decoder, whose input does."""

    def __init__(self, sizes=(70, 40, 5)):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.encoder = mlp(sizes, generator=generator)
        self.decoder = mlp(sizes[::-1], generator=generator)
        self.shift = nn.Parameter(torch.zeros(sizes[-1]))  # moved by the optimiser itself

    def loss(self, x):
        z = self.encoder(x) + self.shift
        return (self.decoder(z.tanh()) - x).abs().mean() + z.square().mean()


def build(recipe, objective):
    optimizer = recipe.build(objective, CPU)
    optimizer.groups[0].rate = torch.tensor(recipe.learning_rate)
    return optimizer


@contextmanager
def fused(objective, optimizer):
    from spherepair.accel.fused import FusedPass

    rule = update_rule(optimizer)
    passes = [
        (network, "forward", FusedPass(links_of(network), optimizer, rule, [64], dtype=torch.float32))
        for network in (objective.encoder, objective.decoder)
    ]
    try:
        yield passes
    finally:
        for _, _, fused_pass in passes:
            fused_pass.close()


def steps(objective, optimizer, sizes, passes=()):
    generator = torch.Generator().manual_seed(1)
    losses = []
    for n_rows in sizes:
        with _standing_in(passes):
            loss = objective.loss(torch.rand(n_rows, 70, generator=generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("recipe", [SGD, ADAM])
@pytest.mark.parametrize("shape", [(70, 40, 5), (70, 5)])
def test_steps_are_those_of_autograd(recipe, shape):
    ours, plain = Two(shape), Two(shape)
    start = [p.detach().clone() for p in plain.parameters()]
    optimizer = build(recipe, ours)
    with fused(ours, optimizer) as passes:
        losses = steps(ours, optimizer, [64, 100, 64], passes)
    assert losses == pytest.approx(steps(plain, build(recipe, plain), [64, 100, 64]), rel=1e-5)
    for found, wanted, before in zip(ours.parameters(), plain.parameters(), start, strict=True):
        moved, should = found.detach() - before, wanted.detach() - before
        assert should.norm() > 0
        assert (moved - should).norm() < 1e-3 * should.norm()
        assert found.is_contiguous()


def test_no_gradient_is_left_for_the_optimiser_and_none_is_lost():
    objective = Two()
    optimizer = build(ADAM, objective)
    with fused(objective, optimizer) as passes:
        with _standing_in(passes):
            loss = objective.loss(torch.rand(64, 70))
        loss.backward()
        assert objective.encoder[0].weight.grad is None
        assert objective.shift.grad is not None


def test_closed_it_leaves_network_and_optimiser_as_autograd_needs_them():
    objective = Two()
    optimizer = build(ADAM, objective)
    with fused(objective, optimizer) as passes:
        steps(objective, optimizer, [64, 64], passes)
    for parameter in objective.parameters():
        assert parameter.is_contiguous()
        assert optimizer.state[parameter]["step"].item() == 2
    steps(objective, optimizer, [60])
    assert optimizer.state[objective.encoder[0].weight]["step"].item() == 3


def test_outside_of_a_step_rows_take_the_ordinary_way():
    """So that what a callback keeps is its own, and a network can be copied between steps."""
    objective = Two()
    optimizer = build(ADAM, objective)
    first, second = torch.rand(64, 70), torch.rand(64, 70)
    expected = [objective.encoder(x).detach() for x in (first, second)]
    with fused(objective, optimizer) as passes:
        with _standing_in(passes):
            assert objective.encoder.forward is passes[0][2]
        assert "forward" not in vars(objective.encoder)
        found = [objective.encoder(x) for x in (first, second)]
        copied = copy.deepcopy(objective.encoder)
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))
    assert torch.allclose(copied(first), expected[0])


def test_an_error_in_a_step_gives_the_pass_back():
    objective = Two()
    optimizer = build(ADAM, objective)
    with fused(objective, optimizer) as passes:
        with pytest.raises(RuntimeError, match="in the middle"), _standing_in(passes):
            raise RuntimeError("in the middle")
        assert "forward" not in vars(objective.encoder)


def test_what_fails_half_way_leaves_the_network_as_it_was(monkeypatch):
    from spherepair.accel import fused as fused_module

    def fail(*args):
        raise RuntimeError("no memory left")

    objective = Two()
    optimizer = build(ADAM, objective)
    before = [parameter.detach().clone() for parameter in objective.parameters()]
    monkeypatch.setattr(fused_module, "_Buffers", fail)
    with pytest.raises(RuntimeError, match="no memory left"), fused(objective, optimizer):
        pass
    for parameter, values in zip(objective.parameters(), before, strict=True):
        assert parameter.is_contiguous()
        assert torch.equal(parameter, values)


def test_every_kernel_of_a_pass_is_compiled_ahead_and_only_once():
    objective = Two()
    with fused(objective, build(ADAM, objective)) as (of_encoder, _):
        launches = [x for n in (64, 128) for x in of_encoder[2].buffers(n).launches()]
        kinds = [launch.signature()[0].__name__ for launch in launches]
        once = {launch.signature(): launch.kernel.__name__ for launch in launches}
    assert sorted(set(kinds)) == ["backward", "forward", "update"]
    # In float32 the last layer is like the others.
    assert sorted(once.values()) == ["backward", "forward", "update"]


@pytest.mark.parametrize("method", [CIDEC, DCGMM])
def test_a_whole_fit_is_the_same(method, monkeypatch):
    """With the kernels, and with autograd, in float32."""
    from spherepair.accel import fused as fused_module

    generator = torch.Generator().manual_seed(0)
    X, y = torch.rand(128, 8, generator=generator).numpy(), torch.arange(128).numpy() % 3
    pairs = Constraints.from_labels(y, 64, random_state=0)
    settings = {"hidden_dims": (16,), "max_epochs": 2, "batch_size": 64, "random_state": 0, "progress": False}
    settings |= {"pretraining": None} if method is CIDEC else {"pretraining_epochs": 1}
    settings["precision"] = "float32"
    expected = method(3, **settings).fit(X, constraints=pairs)

    plain_build, plain_pass, taken = Recipe.build, fused_module.FusedPass, []

    def build_with_tensor(self, objective, hardware):
        optimizer = plain_build(self, objective, hardware)
        for group in optimizer.groups:
            group.rate = torch.zeros(())
        return optimizer

    def exact(links, optimizer, rule, n_rows):
        taken.append(plain_pass(links, optimizer, rule, n_rows, dtype=torch.float32))
        return taken[-1]

    def as_on_a_gpu(parts, training, *, hardware, clip_norm):
        accel._hasten_terms(parts, training, hardware, update_rule(training.optimizer))

    monkeypatch.setattr(Recipe, "build", build_with_tensor)
    monkeypatch.setattr(fused_module, "FusedPass", exact)
    monkeypatch.setattr(training, "accelerate", as_on_a_gpu)
    found = method(3, **settings).fit(X, constraints=pairs)
    assert len(taken) == (2 if method is CIDEC else 4)  # DCGMM's pretraining has them too
    for mine, theirs in zip(found.history_, expected.history_, strict=True):
        for name in set(theirs) - {"seconds", "stage"}:
            assert mine[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-5)

"""The door: what is accelerated, what runs eagerly, and what falls back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from spherepair import accel
from spherepair.accel import WORTH_COMPILING, accelerate, compiled
from spherepair.networks import build_autoencoder, mlp
from spherepair.training import Objective, Plan, Recipe, TrainingState, _EagerPart, train
from spherepair.training.batches import Batches, PairTensors, row_batches
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import DenoisingObjective
from spherepair.training.rows import ResidentRows, Scaling

CPU = Hardware(torch.device("cpu"), "float32")
SGD, ADAM = Recipe("sgd", learning_rate=0.1, momentum=0.9), Recipe("adam", learning_rate=0.01)


class Gpu(Hardware):
    """The CPU in the role of a GPU."""

    is_cuda = True

    def autocast(self):
        return torch.autocast("cpu", enabled=False)


GPU = Gpu(CPU.device, "mixed")


class Captured:
    """Notes what it is asked to run as graphs, and runs it."""

    def __init__(self, step, generator, steps_per_graph):
        self.step, self.n_steps, self.is_open = step, [], True

    def run(self, n_steps):
        self.n_steps.append(n_steps)
        for _ in range(n_steps):
            self.step()

    def discard(self):
        self.is_open = False


class CapturedValue:
    def __init__(self, function, device):
        self.function = function

    def __call__(self):
        return self.function()

    def discard(self):
        pass


@pytest.fixture
def captured(monkeypatch):
    """The captured steps that were made."""
    made = []
    monkeypatch.setattr(accel, "CapturedStep", lambda *args: made.append(Captured(*args)) or made[-1])
    monkeypatch.setattr(accel, "CapturedValue", CapturedValue)
    return made


class Quadratic(Objective):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(5.0))

    def terms(self, batch):
        return {"pull": (self.value - 1.0).square() + 0.0 * batch.x.sum()}


class Two(Objective):
    """An encoder and a decoder, each passed once in a step."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp((8, 5, 4)), mlp((4, 5, 8))

    def terms(self, batch):
        return {"error": (self.decoder(self.encoder(batch.x)) - batch.x).abs().mean()}


def make_batches(*, batch_size=64, n_rows=128):
    rows = ResidentRows(torch.rand(n_rows, 8, generator=torch.Generator().manual_seed(0)), Scaling.identity())
    return row_batches(rows, batch_size=batch_size, seed=0, stream="s")


def ask(objective, recipe=ADAM, *, hardware=GPU, batches=None, max_epochs=1):
    """The eager part, and what the door answers."""
    batches = make_batches() if batches is None else batches
    optimizer = recipe.build(objective, CPU)
    state = TrainingState("s", objective, optimizer, torch.Generator(), max_epochs)
    part = _EagerPart(batches, state, recipe, hardware)
    return part, accelerate([part], state, hardware=hardware, clip_norm=recipe.clip_norm)


def run(objective, hardware):
    rows = ResidentRows(torch.ones(10, 2), Scaling.identity())
    batches = Batches(
        rows, PairTensors.none(), pairs_per_step=0, rows_per_step=2, n_steps=4, seed=0, stream="x"
    )
    plan = Plan(objective, (batches,), Recipe(learning_rate=0.1))
    return train(plan, stage="test", max_epochs=5, hardware=hardware, seed=0)


@pytest.mark.parametrize(
    ("hardware", "is_resident", "is_captured"),
    [
        (Gpu(CPU.device, "float32"), True, True),
        (Gpu(CPU.device, "float32"), False, False),
        (CPU, True, False),
    ],
)
def test_steps_on_a_gpu_are_captured_where_rows_lie_on_it(
    hardware, is_resident, is_captured, captured, monkeypatch
):
    monkeypatch.setattr(ResidentRows, "is_resident", is_resident)
    found = run(Quadratic(), hardware)
    assert [(c.n_steps, c.is_open) for c in captured] == [([4] * 5, False)] * is_captured
    assert [r["loss"] for r in found] == [r["loss"] for r in run(Quadratic(), CPU)]


@pytest.fixture
def fused(monkeypatch):
    """Names and arguments of what would be fused."""
    pytest.importorskip("triton", reason="Triton comes for Linux only")
    from spherepair.accel import fused

    made = []

    class Fused:
        steps_per_graph = 1

        def __init__(self, *args, **options):
            made.append(self)

        def step(self):
            pass

    monkeypatch.setattr(fused, "FusedDenoising", type("FusedDenoising", (Fused,), {}))
    monkeypatch.setattr(fused, "FusedPass", type("FusedPass", (Fused,), {}))
    return made


def names(made: list[Any]) -> list[str]:
    return [type(one).__name__ for one in made]


def denoising(embedding_dim=4):
    return DenoisingObjective(build_autoencoder(8, embedding_dim, hidden_dims=(5,)))


@pytest.mark.parametrize("recipe", [SGD, ADAM])
def test_denoising_runs_in_kernels_of_our_own(recipe, captured, fused):
    part, _ = ask(denoising(), recipe)
    assert names(fused) == ["FusedDenoising"]
    assert captured[0].step == fused[0].step
    assert part.terms == part._objective.terms


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"recipe": Recipe("sgd", momentum=0.0)}, []),
        ({"recipe": Recipe(clip_norm=1.0)}, []),
        ({"hardware": Gpu(CPU.device, "float32")}, []),
        ({"batches": make_batches(batch_size=50)}, ["FusedPass", "FusedPass"]),
        ({"objective": denoising(65)}, ["FusedPass", "FusedPass"]),
    ],
    ids=["no momentum", "clipped", "float32", "no whole tiles", "wide embedding"],
)
def test_only_what_the_kernels_can_do_is_given_to_them(options, expected, captured, fused):
    ask(**({"objective": denoising()} | options))
    assert names(fused) == expected
    assert len(captured) == 1  # captured it is in any case


def test_networks_that_a_step_passes_once_are_fused(captured, fused):
    objective = Two()
    part, (fast,) = ask(objective)
    assert [(owner, name) for owner, name, _ in part.terms.stand_ins] == [
        (objective.encoder, "forward"),
        (objective.decoder, "forward"),
    ]
    assert names(fused) == ["FusedPass", "FusedPass"]
    closed = []
    for one in fused:
        one.close = partial(closed.append, one)
    fast.close()
    fast.close()
    assert closed == fused[::-1]


def test_a_network_that_a_step_passes_twice_is_left_to_autograd(captured, fused, monkeypatch):
    def twice(self, batch):
        return {"error": (self.decoder(self.encoder(batch.x) + self.encoder(-batch.x))).abs().mean()}

    monkeypatch.setattr(Two, "terms", twice)
    objective = Two()
    part, _ = ask(objective)
    assert [owner for owner, _, _ in part.terms.stand_ins] == [objective.decoder]


def test_parameters_of_two_rates_are_left_to_autograd(captured, fused, monkeypatch):
    groups = lambda self: [  # noqa: E731
        (list(self.encoder.parameters()), 1.0),
        (list(self.decoder.parameters()), 0.1),
    ]
    monkeypatch.setattr(Two, "parameter_groups", groups)
    ask(Two())
    assert fused == []


def test_frozen_networks_are_left_to_autograd(captured, fused):
    objective = Two()
    objective.encoder[0].weight.requires_grad_(False)
    part, _ = ask(objective)
    assert [owner for owner, _, _ in part.terms.stand_ins] == [objective.decoder]


def test_the_first_epoch_is_planned_anew_after_a_step_was_tried(captured, fused):
    part, _ = ask(Two())
    assert part.batches._planned == 1
    part.batches.start_epoch(0)
    other = make_batches()
    other.start_epoch(0)
    assert torch.equal(part.batches.index_plan, other.index_plan)


@pytest.mark.parametrize("objective", [denoising, Two])
def test_what_cannot_be_compiled_is_left_to_autograd(objective, captured, monkeypatch, caplog):
    pytest.importorskip("triton", reason="Triton comes for Linux only")
    from spherepair.accel import fused

    def refuse(*args, **kwargs):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(fused, "FusedDenoising", refuse)
    monkeypatch.setattr(fused, "FusedPass", refuse)
    caplog.set_level("INFO")
    part, (fast,) = ask(objective())
    assert fast._steps is part
    assert part.terms == part._objective.terms
    assert "no compiler" in caplog.text


class Functions(NamedTuple):
    square: Callable[[Any], Any]
    half: Callable[[Any], Any]


class Pure(Quadratic):
    def __init__(self):
        super().__init__()
        self.pure_functions = Functions(torch.square, lambda x: x / 2)

    def terms(self, batch):
        functions = self.pure_functions
        return {"pull": functions.half(functions.square(self.value - 1.0))}


@pytest.mark.parametrize(("n_missing", "is_compiled"), [(0, True), (1, False)])
def test_only_long_trainings_wait_for_the_compiler(n_missing, is_compiled, captured, monkeypatch):
    seen = []

    def note(function):
        return lambda x: (seen.append(function), function(x))[1]

    monkeypatch.setattr(accel, "compiled", note)
    objective, batches = Pure(), make_batches()
    plain = objective.pure_functions
    n_epochs = WORTH_COMPILING // batches.n_steps - n_missing
    part, _ = ask(objective, batches=batches, max_epochs=n_epochs)
    assert part.terms(None)["pull"].item() == objective.terms(None)["pull"].item() == 8.0
    assert seen == list(plain) * is_compiled
    assert objective.pure_functions is plain  # compiled ones stand in for the moment of a step


def loss(x: torch.Tensor, *, power: int) -> torch.Tensor:
    return (x**power).sum()


def test_a_compiled_function_has_the_same_values_and_gradients(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    x = torch.arange(3.0, requires_grad=True)
    fast = compiled(loss)
    for power in (2, 3):
        found, expected = fast(x, power=power), loss(x, power=power)
        assert found.item() == expected.item()
        assert torch.equal(*(torch.autograd.grad(value, x)[0] for value in (found, expected)))


def test_a_function_that_cannot_be_compiled_runs_as_it_is(monkeypatch):
    calls = []

    def broken(function, **options):
        def fail(*args, **kwargs):
            calls.append(args)
            raise RuntimeError("no compiler here")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    fast = compiled(loss)
    assert [fast(torch.ones(2), power=1).item() for _ in range(3)] == [2.0] * 3
    assert len(calls) == 1  # asked once, not in every step


def test_an_error_of_the_function_itself_is_not_swallowed(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    with pytest.raises(TypeError):
        compiled(loss)(torch.ones(2), power="two")

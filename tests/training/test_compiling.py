"""torch's compiler: the same values, and a way out where it fails."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from spherepair.training.compiling import compiled


def loss(x: torch.Tensor, *, power: int) -> torch.Tensor:
    return (x**power).sum()


def test_a_compiled_function_has_the_same_values_and_gradients(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    x = torch.arange(3.0, requires_grad=True)
    fused = compiled(loss)
    for power in (2, 3):
        found, expected = fused(x, power=power), loss(x, power=power)
        assert found.item() == expected.item()
        assert torch.equal(*(torch.autograd.grad(value, x)[0] for value in (found, expected)))


def test_what_cannot_be_compiled_runs_as_it_is(monkeypatch):
    calls = []

    def broken(function, **options):
        def fail(*args, **kwargs):
            calls.append(args)
            raise RuntimeError("no compiler here")

        return fail

    monkeypatch.setattr(torch, "compile", broken)
    fused = compiled(loss)
    assert [fused(torch.ones(2), power=1).item() for _ in range(3)] == [2.0] * 3
    assert len(calls) == 1  # asked once, not in every step


def test_an_error_of_the_function_itself_is_not_swallowed(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    with pytest.raises(TypeError):
        compiled(loss)(torch.ones(2), power="two")

"""The fit of next to nothing that gets a GPU ready."""

from __future__ import annotations

import logging
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from spherepair import Constraints, SpherePair
from spherepair.baselines import VanillaDCC
from spherepair.estimators import base, rehearsal
from spherepair.estimators.rehearsal import Rehearsal, rehearsing
from spherepair.training.capture import WARM_UP_STEPS
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import JointPretraining, StackedPretraining

LIKE_A_GPU = Hardware(torch.device("cpu"), "mixed")


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    monkeypatch.setattr(rehearsal, "_begun", set())


def rehearsal_of(model, n_rows=60_000, embedding_dim=10):
    model._embedding_dim = embedding_dim
    return model._rehearsal(n_rows)


def pretraining_of(model, n_rows=60_000):
    (twin,) = rehearsal_of(model, n_rows).parts[0].args
    return twin.pretraining


@pytest.mark.parametrize(
    ("model", "n_stages"),
    [
        (SpherePair(10, device="cpu"), 2),
        (SpherePair.paper(10, device="cpu"), 4),
        (SpherePair("auto", device="cpu", batch_size=1, clustering="ward", max_epochs=500), 2),
        (SpherePair(3, device="cpu", pretraining=JointPretraining(batch_size=128), batch_size=3000), 2),
    ],
)
def test_every_stage_is_gone_through_in_fewer_steps_than_a_capture_needs(
    model, n_stages, monkeypatch, caplog
):
    steps, original = {}, base.Session.run_stage

    def run_stage(self, objective, sweeps, **settings):
        for batches in sweeps if isinstance(sweeps, list) else [sweeps]:
            steps[settings["stage"]] = batches.n_steps * settings["max_epochs"]
        original(self, objective, sweeps, **settings)

    monkeypatch.setattr(base.Session, "run_stage", run_stage)
    caplog.set_level(logging.INFO, logger="spherepair")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in rehearsal_of(model, embedding_dim=1).parts:
            rehearsal._attempt(part, Hardware(torch.device("cpu"), "float32"))
    assert "rehearsal" not in caplog.text
    assert "pairs" in steps
    assert len(steps) == n_stages
    assert max(steps.values()) <= WARM_UP_STEPS


def test_kernels_are_those_of_the_real_batches():
    assert pretraining_of(SpherePair(10), n_rows=60_000).batch_size == 512
    assert pretraining_of(SpherePair(10), n_rows=500).batch_size == 256
    assert pretraining_of(SpherePair(10, pretraining=JointPretraining(batch_size=64))).batch_size == 64
    assert pretraining_of(SpherePair.paper(10)) == StackedPretraining(layer_epochs=1, epochs=1)


def test_what_cannot_be_rehearsed_loads_triton_and_no_more():
    models = (
        SpherePair(10, encoder=torch.nn.Linear(4, 10)),
        SpherePair(10, pretraining=None),
        VanillaDCC(10),
    )
    assert {rehearsal_of(model).name for model in models} == {"Triton"}


def test_once_in_a_process_and_only_where_kernels_are_ours():
    done = []

    def named(name):
        return Rehearsal(name, [lambda: done.append(name), lambda: done.append(name)])

    with rehearsing(named("a"), replace(LIKE_A_GPU, precision="bfloat16")):
        pass
    assert done == []
    for name in ("a", "a", "b"):
        with rehearsing(named(name), LIKE_A_GPU):
            pass
    assert done == ["a", "a", "b", "b"]


def test_a_rehearsal_does_not_rehearse():
    done = []

    def part():
        with rehearsing(Rehearsal("inner", [lambda: done.append("inner")]), LIKE_A_GPU):
            done.append("outer")

    with rehearsing(Rehearsal("outer", [part]), LIKE_A_GPU):
        pass
    assert done == ["outer"]


def test_a_failure_is_noted_and_no_more(caplog):
    def part():
        raise RuntimeError("no compiler here")

    caplog.set_level(logging.INFO, logger="spherepair")
    with rehearsing(Rehearsal("failing", [part]), LIKE_A_GPU):
        pass
    assert "no compiler here" in caplog.text


def test_the_block_is_left_when_all_is_ready_and_the_global_generator_as_it_was():
    done = []

    def part():
        torch.manual_seed(5)
        time.sleep(0.2)
        done.append(torch.rand(1))

    before = torch.get_rng_state()
    with (
        pytest.raises(ZeroDivisionError),
        rehearsing(Rehearsal("drawing", [part]), LIKE_A_GPU),
    ):
        raise ZeroDivisionError
    assert len(done) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_the_numbers_of_a_fit_are_the_same(monkeypatch):
    X = np.random.default_rng(0).standard_normal((200, 6)).astype(np.float32)
    pairs = Constraints.from_labels(np.arange(200) % 3, 300, random_state=0)

    def fit():
        model = SpherePair(3, max_epochs=2, hidden_dims=(8,), device="cpu", random_state=0, progress=False)
        return model.fit(X, constraints=pairs)

    plain, done = fit(), []

    def as_on_a_gpu(rehearsal, hardware):
        parts = [*rehearsal.parts, lambda: done.append(rehearsal.name)]
        return rehearsing(rehearsal._replace(parts=parts), LIKE_A_GPU)

    monkeypatch.setattr(base, "rehearsing", as_on_a_gpu)
    rehearsed = fit()
    assert len(done) == 1
    assert np.array_equal(plain.embedding_, rehearsed.embedding_)
    assert np.array_equal(plain.labels_, rehearsed.labels_)

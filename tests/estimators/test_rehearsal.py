"""The fit of next to nothing that gets a GPU ready."""

import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from spherepair import Constraints, SpherePair
from spherepair.estimators import base, rehearsal
from spherepair.training.capture import WARM_UP_STEPS
from spherepair.training.hardware import Hardware, choose_hardware
from spherepair.training.pretraining import JointPretraining, StackedPretraining

LIKE_A_GPU = Hardware(torch.device("cpu"), "mixed")


def twin_of(model, n_rows=60_000, embedding_dim=10):
    model._embedding_dim = embedding_dim
    return model._twin(n_rows)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    monkeypatch.setattr(rehearsal, "_begun", set())
    monkeypatch.setattr(rehearsal, "import_module", lambda name: None)  # Triton may not be installed


@pytest.mark.parametrize(
    "model",
    [
        SpherePair(10, device="cpu"),
        SpherePair.paper(10, device="cpu"),
        SpherePair("auto", device="cpu", batch_size=1, clustering="ward", max_epochs=500),
        SpherePair(3, device="cpu", pretraining=JointPretraining(batch_size=128), batch_size=3000),
    ],
)
def test_every_stage_is_gone_through_in_fewer_steps_than_a_capture_needs(model, monkeypatch, caplog):
    twin = twin_of(model, embedding_dim=1)
    steps = {}
    original = base.Session.run_stage

    def run_stage(self, objective, sweeps, **settings):
        for batches in sweeps if isinstance(sweeps, list) else [sweeps]:
            steps[settings["stage"]] = batches.n_steps * settings["max_epochs"]
        original(self, objective, sweeps, **settings)

    monkeypatch.setattr(base.Session, "run_stage", run_stage)
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, logger="spherepair"):
        warnings.simplefilter("error")
        rehearsal._rehearse(choose_hardware("cpu"), twin)
    assert "rehearsal" not in caplog.text
    assert "pairs" in steps
    assert len(steps) == (4 if isinstance(twin.pretraining, StackedPretraining) else 2)
    assert max(steps.values()) <= WARM_UP_STEPS
    assert twin.n_clusters_ == 2


def test_kernels_are_those_of_the_real_batches():
    assert twin_of(SpherePair(10), n_rows=60_000).pretraining.batch_size == 512
    assert twin_of(SpherePair(10), n_rows=500).pretraining.batch_size == 256
    assert twin_of(SpherePair(10, pretraining=JointPretraining(batch_size=64))).pretraining.batch_size == 64
    assert twin_of(SpherePair.paper(10)).pretraining == StackedPretraining(layer_epochs=1, epochs=1)


def test_networks_of_the_users_own_are_not_rehearsed():
    assert twin_of(SpherePair(10, encoder=torch.nn.Linear(4, 10))) is None
    assert twin_of(SpherePair(10, pretraining=None)) is None


def test_once_in_a_process_and_only_where_kernels_are_ours(monkeypatch):
    done = []
    monkeypatch.setattr(rehearsal, "_rehearse", lambda hardware, twin: done.append(twin))
    twin, other = twin_of(SpherePair(10)), twin_of(SpherePair(10), n_rows=500)
    assert rehearsal.begin_rehearsal(replace(LIKE_A_GPU, precision="bfloat16"), twin) is None
    for one in (twin, twin, other, None):
        thread = rehearsal.begin_rehearsal(LIKE_A_GPU, one)
        if thread is not None:
            thread.join()
    assert done == [twin, other, None]


def test_a_rehearsal_does_not_rehearse():
    class Nested:
        def fit(self, *args, **settings):
            self.begun = rehearsal.begin_rehearsal(LIKE_A_GPU, None)

        pretraining, batch_size = JointPretraining(batch_size=64), 64

    nested = Nested()
    rehearsal.begin_rehearsal(LIKE_A_GPU, nested).join()
    assert nested.begun is None


def test_a_failure_is_noted_and_no_more(caplog):
    class Failing:
        pretraining, batch_size = JointPretraining(batch_size=64), 64

        def fit(self, *args, **settings):
            raise RuntimeError("no compiler here")

    with caplog.at_level(logging.INFO, logger="spherepair"):
        rehearsal._rehearse(choose_hardware("cpu"), Failing())
    assert "rehearsal failed" in caplog.text


def test_the_fit_waits_and_its_numbers_are_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)).astype(np.float32)
    pairs = Constraints.from_labels(np.arange(200) % 3, 300, random_state=0)

    def fit():
        return SpherePair(3, max_epochs=2, hidden_dims=(8,), random_state=0, progress=False).fit(
            X, constraints=pairs
        )

    plain = fit()
    begun, original = [], SpherePair._pretrain

    def begin(hardware, twin):
        if begun:
            return None
        begun.append(rehearsal.Thread(target=rehearsal._rehearse, args=(hardware, twin)))
        begun[0].start()
        return begun[0]

    def pretrain(self, job):
        assert self.n_clusters == 2 or not begun[0].is_alive()
        original(self, job)

    monkeypatch.setattr(base, "begin_rehearsal", begin)
    monkeypatch.setattr(SpherePair, "_pretrain", pretrain)
    rehearsed = fit()
    assert begun
    assert np.array_equal(plain.embedding_, rehearsed.embedding_)
    assert np.array_equal(plain.labels_, rehearsed.labels_)

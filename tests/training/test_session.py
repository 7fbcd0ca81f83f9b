"""Numbers for layers that draw from torch's global generators, on a GPU as on the processor."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import torch
from torch import nn

from spherepair.training import session as session_module
from spherepair.training.hardware import Hardware
from spherepair.training.session import Session


def test_layers_on_a_gpu_have_a_seed_for_every_epoch_and_its_generator_is_put_back(monkeypatch):
    seeds, forked = [], []
    network = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
    processor = torch.get_rng_state()

    def fork(devices):
        forked.append(devices)
        return original(devices=[])

    def train(plan, *, monitors, resume, **kwargs):
        state = SimpleNamespace(stage="pairs", epoch=0, records=[])
        resume(state)
        for state.epoch in (1, 2):
            for monitor in monitors:
                monitor(state)
            assert torch.initial_seed() == seeds[-1]  # the processor has the same
        return []

    original = torch.random.fork_rng
    monkeypatch.setattr(torch.random, "fork_rng", fork)
    monkeypatch.setattr(torch.cuda, "manual_seed", seeds.append)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(session_module, "train", train)
    for seed in (0, 0, 1):
        session = Session(network, Hardware(torch.device("cuda"), "mixed"), seed)
        session.run_stage(None, stage="pairs", max_epochs=3)
    assert forked == [[3]] * 3
    assert seeds[:3] == seeds[3:6]
    assert len(set(seeds)) == 6
    assert torch.equal(torch.get_rng_state(), processor)

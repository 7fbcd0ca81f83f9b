"""Pretraining lowers the reconstruction error, layer by layer or all at once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from spherepair.errors import InvalidParameterError
from spherepair.losses import reconstruction_loss
from spherepair.networks import Autoencoder, build_autoencoder
from spherepair.training.batches import row_batches
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import (
    DenoisingObjective,
    JointPretraining,
    StackedPretraining,
)
from spherepair.training.rows import StreamedRows, open_rows
from spherepair.training.scaling import learn_scaling
from spherepair.training.session import Session

CPU = Hardware(torch.device("cpu"), "float32")


@pytest.fixture(scope="module")
def rows():
    X = load_digits().data.astype(np.float32)
    return open_rows(X, learn_scaling(X, "auto"), CPU.device)


def make_network():
    return build_autoencoder(64, 6, hidden_dims=(40, 20), generator=torch.Generator().manual_seed(0))


def error(network, rows):
    x = rows.block(0, rows.n_rows)
    with torch.no_grad():
        return reconstruction_loss(network(x), x).item()


@pytest.mark.parametrize(
    "method",
    [
        JointPretraining(epochs=5, min_steps=800, learning_rate=3e-3),
        StackedPretraining(layer_epochs=30, epochs=60),
    ],
)
def test_pretraining_explains_most_of_the_variance(method, rows):
    network = make_network()
    session = Session(network, CPU, seed=0)
    x = rows.block(0, rows.n_rows)
    variance = (x - x.mean(dim=0)).square().mean().item()
    method.run(network, rows, session)
    assert error(network, rows) < 0.8 * variance


def test_joint_pretraining_makes_enough_steps_on_small_tables(rows):
    session = Session(make_network(), CPU, seed=0)
    JointPretraining(epochs=2, min_steps=40).run(session.network, rows, session)
    assert len(session.history) == 2
    batches = row_batches(rows, batch_size=256, min_steps=20, seed=0, stream="x")
    assert batches.n_steps == 20  # several passes of 8 steps


def test_stacked_pretraining_trains_every_layer_then_the_whole(rows):
    session = Session(make_network(), CPU, seed=0)
    StackedPretraining(layer_epochs=2, epochs=1).run(session.network, rows, session)
    stages = list(dict.fromkeys(record["stage"] for record in session.history))
    assert stages == [f"pretraining layer {i}" for i in (1, 2, 3)] + ["pretraining end to end"]
    assert all(np.isfinite(record["loss"]) for record in session.history)


def test_stacked_layers_are_trained_in_the_deep_network_itself(rows):
    network = make_network()
    session = Session(network, CPU, seed=0)
    StackedPretraining(layer_epochs=1, epochs=1, initial_range=0.01).run(network, rows, session)
    # U(-0.01, 0.01) plus a few steps: far from the wide default initialisation of 1/sqrt(20).
    assert network.encoder[4].weight.abs().mean() < 0.1


def test_stacking_an_encoder_that_is_not_mirrored_is_refused(rows):
    network = Autoencoder(nn.Linear(64, 6), make_network().decoder)
    with pytest.raises(InvalidParameterError, match="joint"):
        StackedPretraining().run(network, rows, Session(network, CPU, seed=0))


def test_corruption_drops_the_stated_share_and_keeps_the_rest():
    objective = DenoisingObjective(nn.Identity())
    objective._generator = torch.Generator().manual_seed(0)
    x = torch.full((200, 200), 3.0)
    dropped = objective.drop(x, 0.2)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert set(dropped.unique().tolist()) == {0.0, 3.0}


@pytest.mark.parametrize(
    "encoder",
    [
        nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, 6)),
        nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 20), nn.Linear(20, 6)),
    ],
)
def test_stacking_anything_but_linear_and_relu_is_refused(encoder, rows):
    network = Autoencoder(encoder, make_network().decoder)
    with pytest.raises(InvalidParameterError, match="joint"):
        StackedPretraining().run(network, rows, Session(network, CPU, seed=0))


def test_stacking_streamed_rows_gives_the_network_of_resident_ones(rows):
    networks = []
    for source in (rows, StreamedRows(rows.table.numpy(), rows.scaling, CPU.device)):
        network = make_network()
        StackedPretraining(layer_epochs=1, epochs=1).run(network, source, Session(network, CPU, seed=0))
        networks.append(network)
    for a, b in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("device", "n_rows", "size"),
    [
        *(("cpu", n_rows, size) for n_rows, size in [(150, 64), (999, 64), (1000, 256), (60_000, 256)]),
        *(("cuda", n_rows, size) for n_rows, size in [(999, 64), (1000, 256), (15_359, 256), (15_360, 512)]),
    ],
)
def test_a_gpu_takes_larger_steps_where_enough_of_them_remain(device, n_rows, size, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "spherepair.training.pretraining.row_batches", lambda rows, **options: asked.append(options)
    )
    rows = SimpleNamespace(n_rows=n_rows)
    hardware = Hardware(torch.device(device), "float32")
    session = SimpleNamespace(seed=0, hardware=hardware, run_stage=lambda *args, **options: None)
    JointPretraining().run(nn.Identity(), rows, session)
    JointPretraining(batch_size=100).run(nn.Identity(), rows, session)
    assert [options["batch_size"] for options in asked] == [size, 100]


@pytest.mark.parametrize(
    ("device", "n_rows", "epochs"),
    [
        *(("cpu", n_rows, epochs) for n_rows, epochs in [(10, 30), (20_000, 30), (30_000, 20), (60_000, 15)]),
        ("cpu", 10**7, 15),
        ("mps", 10, 30),
        ("cuda", 10, 50),
        ("cuda", 10**7, 50),
    ],
)
def test_epochs_depend_on_device_and_rows_unless_they_are_given(device, n_rows, epochs, monkeypatch):
    asked = []
    monkeypatch.setattr("spherepair.training.pretraining.row_batches", lambda rows, **options: None)
    rows = SimpleNamespace(n_rows=n_rows)
    session = SimpleNamespace(
        seed=0,
        hardware=Hardware(torch.device(device), "float32"),
        run_stage=lambda *args, **options: asked.append(options["max_epochs"]),
    )
    JointPretraining().run(nn.Identity(), rows, session)
    JointPretraining(epochs=7).run(nn.Identity(), rows, session)
    assert asked == [epochs, 7]


@pytest.mark.parametrize(("warm_up", "expected"), [(0.0, 0), (0.5, 10)])
def test_joint_pretraining_warms_up_for_a_share_of_its_epochs(warm_up, expected, rows):
    plans = []
    session = SimpleNamespace(hardware=CPU, seed=0, run_stage=lambda plan, **stage: plans.append(plan))
    JointPretraining(epochs=20, warm_up=warm_up).run(make_network(), rows, session)
    assert plans[0].recipe.warm_up == expected
    assert plans[0].recipe.rate(0) == pytest.approx(1e-3 / max(1, expected))

"""Captured, fused and compiled steps against eager ones, on a GPU (``make test-gpu``)."""

from __future__ import annotations

import gc
import logging
import shutil
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from torch import nn

from spherepair import Constraints, SpherePair, accel, training
from spherepair.accel.capture import CapturedStep
from spherepair.baselines import CIDEC, DCGMM, SDEC, AutoEmbedder, VanillaDCC, VolMaxDCC
from spherepair.metrics import clustering_accuracy
from spherepair.networks import build_autoencoder, mlp
from spherepair.training import Objective, Plan, Recipe, train
from spherepair.training.batches import row_batches
from spherepair.training.hardware import choose_hardware
from spherepair.training.pretraining import DenoisingObjective, JointPretraining, StackedPretraining
from spherepair.training.rows import ResidentRows, Scaling

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

SGD, ADAM = Recipe("sgd", learning_rate=0.1, momentum=0.9), Recipe("adam", learning_rate=1e-3)
METHODS = [SpherePair, VanillaDCC, VolMaxDCC, CIDEC, SDEC, DCGMM, AutoEmbedder]
QUICK = {"hidden_dims": (96, 70), "max_epochs": 4, "random_state": 0, "device": "cuda", "progress": False}
JOINT, STACKED = JointPretraining(epochs=3, min_steps=12), StackedPretraining(layer_epochs=2, epochs=2)
N_FEATURES = 80


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Constraints]:
    X, y = make_blobs(3000, centers=4, n_features=N_FEATURES, random_state=0)
    return X.astype(np.float32), y, Constraints.from_labels(y, 1500, random_state=0)


def fit(method: type, data: tuple[Any, Any, Constraints], **options: Any) -> Any:
    settings = QUICK | options
    if method is DCGMM:
        settings.setdefault("pretraining_epochs", 1)
    elif method not in (VanillaDCC, VolMaxDCC):
        settings.setdefault("pretraining", JOINT)
    X, _, pairs = data
    return method(4, **settings).fit(X, constraints=pairs)


@pytest.fixture
def eagerly(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Trains with and without acceleration: ``eagerly(function)`` runs it without."""

    def run(function: Any, *args: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(training, "accelerate", lambda *args, **options: None)
            return function(*args, **options)

    return run


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each captured step ran as a graph, noted when it is closed."""
    seen: list[bool] = []

    class Noted(CapturedStep):
        def discard(self) -> None:
            seen.append(bool(self._graphs) and not self._gave_up)
            super().discard()

    monkeypatch.setattr(accel, "CapturedStep", Noted)
    return seen


def make_batches(n_rows: int = 512) -> Any:
    table = torch.rand(n_rows, N_FEATURES, generator=torch.Generator().manual_seed(0)).cuda()
    return row_batches(ResidentRows(table, Scaling.identity()), batch_size=128, seed=0, stream="s")


class Result:
    """Losses of a training, and how far each parameter moved."""

    def __init__(self, objective: Objective, recipe: Recipe, precision: str, n_epochs: int) -> None:
        objective.cuda()
        start = [p.detach().clone() for p in objective.parameters()]
        hardware = choose_hardware("cuda", precision)
        plan = Plan(objective, (make_batches(),), recipe)
        with hardware.current():
            records = train(plan, stage="s", max_epochs=n_epochs, hardware=hardware, seed=0)
        self.losses = [record["loss"] for record in records]
        self.moved = [p.detach() - before for p, before in zip(objective.parameters(), start, strict=True)]
        self.is_contiguous = all(p.is_contiguous() for p in objective.parameters())


def denoise(
    recipe: Recipe = ADAM, *, precision: str = "auto", is_noisy: bool = True, n_epochs: int = 3
) -> Result:
    generator = torch.Generator().manual_seed(0)
    objective = DenoisingObjective(
        build_autoencoder(N_FEATURES, 5, hidden_dims=(96, 70), generator=generator)
    )
    if not is_noisy:
        objective.corruption = 0.0
    return Result(objective, recipe, precision, n_epochs)


class Two(Objective):
    """An encoder and a decoder that a step passes once, with a parameter between them."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.encoder = mlp((N_FEATURES, 70, 5), generator=generator)
        self.decoder = mlp((5, 70, N_FEATURES), generator=generator)
        self.shift = nn.Parameter(torch.zeros(5))

    def terms(self, batch: Any) -> dict[str, torch.Tensor]:
        z = self.encoder(batch.x) + self.shift
        return {"error": (self.decoder(z.tanh()) - batch.x).square().mean(), "size": z.square().mean()}


def assert_moved_alike(found: Result, expected: Result, share: float) -> None:
    for mine, theirs in zip(found.moved, expected.moved, strict=True):
        assert theirs.norm() > 0
        assert (mine - theirs).norm() < share * theirs.norm()
    assert found.is_contiguous


@pytest.mark.parametrize("recipe", [SGD, ADAM], ids=["sgd", "adam"])
def test_captured_steps_are_the_eager_steps(recipe: Recipe, eagerly: Any, captures: list[bool]) -> None:
    """With their noise, in float32."""
    found = denoise(recipe, precision="float32")
    assert captures == [True]
    expected = eagerly(denoise, recipe, precision="float32")
    assert found.losses == pytest.approx(expected.losses, rel=1e-5)
    assert_moved_alike(found, expected, 1e-3)


@pytest.mark.parametrize("recipe", [SGD, ADAM], ids=["sgd", "adam"])
def test_fused_denoising_is_that_of_autograd(
    recipe: Recipe, eagerly: Any, captures: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to rounding, without noise, which kernels draw in a way of their own."""
    pytest.importorskip("triton")
    fused: list[Any] = []
    plain = accel._fused_denoising
    monkeypatch.setattr(accel, "_fused_denoising", lambda *args: fused.append(plain(*args)) or fused[-1])
    found = denoise(recipe, is_noisy=False)
    assert [type(one).__name__ for one in fused] == ["FusedDenoising"]
    assert captures == [True]
    expected = eagerly(denoise, recipe, is_noisy=False)
    assert found.losses == pytest.approx(expected.losses, rel=0.02)
    if recipe is SGD:  # Adam's first steps have the size of the rate whichever way rounding turns them
        assert_moved_alike(found, expected, 0.1)


def test_fused_noise_leaves_the_error_of_autograd(eagerly: Any) -> None:
    """Other numbers of the same distribution: the mean error over epochs is nearly the same."""
    pytest.importorskip("triton")
    found, expected = denoise(n_epochs=20), eagerly(denoise, n_epochs=20)
    assert found.losses[-1] == pytest.approx(expected.losses[-1], rel=0.05)
    assert found.losses[-1] < 0.9 * found.losses[0]


@pytest.mark.parametrize("recipe", [SGD, ADAM], ids=["sgd", "adam"])
def test_fused_passes_are_those_of_autograd(
    recipe: Recipe, eagerly: Any, captures: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    names: list[str] = []
    plain = accel._fused_passes

    def note(*args: Any) -> Any:
        made = plain(*args)
        names.extend(name for _, name, _ in made)
        return made

    monkeypatch.setattr(accel, "_fused_passes", note)
    found = Result(Two(), recipe, "auto", 3)
    assert names == ["forward", "forward"]
    assert captures == [True]
    expected = eagerly(Result, Two(), recipe, "auto", 3)
    assert found.losses == pytest.approx(expected.losses, rel=0.02)
    if recipe is SGD:
        assert_moved_alike(found, expected, 0.1)


@pytest.mark.parametrize("method", METHODS)
def test_no_step_waits_for_the_gpu_and_every_step_is_captured(
    method: type, data: Any, captures: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(method, data)  # what is set up once a process may wait
    captures.clear()
    waits: list[str] = []
    plain = accel.AcceleratedPart.run

    def watched(self: Any, epoch: int) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                plain(self, epoch)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        waits.extend(f"{w.filename}:{w.lineno}" for w in caught if "called a synchronizing" in str(w.message))

    monkeypatch.setattr(accel.AcceleratedPart, "run", watched)
    fit(method, data)
    assert waits == []
    assert captures
    assert all(captures)


def test_waiting_would_be_noticed() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            torch.ones(1, device="cuda").item()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert any("synchronizing" in str(w.message) for w in caught)


def allocated() -> int:
    """Bytes that tensors hold, without the workspaces that cuBLAS keeps for every stream."""
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_allocated()


@pytest.mark.parametrize("method", [SpherePair, DCGMM])
def test_memory_is_given_back_after_training(method: type, data: Any) -> None:
    fit(method, data)
    before = allocated()
    model = fit(method, data)
    size = sum(p.nbytes for p in model.network_.parameters())
    assert allocated() - before < 4 * size + 2**20  # the network, and nothing of its training
    del model
    assert allocated() - before < 2**20


@pytest.mark.parametrize("method", METHODS)
def test_fits_with_the_same_seed_have_the_same_labels(method: type, data: Any) -> None:
    first, second = fit(method, data), fit(method, data)
    np.testing.assert_array_equal(first.labels_, second.labels_)


@pytest.mark.parametrize("pretraining", [JOINT, STACKED, None], ids=["joint", "stacked", "none"])
def test_fits_with_the_same_seed_have_the_same_embedding(pretraining: Any, data: Any) -> None:
    first, second = (fit(SpherePair, data, pretraining=pretraining) for _ in range(2))
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    other = fit(SpherePair, data, pretraining=pretraining, random_state=1)
    assert not np.array_equal(first.embedding_, other.embedding_)


def test_dropout_in_an_encoder_follows_the_seed(data: Any, captures: list[bool]) -> None:
    encoder = nn.Sequential(nn.Linear(N_FEATURES, 64), nn.Dropout(0.5), nn.ReLU(), nn.Linear(64, 10))
    options = {"encoder": encoder, "pretraining": None}
    state = torch.cuda.get_rng_state()
    first, second = (fit(SpherePair, data, **options) for _ in range(2))
    assert all(captures)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    other = fit(SpherePair, data, **options, random_state=1)
    assert not np.array_equal(first.embedding_, other.embedding_)


class Asking(nn.Module):
    """A layer that makes the host wait, which no graph can hold."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum().item() < float("inf") else -x


def test_an_encoder_that_cannot_be_captured_is_trained_eagerly(
    data: Any, captures: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    encoder = nn.Sequential(nn.Linear(N_FEATURES, 64), nn.ReLU(), Asking(), nn.Linear(64, 10))
    with caplog.at_level(logging.INFO, logger="spherepair"):
        model = fit(SpherePair, data, encoder=encoder, pretraining=None, max_epochs=10)
    assert captures
    assert not any(captures)
    assert "cannot be captured" in caplog.text
    assert clustering_accuracy(data[1], model.labels_) > 0.9


def test_a_fit_learns(data: Any) -> None:
    model = fit(SpherePair, data, max_epochs=20)
    assert clustering_accuracy(data[1], model.labels_) > 0.95


@pytest.mark.skipif(shutil.which("gcc") is None, reason="torch's compiler needs a C compiler")
def test_compiled_losses_are_the_plain_ones(
    data: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"max_epochs": 2, "precision": "float32"}
    expected = fit(DCGMM, data, **options)
    monkeypatch.setattr(accel, "WORTH_COMPILING", 1)
    with caplog.at_level(logging.INFO, logger="spherepair"):
        found = fit(DCGMM, data, **options)
    assert "cannot be compiled" not in caplog.text
    for mine, theirs in zip(found.history_, expected.history_, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3)

"""The GPU kernels in Triton's interpreter, so that they are tested without a GPU.

In float32: the interpreter has no products of bfloat16.
"""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from spherepair.accel.layers import Link, autoencoder_links, update_rule
from spherepair.networks import build_autoencoder, linear_layers
from spherepair.training import Recipe, TrainingState
from spherepair.training.batches import row_batches
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import DenoisingObjective
from spherepair.training.rows import ResidentRows, Scaling

pytest.importorskip("triton", reason="Triton comes for Linux only")

CPU = Hardware(torch.device("cpu"), "float32")
SGD, ADAM = Recipe("sgd", learning_rate=0.1, momentum=0.9), Recipe("adam", learning_rate=0.01)


@pytest.fixture
def quick_noise(monkeypatch):
    """Other numbers between 0 and 1: Triton's own take its interpreter longer than all the rest of a step."""
    import triton.language as tl

    def rand(seed, places):
        turns = places.to(tl.float32) * 0.618034
        return turns - tl.floor(turns)

    monkeypatch.setattr(tl, "rand", rand)


def make(*, spherical=True, n_rows=100, sizes=(70, 40, 5), recipe=SGD):
    generator = torch.Generator().manual_seed(0)
    network = build_autoencoder(
        sizes[0], sizes[-1], hidden_dims=sizes[1:-1], spherical=spherical, generator=generator
    )
    rows = ResidentRows(torch.rand(n_rows, sizes[0], generator=generator), Scaling.identity())
    batches = row_batches(rows, batch_size=64, seed=0, stream="s")
    objective = DenoisingObjective(network, factor=0.5)
    state = TrainingState("s", objective, recipe.build(objective, CPU), torch.Generator(), 1)
    state.optimizer.groups[0].rate = torch.tensor(recipe.learning_rate)
    return network, batches, objective, state


def fuse(objective, batches, state, *, corruption=0.0, dropout=0.0, links=None):
    from spherepair.accel.fused import FusedDenoising

    return FusedDenoising(
        links or autoencoder_links(objective.network),
        state.optimizer,
        update_rule(state.optimizer),
        batches,
        generator=state.generator,
        factor=0.5,
        corruption=corruption,
        dropout=dropout,
        dtype=torch.float32,
    )


def run_plainly(network, batches, forward, n_epochs, recipe):
    """The same steps by autograd and torch's optimiser; returns the mean error of the last epoch."""
    optimizer = (
        torch.optim.Adam(network.parameters(), lr=0.01)
        if recipe is ADAM
        else torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    )
    for epoch in range(n_epochs):
        batches.start_epoch(epoch)
        error = plain_epoch(optimizer, batches, forward)
    return error


def plain_epoch(optimizer, batches, forward):
    errors = []
    for _ in range(batches.n_steps):
        batch = batches.next()
        weight = batch.row_weight[:, None] / (batch.row_weight.sum() * batch.rows.shape[1])
        loss = 0.5 * (weight * (forward(batch.rows) - batch.rows).square()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    return sum(errors) / len(errors)


@pytest.mark.usefixtures("quick_noise")
@pytest.mark.parametrize(
    ("recipe", "spherical", "n_features", "n_rows", "n_epochs"),
    [
        (SGD, True, 70, 100, 1),  # a whole batch and a short one
        (SGD, False, 70, 64, 1),
        (SGD, True, 600, 64, 1),  # more than is gathered at once
        (ADAM, True, 70, 64, 2),
    ],
)
def test_fused_steps_are_the_steps_of_autograd(recipe, spherical, n_features, n_rows, n_epochs):
    shape = {"spherical": spherical, "sizes": (n_features, 40, 5), "recipe": recipe, "n_rows": n_rows}
    network, batches, objective, state = make(**shape)
    before = [p.detach().clone() for p in network.parameters()]
    fused = fuse(objective, batches, state)
    for epoch in range(n_epochs):
        batches.start_epoch(epoch)
        fused.start_epoch()
        for _ in range(batches.n_steps):
            fused.step()
    error = fused.means()["reconstruction"]
    fused.close()
    plain, plain_batches, *_ = make(**shape)
    expected = run_plainly(plain, plain_batches, plain, n_epochs, recipe)
    assert error == pytest.approx(expected, rel=1e-4)
    assert_moved_alike(network, plain, before)


def assert_moved_alike(network, plain, before):
    for found, wanted, start in zip(network.parameters(), plain.parameters(), before, strict=True):
        moved, should = found.detach() - start, wanted.detach() - start
        assert (moved - should).norm() < 1e-3 * should.norm() + 1e-7
        assert found.is_contiguous()


@pytest.mark.usefixtures("quick_noise")
@pytest.mark.parametrize(("recipe", "moment"), [(SGD, "momentum"), (ADAM, "exp_avg_sq")])
def test_moments_stay_with_the_optimizer(recipe, moment):
    network, batches, objective, state = make(recipe=recipe)
    batches.start_epoch(0)
    fused = fuse(objective, batches, state)
    fused.start_epoch()
    fused.step()
    weight = network.encoder[0].weight
    buffer = state.optimizer.state[weight][moment]
    assert buffer.shape == weight.shape
    assert buffer.abs().sum() > 0
    fused.close()  # autograd may have to go on from here, and takes no views of padded storage
    kept = state.optimizer.state[weight][moment]
    assert kept.is_contiguous()
    assert torch.equal(kept, buffer)
    if recipe is ADAM:
        counts = [state.optimizer.state[p]["step"] for p in network.parameters()]
        assert [count.item() for count in counts] == [1.0] * len(counts)
        assert len({count.data_ptr() for count in counts}) == len(counts)


def test_that_share_of_inputs_is_zeroed_and_of_codes_dropped():
    network, batches, objective, state = make(n_rows=64)
    batches.start_epoch(0)
    down, *_, up = [*linear_layers(network.encoder)][:1] + [*linear_layers(network.decoder)][-1:]
    fused = fuse(
        objective, batches, state, corruption=0.2, dropout=0.3,
        links=[Link(down, "dropped relu"), Link(up, "linear")],
    )  # fmt: skip
    fused.start_epoch()
    fused.step()
    noisy, clean = fused._h[0][:, :70].float(), fused._clean[:, :70]
    kept = noisy != 0
    assert 1 - kept.float().mean() == pytest.approx(0.2, abs=0.02)
    assert torch.equal(noisy[kept], clean[kept])
    plain, *_ = make(n_rows=64)
    code = F.relu(plain.encoder[0](noisy))
    dropped = (fused._h[1][:, :40] == 0) & (code > 1e-3)
    assert dropped.sum() / (code > 1e-3).sum() == pytest.approx(0.3, abs=0.05)
    live = (fused._h[1][:, :40] != 0) & (code > 1e-3)
    assert torch.allclose(fused._h[1][:, :40].float()[live], code[live] / 0.7, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("quick_noise")
@pytest.mark.parametrize("recipe", [SGD, ADAM])
def test_a_chain_goes_on_where_another_was_closed(recipe):
    """As after an interruption: weights, moments and the count of steps are taken over."""
    shape = {"recipe": recipe, "n_rows": 64}  # one step an epoch
    network, batches, objective, state = make(**shape)
    before = [p.detach().clone() for p in network.parameters()]
    for epoch in range(2):
        fused = fuse(objective, batches, state)
        batches.start_epoch(epoch)
        fused.start_epoch()
        fused.step()
        fused.close()
    plain, plain_batches, *_ = make(**shape)
    run_plainly(plain, plain_batches, plain, 2, recipe)
    assert_moved_alike(network, plain, before)


def test_what_fails_half_way_leaves_the_network_as_it_was(monkeypatch):
    from spherepair.accel.fused import FusedDenoising

    def fail(*args):
        raise RuntimeError("no memory left")

    network, batches, objective, state = make(recipe=ADAM)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    monkeypatch.setattr(FusedDenoising, "_prepare", fail)
    with pytest.raises(RuntimeError, match="no memory left"):
        fuse(objective, batches, state)
    for parameter, values in zip(network.parameters(), before, strict=True):
        assert parameter.is_contiguous()
        assert torch.equal(parameter, values)
    counts = {state.optimizer.state[p]["step"].data_ptr() for p in network.parameters()}
    assert len(counts) == len(before)


@pytest.mark.usefixtures("quick_noise")
@pytest.mark.parametrize("recipe", [SGD, ADAM])
def test_padding_stays_zero(recipe):
    _, batches, objective, state = make(recipe=recipe, n_rows=64)
    batches.start_epoch(0)
    fused = fuse(objective, batches, state, corruption=0.2)
    fused.start_epoch()
    for _ in range(batches.n_steps):
        fused.step()
    first = fused._weights.flat[: 64 * 128].view(64, 128)
    assert first[:40, :70].abs().sum() > 0
    assert first[40:].abs().sum() == 0
    assert first[:, 70:].abs().sum() == 0


@pytest.mark.parametrize(
    ("device", "capability", "knows", "hip", "early"),
    [
        ("cuda", (9, 0), True, None, True),
        ("cuda", (8, 0), True, None, False),
        ("cuda", (9, 0), False, None, False),
        ("cuda", (9, 4), True, "6.2", False),
        ("cpu", (9, 0), True, None, False),
    ],
)
def test_kernels_are_set_up_early_where_that_is_possible(monkeypatch, device, capability, knows, hip, early):
    from spherepair.accel import kernels

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(kernels, "HAS_PDL", knows)
    constants = kernels.launch_options(torch.device(device))
    assert constants == ({"PDL": True, "launch_pdl": True} if early else {"PDL": False})


def test_every_kernel_of_a_step_is_compiled_once(monkeypatch):
    from spherepair.accel import kernels

    asked = []
    monkeypatch.setattr("triton.runtime.cache.triton_key", lambda: "", raising=False)  # reads all of Triton
    monkeypatch.setattr(kernels.Launch, "compile", lambda self, device: asked.append(self.kernel))
    _, batches, objective, state = make()
    kernels.compile_together(fuse(objective, batches, state)._launches)
    expected = [kernels.forward, kernels.error, kernels.backward, kernels.update]
    assert sorted(map(id, asked)) == sorted(map(id, expected))

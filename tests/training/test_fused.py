"""The GPU kernels in Triton's interpreter, so that they are tested without a GPU.

In float32: the interpreter has no products of bfloat16.
"""

import inspect
from collections import Counter
from threading import Event, Thread
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from spherepair.networks import build_autoencoder
from spherepair.networks.mlp import linear_layers
from spherepair.training import chain
from spherepair.training.batches import row_batches
from spherepair.training.chain import Link, can_fuse
from spherepair.training.engine import Recipe, TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import DenoisingObjective, JointPretraining, StackedPretraining
from spherepair.training.rows import ResidentRows
from spherepair.training.scaling import Scaling

pytest.importorskip("triton", reason="Triton comes for Linux only")

CPU = Hardware(torch.device("cpu"), "float32")
SGD, ADAM = Recipe("sgd", learning_rate=0.1, momentum=0.9), Recipe("adam", learning_rate=0.01)


def make(*, spherical=True, n_rows=150, sizes=(70, 40, 5), recipe=SGD):
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
    from spherepair.training.fused import FusedChain

    return FusedChain(
        links or objective.chain(),
        state.optimizer,
        batches,
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


@pytest.mark.parametrize(
    ("recipe", "spherical", "n_features", "n_epochs"),
    [
        (SGD, True, 70, 1),
        (SGD, False, 70, 1),
        (SGD, True, 600, 2),  # more than is gathered at once
        (ADAM, True, 70, 3),
    ],
)
def test_fused_steps_are_the_steps_of_autograd(recipe, spherical, n_features, n_epochs):
    shape = {"spherical": spherical, "sizes": (n_features, 40, 5), "recipe": recipe}
    network, batches, objective, state = make(**shape)
    before = [p.detach().clone() for p in network.parameters()]
    step = fuse(objective, batches, state)
    for epoch in range(n_epochs):
        batches.start_epoch(epoch)
        step.start_epoch(state.generator)
        for _ in range(batches.n_steps):
            step()
    error = step.means()["reconstruction"]
    step.close()
    plain, plain_batches, *_ = make(**shape)
    expected = run_plainly(plain, plain_batches, plain, n_epochs, recipe)
    assert error == pytest.approx(expected, rel=1e-4)
    for found, wanted, start in zip(network.parameters(), plain.parameters(), before, strict=True):
        moved, should = found.detach() - start, wanted.detach() - start
        assert (moved - should).norm() < 1e-3 * should.norm() + 1e-7
        assert found.is_contiguous()


@pytest.mark.parametrize(("recipe", "moment"), [(SGD, "momentum"), (ADAM, "exp_avg_sq")])
def test_moments_stay_with_the_optimizer(recipe, moment):
    network, batches, objective, state = make(recipe=recipe)
    batches.start_epoch(0)
    step = fuse(objective, batches, state)
    step.start_epoch(state.generator)
    step()
    weight = network.encoder[0].weight
    buffer = state.optimizer.state[weight][moment]
    assert buffer.shape == weight.shape
    assert buffer.abs().sum() > 0
    step.close()  # autograd may have to go on from here, and takes no views of padded storage
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
    step = fuse(
        objective, batches, state, corruption=0.2, dropout=0.3,
        links=[Link(down, "dropped relu"), Link(up, "linear")],
    )  # fmt: skip
    step.start_epoch(state.generator)
    step()
    noisy, clean = step._h[0][:, :70].float(), step._clean[:, :70]
    kept = noisy != 0
    assert 1 - kept.float().mean() == pytest.approx(0.2, abs=0.02)
    assert torch.equal(noisy[kept], clean[kept])
    plain, *_ = make(n_rows=64)
    code = F.relu(plain.encoder[0](noisy))
    dropped = (step._h[1][:, :40] == 0) & (code > 1e-3)
    assert dropped.sum() / (code > 1e-3).sum() == pytest.approx(0.3, abs=0.05)
    live = (step._h[1][:, :40] != 0) & (code > 1e-3)
    assert torch.allclose(step._h[1][:, :40].float()[live], code[live] / 0.7, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recipe", [SGD, ADAM])
def test_a_chain_goes_on_where_another_was_closed(recipe):
    """As after an interruption: weights, moments and the count of steps are taken over."""

    def run(*, closes):
        network, batches, objective, state = make(recipe=recipe)
        step = fuse(objective, batches, state)
        for epoch in range(2):
            if epoch and closes:
                step.close()
                step = fuse(objective, batches, state)
            batches.start_epoch(epoch)
            step.start_epoch(state.generator)
            for _ in range(batches.n_steps):
                step()
        step.close()
        return list(network.parameters())

    for broken, whole in zip(run(closes=True), run(closes=False), strict=True):
        assert torch.allclose(broken, whole, atol=1e-7)


def test_what_fails_half_way_leaves_the_network_as_it_was(monkeypatch):
    from spherepair.training.fused import FusedChain

    def fail(*args):
        raise RuntimeError("no memory left")

    network, batches, objective, state = make(recipe=ADAM)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    monkeypatch.setattr(FusedChain, "_prepare", fail)
    with pytest.raises(RuntimeError, match="no memory left"):
        fuse(objective, batches, state)
    for parameter, values in zip(network.parameters(), before, strict=True):
        assert parameter.is_contiguous()
        assert torch.equal(parameter, values)
    counts = {state.optimizer.state[p]["step"].data_ptr() for p in network.parameters()}
    assert len(counts) == len(before)


@pytest.mark.parametrize("recipe", [SGD, ADAM])
def test_padding_stays_zero(recipe):
    _, batches, objective, state = make(recipe=recipe)
    batches.start_epoch(0)
    step = fuse(objective, batches, state, corruption=0.2)
    step.start_epoch(state.generator)
    for _ in range(batches.n_steps):
        step()
    first = step._weights.flat[: 64 * 128].view(64, 128)
    assert first[:40, :70].abs().sum() > 0
    assert first[40:].abs().sum() == 0
    assert first[:, 70:].abs().sum() == 0


def test_only_what_the_kernels_can_do_is_given_to_them():
    _, batches, objective, _ = make()
    sgd, gpu = Recipe("sgd", momentum=0.9), Hardware(torch.device("cuda"), "mixed")
    links = objective.chain()
    assert can_fuse(links, batches, sgd, gpu)
    assert can_fuse(links, batches, Recipe("adam"), gpu)
    assert not can_fuse(links, batches, Recipe("sgd", momentum=0.0), gpu)
    assert not can_fuse(links, batches, Recipe("sgd", clip_norm=1.0), gpu)
    assert not can_fuse(links, batches, sgd, Hardware(torch.device("cuda"), "float32"))
    assert not can_fuse(links, row_batches(batches.rows, batch_size=50, seed=0, stream="s"), sgd, gpu)


def test_frozen_layers_are_left_to_autograd(monkeypatch):
    from spherepair.training import pretraining

    network, batches, objective, _ = make()
    network.encoder[2].weight.requires_grad_(False)
    optimizer = SGD.build(objective, CPU)
    monkeypatch.setattr(pretraining, "can_fuse", lambda *args: True)
    assert objective.fused_step(optimizer, batches, SGD, CPU) is None
    assert network.encoder[0].weight.is_contiguous()


def test_an_encoder_with_a_pass_of_its_own_is_left_to_autograd():
    class Own(nn.Sequential):
        def forward(self, x):
            return super().forward(x.log1p())

    network, *_ = make()
    assert DenoisingObjective(network).chain() is not None
    network.encoder = Own(*network.encoder)
    assert DenoisingObjective(network).chain() is None


def test_layers_without_bias_are_left_to_autograd():
    network, *_ = make()
    network.encoder[0].register_parameter("bias", None)
    assert DenoisingObjective(network).chain() is None


def test_a_step_that_cannot_be_compiled_is_left_to_autograd(monkeypatch):
    from spherepair.training import fused, pretraining

    def refuse(*args, **kwargs):
        raise RuntimeError("no compiler")

    _, batches, objective, state = make()
    monkeypatch.setattr(fused, "FusedChain", refuse)
    monkeypatch.setattr(pretraining, "can_fuse", lambda *args: True)
    assert objective.fused_step(state.optimizer, batches, Recipe("sgd", momentum=0.9), CPU) is None


ADAMS = JointPretraining.kernels


@pytest.fixture
def nothing_begun(monkeypatch):
    monkeypatch.setattr(chain, "_ahead", {})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.parametrize(
    ("device", "precision", "n_gpus", "kernels", "asked"),
    [
        ("auto", "auto", 1, ADAMS, {"key", "driver", "compiled"}),
        (torch.device("cuda:0"), "auto", 1, ADAMS, {"key", "driver", "compiled"}),
        ("auto", "auto", 1, None, {"key", "driver"}),
        ("auto", "auto", 0, ADAMS, set()),
        ("cpu", "auto", 1, ADAMS, set()),
        ("auto", "float32", 1, ADAMS, set()),
    ],
)
def test_kernels_are_made_ready_ahead_of_their_first_use(
    nothing_begun, monkeypatch, device, precision, n_gpus, kernels, asked
):
    # What fails in the thread is swallowed there, so a name that Triton no longer has would go unnoticed.
    from triton import runtime

    from spherepair.training import fused

    seen = Counter()

    class Compiled(fused.FusedChain):
        def close(self):
            assert seen.keys() == {"key", "driver"}, "compiled before Triton was ready"
            assert self._is_adam
            seen.update(["compiled"])
            super().close()

    gpu = Hardware(torch.device("cpu"), "mixed")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(chain, "choose_hardware", lambda *args: gpu)
    monkeypatch.setattr(runtime.cache, "triton_key", lambda: seen.update(["key"]))
    monkeypatch.setattr(type(runtime.driver), "active", property(lambda _: seen.update(["driver"])))
    monkeypatch.setattr(fused, "FusedChain", Compiled)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for has_cuda_begun in (False, True):  # the second fit of a process finds all that there
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda has_begun=has_cuda_begun: has_begun)
        chain.load_kernels_ahead(device, precision, kernels)
        chain.wait_for_kernels()
    assert seen == dict.fromkeys(asked, 1)


def test_an_older_gpu_has_no_use_for_them(nothing_begun, monkeypatch):
    monkeypatch.setattr(chain, "choose_hardware", lambda *args: Hardware(torch.device("cuda"), "tf32"))
    asked = []
    monkeypatch.setattr(chain, "import_module", lambda name: asked.append(name) or SimpleNamespace())
    chain.load_kernels_ahead("auto", "auto", ADAMS)
    chain.wait_for_kernels()
    assert asked == ["triton.runtime"]


def test_a_fit_says_nothing_when_its_kernels_cannot_be_made_ready(nothing_begun, monkeypatch, capfd):
    def fail(*args):
        raise OSError("no room")

    runtime = SimpleNamespace(cache=SimpleNamespace(triton_key=fail))  # and no driver at all
    monkeypatch.setattr(chain, "import_module", lambda name: runtime)
    monkeypatch.setattr(chain, "choose_hardware", lambda *args: Hardware(torch.device("cpu"), "mixed"))
    chain.load_kernels_ahead("auto", "auto", ADAMS)
    chain.wait_for_kernels()
    assert capfd.readouterr() == ("", "")


def test_fits_in_several_threads_wait_for_the_same_kernels(nothing_begun, monkeypatch):
    begun, ready = [], Event()
    monkeypatch.setattr(chain, "_load", lambda *args: (begun.append(args), ready.wait(10)))
    waited = []

    def fit():
        chain.load_kernels_ahead("auto", "auto", ADAMS)
        chain.wait_for_kernels()
        waited.append(ready.is_set())

    fits = [Thread(target=fit) for _ in range(8)]
    for thread in fits:
        thread.start()
    ready.set()
    for thread in fits:
        thread.join()
    assert waited == [True] * 8
    assert len(begun) == 1


def whole_network(recipe):
    _, batches, objective, state = make(recipe=recipe)
    return objective.chain(), batches, state


def one_layer(recipe):
    network, batches, _, state = make(recipe=recipe)
    down, *_ = linear_layers(network.encoder)
    *_, up = linear_layers(network.decoder)
    return [Link(down, "dropped relu"), Link(up, "linear")], batches, state


@pytest.mark.parametrize(
    ("method", "needed", "recipe"),
    [(JointPretraining, whole_network, ADAM), (StackedPretraining, one_layer, SGD)],
)
def test_what_is_compiled_ahead_is_what_a_real_chain_needs(method, needed, recipe):
    from spherepair.training import fused

    made = []

    class Seen(fused.FusedChain):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    before = torch.random.get_rng_state()
    small = fused.smallest_chain(torch.device("cpu"), **method.kernels)
    Seen(*small, factor=1.0, corruption=0.0, dropout=0.0)
    assert torch.equal(torch.random.get_rng_state(), before)
    links, batches, state = needed(recipe)
    state.optimizer.groups[0].rate = 0.0  # as in an optimiser for a processor; on a GPU both are tensors
    Seen(links, state.optimizer, batches, factor=1.0, corruption=0.2, dropout=0.2)

    def compiled(fused_chain):
        """Types, constants, and of whole numbers whether 16 divides them: what Triton compiles for."""
        return {
            (x.signature(), tuple(isinstance(a, int) and a % 16 == 0 for a in special(x)))
            for x in fused_chain._launches
        }

    def special(launch):
        free = launch.kernel.kwargs["do_not_specialize"] or ()
        return [
            a for name, a in zip(names(launch.kernel), launch.arguments, strict=False) if name not in free
        ]

    assert compiled(made[0]) == compiled(made[1])


def names(kernel):
    return list(inspect.signature(kernel.fn).parameters)


@pytest.mark.parametrize("builds", [True, False])
def test_what_launches_the_longest_kernel_is_built_while_that_is_compiled(monkeypatch, builds):
    from spherepair.training import fused_parts, kernels

    assert names(kernels.called_like_update) == names(kernels.update)
    assert kernels.called_like_update.kwargs == kernels.update.kwargs
    asked = []
    monkeypatch.setattr(fused_parts.Launch, "compile", lambda self, device: asked.append(self.kernel))
    monkeypatch.setattr(kernels, "BUILDS_LAUNCHERS", builds)
    _, batches, objective, state = make()
    fused_parts.compile_together(fuse(objective, batches, state)._launches)
    expected = [kernels.forward, kernels.error, kernels.backward, kernels.update]
    expected += [kernels.called_like_update] * builds
    assert sorted(map(id, asked)) == sorted(map(id, expected))


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
    from spherepair.training import fused_parts

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(fused_parts.kernels, "KNOWS_EARLY", knows)
    constants = fused_parts.turns(torch.device(device))
    assert constants == ({"EARLY": True, "launch_pdl": True} if early else {"EARLY": False})

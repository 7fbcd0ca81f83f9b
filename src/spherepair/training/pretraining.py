"""Unsupervised pretraining of the autoencoder on corrupted rows.

``"joint"`` trains the whole denoising autoencoder end to end with Adam for a few epochs.
``"stacked"`` is the paper's protocol: one shallow denoising autoencoder per layer, each trained on
the clean output of the one below, then the whole network; 300 epochs a layer and 500 together, SGD
with momentum 0.9 and a rate of 0.1 that falls tenfold every 100 epochs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.errors import InvalidParameterError
from spherepair.losses import reconstruction_loss
from spherepair.networks.autoencoder import Autoencoder
from spherepair.networks.mlp import MLP, linear_layers
from spherepair.training.batches import Batch, Batches, row_batches
from spherepair.training.chain import (
    Activation,
    Link,
    are_trained,
    can_fuse,
    load_kernels_ahead,
    wait_for_kernels,
)
from spherepair.training.engine import Objective, Recipe, Step, TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.optimizers import SGD, Adam, Optimizer
from spherepair.training.randomness import torch_generator
from spherepair.training.rows import ResidentRows, RowSource, blocks
from spherepair.training.scaling import Scaling
from spherepair.training.session import Session

logger = logging.getLogger(__name__)

#: Share of the inputs that is set to zero before a row is encoded.
CORRUPTION = 0.2
#: Share of a layer's code that is dropped while that layer is trained by itself.
HIDDEN_DROPOUT = 0.2
#: Epochs of joint pretraining unless given, on a GPU, and on a processor: as many as make ROWS_SEEN rows in
#: all, between LEAST_EPOCHS and MOST_EPOCHS.
GPU_EPOCHS = 50
ROWS_SEEN, LEAST_EPOCHS, MOST_EPOCHS = 600_000, 15, 30
#: Rows below which joint pretraining goes over a table so often that its steps may be small.
SMALL_TABLE = 1000


JOINT_STAGE = "pretraining"


class DenoisingObjective(Objective):
    """Reconstruct clean rows from corrupted ones.

    Parameters
    ----------
    network : nn.Module
        Maps rows to rows.
    factor : float, default=1.0
        Factor of the mean squared error; the stacked protocol takes half of it.
    """

    def __init__(self, network: nn.Module, *, factor: float = 1.0) -> None:
        super().__init__()
        self.network = network
        self._factor = factor
        self._generator: torch.Generator | None = None

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Take the noise of this epoch."""
        self._generator = state.generator

    def fused_step(
        self, optimizer: Optimizer, batches: Batches, recipe: Recipe, hardware: Hardware
    ) -> Step | None:
        """All Linear layers in few kernels on a GPU."""
        links = self.chain()
        if links is None or not can_fuse(links, batches, recipe, hardware):
            return None
        if not isinstance(optimizer, SGD | Adam) or not are_trained(links, optimizer):
            return None
        wait_for_kernels()
        try:
            from spherepair.training.fused import FusedChain

            return FusedChain(
                links,
                optimizer,
                batches,
                factor=self._factor,
                corruption=CORRUPTION,
                dropout=HIDDEN_DROPOUT,
            )
        except Exception as error:  # Triton raises what its compilers raise
            logger.info("the fused step cannot be compiled here (%s); using autograd", error)
            return None

    def chain(self) -> list[Link] | None:
        """The network as a chain of Linear layers; ``None`` where it is not one."""
        if not isinstance(self.network, Autoencoder) or not _is_mirrored(self.network):
            return None
        if any(layer.bias is None for layer in linear_layers(self.network)):
            return None
        encoder, decoder = (
            list(linear_layers(part)) for part in (self.network.encoder, self.network.decoder)
        )
        middle: Activation = "sphere" if self.network.spherical else "linear"
        return [
            *(Link(layer, "relu") for layer in encoder[:-1]),
            Link(encoder[-1], middle),
            *(Link(layer, "relu") for layer in decoder[:-1]),
            Link(decoder[-1], "linear"),
        ]

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """One term: the reconstruction error against the clean rows."""
        output = self.reconstruct(self.drop(batch.rows, CORRUPTION))
        error = reconstruction_loss(output, batch.rows, weight=batch.row_weight)
        return {"reconstruction": self._factor * error}

    def reconstruct(self, corrupted: Tensor) -> Tensor:
        """The rows as the network gives them back."""
        output: Tensor = self.network(corrupted)
        return output

    def drop(self, x: Tensor, share: float) -> Tensor:
        """Set that share of the entries of ``x`` to zero, without rescaling the rest."""
        return x * _kept(x, share, self._generator)


def _kept(x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """A mask like ``x`` that is false with probability ``share``, to the nearest 1/256.

    One random byte an entry: drawing a float for each takes longer than a layer's matrix product.
    """
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    words.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    return words.view(torch.uint8)[: x.numel()].view(x.shape) >= round(256 * share)


@dataclass(frozen=True)
class JointPretraining:
    """The whole denoising autoencoder end to end.

    ``epochs`` are 50 on a GPU unless given, and 30 on a processor, or fewer beyond 20,000 rows and 15 from
    40,000 on. More still help a little: 150 have up to 0.8 points more where there are many pairs, on a GPU
    for twice the time of a whole fit. ``min_steps`` (of all epochs together) keeps small tables from being
    left half trained: 30 passes over 1,000 rows would be 120 steps only. Their epochs hold several passes.
    ``batch_size`` is 256 unless given: what counts most is the number of steps, and on a processor the time
    of one grows with its rows. On a GPU it hardly does, and it is 512 there unless that would leave fewer
    than ``min_steps``. Tables of less than 1,000 rows take 64. ``warm_up`` is the share of the epochs in
    which the rate rises to ``learning_rate``: full steps from the start spoil what can be learned from rows
    with many rare columns, as texts are.
    """

    #: Which kernels it takes on a GPU.
    kernels: ClassVar[dict[str, bool]] = {"is_adam": True, "drops": False}

    epochs: int | None = None
    min_steps: int = 1500
    learning_rate: float = 1e-3
    batch_size: int | None = None
    warm_up: float = 1 / 3

    def run(self, network: Autoencoder, rows: RowSource, session: Session) -> None:
        """Train ``network`` in place."""
        epochs = self.n_epochs(rows, session)
        session.run_stage(
            DenoisingObjective(network),
            self.batches(rows, session),
            stage=JOINT_STAGE,
            recipe=Recipe(learning_rate=self.learning_rate, warm_up=round(self.warm_up * epochs)),
            max_epochs=epochs,
        )

    def batches(self, rows: RowSource, session: Session) -> Batches:
        """What makes an epoch."""
        return row_batches(
            rows,
            batch_size=self.step_rows(rows, session),
            min_steps=-(-self.min_steps // self.n_epochs(rows, session)),
            seed=session.seed,
            stream=JOINT_STAGE,
        )

    def step_rows(self, rows: RowSource, session: Session) -> int:
        """Rows in a step, as given or as they suit the table and the device."""
        if self.batch_size is not None:
            return self.batch_size
        if rows.n_rows < SMALL_TABLE:
            return 64
        n_shown = rows.n_rows * self.n_epochs(rows, session)
        return 512 if session.hardware.is_cuda and n_shown >= 512 * self.min_steps else 256

    def n_epochs(self, rows: RowSource, session: Session) -> int:
        """Epochs, as given or as they suit the table and the device."""
        if self.epochs is not None:
            return self.epochs
        if session.hardware.is_cuda:
            return GPU_EPOCHS
        return min(MOST_EPOCHS, max(LEAST_EPOCHS, ROWS_SEEN // rows.n_rows))


@dataclass(frozen=True)
class StackedPretraining:
    """Layer by layer, then end to end, as the paper does."""

    kernels: ClassVar[dict[str, bool]] = {"is_adam": False, "drops": True}

    layer_epochs: int = 300
    epochs: int = 500
    batch_size: int = 256
    initial_range: float = 0.01

    def run(self, network: Autoencoder, rows: RowSource, session: Session) -> None:
        """Train ``network`` in place; needs an encoder and a decoder of Linear layers."""
        _require_mirrored(network)
        encoder = list(linear_layers(network.encoder))
        decoder = list(linear_layers(network.decoder))[::-1]
        below = rows
        for depth, (down, up) in enumerate(zip(encoder, decoder, strict=True)):
            is_last = depth == len(encoder) - 1
            layer = _Layer(down, up, is_last=is_last, spherical=network.spherical)
            objective = _LayerObjective(layer, factor=0.5)
            name = f"pretraining layer {depth + 1}"
            draw = partial(_reset, layer, self.initial_range, torch_generator(session.seed, name))
            self._train(objective, below, session, stage=name, epochs=self.layer_epochs, initialise=draw)
            if not is_last:
                below = _outputs(layer, below)
        whole = DenoisingObjective(network, factor=0.5)
        self._train(whole, rows, session, stage="pretraining end to end", epochs=self.epochs)

    def _train(
        self,
        objective: Objective,
        rows: RowSource,
        session: Session,
        *,
        stage: str,
        epochs: int,
        initialise: Callable[[], None] | None = None,
    ) -> None:
        session.run_stage(
            objective,
            row_batches(rows, batch_size=self.batch_size, seed=session.seed, stream=stage),
            stage=stage,
            recipe=Recipe("sgd", learning_rate=0.1, momentum=0.9, decay_every=100),
            max_epochs=epochs,
            initialise=initialise,
        )


class _Layer(nn.Module):
    """One layer of the stack; it trains the very Linear modules of the deep network.

    All codes but the last pass a ReLU; the last is put on the sphere instead. The decoder is linear
    even where its target is the output of a ReLU.
    """

    def __init__(self, down: nn.Linear, up: nn.Linear, *, is_last: bool, spherical: bool) -> None:
        super().__init__()
        self.down, self.up = down, up
        self.is_last, self.spherical = is_last, spherical

    def encode(self, x: Tensor) -> Tensor:
        z: Tensor = self.down(x)
        if not self.is_last:
            return F.relu(z)
        return F.normalize(z.float(), dim=-1, eps=1e-12) if self.spherical else z


class _LayerObjective(DenoisingObjective):
    """Denoising of one layer, with dropout of its hidden code in all layers but the last."""

    network: _Layer

    def reconstruct(self, corrupted: Tensor) -> Tensor:
        code = self.network.encode(corrupted)
        if not self.network.is_last:
            code = self.drop(code, HIDDEN_DROPOUT) / (1.0 - HIDDEN_DROPOUT)
        output: Tensor = self.network.up(code)
        return output

    def chain(self) -> list[Link] | None:
        """Down and up."""
        layer = self.network
        last: Activation = "sphere" if layer.spherical else "linear"
        return [Link(layer.down, last if layer.is_last else "dropped relu"), Link(layer.up, "linear")]


def _is_mirrored(network: Autoencoder) -> bool:
    """Whether the encoder is Linear layers with ReLU between them, and the decoder mirrors it."""
    down = [(layer.in_features, layer.out_features) for layer in linear_layers(network.encoder)]
    up = [(layer.out_features, layer.in_features) for layer in linear_layers(network.decoder)]
    kinds = [type(layer) for layer in network.encoder.children()]
    # A class of the user's own may do anything between these layers.
    is_plain = type(network.encoder) in (MLP, nn.Sequential) and type(network.decoder) is MLP
    return is_plain and down == up[::-1] and kinds == [nn.Linear, nn.ReLU] * (len(down) - 1) + [nn.Linear]


def _require_mirrored(network: Autoencoder) -> None:
    if not _is_mirrored(network):
        raise InvalidParameterError(
            "pretraining='stacked' needs an encoder made of Linear layers with a mirrored decoder; "
            "use pretraining='joint' with an encoder of your own."
        )


def _reset(layer: _Layer, bound: float, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            parameter.copy_(drawn)


def _outputs(layer: _Layer, rows: RowSource) -> RowSource:
    """The clean codes of all rows, which are the rows of the next layer."""
    if not rows.is_resident:
        return _CodesOnDemand(layer, rows)
    try:
        return _codes(layer, rows)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return _CodesOnDemand(layer, rows)


class _CodesOnDemand:
    """Codes of rows that are themselves read a batch at a time: made anew whenever they are asked for."""

    def __init__(self, layer: _Layer, rows: RowSource) -> None:
        self._layer, self._rows = layer, rows
        self.n_rows, self.n_features = rows.n_rows, layer.down.out_features
        self.device, self.index_device, self.is_resident = rows.device, rows.index_device, rows.is_resident

    @torch.no_grad()
    def gather(self, index: Tensor) -> Tensor:
        return self._layer.encode(self._rows.gather(index)).float()

    @torch.no_grad()
    def block(self, start: int, stop: int) -> Tensor:
        return self._layer.encode(self._rows.block(start, stop)).float()


@torch.no_grad()
def _codes(layer: _Layer, rows: RowSource) -> RowSource:
    layer.eval()
    n_codes = layer.down.out_features
    table = torch.empty(rows.n_rows, n_codes, device=rows.device)
    for start, stop in blocks(rows.n_rows, 8192):
        table[start:stop] = layer.encode(rows.block(start, stop))
    return ResidentRows(table, Scaling.identity())


PRETRAINING: dict[str, Callable[[], JointPretraining | StackedPretraining]] = {
    "joint": JointPretraining,
    "stacked": StackedPretraining,
}


def pretrain(network: Autoencoder, rows: RowSource, session: Session, *, method: Any) -> None:
    """Train ``network`` in place by a method, given by its name or as itself; not at all by ``None``."""
    if method is not None:
        _chosen(method).run(network, rows, session)


def is_fused(network: Autoencoder, rows: RowSource, session: Session, *, method: Any) -> bool:
    """Whether such a pretraining takes kernels of our own alone, and none of torch's libraries."""
    chosen, links = _chosen(method), DenoisingObjective(network).chain()
    if not isinstance(chosen, JointPretraining) or links is None:
        return False
    return can_fuse(links, chosen.batches(rows, session), Recipe(), session.hardware)


def load_ahead(device: str | torch.device, precision: str, *, method: Any) -> None:
    """Begin to load what such a pretraining will need, while the host is busy with the rows."""
    load_kernels_ahead(device, precision, getattr(_chosen(method), "kernels", None))


def _chosen(method: Any) -> Any:
    return PRETRAINING[method]() if isinstance(method, str) else method

"""Unsupervised pretraining of the autoencoder on corrupted rows.

``"joint"`` trains the whole denoising autoencoder end to end with Adam for a few epochs.
``"stacked"`` is the paper's protocol: one shallow denoising autoencoder per layer, each trained on
the clean output of the one below, then the whole network; 300 epochs a layer and 500 together, SGD
with momentum 0.9 and a rate of 0.1 that falls tenfold every 100 epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from spherepair.errors import InvalidParameterError
from spherepair.losses import reconstruction_loss
from spherepair.networks import MLP, Autoencoder, linear_layers
from spherepair.settings import Number, require
from spherepair.training import Objective, Plan, Recipe, TrainingState
from spherepair.training.batches import Batch, Batches, row_batches
from spherepair.training.hardware import choose_effort, torch_generator
from spherepair.training.rows import ResidentRows, RowSource, Scaling, blocks
from spherepair.training.session import Session
from spherepair.validation import LARGEST_COUNT, LARGEST_WEIGHT

#: Share of the inputs that is set to zero before a row is encoded.
CORRUPTION = 0.2
#: Share of a layer's code that is dropped while that layer is trained by itself.
HIDDEN_DROPOUT = 0.2
#: Epochs of joint pretraining by default: on a GPU, and on a CPU as many as show ROWS_SEEN rows in all,
#: between LEAST_EPOCHS and MOST_EPOCHS.
GPU_EPOCHS = 50
ROWS_SEEN, LEAST_EPOCHS, MOST_EPOCHS = 600_000, 15, 30
#: Most rows in an epoch of joint pretraining: of a larger table every epoch draws others. Beyond some hundred
#: thousand rows, more of them do not make it better, only longer.
MOST_ROWS = 100_000
#: Tables with fewer rows take smaller steps in joint pretraining.
SMALL_TABLE = 1000
#: Epochs, steps and rows that settings ask for.
COUNT = Number(1, LARGEST_COUNT, whole=True)

JOINT_STAGE = "pretraining"


class DenoisingObjective(Objective):
    """Reconstruct clean rows from corrupted ones.

    Parameters
    ----------
    network : Autoencoder
    factor : float, default=1.0
        Factor of the mean squared error; the stacked protocol takes half of it.
    hidden_dropout : float, default=0.0
        Share of the code that is dropped.

    Attributes
    ----------
    corruption : float
        Share of the inputs that is set to zero.
    """

    corruption = CORRUPTION

    def __init__(self, network: Autoencoder, *, factor: float = 1.0, hidden_dropout: float = 0.0) -> None:
        super().__init__()
        self.network, self.factor, self.hidden_dropout = network, factor, hidden_dropout
        self._generator: torch.Generator | None = None

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Draw noise from the generator of this epoch."""
        self._generator = state.generator

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """One term: the reconstruction error against the clean rows."""
        code = self.network.encode(self.drop(batch.rows, self.corruption))
        if self.hidden_dropout > 0.0:
            code = self.drop(code, self.hidden_dropout) / (1.0 - self.hidden_dropout)
        error = reconstruction_loss(self.network.decode(code), batch.rows, weight=batch.row_weight)
        return {"reconstruction": self.factor * error}

    def drop(self, x: Tensor, share: float) -> Tensor:
        """Set that share of the entries of ``x`` to zero, without rescaling the rest."""
        return x * _random_mask(x, share, self._generator)


def _random_mask(x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """A mask like ``x`` that is false with probability ``share``, to the nearest 1/256.

    One random byte per entry: drawing a float for each takes longer than a layer's matrix product.
    """
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    words.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    return words.view(torch.uint8)[: x.numel()].view(x.shape) >= round(256 * share)


@dataclass(frozen=True)
class JointPretraining:
    """The whole denoising autoencoder end to end.

    Parameters
    ----------
    epochs : int, optional
        By default 50 on a GPU; on a CPU 30, fewer beyond 20,000 rows and 15 from 40,000 on. 150 epochs gain
        up to 0.8 points where there are many pairs, for twice the time of a whole fit on a GPU. Each shows at
        most 100,000 rows.
    min_steps : int, optional
        Least number of steps in all epochs together, so that small tables are trained well; their epochs then
        hold several passes. By default 1,500; on a CPU 750 for tables of less than 20,000 rows and 300 below
        1,000.
    learning_rate : float, default=1e-3
    batch_size : int, optional
        By default 256, 64 for tables of less than 1,000 rows, and 512 on a GPU, where larger steps take
        hardly longer, unless that would leave fewer than ``min_steps``.
    warm_up : float, default=1/3
        Share of the epochs in which the rate rises to ``learning_rate``. Full steps from the start spoil what
        can be learned from rows with many rare columns, such as texts.
    """

    epochs: int | None = None
    min_steps: int | None = None
    learning_rate: float = 1e-3
    batch_size: int | None = None
    warm_up: float = 1 / 3

    def __post_init__(self) -> None:
        count = replace(COUNT, words=(None,))
        require(self, epochs=count, min_steps=count, batch_size=count)
        require(self, learning_rate=Number(0, LARGEST_WEIGHT), warm_up=Number(0, 1))

    def run(self, network: Autoencoder, rows: RowSource, session: Session, stage: str = JOINT_STAGE) -> None:
        """Train ``network`` in place."""
        epochs = self.n_epochs(rows, session)
        session.run_stage(
            Plan(
                DenoisingObjective(network),
                (self.batches(rows, session, stage),),
                Recipe(learning_rate=self.learning_rate, warm_up=round(self.warm_up * epochs)),
            ),
            stage=stage,
            max_epochs=epochs,
        )

    def batches(self, rows: RowSource, session: Session, stage: str = JOINT_STAGE) -> Batches:
        """The batches of an epoch."""
        return row_batches(
            rows,
            batch_size=self.step_rows(rows, session),
            min_steps=-(-self.n_steps(rows, session) // self.n_epochs(rows, session)),
            most_rows=MOST_ROWS,
            seed=session.seed,
            stream=stage,
        )

    def step_rows(self, rows: RowSource, session: Session) -> int:
        """Rows in a step: as given, or by table and device."""
        if self.batch_size is not None:
            return self.batch_size
        if rows.n_rows < SMALL_TABLE:
            return 64
        n_shown = rows.n_rows * self.n_epochs(rows, session)
        return 512 if session.hardware.is_cuda and n_shown >= 512 * self.n_steps(rows, session) else 256

    def n_steps(self, rows: RowSource, session: Session) -> int:
        """Least number of steps: as given, or by table and device."""
        if self.min_steps is not None:
            return self.min_steps
        return choose_effort(rows.n_rows, session.hardware).pretraining_steps

    def n_epochs(self, rows: RowSource, session: Session) -> int:
        """Number of epochs: as given, or by table and device."""
        if self.epochs is not None:
            return self.epochs
        if session.hardware.is_cuda:
            return GPU_EPOCHS
        return min(MOST_EPOCHS, max(LEAST_EPOCHS, ROWS_SEEN // rows.n_rows))


@dataclass(frozen=True)
class StackedPretraining:
    """Layer by layer, then end to end, as in the paper.

    Parameters
    ----------
    layer_epochs, epochs : int
        Epochs of each layer, and of the whole network after that.
    batch_size : int, default=256
    initial_range : float, default=0.01
        Weights of a layer start uniformly between minus and plus this number.
    """

    layer_epochs: int = 300
    epochs: int = 500
    batch_size: int = 256
    initial_range: float = 0.01

    def __post_init__(self) -> None:
        bound = Number(0, LARGEST_WEIGHT)
        require(self, layer_epochs=COUNT, epochs=COUNT, batch_size=COUNT, initial_range=bound)

    def run(self, network: Autoencoder, rows: RowSource, session: Session) -> None:
        """Train ``network`` in place; needs an encoder and a decoder of Linear layers."""
        _require_mirrored(network)
        encoder = list(linear_layers(network.encoder))
        decoder = list(linear_layers(network.decoder))[::-1]
        below = rows
        for depth, (down, up) in enumerate(zip(encoder, decoder, strict=True)):
            is_last = depth == len(encoder) - 1
            layer = _shallow(down, up, is_last=is_last, spherical=network.spherical)
            dropout = 0.0 if is_last else HIDDEN_DROPOUT
            objective = DenoisingObjective(layer, factor=0.5, hidden_dropout=dropout)
            name = f"pretraining layer {depth + 1}"
            draw = partial(_reset, layer, self.initial_range, torch_generator(session.seed, name))
            self._train(objective, below, session, stage=name, epochs=self.layer_epochs, initialize=draw)
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
        initialize: Callable[[], None] | None = None,
    ) -> None:
        session.run_stage(
            Plan(
                objective,
                (row_batches(rows, batch_size=self.batch_size, seed=session.seed, stream=stage),),
                Recipe("sgd", learning_rate=0.1, momentum=0.9, decay_every=100),
            ),
            stage=stage,
            max_epochs=epochs,
            initialize=initialize,
        )


def _shallow(down: nn.Linear, up: nn.Linear, *, is_last: bool, spherical: bool) -> Autoencoder:
    """One layer of the stack as an autoencoder that shares its Linear modules with the deep network.

    All codes but the last pass a ReLU; the last is put on the sphere instead. The decoder is linear
    even where its target is the output of a ReLU.
    """
    encoder = nn.Sequential(down) if is_last else nn.Sequential(down, nn.ReLU())
    return Autoencoder(encoder, nn.Sequential(up), spherical=is_last and spherical)


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


def _reset(layer: Autoencoder, bound: float, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            parameter.copy_(drawn)


def _outputs(layer: Autoencoder, rows: RowSource) -> RowSource:
    """The clean codes of all rows, which are the rows of the next layer."""
    if not rows.is_resident:
        return _CodesOnDemand(layer, rows)
    try:
        return _codes(layer, rows)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return _CodesOnDemand(layer, rows)


class _CodesOnDemand:
    """Codes of rows that are read a batch at a time, computed whenever they are needed."""

    def __init__(self, layer: Autoencoder, rows: RowSource) -> None:
        self._layer, self._rows = layer, rows
        self.n_rows, self.n_features = rows.n_rows, _code_size(layer)
        self.device, self.index_device, self.is_resident = rows.device, rows.index_device, rows.is_resident

    @torch.no_grad()
    def gather(self, index: Tensor) -> Tensor:
        return self._layer.encode(self._rows.gather(index)).float()

    @torch.no_grad()
    def block(self, start: int, stop: int) -> Tensor:
        return self._layer.encode(self._rows.block(start, stop)).float()


def _code_size(layer: Autoencoder) -> int:
    return next(linear_layers(layer.encoder)).out_features


@torch.no_grad()
def _codes(layer: Autoencoder, rows: RowSource) -> RowSource:
    layer.eval()
    table = torch.empty(rows.n_rows, _code_size(layer), device=rows.device)
    for start, stop in blocks(rows.n_rows, 8192):
        table[start:stop] = layer.encode(rows.block(start, stop))
    return ResidentRows(table, Scaling.identity())


PRETRAINING: dict[str, Callable[[], JointPretraining | StackedPretraining]] = {
    "joint": JointPretraining,
    "stacked": StackedPretraining,
}


def pretrain(network: Autoencoder, rows: RowSource, session: Session, *, method: Any) -> None:
    """Train ``network`` in place by a method or the name of one; ``None`` trains nothing."""
    if method is not None:
        _chosen(method).run(network, rows, session)


def _chosen(method: Any) -> Any:
    return PRETRAINING[method]() if isinstance(method, str) else method

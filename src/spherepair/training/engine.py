"""The one training loop of the package: the only ``backward()`` and the only optimiser step.

A method supplies an :class:`Objective`, a module whose named terms sum up to the loss. The loop
asks for nothing else, so every method has the same history, progress, checkpoints and speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from spherepair.errors import TrainingDivergedError
from spherepair.training.batches import Batch, Batches
from spherepair.training.capture import CapturedStep, CapturedValue
from spherepair.training.chain import fuse_passes, taking_over
from spherepair.training.hardware import Hardware
from spherepair.training.optimizers import SGD, STEPS_ABOVE_DENORMAL, Adam, Optimizer
from spherepair.training.randomness import derive_seed
from spherepair.training.stopping import LABELS, OBJECTIVE, FixedEpochs, StoppingRule

if TYPE_CHECKING:
    from spherepair.training.fused_pass import FusedPass

Record = dict[str, Any]

#: The whole objective is captured as well where its sweep has no more blocks than these.
CAPTURED_BLOCKS = 4
#: Bytes of a block whose release makes glibc keep up to twice as much of what is released after it.
KEPT_BYTES = 31 * 2**20


class Objective(nn.Module):
    """What a method optimises: a module that holds its network and names the terms of its loss."""

    #: Whether each network of it passes at most once in a step, so that its weights may move on the way back;
    #: to be taken back by whoever adds a second pass.
    passes_once: ClassVar[bool] = False

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Prepare an epoch, for instance refresh a target distribution."""

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalars, already weighted; the loss is their sum. ``batch.part`` names the sweep."""
        raise NotImplementedError

    def on_end(self, state: TrainingState) -> None:
        """Training is over, for instance: leave the network with averaged weights."""

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """What is trained, with the factor by which each group's learning rate differs."""
        return [([p for p in self.parameters() if p.requires_grad], 1.0)]

    def changed_labels(self) -> float:
        """Share of the rows that changed their cluster since this was asked last.

        For methods that assign while they train; the others refuse rules that watch labels.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no clusters while it trains, so no rule can watch them; derive it "
            "from AssigningObjective or choose another stopping rule."
        )

    def fused_step(
        self, optimizer: Optimizer, batches: Batches, recipe: Recipe, hardware: Hardware
    ) -> Step | None:
        """A step of its own, in few kernels, where this objective has one for these circumstances."""
        return None


@dataclass(frozen=True)
class Recipe:
    """How parameters are updated."""

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.0
    clip_norm: float | None = None
    decay_every: int | None = None
    decay_factor: float = 0.1
    warm_up: int = 0

    def rate(self, epoch: int) -> float:
        """Learning rate of an epoch: rises for ``warm_up``, falls by a factor every ``decay_every``."""
        rate = self.learning_rate * min(1.0, (epoch + 1) / max(1, self.warm_up))
        return rate if self.decay_every is None else rate * self.decay_factor ** (epoch // self.decay_every)

    def build(self, objective: Objective, hardware: Hardware) -> Optimizer:
        """The optimiser over what the objective trains."""
        groups = objective.parameter_groups()
        if self.optimizer == "sgd":
            return SGD(groups, hardware.device, momentum=self.momentum)
        return Adam(groups, hardware.device)


@dataclass
class TrainingState:
    """Where a stage of training stands."""

    stage: str
    objective: Objective
    optimizer: Optimizer
    generator: torch.Generator
    max_epochs: int
    records: list[Record] = field(default_factory=list)
    monitored: list[float] = field(default_factory=list)
    #: Networks whose passes kernels of our own take over.
    passes: list[FusedPass] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""
        return len(self.records)


Monitor = Callable[[TrainingState], None]


def train(
    objective: Objective,
    sweeps: Sequence[Batches],
    *,
    stage: str,
    recipe: Recipe,
    max_epochs: int,
    hardware: Hardware,
    seed: int,
    stopping: StoppingRule | None = None,
    monitors: Sequence[Monitor] = (),
    resume: Callable[[TrainingState], None] | None = None,
) -> list[Record]:
    """Minimise an objective over epochs of batches and return one record per epoch.

    Parameters
    ----------
    objective : Objective
    sweeps : sequence of Batches
        What makes an epoch: one sweep for most methods, several one after the other for some.
    stage : str
        Name of this stage in history, progress and checkpoints; also names its random stream.
    recipe : Recipe
    max_epochs : int
    hardware : Hardware
    seed : int
    stopping : StoppingRule, optional
    monitors : sequence of callables
        Called with the state after every epoch (progress, checkpoints).
    resume : callable, optional
        Brings a fresh state to where an interrupted run had stopped.
    """
    rule: StoppingRule = stopping if stopping is not None else FixedEpochs()
    generator = torch.Generator(device=hardware.device)
    state = TrainingState(stage, objective, recipe.build(objective, hardware), generator, max_epochs)
    if resume is not None:
        resume(state)
    runs: list[_Sweep] = []
    if not hardware.is_cuda:
        # Else the memory of every step goes back to the system, which hands it out again page by page.
        torch.empty(KEPT_BYTES, dtype=torch.uint8, device="cpu")
    objective.train()
    try:
        state.passes += fuse_passes(objective, sweeps, state.optimizer, recipe, hardware)
        runs += [_Sweep(batches, state, recipe, hardware) for batches in sweeps]
        while state.epoch < max_epochs and not _is_over(rule, runs, state):
            generator.manual_seed(derive_seed(seed, stage, "noise", state.epoch))
            state.records.append(_epoch(runs, state, recipe))
            _refuse_divergence(state)
            for monitor in monitors:
                monitor(state)
        objective.on_end(state)
    finally:
        for run in runs:
            run.close()
        for taken in state.passes:
            taken.close()
        state.optimizer.zero_grad()  # gradients of a captured step would hold on to its memory
        objective.eval()
    return state.records


def _epoch(runs: Sequence[_Sweep], state: TrainingState, recipe: Recipe) -> Record:
    started = time.perf_counter()
    epoch = state.epoch
    state.optimizer.set_rate(recipe.rate(epoch))
    state.objective.on_epoch_start(epoch, state)
    for run in runs:
        run.run(epoch)
    means = {name: mean for run in runs for name, mean in run.means().items()}
    seconds = time.perf_counter() - started
    return {
        "stage": state.stage,
        "epoch": epoch,
        "loss": sum(means.values()),
        **means,
        "seconds": seconds,
    }


class Step(Protocol):
    """What is repeated: reads its batch from fixed buffers and updates the parameters in place."""

    #: How many to put into one CUDA graph at most; few where they have many kernels: capturing takes time.
    steps_per_graph: int

    def start_epoch(self, generator: torch.Generator) -> None:
        """Get ready for an epoch whose noise comes from ``generator``."""
        ...

    def __call__(self) -> None:
        """Do one step and tell the host nothing."""
        ...

    def means(self) -> dict[str, float]:
        """Mean of every term over the steps of the epoch; here the host waits."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class _Sweep:
    """Runs the steps of an epoch over one kind of batches, captured as a CUDA graph where possible."""

    def __init__(self, batches: Batches, state: TrainingState, recipe: Recipe, hardware: Hardware) -> None:
        self._batches, self._generator, self._hardware = batches, state.generator, hardware
        fused = state.objective.fused_step(state.optimizer, batches, recipe, hardware)
        self._step: Step = fused or _AutogradStep(batches, state, recipe, hardware)
        self._objective = state.objective
        self._captured: CapturedStep | None = None
        self._value: Callable[[], Tensor] = partial(_whole, state.objective, batches, hardware)
        if hardware.is_cuda and not hardware.is_shared and batches.rows.is_resident:
            self._captured = CapturedStep(self._step, state.generator, self._step.steps_per_graph)
            if batches.n_sweep_blocks <= CAPTURED_BLOCKS:
                self._value = CapturedValue(self._value, hardware.device)

    def run(self, epoch: int) -> None:
        """Run the steps of an epoch, without waiting for them."""
        self._batches.start_epoch(epoch)
        self._step.start_epoch(self._generator)
        with self._hardware.matrix_products():
            if self._captured is not None:
                self._captured.run(self._batches.n_steps)
            else:
                for _ in range(self._batches.n_steps):
                    self._step()
        if self._hardware.is_cuda:
            self._batches.plan(epoch + 1)  # while the GPU is still busy with this one

    def means(self) -> dict[str, float]:
        """Mean of every term over the steps of the epoch; the one place where the host waits."""
        return self._step.means()

    def whole(self) -> float:
        """The objective over all pairs and all rows; the host waits."""
        self._objective.eval()
        value = float(self._value())
        self._objective.train()
        return value

    def close(self) -> None:
        """Give back what captures hold on the GPU."""
        if self._captured is not None:
            self._captured.discard()
        if isinstance(self._value, CapturedValue):
            self._value.discard()
        self._step.close()


class _AutogradStep:
    """Gather, forward, backward, clip, update; sums of the terms stay on the device."""

    # Capturing one takes as long as eight of them take on the GPU, and launching a graph next to nothing.
    steps_per_graph = 1

    def __init__(self, batches: Batches, state: TrainingState, recipe: Recipe, hardware: Hardware) -> None:
        self._passes = state.passes
        self._objective, self._batches, self._hardware = state.objective, batches, hardware
        self._optimizer, self._clip_norm = state.optimizer, recipe.clip_norm
        self._parameters = state.optimizer.parameters
        self._names: list[str] = []
        self._totals: Tensor | None = None
        self._n_done = 0

    def start_epoch(self, generator: torch.Generator) -> None:
        """Forget the sums of the epoch before."""
        self._n_done = 0
        if self._totals is not None:
            self._totals.zero_()

    def __call__(self) -> None:
        if self._hardware.device.type == "cpu" and self._n_done % STEPS_ABOVE_DENORMAL == 0:
            self._optimizer.forget_tiny()
        self._n_done += 1
        batch = self._batches.next()
        with self._hardware.autocast(), taking_over(self._passes):
            terms = self._objective.terms(batch)
        values = torch.stack([term.float() for term in terms.values()])
        self._optimizer.zero_grad()
        values.sum().backward()  # type: ignore[no-untyped-call]
        if self._clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self._optimizer.step()
        self._add(list(terms), values.detach())

    def means(self) -> dict[str, float]:
        """Mean of every term over the steps of the epoch."""
        if self._totals is None:
            return {}
        means = (self._totals / self._batches.n_steps).tolist()
        return dict(zip(self._names, means, strict=True))

    def close(self) -> None:
        """Nothing is held."""

    def _add(self, names: list[str], values: Tensor) -> None:
        if self._totals is None:
            self._names, self._totals = names, torch.zeros_like(values)
        self._totals.add_(values)


def _is_over(rule: StoppingRule, runs: Sequence[_Sweep], state: TrainingState) -> bool:
    """Ask the rule, giving it what it wants to see."""
    if rule.watches not in (OBJECTIVE, LABELS):
        return rule.should_stop([r[rule.watches] if rule.watches in r else r["loss"] for r in state.records])
    if len(state.monitored) <= state.epoch:
        if rule.watches == LABELS:
            state.monitored.append(state.objective.changed_labels())
        else:
            state.monitored.append(sum(run.whole() for run in runs))
    return rule.should_stop(state.monitored)


@torch.no_grad()
def _whole(objective: Objective, batches: Batches, hardware: Hardware) -> Tensor:
    """The objective over all pairs and all rows, as it stands, without moving anything.

    Terms on pairs vanish where there are only rows and the other way round, so that the whole is the
    mean over the pairs plus the mean over the rows.
    """
    total = torch.zeros((), device=hardware.device)
    parts = []
    if batches.pairs_per_step > 0:
        parts.append((batches.sweep_pairs(), "pair_weight"))
    if batches.rows_per_step > 0:
        parts.append((batches.sweep_rows(), "row_weight"))
    for part, weights in parts:
        value, mass = torch.zeros_like(total), torch.zeros_like(total)
        for batch in part:
            with hardware.matrix_products(), hardware.autocast():
                terms = torch.stack([term.float() for term in objective.terms(batch).values()])
            weight = getattr(batch, weights).sum()
            value, mass = value + terms.sum() * weight, mass + weight
        total = total + value / mass.clamp(min=1e-12)
    return total


def _refuse_divergence(state: TrainingState) -> None:
    if not math.isfinite(state.records[-1]["loss"]):
        raise TrainingDivergedError(
            f"training diverged in epoch {state.epoch} of stage {state.stage!r}: the loss is "
            f"{state.records[-1]['loss']}; lower learning_rate or check the scale of the data."
        )

"""Training. Here is the one loop of the package: the only ``backward()`` and the only optimizer step.

A method supplies an :class:`Objective`, a module whose named terms sum up to the loss. The loop
asks for nothing else, so every method has the same history, progress, checkpoints and speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from spherepair.accel import accelerate
from spherepair.errors import TrainingDivergedError
from spherepair.training.batches import Batch, Batches
from spherepair.training.hardware import Hardware, derive_seed
from spherepair.training.optimization import (
    LABELS,
    OBJECTIVE,
    SGD,
    Adam,
    FixedEpochs,
    Optimizer,
    StoppingRule,
)

Record = dict[str, Any]


class Objective(nn.Module):
    """What a method optimizes: a module that holds its network and names the terms of its loss."""

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Prepare an epoch, for instance refresh a target distribution."""

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalars, already weighted; the loss is their sum.

        ``batch.part`` names the part of the epoch. Every step of a part has to run the same operations, since
        steps may be captured.
        """
        raise NotImplementedError

    def on_end(self, state: TrainingState) -> None:
        """Finish training, for instance leave the network with averaged weights."""

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """What is trained, with the factor by which each group's learning rate differs."""
        return [([p for p in self.parameters() if p.requires_grad], 1.0)]

    def changed_labels(self) -> float:
        """Share of the rows that changed their cluster since the last call.

        For methods that assign clusters while they train; others refuse rules that watch labels.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no clusters while it trains, so no rule can watch them; derive it "
            "from AssigningObjective or choose another stopping rule."
        )


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
        """The optimizer of what the objective trains."""
        groups = objective.parameter_groups()
        if self.optimizer == "sgd":
            return SGD(groups, hardware.device, momentum=self.momentum)
        return Adam(groups, hardware.device)


@dataclass(frozen=True)
class Plan:
    """What a stage of training does: minimize an objective over epochs of batches by a recipe.

    ``batches`` has one entry for most methods; an epoch of several runs through one after the other.
    """

    objective: Objective
    batches: tuple[Batches, ...]
    recipe: Recipe


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

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""
        return len(self.records)


Monitor = Callable[[TrainingState], None]


def train(
    plan: Plan,
    *,
    stage: str,
    max_epochs: int,
    hardware: Hardware,
    seed: int,
    stopping: StoppingRule | None = None,
    monitors: Sequence[Monitor] = (),
    resume: Callable[[TrainingState], None] | None = None,
) -> list[Record]:
    """Minimize an objective over epochs of batches and return one record per epoch.

    Parameters
    ----------
    plan : Plan
    stage : str
        Name of this stage in history, progress and checkpoints; also names its random stream.
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
    optimizer = plan.recipe.build(plan.objective, hardware)
    generator = torch.Generator(device=hardware.device)
    state = TrainingState(stage, plan.objective, optimizer, generator, max_epochs)
    if resume is not None:
        resume(state)
    with _epoch_parts(plan, state, hardware) as parts:
        while state.epoch < max_epochs and not _is_over(rule, parts, state):
            generator.manual_seed(derive_seed(seed, stage, "noise", state.epoch))
            state.records.append(_run_epoch(parts, state, plan.recipe))
            _refuse_divergence(state)
            for monitor in monitors:
                monitor(state)
        plan.objective.on_end(state)
    return state.records


class EpochPart(Protocol):
    """The steps of an epoch over one kind of batches."""

    def run(self, epoch: int) -> None:
        """Run the steps of an epoch."""
        ...

    def means(self) -> dict[str, float]:
        """Mean of every term over the steps of the epoch; the one place where the host waits for a GPU."""
        ...

    def full_objective(self) -> Tensor:
        """The objective over all pairs and all rows."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


@contextmanager
def _epoch_parts(plan: Plan, state: TrainingState, hardware: Hardware) -> Iterator[Sequence[EpochPart]]:
    """The parts of an epoch, accelerated where possible; afterwards nothing of them is left on the device."""
    parts: Sequence[EpochPart] = ()
    plan.objective.train()
    try:
        eager = [_EagerPart(batches, state, plan.recipe, hardware) for batches in plan.batches]
        fast = accelerate(eager, state, hardware=hardware, clip_norm=plan.recipe.clip_norm)
        parts = eager if fast is None else fast
        yield parts
    finally:
        for part in parts:
            part.close()
        state.optimizer.zero_grad()  # gradients of a captured step would hold on to its memory
        plan.objective.eval()


def _run_epoch(parts: Sequence[EpochPart], state: TrainingState, recipe: Recipe) -> Record:
    started = time.perf_counter()
    epoch = state.epoch
    state.optimizer.start_epoch(recipe.rate(epoch))
    state.objective.on_epoch_start(epoch, state)
    for part in parts:
        part.run(epoch)
    means = {name: mean for part in parts for name, mean in part.means().items()}
    seconds = time.perf_counter() - started
    return {
        "stage": state.stage,
        "epoch": epoch,
        "loss": sum(means.values()),
        **means,
        "seconds": seconds,
    }


class _EagerPart:
    """Gather, forward, backward, clip, update; sums of the terms stay on the device."""

    def __init__(self, batches: Batches, state: TrainingState, recipe: Recipe, hardware: Hardware) -> None:
        self.batches = batches
        self.terms: Callable[[Any], dict[str, Tensor]] = state.objective.terms
        self._objective, self._optimizer, self._hardware = state.objective, state.optimizer, hardware
        self._clip_norm = recipe.clip_norm
        self._names: list[str] = []
        self._totals: Tensor | None = None

    def run(self, epoch: int) -> None:
        self.batches.start_epoch(epoch)
        self.start_epoch()
        with self._hardware.matrix_products():
            for _ in range(self.batches.n_steps):
                self.step()

    def start_epoch(self) -> None:
        if self._totals is not None:
            self._totals.zero_()

    def step(self) -> None:
        batch = self.batches.next()
        with self._hardware.autocast():
            terms = self.terms(batch)
        values = torch.stack([term.float() for term in terms.values()])
        self._optimizer.zero_grad()
        values.sum().backward()  # type: ignore[no-untyped-call]
        if self._clip_norm is not None:
            self._optimizer.clip(self._clip_norm)
        self._optimizer.step()
        self._add(list(terms), values.detach())

    def means(self) -> dict[str, float]:
        if self._totals is None:
            return {}
        means = (self._totals / self.batches.n_steps).tolist()
        return dict(zip(self._names, means, strict=True))

    def full_objective(self) -> Tensor:
        return _full_objective(self._objective, self.batches, self._hardware)

    def close(self) -> None:
        pass

    def _add(self, names: list[str], values: Tensor) -> None:
        if self._totals is None:
            self._names, self._totals = names, torch.zeros_like(values)
        self._totals.add_(values)


def _is_over(rule: StoppingRule, parts: Sequence[EpochPart], state: TrainingState) -> bool:
    """Ask the rule, showing it what it watches."""
    if rule.watches not in (OBJECTIVE, LABELS):
        return rule.should_stop([r[rule.watches] if rule.watches in r else r["loss"] for r in state.records])
    if len(state.monitored) <= state.epoch:
        is_of_labels = rule.watches == LABELS
        state.monitored.append(state.objective.changed_labels() if is_of_labels else _evaluate(parts, state))
    return rule.should_stop(state.monitored)


def _evaluate(parts: Sequence[EpochPart], state: TrainingState) -> float:
    """The full objective of all parts; the host waits for a GPU."""
    state.objective.eval()
    value = sum(float(part.full_objective()) for part in parts)
    state.objective.train()
    return value


@torch.no_grad()
def _full_objective(objective: Objective, batches: Batches, hardware: Hardware) -> Tensor:
    """The objective over all pairs and all rows.

    Terms on pairs vanish where there are only rows and the other way round, so it is the mean over the pairs
    plus the mean over the rows.
    """
    total = torch.zeros((), device=hardware.device)
    parts = []
    if batches.pairs_per_step > 0:
        parts.append((batches.all_pairs(), "pair_weight"))
    if batches.rows_per_step > 0:
        parts.append((batches.all_rows(), "row_weight"))
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
    values = [state.records[-1]["loss"], *state.monitored[-1:]]
    if not all(map(math.isfinite, values)):
        raise TrainingDivergedError(
            f"training diverged in epoch {state.epoch} of stage {state.stage!r}: the loss is {values[0]}, "
            f"the full objective {values[-1]}; lower learning_rate or check the scale of the data."
        )

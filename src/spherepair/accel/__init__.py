"""Speed on a GPU: faster steps for a stage of training, where there are any.

captured   steps on resident rows become CUDA graphs, and so does the full objective
fused      denoising pretraining runs in kernels of our own, and so does the pass of a network through
           which rows go once in a step
compiled   the pure functions of an objective go through torch's compiler if training is long

The training engine asks :func:`accelerate` once per stage and is told ``None`` where it should run eagerly.
Networks, objectives and estimators know nothing of this package.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import Any, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor, nn

from spherepair.accel.capture import CapturedStep, CapturedValue
from spherepair.accel.layers import (
    TILE,
    Batches,
    Hardware,
    Link,
    Optimizer,
    UpdateRule,
    autoencoder_links,
    fit_kernels,
    is_denoising,
    links_of,
    single_passes,
    update_rule,
)
from spherepair.networks import MLP

__all__ = ["accelerate"]

logger = logging.getLogger(__name__)

#: The full objective is captured as well where it is evaluated in no more blocks than these.
CAPTURED_BLOCKS = 4
#: Steps of a training that are worth the ten seconds or more of torch's compiler.
WORTH_COMPILING = 50_000
#: Shapes for which a process may compile a function before torch refuses: every dataset has its own.
MOST_SHAPES = 256

P = ParamSpec("P")
T = TypeVar("T")
#: An object, the name of one of its attributes, and what stands in for that attribute.
StandIn = tuple[Any, str, Any]


class Training(Protocol):
    """A stage of training."""

    generator: torch.Generator
    max_epochs: int

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""
        ...

    @property
    def objective(self) -> Any:
        """A module with ``terms(batch)``."""
        ...

    @property
    def optimizer(self) -> Optimizer:
        """What moves the parameters."""
        ...


class Steps(Protocol):
    """Steps that can be captured, with the means of what they computed."""

    def start_epoch(self) -> None:
        """Get ready for the first step of an epoch."""
        ...

    def step(self) -> None:
        """Do one step without waiting for the device."""
        ...

    def means(self) -> dict[str, float]:
        """Mean of every term over the steps of the epoch; here the host waits."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class EpochPart(Steps, Protocol):
    """The eager steps of an epoch over one kind of batches."""

    #: What computes the terms of the loss; a faster equivalent may be set.
    terms: Callable[[Any], dict[str, Tensor]]

    @property
    def batches(self) -> Batches:
        """What the steps read."""
        ...

    def full_objective(self) -> Tensor:
        """The objective over all pairs and rows."""
        ...


def accelerate(
    parts: Sequence[EpochPart], training: Training, *, hardware: Hardware, clip_norm: float | None
) -> list[AcceleratedPart] | None:
    """Faster versions of the parts of an epoch; ``None`` where they should run eagerly.

    Parameters
    ----------
    parts : sequence of EpochPart
        Their ``terms`` may be replaced.
    training : Training
    hardware : Hardware
    clip_norm : float or None
        Norm to which gradients are clipped.
    """
    if not hardware.is_cuda or not all(part.batches.rows.is_resident for part in parts):
        return None
    rule = update_rule(training.optimizer)
    if hardware.precision != "mixed" or clip_norm is not None or len(training.optimizer.groups) > 1:
        rule = None  # no kernels of our own for these
    fused = [_fused_denoising(part.batches, training, rule) for part in parts]
    if all(steps is None for steps in fused):
        _hasten_terms(parts, training, hardware, rule)
    return [
        AcceleratedPart(part, steps, training.generator, hardware)
        for part, steps in zip(parts, fused, strict=True)
    ]


class AcceleratedPart:
    """One part of an epoch whose steps run as CUDA graphs.

    Parameters
    ----------
    part : EpochPart
    fused : FusedDenoising or None
        Steps that replace those of the part.
    generator : torch.Generator
        Of the noise inside the steps.
    hardware : Hardware
    """

    def __init__(
        self, part: EpochPart, fused: Any | None, generator: torch.Generator, hardware: Hardware
    ) -> None:
        self._part, self._hardware, self._batches = part, hardware, part.batches
        self._steps: Steps = part if fused is None else fused
        # Capturing an eager step takes as long as running eight of them; launching a graph takes no time.
        steps_per_graph = 1 if fused is None else fused.steps_per_graph
        self._captured = CapturedStep(self._steps.step, generator, steps_per_graph)
        self._value: CapturedValue | None = None
        if self._batches.n_blocks <= CAPTURED_BLOCKS:
            self._value = CapturedValue(part.full_objective, hardware.device)

    def run(self, epoch: int) -> None:
        """Run the steps of an epoch without waiting for them."""
        self._batches.start_epoch(epoch)
        self._steps.start_epoch()
        with self._hardware.matrix_products():
            self._captured.run(self._batches.n_steps)
        self._batches.plan(epoch + 1)  # while the GPU is still busy

    def means(self) -> dict[str, float]:
        """Mean of every term over the steps of the epoch; here the host waits."""
        return self._steps.means()

    def full_objective(self) -> Tensor:
        """The objective over all pairs and rows."""
        return self._part.full_objective() if self._value is None else self._value()

    def close(self) -> None:
        """Free what graphs and kernels hold on the GPU."""
        self._captured.discard()
        if self._value is not None:
            self._value.discard()
        self._steps.close()
        if isinstance(self._part.terms, _FastTerms):
            self._part.terms.close()


def _fused_denoising(batches: Batches, training: Training, rule: UpdateRule | None) -> Any | None:
    """Steps of denoising in few kernels, where objective, network and batches allow that."""
    objective = training.objective
    whole_tiles = batches.rows_per_step % TILE == 0 and batches.pairs_per_step == 0
    if rule is None or not whole_tiles or not is_denoising(objective):
        return None
    links = autoencoder_links(objective.network, objective.hidden_dropout)
    if links is None or not _have_kernels(links, training.optimizer):
        return None
    try:
        from spherepair.accel.fused import FusedDenoising

        return FusedDenoising(
            links,
            training.optimizer,
            rule,
            batches,
            generator=training.generator,
            factor=objective.factor,
            corruption=objective.corruption,
            dropout=objective.hidden_dropout,
        )
    except Exception as error:  # Triton raises what its compilers raise
        logger.info("the fused step cannot be compiled here (%s); using autograd", error)
        return None


def _have_kernels(links: Sequence[Link], optimizer: Optimizer) -> bool:
    return fit_kernels(links, optimizer) and find_spec("triton") is not None


def _hasten_terms(
    parts: Sequence[EpochPart], training: Training, hardware: Hardware, rule: UpdateRule | None
) -> None:
    """Let fused passes and compiled functions stand in while the parts compute their terms."""
    stand_ins = _compiled_functions(parts, training)
    if rule is not None:
        stand_ins += _fused_passes(parts, training, hardware, rule)
    if stand_ins:
        terms = _FastTerms(training.objective, stand_ins)
        for part in parts:
            part.terms = terms


class _FastTerms:
    """The terms of an objective, computed with stand-ins that are gone again after every call.

    So what a callback does with the network between two steps takes the ordinary way, and the network can be
    copied.
    """

    def __init__(self, objective: Any, stand_ins: list[StandIn]) -> None:
        self._objective, self.stand_ins = objective, stand_ins

    def __call__(self, batch: Any) -> dict[str, Tensor]:
        with _standing_in(self.stand_ins):
            terms: dict[str, Tensor] = self._objective.terms(batch)
        return terms

    def close(self) -> None:
        """Free what fused passes hold; once for all parts that share these terms."""
        while self.stand_ins:
            getattr(self.stand_ins.pop()[2], "close", lambda: None)()


@contextmanager
def _standing_in(stand_ins: Sequence[StandIn]) -> Iterator[None]:
    """Set attributes of instances for a while; attributes of their classes come back by themselves."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in stand_ins]
    for owner, name, value in stand_ins:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            delattr(owner, name) if value is None else setattr(owner, name, value)


def _fused_passes(
    parts: Sequence[EpochPart], training: Training, hardware: Hardware, rule: UpdateRule
) -> list[StandIn]:
    """Fused passes for the networks through which no step passes twice."""
    chains = {
        network: links
        for network in training.objective.modules()
        if type(network) is MLP
        and (links := links_of(network)) is not None
        and links[-1].activation == "linear"
        and _have_kernels(links, training.optimizer)
    }
    passes = [_single_passes(list(chains), part, training, hardware) for part in parts] if chains else []
    chains = {
        network: links
        for network, links in chains.items()
        if all(network in found for found in passes) and any(found[network] for found in passes)
    }
    n_rows = sorted({2 * part.batches.pairs_per_step + part.batches.rows_per_step for part in parts})
    fused: list[StandIn] = []
    for network, links in chains.items():
        try:
            from spherepair.accel.fused import FusedPass

            fused.append((network, "forward", FusedPass(links, training.optimizer, rule, n_rows)))
        except Exception as error:  # Triton raises what its compilers raise
            logger.info("the pass cannot be fused here (%s); using autograd", error)
    return fused


def _single_passes(
    networks: Sequence[nn.Module], part: EpochPart, training: Training, hardware: Hardware
) -> dict[nn.Module, int]:
    # Not on the epoch that comes first: that one must be planned after the objective has prepared it.
    part.batches.start_epoch(training.epoch + 1)
    return single_passes(networks, training.objective, part.batches.next(), hardware)


def _compiled_functions(parts: Sequence[EpochPart], training: Training) -> list[StandIn]:
    """The ``pure_functions`` of an objective, a named tuple, compiled if training is long."""
    functions = getattr(training.objective, "pure_functions", None)
    n_steps = training.max_epochs * sum(part.batches.n_steps for part in parts)
    if functions is None or n_steps < WORTH_COMPILING:
        return []
    return [(training.objective, "pure_functions", type(functions)(*map(compiled, functions)))]


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """The function in few kernels; the function itself where it cannot be compiled.

    A loss on a hundred rows is dozens of operations of a few microseconds each, which a GPU spends on
    starting kernels. The compiled function can be captured in a CUDA graph like any other.

    Parameters
    ----------
    function : callable
        Of tensors whose shapes stay the same.
    """
    used: Callable[P, T] = torch.compile(function, fullgraph=True, dynamic=False)
    settings = torch._dynamo.config
    limit = "recompile_limit" if hasattr(settings, "recompile_limit") else "cache_size_limit"

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal used
        try:
            with warnings.catch_warnings(), settings.patch({limit: MOST_SHAPES}):
                warnings.simplefilter("ignore")  # the compiler's own, about how it looks at tensors
                return used(*args, **kwargs)
        except Exception as error:  # its compilers raise what they raise
            if used is function:
                raise
            logger.info("%s cannot be compiled here (%s); running it as it is", function, error)
            used = function
            return function(*args, **kwargs)

    return call

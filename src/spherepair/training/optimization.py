"""Optimizers (Adam, SGD) and stopping rules.

The optimizers call torch's functional kernels and keep their state as plain tensors:
``torch.optim.Optimizer`` loads torch's compiler when the first one is made, which takes seconds in every
process. Its functional forms do the same arithmetic without that.

A stopping rule is a pure function of the history. So an interrupted fit stops at the same epoch after it is
resumed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from spherepair.errors import InvalidParameterError, quoted
from spherepair.settings import Kind, Number, require
from spherepair.validation import LARGEST_COUNT

#: Moments below this are as good as zero.
TINY = 1e-25
#: A moment that falls by a tenth in each step does not become denormal from there in this many steps.
STEPS_ABOVE_DENORMAL = 256


#: What a rule may watch instead of a term of the history: the full objective over all pairs and rows at the
#: start of each epoch.
OBJECTIVE = "objective"
#: Likewise the share of rows that changed their cluster since the start of the epoch before.
LABELS = "labels"
#: What the settings of a rule may be.
EPOCHS = Number(0, LARGEST_COUNT, whole=True)
COUNT = Number(1, LARGEST_COUNT, whole=True)
SHARE, NAME = Number(0, sys.float_info.max), Kind(str)


@dataclass
class Group:
    """Parameters that share a learning rate: that of the recipe times ``factor``.

    On a GPU the rate is a tensor, so that a captured step reads the present one.
    """

    parameters: list[nn.Parameter]
    factor: float
    rate: float | Tensor


class Optimizer:
    """What both optimizers share: groups, rates, and a state with one tensor per name and parameter.

    Parameters
    ----------
    groups : sequence of (parameters, factor)
    device : torch.device
    """

    #: Names of the moments of every parameter.
    moment_names: tuple[str, ...] = ()

    def __init__(self, groups: Sequence[tuple[list[nn.Parameter], float]], device: torch.device) -> None:
        self.fused = device.type in ("cpu", "cuda")
        self.is_cuda = device.type == "cuda"
        self._flushes_denormals = device.type == "cpu"
        self._n_steps = 0
        self.groups = [
            Group(parameters, factor, torch.zeros((), device=device) if self.is_cuda else 0.0)
            for parameters, factor in groups
        ]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {p: self._fresh(p) for p in self.parameters}
        self._are_alike = len({(p.device, p.dtype) for p in self.parameters}) == 1

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All parameters in order."""
        return [p for group in self.groups for p in group.parameters]

    def start_epoch(self, rate: float) -> None:
        """Set the learning rate of all groups for an epoch."""
        self._n_steps = 0
        for group in self.groups:
            if isinstance(group.rate, Tensor):
                group.rate.fill_(rate * group.factor)
            else:
                group.rate = rate * group.factor

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def clip(self, most: float) -> None:
        """Shorten the gradient to a length of at most ``most``.

        As :func:`torch.nn.utils.clip_grad_norm_` does, which sorts the gradients by device and type in every
        step; that takes longer than to clip them.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if gradients:
            length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            torch._foreach_mul_(gradients, (most / (length + 1e-6)).clamp_(max=1.0))

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        if self._flushes_denormals and self._n_steps % STEPS_ABOVE_DENORMAL == 0:
            self.flush_denormals()
        self._n_steps += 1
        for group in self.groups:
            moving = [p for p in group.parameters if p.grad is not None]
            if moving:
                self._move(moving, group.rate)

    @torch.no_grad()
    def flush_denormals(self) -> None:
        """Set moments to zero before they become denormal.

        The moments of a unit that no row activates any more halve every few steps until they are denormal
        numbers, with which a CPU computes far more slowly.
        """
        for parameter in self.parameters:
            for name in self.moment_names:
                moment = self.state[parameter][name]
                moment.masked_fill_(moment.abs() < TINY, 0.0)

    def tensors(self) -> dict[str, Tensor]:
        """The state by name, for checkpoints."""
        return {
            f"{position}.{name}": tensor
            for position, parameter in enumerate(self.parameters)
            for name, tensor in self.state[parameter].items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Set the state from a checkpoint."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    def _fresh(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        return {name: torch.zeros_like(parameter, requires_grad=False) for name in self.moment_names}

    def _moments(self, parameters: list[nn.Parameter], name: str) -> list[Tensor]:
        return [self.state[p][name] for p in parameters]

    def _move(self, parameters: list[nn.Parameter], rate: float | Tensor) -> None:
        """One step of these parameters along their gradients; each optimizer has its own."""
        raise NotImplementedError


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015) with the usual constants."""

    betas = (0.9, 0.999)
    eps = 1e-8
    moment_names = ("exp_avg", "exp_avg_sq")

    def _fresh(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        # fused and captured kernels need the step count on the device of the parameter
        device = parameter.device if self.is_cuda else torch.device("cpu")
        return super()._fresh(parameter) | {"step": torch.zeros((), device=device)}

    def _move(self, parameters: list[nn.Parameter], rate: float | Tensor) -> None:
        options: dict[str, Any] = {
            "amsgrad": False,
            "beta1": self.betas[0],
            "beta2": self.betas[1],
            "lr": rate,
            "weight_decay": 0.0,
            "eps": self.eps,
            "maximize": False,
        }
        moving: list[Tensor] = list(parameters)
        no_largest: list[Tensor] = []
        given = (
            moving,
            [p.grad for p in parameters if p.grad is not None],
            self._moments(parameters, "exp_avg"),
            self._moments(parameters, "exp_avg_sq"),
            no_largest,
            self._moments(parameters, "step"),
        )
        if self.fused and self._are_alike:
            # What `adam` ends in, which first sorts tensors by device and type; that takes as long again.
            torch._foreach_add_(given[-1], 1)
            torch._fused_adam_(*given, **options)
        else:
            adam(*given, fused=self.fused, capturable=self.is_cuda, **options)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    def __init__(
        self,
        groups: Sequence[tuple[list[nn.Parameter], float]],
        device: torch.device,
        *,
        momentum: float = 0.0,
    ) -> None:
        self.momentum = momentum
        self.moment_names = ("momentum",) if momentum > 0.0 else ()
        super().__init__(groups, device)

    def _move(self, parameters: list[nn.Parameter], rate: float | Tensor) -> None:
        nothing: list[Tensor | None] = [None] * len(parameters)
        sgd(
            list(parameters),
            [p.grad for p in parameters if p.grad is not None],
            list(self._moments(parameters, "momentum")) if self.momentum > 0.0 else nothing,
            fused=self.fused,
            weight_decay=0.0,
            momentum=self.momentum,
            lr=rate,  # type: ignore[arg-type]
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


@runtime_checkable
class StoppingRule(Protocol):
    """Decides, before every epoch, whether training is over.

    ``watches`` names the value of every epoch that the rule is given: ``"loss"`` or a term of it such as
    ``"pairs"``, both means over the steps, or :data:`OBJECTIVE` or :data:`LABELS`.
    """

    @property
    def watches(self) -> str:
        """Name of the value."""
        ...

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether to stop, given one value per epoch, oldest first."""
        ...


@dataclass(frozen=True)
class SettledRule:
    """Our default: stop once the loss of the pairs stays close to zero.

    The mean loss of the pairs falls by orders of magnitude while the network learns them and then stays close
    to zero, apart from spikes that spoil the embedding for some epochs. Training stops after ``patience``
    epochs in a row below ``settled``, so never in a spike; or, where pairs cannot all be satisfied (noise,
    contradictions), when the best epoch is ``stale`` epochs old.
    """

    min_epochs: int = 40
    settled: float = 1e-3
    patience: int = 3
    stale: int = 40
    watches: str = "pairs"

    def __post_init__(self) -> None:
        require(self, min_epochs=EPOCHS, settled=SHARE, patience=COUNT, stale=COUNT, watches=NAME)

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether the last epochs are settled or the best one is too old."""
        if len(values) < max(1, self.min_epochs):
            return False
        is_settled = max(values[-self.patience :]) < self.settled
        is_stale = len(values) - 1 - int(np.argmin(values)) >= self.stale
        return is_settled or is_stale


@dataclass(frozen=True)
class PaperRule:
    """The rule as printed: relative change below 0.1 in five epochs running, after epoch 100."""

    min_epochs: int = 100
    tolerance: float = 0.1
    patience: int = 5
    watches: str = OBJECTIVE

    def __post_init__(self) -> None:
        require(self, min_epochs=EPOCHS, tolerance=SHARE, patience=COUNT, watches=NAME)

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether the last ``patience`` relative changes are all small."""
        if len(values) <= max(self.min_epochs, self.patience):
            return False
        recent = np.asarray(values[-self.patience - 1 :])
        changes = np.abs(np.diff(recent)) / np.maximum(np.abs(recent[:-1]), np.finfo(float).tiny)
        return bool((changes < self.tolerance).all())


@dataclass(frozen=True)
class ReleasedCodeRule:
    """The rule of the authors' published code: stop at the first new minimum after epoch 100."""

    min_epochs: int = 100
    watches: str = OBJECTIVE

    def __post_init__(self) -> None:
        require(self, min_epochs=EPOCHS, watches=NAME)

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether the newest loss is strictly the lowest so far."""
        if len(values) <= self.min_epochs + 1:
            return False
        return values[-1] < min(values[:-1])


@dataclass(frozen=True)
class StableLabels:
    """Stop once hardly any row changes its cluster; for methods that assign clusters while they train."""

    # Differs from the paper: it compares soft assignments, over two epochs, without a minimum. The authors'
    # code compares labels (after matching, for VanillaDCC and VolMaxDCC), once, after epoch 10.
    min_epochs: int = 10
    tolerance: float = 0.001
    watches: str = LABELS

    def __post_init__(self) -> None:
        require(self, min_epochs=EPOCHS, tolerance=SHARE, watches=NAME)

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether the newest share of changed rows is below ``tolerance``."""
        return len(values) > self.min_epochs + 1 and values[-1] < self.tolerance


@dataclass(frozen=True)
class FixedEpochs:
    """Never stop early: run ``max_epochs``."""

    watches: str = "loss"

    def __post_init__(self) -> None:
        require(self, watches=NAME)

    def should_stop(self, values: Sequence[float]) -> bool:
        """Never."""
        return False


RULES: dict[str, type[StoppingRule]] = {
    "settled": SettledRule,
    "paper": PaperRule,
    "released-code": ReleasedCodeRule,
    "stable-labels": StableLabels,
    "fixed": FixedEpochs,
}


def resolve_stopping(stopping: str | StoppingRule) -> StoppingRule:
    """A rule by name, or the rule itself.

    Examples
    --------
    >>> resolve_stopping("paper")
    PaperRule(min_epochs=100, tolerance=0.1, patience=5, watches='objective')
    """
    if isinstance(stopping, str):
        if stopping not in RULES:
            names = ", ".join(repr(name) for name in RULES)
            raise InvalidParameterError(
                f"stopping must be one of {names} or a StoppingRule, got {quoted(stopping)} instead."
            )
        return RULES[stopping]()
    if not isinstance(stopping, StoppingRule):
        raise InvalidParameterError(
            f"stopping must be a name or a StoppingRule, got {type(stopping).__name__} instead."
        )
    return stopping

"""Adam and SGD over torch's functional kernels, with a state that is plain tensors.

``torch.optim.Optimizer`` loads torch's compiler when the first one is made, which takes seconds in every
new process and is of no use here; its functional forms, which do the same arithmetic, do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

#: What is remembered of a parameter is as good as zero below this.
TINY = 1e-25
#: Steps in which a moment that falls by a tenth each does not fall from there to a denormal number.
STEPS_ABOVE_DENORMAL = 256


@dataclass
class Group:
    """Parameters that share a learning rate: that of the recipe times ``factor``.

    On a GPU the rate is a tensor, so that a captured step reads the present one.
    """

    parameters: list[nn.Parameter]
    factor: float
    rate: float | Tensor


class Optimizer:
    """What all optimisers share: groups, rates, and a state with one tensor per name and parameter.

    Parameters
    ----------
    groups : sequence of (parameters, factor)
    device : torch.device
    """

    #: Names of what is remembered of every parameter.
    remembers: tuple[str, ...] = ()

    def __init__(self, groups: Sequence[tuple[list[nn.Parameter], float]], device: torch.device) -> None:
        self.fused = device.type in ("cpu", "cuda")
        self.is_cuda = device.type == "cuda"
        self.groups = [
            Group(parameters, factor, torch.zeros((), device=device) if self.is_cuda else 0.0)
            for parameters, factor in groups
        ]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {p: self._fresh(p) for p in self.parameters}

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All parameters in order."""
        return [p for group in self.groups for p in group.parameters]

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of all groups."""
        for group in self.groups:
            if isinstance(group.rate, Tensor):
                group.rate.fill_(rate * group.factor)
            else:
                group.rate = rate * group.factor

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.groups:
            moving = [p for p in group.parameters if p.grad is not None]
            if moving:
                self._move(moving, group.rate)

    @torch.no_grad()
    def forget_tiny(self) -> None:
        """Set to zero what is as good as zero.

        The moments of a unit that no row activates any more halve every few steps until they are denormal
        numbers, with which a processor computes far more slowly.
        """
        for parameter in self.parameters:
            for name in self.remembers:
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
        """Take the state from a checkpoint."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    def _fresh(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        return {name: torch.zeros_like(parameter, requires_grad=False) for name in self.remembers}

    def _remembered(self, parameters: list[nn.Parameter], name: str) -> list[Tensor]:
        return [self.state[p][name] for p in parameters]

    def _move(self, parameters: list[nn.Parameter], rate: float | Tensor) -> None:
        """One step of these parameters along their gradients; each optimiser has its own."""
        raise NotImplementedError


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015) with the usual constants."""

    betas = (0.9, 0.999)
    eps = 1e-8
    remembers = ("exp_avg", "exp_avg_sq")

    def _fresh(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        # fused and captured kernels want the count of steps on the device of the parameter
        device = parameter.device if self.is_cuda else torch.device("cpu")
        return super()._fresh(parameter) | {"step": torch.zeros((), device=device)}

    def _move(self, parameters: list[nn.Parameter], rate: float | Tensor) -> None:
        adam(
            list(parameters),
            [p.grad for p in parameters if p.grad is not None],
            self._remembered(parameters, "exp_avg"),
            self._remembered(parameters, "exp_avg_sq"),
            [],
            self._remembered(parameters, "step"),
            fused=self.fused,
            capturable=self.is_cuda,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=rate,
            weight_decay=0.0,
            eps=self.eps,
            maximize=False,
        )


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
        self.remembers = ("momentum",) if momentum > 0.0 else ()
        super().__init__(groups, device)

    def _move(self, parameters: list[nn.Parameter], rate: float | Tensor) -> None:
        nothing: list[Tensor | None] = [None] * len(parameters)
        sgd(
            list(parameters),
            [p.grad for p in parameters if p.grad is not None],
            list(self._remembered(parameters, "momentum")) if self.momentum > 0.0 else nothing,
            fused=self.fused,
            weight_decay=0.0,
            momentum=self.momentum,
            lr=rate,  # type: ignore[arg-type]
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

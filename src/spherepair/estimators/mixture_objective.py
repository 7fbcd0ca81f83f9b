"""The evidence bound that DCGMM trains, with the noise of its draws.

Beside the passes of the network a step is many small operations. They are three functions, so that torch's
compiler can take them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from spherepair.estimators.assigning import AssigningObjective
from spherepair.losses.mixture import mixture_divergence, mixture_pair_loss, row_error
from spherepair.losses.pair_likelihood import weighted_mean
from spherepair.networks.mixture import MixtureVAE, mean_and_log_variance, precisions
from spherepair.training.engine import TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource


class Functions(NamedTuple):
    """To draw embeddings, to bound the evidence, to see how far pairs agree."""

    draw: Any
    bound: Any
    agree: Any


class MixtureObjective(AssigningObjective):
    """An objective with the evidence bound of any rows.

    Parameters
    ----------
    network : MixtureVAE
    rows : RowSource
    hardware : Hardware
    functions : Functions
        Compiled or not, to train with.
    """

    passes_once = True

    def __init__(
        self, network: MixtureVAE, rows: RowSource, hardware: Hardware, *, functions: Functions
    ) -> None:
        super().__init__(network, rows, hardware)
        self._functions = functions
        self._is_bernoulli = bool(network.is_bernoulli)
        self._generator: torch.Generator | None = None

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Take the noise of this epoch."""
        self._generator = state.generator

    @property
    def functions(self) -> Functions:
        """Not the compiled ones while the network is evaluated."""
        return self._functions if self.training else FUNCTIONS

    def bound(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Reconstruction error and divergence, each a weighted mean, and the responsibilities as logits."""
        functions = self.functions
        target = x / self.network.ceiling
        answer = self.network.answer(target)
        z = functions.draw(answer, self._noise(answer))
        prior = {"centers": self.network.centers, "log_variances": self.network.log_variances}
        found: tuple[Tensor, Tensor, Tensor] = functions.bound(
            z, answer, self.network.decode(z), target, weight, is_bernoulli=self._is_bernoulli, **prior
        )
        return found

    def _noise(self, answer: Tensor) -> Tensor:
        """Standard normal; none while the network is evaluated."""
        noise = answer.new_empty(len(answer), answer.shape[1] // 2)
        return noise.normal_(generator=self._generator) if self.training else noise.zero_()


def _draw(answer: Tensor, noise: Tensor) -> Tensor:
    """Embeddings drawn from the encoder's answer."""
    mean, log_variance = mean_and_log_variance(answer)
    return mean + (0.5 * log_variance).exp() * noise


def _bound(
    z: Tensor,
    answer: Tensor,
    decoded: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    centers: Tensor,
    log_variances: Tensor,
    is_bernoulli: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same from what the network has answered; ``z`` are drawn, ``decoded`` made of them."""
    error = row_error(decoded, target, weight=weight, is_bernoulli=is_bernoulli)
    logits, divergence = mixture_divergence(
        z, *mean_and_log_variance(answer), centers=centers, precisions=precisions(log_variances)
    )
    return error, weighted_mean(divergence, weight), logits


FUNCTIONS = Functions(_draw, _bound, mixture_pair_loss)

"""Modules that judge the answers during training: to end it early, or to change the weights of the pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spherepair.clustering.answer_errors import Judge
from spherepair.terms import SemiSupervisedObjective
from spherepair.training.optimization import StoppingRule

#: Epochs between two judgments while the network is trained again.
JUDGED_EVERY = 2
#: Share of what the neighbors said before in what they say now: one judgment alone wavers.
MEMORY = 0.5


class Look(nn.Module):
    """Looks at the answers during the first training, which end it where some are wrong.

    A stopping rule as well; a module, so that checkpoints contain what it has found.

    Parameters
    ----------
    rule : StoppingRule
        When to stop otherwise.
    every : int
        Epochs between two looks.
    is_wrong : callable
        Whether some answers are wrong, given an objective that embeds the rows that are asked, and the number
        of the look.
    """

    has_ended: Tensor

    def __init__(
        self, rule: StoppingRule, every: int, is_wrong: Callable[[SemiSupervisedObjective, int], bool]
    ) -> None:
        super().__init__()
        self._rule, self._every, self._is_wrong = rule, every, is_wrong
        self.watches = rule.watches
        self.register_buffer("has_ended", torch.zeros((), dtype=torch.bool))

    def forward(self, objective: SemiSupervisedObjective, epoch: int) -> None:
        """Look, if it is time to."""
        if epoch > 0 and epoch % self._every == 0:
            self.has_ended.fill_(self._is_wrong(objective, epoch // self._every))

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether answers are wrong, or the rule says so."""
        return bool(self.has_ended) or self._rule.should_stop(values)


class Reweighing(nn.Module):
    """Judges the answers anew every few epochs; a module, so that checkpoints contain what it has found.

    Parameters
    ----------
    judge : Judge
    same : ndarray of shape (n_pairs,)
        What the neighbors have said so far.
    worth : ndarray of shape (n_pairs,)
        What each answer is worth; overwritten.
    max_epochs : int
        Of the training; must-links that are less sure are trained on later.
    ask : callable
        What the neighbors say of each pair, (n_pairs,), by embeddings (n, D) of these at an epoch.
    weigh : callable
        Lets an objective train on what the answers are worth now.
    """

    same: Tensor
    worth: Tensor

    def __init__(
        self,
        judge: Judge,
        same: NDArray[np.float64],
        worth: NDArray[np.float32],
        *,
        max_epochs: int,
        ask: Callable[[Tensor, int], NDArray[np.float64]],
        weigh: Callable[[SemiSupervisedObjective], None],
    ) -> None:
        super().__init__()
        self._judge, self._ask, self._weigh = judge, ask, weigh
        self._max_epochs = max_epochs
        self.register_buffer("same", torch.tensor(same))
        self.register_buffer("worth", torch.from_numpy(worth))  # the same memory
        self._is_resumed = True

    def forward(self, objective: SemiSupervisedObjective, epoch: int) -> None:
        """Judge, if it is time to."""
        is_due = epoch > 0 and epoch % JUDGED_EVERY == 0
        if is_due:
            z = objective.embed(torch.from_numpy(self._judge.asked))
            found = torch.from_numpy(self._ask(z, epoch))
            self.same.mul_(MEMORY).add_(found, alpha=1.0 - MEMORY)
            worth = self._judge.worth(self.same.numpy(), epoch / self._max_epochs)
            self.worth.copy_(torch.from_numpy(worth))
        if is_due or self._is_resumed:
            self._weigh(objective)
        self._is_resumed = False

"""When to stop training on pairs: small named rules, each a pure function of the history.

Because a rule reads only the history, an interrupted fit that goes on stops at the same epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from spherepair.errors import InvalidParameterError

#: Instead of a term of the history: the full objective at the start of each epoch, a pass over all
#: pairs and rows.
OBJECTIVE = "objective"
#: Likewise: the share of rows that changed their cluster since the start of the epoch before.
LABELS = "labels"


@runtime_checkable
class StoppingRule(Protocol):
    """Decides, before every epoch, whether training is over.

    ``watches`` names what the rule wants to see of every epoch: ``"loss"`` or a term of it such as
    ``"pairs"``, both means over the steps, or :data:`OBJECTIVE` or :data:`LABELS`.
    """

    @property
    def watches(self) -> str:
        """What to be shown."""
        ...

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether to stop, given one value per epoch, oldest first."""
        ...


@dataclass(frozen=True)
class SettledRule:
    """Our default: stop once the pairs have nothing more to say.

    The mean loss of the pairs falls by orders of magnitude while the network learns them and is then
    as good as zero, now and then interrupted by a spike that spoils the embedding for some epochs.
    Training is over after ``patience`` epochs in a row below ``settled`` (never in a spike); or, where
    pairs cannot all be satisfied (noise, contradictions), when the best epoch lies ``stale`` behind.
    """

    min_epochs: int = 40
    settled: float = 1e-3
    patience: int = 3
    stale: int = 40
    watches: str = "pairs"

    def should_stop(self, values: Sequence[float]) -> bool:
        """Look at the last epochs, and at how far back the best one lies."""
        if len(values) < self.min_epochs:
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

    def should_stop(self, values: Sequence[float]) -> bool:
        """Look at the last ``patience`` relative changes."""
        if len(values) <= max(self.min_epochs, self.patience):
            return False
        recent = np.asarray(values[-self.patience - 1 :])
        changes = np.abs(np.diff(recent)) / np.maximum(np.abs(recent[:-1]), np.finfo(float).tiny)
        return bool((changes < self.tolerance).all())


@dataclass(frozen=True)
class ReleasedCodeRule:
    """What the authors' published code does: stop at the first new minimum after epoch 100."""

    min_epochs: int = 100
    watches: str = OBJECTIVE

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether the newest loss is strictly the lowest so far."""
        if len(values) <= self.min_epochs + 1:
            return False
        return values[-1] < min(values[:-1])


@dataclass(frozen=True)
class StableLabels:
    """Stop once hardly any row changes its cluster: the rule of methods that assign while they train."""

    # Differs from the paper: it has soft assignments, over two epochs, without a minimum; in the authors'
    # code labels (those of VanillaDCC and VolMaxDCC after matching) settle it, once, after epoch 10.
    min_epochs: int = 10
    tolerance: float = 0.001
    watches: str = LABELS

    def should_stop(self, values: Sequence[float]) -> bool:
        """Whether the newest share of changed rows is below ``tolerance``."""
        return len(values) > self.min_epochs + 1 and values[-1] < self.tolerance


@dataclass(frozen=True)
class FixedEpochs:
    """Never stop early: run ``max_epochs``."""

    watches: str = "loss"

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
                f"stopping must be one of {names} or a StoppingRule, got {stopping!r} instead."
            )
        return RULES[stopping]()
    if not isinstance(stopping, StoppingRule):
        raise InvalidParameterError(
            f"stopping must be a name or a StoppingRule, got {type(stopping).__name__} instead."
        )
    return stopping

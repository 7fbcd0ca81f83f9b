"""What a training works with: rows, pairs, network and session; and which stage it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair import validation
from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.training.rows import RowSource, map_rows, open_rows
from spherepair.training.session import Session

#: A refinement makes its full effort, so many steps at the learning rate of a fit, from this share of wrong
#: new pairs on.
MUCH_WRONG, REFINE_STEPS = 1 / 3, 160
#: The smallest effort relative to the full one, and how often a refinement shows each pair at least.
MIN_EFFORT, MIN_REFINE_EPOCHS = 0.3, 4
#: Rows that are embedded to see whether a table is the one of the fit.
N_PROBED_ROWS = 256


@dataclass(frozen=True, eq=False)
class Refinement:
    """Where a refinement starts.

    Parameters
    ----------
    share_wrong : float
        Share of the new pairs that the present labels violate.
    centers : ndarray of shape (n_clusters, embedding_dim)
        Centers of the present clusters.
    """

    share_wrong: float
    centers: NDArray[np.float32]

    @property
    def effort(self) -> float:
        """Factor of steps and learning rate: 0.3 up to a tenth of wrong pairs, 1 from a third on.

        Examples
        --------
        >>> [round(Refinement(share, np.eye(2)).effort, 6) for share in (0.0, 0.2, 0.5)]
        [0.3, 0.6, 1.0]
        """
        return max(MIN_EFFORT, min(1.0, self.share_wrong / MUCH_WRONG))

    def enough_epochs(self, steps_per_epoch: int) -> int:
        """Epochs that make the steps of this effort and show every pair a few times.

        Examples
        --------
        >>> many = Refinement(0.5, np.eye(2))
        >>> many.enough_epochs(20), many.enough_epochs(4000)
        (8, 4)
        """
        return max(MIN_REFINE_EPOCHS, math.ceil(self.effort * REFINE_STEPS / steps_per_epoch))


@dataclass(frozen=True)
class Stage:
    """Which training this is.

    Parameters
    ----------
    name : str
        Name in history, progress and checkpoints; also names the random streams.
    refinement : Refinement, optional
        Given for a refinement; ``None`` for a fit.
    """

    name: str
    refinement: Refinement | None = None


FIT = Stage("pairs")
REFINING = "refining"


@dataclass(frozen=True)
class Job:
    """Everything one training works with."""

    rows: RowSource
    pairs: Constraints
    network: Any
    session: Session


def training_table(model: Any, X: Any) -> Any:
    """The table of the fit: the one the model holds, or ``X`` where some of its rows embed as they did."""
    if X is None:
        if model._table is None:
            raise InvalidDataError(
                "a loaded model needs the original rows in the same order: refine(constraints, X)."
            )
        return model._table
    table = validation.check_table(model, X, reset=False)
    if table.shape[0] != len(model.labels_):
        raise InvalidDataError(
            f"X has {table.shape[0]} rows, but the model was fitted on {len(model.labels_)}; refine needs "
            "the original rows in the same order."
        )
    probed = np.unique(np.linspace(0, table.shape[0] - 1, N_PROBED_ROWS).astype(np.int64))
    rows = open_rows(table[probed], model._scaling, model._hardware.device, keep=False)
    found = map_rows(lambda x: model._embed(model.network_, x), rows, model._hardware)
    moved = validation.first_moved_row(found, model.embedding_[probed])
    if moved is not None:
        raise InvalidDataError(
            f"row {int(probed[moved])} of X is not the row that the model was fitted on; refine needs the "
            "original rows in the same order."
        )
    return table

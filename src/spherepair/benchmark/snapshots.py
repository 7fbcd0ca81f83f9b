"""Where some rows lie on the sphere after each epoch on pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812

from spherepair.benchmark.store import Arrays
from spherepair.constraints import Constraints
from spherepair.training.engine import TrainingState
from spherepair.training.scaling import learn_scaling

#: Rows whose way is followed.
FOLLOWED_ROWS = 600


class Snapshots:
    """Follows some rows through a fit.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Classes, kept for colours.
    """

    def __init__(self, X: Any, y: NDArray[np.int64]) -> None:
        self._chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:FOLLOWED_ROWS])
        self._table, self._classes = X, y[self._chosen]
        self._frames: list[NDArray[np.float32]] = []

    def follow(self, model: Any) -> Callable[[TrainingState], None]:
        """The ``progress`` to give to an estimator before its fit."""
        scaling = learn_scaling(self._table, model.scaling)
        rows = torch.from_numpy(np.array(self._table[self._chosen], dtype=np.float32))

        @torch.no_grad()
        def look(state: TrainingState) -> None:
            network: Any = getattr(state.objective, "network", None)
            if state.stage.startswith("pretraining") or network is None:
                return
            device = next(network.parameters()).device
            embedded = network.encode(scaling.on(device)(rows.to(device))).float()
            self._frames.append(F.normalize(embedded, dim=-1, eps=1e-12).cpu().numpy())

        return look

    def arrays(self, pairs: Constraints, model: Any) -> Arrays:
        """Frames (n_epochs, n, D), the classes (n,), pairs among these rows, and the centres (K, D)."""
        place = np.full(len(model.labels_), -1)
        place[self._chosen] = np.arange(len(self._chosen))
        ends = place[np.stack([pairs.left, pairs.right])]
        is_shown = (ends >= 0).all(axis=0)
        return {
            "frames": np.stack(self._frames),
            "classes": self._classes,
            "left": ends[0, is_shown],
            "right": ends[1, is_shown],
            "is_must_link": pairs.is_must_link[is_shown],
            "centers": model.cluster_centers_,
        }

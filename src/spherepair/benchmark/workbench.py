"""The rows and pairs of a run; a data set stays in memory until another is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spherepair.benchmark.grid import PairChoice, RunSpec
from spherepair.constraints import Constraints
from spherepair.datasets import load_dataset
from spherepair.errors import SpherePairError

#: Sparse rows that take no more than this when dense are made dense: a GPU then holds them.
DENSE_BYTES = 4 * 2**30

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Training and test rows with their classes."""

    X_train: Any
    y_train: Labels
    X_test: Any
    y_test: Labels

    @property
    def n_classes(self) -> int:
        """Number of classes in the training part."""
        return len(np.unique(self.y_train))


class Shelf:
    """Holds the data set that was asked for last."""

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], Rows | SpherePairError] = {}

    def rows(self, spec: RunSpec) -> Rows:
        """The rows of a run. What cannot be loaded is not tried again for every run."""
        name = (spec.dataset, spec.classes)
        if name not in self._held:
            self._held.clear()  # the old one goes before the new one comes
            self._held[name] = _load(spec)
        found = self._held[name]
        if isinstance(found, SpherePairError):
            raise found
        return found


def draw_pairs(y: Labels, pairs: PairChoice, seed: int) -> Constraints:
    """The pairs of a run: the same for all methods, and each set within the next larger one.

    Examples
    --------
    >>> y = np.arange(60) % 3
    >>> [len(draw_pairs(y, PairChoice(20, level), seed=0)) for level in (0, 1, 2)]
    [20, 100, 200]
    """
    if pairs.level == 0:
        return Constraints.from_labels(y, pairs.n_pairs, random_state=seed)
    return Constraints.imbalanced(y, pairs.n_pairs, random_state=seed)[pairs.level]


def _load(spec: RunSpec) -> Rows | SpherePairError:
    try:
        data = load_dataset(spec.dataset, classes=spec.classes)
    except SpherePairError as error:
        return error
    return Rows(_dense(data.X_train), data.y_train, _dense(data.X_test), data.y_test)


def _dense(X: Any) -> Any:
    if sparse.issparse(X) and 4 * X.shape[0] * X.shape[1] <= DENSE_BYTES:
        return X.toarray().astype(np.float32, copy=False)
    return X

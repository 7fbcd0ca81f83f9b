"""Cross-validation with pairs: pairs that follow their rows into the folds, and folds that respect pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Generic

import numpy as np

from spherepair.constraints.graph import build_graph
from spherepair.constraints.pair_arrays import IndexArray, PairArrays, Pairs, check_range, invalid, locate_in

#: Groups of more than this share of a fold are cut: every fold needs rows of all clusters.
LARGEST_SHARE = 0.1


class RowPairs(Generic[Pairs]):
    """Pairs beside the rows of a table: scikit-learn divides them as it divides the rows.

    ``Constraints.for_rows`` makes it, and ``fit`` and ``score`` take it. Pairs of which one row is in another
    fold are left out.

    Parameters
    ----------
    constraints : Constraints
    n_rows : int
        Number of rows of the table.

    Examples
    --------
    >>> from spherepair import Constraints
    >>> pairs = Constraints.from_pairs(must_link=[(0, 2)], cannot_link=[(1, 3)])
    >>> fold = pairs.for_rows(4)[[2, 0, 1]]
    >>> fold.constraints.left.tolist(), fold.constraints.right.tolist()
    ([1], [0])
    """

    def __init__(self, constraints: Pairs, n_rows: int) -> None:
        check_range(constraints.left, constraints.right, locate=locate_in(constraints), n_rows=n_rows)
        self.constraints, self.shape = replace(constraints, n_rows=n_rows), (n_rows,)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> RowPairs[Pairs]:
        """The pairs among some rows, with the numbers that these rows have there."""
        chosen = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn writes [rows, ...]
        numbers = np.arange(len(self))[chosen]
        place = np.full(len(self), -1)
        place[numbers] = np.arange(len(numbers))
        pairs = self.constraints
        left, right = place[pairs.left], place[pairs.right]
        kept = (left >= 0) & (right >= 0)
        return RowPairs(replace(pairs[kept], left=left[kept], right=right[kept]), len(numbers))

    def __repr__(self) -> str:
        return f"{self.constraints!r}.for_rows({len(self)})"


class PairFold:
    """Folds of rows that keep rows together that must-links join.

    A splitter of scikit-learn: rows that are known to belong together are in one fold, so that no fold is
    judged by what another has been told. Of the cannot-links, one in ``n_splits`` is inside a fold. Groups of
    more than a tenth of a fold are cut into pieces, since every fold needs rows of all clusters.

    Parameters
    ----------
    constraints : Constraints
    n_splits : int, default=5
    random_state : int, Generator or None
        Seed or source of random numbers.

    Examples
    --------
    >>> from spherepair import Constraints
    >>> pairs = Constraints.from_pairs(must_link=[(0, 3), (3, 5)])
    >>> for train, test in PairFold(pairs, n_splits=2, random_state=0).split(np.zeros((60, 1))):
    ...     print({0, 3, 5} <= set(test.tolist()) or {0, 3, 5} <= set(train.tolist()))
    True
    True
    """

    def __init__(self, constraints: PairArrays, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.constraints, self.n_splits, self.random_state = constraints, n_splits, random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield the positions of the rows to fit on, and of those to score on.

        Parameters
        ----------
        X : rows, of any kind
        y, groups : ignored
        """
        from sklearn.model_selection import GroupKFold  # takes long to load, and few need it

        n_rows = int(X.shape[0] if hasattr(X, "shape") else len(X))
        joined = self._groups(n_rows)
        if joined.max(initial=-1) + 1 < self.n_splits:
            raise invalid(
                f"must-links join the {n_rows} rows to {joined.max(initial=-1) + 1} groups, which cannot be "
                f"divided into {self.n_splits} folds; give n_splits a smaller number."
            )
        yield from GroupKFold(self.n_splits).split(np.zeros(n_rows), groups=joined)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.n_splits

    def _groups(self, n_rows: int) -> IndexArray:
        """Number of the group of each row, (n_rows,), in random order: folds take equal groups in turn."""
        pairs = self.constraints
        check_range(pairs.left, pairs.right, locate=locate_in(pairs), n_rows=n_rows)
        found = build_graph(pairs).components
        order = np.argsort(found.labels, kind="stable")
        start = np.cumsum(found.sizes) - found.sizes
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - start[found.labels[order]]
        largest = max(2, round(LARGEST_SHARE * n_rows / self.n_splits))
        group = np.arange(n_rows) + n_rows**2
        group[found.rows] = found.labels * n_rows + rank // largest
        _, numbers = np.unique(group, return_inverse=True)
        shuffled = np.random.default_rng(self.random_state).permutation(numbers.max(initial=-1) + 1)
        return np.asarray(shuffled[numbers], dtype=np.int64)

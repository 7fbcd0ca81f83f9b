"""The graph of must-links and its components, the common ground of conflicts and closure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from spherepair.constraints.table import BoolArray, IndexArray, PairTable


@dataclass(frozen=True)
class Components:
    """Rows that must-links hold together, directly or through other rows.

    Parameters
    ----------
    rows : array of shape (n_rows_covered,)
        The rows that some pair mentions, ascending.
    labels : array of shape (n_rows_covered,)
        Component of each of these rows, numbered from 0 in the order of `rows`; a row that only
        cannot-links mention is a component of its own.
    n_components : int
        How many components there are.
    """

    rows: IndexArray
    labels: IndexArray
    n_components: int

    @property
    def sizes(self) -> IndexArray:
        """Number of rows of each component, of shape (n_components,)."""
        return np.bincount(self.labels, minlength=self.n_components)


@dataclass(frozen=True)
class PairGraph:
    """Pairs over rows renumbered without gaps, so that arrays per row stay small.

    Parameters
    ----------
    components : Components
        What the must-links hold together.
    left, right : array of shape (n_pairs,)
        The ends of the pairs as positions in ``components.rows``.
    """

    components: Components
    left: IndexArray
    right: IndexArray

    @property
    def left_component(self) -> IndexArray:
        """Component of the left end of each pair, of shape (n_pairs,)."""
        return self.components.labels[self.left]

    @property
    def right_component(self) -> IndexArray:
        """Component of the right end of each pair, of shape (n_pairs,)."""
        return self.components.labels[self.right]


def build_graph(pairs: PairTable) -> PairGraph:
    """Renumber the rows of `pairs` and find the components of their must-links."""
    rows, positions = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
    left, right = np.split(positions, 2)
    must = pairs.is_must_link
    links = coo_array(
        (np.ones(int(must.sum()), np.int8), (left[must], right[must])), shape=(len(rows), len(rows))
    )
    # SciPy refuses a graph without nodes.
    n_components, labels = connected_components(links, directed=False) if len(rows) else (0, rows)
    return PairGraph(Components(rows, labels.astype(np.int64), int(n_components)), left, right)


def is_contradictory(pairs: PairTable, graph: PairGraph) -> BoolArray:
    """Mark the cannot-links whose two ends a chain of must-links holds together."""
    return np.asarray(~pairs.is_must_link & (graph.left_component == graph.right_component))

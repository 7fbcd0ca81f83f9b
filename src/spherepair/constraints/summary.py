"""What some pairs say, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spherepair.constraints.closure import count_entailed
from spherepair.constraints.graph import build_graph, is_contradictory
from spherepair.constraints.table import PairTable


@dataclass(frozen=True)
class ConstraintSummary:
    """Counts of pairs, of the rows they cover, and of what follows from them.

    Parameters
    ----------
    n_pairs, n_must_link, n_cannot_link : int
        Pairs, each counted once.
    n_duplicates : int
        Repeated pairs that were left out.
    n_rows_covered : int
        Rows that some pair mentions.
    n_components, largest_component : int
        Must-link components of these rows, and the number of rows of the largest.
    n_conflicts : int
        Cannot-links that contradict must-links.
    n_entailed_must_link, n_entailed_cannot_link : int
        Pairs that the closure would add, contradictory cannot-links set aside.
    """

    n_pairs: int
    n_must_link: int
    n_cannot_link: int
    n_duplicates: int
    n_rows_covered: int
    n_components: int
    largest_component: int
    n_conflicts: int
    n_entailed_must_link: int
    n_entailed_cannot_link: int

    def __str__(self) -> str:
        return "\n".join(
            [
                f"pairs           {self.n_pairs} ({self.n_must_link} must-link, "
                f"{self.n_cannot_link} cannot-link; {self.n_duplicates} repeated, kept once)",
                f"rows covered    {self.n_rows_covered} in {self.n_components} must-link "
                f"components, the largest of {self.largest_component}",
                f"entailed        {self.n_entailed_must_link} must-link, "
                f"{self.n_entailed_cannot_link} cannot-link",
                f"contradictions  {self.n_conflicts}",
            ]
        )


def summarise(pairs: PairTable) -> ConstraintSummary:
    """Count everything, making no pair."""
    graph = build_graph(pairs)
    wrong = is_contradictory(pairs, graph)
    consistent = pairs[~wrong]
    # The must-links are all still there, so the components are too.
    entailed = count_entailed(consistent, build_graph(consistent) if wrong.any() else graph)
    n_must_link = int(pairs.is_must_link.sum())
    return ConstraintSummary(
        n_pairs=len(pairs),
        n_must_link=n_must_link,
        n_cannot_link=len(pairs) - n_must_link,
        n_duplicates=pairs.n_duplicates,
        n_rows_covered=len(graph.components.rows),
        n_components=graph.components.n_components,
        largest_component=int(np.max(graph.components.sizes, initial=0)),
        n_conflicts=int(wrong.sum()),
        n_entailed_must_link=entailed.must_link,
        n_entailed_cannot_link=entailed.cannot_link,
    )

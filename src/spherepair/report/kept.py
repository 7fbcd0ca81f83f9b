"""Which constraints the clusters keep, and which they break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.constraints import Constraints
from spherepair.report.gallery import Gallery, RowCard
from spherepair.report.profiles import Profiles

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_PAIR_COLUMNS = 4


@dataclass(frozen=True)
class PairCard:
    """Two rows side by side.

    Attributes
    ----------
    left, right : RowCard
    columns : tuple of str
        The columns in which they differ most, whose values the cards hold.
    apart : str
        How far apart they lie, in words.
    link : str
        "must-link", "cannot-link", or "" for a pair that is yet to be judged.
    reason : str
        Why the pair is shown.
    """

    left: RowCard
    right: RowCard
    columns: tuple[str, ...]
    apart: str
    link: str = ""
    reason: str = ""


@dataclass(frozen=True)
class LinkCount:
    """How many constraints of one kind there are, and how many are kept."""

    name: str
    n_pairs: int
    n_kept: int

    @property
    def n_violated(self) -> int:
        """Those that are not kept."""
        return self.n_pairs - self.n_kept

    @property
    def share(self) -> float | None:
        """Share kept; ``None`` where there are none."""
        return self.n_kept / self.n_pairs if self.n_pairs else None


@dataclass(frozen=True)
class Kept:
    """The constraints against the clusters.

    Attributes
    ----------
    counts : tuple of LinkCount
        Must-links, cannot-links, and both together.
    n_conflicts : int
        Cannot-links that contradict must-links, so that no clusters could keep all.
    n_rows_covered : int
        Rows that some constraint mentions.
    violated : tuple of PairCard
        Those broken most clearly first; at most as many as asked for.
    """

    counts: tuple[LinkCount, LinkCount, LinkCount]
    n_conflicts: int
    n_rows_covered: int
    violated: tuple[PairCard, ...]

    @property
    def total(self) -> LinkCount:
        """All constraints."""
        return self.counts[2]

    @property
    def n_more(self) -> int:
        """Violated constraints that are not listed."""
        return self.total.n_violated - len(self.violated)


def is_violated(labels: Integers, constraints: Constraints) -> NDArray[np.bool_]:
    """Constraints (n_pairs,) that labels (n,) break.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (0, 2)])
    >>> is_violated(np.array([4, 4, 7]), pairs).tolist()
    [False, True]
    """
    together = labels[constraints.left] == labels[constraints.right]
    return np.asarray(together != constraints.is_must_link)


def pick_violated(
    embedding: NDArray[Any], labels: Integers, *, constraints: Constraints, limit: int
) -> Constraints:
    """The violated constraints, those broken most clearly (and of most weight) first."""
    broken = constraints[is_violated(labels, constraints)]
    distance = pair_distances(embedding, broken.left, broken.right)
    longest = max(float(distance.max(initial=0.0)), 1e-12)
    wrong = np.where(broken.is_must_link, distance, longest - distance) * broken.weight
    return broken[np.argsort(-wrong, kind="stable")[:limit]]


def judge_constraints(labels: Integers, constraints: Constraints, *, violated: tuple[PairCard, ...]) -> Kept:
    """Count what is kept."""
    kept, must = ~is_violated(labels, constraints), constraints.is_must_link
    counts = (
        LinkCount("must-link", int(must.sum()), int((kept & must).sum())),
        LinkCount("cannot-link", int((~must).sum()), int((kept & ~must).sum())),
        LinkCount("all", len(kept), int(kept.sum())),
    )
    covered = np.unique(np.concatenate([constraints.left, constraints.right]))
    return Kept(counts, len(constraints.conflicts()), len(covered), violated)


def pair_cards(
    gallery: Gallery,
    profiles: Profiles,
    *,
    embedding: NDArray[Any],
    left: Integers,
    right: Integers,
    links: list[str],
    reasons: list[str],
) -> tuple[PairCard, ...]:
    """Pairs (n_pairs,) with both rows and the columns in which these differ most."""
    if len(left) == 0:
        return ()
    columns, names = None, [()] * len(left)  # type: Any, list[Any]
    if gallery.kind == "values":
        columns = profiles.differing(gallery.dense(left), gallery.dense(right), count=_PAIR_COLUMNS)
        names = [tuple(gallery.columns[place] for place in line) for line in columns.tolist()]
    ends = (gallery.cards(left, columns), gallery.cards(right, columns))
    apart = describe_distances(embedding, left, right)
    return tuple(map(PairCard, *ends, names, apart, links, reasons))


def pair_distances(embedding: NDArray[Any], left: Integers, right: Integers) -> Floats:
    """Euclidean distances (n_pairs,) between the two ends of pairs."""
    return np.asarray(np.linalg.norm(embedding[left].astype(np.float64) - embedding[right], axis=1))


def describe_distances(embedding: NDArray[Any], left: Integers, right: Integers) -> list[str]:
    """Angles where rows are unit vectors, plain distances where they are not.

    Examples
    --------
    >>> describe_distances(np.eye(2), np.array([0]), np.array([1]))
    ['90° apart']
    """
    distance = pair_distances(embedding, left, right)
    ends = np.concatenate([embedding[left], embedding[right]])
    if not np.allclose(np.linalg.norm(ends, axis=1), 1.0, atol=1e-3):
        return [f"distance {value:.2f}" for value in distance.tolist()]
    angles = np.degrees(2 * np.arcsin(np.clip(distance / 2, 0.0, 1.0)))
    return [f"{angle:.0f}° apart" for angle in angles.tolist()]

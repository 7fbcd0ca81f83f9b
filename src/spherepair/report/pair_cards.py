"""Pairs of rows: which constraints the clusters violate, and which pairs to label next.

A violated constraint comes with a hint where the fault may be. Questions are of four kinds, taken in turn:

- a borderline row with a typical row of the nearest other cluster: the answer is close to a toss-up;
- typical rows of two close clusters that no cannot-link separates: they may be one cluster;
- rows at the two ends of a cluster that few must-links hold together: it may be two clusters;
- a row in no group yet with an example of a group: see :mod:`spherepair.report.placing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.suspects import Suspect
from spherepair.constraints import Constraints
from spherepair.estimators.trust.profiles import Profiles
from spherepair.plots.scatter import principal_plane
from spherepair.report.cluster_cards import Membership, distances_to
from spherepair.report.placing import rows_to_place
from spherepair.report.row_cards import RowCard, RowDisplay

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_PAIR_COLUMNS = 4
_ROWS_PER_BORDER = 2
_FEW_MUST_LINKS = 10
#: Quantile taken as an end of a cluster: the extreme rows are outliers.
_ENDS = (0.05, 0.95)
_LARGEST_CLUSTER_SAMPLE = 5_000


@dataclass(frozen=True)
class PairCard:
    """Two rows side by side.

    Attributes
    ----------
    left, right : RowCard
    columns : tuple of str
        The columns in which they differ most, whose values the cards hold.
    link : str
        "must-link", "cannot-link", or "" for a question.
    reason : str
        Why the pair is shown.
    """

    left: RowCard
    right: RowCard
    columns: tuple[str, ...]
    link: str
    reason: str


@dataclass(frozen=True)
class LinkCount:
    """How many constraints of one kind there are, and how many the clusters satisfy."""

    name: str
    n_pairs: int
    n_satisfied: int

    @property
    def n_violated(self) -> int:
        """Those that are not satisfied."""
        return self.n_pairs - self.n_satisfied

    @property
    def share(self) -> float | None:
        """Share satisfied; ``None`` if there are none."""
        return self.n_satisfied / self.n_pairs if self.n_pairs else None


@dataclass(frozen=True)
class Satisfaction:
    """The constraints against the clusters.

    Attributes
    ----------
    counts : tuple of LinkCount
        Must-links, cannot-links, and both together.
    n_conflicts : int
        Cannot-links that contradict must-links, so that no clusters could satisfy all.
    n_rows_covered : int
        Rows that appear in a constraint.
    violated : tuple of PairCard
        The worst first; at most as many as asked for.
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


@dataclass(frozen=True)
class Question:
    """Two rows to be judged the same or different, and why these."""

    left: int
    right: int
    reason: str


def is_violated(labels: Integers, constraints: Constraints) -> NDArray[np.bool_]:
    """Constraints (n_pairs,) that labels (n,) violate.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (0, 2)])
    >>> is_violated(np.array([4, 4, 7]), pairs).tolist()
    [False, True]
    """
    together = labels[constraints.left] == labels[constraints.right]
    return np.asarray((together != constraints.is_must_link) & constraints.is_decided)


def pick_violated(
    embedding: NDArray[Any], labels: Integers, *, constraints: Constraints, limit: int
) -> Constraints:
    """At most ``limit`` violated constraints, the worst (by distance times weight) first."""
    broken = constraints[is_violated(labels, constraints)]
    difference = embedding[broken.left].astype(np.float64) - embedding[broken.right]
    distance = np.linalg.norm(difference, axis=1)
    longest = max(float(distance.max(initial=0.0)), 1e-12)
    wrong = np.where(broken.is_must_link, distance, longest - distance) * broken.weight
    return broken[np.argsort(-wrong, kind="stable")[:limit]]


def count_satisfied(
    labels: Integers, constraints: Constraints, *, violated: tuple[PairCard, ...]
) -> Satisfaction:
    """Count what the labels (n,) satisfy; ``violated`` are the pairs to list."""
    satisfied, must = ~is_violated(labels, constraints), constraints.is_must_link
    counts = (
        LinkCount("must-link", int(must.sum()), int((satisfied & must).sum())),
        LinkCount("cannot-link", int((~must).sum()), int((satisfied & ~must).sum())),
        LinkCount("all", len(satisfied), int(satisfied.sum())),
    )
    covered = np.unique(np.concatenate([constraints.left, constraints.right]))
    return Satisfaction(counts, len(constraints.conflicts()), len(covered), violated)


def violated_cards(display: RowDisplay, profiles: Profiles, listed: Constraints) -> tuple[PairCard, ...]:
    """Violated constraints side by side, each with a hint where the fault may be."""
    links = np.where(listed.is_must_link, "must-link", "cannot-link").tolist()
    cards = _pair_cards(display, profiles, listed.left, listed.right, links=links)
    return tuple(PairCard(c.left, c.right, c.columns, c.link, _hint(c)) for c in cards)


def suspect_cards(
    display: RowDisplay, profiles: Profiles, found: Sequence[Suspect], *, limit: int
) -> tuple[PairCard, ...]:
    """Judged answers side by side, each with who gave it, where it stands and why it is doubted."""
    shown = [suspect for suspect in found if suspect.probability is not None][:limit]
    ends = np.array([(suspect.left, suspect.right) for suspect in shown], np.int64).reshape(-1, 2)
    links = [suspect.link for suspect in shown]
    cards = _pair_cards(display, profiles, ends[:, 0], ends[:, 1], links=links)
    return tuple(
        PairCard(card.left, card.right, card.columns, card.link, _doubt(suspect))
        for card, suspect in zip(cards, shown, strict=True)
    )


def _doubt(suspect: Suspect) -> str:
    by = f", answered by {suspect.by}" if suspect.by else ""
    where = f", row {suspect.source_row} of the pairs" if suspect.source_row >= 0 else ""
    return f"Wrong with {100 * (suspect.probability or 0.0):.0f} %{by}{where}: {suspect.reason}."


def question_cards(
    display: RowDisplay, profiles: Profiles, questions: Sequence[Question]
) -> tuple[PairCard, ...]:
    """Questions side by side."""
    ends = np.array([(question.left, question.right) for question in questions], np.int64).reshape(-1, 2)
    cards = _pair_cards(display, profiles, ends[:, 0], ends[:, 1], links=[""] * len(questions))
    return tuple(
        PairCard(card.left, card.right, card.columns, "", question.reason)
        for card, question in zip(cards, questions, strict=True)
    )


def choose_questions(
    embedding: NDArray[Any],
    membership: Membership,
    *,
    centers: NDArray[Any],
    constraints: Constraints,
    count: int,
) -> tuple[Question, ...]:
    """At most ``count`` pairs of rows for a person to judge, none of them in the constraints.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    membership : Membership
    centers : ndarray of shape (K, D)
    constraints : Constraints
    count : int
    """
    typical = [membership.members(cluster)[:3] for cluster in range(membership.n_clusters)]
    kinds = (
        _ask_about_borderline(membership, typical, constraints=constraints),
        _ask_whether_apart(membership, typical, constraints=constraints, centers=centers),
        _ask_whether_one(embedding, membership, constraints=constraints),
        _ask_where_rows_belong(embedding, typical, constraints=constraints, count=count),
    )
    mixed = [question for question in chain(*zip_longest(*kinds)) if question is not None]
    ends = np.array([(question.left, question.right) for question in mixed], dtype=np.int64).reshape(-1, 2)
    keys = _pair_keys(ends[:, 0], ends[:, 1])
    is_first = np.zeros(len(keys), dtype=bool)
    is_first[np.unique(keys, return_index=True)[1]] = True
    is_new = is_first & ~np.isin(keys, _pair_keys(constraints.left, constraints.right))
    return tuple(mixed[place] for place in np.flatnonzero(is_new)[:count].tolist())


def _pair_cards(
    display: RowDisplay, profiles: Profiles, left: Integers, right: Integers, *, links: list[str]
) -> list[PairCard]:
    """Pairs (n_pairs,) with both rows and the columns in which these differ most."""
    if len(left) == 0:
        return []
    columns, names = None, [()] * len(left)  # type: Any, list[Any]
    if display.kind == "values":
        columns = profiles.differing(display.dense(left), display.dense(right), count=_PAIR_COLUMNS)
        names = [tuple(display.columns[place] for place in line) for line in columns.tolist()]
    ends = (display.cards(left, columns), display.cards(right, columns))
    return list(map(PairCard, *ends, names, links, [""] * len(left)))


def _hint(pair: PairCard) -> str:
    """Whether to look at the clusters or at the constraint first."""
    unclear = [row for row in (pair.left, pair.right) if row.is_borderline and row.next_cluster >= 0]
    if not unclear:
        where = "their clusters" if pair.link == "must-link" else "the cluster"
        return f"Both rows lie well inside {where}: check the constraint first."
    if len(unclear) == 2:
        return "Both rows are borderline: the clusters may be wrong here."
    return f"Borderline: {unclear[0].name} is almost in cluster {unclear[0].next_cluster}."


def _ask_about_borderline(
    membership: Membership, typical: list[Integers], *, constraints: Constraints
) -> list[Question]:
    """Borderline rows, a few for each two clusters, rows without constraints first."""
    rows = np.flatnonzero(membership.is_borderline & (membership.next_clusters >= 0))
    linked = np.isin(rows, np.concatenate([constraints.left, constraints.right]))
    rows = rows[np.lexsort((np.abs(membership.silhouettes[rows]), linked))]
    border = membership.labels[rows] * membership.n_clusters + membership.next_clusters[rows]
    rows = rows[_rank_in_group(border) < _ROWS_PER_BORDER]
    return [
        Question(
            row,
            int(typical[other][place % len(typical[other])]),
            f"The first row is in cluster {own} but almost as close to cluster {other}; the second is "
            f"typical of cluster {other}.",
        )
        for place, (row, own, other) in enumerate(
            zip(
                rows.tolist(),
                membership.labels[rows].tolist(),
                membership.next_clusters[rows].tolist(),
                strict=True,
            )
        )
        if len(typical[other])
    ]


def _ask_whether_apart(
    membership: Membership, typical: list[Integers], *, constraints: Constraints, centers: NDArray[Any]
) -> list[Question]:
    """Pairs of clusters without a cannot-link between them, the closest first."""
    links = membership.links_between(constraints, is_must_link=False)
    distances = distances_to(centers, centers)
    first, second = np.triu_indices(membership.n_clusters, k=1)
    open_pairs = np.flatnonzero(
        (links[first, second] == 0) & (membership.sizes[first] > 0) & (membership.sizes[second] > 0)
    )
    order = open_pairs[np.argsort(distances[first, second][open_pairs], kind="stable")]
    return [
        Question(
            int(typical[a][0]),
            int(typical[b][0]),
            f"No cannot-link separates clusters {a} and {b} yet; these rows are typical of them.",
        )
        for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True)
    ]


def _ask_whether_one(
    embedding: NDArray[Any], membership: Membership, *, constraints: Constraints
) -> list[Question]:
    """Clusters with few must-links inside, those with the fewest first."""
    inside = np.diag(membership.links_between(constraints, is_must_link=True))
    thin = np.flatnonzero((inside < _FEW_MUST_LINKS) & (membership.sizes >= 2))
    return [
        Question(
            *_ends_of(embedding, membership.members(cluster)),
            f"{_held_together(int(inside[cluster]), cluster)}; these rows are at its two ends.",
        )
        for cluster in thin[np.argsort(inside[thin], kind="stable")].tolist()
    ]


def _ask_where_rows_belong(
    embedding: NDArray[Any], typical: list[Integers], *, constraints: Constraints, count: int
) -> list[Question]:
    """Rows in no group yet; as many as asked for while there are any."""
    examples = np.array([rows[0] for rows in typical if len(rows)], dtype=np.int64)
    found = rows_to_place(embedding, constraints, examples=examples, count=count)
    return [Question(one.row, one.example, _placing_reason(one.n_apart)) for one in found]


def _ends_of(embedding: NDArray[Any], members: Integers) -> tuple[int, int]:
    """Two rows far apart along the direction in which the members differ most."""
    step = -(-len(members) // _LARGEST_CLUSTER_SAMPLE)
    rows = members[::step]
    order = rows[np.argsort(principal_plane(embedding[rows].astype(np.float64))[:, 0], kind="stable")]
    low, high = (int(share * (len(order) - 1) + 0.5) for share in _ENDS)
    return int(order[low]), int(order[high])


def _rank_in_group(group: Integers) -> Integers:
    """For each entry the number of earlier entries of the same group."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    starts = np.searchsorted(sorted_group, sorted_group, side="left")
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - starts
    return rank


def _pair_keys(left: Integers, right: Integers) -> Integers:
    """A number for each pair of rows, the same in either order."""
    return np.asarray((np.minimum(left, right) << 32) | np.maximum(left, right))


def _placing_reason(n_apart: int) -> str:
    """Why to ask about a row in no group.

    Examples
    --------
    >>> _placing_reason(0)
    'No pair names the first row yet; the second is in the group most like it.'
    """
    if n_apart == 0:
        return "No pair names the first row yet; the second is in the group most like it."
    groups = "one group" if n_apart == 1 else f"{n_apart} groups"
    return f"The first row differs from {groups}; the second is in the next group most like it."


def _held_together(n_links: int, cluster: int) -> str:
    """What holds a cluster together.

    Examples
    --------
    >>> [_held_together(n, 5) for n in (0, 1)]
    ['No must-link holds cluster 5 together yet', 'Only one must-link holds cluster 5 together']
    """
    if n_links == 0:
        return f"No must-link holds cluster {cluster} together yet"
    if n_links == 1:
        return f"Only one must-link holds cluster {cluster} together"
    return f"Only {n_links} must-links hold cluster {cluster} together"

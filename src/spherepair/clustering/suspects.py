"""Answers to look at again: the most suspicious ones, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.answer_errors import Judgment
from spherepair.clustering.error_rates import ErrorRates
from spherepair.constraints import Constraints
from spherepair.constraints.pair_arrays import positions_among

MUST_LINK, CANNOT_LINK = "must-link", "cannot-link"
#: The neighbors contradict or confirm an answer if their probability of "the same" is beyond one of these.
CLEARLY_DIFFERENT, CLEARLY_SAME = 0.2, 0.8
#: At most so many contradictions are searched for a chain against an answer.
MOST_CHAINS = 1000
#: Share of wrong answers of one kind from which a person's record is a reason.
POOR_RECORD = 0.25


@dataclass(frozen=True)
class Suspect:
    """An answer that may be wrong.

    Attributes
    ----------
    left, right : int
        The two rows.
    link : str
        The answer: "must-link" or "cannot-link".
    by : str
        Who gave it; empty text where it is unknown.
    probability : float or None
        Probability that it is wrong; ``None`` where it was not judged.
    reason : str
    source_row : int
        Row of the file or position in the list that it comes from; -1 if neither.
    """

    left: int
    right: int
    link: str
    by: str
    probability: float | None
    reason: str
    source_row: int


def list_suspects(pairs: Constraints, judgment: Judgment, n: int | None) -> list[Suspect]:
    """The ``n`` most suspicious answers; ``None`` for all that are more likely wrong than right."""
    order = np.argsort(judgment.right, kind="stable")
    shown = order[: judgment.wrong.n_suspects if n is None else n]
    chains = _chains(pairs, shown)
    return [_suspect(pairs, judgment, place, chains) for place in shown.tolist()]


def answers_to_look_at(
    pairs: Constraints, labels: NDArray[np.int64], known: Constraints, judgment: Judgment | None
) -> list[Suspect]:
    """Answers that are more likely wrong than right, then all others that the clusters contradict.

    Parameters
    ----------
    pairs : Constraints
        The answers, with their rows of a file.
    labels : ndarray of shape (n_rows,)
    known : Constraints
        The answers that were judged; others are compared with the clusters only.
    judgment : Judgment or None
        What was thought of these.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (0, 2)], by=["ann", "ann"])
    >>> found = answers_to_look_at(pairs, np.array([4, 4, 7]), pairs, None)
    >>> [(one.left, one.right, one.by, one.reason) for one in found]
    [(0, 2, 'ann', 'the clusters say that they differ')]
    """
    suspects: list[Suspect] = []
    place = positions_among(pairs, known)
    is_listed = np.zeros(len(pairs), bool)
    if judgment is not None:
        of_known = {position: found for found, position in reversed(list(enumerate(place.tolist())))}
        order = np.argsort(judgment.right, kind="stable")[: judgment.wrong.n_suspects]
        shown = np.array([one for one in order.tolist() if one in of_known], np.int64)
        chains = _chains(known, shown)
        for one in shown.tolist():
            source = int(pairs.source_row[of_known[one]])
            suspects.append(replace(_suspect(known, judgment, one, chains), source_row=source))
        is_listed = np.isin(place, shown)
    is_against = (labels[pairs.left] == labels[pairs.right]) != pairs.is_must_link
    violated = pairs[is_against & pairs.is_decided & ~is_listed]
    return suspects + [
        Suspect(
            left,
            right,
            link=MUST_LINK if is_must_link else CANNOT_LINK,
            by=by,
            probability=None,
            reason=f"the clusters say that they {'differ' if is_must_link else 'belong together'}",
            source_row=source_row,
        )
        for (left, right, is_must_link, _), by, source_row in zip(
            violated, violated.by.tolist(), violated.source_row.tolist(), strict=True
        )
    ]


def _suspect(pairs: Constraints, judgment: Judgment, place: int, chains: dict[int, str]) -> Suspect:
    by = str(pairs.by[place])
    reasons = [
        _neighbors_say(bool(pairs.is_must_link[place]), float(judgment.neighbors_same[place])),
        chains.get(place, ""),
        _record(by, judgment.wrong.people.get(by), is_must_link=bool(pairs.is_must_link[place])),
    ]
    return Suspect(
        left=int(pairs.left[place]),
        right=int(pairs.right[place]),
        link=MUST_LINK if pairs.is_must_link[place] else CANNOT_LINK,
        by=by,
        probability=float(1.0 - judgment.right[place]),
        reason="; ".join(reason for reason in reasons if reason),
        source_row=int(pairs.source_row[place]),
    )


def _neighbors_say(is_must_link: bool, same: float) -> str:
    said = f"the rows' neighbors belong together with probability {same:.2f}"
    if CLEARLY_DIFFERENT < same < CLEARLY_SAME:
        return f"{said}, which leaves it open"
    return said if is_must_link == (same <= CLEARLY_DIFFERENT) else f"{said}, as the answer says"


def _record(by: str, rates: ErrorRates | None, *, is_must_link: bool) -> str:
    """What speaks against the person who answered."""
    if rates is None or not by:
        return ""
    if not rates.is_informative:
        return f"the answers of {by} say nothing"
    share = rates.must_link if is_must_link else rates.cannot_link
    kind = "must-links" if is_must_link else "cannot-links"
    return f"{100 * share:.0f} % of the {kind} of {by} are wrong" if share >= POOR_RECORD else ""


def _chains(pairs: Constraints, shown: NDArray[np.int64]) -> dict[int, str]:
    """For each of these answers that others contradict, the chain of them."""
    report, wanted = pairs.conflicts(), set(shown.tolist())
    found: dict[int, str] = {}
    for conflict, answers in zip(report[:MOST_CHAINS], report.answers(MOST_CHAINS), strict=True):
        chain = f"must-links {' - '.join(map(str, conflict.chain))}"
        for place in wanted.intersection(answers).difference(found):
            contrary = f"cannot-link ({conflict.left}, {conflict.right})" if place != answers[0] else chain
            found[place] = f"{contrary} contradict{'s' * (place != answers[0])} it"
    return found

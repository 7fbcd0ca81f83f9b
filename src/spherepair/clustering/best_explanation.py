"""The number of clusters that explains the answers best, to judge these where the number is not known.

Inferring the number from angles and counts takes all answers for right. Here k-means divides the rows into K'
clusters, the neighbors say of every pair how probable it is that its rows belong together, s, and an answer
"the same" has with a rate r of errors the probability

    s (1 - r) + (1 - s) r

The best K' is that with the largest likelihood of all answers, times the probability of what was assumed:
that two clusters are one class, or one cluster is of several, is rare. Clusters that mix classes are denied
by many answers, and every half of a class costs an assumption. Neighbors of the rows in pairs tell whether an
answer is right, not these rows, so more clusters do not explain wrong answers better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.answer_errors import (
    FIRST_RATE,
    LEVEL_PRIOR,
    LEVELS,
    MOST_WRONG,
    Judge,
    agreement_table,
    clip_same,
    say_same,
)
from spherepair.clustering.error_rates import LEAST_RATE, Floats

#: Steps of the search for the rate of errors.
RATE_STEPS = 20


@dataclass(frozen=True, eq=False)
class Explanation:
    """What clusters say of the answers.

    Attributes
    ----------
    n_clusters : int
    same : ndarray of shape (n_pairs,)
        Probability that the rows of each pair belong together, by their neighbors.
    nats : float
        Log-probability of the answers and of what was assumed of the clusters.
    """

    n_clusters: int
    same: Floats
    nats: float


def explain_best(
    judge: Judge,
    memberships: Callable[[int], NDArray[Any]],
    *,
    max_clusters: int,
    near: int | None = None,
) -> Explanation:
    """Search for the K' from 2 to ``max_clusters`` that explains the answers best.

    Parameters
    ----------
    judge : Judge
    memberships : callable
        From K' to memberships (n_asked, K') of the rows that are asked.
    max_clusters : int
    near : int, optional
        Where the search begins, if that is known: fewer numbers are tried.
    """

    def explain_by(n_clusters: int) -> Explanation:
        return explain(judge, memberships(n_clusters))

    if near is None:
        return search_peak(explain_by, max_clusters)
    return climb(explain_by, max(2, min(near, max_clusters)), max_clusters)


def explain(judge: Judge, memberships: NDArray[Any]) -> Explanation:
    """What clusters with these memberships, (n_asked, K'), say of the answers."""
    must, told = judge.pairs.is_must_link, judge.pairs.is_decided
    left, right = judge.witnesses.ends(memberships)
    table = agreement_table(left[told], right[told], must[told])
    same = say_same(left, right, table)
    nats = answer_nats(same[told], must[told], judge.share) + _table_nats(table)
    return Explanation(len(table), same, nats)


def answer_nats(same: Floats, must: NDArray[np.bool_], rate: float | None = None) -> float:
    """Log-probability of answers (must-links or not) by what the neighbors say.

    Parameters
    ----------
    same : ndarray of shape (n_pairs,)
    must : ndarray of bool, shape (n_pairs,)
    rate : float, optional
        Share of wrong answers; by default the one that explains them best.

    Examples
    --------
    Neighbors that agree explain answers better than such that say nothing:

    >>> must = np.arange(100) < 30
    >>> agree, unsure = np.where(must, 0.9, 0.05), np.full(100, 0.3)
    >>> round(answer_nats(agree, must)), round(answer_nats(unsure, must))
    (-7, -61)
    """
    same = clip_same(same)
    found = FIRST_RATE if rate is None else max(rate, LEAST_RATE)
    for _ in range(RATE_STEPS if rate is None else 0):
        any_must = same * (1.0 - found) + (1.0 - same) * found
        is_wrong = found * np.where(must, (1.0 - same) / any_must, same / (1.0 - any_must))
        found = float(np.clip(is_wrong.mean(), LEAST_RATE, MOST_WRONG))
    any_must = same * (1.0 - found) + (1.0 - same) * found
    return float(np.log(np.where(must, any_must, 1.0 - any_must)).sum())


def _table_nats(table: Floats) -> float:
    """Log-probability that pairs of clusters are of one class, (K', K'), against the usual."""
    level = np.searchsorted(LEVELS, table)
    surprise = np.log(LEVEL_PRIOR / LEVEL_PRIOR[0])
    of_one = surprise[len(LEVELS) - 1 - np.diag(level)].sum()
    return float(of_one + surprise[level[np.triu_indices(len(table), 1)]].sum())


def search_peak(explain_by: Callable[[int], Explanation], largest: int) -> Explanation:
    """Try 2, 4, 8, .., then halve the distance to the best until both its neighbors have been tried.

    Nothing beyond four times the best so far is tried: large numbers take most of the time.

    Examples
    --------
    >>> def numbers_tried(peak):
    ...     tried = []
    ...     def explain_by(number):
    ...         tried.append(number)
    ...         return Explanation(number, np.zeros(0), -abs(number - peak))
    ...     return search_peak(explain_by, 32).n_clusters, tried
    >>> numbers_tried(3), numbers_tried(11)
    ((3, [2, 4, 8, 3]), (11, [2, 4, 8, 16, 32, 6, 12, 10, 14, 9, 11]))
    """
    numbers = [2**k for k in range(1, max(largest, 2).bit_length()) if 2**k <= max(largest, 2)]
    if numbers[-1] < largest:
        numbers.append(largest)
    found: dict[int, Explanation] = {}
    best = largest
    for number in numbers:
        if number <= 4 * best:
            found[number] = explain_by(number)
            best = max(found, key=lambda number: found[number].nats)
    while True:
        tried = sorted(found)
        best = max(tried, key=lambda number: found[number].nats)
        place = tried.index(best)
        beside = {(best + other) // 2 for other in tried[max(place - 1, 0) : place + 2]}
        new = sorted(beside - set(tried))
        if not new:
            return found[best]
        found |= {number: explain_by(number) for number in new}


def climb(explain_by: Callable[[int], Explanation], start: int, largest: int) -> Explanation:
    """Go from a number to the better of its neighbors until both are worse.

    Examples
    --------
    >>> climb(lambda number: Explanation(number, np.zeros(0), -abs(number - 11.0)), 9, 32).n_clusters
    11
    """
    found = {start: explain_by(start)}
    best = start
    while True:
        for number in (best - 1, best + 1):
            if 2 <= number <= largest and number not in found:
                found[number] = explain_by(number)
        highest = max(found, key=lambda number: found[number].nats)
        if highest == best:
            return found[best]
        best = highest

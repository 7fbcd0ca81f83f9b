"""How likely each answer is wrong, judged by the clusters of its rows' neighbors.

Training moves the rows of a pair wherever the answer wants them, so they cannot tell whether it is right.
Their neighbors can: rows that were alike before training on pairs, most of which are in other pairs or in
none. With p_i the mean membership of the neighbors of row i, the neighbors say "the same" with probability

    s_ij = sum_kl p_ik p_jl S_kl

with S the identity unless all answers about two clusters say otherwise: a large class may be in several, and
small classes in one. People err at two rates,

    alpha = P(cannot-link | the same),   beta = P(must-link | different)

Both are found by expectation maximization (EM), for every person apart: random pairs are mostly of different
clusters, so even with alpha = beta most wrong answers are must-links. The posterior probability that a
pair is the same, given all answers to it, says how likely each of these is right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from torch import Tensor

from spherepair.clustering.error_rates import (
    LEAST_RATE,
    ErrorModel,
    ErrorRates,
    Floats,
    Integers,
    WrongAnswers,
)
from spherepair.constraints.graph import build_graph, is_contradictory, unordered_pairs
from spherepair.constraints.pair_arrays import PairArrays

#: Fewer answers are not judged.
FEWEST_PAIRS = 50
#: What the neighbors say is never surer than this: of rows whose neighbors all are elsewhere, some are not.
LEAST_SAME, MOST_SAME = 0.01, 0.95
#: Rates at the start of EM, the most of its steps, and the change of a rate at which it ends.
FIRST_RATE, STEPS, SETTLED = 0.05, 100, 1e-6
#: Fewer must-links a cluster are few: a wrong one then takes the neighbors of its rows along, who confirm it.
#: What neighbors said at first counts if at most this share of the rows is in pairs.
FEW_MUST_LINKS, FEW_ROWS = 30, 0.25
#: Few must-links are trained on at first if right with this probability, at the end if with one half: those
#: left out are judged by a network that has not seen them. A wrong cannot-link moves few rows.
FIRST_TRUST, LAST_TRUST = 0.9, 0.5
#: The mean of the log-odds of what the neighbors said at first and say now is too cautious by this factor.
SHARPENING = 1.3
#: Where the neighbors deny a larger share of the answers, the neighbors are wrong: the clusters that are
#: meant are not those that the rows form by themselves.
MOST_WRONG = 0.4
#: Contradictions that may be missing by chance, and how much the neighbors may exceed what answers show.
MISSED, EXCESS = 3, 2.0
#: How often rows of two clusters can belong together, and how probable that is of two; of one the reverse.
LEVELS, LEVEL_PRIOR = np.array([0.0, 0.5, 1.0]), np.array([0.98, 0.01, 0.01])
#: Rate at which the search for these begins. From a low one it ends where every level is one half: that
#: explains any answers, and says nothing about the rate. So does an impossible rate, beyond which the
#: neighbors are wrong: where the search comes there, it begins anew from a low one.
HIGH_RATE = 0.3
#: Somebody whose 1 - alpha - beta is below says almost nothing: the answers are random, or always the same.
LEAST_INFORMED = 0.1
#: Answers of a person from which this can be told, and the largest share of all answers that is so.
FEWEST_ANSWERS, MOST_IDLE = 20, 0.5


@dataclass(frozen=True, eq=False)
class Judgment:
    """What is thought of the answers.

    Attributes
    ----------
    right : ndarray of shape (n_pairs,)
        Probability that each answer is right.
    neighbors_same : ndarray of shape (n_pairs,)
        Probability that its rows belong together, by their neighbors alone.
    wrong : WrongAnswers
    informative : ndarray of bool, shape (n_pairs,)
        Whether the person who gave it says anything.
    """

    right: Floats
    neighbors_same: Floats
    wrong: WrongAnswers
    informative: NDArray[np.bool_]

    @property
    def worth(self) -> NDArray[np.float32]:
        """What each answer counts, (n_pairs,): the probability that it is right; nothing if it is random."""
        return np.where(self.informative, self.right, 0.0).astype(np.float32)


@dataclass(frozen=True)
class Witnesses:
    """Neighbors of the rows in pairs, looked up before training on pairs.

    Attributes
    ----------
    neighbors : ndarray of shape (n_ends, k)
        Positions of the neighbors of each row that is in some pair.
    left, right : ndarray of shape (n_pairs,)
        Places of the two rows of each pair in ``neighbors``.
    """

    neighbors: Integers
    left: Integers
    right: Integers

    def ends(self, memberships: NDArray[Any]) -> tuple[Floats, Floats]:
        """Mean memberships of the neighbors of both rows of each pair, (n_pairs, K) each."""
        mean = np.zeros((len(self.neighbors), memberships.shape[1]))
        for column in self.neighbors.T:  # not all at once: memory grows with the rows in pairs only
            mean += memberships[column]
        mean /= self.neighbors.shape[1]
        return mean[self.left], mean[self.right]

    def same(self, memberships: NDArray[Any], must: NDArray[np.bool_], told: Any = slice(None)) -> Floats:
        """Probability that the rows of each pair belong together, (n_pairs,), by memberships (n, K).

        The answers (must-links or not) that are told say which clusters are one class.
        """
        left, right = self.ends(memberships)
        return say_same(left, right, agreement_table(left[told], right[told], must[told]))


def say_same(left: Floats, right: Floats, table: Floats) -> Floats:
    """Probability that rows with these memberships, (n, K) each, belong together, by S (K, K)."""
    said: Floats = np.einsum("nk,nk->n", left @ table, right)
    return np.clip(said, 0.0, 1.0)  # memberships add up to one but for their rounding


def agreement_table(left: Floats, right: Floats, is_must_link: NDArray[np.bool_]) -> Floats:
    """S (K, K): how probable it is that rows of two clusters belong together, by all answers about these.

    Two clusters are of one class, of several each, or of different ones: pairs between them are the same
    always, half of the time or never. Which it is, and how often people err, is found by EM. Two rates would
    leave it open whether half of the pairs are the same or many of the must-links wrong.

    Examples
    --------
    Of forty answers inside of each of two clusters one tenth is wrong, and so it is between them, though most
    are must-links there:

    >>> ends = np.eye(2)[np.repeat([0, 1, 0], 40)], np.eye(2)[np.repeat([0, 1, 1], 40)]
    >>> agreement_table(*ends, np.tile(np.arange(40) < 36, 3)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    n_must, n_cannot = (left[which].T @ right[which] for which in (is_must_link, ~is_must_link))
    is_one = np.eye(len(n_must), dtype=bool)
    n_must, n_cannot = (np.triu(n + np.where(is_one, 0.0, n.T))[..., None] for n in (n_must, n_cannot))
    prior = np.log(np.where(is_one[..., None], LEVEL_PRIOR[::-1], LEVEL_PRIOR))
    level, rate = _find_levels(n_must, n_cannot, prior, HIGH_RATE)
    if rate >= MOST_WRONG:
        level, _ = _find_levels(n_must, n_cannot, prior, FIRST_RATE)
    table: Floats = LEVELS[level.argmax(axis=2)]
    return np.where(is_one, np.maximum(table, 0.5), np.triu(table) + np.triu(table, 1).T)


def _find_levels(n_must: Floats, n_cannot: Floats, prior: Floats, rate: float) -> tuple[Floats, float]:
    """How probable each level is of two clusters, (K, K, 3), and the rate of errors, searched from this."""
    for _ in range(STEPS):
        any_must = LEVELS * (1.0 - rate) + (1.0 - LEVELS) * rate
        level = softmax(prior + n_must * np.log(any_must) + n_cannot * np.log1p(-any_must), axis=2)
        false_must, false_cannot = (1.0 - LEVELS) * rate / any_must, LEVELS * rate / (1.0 - any_must)
        n_wrong = (level * (n_must * false_must + n_cannot * false_cannot)).sum()
        before, rate = rate, float(np.clip(n_wrong / (n_must + n_cannot).sum(), LEAST_RATE, MOST_WRONG))
        if abs(rate - before) < SETTLED:
            break
    return level, rate


def most_wrong(pairs: PairArrays) -> float:
    """Largest credible share of wrong answers, by what these say of each other.

    A pair whose rows other must-links connect is a check: a wrong answer there makes a contradiction more
    often than not. Many checks without any prove that few are wrong.

    Examples
    --------
    >>> from spherepair.constraints import Constraints
    >>> labels = np.arange(20) // 10
    >>> round(most_wrong(Constraints.from_labels(labels, 150, random_state=0)), 2)
    0.12
    >>> most_wrong(Constraints.from_labels(labels, 15, random_state=0))
    0.4
    """
    graph = build_graph(pairs)
    n_inside = int(np.count_nonzero(graph.left_component == graph.right_component))
    n_checks = n_inside - (len(graph.components.rows) - graph.components.n_components)
    n_contradictions = int(np.count_nonzero(is_contradictory(pairs, graph)))
    seen = (n_contradictions + MISSED) / max(n_checks, 1)
    return min(EXCESS * seen, MOST_WRONG)


def judge_answers(pairs: PairArrays, same: Floats, *, share: float | None = None) -> Judgment:
    """Find the error rates of everybody, and how likely each answer is right.

    Parameters
    ----------
    pairs : Constraints
    same : ndarray of shape (n_pairs,)
        What the neighbors say, see :meth:`Witnesses.same`.
    share : float, optional
        Share of wrong answers where it is known; by default it is estimated.

    Examples
    --------
    Ninety-nine pairs of which the neighbors say that they differ, and one must-link among the answers:

    >>> from spherepair.constraints import Constraints
    >>> rows = np.arange(100)
    >>> pairs = Constraints.from_arrays(rows, rows + 100, rows == 0)
    >>> found = judge_answers(pairs, np.full(100, 0.01), share=0.1)
    >>> found.right.round(2)[:2].tolist()
    [0.08, 1.0]
    """
    must = pairs.is_must_link
    _, pair = np.unique(unordered_pairs(pairs), return_inverse=True)
    errors = ErrorModel.of(pairs)
    prior = _log_odds(same)
    fixed = FIRST_RATE if share is None else max(share, LEAST_RATE)
    alpha = beta = np.full(len(errors.names), fixed)

    def settle(errors: ErrorModel, alpha: Floats, beta: Floats) -> tuple[Floats, Floats, Floats]:
        for _ in range(STEPS if share is None else 1):
            together = prior + np.bincount(pair, errors.evidence(alpha, beta))[pair]
            if share is None:
                before = alpha, beta
                alpha, beta = errors.rates(expit(together))
                if max(np.abs(alpha - before[0]).max(), np.abs(beta - before[1]).max()) < SETTLED:
                    break
        return together, alpha, beta

    together, alpha, beta = settle(errors, alpha, beta)
    idle = _find_idle(errors, together, alpha, beta)
    if idle.any():
        together, *_ = settle(errors.without(idle), alpha, beta)
    together = expit(together)
    right = np.where(must, together, 1.0 - together)
    right[~pairs.is_decided] = 1.0  # what says nothing cannot be wrong
    wrong = _summarize(right, errors, ~idle)
    return Judgment(right, same, wrong, ~idle[errors.person])


def _find_idle(errors: ErrorModel, together: Floats, alpha: Floats, beta: Floats) -> NDArray[np.bool_]:
    """Whose answers say nothing, (n_people,), by the log-odds that pairs are the same.

    Where that would be so of most answers, rather the neighbors say nothing, and nobody is found out so.
    """
    idle = (1.0 - alpha - beta < LEAST_INFORMED) & (errors.answers_of_each >= FEWEST_ANSWERS)
    if len(errors.names) > 1:
        idle |= errors.seem_random(expit(together - errors.evidence(alpha, beta)))
    is_most = np.count_nonzero(idle[errors.person]) > MOST_IDLE * len(errors.person)
    return np.zeros_like(idle) if is_most else idle


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges answers by the clusters of the neighbors of their rows.

    Parameters
    ----------
    pairs : Constraints
    witnesses : Witnesses
    asked : ndarray of shape (n_asked,)
        Positions of all neighbors.
    before : Tensor of shape (n_asked, D)
        Vectors of these before training on pairs.
    share : float or None
        Share of wrong answers where it is known.
    first : ndarray of shape (n_pairs,) or None
        What the neighbors said before, which then counts as much as what they say.
    has_few_must_links : bool
        Whether they are so few that only the surest are trained on at first.
    """

    pairs: PairArrays
    witnesses: Witnesses
    asked: Integers
    before: Tensor
    share: float | None
    first: Floats | None = None
    has_few_must_links: bool = False

    def starting_from(self, first: Floats, *, n_rows: int, n_clusters: int) -> Judge:
        """A judge who trusts must-links less and remembers what the neighbors said, if must-links are few."""
        n_must_links = np.count_nonzero(self.pairs.is_must_link & (self(first).right >= LAST_TRUST))
        if n_must_links >= FEW_MUST_LINKS * n_clusters:
            return self
        has_unpaired = len(self.witnesses.neighbors) <= FEW_ROWS * n_rows
        return replace(self, first=first if has_unpaired else None, has_few_must_links=True)

    def same(self, memberships: NDArray[Any]) -> Floats:
        """What the neighbors say of each pair, (n_pairs,), by their memberships (n_asked, K)."""
        return self.witnesses.same(memberships, self.pairs.is_must_link, self.pairs.is_decided)

    def __call__(self, same: Floats) -> Judgment:
        """What to think of the answers."""
        if self.first is not None:
            same = expit(SHARPENING * 0.5 * (_log_odds(self.first) + _log_odds(same)))
        return judge_answers(self.pairs, same, share=self.share)

    def first_opinion(self, same: Floats) -> Judgment:
        """The same of a training that took all answers for right, if the neighbors can be believed at all."""
        found = self(same)
        if self.share is not None or found.wrong.share <= most_wrong(self.pairs):
            return found
        one = np.ones(len(self.pairs))
        return Judgment(one, 0.5 * one, WrongAnswers(0.0, 0.0, 0.0, 0), one.astype(bool))

    def worth(self, same: Floats, progress: float) -> NDArray[np.float32]:
        """What each answer counts, (n_pairs,), after so much of the training, from 0 to 1."""
        judgment = self(same)
        falling = FIRST_TRUST + (LAST_TRUST - FIRST_TRUST) * progress
        trust = falling if self.has_few_must_links else LAST_TRUST
        is_unsure = self.pairs.is_must_link & (judgment.right < trust)
        return np.where(is_unsure, np.float32(0.0), judgment.worth)


def clip_same(same: Floats) -> Floats:
    """What neighbors say, never surer than they can be."""
    return np.clip(same, LEAST_SAME, MOST_SAME)


def _log_odds(same: Floats) -> Floats:
    odds: Floats = logit(clip_same(same))
    return odds


def _summarize(right: Floats, errors: ErrorModel, informed: NDArray[np.bool_]) -> WrongAnswers:
    must = errors.must

    def share(which: NDArray[np.bool_]) -> float:
        return float((1.0 - right[which]).mean()) if which.any() else 0.0

    people = {}
    if len(errors.names) > 1:
        for number, name in enumerate(errors.names):
            mine = errors.person == number
            people[name] = ErrorRates(
                int(mine.sum()), share(mine & must), share(mine & ~must), bool(informed[number])
            )
    n_suspects = int(np.count_nonzero(right < 0.5))
    return WrongAnswers(share(must | ~must), share(must), share(~must), n_suspects, people)

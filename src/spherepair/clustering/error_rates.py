"""How often each person errs, and what an answer is evidence for.

alpha = P(cannot-link | the same),   beta = P(must-link | different)

Somebody who answers at random, or always the same, has alpha + beta = 1. With few answers the rates of a
person are mostly those of all, so two explanations of the answers are compared: that the person knows
something, alpha + beta <= 0.65, or nothing, and says "the same" at one rate whatever is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.constraints.pair_arrays import PairArrays

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Strength, in answers, with which the two rates are drawn to each other, and a person's to those of all.
COUPLING = 25.0
#: The smallest rate.
LEAST_RATE = 1e-6
#: Rates that are tried for somebody who knows something, and the largest sum of two.
RATES, LARGEST_SUM = np.arange(0.01, 0.65, 0.04), 0.65
#: Somebody answers at random if that explains so many answers better by so many nats, and others deny such
#: a share: who was asked about pairs of one kind may always answer the same, and be right.
MANY_ANSWERS, RANDOM_NATS, LEAST_DENIED = 50, 1.5, 0.3
#: Probabilities are rounded to one of so many.
N_BINS = 50


@dataclass(frozen=True)
class ErrorRates:
    """Estimated shares of wrong answers of one person.

    Attributes
    ----------
    n_answers : int
    must_link, cannot_link : float
        Share of the must-links and of the cannot-links that are wrong.
    is_informative : bool
        Whether the answers say anything; those of somebody who answers at random do not.
    """

    n_answers: int
    must_link: float
    cannot_link: float
    is_informative: bool = True


@dataclass(frozen=True)
class WrongAnswers:
    """Estimated shares of wrong answers; prints as one sentence.

    Attributes
    ----------
    share : float
        Of all answers.
    must_link, cannot_link : float
        Of the must-links and of the cannot-links.
    n_suspects : int
        Answers that are more likely wrong than right.
    people : dict of str to ErrorRates
        By person, where several are known.

    Examples
    --------
    >>> print(WrongAnswers(0.09, 0.4, 0.02, 87))
    about 9 % of the answers are wrong; 87 are worth a second look
    """

    share: float
    must_link: float
    cannot_link: float
    n_suspects: int
    people: Mapping[str, ErrorRates] = field(default_factory=dict)

    def __str__(self) -> str:
        share = "less than 1" if self.share < 0.01 else f"about {100 * self.share:.0f}"
        look = "1 is" if self.n_suspects == 1 else f"{self.n_suspects} are"
        text = f"{share} % of the answers are wrong; {look} worth a second look"
        text = text if self.n_suspects else "no answer seems wrong"
        idle = [name or "nobody" for name, rates in self.people.items() if not rates.is_informative]
        return f"{text}; those of {', '.join(idle)} say nothing" if idle else text

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WrongAnswers:
        """Rebuild it from :meth:`to_dict`."""
        people = {name: ErrorRates(**rates) for name, rates in values["people"].items()}
        return cls(**{**values, "people": people})


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """The answers, and who gave them.

    Attributes
    ----------
    must : ndarray of bool, shape (n_pairs,)
    person : ndarray of shape (n_pairs,)
        Whose answer each is.
    sure : ndarray of shape (n_pairs,)
        From 1 to 0: an answer of value 0.5 says nothing.
    names : sequence of str
        Of the people; one name for all where not more are known.
    """

    must: NDArray[np.bool_]
    person: Integers
    sure: Floats
    names: Sequence[str]

    @classmethod
    def of(cls, pairs: PairArrays) -> ErrorModel:
        """The answers of these pairs."""
        names, person = [""], np.zeros(len(pairs), np.int64)
        if pairs.details.by is not None:
            found, person = np.unique(pairs.by.astype(str), return_inverse=True)
            names = found.tolist()
        return cls(pairs.is_must_link, person.astype(np.int64), np.abs(2.0 * pairs.value - 1.0), names)

    @property
    def answers_of_each(self) -> Integers:
        """How many answers everybody gave, (n_people,)."""
        return np.bincount(self.person, minlength=len(self.names))

    def without(self, idle: NDArray[np.bool_]) -> ErrorModel:
        """The same, where the answers of these people say nothing."""
        return replace(self, sure=np.where(idle[self.person], 0.0, self.sure))

    def evidence(self, alpha: Floats, beta: Floats) -> Floats:
        """Log-odds of "the same" that each answer adds, (n_pairs,), by the rates of everybody."""
        for_must, for_cannot = np.log((1.0 - alpha) / beta), np.log(alpha / (1.0 - beta))
        return self.sure * np.where(self.must, for_must[self.person], for_cannot[self.person])

    def rates(self, together: Floats) -> tuple[Floats, Floats]:
        """Alpha and beta of everybody, (n_people,), where pairs are the same with these probabilities."""
        apart = 1.0 - together
        n_same, n_apart = self._count(together), self._count(apart)
        false_cannot, false_must = self._count(together * ~self.must), self._count(apart * self.must)
        common = (false_cannot.sum() + false_must.sum()) / max(n_same.sum() + n_apart.sum(), 1.0)
        return self._rate(false_cannot, n_same, common), self._rate(false_must, n_apart, common)

    def seem_random(self, together: Floats) -> NDArray[np.bool_]:
        """Whose answers say nothing, (n_people,), where by all others pairs are the same so probably.

        Examples
        --------
        Two people and 100 pairs each, of which one in four is the same; the second says so of every other:

        >>> same, is_even = np.arange(100) // 2 % 4 == 0, np.arange(100) % 2 == 0
        >>> people = np.repeat([0, 1], 100)
        >>> errors = ErrorModel(np.append(same, is_even), people, np.ones(200), ["ann", "bob"])
        >>> errors.seem_random(np.tile(np.where(same, 0.9, 0.02), 2)).tolist()
        [False, True]
        """
        n_must, n_cannot = self._histogram(together, self.must), self._histogram(together, ~self.must)
        alpha, beta = np.meshgrid(RATES, RATES)
        knows = alpha + beta <= LARGEST_SUM
        level = (np.arange(N_BINS) + 0.5)[:, None] / N_BINS
        any_must = level * (1.0 - alpha[knows]) + (1.0 - level) * beta[knows]  # (levels, rates)
        informed = (n_must @ np.log(any_must) + n_cannot @ np.log1p(-any_must)).max(axis=1)
        counts = np.stack([n_must.sum(axis=1), n_cannot.sum(axis=1)])
        shares = counts / np.maximum(counts.sum(axis=0), LEAST_RATE)
        random = (counts * np.log(np.maximum(shares, LEAST_RATE))).sum(axis=0)
        n_denied = self._count(np.where(self.must, 1.0 - together, together))
        is_denied = n_denied >= LEAST_DENIED * self._count(np.ones_like(together))
        has_many = self.answers_of_each >= MANY_ANSWERS
        seem: NDArray[np.bool_] = has_many & is_denied & (random > informed + RANDOM_NATS)
        return seem

    def _histogram(self, together: Floats, which: NDArray[np.bool_]) -> Floats:
        """How many of these answers everybody gave, by how probably a pair is the same: (people, levels)."""
        level = np.minimum((together * N_BINS).astype(np.int64), N_BINS - 1)
        size = len(self.names) * N_BINS
        counts = np.bincount(self.person * N_BINS + level, self.sure * which, minlength=size)
        return counts.reshape(len(self.names), N_BINS).astype(np.float64)

    def _count(self, amount: Floats) -> Floats:
        return np.bincount(self.person, self.sure * amount, minlength=len(self.names)).astype(np.float64)

    def _rate(self, n_false: Floats, n_all: Floats, common: float) -> Floats:
        of_all = (n_false.sum() + COUPLING * common) / (n_all.sum() + COUPLING)
        each = (n_false + COUPLING * of_all) / (n_all + COUPLING)
        rate = each if len(self.names) > 1 else np.array([of_all])
        clipped: Floats = np.clip(rate, LEAST_RATE, 1.0 - LEAST_RATE)
        return clipped

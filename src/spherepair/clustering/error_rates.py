"""How often each person errs, and what an answer is evidence for.

alpha = P(cannot-link | the same),   beta = P(must-link | different)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherepair.constraints.pair_arrays import PairArrays

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Strength, in answers, with which the two rates are drawn to each other, and a person's to those of all.
COUPLING = 25.0
#: The smallest rate.
LEAST_RATE = 1e-6


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

    def _count(self, amount: Floats) -> Floats:
        return np.bincount(self.person, self.sure * amount, minlength=len(self.names)).astype(np.float64)

    def _rate(self, n_false: Floats, n_all: Floats, common: float) -> Floats:
        of_all = (n_false.sum() + COUPLING * common) / (n_all.sum() + COUPLING)
        each = (n_false + COUPLING * of_all) / (n_all + COUPLING)
        rate = each if len(self.names) > 1 else np.array([of_all])
        clipped: Floats = np.clip(rate, LEAST_RATE, 1.0 - LEAST_RATE)
        return clipped

"""How many clusters an embedding has, with a curve, rivals and a statement of how sure it is.

The paper infers K from geometry: the tail-averaged angle δ̄_d of cannot-linked pairs in the first d
principal components rises until d = K - 1 and is flat from there on (corollary on δ_d and
Algorithm 2), but reads the onset off the curve by eye. Here every method gives each candidate a
share of the evidence; how they were derived is in ``docs/cluster-number.md``. Where to look:

- ``tail_angles``: the curve of Algorithm 2 and the marks of its plateau
- ``partition_scan``, ``pair_counts``: how far apart K' clusters are and what the pairs say about them
- ``silhouette``, ``lifetime``: the paper's two alternatives
- ``consensus``: from all this to shares of the evidence
- ``doubts``, ``number_sentences``: reasons to lower the confidence, and the sentence
- ``number_settings``: every constant; ``number_inputs``: checks of what is given
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.clustering import number_settings as settings
from spherepair.clustering.consensus import (
    Problem,
    Verdict,
    consensus_verdict,
    lifetime_verdict,
    silhouette_verdict,
    tail_angle_verdict,
)
from spherepair.clustering.doubts import Doubt, find_doubts
from spherepair.clustering.number_inputs import checked_limits, unit_rows, usable_links
from spherepair.clustering.number_sentences import explain, explain_without_cannot_links
from spherepair.errors import InvalidParameterError

Method = Literal["tail-angle", "silhouette", "lifetime", "consensus"]
Floats = NDArray[np.float64]

_VERDICTS: dict[str, Callable[[Problem], Verdict]] = {
    "tail-angle": tail_angle_verdict,
    "silhouette": silhouette_verdict,
    "lifetime": lifetime_verdict,
    "consensus": consensus_verdict,
}


class Pairs(Protocol):
    """What is asked of constraints: arrays of the same length."""

    @property
    def left(self) -> Any:
        """Row numbers of the first ends."""

    @property
    def right(self) -> Any:
        """Row numbers of the second ends."""

    @property
    def is_must_link(self) -> Any:
        """True for must-links, false for cannot-links."""

    @property
    def weight(self) -> Any:
        """How much each pair counts."""


@dataclass(frozen=True)
class Candidate:
    """One possible number of clusters and its share of the evidence."""

    value: int
    weight: float


@dataclass(frozen=True)
class ClusterNumber:
    """The inferred number of clusters.

    Attributes
    ----------
    value : int
        The number of clusters that most of the evidence points to.
    method : str
        The method that was used.
    curve : ndarray
        δ̄_d in radians for d = 1..D (tail-angle, consensus), or the score of K' = 2, 3, ..
        (silhouette, lifetime).
    curve_spread : ndarray
        Standard deviation of the curve over resampled pairs or runs, same shape.
    candidates : tuple of Candidate
        Sorted by weight, the largest first; the weights sum to one.
    confidence : float
        The share of the best candidate, averaged over tail ratios and resampled pairs, or less where
        something is known to hide clusters. At least nine in ten answers above 0.9 should be right.
    explanation : str
        One plain sentence.
    """

    value: int
    method: str
    curve: Floats
    curve_spread: Floats
    candidates: tuple[Candidate, ...]
    confidence: float
    explanation: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "value": self.value,
            "method": self.method,
            "curve": self.curve.tolist(),
            "curve_spread": self.curve_spread.tolist(),
            "candidates": [{"value": c.value, "weight": c.weight} for c in self.candidates],
            "confidence": self.confidence,
            "explanation": self.explanation,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ClusterNumber:
        """Build it again from :meth:`to_dict`."""
        return cls(
            value=int(values["value"]),
            method=str(values["method"]),
            curve=np.asarray(values["curve"], dtype=float),
            curve_spread=np.asarray(values["curve_spread"], dtype=float),
            candidates=tuple(Candidate(int(c["value"]), float(c["weight"])) for c in values["candidates"]),
            confidence=float(values["confidence"]),
            explanation=str(values["explanation"]),
        )


def infer_n_clusters(
    embedding: ArrayLike,
    constraints: Pairs | None,
    *,
    method: Method = "consensus",
    tail_ratio: float = 0.05,
    max_clusters: int | None = None,
    n_resamples: int = 20,
    n_rows: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> ClusterNumber:
    """Infer the number of clusters K of an embedding from its geometry and its pairs.

    Parameters
    ----------
    embedding : array-like of shape (n, D)
        Rows of a SpherePair embedding; only their directions matter.
    constraints : Constraints or None
        Pairs with arrays ``left``, ``right``, ``is_must_link`` and ``weight``. Without cannot-links
        the silhouette decides, with a low confidence.
    method : {"tail-angle", "silhouette", "lifetime", "consensus"}
        The paper's Algorithm 2, its two alternatives, or all evidence together.
    tail_ratio : float
        ρ, the share of smallest angles that is averaged; curves for 0.6 ρ to 2 ρ are used.
    max_clusters : int, optional
        Largest number to consider; D when missing, and never more: the theory needs D >= K.
    n_resamples : int
        Bootstrap samples of the pairs; fewer are drawn when the pairs are very many.
    n_rows : int, optional
        Rows that the methods "silhouette" (in each of five runs) and "lifetime" look at, at most; 5,000
        and 15,000 when missing. Ward's time grows with the square: minutes for 60,000.
    random_state : int, numpy.random.Generator or None
        Makes the samples reproducible.

    Returns
    -------
    ClusterNumber

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(4, size=600)
    >>> rows = np.eye(10)[labels] + 0.05 * rng.normal(size=(600, 10))
    >>> left, right = rng.integers(600, size=(2, 500))
    >>> pairs = SimpleNamespace(left=left, right=right, weight=np.ones(500),
    ...     is_must_link=labels[left] == labels[right])
    >>> infer_n_clusters(rows, pairs, random_state=0).value
    4
    """
    if method not in _VERDICTS:
        raise InvalidParameterError(f"method must be one of {[*_VERDICTS]}, got {method!r} instead.")
    rng = np.random.default_rng(random_state)
    rows = unit_rows(embedding)
    largest = checked_limits(
        rows, tail_ratio=tail_ratio, max_clusters=max_clusters, n_resamples=n_resamples, n_rows=n_rows
    )
    links = usable_links(constraints, rows, rng=rng)
    apart = links.cannot_link
    largest = max(2, min(largest, len(np.unique(apart)) - 1)) if len(apart) else largest
    problem = Problem(rows, links, tail_ratio, largest, n_resamples, n_rows, rng)
    if len(apart) == 0:
        return _without_cannot_links(problem, method)
    return _with_cannot_links(problem, method)


def _with_cannot_links(problem: Problem, method: str) -> ClusterNumber:
    verdict = _VERDICTS[method](problem)
    value = int(verdict.shares.argmax()) + 2
    doubts = find_doubts(
        problem.rows,
        problem.links,
        n_clusters=value,
        shares=verdict.shares,
        rng=problem.rng,
    )
    return _result(verdict, method, doubts=doubts, n_pairs=len(problem.links.cannot_link))


def _result(verdict: Verdict, method: str, *, doubts: list[Doubt], n_pairs: int) -> ClusterNumber:
    candidates = _candidates(verdict.shares)
    confidence = min([candidates[0].weight, *(doubt.ceiling for doubt in doubts)])
    return ClusterNumber(
        value=candidates[0].value,
        method=method,
        curve=verdict.curve,
        curve_spread=verdict.spread,
        candidates=candidates,
        confidence=confidence,
        explanation=explain(
            [(c.value, c.weight) for c in candidates],
            confidence,
            method=method,
            curve=verdict.curve,
            doubts=doubts,
            n_pairs=n_pairs,
        ),
    )


def _without_cannot_links(problem: Problem, method: str) -> ClusterNumber:
    """Use the silhouette, or say one cluster where training has drawn all rows together."""
    together = float(np.linalg.norm(problem.rows.mean(axis=0))) > settings.ONE_CLUSTER_COSINE
    if together or len(problem.rows) < 3:
        empty = np.zeros(0)
        verdict, first = Verdict(empty, empty, np.ones(1)), 1
    else:
        verdict, first = silhouette_verdict(problem), 2
    candidates = _candidates(verdict.shares, first=first)
    return ClusterNumber(
        value=candidates[0].value,
        method=method if first == 1 else "silhouette",
        curve=verdict.curve,
        curve_spread=verdict.spread,
        candidates=candidates,
        confidence=min(candidates[0].weight, settings.CEILING_NO_CANNOT_LINKS),
        explanation=explain_without_cannot_links(candidates[0].value),
    )


def _candidates(shares: Floats, *, first: int = 2) -> tuple[Candidate, ...]:
    order = np.argsort(-shares, kind="stable")
    return tuple(Candidate(int(place) + first, float(shares[place])) for place in order)

"""Clustering of embeddings; here the decision how many clusters there are, and how sure it is.

The paper infers K from geometry: the tail angle of cannot-links in the first d principal components rises
until d = K - 1 and is flat from there on (Corollary 4.7, Algorithm 2). It reads the onset off the curve by
eye; here the decision is made in four steps:

1. ``number_evidence`` gives features of every candidate K': the angles (``tail_angles``), the geometry of
   partitions (``partitions``) and the counts of the pairs (``pair_counts``);
2. the weighted features of a candidate are its score, and the softmax of the scores its share of the
   evidence (conditional logit), averaged over tail ratios and resamples of the pairs;
3. numbers below that of the groups which the pairs prove to differ are out; of the others the candidate with
   the largest share is the answer, and its share the confidence;
4. ``confidence_checks`` lower the confidence where clusters may be hidden.

Counts hold for random pairs only. Where pairs were chosen (``chosen_pairs``), other features decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.clustering.confidence_checks import Finding, check_confidence, round_up
from spherepair.clustering.number_evidence import (
    Evidence,
    Pairs,
    Problem,
    angle_evidence,
    consensus_evidence,
    lifetime_evidence,
    prepare_problem,
    silhouette_evidence,
)
from spherepair.errors import InvalidParameterError, quoted

Method = Literal["tail-angle", "silhouette", "lifetime", "consensus"]
Floats = NDArray[np.float64]

_EVIDENCE: dict[str, Callable[[Problem], Evidence]] = {
    "tail-angle": angle_evidence,
    "silhouette": silhouette_evidence,
    "lifetime": lifetime_evidence,
    "consensus": consensus_evidence,
}
#: Weights of the features: signs from the theory, sizes fitted by bench/cluster_number_fit.py.
WEIGHTS: dict[str, dict[str, float]] = {
    "tail-angle": {"rise_into": 1.68, "rise_after": -1.77, "below_band": -0.84},
    "silhouette": {"silhouette": 6.74},
    "lifetime": {"lifetime": 2.93},
    "consensus": {"rise_after": -0.5, "counted": 1.31, "sized": 0.91, "merged": -0.64, "gap": 0.91},
}
#: Weights of the consensus where the pairs were chosen, from digits, wine, blobs and simulations.
CHOSEN_WEIGHTS = {"rise_after": -0.5, "violated": 0.5, "gap": 2.0, "unseen": 1.31}

#: Answers of this confidence or more need no remedy.
SURE = 0.9
#: Other numbers with a larger share than this are plausible, two of them at most.
PLAUSIBLE_SHARE = 0.1
#: Largest confidence without cannot-links.
CEILING_NO_CANNOT_LINKS = 0.4
#: Without cannot-links, rows whose mean is longer than this (a cosine) are one cluster.
ONE_CLUSTER_COSINE = 0.95


@dataclass(frozen=True)
class Candidate:
    """One possible number of clusters and its share of the evidence."""

    value: int
    weight: float


@dataclass(frozen=True, repr=False)
class ClusterNumber:
    """The inferred number of clusters; prints as one line.

    Attributes
    ----------
    value : int
        The number of clusters with the largest share of the evidence.
    method : str
        The method that was used.
    curve : ndarray
        Tail angle in radians for d = 1..D (tail-angle, consensus), or the score of K' = 2, 3, ..
        (silhouette, lifetime).
    curve_spread : ndarray
        Standard deviation of the curve over resampled pairs or runs, same shape.
    candidates : tuple of Candidate
        Largest weight first; the weights sum to one.
    confidence : float
        Weight of the best candidate, lowered where clusters may be hidden. Of the answers above 0.9 at
        least nine in ten should be right.
    explanation : str
        The answer, the other plausible numbers and what would help, in plain words.
    proved : int
        Groups of rows that the pairs prove to differ from each other; the value is never below. Where pairs
        may be wrong, one of them alone proves nothing.

    Examples
    --------
    >>> candidates = (Candidate(10, 0.87), Candidate(14, 0.13))
    >>> ClusterNumber(10, "consensus", np.zeros(0), np.zeros(0), candidates, 0.87, "")
    10 clusters (confidence 0.87); also plausible: 14
    """

    value: int
    method: str
    curve: Floats
    curve_spread: Floats
    candidates: tuple[Candidate, ...]
    confidence: float
    explanation: str
    proved: int = 1

    def __repr__(self) -> str:
        others = _plausible(self.candidates)
        also = f"; also plausible: {', '.join(map(str, others))}" if others else ""
        return f"{_clusters(self.value)} (confidence {self.confidence:.2f}){also}"

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
            "proved": self.proved,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ClusterNumber:
        """Rebuild it from :meth:`to_dict`."""
        return cls(
            value=int(values["value"]),
            method=str(values["method"]),
            curve=np.asarray(values["curve"], dtype=float),
            curve_spread=np.asarray(values["curve_spread"], dtype=float),
            candidates=tuple(Candidate(int(c["value"]), float(c["weight"])) for c in values["candidates"]),
            confidence=float(values["confidence"]),
            explanation=str(values["explanation"]),
            proved=int(values.get("proved", 1)),  # older files do not say
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
    may_be_wrong: bool = False,
) -> ClusterNumber:
    """Infer the number of clusters K of an embedding from its geometry and its pairs.

    Parameters
    ----------
    embedding : array-like of shape (n, D)
        Rows of a SpherePair embedding; only their directions matter.
    constraints : Constraints or None
        Pairs with arrays ``left``, ``right``, ``is_must_link`` and ``weight``. Without cannot-links the
        silhouette decides, with a low confidence.
    method : {"tail-angle", "silhouette", "lifetime", "consensus"}
        The paper's Algorithm 2, its two alternatives, or angles, Ward trees and pair counts together.
    tail_ratio : float
        Share of the smallest angles that is averaged (rho); 0.6 to 2 times this share are tried.
    max_clusters : int, optional
        Largest number to consider; at most D, the default, because the theory needs D >= K.
    n_resamples : int
        Bootstrap samples of the pairs; fewer are drawn if there are very many pairs.
    n_rows : int, optional
        Most rows for the methods "silhouette" (5,000 by default, in each of five runs) and "lifetime" (15,000
        by default; its time grows with the square, minutes for 60,000).
    random_state : int, numpy.random.Generator or None
        Random seed.
    may_be_wrong : bool, default=False
        Whether some of the pairs may be wrong; then one alone proves nothing.

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
    >>> infer_n_clusters(rows, pairs, random_state=0)
    4 clusters (confidence 1.00)
    """
    if method not in _EVIDENCE:
        raise InvalidParameterError(f"method must be one of {[*_EVIDENCE]}, got {quoted(method)} instead.")
    problem = prepare_problem(
        embedding,
        constraints,
        tail_ratio=tail_ratio,
        max_clusters=max_clusters,
        n_resamples=n_resamples,
        n_rows=n_rows,
        random_state=random_state,
        may_be_wrong=may_be_wrong,
    )
    if len(problem.links.cannot_link) == 0:
        return _decide_without_cannot_links(problem, method)
    return _decide(problem, method)


def _decide(problem: Problem, method: str) -> ClusterNumber:
    """Weigh the evidence, take the best possible candidate, and check how far to trust it."""
    evidence = _EVIDENCE[method](problem)
    proved = problem.proved
    weights = CHOSEN_WEIGHTS if evidence.is_of_chosen_pairs else WEIGHTS[method]
    shares = possible_shares(candidate_shares(evidence.features, weights), proved.n_groups)
    candidates = _ranked(shares, first=2)
    findings = check_confidence(
        problem.rows,
        problem.links,
        n_clusters=candidates[0].value,
        shares=shares,
        rng=problem.rng,
        proved=proved if evidence.is_of_chosen_pairs or problem.repeats_rows else None,
    )
    confidence = min([candidates[0].weight, *(finding.ceiling for finding in findings)])
    return ClusterNumber(
        value=candidates[0].value,
        method=method,
        curve=evidence.curve,
        curve_spread=evidence.spread,
        candidates=candidates,
        confidence=confidence,
        explanation=_explain(
            candidates,
            confidence,
            reason=_REASONS[method],
            remedy=_remedy(candidates, findings, n_pairs=len(problem.links.cannot_link)),
        ),
        proved=proved.n_groups,
    )


def _decide_without_cannot_links(problem: Problem, method: str) -> ClusterNumber:
    """Let the silhouette decide, or say one cluster where training has drawn all rows together."""
    together = float(np.linalg.norm(problem.rows.mean(axis=0))) > ONE_CLUSTER_COSINE
    if together or len(problem.rows) < 3:
        evidence = Evidence(np.zeros(0), np.zeros(0), {})
        candidates: tuple[Candidate, ...] = (Candidate(1, 1.0),)
        reason = "There are no cannot-links, and all rows point the same way"
    else:
        method, evidence = "silhouette", silhouette_evidence(problem)
        candidates = _ranked(candidate_shares(evidence.features, WEIGHTS[method]), first=2)
        reason = "There are no cannot-links, so only the silhouette could decide"
    confidence = min(candidates[0].weight, CEILING_NO_CANNOT_LINKS)
    remedy = f"{reason}; add cannot-links between rows that differ."
    return ClusterNumber(
        value=candidates[0].value,
        method=method,
        curve=evidence.curve,
        curve_spread=evidence.spread,
        candidates=candidates,
        confidence=confidence,
        explanation=_explain(candidates, confidence, reason="", remedy=remedy),
    )


def candidate_shares(features: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    """Shares of the evidence, averaged over resamples: where these disagree, the best share falls.

    Parameters
    ----------
    features : mapping of str to ndarray of shape (..., n_candidates)
        Leading axes are tail ratios and resamples; they are broadcast against each other.
    weights : mapping of str to float
        One per feature that is to be used.

    Returns
    -------
    ndarray of shape (n_candidates,)

    Examples
    --------
    >>> candidate_shares({"gap": np.array([0.0, 2.0, 0.0])}, {"gap": 1.0}).round(2).tolist()
    [0.11, 0.79, 0.11]
    """
    scores = sum(weight * features[name] for name, weight in weights.items())
    table = np.asarray(scores).reshape(-1, np.shape(scores)[-1])  # (ratios * resamples, candidates)
    shares = np.exp(table - table.max(axis=1, keepdims=True))
    mean: Floats = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return mean


def possible_shares(shares: Floats, n_proved: int) -> Floats:
    """Shares of K' = 2, 3, .. without the numbers below ``n_proved``, which the pairs refute.

    Examples
    --------
    >>> possible_shares(np.array([0.5, 0.25, 0.25]), 3).tolist()
    [0.0, 0.5, 0.5]
    >>> possible_shares(np.array([0.6, 0.4]), 5).tolist()  # beyond the candidates
    [0.0, 0.0, 0.0, 1.0]
    """
    if n_proved <= 2:
        return shares
    possible = np.append(shares, np.zeros(max(0, n_proved - 1 - len(shares))))
    possible[: n_proved - 2] = 0.0
    if possible.sum() == 0:
        possible[n_proved - 2] = 1.0
    return np.asarray(possible / possible.sum())


def _ranked(shares: Floats, *, first: int) -> tuple[Candidate, ...]:
    """Candidates first, first + 1, .. by falling share."""
    order = np.argsort(-shares, kind="stable")
    return tuple(Candidate(int(i) + first, float(shares[i])) for i in order)


_REASONS = {
    "tail-angle": "the angles between cannot-linked rows level off there",
    "consensus": "the angles, the partitions and the pairs agree",
    "silhouette": "k-means has its best silhouette there",
    "lifetime": "the Ward tree has its longest gap there",
}


def _explain(candidates: tuple[Candidate, ...], confidence: float, *, reason: str, remedy: str) -> str:
    """Say what was found, how sure it is and, if it is not, what would help."""
    value = candidates[0].value
    if confidence >= SURE:
        return f"{_clusters(value)} (confidence {confidence:.2f}): {reason}."
    others = _plausible(candidates)
    verb = "is" if len(others) == 1 else "are"
    also = f"; {' and '.join(map(str, others))} {verb} also plausible" if others else ""
    return f"Best estimate {value} (confidence {confidence:.2f}){also}. {remedy}"


def _remedy(candidates: tuple[Candidate, ...], findings: list[Finding], *, n_pairs: int) -> str:
    if findings:
        return " ".join(map(str, [findings[0], *(f for f in findings[1:] if f.is_essential)]))
    odds = np.log(candidates[0].weight / max(candidates[1].weight, 1e-9)) if len(candidates) > 1 else 1.0
    # The evidence of pairs grows with their number: so many more would give odds of 19 to 1.
    growth = float(np.clip(np.log(19.0) / max(odds, 0.1) - 1.0, 0.25, 4.0))
    return f"About {round_up(int(growth * n_pairs))} more cannot-links would help."


def _plausible(candidates: tuple[Candidate, ...]) -> list[int]:
    return sorted(c.value for c in candidates[1:3] if c.weight > PLAUSIBLE_SHARE)


def _clusters(value: int) -> str:
    return "1 cluster" if value == 1 else f"{value} clusters"

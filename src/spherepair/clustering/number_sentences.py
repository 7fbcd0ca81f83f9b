"""The sentence that explains an inferred number of clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.doubts import Doubt, round_up

Floats = NDArray[np.float64]

_FOUND = {
    "tail-angle": "the angles between cannot-linked rows stop growing at {onset} dimensions ({angle:.0f}°)",
    "consensus": "angles, partitions and counts of the pairs weighed together point to it",
    "silhouette": "K-means into that many clusters has the best silhouette",
    "lifetime": "the Ward tree keeps that many clusters longest",
}


def explain(
    candidates: list[tuple[int, float]],
    confidence: float,
    *,
    method: str,
    curve: Floats,
    doubts: list[Doubt],
    n_pairs: int,
) -> str:
    """Say in one sentence what was found, how sure it is and what would help.

    Parameters
    ----------
    candidates : list of (value, share)
        The best first.
    confidence : float
    method : str
    curve : ndarray
        δ̄_d in radians for the tail angles.
    doubts : list of Doubt
        The gravest first.
    n_pairs : int
        Cannot-links that were used.

    Examples
    --------
    >>> explain([(4, 0.97), (5, 0.03)], 0.97, method="silhouette", curve=np.zeros(5), doubts=[],
    ...     n_pairs=500)
    '4 clusters (confidence 0.97): K-means into that many clusters has the best silhouette.'
    """
    value = candidates[0][0]
    angle = np.degrees(curve[min(value - 1, len(curve)) - 1]) if len(curve) else 0.0
    found = _FOUND[method].format(onset=value - 1, angle=angle)
    if confidence >= 0.9:
        return f"{value} clusters (confidence {confidence:.2f}): {found}."
    guess = "Probably" if confidence >= 0.5 else "Perhaps"
    start = f"{guess} {value} clusters (confidence {confidence:.2f}{_rivals(candidates)}): {found}"
    return f"{start}, but {_doubt(candidates, doubts, n_pairs=n_pairs)}."


def explain_without_cannot_links(value: int) -> str:
    """Say why the answer is a guess.

    Examples
    --------
    >>> explain_without_cannot_links(1)[:40]
    'Perhaps 1 cluster: there are no cannot-l'
    """
    if value == 1:
        seen = "1 cluster: there are no cannot-links and all rows point the same way"
    else:
        seen = f"{value} clusters: there are no cannot-links, so only the silhouette could decide"
    return f"Perhaps {seen}; some cannot-links between rows that differ would settle it."


def _rivals(candidates: list[tuple[int, float]]) -> str:
    others = sorted(value for value, share in candidates[1:3] if share > 0.1)
    return f"; {' or '.join(map(str, others))} is possible too" if others else ""


def _doubt(candidates: list[tuple[int, float]], doubts: list[Doubt], *, n_pairs: int) -> str:
    if doubts:
        return f"{doubts[0].reason}: {doubts[0].remedy}"
    rival = candidates[1][0] if len(candidates) > 1 else candidates[0][0] + 1
    # The evidence of pairs grows with their number: so many more would make odds of 19 to 1.
    odds = np.log(candidates[0][1] / max(candidates[1][1], 1e-9)) if len(candidates) > 1 else 1.0
    growth = float(np.clip(np.log(19.0) / max(odds, 0.1) - 1.0, 0.25, 4.0))
    return (
        f"{rival} cannot be ruled out: about {round_up(int(growth * n_pairs))} more cannot-links would help"
    )

"""From evidence to shares: a log-linear pool over the possible numbers of clusters.

Each candidate K' has a few features (how much the curve rises into it, what the pairs say against
it, ..). Their weighted sum is its score, and the shares are the scores' softmax: the conditional
logit model. The coefficients are in ``number_settings``, fitted on trained and simulated embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """What one method says.

    Attributes
    ----------
    curve, spread : ndarray of shape (n_points,)
        The method's curve and its standard deviation over resamples or runs.
    shares : ndarray of shape (n_candidates,)
        Share of the evidence for K' = 2, 3, ..; they sum to one.
    """

    curve: Floats
    spread: Floats
    shares: Floats


def candidate_shares(features: Mapping[str, Floats], coefficients: Mapping[str, float]) -> Floats:
    """Pool features into shares, averaged over resamples: disagreement among them flattens it.

    Parameters
    ----------
    features : mapping of str to ndarray of shape (..., n_candidates)
        Leading axes are resamples; they are broadcast against each other.
    coefficients : mapping of str to float
        One per feature that is to be used.

    Returns
    -------
    ndarray of shape (n_candidates,)

    Examples
    --------
    >>> candidate_shares({"gap": np.array([0.0, 2.0, 0.0])}, {"gap": 1.0}).round(2).tolist()
    [0.11, 0.79, 0.11]
    """
    scores = sum(coefficient * features[name] for name, coefficient in coefficients.items())
    table = np.asarray(scores).reshape(-1, np.shape(scores)[-1])  # (resamples, candidates)
    shares = np.exp(table - table.max(axis=1, keepdims=True))
    mean: Floats = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return mean

"""Where tail-angle curves stop rising: evidence for each onset d* = K - 1 of the plateau.

The corollary on δ_d says what the curve does: it starts at 0 for K > 2 (at π for K = 2), rises up
to d = K - 1 and stays at one level above π/3. Noise and residual loss add a slow further rise,
class imbalance lowers the level. An onset at d is therefore likely when the curve still rises
*into* d, hardly rises *after* it and is above π/3. With δ̄_0 = 0 the case K = 2 is no exception:
the whole rise happens at d = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.number_settings import ANGLE_RESOLUTION

Floats = NDArray[np.float64]

LOWEST_PLATEAU = np.pi / 3


def plateau_features(curves: Floats) -> dict[str, Floats]:
    """Describe every possible onset of every curve.

    Parameters
    ----------
    curves : ndarray of shape (..., D)
        δ̄_d in radians for d = 1..D.

    Returns
    -------
    dict of str to ndarray of shape (..., D)
        ``rise_into``, ``rise_after``: logarithms of the step into d and of the largest step after
        it; ``below_band``: how far the curve is below π/3 at d, in radians.

    Examples
    --------
    >>> features = plateau_features(np.array([0.0, 0.8, 1.5, 1.5, 1.5]))
    >>> int((features["rise_into"] - features["rise_after"]).argmax()) + 1
    3
    """
    steps = np.maximum(np.diff(curves, axis=-1, prepend=0.0), 0.0)
    next_steps = np.concatenate([steps[..., 1:], np.zeros_like(steps[..., :1])], axis=-1)
    largest_after = np.maximum.accumulate(next_steps[..., ::-1], axis=-1)[..., ::-1]
    return {
        "rise_into": np.log(steps + ANGLE_RESOLUTION),
        "rise_after": np.log(largest_after + ANGLE_RESOLUTION),
        "below_band": np.maximum(LOWEST_PLATEAU - curves, 0.0),
    }

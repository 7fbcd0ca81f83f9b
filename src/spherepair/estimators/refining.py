"""How much effort a refinement makes: more where more of what is new is wrong."""

from __future__ import annotations

import math

#: The share of new pairs that a model has wrong from which on a refinement makes its full effort: so many
#: steps at the rate of a fit.
MUCH_WRONG, REFINE_STEPS = 1 / 3, 160
#: Its least effort as a part of that, and how often it shows every pair at least.
LEAST_EFFORT, LEAST_REFINE_EPOCHS = 0.3, 4


def effort(share_wrong: float) -> float:
    """Factor of a refinement's steps and rate: the least up to a tenth wrong, one from a third on.

    Examples
    --------
    >>> effort(0.0), round(effort(0.2), 6), effort(0.5)
    (0.3, 0.6, 1.0)
    """
    return max(LEAST_EFFORT, min(1.0, share_wrong / MUCH_WRONG))


def enough_epochs(share_wrong: float, steps_per_epoch: int) -> int:
    """Some steps are enough, fewer where there is little to change; every pair is seen a few times.

    Examples
    --------
    >>> enough_epochs(0.0, 20), enough_epochs(0.5, 20), enough_epochs(0.5, 4000)
    (4, 8, 4)
    """
    return max(LEAST_REFINE_EPOCHS, math.ceil(effort(share_wrong) * REFINE_STEPS / steps_per_epoch))

"""Must-links count for more where they are the fewer.

Of random pairs most are cannot-links, and one of those (somewhere outside a zone) says less than a must-link
(the same place). Their shares in the loss are brought nearer to each other, not made equal.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from spherepair.training.batches import PairTensors


def rarity_factor(pairs: PairTensors) -> float:
    """Square root of how much more weight cannot-links have together, one at least.

    Examples
    --------
    >>> ends, is_must_link = torch.arange(10), torch.arange(10) < 1
    >>> rarity_factor(PairTensors(ends, ends, is_must_link, torch.ones(10)))
    3.0
    """
    must = float(pairs.weight[pairs.is_must_link].sum())
    cannot = float(pairs.weight[~pairs.is_must_link].sum())
    return math.sqrt(cannot / must) if 0 < must < cannot else 1.0


def weigh_must_links(pairs: PairTensors, factor: float) -> PairTensors:
    """The pairs with the weights of must-links multiplied by ``factor``."""
    return replace(pairs, weight=torch.where(pairs.is_must_link, factor, 1.0) * pairs.weight)

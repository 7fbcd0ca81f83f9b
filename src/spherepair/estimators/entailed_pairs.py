"""Entailed pairs: what follows from the given pairs takes part, with a weight of its own.

Must-links pass links on: of two rows that must be together, each has the links of the other (the closure of
the pairs, ``constraints/closure.py``). Of random pairs of a large table little follows, of many pairs of few
rows much.
"""

from __future__ import annotations

import torch

from spherepair.constraints import Constraints
from spherepair.training.batches import PairTensors


def with_entailed(given: PairTensors, pairs: Constraints, weight: float) -> PairTensors:
    """The given pairs, and those that follow from them with ``weight`` times the weight they rest on.

    Parameters
    ----------
    given : PairTensors
        The pairs as tensors.
    pairs : Constraints
        The same pairs; they must not contradict each other.
    weight : float
        With 0 the given pairs are returned as they are.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1), (1, 2)])
    >>> parts = (pairs.left, pairs.right, pairs.is_must_link, pairs.weight)
    >>> given = PairTensors(*(torch.tensor(part) for part in parts))
    >>> with_entailed(given, pairs, 0.5).weight.tolist()
    [1.0, 1.0, 0.5]
    """
    if weight == 0.0:
        return given
    entailed = pairs.closure()[len(pairs) :]
    return PairTensors(
        torch.cat([given.left, torch.tensor(entailed.left)]),
        torch.cat([given.right, torch.tensor(entailed.right)]),
        torch.cat([given.is_must_link, torch.tensor(entailed.is_must_link)]),
        torch.cat([given.weight, weight * torch.tensor(entailed.weight)]),
    )

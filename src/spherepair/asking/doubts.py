"""Which answers of an interview may be wrong, told from the embedding that it has: no further training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spherepair.clustering.answer_errors import FEWEST_PAIRS, Witnesses, judge_answers
from spherepair.clustering.suspects import Suspect, list_suspects
from spherepair.constraints import Constraints
from spherepair.terms.row_terms import nearest_neighbors

#: Rows that are asked about each row of an answer.
N_WITNESSES = 20


def doubtful_answers(
    pairs: Constraints,
    pool: NDArray[np.int64],
    plain: NDArray[np.float32],
    memberships: NDArray[Any],
    *,
    seed: int,
) -> list[Suspect]:
    """Answers that are more likely wrong than right; none where they are too few to tell.

    Parameters
    ----------
    pairs : Constraints
        What was answered; all its rows are in the pool.
    pool : ndarray of shape (m,)
        Positions of rows, sorted.
    plain : ndarray of shape (m, D)
        Vectors of these rows that no answer has changed.
    memberships : ndarray of shape (m, K)
        Probabilities of their clusters by the latest model.
    seed : int
    """
    n_must = int(np.count_nonzero(pairs.is_must_link))
    if len(pairs) < FEWEST_PAIRS or not 0 < n_must < len(pairs):
        return []
    generator = torch.Generator().manual_seed(seed)
    n_neighbors = min(N_WITNESSES, len(pool) - 1)
    found = nearest_neighbors(torch.from_numpy(plain), n_neighbors, generator=generator).numpy()
    ends, places = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
    witnesses = Witnesses(found[np.searchsorted(pool, ends)], *np.split(places, 2))
    judgment = judge_answers(pairs, witnesses.same(memberships, pairs.is_must_link))
    return list_suspects(pairs, judgment, None)

"""Choosing a setting of a method by held-out pairs, where a parameter is ``"search"``.

Every candidate is trained on 80 % of the pairs, from the same weights. The one whose clusters satisfy the
largest share of the other pairs wins, the first of them on a tie. A candidate whose training diverges counts
as the worst.

Differs from the paper: there the accuracy on 1,000 rows with known classes decides. Here classes are
never used, since a user of constrained clustering has none.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

from spherepair.constraints import Constraints
from spherepair.errors import TrainingDivergedError
from spherepair.estimators.base import DeepConstrainedClusterer
from spherepair.estimators.job import Job, Stage
from spherepair.metrics import pair_satisfaction
from spherepair.training.hardware import derive_seed
from spherepair.training.rows import map_rows
from spherepair.training.session import Session

SEARCH = Stage("search")
HELD_OUT_SHARE = 0.2
#: Score of a candidate whose training diverged; shares of pairs are never negative.
DIVERGED = -math.inf

#: Values of buffers of the network, by name.
Candidate = Mapping[str, float]


def search_settings(
    estimator: DeepConstrainedClusterer, job: Job, grid: Mapping[str, Sequence[float]]
) -> list[float]:
    """Write the best candidate into the buffers of ``job.network``, and return all scores.

    Without a parameter that is ``"search"``, or with a single pair, of which none can be held out, nothing
    changes. A candidate whose training diverges has the score minus infinity; if all diverge, so does the
    search.

    Parameters
    ----------
    estimator : DeepConstrainedClusterer
    job : Job
    grid : mapping
        Names of parameters, which are also those of scalar buffers of the network, and the values to try
        where a parameter is ``"search"``.
    """
    candidates = _candidates({name: getattr(estimator, name) for name in grid}, grid)
    if not candidates or len(job.trusted) < 2:
        return []
    shown, held_out = split_pairs(job.trusted, seed=job.session.seed)
    scores = [_score(estimator, _trial(estimator, job, shown, chosen), held_out) for chosen in candidates]
    if max(scores) == DIVERGED:
        raise TrainingDivergedError(
            f"training diverged with each of the {len(candidates)} settings of the search, from "
            f"{_words(candidates[0])} to {_words(candidates[-1])}; lower learning_rate or check the scale of "
            "the data."
        )
    _fill(job, candidates[int(np.argmax(scores))])
    return scores


def split_pairs(pairs: Constraints, *, seed: int) -> tuple[Constraints, Constraints]:
    """80 % of the pairs at random, and the others; at least one each."""
    order = np.random.default_rng(derive_seed(seed, SEARCH.name)).permutation(len(pairs))
    n_held_out = max(1, round(HELD_OUT_SHARE * len(pairs)))
    return pairs[np.sort(order[n_held_out:])], pairs[np.sort(order[:n_held_out])]


def _candidates(given: Mapping[str, Any], grid: Mapping[str, Sequence[float]]) -> list[Candidate]:
    """Every combination of values to try and given values."""
    if "search" not in given.values():
        return []
    values = [grid[name] if value == "search" else [value] for name, value in given.items()]
    return [dict(zip(grid, map(float, chosen), strict=True)) for chosen in product(*values)]


def _trial(estimator: DeepConstrainedClusterer, job: Job, pairs: Constraints, candidate: Candidate) -> Job:
    network = copy.deepcopy(job.network)
    session = Session(network, estimator._hardware, job.session.seed, monitors=estimator._monitors())
    trial = Job(job.rows, pairs, network, session)
    _fill(trial, candidate)
    return trial


def _score(estimator: DeepConstrainedClusterer, trial: Job, held_out: Constraints) -> float:
    """Share of the held-out pairs that the trial satisfies."""
    try:
        estimator._train(trial, SEARCH)
    except TrainingDivergedError:
        return DIVERGED
    network = trial.network.eval()
    embedding = map_rows(lambda x: estimator._embed(network, x), trial.rows, estimator._hardware)
    if not np.isfinite(embedding).all():
        return DIVERGED  # in the last step, after its loss was computed
    labels = estimator._cluster(trial, embedding)[0].labels
    found = pair_satisfaction(
        labels, held_out.left, held_out.right, held_out.is_must_link, weight=held_out.weight
    )
    return found.total


@torch.no_grad()
def _fill(job: Job, candidate: Candidate) -> None:
    for name, value in candidate.items():
        job.network.get_buffer(name).fill_(value)


def _words(candidate: Candidate) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in candidate.items())

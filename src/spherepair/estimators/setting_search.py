"""Trainings on some of the pairs, scored on the others: to choose settings, and to calibrate.

Every candidate is trained on 80 % of the pairs, from the same weights. The one whose clusters satisfy the
largest share of the other pairs wins, the first of them on a tie. A candidate whose training diverges counts
as the worst.

Before the long training of a fit comes a short one; the pairs held out of it tell how right the model is.

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

from spherepair.clustering.calibration import MOST_ROWS
from spherepair.constraints import Constraints
from spherepair.errors import TrainingDivergedError
from spherepair.estimators.base import DeepConstrainedClusterer
from spherepair.estimators.job import Job, Stage
from spherepair.estimators.trust import HoldOut
from spherepair.metrics import pair_satisfaction
from spherepair.training.hardware import derive_seed
from spherepair.training.rows import map_rows, map_some_rows
from spherepair.training.session import Session

SEARCH = Stage("search")
SEARCH_SHARE = 0.2
#: The short training before the long one. Its random numbers depend on this name.
HOLD_OUT = Stage("hold-out")
#: Share of the pairs held out of it, and the most of them; one in so many epochs of a fit, and the most.
HOLD_OUT_SHARE, MOST_HELD_OUT, EPOCH_SHARE, MOST_EPOCHS = 0.25, 4000, 8, 8
#: Fewer pairs of one kind say too little for that.
FEWEST_OF_A_KIND = 12
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


def train_with_hold_out(model: Any, job: Job, network: Any) -> HoldOut | None:
    """Train a pretrained network for a few epochs on most of the pairs; ``None`` where either are too few.

    The pairs of a fit are satisfied because it was trained on them, even where both rows are in a wrong
    cluster; so only pairs that a training has not seen tell how often it is right.
    """
    n_must = np.count_nonzero(job.pairs.is_must_link)
    n_epochs = min(MOST_EPOCHS, int(model.max_epochs) // EPOCH_SHARE)
    if n_epochs == 0 or min(n_must, len(job.pairs) - n_must) < FEWEST_OF_A_KIND:
        return None
    rng = np.random.default_rng(derive_seed(model._seed, HOLD_OUT.name))
    order = rng.permutation(len(job.pairs))
    n_held_out = min(MOST_HELD_OUT, round(HOLD_OUT_SHARE * len(order)))
    held_out, shown = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
    trial = Job(job.rows, job.pairs[shown], network, Session(network, model._hardware, model._seed))
    try:
        trial.session.run_stage(model._plan(trial, HOLD_OUT), stage=HOLD_OUT.name, max_epochs=n_epochs)
    except TrainingDivergedError:
        return None
    network.eval()
    ends = np.concatenate([job.pairs.left[held_out], job.pairs.right[held_out]])
    others = rng.permutation(job.rows.n_rows)[:MOST_ROWS]
    rows = np.union1d(ends, others)
    z = map_some_rows(
        lambda x: model._embed(network, x), job.rows, torch.from_numpy(rows), hardware=model._hardware
    )
    return HoldOut(held_out, rows, z) if bool(z.isfinite().all()) else None


def split_pairs(pairs: Constraints, *, seed: int) -> tuple[Constraints, Constraints]:
    """80 % of the pairs at random, and the others; at least one each."""
    order = np.random.default_rng(derive_seed(seed, SEARCH.name)).permutation(len(pairs))
    n_held_out = max(1, round(SEARCH_SHARE * len(pairs)))
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
    return pair_satisfaction(labels, held_out).total


@torch.no_grad()
def _fill(job: Job, candidate: Candidate) -> None:
    for name, value in candidate.items():
        job.network.get_buffer(name).fill_(value)


def _words(candidate: Candidate) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in candidate.items())

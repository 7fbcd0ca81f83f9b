"""What epochs are made of: one pass over the pairs, as most methods of the paper have it, or other sweeps."""

from __future__ import annotations

import torch

from spherepair.estimators.base import Job
from spherepair.training.batches import Batches, PairTensors


def pair_sweep(
    job: Job,
    stage: str,
    *,
    batch_size: int,
    rows_per_step: int = 0,
    pairs: PairTensors | None = None,
    part: str = "joint",
) -> Batches:
    """One pass over the pairs, with some rows in every step where a method wants them.

    Parameters
    ----------
    job : Job
    stage : str
        Names the random stream.
    batch_size : int
        Pairs per step; without any pairs there is one step, of rows alone.
    rows_per_step : int, default=0
        Rows that go along, drawn afresh in every step; all rows if there are no more.
    pairs : PairTensors, optional
        Instead of those of the job.
    part : str, default="joint"
        Name of the sweep, where an epoch has several.
    """
    chosen = job.pair_tensors() if pairs is None else pairs
    size = min(batch_size, len(chosen))
    n_steps = -(-len(chosen) // size) if size else 1
    rows_per_step = min(rows_per_step, job.rows.n_rows)
    return sweep(
        job, stage, pairs_per_step=size, rows_per_step=rows_per_step, n_steps=n_steps, pairs=chosen, part=part
    )


def sweep(
    job: Job,
    stage: str,
    *,
    pairs_per_step: int = 0,
    rows_per_step: int = 0,
    n_steps: int,
    pairs: PairTensors | None = None,
    part: str = "joint",
) -> Batches:
    """Steps of any shape, none of them larger than there are pairs and rows; see :func:`pair_sweep`."""
    if pairs is None:
        pairs = job.pair_tensors() if pairs_per_step else PairTensors.none()
    return Batches(
        job.rows,
        pairs,
        pairs_per_step=pairs_per_step,
        rows_per_step=rows_per_step,
        n_steps=n_steps,
        seed=job.session.seed,
        stream=stage,
        part=part,
    )


def shuffle_sides(pairs: PairTensors, generator: torch.Generator) -> PairTensors:
    """Turn half of the pairs round: lists of pairs often have the smaller position on the left."""
    is_turned = torch.rand(len(pairs), generator=generator) < 0.5
    left = torch.where(is_turned, pairs.right, pairs.left)
    right = torch.where(is_turned, pairs.left, pairs.right)
    return PairTensors(left, right, pairs.is_must_link, pairs.weight)

"""Epochs of one pass over the pairs, as most methods of the paper have them."""

from __future__ import annotations

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
    pairs_per_step = min(batch_size, len(chosen))
    return Batches(
        job.rows,
        chosen,
        pairs_per_step=pairs_per_step,
        rows_per_step=min(rows_per_step, job.rows.n_rows),
        n_steps=-(-len(chosen) // pairs_per_step) if pairs_per_step else 1,
        seed=job.session.seed,
        stream=stage,
        part=part,
    )

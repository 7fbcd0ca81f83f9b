"""A few steps on a few pairs in the background, before their time.

The first steps on pairs of a process load libraries and kernels onto the GPU for about a second. Pretraining
leaves the host idle and has kernels of its own, so that second can pass meanwhile.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import numpy as np
import torch

from spherepair.constraints import Constraints
from spherepair.estimators.base import Job
from spherepair.estimators.pseudo_pairs import FIRST_EPOCH
from spherepair.training.engine import train
from spherepair.training.pretraining import is_fused
from spherepair.training.rows import ResidentRows
from spherepair.training.scaling import Scaling
from spherepair.training.session import Session

if TYPE_CHECKING:
    from spherepair.estimators.spherepair import SpherePair

logger = logging.getLogger(__name__)

STAGE = "rehearsal"
#: How many rows and ends of pairs take part; smaller tables go without.
N_ROWS, N_ENDS = 2048, 512
#: Numbers in the network and in those rows; with more it would want too much memory beside pretraining.
MOST_NUMBERS = 2**25
#: Devices of this process that need no other.
_rehearsed: set[torch.device] = set()


@contextmanager
def rehearsing(estimator: SpherePair, job: Job) -> Iterator[None]:
    """Rehearse while the body pretrains, where that is of use: once a process and GPU.

    Only beside pretraining in kernels of our own: torch's libraries do not promise the same last bits when
    two threads use them at once.
    """
    device = job.session.hardware.device
    if device in _rehearsed or not _is_of_use(estimator, job):
        yield
        return
    _rehearsed.add(device)
    is_over = Event()
    thread: Thread | None = None
    try:
        part, stream = excerpt(job), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        thread = Thread(target=_rehearse, args=(estimator, part, stream, is_over))
        thread.start()
    except RuntimeError as error:  # out of memory, or no more threads
        _note(error)
    try:
        yield
    finally:
        is_over.set()
        if thread is not None and thread.is_alive():
            thread.join()


def _is_of_use(estimator: SpherePair, job: Job) -> bool:
    if job.session.hardware.precision != "mixed" or not job.rows.is_resident:
        return False
    n_numbers = N_ROWS * job.rows.n_features + sum(p.numel() for p in job.network.parameters())
    if len(job.pairs) == 0 or job.rows.n_rows < N_ROWS or n_numbers > MOST_NUMBERS:
        return False
    return is_fused(job.network, job.rows, job.session, method=estimator.pretraining)


def excerpt(job: Job) -> Job:
    """A few rows and made-up pairs, with a network and a session of their own."""
    index = torch.arange(N_ROWS, device=job.rows.index_device)
    ends = np.arange(N_ENDS).reshape(4, -1)
    pairs = Constraints.from_pairs(must_link=ends[:2].T, cannot_link=ends[2:].T)
    network = copy.deepcopy(job.network)
    session = Session(network, replace(job.session.hardware, is_shared=True), job.session.seed)
    return Job(ResidentRows(job.rows.gather(index), Scaling.identity()), pairs, network, session)


def _rehearse(estimator: SpherePair, part: Job, stream: torch.cuda.Stream, is_over: Event) -> None:
    try:
        try:
            with part.session.hardware.current(), torch.cuda.stream(stream):
                play(estimator, part, is_over)
        finally:
            stream.synchronize()  # the memory of the part goes back to another stream
    except Exception as error:
        _note(error)


def _note(error: Exception) -> None:
    """The fit goes on as if there had been no rehearsal."""
    logger.info("the rehearsal of training on pairs failed (%s)", error)


def play(estimator: SpherePair, part: Job, is_over: Event) -> None:
    """Steps on the pairs, one an epoch, up to the first look at pseudo-pairs or until it is over."""
    player = copy.copy(estimator)
    player.min_steps, player.batch_size = 1, N_ENDS // 2
    train(
        player._build_objective(part),
        player._sweeps(part, STAGE),
        stage=STAGE,
        recipe=player._recipe(),
        max_epochs=FIRST_EPOCH + 1,
        hardware=part.session.hardware,
        seed=part.session.seed,
        stopping=_Until(is_over),
    )


@dataclass(frozen=True)
class _Until:
    """Stop when somebody says so."""

    event: Event
    watches: str = "loss"

    def should_stop(self, values: Sequence[float]) -> bool:
        return self.event.is_set()

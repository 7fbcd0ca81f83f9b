"""Getting a GPU ready while the host still looks at the rows.

The first fit of a process waits for much that is not training: Triton and its compiler are loaded, kernels
of our own are compiled, those of torch are loaded one by one when they are first used. A rehearsal, which is
a fit of next to nothing with the same settings, goes through all of that in threads of its own while the
rows of the real fit are scaled and sent. It changes no number: its network, rows and random streams are its
own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from threading import Thread, current_thread
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone

from spherepair.constraints import Constraints
from spherepair.training.hardware import Hardware
from spherepair.training.scaling import learn_scaling
from spherepair.training.stopping import resolve_stopping

logger = logging.getLogger(__name__)

#: Columns of the table that is fitted; its pairs are no fewer, so that there are both kinds.
WIDTH = 64
#: Steps of each stage: fewer than are run before one is captured, since a capture bears no other thread.
N_STEPS = 2
THREAD = "spherepair rehearsal"

_begun: set[Hashable] = set()


class Rehearsal(NamedTuple):
    """What can be done side by side, and a name for all of it."""

    name: str
    parts: list[Callable[[], Any]]


def load_triton() -> Rehearsal:
    """No more than that."""
    return Rehearsal("Triton", [partial(import_module, "spherepair.training.fused")])


def both_stages(model: Any, pretraining: Any, *, embedding_dim: int) -> Rehearsal:
    """Pretraining, shortened, and training on pairs, of a model like this one on next to nothing."""
    changed = {
        "n_clusters": 2,
        "embedding_dim": max(2, embedding_dim),
        "hidden_dims": (WIDTH,),
        "pretraining": pretraining,
        "clustering": "kmeans",
        "batch_size": max(WIDTH, model.batch_size),
        "max_epochs": 1,
        "min_steps": N_STEPS,
        "checkpoint": None,
        "random_state": 0,
        "progress": False,
    }
    twin = type(model)(**(model.get_params(deep=False) | changed))
    return Rehearsal(repr(twin), [partial(_pretrain, clone(twin)), partial(_train, clone(twin))])


def _pretrain(twin: Any) -> None:
    twin._pretrain(_prepare(twin))


def _train(twin: Any) -> None:
    job = _prepare(twin)
    twin._train(job, "pairs", twin.max_epochs, resolve_stopping(twin.stopping))
    twin._finish(job)


def _prepare(twin: Any) -> Any:
    """The job of a fit on noise."""
    n_rows = N_STEPS * twin.pretraining.batch_size
    table = np.random.default_rng(0).standard_normal((n_rows, WIDTH), dtype=np.float32)
    twin._start(table)
    twin._scaling = learn_scaling(table, twin.scaling)
    return twin._prepare(
        table, Constraints.from_labels(np.arange(n_rows) % 2, twin.batch_size, random_state=0), None
    )


@contextmanager
def rehearsing(rehearsal: Rehearsal, hardware: Hardware) -> Iterator[None]:
    """Rehearse beside the block, once in a process, where kernels are ours.

    Whatever fails in a part is only noted: it fails again, and is dealt with, where it is needed.
    """
    key = (hardware, rehearsal.name)
    if hardware.precision != "mixed" or key in _begun or current_thread().name == THREAD:
        yield
        return
    _begun.add(key)
    # Layers draw from the global generator when they are made, and each puts it back as it was then.
    before = torch.get_rng_state()
    threads = [Thread(target=_attempt, args=(part, hardware), name=THREAD) for part in rehearsal.parts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
        torch.set_rng_state(before)


def _attempt(part: Callable[[], Any], hardware: Hardware) -> None:
    try:
        with hardware.current():
            part()
    except Exception as error:
        logger.info("a rehearsal failed (%s); the fit gets ready as it goes", error)

"""Getting a GPU ready while the host still looks at the rows.

The first fit of a process waits for much that is not training: Triton and its compiler are loaded, kernels
of our own are compiled, those of torch are loaded one by one when they are first used. A rehearsal, which is
a fit of next to nothing with the same settings, goes through all of that in a thread of its own while the
rows of the real fit are scaled and sent. It changes no number: its network, rows and random streams are its
own.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from importlib import import_module
from threading import Thread, current_thread
from typing import Any

import numpy as np

from spherepair.constraints import Constraints
from spherepair.training.hardware import Hardware

logger = logging.getLogger(__name__)

N_FEATURES = 64
#: As many pairs as make a batch, but enough to have both kinds.
FEWEST_PAIRS = 64
#: Steps of every stage: fewer than are run before one is captured, since a capture bears no other thread.
N_STEPS = 2

THREAD = "spherepair-rehearsal"

_begun: set[Hashable] = set()


def begin_rehearsal(hardware: Hardware, twin: Any | None) -> Thread | None:
    """Begin to get ready, where kernels are ours and this has not been done in this process before.

    Parameters
    ----------
    hardware : Hardware
    twin : estimator or None
        Unfitted, with settings that make its fit short; ``None`` loads Triton and no more.

    Returns
    -------
    thread : Thread or None
        To be joined before anything is trained. Whatever fails in it is only noted: it fails again, and is
        dealt with, where it is needed.
    """
    key = (hardware, repr(twin))
    if hardware.precision != "mixed" or key in _begun or current_thread().name == THREAD:
        return None
    _begun.add(key)
    thread = Thread(target=_rehearse, args=(hardware, twin), name=THREAD)
    thread.start()
    return thread


def _rehearse(hardware: Hardware, twin: Any | None) -> None:
    try:
        import_module("spherepair.training.fused")
        if twin is not None:
            n_rows = N_STEPS * twin.pretraining.batch_size
            table = np.random.default_rng(0).standard_normal((n_rows, N_FEATURES), dtype=np.float32)
            pairs = Constraints.from_labels(np.arange(n_rows) % 2, twin.batch_size, random_state=0)
            with hardware.current():
                twin.fit(table, constraints=pairs)
    except Exception as error:
        logger.info("the rehearsal failed (%s); the fit gets ready as it goes", error)

"""Does anything inside an epoch make the host wait for the GPU?

    PYTHONPATH=src python bench/waiting.py [--methods SpherePair DCGMM ...]

Fits every method, then fits and refines it once more with torch watching from the start of each epoch until
its means are fetched (``torch.cuda.set_sync_debug_mode``), and prints where the host waited, and which steps
could not be captured. Needs a CUDA GPU.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

from spherepair import Constraints
from spherepair.estimators.loading import ESTIMATORS
from spherepair.training import engine

N_EPOCHS = 25


#: What waits without torch's noticing.
UNNOTICED = (
    (torch.cuda, "synchronize"),
    (torch.cuda.Event, "synchronize"),
    (torch.cuda.Stream, "synchronize"),
)


def noticed(function: Any) -> Any:
    def noticed_function(*args: Any, **options: Any) -> Any:
        if torch.cuda.get_sync_debug_mode():
            warnings.warn("called a synchronizing function", stacklevel=2)
        return function(*args, **options)

    return noticed_function


@contextmanager
def noticing() -> Iterator[list[warnings.WarningMessage]]:
    """The list fills with what makes the host wait, until the mode of torch is set back."""
    with ExitStack() as stack:
        for owner, name in UNNOTICED:
            stack.enter_context(mock.patch.object(owner, name, noticed(getattr(owner, name))))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield caught
        finally:
            torch.cuda.set_sync_debug_mode("default")
            caught[:] = [w for w in caught if "called a synchronizing" in str(w.message)]


@contextmanager
def watching(found: Counter[str]) -> Iterator[None]:
    """Count the epochs and the places that wait, as ``stage: where``."""
    true_epoch, true_means = engine._epoch, engine._Sweep.means

    def epoch(runs: Any, state: engine.TrainingState, recipe: Any) -> engine.Record:
        with noticing() as waits:
            record = true_epoch(runs, state, recipe)
        found[f"{state.stage}: epochs"] += 1
        found.update(f"{state.stage}: waits at {w.filename}:{w.lineno}" for w in waits)
        return record

    def means(self: engine._Sweep) -> dict[str, float]:
        torch.cuda.set_sync_debug_mode("default")
        return true_means(self)

    engine._epoch, engine._Sweep.means = epoch, means  # type: ignore[method-assign]
    try:
        yield
    finally:
        engine._epoch, engine._Sweep.means = true_epoch, true_means  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=list(ESTIMATORS), default=list(ESTIMATORS))
    parser.add_argument("--rows", type=int, default=20_000)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    print(torch.__version__, torch.cuda.get_device_name())
    with noticing() as waits:
        torch.ones(1, device="cuda").item()
        torch.cuda.synchronize()
    if len(waits) != 2:
        sys.exit("not noticed here when the host waits")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, args.rows)
    X = (rng.normal(size=(10, 784))[y] + rng.normal(size=(args.rows, 784))).astype(np.float32)
    pairs, more = (Constraints.from_labels(y, n, random_state=n) for n in (5000, 500))
    n_waits = 0
    for name in args.methods:
        settings = {"max_epochs": N_EPOCHS, "stopping": "fixed", "random_state": 0, "progress": False}
        found: Counter[str] = Counter()
        ESTIMATORS[name](10, **settings).fit(X, constraints=pairs)
        with watching(found):
            ESTIMATORS[name](10, **settings).fit(X, constraints=pairs).refine(more)
        print(name)
        for what, how_often in found.items():
            print(f"  {what} {how_often}")
        n_waits += sum(n for what, n in found.items() if "waits" in what)
    print(f"{n_waits} waits inside epochs")
    sys.exit(n_waits > 0)


if __name__ == "__main__":
    main()

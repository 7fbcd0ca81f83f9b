"""The six rivals: seconds per epoch, ours against a plain PyTorch loop of the same method, in one run.

    python bench/rivals.py                                    # 60,000 x 784 rows, 10,000 pairs: a GPU's size
    python bench/rivals.py --rows 2000 --pairs 1000           # about a minute on two cores
    python bench/rivals.py --methods CIDEC DCGMM

Both sides do the same work: the paper's protocol without pretraining, labels of all rows looked at before
every epoch where the method stops by them. Best of a few epochs; the first, which sets things up, is left
out. The ratio is what counts.
"""

from __future__ import annotations

import spherepair  # isort: skip  # before torch: it asks OpenMP not to spin for long

import argparse
import time
from typing import Any

import numpy as np
import torch
from plain_rivals import PLAIN, Listed

from spherepair import Constraints
from spherepair.estimators.loading import ESTIMATORS
from spherepair.training.hardware import choose_hardware
from spherepair.training.stopping import StableLabels

#: Looks at the labels before every epoch and never stops.
WATCHING = StableLabels(min_epochs=1_000_000)
#: What makes our side do the work of the plain one.
SETTINGS: dict[str, dict[str, Any]] = {
    "VanillaDCC": {"stopping": WATCHING},
    "VolMaxDCC": {"stopping": WATCHING, "volume_weight": 1e-4},
    "CIDEC": {"stopping": WATCHING, "pretraining": None},
    "DCGMM": {"pretraining_epochs": 1, "likelihood": "gaussian"},
    "SDEC": {"stopping": WATCHING, "pretraining": None},
    "AutoEmbedder": {"pretraining": None},
}


class Clock:
    """Notes when epochs of the stage on pairs end."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, state: Any) -> None:
        if state.stage == "pairs":
            self.times.append(time.perf_counter())


def our_epoch(name: str, X: np.ndarray, pairs: Constraints, *, repeat: int, precision: str) -> float:
    """Best seconds from the end of an epoch to the end of the next."""
    clock = Clock()
    model = ESTIMATORS[name].paper(  # type: ignore[attr-defined]
        10, max_epochs=repeat + 2, progress=clock, precision=precision, random_state=0, **SETTINGS[name]
    )
    model.fit(X, constraints=pairs)
    return float(np.diff(clock.times)[1:].min())


def plain_epoch(name: str, X: np.ndarray, pairs: Listed, *, repeat: int, device: torch.device) -> float:
    rival = PLAIN[name](X.shape[1]).to(device)
    times = []
    for _ in range(repeat + 1):
        started = time.perf_counter()
        rival.epoch(X, pairs)
        times.append(time.perf_counter() - started)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--methods", nargs="+", choices=list(PLAIN), default=list(PLAIN))
    args = parser.parse_args()
    hardware = choose_hardware(precision=args.precision)
    name = torch.cuda.get_device_name() if hardware.is_cuda else f"{torch.get_num_threads()} CPU threads"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {name}, {hardware.precision}")
    print(f"{args.rows} rows x {args.features} features, {args.pairs} pairs")

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, args.rows)
    centres = rng.normal(size=(10, args.features))
    X = (centres[y] + rng.normal(size=(args.rows, args.features))).astype(np.float32)
    pairs = Constraints.from_labels(y, args.pairs, random_state=0)
    listed = [(int(p.left), int(p.right), int(p.is_must_link)) for p in pairs]
    print(f"{'epoch of':14s} {'plain':>9s} {'ours':>9s} {'ratio':>7s}")
    for method in args.methods:
        theirs = plain_epoch(method, X, listed, repeat=args.repeat, device=hardware.device)
        ours = our_epoch(method, X, pairs, repeat=args.repeat, precision=args.precision)
        print(f"{method:14s} {theirs:8.3f}s {ours:8.3f}s {theirs / ours:6.1f}x", flush=True)


if __name__ == "__main__":
    main()

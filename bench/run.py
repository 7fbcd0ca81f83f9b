"""Timings as ratios in one run: ours against a plain PyTorch loop, on the device that is there.

    make bench                                     # a few minutes on two cores
    python bench/run.py --rows 60000 --pairs 10000

Seconds per epoch, best of a few. The machine may be noisy; the ratio is what counts. With "paper rows" both
sides reconstruct the same rows per step; "default" is an epoch of our default settings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from plain_loop import PlainAutoencoder, pairs_epoch, pretraining_epoch

import spherepair
from spherepair import Constraints, Schedule, SpherePair
from spherepair.training.hardware import choose_hardware
from spherepair.training.pretraining import JointPretraining, StackedPretraining


def best_of(n: int, function: Callable[[], object]) -> float:
    times = []
    for _ in range(n):
        started = time.perf_counter()
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return min(times)


def our_epochs(X: np.ndarray, pairs: Constraints, n: int, **options: object) -> dict[str, float]:
    """Best seconds of an epoch by stage, without the first epoch, which includes the setup."""
    settings: dict[str, Any] = {"pretraining": JointPretraining(epochs=n + 1, min_steps=1)} | options
    model = SpherePair(
        10, max_epochs=n + 1, stopping="fixed", scaling="none", random_state=0, progress=False, **settings
    )
    model.fit(X, constraints=pairs)
    stages = {record["stage"] for record in model.history_ if record["epoch"]}
    return {s: min(r["seconds"] for r in model.history_ if r["stage"] == s and r["epoch"]) for s in stages}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=2)
    args = parser.parse_args()
    hardware = choose_hardware()
    name = torch.cuda.get_device_name() if hardware.is_cuda else f"{torch.get_num_threads()} CPU threads"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {name}, {hardware.precision}")
    print(f"{args.rows} rows x {args.features} features, {args.pairs} pairs")

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, args.rows)
    centers = rng.normal(size=(10, args.features))
    X = (centers[y] + rng.normal(size=(args.rows, args.features))).astype(np.float32)
    pairs = Constraints.from_labels(y, args.pairs, random_state=0)
    listed = [(int(p.left), int(p.right), int(p.is_must_link)) for p in pairs]

    network = PlainAutoencoder(args.features, 10).to(hardware.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    momentum = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    # Loads libraries and kernels before anything is timed, as ours does.
    pretraining_epoch(network, X[:2560], momentum)
    pairs_epoch(network, X, listed[:512], optimizer, rows_per_step=256)
    plain = {
        "paper": best_of(args.repeat, lambda: pretraining_epoch(network, X, momentum)),
        "pretraining": best_of(args.repeat, lambda: pretraining_epoch(network, X, optimizer)),
        "pairs": best_of(args.repeat, lambda: pairs_epoch(network, X, listed, optimizer)),
    }
    stacked = StackedPretraining(layer_epochs=1, epochs=args.repeat + 1)
    paper = our_epochs(
        X, pairs, args.repeat, schedule=Schedule(min_steps=1, reconstruction_rows="all"), pretraining=stacked
    )
    default = our_epochs(X, pairs, args.repeat)
    exact = our_epochs(X, pairs, args.repeat, precision="float32")
    print(f"{'epoch of':26s} {'plain':>9s} {'ours':>9s} {'ratio':>7s}")
    for title, theirs, ours in [
        ("pretraining, paper (SGD)", plain["paper"], paper["pretraining end to end"]),
        ("pretraining, default", plain["pretraining"], default["pretraining"]),
        ("pretraining, float32", plain["pretraining"], exact["pretraining"]),
        ("pairs, paper rows", plain["pairs"], paper["pairs"]),
        ("pairs, default", plain["pairs"], default["pairs"]),
        ("pairs, default, float32", plain["pairs"], exact["pairs"]),
    ]:
        print(f"{title:26s} {theirs:8.3f}s {ours:8.3f}s {theirs / ours:6.1f}x")
    for stage in ("pretraining", "pairs"):
        ratio = exact[stage] / default[stage]
        print(f"{stage}: ours in {hardware.precision} is {ratio:.1f}x as fast as in float32")


if __name__ == "__main__":
    main()

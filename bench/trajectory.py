"""Accuracy along the way: what the stopping rule and the default settings rest on.

    PYTHONPATH=src python bench/trajectory.py --data mnist fashion_mnist --pairs 1000 10000 --seeds 0 1

Fits with a fixed number of epochs and writes, every few epochs, the loss on pairs and the accuracy
on rows that were held out of the training set (never the test set, which decides nothing here).
"""

from __future__ import annotations

import spherepair  # noqa: F401  # isort: skip  # before torch: it asks OpenMP not to spin for long

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spherepair import Constraints, SpherePair
from spherepair.clustering.assigners import KMeansAssigner, nearest_center
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.training.embedding import map_rows
from spherepair.training.engine import TrainingState
from spherepair.training.hardware import choose_hardware
from spherepair.training.rows import open_rows
from spherepair.training.scaling import learn_scaling

N_VALIDATION = 5000


class Watch:
    """Scores the network on validation rows while it trains."""

    def __init__(self, X: Any, X_held: Any, y_held: Any, *, every: int, scaling: str) -> None:
        self._hardware = choose_hardware()
        learned = learn_scaling(X, scaling)
        sample = np.random.default_rng(0).permutation(len(X))[:20_000]
        self._rows = open_rows(X[sample], learned, self._hardware.device)
        self._held = open_rows(X_held, learned, self._hardware.device)
        self._y, self._k, self._every = y_held, len(np.unique(y_held)), every
        self.points: list[dict[str, Any]] = []
        self.spent = 0.0

    def __call__(self, state: TrainingState) -> None:
        if state.stage != "pairs" or state.epoch % self._every:
            return
        started = time.perf_counter()
        network = state.objective.network
        network.eval()

        def directions(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.normalize(network.encode(x).float(), dim=-1)

        train, held = (map_rows(directions, rows, self._hardware) for rows in (self._rows, self._held))
        found = KMeansAssigner(10, self._hardware.device).assign(train, self._k, seed=0)
        accuracy = clustering_accuracy(self._y, nearest_center(torch.from_numpy(held), found.centers))
        network.train()
        self.points.append({"epoch": state.epoch, "acc": accuracy, **state.records[-1]})
        self.spent += time.perf_counter() - started


def run(
    name: str, n_pairs: int, seed: int, every: int, options: dict[str, Any], *, n_rows: int | None
) -> dict[str, Any]:
    data = load_dataset(name)
    order = np.random.default_rng(1).permutation(len(data.y_train))
    n_held = min(N_VALIDATION, len(order) // 5)
    held, kept = order[:n_held], order[n_held:][:n_rows]
    X, y = data.X_train[kept], data.y_train[kept]
    n_clusters = len(np.unique(y))
    pairs = Constraints.from_labels(y, n_pairs, random_state=seed)
    model = SpherePair(n_clusters, random_state=seed, stopping="fixed")
    model.set_params(**options)
    watch = Watch(X, data.X_train[held], data.y_train[held], every=every, scaling=model.scaling)
    model.set_params(progress=watch)
    started = time.perf_counter()
    model.fit(X, constraints=pairs)
    seconds = time.perf_counter() - started - watch.spent
    final = clustering_accuracy(data.y_train[held], model.predict(data.X_train[held]))
    return {
        "data": name, "pairs": n_pairs, "seed": seed, "options": options, "seconds": seconds, "final": final,
        "n_pretraining": sum(r["stage"] != "pairs" for r in model.history_), "points": watch.points,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--pairs", nargs="+", type=int, default=[1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rows", type=int, help="train on so many rows only")
    parser.add_argument(
        "--options",
        nargs="+",
        default=["{}"],
        help="JSON of SpherePair parameters, one per variant",
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    for name in args.data:
        for options in args.options:
            for n_pairs in args.pairs:
                for seed in args.seeds:
                    result = run(name, n_pairs, seed, args.every, json.loads(options), n_rows=args.rows)
                    shown = "  ".join(f"{p['epoch']}:{100 * p['acc']:.1f}" for p in result["points"])
                    end = f"{result['seconds']:.1f} s | end {100 * result['final']:.1f} | {shown}"
                    print(f"{name} {n_pairs} seed {seed} {options} {end}", flush=True)
                    if args.out:
                        with args.out.open("a") as stream:
                            stream.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

"""Our accuracy beside the paper's: the paper's protocol and our default settings.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/fidelity.py --data mnist fashion_mnist

Test accuracy, mean ± standard deviation over seeds. As in the authors' released code, stacked
pretraining is done once per data set and shared by all its runs; the seed decides pairs, batches
and k-means. About five minutes on an H200 for the line above.
"""

from __future__ import annotations

import spherepair  # isort: skip  # before torch: it asks OpenMP not to spin

import argparse
import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import cluster_scores
from spherepair.networks import Autoencoder
from spherepair.training.pretraining import StackedPretraining
from spherepair.training.rows import RowSource
from spherepair.training.session import Session

#: Test accuracy of SpherePair in the paper's main table.
PAPER = {
    "mnist": {1000: 91.7, 5000: 95.9, 10_000: 97.0},
    "fashion_mnist": {1000: 69.8, 5000: 79.9, 10_000: 83.6},
}


class SharedStackedPretraining:
    """Stacked pretraining that is done once and then reused."""

    def __init__(self) -> None:
        self.weights: dict[str, Any] | None = None
        self.seconds = 0.0

    def run(self, network: Autoencoder, rows: RowSource, session: Session) -> None:
        if self.weights is None:
            started = time.perf_counter()
            StackedPretraining().run(network, rows, session)
            self.weights = copy.deepcopy(network.state_dict())
            self.seconds = time.perf_counter() - started
        network.load_state_dict(self.weights)


def settings(names: list[str]) -> Iterator[tuple[str, dict[str, Any], type]]:
    if "paper" in names:
        yield "paper", {"pretraining": SharedStackedPretraining()}, SpherePair.paper
    if "default" in names:
        yield "default", {}, SpherePair


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion_mnist"])
    parser.add_argument("--pairs", nargs="+", type=int, default=[1000, 5000, 10_000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--settings", nargs="+", default=["paper", "default"])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {device}, seeds {args.seeds}")
    for name in args.data:
        data = load_dataset(name)
        n_clusters = len(np.unique(data.y_train))
        for setting, options, build in settings(args.settings):
            for n_pairs in args.pairs:
                scores, seconds = [], []
                for seed in args.seeds:
                    pairs = Constraints.from_labels(data.y_train, n_pairs, random_state=seed)
                    model = build(n_clusters, random_state=seed, **options)
                    started = time.perf_counter()
                    labels = model.fit(data.X_train, constraints=pairs).predict(data.X_test)
                    seconds.append(time.perf_counter() - started)
                    scores.append(cluster_scores(data.y_test, labels))
                    record = {
                        "data": name, "setting": setting, "pairs": n_pairs, "seed": seed, "device": device,
                        "accuracy": scores[-1].accuracy, "nmi": scores[-1].nmi, "ari": scores[-1].ari,
                        "seconds": seconds[-1],
                        "epochs": sum(r["stage"] == "pairs" for r in model.history_),
                    }  # fmt: skip
                    if args.out:
                        with args.out.open("a") as stream:
                            stream.write(json.dumps(record) + "\n")
                accuracy = 100 * np.array([s.accuracy for s in scores])
                paper = PAPER.get(name, {}).get(n_pairs, float("nan"))
                found = f"test ACC {accuracy.mean():.1f} ± {accuracy.std():.1f}  (paper {paper})"
                took = f"fit+predict {min(seconds):.1f} to {max(seconds):.1f} s"
                print(f"{name:14s} {setting:8s} {n_pairs:6d} pairs  {found}  {took}", flush=True)
            if setting == "paper":
                print(
                    f"{name:14s} stacked pretraining took {options['pretraining'].seconds:.1f} s", flush=True
                )


if __name__ == "__main__":
    main()

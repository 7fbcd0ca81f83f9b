"""What ``refine`` gives and costs beside fitting again, on rows that were held out.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/refining.py --pairs 10000 --more 500 --seeds 0 1 2

A model is fitted with ``--pairs`` pairs, and pairs are added: ``refine`` goes on with it, a second model is
fitted with all of them. The first fit of a process is not counted: it compiles.
"""

from __future__ import annotations

import spherepair  # isort: skip  # before torch: it asks OpenMP not to spin

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def mean_and_error(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.2f} ± {error:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--more", nargs="+", type=int, default=[500])
    parser.add_argument("--held-out", type=int, default=10_000)
    parser.add_argument("--rows", type=int, help="fit so many of the other rows")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    where = (
        torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} threads"
    )
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}")
    data = load_dataset(args.data)
    n_clusters = len(np.unique(data.y_train))
    found: dict[int, list[tuple[float, ...]]] = {more: [] for more in args.more}
    for seed in args.seeds:
        order = np.random.default_rng(100 + seed).permutation(len(data.y_train))
        held, kept = order[: args.held_out], order[args.held_out :][: args.rows]
        X, y = data.X_train[kept], data.y_train[kept]
        pairs = Constraints.from_labels(y, args.pairs, random_state=seed)

        def accuracy(model: SpherePair, held: Any = held) -> float:
            return 100 * clustering_accuracy(data.y_train[held], model.predict(data.X_train[held]))

        def fitted(pairs: Constraints, X: Any = X, seed: int = seed) -> tuple[SpherePair, float]:
            model = SpherePair(n_clusters, random_state=seed, progress=False)
            return model, seconds(lambda: model.fit(X, constraints=pairs))

        if seed == args.seeds[0]:
            fitted(pairs)  # compiles
        for n_more in args.more:
            more = Constraints.from_labels(y, n_more, random_state=10_000 + seed)
            model, _ = fitted(pairs)
            before, right = accuracy(model), 100 * model.score_pairs(more)
            took = seconds(lambda model=model, more=more: model.refine(more))
            again, took_again = fitted(pairs | more)
            refined, anew = accuracy(model), accuracy(again)
            found[n_more].append((before, refined, anew, right, took, took_again))
            print(
                f"  {n_more} more, seed {seed}: before {before:.2f} ({right:.1f} % of the new right), "
                f"refined {refined:.2f} in {took:.2f} s, again {anew:.2f} in {took_again:.2f} s",
                flush=True,
            )
    for n_more, results in found.items():
        before, refined, anew, right, took, took_again = np.array(results).T
        print(
            f"{args.data}, {args.pairs} pairs and {n_more} more: before {before.mean():.2f} "
            f"({right.mean():.1f} % of the new right), refine {mean_and_error(refined - before)}, "
            f"again {mean_and_error(anew - before)}, {np.median(took_again / took):.1f} times as long"
        )


if __name__ == "__main__":
    main()

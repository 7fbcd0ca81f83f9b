"""Accuracy and time of ``refine`` beside fitting again, on held-out rows.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/refining.py --pairs 10000 --more 500 --seeds 0 1 2

A model is fitted with ``--pairs`` pairs, then pairs are added: ``refine`` continues with it, a second model
is fitted with all of them. Both are timed after a warm-up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import spherepair
from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy


def timed(work: Callable[..., SpherePair], *args: Any, **options: Any) -> tuple[SpherePair, float]:
    started = time.perf_counter()
    model = work(*args, **options)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return model, time.perf_counter() - started


def with_error(values: np.ndarray) -> str:
    """Mean and its standard error."""
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{values.mean():+.2f}{error}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--more", nargs="+", type=int, default=[500])
    parser.add_argument("--held-out", type=int, default=10_000)
    parser.add_argument("--rows", type=int, help="fit this many of the other rows")
    parser.add_argument("--hidden-dims", default="standard")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    where = (
        torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} threads"
    )
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}")
    data = load_dataset(args.data)
    new_model = partial(
        SpherePair, len(np.unique(data.y_train)), hidden_dims=args.hidden_dims, progress=False
    )
    outcomes: dict[int, list[tuple[float, ...]]] = {n_more: [] for n_more in args.more}
    for seed in args.seeds:
        order = np.random.default_rng(100 + seed).permutation(len(data.y_train))
        held, fitted = order[: args.held_out], order[args.held_out :][: args.rows]
        X, y = data.X_train[fitted], data.y_train[fitted]
        accuracy = partial(held_out_accuracy, X=data.X_train[held], y=data.y_train[held])
        pairs = Constraints.from_labels(y, args.pairs, random_state=seed)
        if seed == args.seeds[0]:
            new_model(random_state=seed).fit(X, constraints=pairs).refine(pairs)  # warm-up
        for n_more in args.more:
            more = Constraints.from_labels(y, n_more, random_state=10_000 + seed)
            model = new_model(random_state=seed).fit(X, constraints=pairs)
            before, right = accuracy(model), 100 * model.score_pairs(more)
            _, took = timed(model.refine, more)
            again, took_again = timed(new_model(random_state=seed).fit, X, constraints=pairs | more)
            refined, anew = accuracy(model), accuracy(again)
            outcomes[n_more].append((before, refined, anew, right, took, took_again))
            print(
                f"  {n_more} more, seed {seed}: before {before:.2f} ({right:.1f} % of the new satisfied), "
                f"refined {refined:.2f} in {took:.2f} s, again {anew:.2f} in {took_again:.2f} s",
                flush=True,
            )
    for n_more, found in outcomes.items():
        befores, refined, anew, right, took, took_again = np.array(found).T
        print(
            f"{args.data}, {args.pairs} pairs and {n_more} more: before {befores.mean():.2f} "
            f"({right.mean():.1f} % of the new satisfied), refine {with_error(refined - befores)}, again "
            f"{with_error(anew - befores)}, again - refine {with_error(anew - refined)}; again takes "
            f"{np.median(took_again / took):.1f} times as long (median)"
        )


def held_out_accuracy(model: SpherePair, X: np.ndarray, y: np.ndarray) -> float:
    return 100 * clustering_accuracy(y, model.predict(X))


if __name__ == "__main__":
    main()

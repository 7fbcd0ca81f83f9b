"""How long the loop of ``plain_loop.py`` needs for the accuracy of our default settings.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/to_accuracy.py --seeds 0

FashionMNIST with 10,000 pairs. Ours is fitted first; its test accuracy is the target. The plain loop
pretrains for as many epochs, then trains on the pairs; its test accuracy is evaluated every few epochs,
untimed. The answer is the first evaluation at which the mean over seeds reaches our mean; if there is none,
the time spent is a lower bound. The time of each seed alone is printed too. It favors the plain loop, whose
accuracy goes up and down.

The plain loop divides all rows among the steps of an epoch on pairs, as the paper does; ours reconstructs
256 per step, and so does the plain loop with ``--rows-per-step 256``.

With ``--target`` nothing of ours is fitted: the accuracies are those of fits elsewhere, so a GPU can count
the epochs that a CPU would need.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from plain_loop import PlainAutoencoder, pairs_epoch, pretraining_epoch
from sklearn.cluster import KMeans
from torch.nn import functional as F  # noqa: N812

import spherepair
from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.training.hardware import choose_hardware


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of the plain loop after some epochs on pairs."""

    epochs: int
    accuracy: float
    seconds: float


@torch.no_grad()
def plain_accuracy(network: PlainAutoencoder, X: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> float:
    device = next(network.parameters()).device
    codes = [
        torch.cat([F.normalize(network.encoder(part.to(device)), dim=1) for part in rows.split(8192)])
        for rows in (torch.from_numpy(X), torch.from_numpy(X_test))
    ]
    cut = KMeans(10, n_init=5, random_state=0).fit(codes[0].cpu().numpy())
    return 100 * clustering_accuracy(y_test, cut.predict(codes[1].cpu().numpy()))


def plain_evaluations(
    data: Any,
    pairs: Constraints,
    seed: int,
    *,
    n_pretraining: int,
    every: int,
    rows_per_step: int | None,
    device: torch.device,
) -> Iterator[Evaluation]:
    """Train the plain loop and evaluate it, without end."""
    factor = 1.0 / np.sqrt(np.mean(np.square(data.X_train)))  # our scaling of such columns
    X, X_test = factor * data.X_train, factor * data.X_test
    listed = [(int(p.left), int(p.right), int(p.is_must_link)) for p in pairs]
    torch.manual_seed(seed)
    network = PlainAutoencoder(X.shape[1], 10).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    started = time.perf_counter()
    for _ in range(n_pretraining):
        pretraining_epoch(network, X, optimizer)
    spent, epochs = time.perf_counter() - started, 0
    print(f"  plain: {n_pretraining} epochs of pretraining in {spent:.0f} s", flush=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    while True:
        started = time.perf_counter()
        for _ in range(every):
            pairs_epoch(network, X, listed, optimizer, rows_per_step=rows_per_step)
        spent, epochs = spent + time.perf_counter() - started, epochs + every
        found = plain_accuracy(network, X, X_test, data.y_test)
        print(f"  plain: {epochs} epochs on pairs, {found:.1f} % after {spent:.0f} s", flush=True)
        yield Evaluation(epochs, found, spent)


def verdict(evaluations: list[Evaluation], target: float, ours: float | None) -> str:
    """When the target was reached, or that it was not."""
    first = next((evaluation for evaluation in evaluations if evaluation.accuracy >= target), None)
    best = max(evaluation.accuracy for evaluation in evaluations)
    at = first or evaluations[-1]
    reached = "reached" if first else f"not reached (best {best:.1f} %)"
    times = (
        ""
        if ours is None
        else f", {'' if first else 'at least '}{at.seconds / ours:.1f} times as long as ours"
    )
    return f"{target:.1f} % {reached} after {at.epochs} epochs on pairs, {at.seconds:.0f} s{times}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--evaluate-every", type=int, default=10)
    parser.add_argument("--max-epochs", type=int, default=140)
    parser.add_argument("--max-ratio", type=float, default=7.5, help="stop at this multiple of our seconds")
    parser.add_argument(
        "--rows-per-step", type=int, help="rows to reconstruct per step; default: all divided among the steps"
    )
    parser.add_argument(
        "--target", nargs="+", type=float, help="test accuracy of ours in percent, one per seed"
    )
    parser.add_argument("--pretraining-epochs", type=int, default=15, help="of ours, with --target")
    args = parser.parse_args()
    if args.target is not None and len(args.target) != len(args.seeds):
        parser.error("--target needs one accuracy per seed")
    hardware = choose_hardware()
    where = torch.cuda.get_device_name() if hardware.is_cuda else f"{torch.get_num_threads()} CPU threads"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}, {hardware.precision}")
    data = load_dataset("fashion_mnist")
    evaluations_of_seeds: list[list[Evaluation]] = []
    targets: list[float] = []
    seconds_of_ours: list[float] = []
    for position, seed in enumerate(args.seeds):
        pairs = Constraints.from_labels(data.y_train, 10_000, random_state=seed)
        n_pretraining, ours = args.pretraining_epochs, None
        if args.target is None:
            started = time.perf_counter()
            model = SpherePair(10, random_state=seed, progress=False).fit(data.X_train, constraints=pairs)
            labels = model.predict(data.X_test)
            ours = time.perf_counter() - started
            targets.append(100 * clustering_accuracy(data.y_test, labels))
            seconds_of_ours.append(ours)
            n_pretraining = sum(record["stage"] == "pretraining" for record in model.history_)
            print(f"seed {seed}: ours {targets[-1]:.1f} % in {ours:.0f} s", flush=True)
        else:
            targets.append(args.target[position])
            print(f"seed {seed}: the target is {targets[-1]:.1f} %", flush=True)
        evaluations: list[Evaluation] = []
        plain = plain_evaluations(
            data,
            pairs,
            seed,
            n_pretraining=n_pretraining,
            every=args.evaluate_every,
            rows_per_step=args.rows_per_step,
            device=hardware.device,
        )
        for evaluation in plain:
            evaluations.append(evaluation)
            if evaluation.epochs >= args.max_epochs or (ours and evaluation.seconds >= args.max_ratio * ours):
                break
        evaluations_of_seeds.append(evaluations)
        print(f"  plain, seed {seed}: {verdict(evaluations, targets[-1], ours)}", flush=True)
    means = [
        Evaluation(
            at[0].epochs, *np.mean([(evaluation.accuracy, evaluation.seconds) for evaluation in at], axis=0)
        )
        for at in zip(*evaluations_of_seeds, strict=False)
    ]
    print(
        "plain, mean of seeds by epochs on pairs, as far as all of them ran: "
        + ", ".join(f"{evaluation.epochs}: {evaluation.accuracy:.1f}" for evaluation in means)
    )
    mean_seconds = float(np.mean(seconds_of_ours)) if seconds_of_ours else None
    print(f"plain, mean of seeds: {verdict(means, float(np.mean(targets)), mean_seconds)}")


if __name__ == "__main__":
    main()

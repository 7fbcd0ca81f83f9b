"""How long the plain loop of ``plain_loop.py`` takes to get where our default settings get.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/to_accuracy.py --seeds 0

FashionMNIST with 10,000 pairs. Ours is fitted first; its accuracy on the test rows is the aim. The plain loop
pretrains for as many epochs as ours and then trains on the pairs; its own accuracy on the test rows is
looked at after every few epochs. Looking is not timed. What counts is the first look at which the mean of the
seeds has reached the mean of ours; where there is none, the time that was spent is a lower bound. When each
seed by itself has reached its aim is printed too; that flatters the plain loop, whose accuracy goes up and
down: nobody has such a stopping rule.

The plain loop shares out all rows over the steps of an epoch on pairs, as the paper does; ours reconstructs
256 in a step. With ``--rows-per-step 256`` the plain loop does as well.

With ``--aim`` nothing of ours is fitted: the accuracies are those of fits elsewhere, and a GPU can count the
epochs for a processor.
"""

from __future__ import annotations

import spherepair  # isort: skip  # before torch: it asks OpenMP not to spin for long

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

from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.training.hardware import choose_hardware


@dataclass(frozen=True)
class Look:
    """What the plain loop has after some epochs on pairs."""

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


def plain_looks(
    data: Any,
    pairs: Constraints,
    seed: int,
    *,
    n_pretraining: int,
    every: int,
    rows_per_step: int | None,
    device: torch.device,
) -> Iterator[Look]:
    """The plain loop from its first step on, for as long as anybody asks."""
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
        yield Look(epochs, found, spent)


def verdict(looks: list[Look], aim: float, ours: float | None) -> str:
    """When the aim was reached, or that it was not."""
    first = next((look for look in looks if look.accuracy >= aim), None)
    best = max(look.accuracy for look in looks)
    at = first or looks[-1]
    reached = "reached" if first else f"not reached (best {best:.1f} %)"
    times = (
        ""
        if ours is None
        else f", {'' if first else 'at least '}{at.seconds / ours:.1f} times as long as ours"
    )
    return f"{aim:.1f} % {reached} after {at.epochs} epochs on pairs, {at.seconds:.0f} s{times}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--look-every", type=int, default=10)
    parser.add_argument("--most-epochs", type=int, default=140)
    parser.add_argument("--most-times", type=float, default=7.5, help="give up at so many times our seconds")
    parser.add_argument("--rows-per-step", type=int, help="reconstructed; all shared out unless given")
    parser.add_argument("--aim", nargs="+", type=float, help="test accuracy of ours, one a seed, in percent")
    parser.add_argument("--pretraining-epochs", type=int, default=15, help="of ours, with --aim")
    args = parser.parse_args()
    if args.aim is not None and len(args.aim) != len(args.seeds):
        parser.error("--aim wants one accuracy a seed")
    hardware = choose_hardware()
    where = torch.cuda.get_device_name() if hardware.is_cuda else f"{torch.get_num_threads()} CPU threads"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}, {hardware.precision}")
    data = load_dataset("fashion_mnist")
    looks_of_seeds: list[list[Look]] = []
    aims: list[float] = []
    seconds_of_ours: list[float] = []
    for position, seed in enumerate(args.seeds):
        pairs = Constraints.from_labels(data.y_train, 10_000, random_state=seed)
        n_pretraining, ours = args.pretraining_epochs, None
        if args.aim is None:
            started = time.perf_counter()
            model = SpherePair(10, random_state=seed, progress=False).fit(data.X_train, constraints=pairs)
            labels = model.predict(data.X_test)
            ours = time.perf_counter() - started
            aims.append(100 * clustering_accuracy(data.y_test, labels))
            seconds_of_ours.append(ours)
            n_pretraining = sum(record["stage"] == "pretraining" for record in model.history_)
            print(f"seed {seed}: ours {aims[-1]:.1f} % in {ours:.0f} s", flush=True)
        else:
            aims.append(args.aim[position])
            print(f"seed {seed}: the aim is {aims[-1]:.1f} %", flush=True)
        looks: list[Look] = []
        plain = plain_looks(
            data,
            pairs,
            seed,
            n_pretraining=n_pretraining,
            every=args.look_every,
            rows_per_step=args.rows_per_step,
            device=hardware.device,
        )
        for look in plain:
            looks.append(look)
            if look.epochs >= args.most_epochs or (ours and look.seconds >= args.most_times * ours):
                break
        looks_of_seeds.append(looks)
        print(f"  plain, seed {seed}: {verdict(looks, aims[-1], ours)}", flush=True)
    means = [
        Look(at[0].epochs, *np.mean([(look.accuracy, look.seconds) for look in at], axis=0))
        for at in zip(*looks_of_seeds, strict=False)
    ]
    print(
        "plain, mean of seeds by epochs on pairs, as far as all went: "
        + ", ".join(f"{look.epochs}: {look.accuracy:.1f}" for look in means)
    )
    mean_seconds = float(np.mean(seconds_of_ours)) if seconds_of_ours else None
    print(f"plain, mean of seeds: {verdict(means, float(np.mean(aims)), mean_seconds)}")


if __name__ == "__main__":
    main()

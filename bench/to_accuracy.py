"""How long the plain loop of ``plain_loop.py`` takes to get where our default settings get.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/to_accuracy.py --seeds 0

FashionMNIST with 10,000 pairs. Ours is fitted first; its accuracy on the test rows is the aim. The plain loop
pretrains for as many epochs as ours and then trains on the pairs until its own accuracy on the test rows
has reached the aim, looked at after every few epochs, which flatters it: nobody has such a stopping rule.
Looking is not timed. Where it does not get there, the time it has spent is a lower bound.

How many epochs the plain loop needs does not depend on the machine. With ``--aim`` nothing of ours is fitted:
the accuracies are those of fits elsewhere, and a GPU can count the epochs for a processor.
"""

from __future__ import annotations

import spherepair  # isort: skip  # before torch: it asks OpenMP not to spin

import argparse
import time

import numpy as np
import torch
from plain_loop import PlainAutoencoder, pairs_epoch, pretraining_epoch
from sklearn.cluster import KMeans
from torch.nn import functional as F  # noqa: N812

from spherepair import Constraints, SpherePair
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.training.hardware import choose_hardware


@torch.no_grad()
def plain_accuracy(network: PlainAutoencoder, X: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> float:
    device = next(network.parameters()).device
    codes = [
        torch.cat([F.normalize(network.encoder(part.to(device)), dim=1) for part in rows.split(8192)])
        for rows in (torch.from_numpy(X), torch.from_numpy(X_test))
    ]
    cut = KMeans(10, n_init=5, random_state=0).fit(codes[0].cpu().numpy())
    return 100 * clustering_accuracy(y_test, cut.predict(codes[1].cpu().numpy()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--look-every", type=int, default=5)
    parser.add_argument("--most-epochs", type=int, default=250)
    parser.add_argument("--most-times", type=float, default=7.0, help="give up at so many times our seconds")
    parser.add_argument("--aim", nargs="+", type=float, help="test accuracy of ours, one a seed, in percent")
    parser.add_argument("--pretraining-epochs", type=int, default=30, help="of ours, with --aim")
    args = parser.parse_args()
    if args.aim is not None and len(args.aim) != len(args.seeds):
        parser.error("--aim wants one accuracy a seed")
    hardware = choose_hardware()
    where = torch.cuda.get_device_name() if hardware.is_cuda else f"{torch.get_num_threads()} CPU threads"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}, {hardware.precision}")
    data = load_dataset("fashion_mnist")
    for position, seed in enumerate(args.seeds):
        pairs = Constraints.from_labels(data.y_train, 10_000, random_state=seed)
        if args.aim is None:
            started = time.perf_counter()
            model = SpherePair(10, random_state=seed, progress=False).fit(data.X_train, constraints=pairs)
            labels = model.predict(data.X_test)
            ours = time.perf_counter() - started
            aim = 100 * clustering_accuracy(data.y_test, labels)
            n_pretraining = sum(record["stage"] == "pretraining" for record in model.history_)
            print(f"seed {seed}: ours {aim:.1f} % in {ours:.0f} s", flush=True)
        else:
            aim, n_pretraining, ours = args.aim[position], args.pretraining_epochs, np.inf
            print(f"seed {seed}: the aim is {aim:.1f} %", flush=True)

        factor = 1.0 / np.sqrt(np.mean(np.square(data.X_train)))  # our scaling of such columns
        X, X_test = factor * data.X_train, factor * data.X_test
        listed = [(int(p.left), int(p.right), int(p.is_must_link)) for p in pairs]
        torch.manual_seed(seed)
        network = PlainAutoencoder(X.shape[1], 10).to(hardware.device)
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        started = time.perf_counter()
        for _ in range(n_pretraining):
            pretraining_epoch(network, X, optimizer)
        spent, best, epoch = time.perf_counter() - started, 0.0, 0
        print(f"  plain: {n_pretraining} epochs of pretraining in {spent:.0f} s", flush=True)
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        while best < aim and epoch < args.most_epochs and spent < args.most_times * ours:
            started = time.perf_counter()
            for _ in range(args.look_every):
                pairs_epoch(network, X, listed, optimizer)
            spent, epoch = spent + time.perf_counter() - started, epoch + args.look_every
            found = plain_accuracy(network, X, X_test, data.y_test)
            best = max(best, found)
            print(f"  plain: {epoch} epochs on pairs, {found:.1f} % after {spent:.0f} s", flush=True)
        verdict = "" if best >= aim else f"not reached (best {best:.1f} %), so at least "
        much = f"{spent / ours:.1f} times as long" if args.aim is None else f"{epoch} epochs on pairs"
        print(f"  plain against ours: {verdict}{much}", flush=True)


if __name__ == "__main__":
    main()

"""Trained embeddings of real data, on which the number of clusters is then inferred.

    PYTHONPATH=src python bench/cluster_number_embeddings.py --data mnist --seeds 0 1 --out embeddings

For every data set, seed and number of pairs: SpherePair with room in the embedding (20 dimensions, 50
for CIFAR-100-20 and 20 Newsgroups); 15 epochs of joint pretraining are shared by the runs of a seed.
What is kept is what the inference looks at: the rows in the pairs and 5,000 random rows. One .npz per
data set; `bench/cluster_number_real.py` reads them. About 8 s per data set and seed on an H200.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from spherepair import Constraints, SpherePair
from spherepair.benchmark.pretrained import SharedPretraining, data_identity
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy
from spherepair.training.pretraining import JointPretraining
from spherepair.training.stopping import SettledRule

DIMENSIONS = {"cifar100_20": 50, "20newsgroups": 50}
N_OTHER_ROWS = 5000
PRETRAINING_EPOCHS = 15


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=["mnist"])
    parser.add_argument("--pairs", nargs="+", type=int, default=[1000, 5000, 10_000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    (args.out / "pretrained").mkdir(parents=True, exist_ok=True)
    for name in args.data:
        data = load_dataset(name)
        X = data.X_train
        kept: dict[str, np.ndarray] = {"n_classes": np.array(len(np.unique(data.y_train)))}
        for seed in args.seeds:
            started, shown = time.perf_counter(), []
            pretraining = SharedPretraining(
                JointPretraining(epochs=PRETRAINING_EPOCHS, warm_up=0.0),
                data_identity(name),
                args.out / "pretrained",
            )
            for n_pairs in args.pairs:
                run = fit_one(
                    X, data.y_train, n_pairs, seed, dim=DIMENSIONS.get(name, 20), pretraining=pretraining
                )
                shown.append(f"{n_pairs}: {run.pop('accuracy'):.3f}")
                kept |= {f"{seed}/{n_pairs}/{key}": value for key, value in run.items()}
            seconds = time.perf_counter() - started
            print(f"{name} seed {seed}: k-means ACC at {', '.join(shown)} ({seconds:.1f} s)", flush=True)
            np.savez_compressed(args.out / f"{name}.npz", **kept)


def fit_one(
    X: np.ndarray, y: np.ndarray, n_pairs: int, seed: int, *, dim: int, pretraining: SharedPretraining
) -> dict[str, Any]:
    pairs = Constraints.from_labels(y, n_pairs, random_state=seed)
    # Pairs and reconstruction only: terms that know the number of clusters would show it.
    model = SpherePair(
        len(np.unique(y)),
        embedding_dim=dim,
        pretraining=pretraining,
        must_link_weight=1.0,
        neighbor_weight=0.0,
        pseudo_pair_weight=0.0,
        averaging=False,
        stopping=SettledRule(min_epochs=20, settled=3e-4),
        random_state=seed,
    ).fit(X, constraints=pairs)
    others = np.random.default_rng(seed).permutation(len(y))[:N_OTHER_ROWS]
    rows = np.unique(np.concatenate([pairs.left, pairs.right, others]))
    return {
        "embedding": model.embedding_[rows].astype(np.float16),
        "left": np.searchsorted(rows, pairs.left).astype(np.int32),
        "right": np.searchsorted(rows, pairs.right).astype(np.int32),
        "is_must_link": pairs.is_must_link,
        "accuracy": clustering_accuracy(y, model.labels_),
    }


if __name__ == "__main__":
    main()

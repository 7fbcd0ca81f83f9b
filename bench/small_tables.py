"""Seconds and accuracy of small tables that come with scikit-learn; mean and spread over seeds.

    taskset -c 0,1 python bench/small_tables.py

Splits and pairs follow the seed; the accuracy is that of rows that the fit has not seen.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split

import spherepair
from spherepair import Constraints, SpherePair
from spherepair.metrics import clustering_accuracy

TABLES = {
    "digits": (datasets.load_digits, 1000),
    "breast cancer": (datasets.load_breast_cancer, 300),
    "wine": (datasets.load_wine, 300),
    "iris": (datasets.load_iris, 300),
}


def main() -> None:
    """Print one line per table, with the number of clusters given and found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    args = parser.parse_args()
    print(
        f"spherepair {spherepair.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )
    for name in args.tables:
        read, n_pairs = TABLES[name]
        X, y = read(return_X_y=True)
        for given in (len(np.unique(y)), "auto"):
            scores, seconds, numbers = [], [], []
            for seed in args.seeds:
                rows, new_rows, known, truth = train_test_split(X, y, test_size=0.2, random_state=seed)
                pairs = Constraints.from_labels(known, n_pairs, random_state=seed)
                start = time.perf_counter()
                model = SpherePair(given, random_state=seed, progress=False).fit(rows, constraints=pairs)
                seconds.append(time.perf_counter() - start)
                scores.append(100 * clustering_accuracy(truth, model.predict(new_rows)))
                numbers.append(model.n_clusters_)
            shape = f"{name} {len(rows)} x {X.shape[1]}, {n_pairs} pairs, K {given}"
            print(
                f"{shape:46s} test ACC {np.mean(scores):.1f} ± {np.std(scores):.1f}  "
                f"{np.mean(seconds):.1f} s  K found {sorted(set(numbers))}",
                flush=True,
            )


if __name__ == "__main__":
    main()

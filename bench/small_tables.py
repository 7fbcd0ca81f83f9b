"""Seconds and accuracy of small tables that come with scikit-learn; mean and spread over seeds.

    taskset -c 0,1 python bench/small_tables.py
    taskset -c 0,1 python bench/small_tables.py --wrong 0.1    # judged, and all taken for right; K unknown

Splits, pairs and wrong answers follow the seed; the accuracy is that of rows that the fit has not seen.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split

import spherepair
from spherepair import Constraints, SpherePair
from spherepair.errors import ConstraintWarning
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
    parser.add_argument("--wrong", type=float, default=0.0, help="share of wrong answers")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConstraintWarning)
    print(
        f"spherepair {spherepair.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )
    for name in args.tables:
        n_clusters = len(np.unique(TABLES[name][0](return_X_y=True)[1]))
        trials: list[dict[str, Any]] = [{"n_clusters": n_clusters}, {"n_clusters": "auto"}]
        if args.wrong:
            trials = [{"wrong_answers": "auto"}, {"wrong_answers": None}]
        for settings in trials:
            print(line_of(name, settings, args.seeds, args.wrong), flush=True)


def line_of(name: str, settings: dict[str, Any], seeds: list[int], wrong: float) -> str:
    """What fits of a table with these settings reach."""
    read, n_pairs = TABLES[name]
    X, y = read(return_X_y=True)
    scores, seconds, numbers = [], [], []
    for seed in seeds:
        rows, new_rows, known, truth = train_test_split(X, y, test_size=0.2, random_state=seed)
        right = Constraints.from_labels(known, n_pairs, random_state=seed)
        is_wrong = np.random.default_rng([seed, 7]).random(n_pairs) < wrong
        pairs = replace(right, is_must_link=right.is_must_link ^ is_wrong)
        start = time.perf_counter()
        model = SpherePair(random_state=seed, progress=False, **settings)
        model.fit(rows, constraints=pairs)
        seconds.append(time.perf_counter() - start)
        scores.append(100 * clustering_accuracy(truth, model.predict(new_rows)))
        numbers.append(model.n_clusters_)
    (setting,) = settings.items()
    shape = f"{name} {len(rows)} x {X.shape[1]}, {n_pairs} pairs, {setting[0]}={setting[1]!r}"
    return (
        f"{shape:62s} test ACC {np.mean(scores):.1f} ± {np.std(scores):.1f}  "
        f"{np.mean(seconds):.1f} s  K found {sorted(numbers)}"
    )


if __name__ == "__main__":
    main()

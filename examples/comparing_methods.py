"""Comparing methods: every estimator of the package on the same rows and the same pairs.

A small network, few epochs and no pretraining, which most of the methods would want, so that it takes
seconds: this shows how to compare, not who wins.
"""

from __future__ import annotations

import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spherepair import Constraints
from spherepair.estimators.loading import ESTIMATORS
from spherepair.metrics import cluster_scores

X, y = load_digits(n_class=4, return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
pairs = Constraints.from_labels(y, n_pairs=500, random_state=0)

#: Given to each method as far as it has a parameter of that name.
SETTINGS = {"hidden_dims": (64, 64), "pretraining": None, "max_epochs": 30, "random_state": 0}

print(f"{'method':14s}  accuracy  NMI    ARI    pairs kept  seconds   (on {len(y_new)} unseen rows)")
for name, method in ESTIMATORS.items():
    model = method(n_clusters=4)
    model.set_params(**{k: v for k, v in SETTINGS.items() if k in model.get_params()})
    started = time.perf_counter()
    model.fit(X, constraints=pairs)
    seconds = time.perf_counter() - started
    found, kept = cluster_scores(y_new, model.predict(X_new)), model.score_pairs(pairs)
    print(
        f"{name:14s}  {found.accuracy:8.1%}  {found.nmi:.3f}  {found.ari:.3f}  {kept:10.1%}  {seconds:7.1f}"
    )

"""
Comparing methods
=================

Every method of the package on the same rows and pairs. To stay short, networks are small, epochs few, and
nothing is pretrained, which most methods would want: this shows how to compare, not who wins.
"""

from __future__ import annotations

import time

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spherepair import Constraints, SpherePair, baselines
from spherepair.metrics import cluster_scores
from spherepair.plots import plot_sweep

X, y = load_digits(n_class=3, return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
N_PAIRS = (80, 300)

#: Given to each method as far as it has a parameter of that name.
SETTINGS = {"hidden_dims": (64, 64), "pretraining": None, "max_epochs": 20, "random_state": 0}
METHODS = [SpherePair, *(getattr(baselines, name) for name in baselines.__all__)]

# %%
accuracies = []
print(f"{'method':14s} {'pairs':>5s}  accuracy  NMI    ARI    seconds   (on {len(y_new)} unseen rows)")
for method in METHODS:
    accuracies.append([])
    for n_pairs in N_PAIRS:
        pairs = Constraints.from_labels(y, n_pairs=n_pairs, random_state=0)
        model = method(n_clusters=3)
        model.set_params(**{k: v for k, v in SETTINGS.items() if k in model.get_params()}, batch_size=64)
        started = time.perf_counter()
        model.fit(X, constraints=pairs)
        seconds = time.perf_counter() - started
        found = cluster_scores(y_new, model.predict(X_new))
        accuracies[-1].append(100 * found.accuracy)
        scores = f"{found.accuracy:8.1%}  {found.nmi:.3f}  {found.ari:.3f}"
        print(f"{method.__name__:14s} {n_pairs:5d}  {scores}  {seconds:7.1f}")

# %%
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
plot_sweep(
    N_PAIRS,
    accuracies,
    labels=[method.__name__ for method in METHODS],
    title="Three digits, small networks",
    x_label="pairs",
    y_label="accuracy on unseen rows, %",
    ax=ax,
)
plt.show()

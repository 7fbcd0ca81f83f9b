"""Imbalance: what happens when most constraints are about one cluster.

The sets IMB0, IMB1 and IMB2 of the paper: random pairs, then five and ten times as many, where all
that are added are cannot-links between one digit and the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.datasets import load_digits

from spherepair import Constraints, SpherePair
from spherepair.baselines import VanillaDCC
from spherepair.metrics import clustering_accuracy
from spherepair.plots import plot_constraint_heatmaps, save_figure
from spherepair.plots.heatmap import pair_shares

X, y = load_digits(n_class=5, return_X_y=True)
sets = dict(zip(("IMB0", "IMB1", "IMB2"), Constraints.imbalanced(y, 300, random_state=0), strict=True))

methods = {
    "SpherePair": SpherePair(5, hidden_dims=(64, 64), pretraining=None, max_epochs=10, random_state=0),
    "VanillaDCC": VanillaDCC(5, hidden_dims=(64, 64), max_epochs=30, random_state=0),
}
print("accuracy    " + "  ".join(f"{name:>10s}" for name in sets))
print("pairs       " + "  ".join(f"{len(pairs):10,}" for pairs in sets.values()))
print("on digit 0  " + "  ".join(f"{pair_shares(pairs, y)[0].sum():10.0%}" for pairs in sets.values()))
for name, method in methods.items():
    found = [method.fit(X, constraints=pairs).labels_ for pairs in sets.values()]
    print(f"{name}  " + "  ".join(f"{clustering_accuracy(y, labels):10.1%}" for labels in found))

if len(sys.argv) > 1:  # a folder for the picture
    path = Path(sys.argv[1]) / "imbalance.png"
    save_figure(plot_constraint_heatmaps(sets, y, title="Constraints pile up on digit 0"), path)
    print(f"Wrote {path}.")

"""
First steps
===========

A table, some pairs, a model, its clusters. The table is 178 wines that ship with scikit-learn.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from spherepair import Constraints, SpherePair
from spherepair.metrics import clustering_accuracy
from spherepair.plots import plot_embedding, plot_history

X, y = load_wine(return_X_y=True)  # 13 measurements; y only plays the expert

# %%
# An expert who compared some wines gives lists of pairs, ``Constraints.from_pairs(must_link=[(0, 4)],
# cannot_link=[(0, 9)])``, or a file, ``Constraints.read("pairs.csv")``. Here the expert answers random pairs.
pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
print(pairs)
print(f"contradictions: {len(pairs.conflicts())}, rows in some pair: {pairs.summary().n_rows_covered}")

# %%
# The size of the network follows the table; on a CPU this takes some seconds.
model = SpherePair(n_clusters=3, random_state=0)
model.fit(X, constraints=pairs)
print(f"sizes of the clusters: {np.bincount(model.labels_).tolist()}")
print(f"satisfied pairs: {model.score_pairs(pairs):.1%}")
print(f"accuracy on all wines: {clustering_accuracy(y, model.labels_):.1%}")

# %%
# The expert answers some more. ``refine`` goes on from here instead of starting again.
more = Constraints.from_labels(y, n_pairs=150, random_state=1)
model.refine(more)
print(f"after {len(more)} more pairs: {clustering_accuracy(y, model.labels_):.1%}")

# %%
# The rows between the three corners, and the terms of the loss during training.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
plot_embedding(model, title="Wines on the sphere, seen as a triangle", ax=left)
plot_history(model, ax=right)
plt.show()

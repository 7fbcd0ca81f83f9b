"""First steps: a table, some pairs, a model, its clusters; on wines that ship with scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine

from spherepair import Constraints, SpherePair
from spherepair.metrics import clustering_accuracy

X, y = load_wine(return_X_y=True)  # 178 wines, 13 measurements; y is used only to play the expert

# An expert who compared some wines would give lists of pairs: Constraints.from_pairs(must_link=[(0, 4)],
# cannot_link=[(0, 9)]) or a file, Constraints.read("pairs.csv"). Here the expert answers at random pairs.
pairs = Constraints.from_labels(y, n_pairs=150, random_state=0)
print(pairs)
print(f"contradictions: {len(pairs.conflicts())}, rows in some pair: {pairs.summary().n_rows_covered}")

# A small network, since the table is small; the defaults suit thousands of rows and more.
model = SpherePair(n_clusters=3, hidden_dims=(64, 64), batch_size=64, max_epochs=20, random_state=0)
model.fit(X, constraints=pairs)

print(f"sizes of the clusters: {np.bincount(model.labels_).tolist()}")
print(f"pairs kept: {model.score_pairs(pairs):.1%}")
print(f"accuracy on all wines: {clustering_accuracy(y, model.labels_):.1%}")

# The expert answers some more: go on from here instead of starting again.
more = Constraints.from_labels(y, n_pairs=150, random_state=1)
model.refine(more)
print(f"after {len(more)} more pairs: {clustering_accuracy(y, model.labels_):.1%}")

"""
Unknown number of clusters
==========================

Leave the number out, and read how sure the answer is.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from spherepair import Constraints, SpherePair
from spherepair.plots import plot_cluster_number, plot_embedding

X, y = load_digits(n_class=6, return_X_y=True)
pairs = Constraints.from_labels(y, n_pairs=1000, random_state=0)

model = SpherePair(hidden_dims=(64, 64), pretraining=None, max_epochs=25, random_state=0)
model.fit(X, constraints=pairs)

# %%
# The answer, how sure it is, and its rivals.
number = model.cluster_number_
print(f"{model.n_clusters_} clusters (there are {len(set(y))} digits), confidence {number.confidence:.2f}")
print(number.explanation)
for candidate in number.candidates[:3]:
    print(f"  {candidate}")

# %%
# The smallest angles between cannot-linked rows grow with the number of dimensions until there is room for
# all clusters, and stay level from there.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot_cluster_number(model, ax=left)
plot_embedding(model, ax=right)
plt.show()

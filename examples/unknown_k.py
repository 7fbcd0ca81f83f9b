"""Unknown number of clusters: leave it out, and read how sure the answer is."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from spherepair import Constraints, SpherePair

X, y = load_digits(n_class=6, return_X_y=True)
pairs = Constraints.from_labels(y, n_pairs=1000, random_state=0)

model = SpherePair(hidden_dims=(64, 64), pretraining=None, max_epochs=25, random_state=0).fit(
    X, constraints=pairs
)

number = model.cluster_number_
print(f"{model.n_clusters_} clusters (there are {len(set(y))} digits), confidence {number.confidence:.2f}")
print(number.explanation)
for candidate in number.candidates[:3]:
    print(f"  {candidate}")

# The smallest cannot-link angles over principal components: they rise until there is room for all
# clusters and are flat from there. spherepair.plots.tail_angle_curve(number) draws this.
for dimensions, angle in enumerate(np.degrees(number.curve[:10]), start=1):
    print(f"  d = {dimensions:2d}  {angle:5.1f}°  {'█' * round(angle / 3)}")

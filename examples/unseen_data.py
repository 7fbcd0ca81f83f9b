"""
Unseen data
===========

Fit today, save, and label tomorrow's rows with the loaded model.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spherepair import Constraints, SpherePair, load
from spherepair.metrics import clustering_accuracy
from spherepair.plots import plot_embedding

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

pairs = Constraints.from_labels(y, n_pairs=1500, random_state=0)
model = SpherePair(10, hidden_dims=(64, 64), pretraining=None, max_epochs=12, random_state=0)
model.fit(X, constraints=pairs)

with TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")  # JSON and safetensors; nothing in it is ever executed
    loaded = load(Path(folder) / "model")

labels = loaded.predict(X_new)
print(f"accuracy on the rows of the fit: {clustering_accuracy(y, model.labels_):.1%}")
print(f"accuracy on unseen rows:         {clustering_accuracy(y_new, labels):.1%}")

# %%
# The angle to the own center says how typical a row is. The margin to the second center says how certain its
# label is.
cosine = np.clip(loaded.transform(X_new) @ loaded.cluster_centers_.T, -1, 1)
angles = np.sort(np.degrees(np.arccos(cosine)), axis=1)
uncertain = np.argsort(angles[:, 1] - angles[:, 0])[:5]
print("the five least certain unseen rows:")
for row in uncertain:
    nearest, second = angles[row, :2]
    print(f"  row {row:3d}: a {y_new[row]}; {nearest:.0f}° to its cluster, {second:.0f}° to the next")

# %%
panels = [["map"] * 5, list("01234")]
figure, axes = plt.subplot_mosaic(panels, figsize=(6, 7), height_ratios=(5, 1), layout="constrained")
centers = loaded.cluster_centers_
plot_embedding(loaded.transform(X_new), labels, centers=centers, title="Unseen digits", ax=axes["map"])
for place, row in enumerate(uncertain):
    axes[str(place)].imshow(X_new[row].reshape(8, 8), cmap="gray_r")
    axes[str(place)].set_title(f"row {row}", fontsize=9)
    axes[str(place)].set_axis_off()
plt.show()

"""Unseen data: fit today, save, and label tomorrow's rows with the loaded model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spherepair import Constraints, SpherePair, load
from spherepair.metrics import clustering_accuracy

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

pairs = Constraints.from_labels(y, n_pairs=1500, random_state=0)
model = SpherePair(10, hidden_dims=(64, 64), pretraining=None, max_epochs=25, random_state=0)
model.fit(X, constraints=pairs)

with TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")  # JSON and safetensors; nothing in it is ever executed
    loaded = load(Path(folder) / "model")

labels = loaded.predict(X_new)
print(f"accuracy on the rows of the fit: {clustering_accuracy(y, model.labels_):.1%}")
print(f"accuracy on unseen rows:         {clustering_accuracy(y_new, labels):.1%}")

# The angle to the own centre says how far a row is from typical, the gap to the next how sure it is.
cosine = np.clip(loaded.transform(X_new) @ loaded.cluster_centers_.T, -1, 1)
angles = np.sort(np.degrees(np.arccos(cosine)), axis=1)
doubtful = np.argsort(angles[:, 1] - angles[:, 0])[:5]
print("the five most doubtful unseen rows:")
for row in doubtful:
    nearest, second = angles[row, :2]
    print(f"  row {row:3d}: a {y_new[row]}; {nearest:.0f}° to its cluster, {second:.0f}° to the next")

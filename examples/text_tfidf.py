"""
Text as tf-idf rows
===================

Sparse rows are given as the vectorizer makes them. The documents are the docstrings of scikit-learn's public
functions and classes, without their code examples. A document's class is the package it comes from.
"""

from __future__ import annotations

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from spherepair import Constraints, SpherePair
from spherepair.metrics import clustering_accuracy
from spherepair.plots import plot_constraint_heatmaps, plot_embedding

PACKAGES = ("cluster", "datasets", "linear_model", "metrics", "preprocessing")


def documents(package: str) -> list[str]:
    module = importlib.import_module(f"sklearn.{package}")
    texts = [inspect.getdoc(getattr(module, name)) or "" for name in module.__all__]
    return [text.split("Examples\n-----")[0] for text in texts]


found = {package: documents(package) for package in PACKAGES}
texts = [text for package in PACKAGES for text in found[package]]
package_of = [package for package in PACKAGES for _ in found[package]]
vectorizer = TfidfVectorizer(max_features=800, stop_words="english", sublinear_tf=True)
X = vectorizer.fit_transform(texts)
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} of the table filled")

# %%
pairs = Constraints.from_labels(package_of, n_pairs=300, random_state=0)
model = SpherePair(5, hidden_dims=(64,), pretraining=None, batch_size=64, max_epochs=15, random_state=0)
model.fit(X, constraints=pairs)
print(f"accuracy: {clustering_accuracy(package_of, model.labels_):.1%} after {len(pairs)} pairs")

# %%
# The words that set each cluster apart.
words = vectorizer.get_feature_names_out()
for cluster in range(model.n_clusters_):
    own = model.labels_ == cluster
    excess = np.asarray(X[own].mean(axis=0) - X[~own].mean(axis=0)).ravel()
    print(f"  cluster {cluster}, {own.sum():3d} documents: {', '.join(words[excess.argsort()[::-1][:6]])}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
plot_embedding(model, title="Docstrings of scikit-learn", ax=left)
plot_constraint_heatmaps({"pairs by true package": pairs}, package_of, ax=right)
plt.show()

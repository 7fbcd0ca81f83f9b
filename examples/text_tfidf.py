"""Text: tf-idf rows are given sparse, as the vectoriser makes them.

The documents are the docstrings of scikit-learn's public functions and classes, without their code
examples; a document's class is the package it comes from. A small corpus that is there without a
download, of real prose, though of one style and one subject.
"""

from __future__ import annotations

import importlib
import inspect

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from spherepair import Constraints, SpherePair
from spherepair.metrics import clustering_accuracy

PACKAGES = ("cluster", "datasets", "linear_model", "metrics", "preprocessing")


def documents(package: str) -> list[str]:
    module = importlib.import_module(f"sklearn.{package}")
    texts = [inspect.getdoc(getattr(module, name)) or "" for name in module.__all__]
    return [text.split("Examples\n-----")[0] for text in texts]


texts, package_of = [], []
for package in PACKAGES:
    found = documents(package)
    texts += found
    package_of += [package] * len(found)

vectoriser = TfidfVectorizer(max_features=800, stop_words="english", sublinear_tf=True)
X = vectoriser.fit_transform(texts)
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} of the table filled")

pairs = Constraints.from_labels(package_of, n_pairs=300, random_state=0)
model = SpherePair(
    len(PACKAGES), hidden_dims=(64,), pretraining=None, batch_size=64, max_epochs=15, random_state=0
)
model.fit(X, constraints=pairs)

print(f"accuracy: {clustering_accuracy(package_of, model.labels_):.1%} after {len(pairs)} pairs")
words = vectoriser.get_feature_names_out()
for cluster in range(model.n_clusters_):
    own = model.labels_ == cluster
    excess = np.asarray(X[own].mean(axis=0) - X[~own].mean(axis=0)).ravel()
    print(f"  cluster {cluster}, {own.sum():3d} documents: {', '.join(words[excess.argsort()[::-1][:6]])}")

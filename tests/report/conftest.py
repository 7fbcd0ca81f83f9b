"""A small model of digits, a model without a network, and a browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits

from spherepair import Constraints, SpherePair
from spherepair.report import ReportOptions, build_report


class PlainModel(BaseEstimator):
    """A fitted estimator whose embedding is its first columns: everything a report asks of a model."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X, labels, *, centers, constraints):
        self.n_features_in_ = X.shape[1]
        self.cluster_centers_ = np.asarray(centers, dtype=np.float32)
        self.embedding_, self.labels_ = self.transform(X), np.asarray(labels)
        self.n_clusters_, self.constraints_ = len(centers), constraints
        self.cluster_number_, self.history_ = None, []
        return self

    def transform(self, X):
        return np.asarray(X[:, : self.cluster_centers_.shape[1]], dtype=np.float32) * self.scale

    def predict(self, X):
        distances = np.linalg.norm(self.transform(X)[:, None] - self.cluster_centers_, axis=2)
        return distances.argmin(axis=1)


@dataclass(frozen=True)
class Digits:
    X: Any
    y: Any
    pairs: Constraints
    #: Pairs that the model has not seen, some of which it breaks.
    other_pairs: Constraints
    model: SpherePair


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    pairs = Constraints.from_labels(y, 600, random_state=0)
    other = Constraints.from_labels(y, 700, random_state=1)
    model = SpherePair(10, hidden_dims=(32,), pretraining=None, max_epochs=6, random_state=0, progress=False)
    return Digits(X, y, pairs, other, model.fit(X, constraints=pairs))


@pytest.fixture(scope="session")
def blobs():
    """Three clusters in a plane, with rows 0, 1, 2 on the centers: X, labels, model."""
    rng = np.random.default_rng(0)
    centers = np.array([[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0]])
    labels = np.arange(90) % 3
    X = np.column_stack([centers[labels] + rng.normal(size=(90, 2)), rng.normal(size=(90, 3))])
    X[:3, :2] = centers
    pairs = Constraints.from_pairs(must_link=[(0, 3), (1, 4), (0, 1)], cannot_link=[(0, 2), (2, 5)])
    return X, labels, PlainModel().fit(X, labels, centers=centers, constraints=pairs)


@pytest.fixture(scope="session")
def many_clusters():
    """A report on 32 clusters with 300 questions."""
    rng = np.random.default_rng(0)
    labels = np.arange(640) % 32
    centers = 10 * np.eye(32)
    X = centers[labels] + rng.normal(size=(640, 32))
    pairs = Constraints.from_labels(labels, 150, random_state=0)
    model = PlainModel().fit(X, labels, centers=centers, constraints=pairs)
    return build_report(model, X, pairs, options=ReportOptions(n_questions=300))


@pytest.fixture(scope="session")
def plain_model():
    return PlainModel

"""From embeddings to labels and centres: k-means, Ward, or any scikit-learn clusterer.

An assigner returns the labels of the rows and one centre per cluster; rows never seen are given to the
nearest centre. On the sphere centres are unit vectors, so the nearest is the one with the smallest angle
(part III of the paper's Algorithm 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from torch import Tensor

from spherepair.clustering.kmeans import kmeans, scores
from spherepair.errors import InvalidParameterError, MissingDependencyError

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Assignment:
    """Labels of the rows (n,) and the centres of the clusters (K, D)."""

    labels: Labels
    centers: Floats


class Assigner(Protocol):
    """Cuts embeddings into clusters."""

    def assign(self, embedding: Floats, n_clusters: int, *, seed: int) -> Assignment:
        """Cluster embeddings (n, D)."""
        ...


@dataclass(frozen=True)
class KMeansAssigner:
    """K-means; labels are those of the nearest centre, as for unseen rows."""

    n_init: int = 20
    device: torch.device | str = "cpu"
    spherical: bool = True

    def assign(self, embedding: Floats, n_clusters: int, *, seed: int) -> Assignment:
        """Cluster embeddings (n, D)."""
        generator = torch.Generator(self.device).manual_seed(seed)
        rows = torch.from_numpy(embedding).to(self.device)
        centers = kmeans(rows, n_clusters, generator=generator, n_init=self.n_init).cpu().numpy()
        centers = unit_rows(centers) if self.spherical else centers
        return Assignment(nearest_center(rows, centers), centers)


@dataclass(frozen=True)
class WardAssigner:
    """Ward's hierarchical clustering, without a matrix of all distances."""

    spherical: bool = True

    def assign(self, embedding: Floats, n_clusters: int, *, seed: int) -> Assignment:
        """Cluster embeddings (n, D)."""
        from fastcluster import linkage_vector
        from scipy.cluster.hierarchy import fcluster

        if n_clusters == 1 or len(embedding) == 1:
            labels = np.zeros(len(embedding), dtype=np.int64)
        else:
            tree = linkage_vector(embedding.astype(np.float64), method="ward")
            labels = fcluster(tree, n_clusters, criterion="maxclust").astype(np.int64) - 1
        return Assignment(labels, mean_centers(embedding, labels, spherical=self.spherical))


@dataclass(frozen=True)
class SklearnAssigner:
    """Any scikit-learn clusterer; a label of -1 (noise) is kept for the rows it was given to."""

    estimator: Any
    spherical: bool = True

    def assign(self, embedding: Floats, n_clusters: int, *, seed: int) -> Assignment:
        """Cluster embeddings (n, D)."""
        clusterer = clone(self.estimator)
        accepted = clusterer.get_params()
        if "n_clusters" in accepted:
            clusterer.set_params(n_clusters=n_clusters)
        elif "n_components" in accepted:
            clusterer.set_params(n_components=n_clusters)
        if accepted.get("random_state", seed) is None:
            clusterer.set_params(random_state=seed)
        found = np.asarray(clusterer.fit_predict(embedding))
        kept = np.unique(found[found >= 0])
        if len(kept) == 0:
            raise InvalidParameterError(
                f"clustering={self.estimator!r} put every row into noise; loosen its parameters."
            )
        labels = np.where(found >= 0, np.searchsorted(kept, found), -1).astype(np.int64)
        return Assignment(labels, mean_centers(embedding, labels, spherical=self.spherical))


def resolve_assigner(
    clustering: Any, *, device: torch.device | None = None, spherical: bool = True
) -> Assigner:
    """An assigner by name, or around a scikit-learn clusterer.

    Examples
    --------
    >>> resolve_assigner("ward")
    WardAssigner(spherical=True)
    """
    if isinstance(clustering, str) and clustering == "kmeans":
        return KMeansAssigner(device=device or "cpu", spherical=spherical)
    if isinstance(clustering, str) and clustering == "ward":
        # Looked for before training, not after it.
        if find_spec("fastcluster") is None:
            raise MissingDependencyError(
                "clustering='ward' needs the package fastcluster: pip install \"spherepair[ward]\"."
            )
        return WardAssigner(spherical)
    if hasattr(clustering, "fit_predict") and hasattr(clustering, "get_params"):
        return SklearnAssigner(clustering, spherical)
    raise InvalidParameterError(
        f"clustering must be 'kmeans', 'ward' or a scikit-learn clusterer, got {clustering!r} instead."
    )


def keep_numbers(found: Assignment, before: Labels) -> Assignment:
    """Renumber clusters so that each keeps the number under which most of its rows were known.

    Parameters
    ----------
    found : Assignment
    before : ndarray of shape (n,)
        Earlier labels of the same rows; -1 is noise.

    Examples
    --------
    >>> found = Assignment(np.array([0, 0, 1]), np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> keep_numbers(found, np.array([1, 1, 0])).labels
    array([1, 1, 0])
    """
    n_clusters = len(found.centers)
    shared = np.zeros((n_clusters, max(n_clusters, int(before.max()) + 1)), dtype=np.int64)
    known = (found.labels >= 0) & (before >= 0)
    np.add.at(shared, (found.labels[known], before[known]), 1)
    # Only numbers below K can be kept: labels stay 0 … K-1 when clusters have become fewer.
    number = linear_sum_assignment(shared[:, :n_clusters], maximize=True)[1]
    labels = np.where(found.labels >= 0, number[found.labels], -1)
    return Assignment(labels, found.centers[np.argsort(number)])


def nearest_center(embedding: Tensor, centers: Floats) -> Labels:
    """Position of the centre nearest to each embedding; among unit vectors that of the smallest angle.

    On the device of the embedding, a chunk of rows at a time.
    """
    placed = torch.from_numpy(centers).to(embedding.device)[None]
    nearest = [score[:, 0].argmax(dim=1) for _, score in scores(embedding, placed)]
    return np.asarray(torch.cat(nearest).cpu().numpy(), dtype=np.int64)


def mean_centers(embedding: Floats, labels: Labels, *, spherical: bool = True) -> Floats:
    """Means of the clusters 0 … K-1, on the sphere as unit vectors; rows labelled -1 are left out."""
    kept = labels >= 0
    sums = np.zeros((int(labels.max()) + 1, embedding.shape[1]))
    np.add.at(sums, labels[kept], embedding[kept])
    if spherical:
        return unit_rows(sums)
    counts = np.bincount(labels[kept], minlength=len(sums))
    return np.asarray(sums / np.maximum(counts, 1)[:, None], dtype=np.float32)


def unit_rows(rows: NDArray[Any]) -> Floats:
    """Rows scaled to length one; a row of zeros stays zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0), dtype=np.float32)

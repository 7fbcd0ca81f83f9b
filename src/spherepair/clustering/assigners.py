"""Labels and centers of an embedding: k-means, Ward's method, or any scikit-learn clusterer.

An assigner labels the rows and gives one center per cluster; unseen rows go to the nearest center. On the
sphere centers are unit vectors, so the nearest one has the smallest angle (part III of the paper's
Algorithm 1).

k-means is our own: scikit-learn's adds up centers in the order in which its threads finish, so that two runs
may round differently, and it does not run on a GPU. Here all restarts share one matrix product, and rows are
taken in chunks, so memory does not grow with n x K.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from torch import Tensor

from spherepair.errors import InvalidParameterError, MissingDependencyError, quoted

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Real = TypeVar("Real", np.float32, np.float64)

#: Entries of a chunk's distance matrix; 2**23 floats are 32 MiB.
CHUNK_ENTRIES = 2**23
#: Restarts of k-means compete for this many steps, then the best goes on alone.
CONTEST_STEPS = 30
#: The contest uses a random sample of this many rows, or of this many per cluster if that is more.
CONTEST_ROWS, ROWS_PER_CLUSTER = 16_384, 100
#: From so many clusters on, starts are drawn with more care.
MANY_CLUSTERS = 16


@dataclass(frozen=True)
class Assignment:
    """Labels of the rows, (n,), and centers of the clusters, (K, D)."""

    labels: Labels
    centers: Floats


class Assigner(Protocol):
    """Divides embeddings into clusters."""

    def assign(
        self, embedding: Floats, n_clusters: int, *, seed: int, start: Floats | None = None
    ) -> Assignment:
        """Cluster embeddings, (n, D); ``start``, (K, D), are centers to start from, which k-means uses."""
        ...


@dataclass(frozen=True)
class KMeansAssigner:
    """k-means; a row's label is its nearest center, as for unseen rows."""

    n_init: int = 20
    device: torch.device | str = "cpu"
    spherical: bool = True

    def assign(
        self, embedding: Floats, n_clusters: int, *, seed: int, start: Floats | None = None
    ) -> Assignment:
        """Cluster embeddings, (n, D)."""
        generator = torch.Generator(self.device).manual_seed(seed)
        rows = torch.from_numpy(embedding).to(self.device)
        first = None if start is None else torch.from_numpy(start).to(self.device)
        found = kmeans(rows, n_clusters, generator=generator, n_init=self.n_init, start=first)
        centers = found.cpu().numpy()
        centers = unit_rows(centers) if self.spherical else centers
        return Assignment(nearest_center(rows, centers), centers)


@dataclass(frozen=True)
class WardAssigner:
    """Ward's hierarchical clustering, without a matrix of all distances."""

    spherical: bool = True

    def assign(
        self, embedding: Floats, n_clusters: int, *, seed: int, start: Floats | None = None
    ) -> Assignment:
        """Cluster embeddings, (n, D)."""
        if n_clusters == 1 or len(embedding) == 1:
            labels = np.zeros(len(embedding), dtype=np.int64)
        else:
            labels = cut_tree(ward_tree(embedding.astype(np.float64)), n_clusters)
        return Assignment(labels, mean_centers(embedding, labels, spherical=self.spherical))


@dataclass(frozen=True)
class SklearnAssigner:
    """Any scikit-learn clusterer; rows it labels -1 (noise) stay noise."""

    estimator: Any
    spherical: bool = True

    def assign(
        self, embedding: Floats, n_clusters: int, *, seed: int, start: Floats | None = None
    ) -> Assignment:
        """Cluster embeddings, (n, D)."""
        clusterer = clone(self.estimator)
        accepted = clusterer.get_params()
        if "n_clusters" in accepted:
            clusterer.set_params(n_clusters=n_clusters)
        elif "n_components" in accepted:
            clusterer.set_params(n_components=n_clusters)
        if accepted.get("random_state", seed) is None:
            clusterer.set_params(random_state=seed)
        found = np.asarray(clusterer.fit_predict(embedding))
        numbers = np.unique(found[found >= 0])
        if len(numbers) == 0:
            raise InvalidParameterError(
                f"clustering={self.estimator!r} labeled every row as noise; loosen its parameters."
            )
        labels = np.where(found >= 0, np.searchsorted(numbers, found), -1).astype(np.int64)
        return Assignment(labels, mean_centers(embedding, labels, spherical=self.spherical))


def resolve_assigner(
    clustering: Any, *, device: torch.device | None = None, spherical: bool = True
) -> Assigner:
    """Return the assigner of this name, or one around a scikit-learn clusterer.

    Examples
    --------
    >>> resolve_assigner("ward")
    WardAssigner(spherical=True)
    """
    if isinstance(clustering, str) and clustering == "kmeans":
        return KMeansAssigner(device=device or "cpu", spherical=spherical)
    if isinstance(clustering, str) and clustering == "ward":
        # Checked before training, not after it.
        if find_spec("fastcluster") is None:
            raise MissingDependencyError(
                "clustering='ward' needs the package fastcluster: pip install \"spherepair[ward]\"."
            )
        return WardAssigner(spherical)
    if hasattr(clustering, "fit_predict") and hasattr(clustering, "get_params"):
        return SklearnAssigner(clustering, spherical)
    raise InvalidParameterError(
        f"clustering must be 'kmeans', 'ward' or a scikit-learn clusterer, got {quoted(clustering)} instead."
    )


def keep_numbers(found: Assignment, before: Labels) -> Assignment:
    """Renumber clusters so that each keeps the number that most of its rows had before.

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
    # Only numbers below K can be kept: labels stay 0 … K-1 even if there are fewer clusters now.
    number = linear_sum_assignment(shared[:, :n_clusters], maximize=True)[1]
    labels = np.where(found.labels >= 0, number[found.labels], -1)
    return Assignment(labels, found.centers[np.argsort(number)])


def nearest_center(embedding: Tensor, centers: NDArray[np.floating[Any]]) -> Labels:
    """Index of the center nearest to each row; among unit vectors, the one with the smallest angle.

    Runs on the device of the embedding, one chunk of rows at a time.

    Examples
    --------
    >>> nearest_center(torch.tensor([[0.0], [4.0]]), np.array([[5.0], [1.0]], dtype=np.float32))
    array([1, 0])
    """
    candidates = torch.from_numpy(centers).to(embedding.device)[None]
    nearest = [score[:, 0].argmax(dim=1) for _, score in _scores(embedding, candidates)]
    return np.asarray(torch.cat(nearest).cpu().numpy(), dtype=np.int64)


def mean_centers(embedding: Floats, labels: Labels, *, spherical: bool = True) -> Floats:
    """Means of clusters 0 … K-1, as unit vectors on the sphere; rows labeled -1 are left out."""
    is_member = labels >= 0
    sums = np.zeros((int(labels.max()) + 1, embedding.shape[1]))
    np.add.at(sums, labels[is_member], embedding[is_member])
    if spherical:
        return unit_rows(sums).astype(np.float32)
    counts = np.bincount(labels[is_member], minlength=len(sums))
    return np.asarray(sums / np.maximum(counts, 1)[:, None], dtype=np.float32)


def unit_rows(rows: NDArray[Real], *, lengths: NDArray[Real] | None = None) -> NDArray[Real]:
    """Scale rows to length one; a row of zeros stays zero.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    lengths : ndarray of shape (n,), optional
        Lengths of the rows where they are known already.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    divisor = np.linalg.norm(rows, axis=1, keepdims=True) if lengths is None else lengths[:, None]
    # The squares of a row below 1e-160 underflow: it has no direction either.
    unit: NDArray[Real] = np.divide(rows, divisor, out=np.zeros_like(rows), where=divisor > 0)
    return unit


def ward_tree(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ward tree, (n - 1, 4), in the form of :func:`scipy.cluster.hierarchy.linkage`.

    Examples
    --------
    >>> ward_tree(np.array([[0.0], [1.0], [5.0], [6.0]]))[:, 2].round(2).tolist()
    [1.0, 1.0, 7.07]
    """
    try:
        from fastcluster import linkage_vector as linkage
    except ImportError:  # an optional package; SciPy needs the matrix of all distances instead
        from scipy.cluster.hierarchy import linkage
    tree: NDArray[np.float64] = linkage(rows, method="ward")
    return tree


def cut_tree(tree: NDArray[np.float64], n_clusters: int) -> Labels:
    """Labels 0 … K-1 of the rows when the tree is cut into K clusters."""
    from scipy.cluster.hierarchy import fcluster

    labels: Labels = fcluster(tree, n_clusters, criterion="maxclust").astype(np.int64) - 1
    return labels


def kmeans(
    x: Tensor,
    n_clusters: int,
    *,
    generator: torch.Generator,
    n_init: int = 20,
    max_iter: int = 300,
    tol: float | None = 1e-4,
    start: Tensor | None = None,
) -> Tensor:
    """Centers, (K, D), by Lloyd's algorithm from the best of ``n_init`` k-means++ starts.

    Parameters
    ----------
    x : Tensor of shape (n, D)
    n_clusters : int
    generator : torch.Generator
        On the device of ``x``.
    n_init : int, default=20
        Restarts; after a few steps the best one goes on alone.
    max_iter : int, default=300
        Most steps of the best restart.
    tol : float or None, default=1e-4
        Stop when the squared shift of the centers, relative to the variance of the columns, is no larger.
        ``None`` does all steps, so that the host never waits for a GPU; on a CPU until nothing moves.
    start : Tensor of shape (K, D), optional
        Centers to start from instead.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> centers = kmeans(x, 2, generator=torch.Generator().manual_seed(0))
    >>> sorted(round(c, 2) for c in centers[:, 0].tolist())
    [0.05, 5.05]
    """
    threshold = None if tol is None else tol * x.var(dim=0, unbiased=False).mean()
    if start is not None:
        return _lloyd(x, start[None], max_iter, threshold)[0]
    contest = x
    most = max(CONTEST_ROWS, ROWS_PER_CLUSTER * n_clusters)
    if len(x) > most:
        contest = x[torch.randperm(len(x), generator=generator, device=x.device)[:most]]
    centers = _plus_plus(contest, n_clusters, n_init, generator)  # (R, K, D)
    centers = _lloyd(contest, centers, min(CONTEST_STEPS, max_iter), threshold)
    best = centers.index_select(0, _quality(contest, centers).argmax()[None])
    return _lloyd(x, best, max_iter, threshold)[0]


def kmeans_from_labels(x: Tensor, labels: Tensor, *, n_steps: int) -> Tensor:
    """Centers, (K, D), after a few steps of k-means that start from labels 0 … K-1.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0], [9.0]])
    >>> kmeans_from_labels(x, torch.tensor([0, 0, 1, 1]), n_steps=2).tolist()
    [[1.0], [9.0]]
    """
    counts = torch.bincount(labels).clamp(min=1)[:, None]
    means = x.new_zeros(len(counts), x.shape[1]).index_add_(0, labels, x) / counts
    return _lloyd(x, means[None], n_steps, None)[0]


def _plus_plus(x: Tensor, n_clusters: int, n_init: int, generator: torch.Generator) -> Tensor:
    """Each next center is a row drawn with probability proportional to its squared distance.

    Where clusters are many, it is the best of a few such rows: single draws leave some clusters without any.
    """
    n_draws = 1 if n_clusters < MANY_CLUSTERS else 2 + int(math.log(n_clusters))
    square = x.square().sum(dim=1)
    chosen = torch.randint(len(x), (n_init,), generator=generator, device=x.device)
    centers = [x[chosen]]  # each (R, D)
    nearest = _nearer(x, square, chosen, torch.full((n_init, len(x)), torch.inf, device=x.device))
    for _ in range(n_clusters - 1):
        mass = nearest.cumsum(dim=1, dtype=torch.float64)
        draw = torch.rand(n_init, n_draws, generator=generator, device=x.device, dtype=torch.float64)
        drawn = torch.searchsorted(mass, draw * mass[:, -1:]).clamp(max=len(x) - 1)
        before, chosen = nearest, drawn[:, 0]
        nearest = _nearer(x, square, chosen, before)
        for other in drawn.T[1:]:
            found = _nearer(x, square, other, before)
            is_better = found.sum(dim=1) < nearest.sum(dim=1)
            nearest = torch.where(is_better[:, None], found, nearest)
            chosen = torch.where(is_better, other, chosen)
        centers.append(x[chosen])
    return torch.stack(centers, dim=1)


def _nearer(x: Tensor, square: Tensor, chosen: Tensor, nearest: Tensor) -> Tensor:
    """Squared distances of the rows to the nearest center, (R, n), with rows ``chosen`` as new centers."""
    far = torch.addmm(square[chosen][:, None] + square, x[chosen], x.T, alpha=-2.0).clamp_(min=0.0)
    return torch.minimum(nearest, far)


def _lloyd(x: Tensor, centers: Tensor, max_iter: int, threshold: Tensor | None) -> Tensor:
    """Move the centers of all restarts until none moves by more than the threshold."""
    for _ in range(max_iter):
        before, centers = centers, _means(x, centers)
        if _is_at_rest(before, centers) if threshold is None else bool(_shift(before, centers) <= threshold):
            break
    return centers


def _is_at_rest(before: Tensor, centers: Tensor) -> bool:
    """Whether all further steps would change nothing, where that is known without waiting for a GPU."""
    return before.device.type == "cpu" and torch.equal(before, centers)


def _shift(before: Tensor, centers: Tensor) -> Tensor:
    """Largest squared shift of the centers over all restarts."""
    return (centers - before).square().sum(dim=(1, 2)).amax()


def _means(x: Tensor, centers: Tensor) -> Tensor:
    """Means, (R, K, D), of the rows nearest to each center; a center without rows stays where it is.

    The contest between restarts weeds out empty clusters.
    """
    parts = (_sums(chunk, score) for chunk, score in _scores(x, centers))
    sums, counts = next(parts)
    for more, number in parts:
        sums += more
        counts += number
    sums, counts = sums.view(centers.shape), counts.view(*centers.shape[:2], 1)
    return torch.where(counts > 0, sums / counts, centers)


def _sums(chunk: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
    """Sums, (R K, D), and numbers, (R K,), of the rows nearest to each center."""
    nearest = score.max(dim=2, keepdim=True).indices  # faster than argmax
    one_hot = torch.zeros_like(score).scatter_(2, nearest, 1.0).view(len(chunk), -1)
    return one_hot.T @ chunk, one_hot.sum(dim=0)


def _quality(x: Tensor, centers: Tensor) -> Tensor:
    """Quality of each restart, (R,): larger where the squared distances to its centers are smaller."""
    quality = torch.zeros(len(centers), device=x.device, dtype=torch.float64)
    for _, score in _scores(x, centers):
        quality += score.max(dim=2).values.sum(dim=0, dtype=torch.float64)
    return quality


def _scores(x: Tensor, centers: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield chunks of rows, (m, D), and their scores, (m, R, K): largest for the nearest center."""
    flat = centers.reshape(-1, centers.shape[-1])
    bias = -0.5 * flat.square().sum(dim=1)
    size = max(1, CHUNK_ENTRIES // flat.shape[0])
    for chunk in (x,) if x.shape[0] <= size else torch.split(x, size):
        score = torch.addmm(bias, chunk, flat.T)
        yield chunk, score.view(chunk.shape[0], *centers.shape[:2])

"""The paper's results on angles as functions: which omega, how many dimensions, which angles.

    omega_min(K) = pi / arccos(-1/(K-1))                            (Theorem 4.4, Corollary 4.5)

Further the deviations that a small loss leaves (Corollary 4.3), and the angles between the centered clusters,
which reveal their number (Theorem 4.6, Corollary 4.7, Eq. 6). All angles are in radians.

Reference: Zhang and Chen, "Angular Constraint Embedding via SpherePair Loss for Constrained Clustering",
NeurIPS 2025, Section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import helmert

from spherepair.errors import InvalidParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OmegaRange:
    """Valid values of omega, from `low` to `high` inclusive; `high` may be infinite."""

    low: float
    high: float

    def __contains__(self, omega: float) -> bool:
        return self.low <= omega <= self.high


@dataclass(frozen=True)
class AngleBounds:
    """Bounds of the minimal angle: `low` is approached, `high` is attained; equal for K = 2."""

    low: float
    high: float


def widest_angle(n_clusters: int) -> float:
    """Largest common angle between K unit vectors: arccos(-1/(K-1)) (Theorem 4.4).

    Parameters
    ----------
    n_clusters : int
        Number of clusters K, at least 2.

    Examples
    --------
    >>> round(math.degrees(widest_angle(3)), 6)
    120.0
    """
    _check_count(n_clusters, name="n_clusters", least=2)
    return math.acos(-1.0 / (n_clusters - 1))


def minimal_omega(n_clusters: int) -> float:
    """Smallest omega that leaves room for K clusters: pi / arccos(-1/(K-1)) (Corollary 4.5).

    It grows with K from 1 and stays below 2, so omega = 2 suits any number of clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters K, at least 2.

    Examples
    --------
    >>> minimal_omega(2), round(minimal_omega(3), 6)
    (1.0, 1.5)
    """
    return math.pi / widest_angle(n_clusters)


def valid_omega_range(n_clusters: int, embedding_dim: int) -> OmegaRange | None:
    """All values of omega for which equidistant clusters exist in D dimensions (Theorem 4.4).

    Parameters
    ----------
    n_clusters : int
        Number of clusters K, at least 2.
    embedding_dim : int
        Dimensions D of the embedding.

    Returns
    -------
    OmegaRange or None
        None if D < K-1, a single value if D = K-1, unbounded above if D >= K.

    Examples
    --------
    >>> valid_omega_range(3, 1) is None
    True
    >>> 2.0 in valid_omega_range(3, 2), 2.0 in valid_omega_range(3, 3)
    (False, True)
    """
    low = minimal_omega(n_clusters)
    _check_count(embedding_dim, name="embedding_dim", least=1)
    if embedding_dim < n_clusters - 1:
        return None
    return OmegaRange(low, low if embedding_dim == n_clusters - 1 else math.inf)


def simplex_vertices(n_clusters: int, embedding_dim: int | None = None) -> Floats:
    """Corners, (K, D), of a centered regular simplex: the embedding of Theorem 4.4 (ii).

    Parameters
    ----------
    n_clusters : int
        Number of clusters K, at least 2.
    embedding_dim : int, optional
        Dimensions D, at least K-1 (the default); further dimensions are zero.

    Examples
    --------
    >>> corners = simplex_vertices(4)
    >>> corners.shape, bool(np.allclose(corners @ corners.T, (4 * np.eye(4) - 1) / 3))
    ((4, 3), True)
    """
    return equiangular_vertices(n_clusters, widest_angle(n_clusters), embedding_dim=embedding_dim)


def equiangular_vertices(n_clusters: int, theta: float, *, embedding_dim: int | None = None) -> Floats:
    """K unit vectors, (K, D), with the same angle between any two (proof of Theorem 4.4).

    Parameters
    ----------
    n_clusters : int
        Number of clusters K, at least 2.
    theta : float
        The common angle, in (0, arccos(-1/(K-1))].
    embedding_dim : int, optional
        Dimensions D; by default as many as needed, K-1 for the widest angle and K for any smaller one.

    Examples
    --------
    >>> vectors = equiangular_vertices(3, math.pi / 2)
    >>> bool(np.allclose(vectors @ vectors.T, np.eye(3)))
    True
    """
    widest = widest_angle(n_clusters)
    is_simplex = math.isclose(theta, widest, rel_tol=1e-12)
    if not (is_simplex or 0.0 < theta < widest):
        raise InvalidParameterError(
            f"theta must be in (0, {widest:.6g}] for {n_clusters} clusters, got {theta!r} instead."
        )
    needed = n_clusters - 1 if is_simplex else n_clusters
    dim = needed if embedding_dim is None else embedding_dim
    _check_count(dim, name=f"embedding_dim for {n_clusters} clusters at this angle", least=needed)
    vectors = np.zeros((n_clusters, dim))
    # The Gram matrix (1-c) I + c J has eigenvalue 1-c on the K-1 rows of the Helmert matrix and
    # 1+c(K-1) on the constant vector; 1-c as 2 sin^2 keeps its digits for small angles.
    vectors[:, : n_clusters - 1] = math.sqrt(2.0) * math.sin(theta / 2) * helmert(n_clusters).T
    if not is_simplex:
        vectors[:, n_clusters - 1] = math.sqrt(math.cos(theta) + (1 - math.cos(theta)) / n_clusters)
    return vectors


def must_link_deviation(epsilon: float, n_pairs: int) -> float:
    """Largest angle of a must-link when the loss is at most epsilon (Corollary 4.3 i).

    With n pairs, Delta+ = arccos(2 exp(-n epsilon) - 1), about 2 sqrt(n epsilon).

    Parameters
    ----------
    epsilon : float
        Bound on the average angular loss, not negative.
    n_pairs : int
        Number of constraints (``|C|`` in the paper).

    Examples
    --------
    >>> must_link_deviation(1e-20, 4)
    4e-10
    """
    if not epsilon >= 0:
        raise InvalidParameterError(f"epsilon must not be negative, got {epsilon!r} instead.")
    _check_count(n_pairs, name="n_pairs", least=1)
    total = n_pairs * epsilon
    # Half-angle form of the arccos: the printed form is 0 for totals below 1e-16.
    return 2.0 * math.atan2(math.sqrt(-math.expm1(-total)), math.exp(-total / 2))


def cannot_link_deviation(epsilon: float, n_pairs: int, *, omega: float = 2.0) -> float:
    """Largest shortfall of a cannot-link's angle from pi/omega when the loss is at most epsilon.

    With n pairs, Delta- = arccos(2 exp(-n epsilon) - 1) / omega, about 2 sqrt(n epsilon) / omega
    (Corollary 4.3 ii).

    Parameters
    ----------
    epsilon : float
        Bound on the average angular loss, not negative.
    n_pairs : int
        Number of constraints (``|C|`` in the paper).
    omega : float
        Negative-zone factor, positive.

    Examples
    --------
    >>> cannot_link_deviation(1e-20, 4, omega=2.0)
    2e-10
    """
    if not omega > 0:
        raise InvalidParameterError(f"omega must be positive, got {omega!r} instead.")
    # Differs from the paper: it prints arccos(1 - 2 exp(-|C| epsilon)), which tends to pi, not to the 0 of
    # its own approximation; cos(omega theta) <= 1 - 2 exp(..) gives the form used here.
    return must_link_deviation(epsilon, n_pairs) / omega


def centered_angles(proportions: ArrayLike) -> Floats:
    """Angles, (K, K), between equidistant clusters, seen from the mean of all rows (Eq. 6).

    cos = (S - p_k - p_l) / sqrt((1 - 2 p_k + S)(1 - 2 p_l + S)) with S = sum_i p_i^2. The angles depend on
    the sizes of the clusters, but not on omega nor, from d = K-1 on, on the number of principal components.

    Parameters
    ----------
    proportions : array of shape (n_clusters,)
        Positive sizes of the clusters; they are scaled to sum to 1.

    Examples
    --------
    >>> np.degrees(centered_angles([1, 1, 1])).round(6)[0]
    array([  0., 120., 120.])
    """
    p = _proportions(proportions)
    others = np.where(np.eye(len(p), dtype=bool), 0.0, p)  # (K, K), row k without p_k
    rest = np.clip(others.sum(axis=1)[:, None] - p, 0.0, None)
    rest_squares = np.clip((others**2).sum(axis=1)[:, None] - p**2, 0.0, rest**2)
    # arctan(sine / cosine), because arccos loses half of the digits near pi (K = 2). The sine is
    # |v_k ^ v_l| = sqrt(r^2 + 2 s) with r and s the sums of p_i and p_i^2 over the other clusters.
    spread = p * (1.0 - p)
    cosine = rest_squares - spread[:, None] - spread
    angles = np.arctan2(np.sqrt(rest**2 + 2.0 * rest_squares), cosine)
    np.fill_diagonal(angles, 0.0)
    return np.asarray((angles + angles.T) / 2)


def minimal_angle(proportions: ArrayLike) -> float:
    """Height of the plateau, delta_star: the smallest of the centered angles (Corollary 4.7).

    Parameters
    ----------
    proportions : array of shape (n_clusters,)
        Positive sizes of the clusters; they are scaled to sum to 1.

    Examples
    --------
    >>> round(math.degrees(minimal_angle([0.25, 0.25, 0.25, 0.25])), 4)
    109.4712
    """
    angles = centered_angles(proportions)
    return float(angles[~np.eye(len(angles), dtype=bool)].min())


def minimal_angle_bounds(n_clusters: int) -> AngleBounds:
    """Bounds of the plateau over all sizes of K clusters: (pi/3, arccos(-1/(K-1))] (Corollary 4.7).

    The upper bound holds for clusters of equal size, the lower one in the limit of one cluster with all rows.
    For K = 2 the angle is always pi.

    Parameters
    ----------
    n_clusters : int
        Number of clusters K, at least 2.

    Examples
    --------
    >>> bounds = minimal_angle_bounds(10)
    >>> round(math.degrees(bounds.low), 4), round(math.degrees(bounds.high), 4)
    (60.0, 96.3794)
    """
    high = widest_angle(n_clusters)
    return AngleBounds(math.pi if n_clusters == 2 else math.pi / 3, high)


def _check_count(value: int, *, name: str, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise InvalidParameterError(
            f"{name} must be a whole number of at least {least}, got {value!r} instead."
        )


def _proportions(values: ArrayLike) -> Floats:
    sizes = np.asarray(values, dtype=np.float64)
    if sizes.ndim != 1 or len(sizes) < 2:
        raise InvalidParameterError(
            f"proportions must list at least two clusters, got shape {sizes.shape} instead."
        )
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        worst = int(np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0)))[0])
        raise InvalidParameterError(
            f"proportions must be positive, got {sizes[worst]} for cluster {worst}; leave out empty clusters."
        )
    return np.asarray(sizes / sizes.sum())

"""Scores of clusters against known classes, and of labels against pairs.

    ACC = max over one-to-one maps m of (1/N) sum_j [y_j = m(c_j)]
    NMI = I(y, c) / sqrt(H(y) H(c))

and the adjusted Rand index: the three columns of the paper's main table (appendix, "Protocol").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from spherepair.errors import InvalidConstraintsError, InvalidDataError, quoted

Average = Literal["geometric", "arithmetic", "min", "max"]


@dataclass(frozen=True)
class ClusterScores:
    """The paper's three scores: ACC, NMI (geometric mean) and ARI, each at most 1."""

    accuracy: float
    nmi: float
    ari: float


@dataclass(frozen=True)
class PairSatisfaction:
    """Weighted shares of satisfied constraints, in total and by kind.

    The share is 1 where there is no weight, because nothing is violated; the counts tell the difference.
    """

    total: float
    must_link: float
    cannot_link: float
    n_must_link: int
    n_cannot_link: int


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Clustering accuracy (ACC): share of right rows under the best matching of clusters to classes.

    Parameters
    ----------
    y_true : array of shape (n_rows,)
        Known classes: numbers or strings.
    y_pred : array of shape (n_rows,)
        Clusters. Their number may differ from that of the classes; rows of clusters without a partner count
        as wrong.

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> clustering_accuracy(["cat", "cat", "dog", "dog"], [1, 1, 0, 1])
    0.75
    """
    coded = _encode(y_true, y_pred)
    return float(np.mean(_partners(coded)[coded.pred] == coded.true))


def normalized_mutual_information(
    y_true: ArrayLike, y_pred: ArrayLike, *, average: Average = "geometric"
) -> float:
    """Normalized mutual information (NMI): mutual information over a mean of the two entropies.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_rows,)
        Known classes and clusters.
    average : {"geometric", "arithmetic", "min", "max"}
        The paper's table uses the geometric mean; scikit-learn's default is arithmetic.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> round(normalized_mutual_information([0, 0, 1, 1], [5, 5, 3, 3]), 12)
    1.0
    """
    coded = _encode(y_true, y_pred)
    score = normalized_mutual_info_score(coded.true, coded.pred, average_method=average)
    # Two equal labelings can come out at 1 + 4e-16.
    return float(np.clip(score, 0.0, 1.0))


def adjusted_rand_index(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Adjusted Rand index (ARI): agreement on pairs of rows, 0 on average for random labels.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_rows,)
        Known classes and clusters.

    Returns
    -------
    float
        At most 1.

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    coded = _encode(y_true, y_pred)
    return float(adjusted_rand_score(coded.true, coded.pred))


def cluster_scores(y_true: ArrayLike, y_pred: ArrayLike) -> ClusterScores:
    """Accuracy, NMI (geometric mean) and adjusted Rand index together.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_rows,)
        Known classes and clusters.

    Returns
    -------
    ClusterScores

    Examples
    --------
    >>> cluster_scores([0, 0, 1, 1], [1, 1, 1, 1])
    ClusterScores(accuracy=0.5, nmi=0.0, ari=0.0)
    """
    return ClusterScores(
        accuracy=clustering_accuracy(y_true, y_pred),
        nmi=normalized_mutual_information(y_true, y_pred),
        ari=adjusted_rand_index(y_true, y_pred),
    )


def match_labels(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[Any]:
    """Rename clusters to the classes that they match best, one to one.

    The share of rows where the result equals `y_true` is :func:`clustering_accuracy`. Clusters that overlap
    no free class take the classes left over. When those run out, clusters get new names, so that the
    partition does not change: the integers after the largest class, or ``"unmatched 1"``, ``"unmatched 2"``
    where classes are strings.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_rows,)
        Known classes and clusters.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> match_labels([0, 0, 1, 1, 1], [7, 7, 3, 3, 5])
    array([0, 0, 1, 1, 2])
    """
    coded = _encode(y_true, y_pred)
    partner = _partners(coded)
    free = np.setdiff1d(np.arange(len(coded.classes)), partner)
    single = np.flatnonzero(partner < 0)
    n_new = max(0, len(single) - len(free))
    new = len(coded.classes) + np.arange(n_new)
    partner[single] = np.concatenate([free, new])[: len(single)]
    return _extend(coded.classes, n_new)[partner[coded.pred]]


def expected_calibration_error(is_right: ArrayLike, confidence: ArrayLike, *, n_bins: int = 15) -> float:
    """Expected calibration error (ECE): how far confidence is from the share of rows that are right.

    Rows are divided into bins of equal width by their confidence; the differences between mean confidence
    and share of right rows are averaged by the number of rows.

    Parameters
    ----------
    is_right : boolean array of shape (n_rows,)
        Such as ``match_labels(y, labels) == y``.
    confidence : array of shape (n_rows,)
        Largest probability of each row, from 0 to 1.
    n_bins : int, default=15

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> round(expected_calibration_error([True, True, False, True], [0.75, 0.75, 0.75, 0.75]), 12)
    0.0
    >>> round(expected_calibration_error([True, False], [1.0, 1.0]), 12)
    0.5
    """
    right, sure = _booleans(is_right).astype(np.float64), np.asarray(confidence, dtype=np.float64)
    if right.shape != sure.shape or right.ndim != 1 or len(right) == 0:
        raise InvalidDataError(
            "is_right and confidence must be lists of the same length with at least one row, got shapes "
            f"{right.shape} and {sure.shape} instead."
        )
    if not ((sure >= 0) & (sure <= 1 + 1e-6)).all():
        raise InvalidDataError("confidence must be between 0 and 1.")
    bins = np.minimum((sure * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, weights=sure - right, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(right))


def pair_satisfaction(
    labels: ArrayLike,
    left: Any,
    right: ArrayLike | None = None,
    is_must_link: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> PairSatisfaction:
    """Share of constraints that the labels satisfy.

    Parameters
    ----------
    labels : array of shape (n_rows,)
        Cluster of every row.
    left, right : integer arrays of shape (n_pairs,)
        Row positions of the two ends of each pair. Or ``left`` is a ``Constraints``, and nothing else is
        given; its answers of value 0.5 say nothing and are left out.
    is_must_link : boolean array of shape (n_pairs,)
        True for must-links, False for cannot-links.
    weight : array of shape (n_pairs,), optional
        How much each pair counts: finite, not negative, 1 by default.

    Returns
    -------
    PairSatisfaction

    Examples
    --------
    >>> pair_satisfaction([0, 0, 1], left=[0, 0], right=[1, 2], is_must_link=[True, True]).total
    0.5
    >>> from spherepair import Constraints
    >>> pair_satisfaction([0, 0, 1], Constraints.from_pairs(must_link=[(0, 1), (0, 2)])).total
    0.5
    """
    rows = np.asarray(labels)
    if hasattr(left, "is_must_link"):
        told = left[left.is_decided] if hasattr(left, "is_decided") else left
        left, right, is_must_link, weight = told.left, told.right, told.is_must_link, told.weight
    if right is None or is_must_link is None:
        raise InvalidConstraintsError(
            "pair_satisfaction needs a Constraints, or left, right and is_must_link of its pairs."
        )
    first = _row_positions(left, len(rows), name="left")
    second = _row_positions(right, len(rows), name="right")
    must = _booleans(is_must_link)
    mass = np.ones(len(must)) if weight is None else np.asarray(weight, dtype=np.float64)
    _check_pairs(len(first), len(second), must, mass=mass)
    satisfied = (rows[first] == rows[second]) == must
    return PairSatisfaction(
        total=_share(satisfied, mass),
        must_link=_share(satisfied[must], mass[must]),
        cannot_link=_share(satisfied[~must], mass[~must]),
        n_must_link=int(must.sum()),
        n_cannot_link=int((~must).sum()),
    )


@dataclass(frozen=True, eq=False)
class _Coded:
    """Two labelings as codes: `true`, (n_rows,), into `classes`; `pred`, (n_rows,), into `clusters`."""

    classes: NDArray[Any]
    clusters: NDArray[Any]
    true: NDArray[np.intp]
    pred: NDArray[np.intp]


def _encode(y_true: ArrayLike, y_pred: ArrayLike) -> _Coded:
    classes, true = _codes(y_true, name="y_true")
    clusters, pred = _codes(y_pred, name="y_pred")
    if len(true) != len(pred):
        raise InvalidDataError(
            f"y_true and y_pred must have the same length, got {len(true)} and {len(pred)} instead."
        )
    return _Coded(classes, clusters, true, pred)


def _partners(coded: _Coded) -> NDArray[np.intp]:
    """Class of each cluster, (n_clusters,), in the best one-to-one matching; -1 for none."""
    partner = np.full(len(coded.clusters), -1, dtype=np.intp)
    if len(coded.clusters) <= len(coded.classes):
        clusters, classes = _best_matching(coded.pred, coded.true)
    else:
        classes, clusters = _best_matching(coded.true, coded.pred)
    partner[clusters] = classes
    return partner


def _best_matching(
    few: NDArray[np.intp], many: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Match the codes in `few` to overlapping ones in `many`; memory is linear in the rows."""
    n_few, n_many = int(few.max()) + 1, int(many.max()) + 1
    cells, counts = np.unique(few * n_many + many, return_counts=True)
    # An extra column for each of the few stands for "no partner", so that a full matching always exists. All
    # weights are raised by one because the solver reads 0 as "no edge".
    table = sparse.csr_array((counts + 1.0, np.divmod(cells, n_many)), shape=(n_few, n_many))
    padded = sparse.hstack([table, sparse.eye_array(n_few)], format="csr")
    rows, columns = min_weight_full_bipartite_matching(padded, maximize=True)
    return rows[columns < n_many], columns[columns < n_many]


def _codes(values: ArrayLike, *, name: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    labels = np.asarray(values)
    if labels.ndim != 1 or len(labels) == 0:
        raise InvalidDataError(
            f"{name} must be a list of at least one label, got shape {labels.shape} instead."
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InvalidDataError(f"{name} has {int(np.isnan(labels).sum())} NaN labels; leave out those rows.")
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InvalidDataError(
            f"{name} must hold numbers only or strings only, got a mixture instead ({quoted(error)})."
        ) from error


def _extend(classes: NDArray[Any], n_new: int) -> NDArray[Any]:
    """`classes` followed by `n_new` new names."""
    if classes.dtype.kind in "biuf":
        numbers = classes.astype(np.int64) if classes.dtype.kind == "b" else classes
        return np.concatenate([numbers, numbers.max() + 1 + np.arange(n_new)])
    new = np.array([f"unmatched {i + 1}" for i in range(n_new)], dtype=object)
    return np.concatenate([classes, new if n_new else classes[:0]])


def _row_positions(end: ArrayLike, n_rows: int, *, name: str) -> NDArray[np.intp]:
    rows = np.asarray(end)
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
        raise InvalidConstraintsError(
            f"{name} must be a list of whole row numbers, got {rows.ndim}-d {rows.dtype} instead."
        )
    outside = np.flatnonzero((rows < 0) | (rows >= n_rows))
    if outside.size:
        at = int(outside[0])
        raise InvalidConstraintsError(
            f"{name}: pair {at} names row {rows[at]}, but labels has rows 0 to {n_rows - 1}."
        )
    return rows.astype(np.intp, copy=False)


def _booleans(values: ArrayLike) -> NDArray[np.bool_]:
    flags = np.asarray(values)
    # Words would all count as True: "cannot" must not pass for a must-link.
    if flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise InvalidConstraintsError(
            f"is_must_link must hold True and False (or 1 and 0), got {flags.dtype} values instead."
        )
    return flags.astype(bool)


def _check_pairs(n_left: int, n_right: int, must: NDArray[np.bool_], *, mass: NDArray[np.float64]) -> None:
    lengths = (n_left, n_right, len(must), len(mass))
    if len(set(lengths)) > 1:
        raise InvalidConstraintsError(
            f"left, right, is_must_link and weight must have the same length, got {lengths} instead."
        )
    wrong = np.flatnonzero(~(np.isfinite(mass) & (mass >= 0)))
    if wrong.size:
        raise InvalidConstraintsError(
            f"weight: pair {int(wrong[0])} has weight {mass[wrong[0]]}; weights must be finite and "
            "not negative."
        )


def _share(satisfied: NDArray[np.bool_], mass: NDArray[np.float64]) -> float:
    total = float(mass.sum())
    return float(mass[satisfied].sum()) / total if total > 0 else 1.0

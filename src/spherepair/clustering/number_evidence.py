"""The evidence for each number of clusters K': angles of cannot-links, partitions, and counts of pairs.

Each kind of evidence gives a few features of every candidate K' = 2, 3, ..; ``clustering/__init__.py`` weighs
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.clustering.assigners import unit_rows
from spherepair.clustering.chosen_pairs import (
    LARGEST_REPEAT_EXCESS,
    chosen_features,
    counts_contradict,
    repeat_excess,
    scan_all_rows,
    unseen_evidence,
)
from spherepair.clustering.pair_counts import EVIDENCE_FLOOR, PartitionScan, scan_partitions
from spherepair.clustering.partitions import lifetime_curve, sample_rows, silhouette_curves
from spherepair.clustering.tail_angles import TailAngles, plateau_features, tail_angles
from spherepair.constraints.graph import ProvedGroups, find_proved_groups
from spherepair.constraints.pair_arrays import PairArrays, new_pairs
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError, quoted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Tail ratios used, relative to ``tail_ratio``; 0.05 gives 0.03, 0.05, 0.07 and 0.1, the paper's range.
TAIL_RATIO_FACTORS = (0.6, 1.0, 1.4, 2.0)
#: Most pairs drawn in all resamples together, but at least a few resamples of however many pairs.
RESAMPLED_PAIRS = 400_000
FEWEST_RESAMPLES = 4
#: The tail angle of this many pairs has a standard error far below a degree; more only cost time.
LARGEST_PAIR_SAMPLE = 200_000
#: Most pairs whose ends are divided into 2, 3, .. clusters.
LARGEST_SCAN_PAIRS = 30_000
#: Most rows for the paper's two alternatives.
SILHOUETTE_ROWS = 5000
LIFETIME_ROWS = 15_000
#: Silhouettes that differ by less over all K' say little.
SMALLEST_SILHOUETTE_RANGE = 0.02


class Pairs(Protocol):
    """Constraints as arrays of the same length."""

    @property
    def left(self) -> Any:
        """Row numbers of the first ends."""

    @property
    def right(self) -> Any:
        """Row numbers of the second ends."""

    @property
    def is_must_link(self) -> Any:
        """True for must-links, False for cannot-links."""

    @property
    def weight(self) -> Any:
        """How much each pair counts."""


@dataclass(frozen=True)
class Links:
    """The usable pairs.

    Attributes
    ----------
    ends : ndarray of shape (m, 2)
        Row numbers.
    is_must_link : ndarray of shape (m,)
    weight : ndarray of shape (m,) or None
        None when all pairs count the same.
    """

    ends: Integers
    is_must_link: NDArray[np.bool_]
    weight: Floats | None

    @property
    def cannot_link(self) -> Integers:
        """Ends of the cannot-links, shape (m_c, 2)."""
        apart: Integers = self.ends[~self.is_must_link]
        return apart

    @property
    def cannot_link_weight(self) -> Floats | None:
        """Weights of the cannot-links, shape (m_c,)."""
        return None if self.weight is None else self.weight[~self.is_must_link]

    def sample(self, size: int, *, rng: np.random.Generator) -> Links:
        """Draw at most ``size`` of the pairs."""
        chosen = sample_rows(len(self.ends), size, rng=rng)
        weight = None if self.weight is None else self.weight[chosen]
        return Links(self.ends[chosen], self.is_must_link[chosen], weight)


@dataclass(frozen=True)
class Problem:
    """An embedding, its pairs and the settings of :func:`spherepair.infer_n_clusters`.

    Attributes
    ----------
    rows : ndarray of shape (n, D)
        Unit vectors.
    links : Links
    tail_ratio : float
    max_clusters : int
        Largest candidate, at least 2.
    n_resamples : int
    n_rows : int or None
    rng : numpy.random.Generator
    may_be_wrong : bool
        Whether some of the pairs may be wrong.
    """

    rows: Floats
    links: Links
    tail_ratio: float
    max_clusters: int
    n_resamples: int
    n_rows: int | None
    rng: np.random.Generator
    may_be_wrong: bool = False

    @cached_property
    def proved(self) -> ProvedGroups:
        """Groups of rows that the pairs prove to differ from each other."""
        left, right = self.links.ends.T
        pairs = new_pairs(PairArrays, left, right, self.links.is_must_link)
        return find_proved_groups(pairs, may_be_wrong=self.may_be_wrong)

    @property
    def repeats_rows(self) -> bool:
        """Whether pairs share rows more often than random ones do: somebody has chosen them."""
        return repeat_excess(self.links.ends, len(self.rows)) > LARGEST_REPEAT_EXCESS


@dataclass(frozen=True)
class Evidence:
    """What one method sees.

    Attributes
    ----------
    curve, spread : ndarray of shape (n_points,)
        The method's curve and its standard deviation over resamples or runs.
    features : mapping of str to ndarray of shape (..., n_candidates)
        Features of K' = 2, 3, ..; leading axes are tail ratios and resamples.
    is_of_chosen_pairs : bool
        Whether the pairs were found to be chosen, and these features are those that hold nevertheless.
    """

    curve: Floats
    spread: Floats
    features: Mapping[str, Floats]
    is_of_chosen_pairs: bool = False


def prepare_problem(
    embedding: ArrayLike,
    constraints: Pairs | None,
    *,
    tail_ratio: float = 0.05,
    max_clusters: int | None = None,
    n_resamples: int = 20,
    n_rows: int | None = None,
    random_state: int | np.random.Generator | None = None,
    may_be_wrong: bool = False,
) -> Problem:
    """Check what :func:`spherepair.infer_n_clusters` was given, and prepare it.

    Examples
    --------
    The theory needs as many dimensions as clusters:

    >>> prepare_problem(np.ones((100, 20)), None).max_clusters
    20
    """
    _check_settings(tail_ratio, max_clusters=max_clusters, n_resamples=n_resamples, n_rows=n_rows)
    rng = np.random.default_rng(random_state)
    rows = np.asarray(embedding, dtype=float)
    rows = unit_rows(rows, lengths=_checked_lengths(rows))
    n_given, n_components = rows.shape
    largest = n_components if max_clusters is None else min(max_clusters, n_components)
    largest = min(largest, n_given - 1, (n_rows or n_given) - 1)
    links = usable_links(constraints, rows, rng=rng)
    if len(links.cannot_link):
        largest = min(largest, len(np.unique(links.cannot_link)) - 1)
    return Problem(rows, links, tail_ratio, max(2, largest), n_resamples, n_rows, rng, may_be_wrong)


def angle_evidence(problem: Problem) -> Evidence:
    """The plateau of the tail angles, for several tail ratios and resamples of the pairs (Algorithm 2)."""
    angles = _resampled_angles(problem, problem.links, _draw_resamples(problem, problem.links))
    curve, spread = _curve_and_spread(angles, problem.tail_ratio)
    return Evidence(curve, spread, _plateau(angles, problem.max_clusters))


def silhouette_evidence(problem: Problem) -> Evidence:
    """Mean silhouettes below the best one, in units of their range over K'."""
    n_rows = problem.n_rows or SILHOUETTE_ROWS
    curves = silhouette_curves(problem.rows, problem.max_clusters, rng=problem.rng, n_rows=n_rows)
    return Evidence(curves.mean(axis=0), curves.std(axis=0), silhouette_features(curves.mean(axis=0)))


def lifetime_evidence(problem: Problem) -> Evidence:
    """Lifetimes in a Ward tree, as shares of the longest one."""
    n_rows = problem.n_rows or LIFETIME_ROWS
    curve = lifetime_curve(problem.rows, problem.max_clusters, rng=problem.rng, n_rows=n_rows)
    return Evidence(curve, np.zeros_like(curve), lifetime_features(curve))


def consensus_evidence(problem: Problem) -> Evidence:
    """All evidence that holds: with the counts of the pairs where these are random, else without them."""
    if problem.repeats_rows:
        return chosen_pair_evidence(problem)
    evidence = combined_evidence(problem)
    n_pairs = min(len(problem.links.ends), LARGEST_SCAN_PAIRS)
    return chosen_pair_evidence(problem) if counts_contradict(evidence.features, n_pairs) else evidence


def combined_evidence(problem: Problem) -> Evidence:
    """Angles, partitions and counts of random pairs, from the same resamples of the pairs."""
    links = problem.links.sample(LARGEST_SCAN_PAIRS, rng=problem.rng)
    resamples = _draw_resamples(problem, links)
    angles = _resampled_angles(problem, links, resamples)
    scan = scan_partitions(problem.rows, links.ends, **_scan_settings(problem, links, resamples))
    curve, spread = _curve_and_spread(angles, problem.tail_ratio)
    return Evidence(curve, spread, {**_plateau(angles, problem.max_clusters), **partition_features(scan)})


def chosen_pair_evidence(problem: Problem) -> Evidence:
    """Angles, gaps between all rows and violated pairs: what holds for pairs that somebody chose."""
    links = problem.links.sample(LARGEST_SCAN_PAIRS, rng=problem.rng)
    resamples = _draw_resamples(problem, links)
    angles = _resampled_angles(problem, links, resamples)
    scan = scan_all_rows(problem.rows, links.ends, **_scan_settings(problem, links, resamples))
    n_pieces = min(len(links.ends), len(np.unique(links.ends)))
    curve, spread = _curve_and_spread(angles, problem.tail_ratio)
    features = {
        **_plateau(angles, problem.max_clusters),
        **chosen_features(scan, n_pieces),
        "unseen": unseen_evidence(problem.proved, problem.max_clusters),
    }
    return Evidence(curve, spread, features, is_of_chosen_pairs=True)


def _scan_settings(problem: Problem, links: Links, resamples: Floats) -> dict[str, Any]:
    return {
        "is_must_link": links.is_must_link,
        "resamples": np.vstack([np.ones((1, len(links.ends))), resamples]),
        "max_clusters": problem.max_clusters,
        "rng": problem.rng,
    }


def partition_features(scan: PartitionScan) -> dict[str, Floats]:
    """Features of the partitions into K' clusters; the misfit of the sizes is bounded below the best."""
    misfit = scan.misfit - scan.misfit.min(axis=-1, keepdims=True)
    return {
        "counted": scan.counted,
        "sized": np.logaddexp(-misfit, np.log(EVIDENCE_FLOOR)),
        "merged": np.log1p(scan.merged),
        "gap": scan.gap,
        "together": scan.together,
    }


def silhouette_features(curve: Floats) -> dict[str, Floats]:
    """Mean silhouettes below the best one, in units of their range over K'."""
    extent = max(np.ptp(curve), SMALLEST_SILHOUETTE_RANGE)
    return {"silhouette": (curve - curve.max()) / extent}


def lifetime_features(curve: Floats) -> dict[str, Floats]:
    """Lifetimes as shares of the longest one."""
    lives = np.maximum(curve, 0.0)
    return {"lifetime": lives / max(lives.max(), np.finfo(float).tiny)}


def usable_links(constraints: Pairs | None, rows: Floats, *, rng: np.random.Generator) -> Links:
    """Return the pairs that can be used.

    Pairs of weight zero and pairs with a row of zeros, which has no direction, are left out; very many pairs
    are sampled.
    """
    if constraints is None:
        return Links(np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=bool), None)
    ends = np.column_stack([np.asarray(constraints.left), np.asarray(constraints.right)]).astype(np.int64)
    is_must_link = np.asarray(constraints.is_must_link, dtype=bool)
    weight = np.asarray(constraints.weight, dtype=float)
    _check_ends(ends, len(rows))
    has_direction = np.abs(rows).max(axis=1) > 0
    usable = (weight > 0) & has_direction[ends].all(axis=1)
    weight = weight[usable]
    all_equal = len(weight) == 0 or bool(np.all(weight == weight[0]))
    links = Links(ends[usable], is_must_link[usable], None if all_equal else weight)
    return links.sample(LARGEST_PAIR_SAMPLE, rng=rng)


def _draw_resamples(problem: Problem, links: Links) -> Floats:
    """How often each pair occurs in each bootstrap sample (Poisson), shape (R, m)."""
    limit = max(FEWEST_RESAMPLES, RESAMPLED_PAIRS // max(len(links.ends), 1))
    size = (min(problem.n_resamples, limit), len(links.ends))
    return problem.rng.poisson(1.0, size=size).astype(float)


def _resampled_angles(problem: Problem, links: Links, resamples: Floats) -> TailAngles:
    """Tail angles of the cannot-links for the tail ratios around the given one."""
    apart = links.cannot_link
    return tail_angles(
        problem.rows,
        apart[:, 0],
        right=apart[:, 1],
        weight=links.cannot_link_weight,
        tail_ratios=tuple(problem.tail_ratio * factor for factor in TAIL_RATIO_FACTORS),
        resamples=resamples[:, ~links.is_must_link],
    )


def _plateau(angles: TailAngles, max_clusters: int) -> dict[str, Floats]:
    """Features of the plateau for all T ratios and R resamples, shape (T, 1 + R, max_clusters - 1)."""
    curves = np.concatenate([angles.curves[:, None], angles.resampled], axis=1)
    return {name: values[..., : max_clusters - 1] for name, values in plateau_features(curves).items()}


def _curve_and_spread(angles: TailAngles, tail_ratio: float) -> tuple[Floats, Floats]:
    given = angles.tail_ratios.index(tail_ratio)
    curve = angles.curves[given]
    if angles.resampled.shape[1] == 0:
        return curve, np.zeros_like(curve)
    return curve, angles.resampled[given].std(axis=0)


def _checked_lengths(rows: Floats) -> Floats:
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise InvalidDataError(
            f"embedding must be a table (rows, dimensions), got shape {rows.shape} instead."
        )
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise InvalidDataError(
            f"embedding must be finite, got NaN or infinite values in {len(bad)} rows, first row "
            f"{bad[0]}; check whether training diverged."
        )
    return lengths


def _check_settings(
    tail_ratio: float, *, max_clusters: int | None, n_resamples: int, n_rows: int | None
) -> None:
    if not 0 < tail_ratio <= 1 / max(TAIL_RATIO_FACTORS):
        raise InvalidParameterError(
            f"tail_ratio must be in (0, {1 / max(TAIL_RATIO_FACTORS)}], got {quoted(tail_ratio)} instead."
        )
    if n_resamples < 0:
        raise InvalidParameterError(f"n_resamples must be 0 or more, got {quoted(n_resamples)} instead.")
    if max_clusters is not None and max_clusters < 2:
        raise InvalidParameterError(f"max_clusters must be 2 or more, got {quoted(max_clusters)} instead.")
    if n_rows is not None and n_rows <= (max_clusters or 2):
        raise InvalidParameterError(f"n_rows must be above max_clusters, got {quoted(n_rows)} instead.")


def _check_ends(ends: Integers, n_rows: int) -> None:
    outside = np.flatnonzero(((ends < 0) | (ends >= n_rows)).any(axis=1))
    if len(outside):
        raise InvalidConstraintsError(
            f"constraints: pair {tuple(ends[outside[0]].tolist())} names a row outside the "
            f"embedding of {n_rows} rows ({len(outside)} such pairs); pass the embedding of the rows "
            "that the pairs refer to."
        )

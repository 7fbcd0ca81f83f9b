"""Make pairs out of labels: at random as in the paper, lopsided as in the paper, or from groups."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spherepair.constraints.checks import as_count
from spherepair.constraints.labels import EncodedLabels, encode_groups, encode_labels
from spherepair.constraints.sampling import (
    RandomState,
    as_generator,
    n_unordered_pairs,
    nested_sample,
    unordered_pair,
)
from spherepair.constraints.table import IndexArray, PairTable, new_table, without_duplicates
from spherepair.errors import ConstraintWarning, InvalidParameterError

# IMB0, IMB1 and IMB2 of the paper hold pairs in the proportion 1 : 5 : 10.
_IMBALANCE = (1, 5, 10)
# With so many groups that pairs of groups outnumber this, from_groups would not stay linear.
_GROUP_PAIRS_PER_ROW = 10


def random_pairs(y: Any, n_pairs: int, random_state: RandomState) -> PairTable:
    """Different pairs of rows, uniformly at random, linked by equality of their labels."""
    codes = encode_labels(y).codes
    rows = np.arange(len(codes))
    return _random_pairs(rows, codes, as_count(n_pairs, "n_pairs"), as_generator(random_state))


def group_pairs(groups: Any, n_pairs: int | None, random_state: RandomState) -> PairTable:
    """Pairs that encode partial labels; see :meth:`Constraints.from_groups`."""
    codes = encode_groups(groups).codes
    rows = np.flatnonzero(codes >= 0)
    rng = as_generator(random_state)
    if n_pairs is not None:
        return _random_pairs(rows, codes, as_count(n_pairs, "n_pairs"), rng)
    shuffled = rng.permutation(rows)
    return _encode_groups(shuffled[np.argsort(codes[shuffled], kind="stable")], codes, rng)


def imbalanced_pairs(y: Any, n_pairs: int, *, cluster: Any, random_state: RandomState) -> list[PairTable]:
    """Random pairs, then more and more cannot-links of one cluster only: IMB0, IMB1, IMB2."""
    labels = encode_labels(y)
    rng, n_pairs = as_generator(random_state), as_count(n_pairs, "n_pairs")
    base = _random_pairs(np.arange(len(labels.codes)), labels.codes, n_pairs, rng)
    n_extra = (_IMBALANCE[-1] - _IMBALANCE[0]) * n_pairs
    left, right = _cluster_cannot_links(labels, _class_of(labels, cluster), base, n_extra, rng)
    everything = new_table(
        np.concatenate([base.left, left]),
        np.concatenate([base.right, right]),
        np.concatenate([base.is_must_link, np.zeros(len(left), bool)]),
    )
    sizes = (len(base) + (share - 1) * n_pairs for share in _IMBALANCE)
    return [everything[:size] for size in sizes]


def _random_pairs(rows: IndexArray, codes: IndexArray, n_pairs: int, rng: np.random.Generator) -> PairTable:
    n_possible = n_unordered_pairs(len(rows))
    n_drawn = _at_most(n_possible, n_pairs, f"different pairs of {len(rows)} rows")
    left, right = unordered_pair(nested_sample(n_possible, n_drawn, rng), len(rows))
    left, right = rows[left], rows[right]
    return new_table(left, right, codes[left] == codes[right])


def _at_most(n_possible: int, n_wanted: int, what: str) -> int:
    if n_wanted <= n_possible:
        return n_wanted
    warnings.warn(
        f"constraints: {n_wanted} pairs were asked for, but only {n_possible} {what} exist; "
        f"all {n_possible} are given.",
        ConstraintWarning,
        stacklevel=5,
    )
    return n_possible


def _class_of(labels: EncodedLabels, cluster: Any) -> int:
    if cluster is None:
        return 0
    found = np.flatnonzero(labels.classes == cluster)
    if len(found) != 1:
        raise InvalidParameterError(
            f"cluster must be one of the labels {labels.classes[:20].tolist()}; got {cluster!r} instead."
        )
    return int(found[0])


def _cluster_cannot_links(
    labels: EncodedLabels, code: int, base: PairTable, n_extra: int, rng: np.random.Generator
) -> tuple[IndexArray, IndexArray]:
    """New pairs of one row of the class `code` and one row outside it, uniformly at random."""
    is_inside = labels.codes == code
    inside, outside = np.flatnonzero(is_inside), np.flatnonzero(~is_inside)
    taken = _product_codes(base, is_inside, len(outside))
    n_possible = len(inside) * len(outside) - len(taken)
    n_drawn = _at_most(n_possible, n_extra, "further cannot-links of this cluster")
    # Asking for as many more as are taken leaves enough when those are struck out again.
    drawn = nested_sample(n_possible + len(taken), n_drawn + len(taken), rng)
    new = drawn[~np.isin(drawn, taken)][:n_drawn]
    return inside[new // max(len(outside), 1)], outside[new % max(len(outside), 1)]


def _product_codes(base: PairTable, is_inside: np.ndarray, n_outside: int) -> IndexArray:
    """Numbers, in the product inside x outside, of the pairs of `base` that lie in it."""
    crossing = base[is_inside[base.left] != is_inside[base.right]]
    inner = np.where(is_inside[crossing.left], crossing.left, crossing.right)
    outer = np.where(is_inside[crossing.left], crossing.right, crossing.left)
    rank_inside, rank_outside = np.cumsum(is_inside) - 1, np.cumsum(~is_inside) - 1
    codes: IndexArray = rank_inside[inner] * n_outside + rank_outside[outer]
    return codes


def _encode_groups(rows: IndexArray, codes: IndexArray, rng: np.random.Generator) -> PairTable:
    """Pairs for `rows` that stand group by group, in random order inside each group."""
    group = codes[rows]
    size = np.bincount(group)
    start = np.cumsum(size) - size
    must = _cycles(group, start, size)
    cannot = np.concatenate(
        [_one_stranger_each(group, start, size, rng), _between_groups(len(rows), start, size, rng)],
        axis=1,
    )
    left, right = rows[np.concatenate([must, cannot], axis=1)]
    is_must_link = np.arange(len(left)) < must.shape[1]
    unique = without_duplicates(new_table(left, right, is_must_link))
    return new_table(unique.left, unique.right, unique.is_must_link)


def _cycles(group: IndexArray, start: IndexArray, size: IndexArray) -> IndexArray:
    """Positions (2, n): each row with the next of its group, the last with the first."""
    here = np.arange(len(group))
    is_last = here == start[group] + size[group] - 1
    following = np.where(is_last, start[group], here + 1)
    # Two rows need one link, not one each way; a row alone has none.
    return np.stack([here, following])[:, ~is_last | (size[group] > 2)]


def _one_stranger_each(
    group: IndexArray, start: IndexArray, size: IndexArray, rng: np.random.Generator
) -> IndexArray:
    """Positions (2, n): each row with one row drawn from the other groups."""
    if len(size) < 2:
        return np.empty((2, 0), np.int64)
    stranger = rng.integers(len(group) - size[group])
    stranger += np.where(stranger >= start[group], size[group], 0)
    return np.stack([np.arange(len(group)), stranger])


def _between_groups(n_rows: int, start: IndexArray, size: IndexArray, rng: np.random.Generator) -> IndexArray:
    """Positions (2, n): one pair of rows for each pair of groups."""
    n_group_pairs = n_unordered_pairs(len(size))
    n_given = min(n_group_pairs, _GROUP_PAIRS_PER_ROW * n_rows)
    if n_given < n_group_pairs:
        warnings.warn(
            f"constraints: {len(size)} groups make {n_group_pairs} pairs of groups; only {n_given} "
            "of them, drawn at random, get a cannot-link, so that the pairs stay few.",
            ConstraintWarning,
            stacklevel=5,
        )
    ends = np.stack(unordered_pair(nested_sample(n_group_pairs, n_given, rng), len(size)))
    return start[ends] + rng.integers(size[ends])

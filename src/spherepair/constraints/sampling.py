"""Random pairs from labels: balanced or imbalanced as in the paper, or from labels of some rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spherepair.constraints.pair_arrays import (
    BoolArray,
    IndexArray,
    PairArrays,
    Pairs,
    as_count,
    is_missing,
    new_pairs,
    without_duplicates,
)
from spherepair.errors import ConstraintWarning, InvalidConstraintsError, InvalidParameterError, quoted

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

# IMB0, IMB1 and IMB2 of the paper hold pairs in the proportion 1 : 5 : 10.
_IMBALANCE = (1, 5, 10)
# Bound on pairs of groups, so that from_groups stays linear however many groups there are.
_GROUP_PAIRS_PER_ROW = 10
# Draws are nested because random numbers are always drawn in blocks of this size.
_BLOCK = 4096


def random_pairs(kind: type[Pairs], y: Any, n_pairs: int, random_state: RandomState) -> Pairs:
    """Distinct pairs of rows, uniformly at random; see :meth:`Constraints.from_labels`."""
    codes = encode_labels(y).codes
    rows = np.arange(len(codes))
    return _random_pairs(kind, rows, codes, as_count(n_pairs, "n_pairs"), as_generator(random_state))


def group_pairs(kind: type[Pairs], groups: Any, n_pairs: int | None, random_state: RandomState) -> Pairs:
    """Pairs from the labels of some rows; see :meth:`Constraints.from_groups`."""
    codes = encode_groups(groups).codes
    rows = np.flatnonzero(codes >= 0)
    rng = as_generator(random_state)
    if n_pairs is not None:
        return _random_pairs(kind, rows, codes, as_count(n_pairs, "n_pairs"), rng)
    shuffled = rng.permutation(rows)
    return _encode_groups(kind, shuffled[np.argsort(codes[shuffled], kind="stable")], codes, rng)


def imbalanced_pairs(
    kind: type[Pairs], y: Any, n_pairs: int, *, cluster: Any, random_state: RandomState
) -> list[Pairs]:
    """Random pairs, then more and more cannot-links of one cluster; see :meth:`Constraints.imbalanced`."""
    labels = encode_labels(y)
    rng, n_pairs = as_generator(random_state), as_count(n_pairs, "n_pairs")
    base = _random_pairs(kind, np.arange(len(labels.codes)), labels.codes, n_pairs, rng)
    n_extra = (_IMBALANCE[-1] - _IMBALANCE[0]) * n_pairs
    left, right = _cluster_cannot_links(labels, _class_of(labels, cluster), base, n_extra, rng)
    everything = new_pairs(
        kind,
        np.concatenate([base.left, left]),
        np.concatenate([base.right, right]),
        np.concatenate([base.is_must_link, np.zeros(len(left), bool)]),
        n_rows=len(labels.codes),
    )
    sizes = (len(base) + (share - 1) * n_pairs for share in _IMBALANCE)
    return [everything[:size] for size in sizes]


def _random_pairs(
    kind: type[Pairs], rows: IndexArray, codes: IndexArray, n_pairs: int, rng: np.random.Generator
) -> Pairs:
    n_possible = n_unordered_pairs(len(rows))
    n_drawn = _at_most(n_possible, n_pairs, f"different pairs of {len(rows)} rows")
    left, right = unordered_pair(nested_sample(n_possible, n_drawn, rng), len(rows))
    left, right = rows[left], rows[right]
    return new_pairs(kind, left, right, codes[left] == codes[right], n_rows=len(codes))


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
            f"cluster must be one of the labels {labels.classes[:20].tolist()}; got {quoted(cluster)} "
            "instead."
        )
    return int(found[0])


def _cluster_cannot_links(
    labels: EncodedLabels, code: int, base: PairArrays, n_extra: int, rng: np.random.Generator
) -> tuple[IndexArray, IndexArray]:
    """New pairs of one row of the class `code` and one row outside it, uniformly at random."""
    is_inside = labels.codes == code
    inside, outside = np.flatnonzero(is_inside), np.flatnonzero(~is_inside)
    taken = _product_codes(base, is_inside, len(outside))
    n_possible = len(inside) * len(outside) - len(taken)
    n_drawn = _at_most(n_possible, n_extra, "further cannot-links of this cluster")
    # Pairs of `base` may be drawn again and are dropped: draw as many more.
    drawn = nested_sample(n_possible + len(taken), n_drawn + len(taken), rng)
    new = drawn[~np.isin(drawn, taken)][:n_drawn]
    return inside[new // max(len(outside), 1)], outside[new % max(len(outside), 1)]


def _product_codes(base: PairArrays, is_inside: np.ndarray, n_outside: int) -> IndexArray:
    """Numbers, in the product inside x outside, of the pairs of `base` that lie in it."""
    crossing = base[is_inside[base.left] != is_inside[base.right]]
    inner = np.where(is_inside[crossing.left], crossing.left, crossing.right)
    outer = np.where(is_inside[crossing.left], crossing.right, crossing.left)
    rank_inside, rank_outside = np.cumsum(is_inside) - 1, np.cumsum(~is_inside) - 1
    codes: IndexArray = rank_inside[inner] * n_outside + rank_outside[outer]
    return codes


def _encode_groups(kind: type[Pairs], rows: IndexArray, codes: IndexArray, rng: np.random.Generator) -> Pairs:
    """Pairs for `rows`, which are sorted by group and in random order inside each group."""
    group = codes[rows]
    size = np.bincount(group)
    start = np.cumsum(size) - size
    must = _cycles(group, start, size)
    cannot = np.concatenate(
        [_one_from_other_groups(group, start, size, rng), _between_groups(len(rows), start, size, rng)],
        axis=1,
    )
    left, right = rows[np.concatenate([must, cannot], axis=1)]
    is_must_link = np.arange(len(left)) < must.shape[1]
    unique = without_duplicates(new_pairs(kind, left, right, is_must_link, n_rows=len(codes)))
    return new_pairs(kind, unique.left, unique.right, unique.is_must_link, n_rows=len(codes))


def _cycles(group: IndexArray, start: IndexArray, size: IndexArray) -> IndexArray:
    """Positions (2, n): each row with the next of its group, the last with the first."""
    here = np.arange(len(group))
    is_last = here == start[group] + size[group] - 1
    following = np.where(is_last, start[group], here + 1)
    # Two rows need one link, not one each way; a row alone has none.
    return np.stack([here, following])[:, ~is_last | (size[group] > 2)]


def _one_from_other_groups(
    group: IndexArray, start: IndexArray, size: IndexArray, rng: np.random.Generator
) -> IndexArray:
    """Positions (2, n): each row with one row drawn from the other groups."""
    if len(size) < 2:
        return np.empty((2, 0), np.int64)
    other = rng.integers(len(group) - size[group])
    other += np.where(other >= start[group], size[group], 0)
    return np.stack([np.arange(len(group)), other])


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


def nested_sample(total: int, size: int, rng: np.random.Generator) -> IndexArray:
    """Draw `size` different numbers below `total`, uniformly.

    From a generator in the same state, a draw of fewer numbers is the beginning of a draw of more.
    Time and memory are linear in `size`, also when it is close to `total`.

    Examples
    --------
    >>> import numpy as np
    >>> many = nested_sample(1000, 900, np.random.default_rng(0))
    >>> few = nested_sample(1000, 10, np.random.default_rng(0))
    >>> len(set(many.tolist())), bool((many[:10] == few).all())
    (900, True)
    """
    head_seed, tail_seed = rng.integers(2**63, size=2)
    n_head = min(size, total // 2)
    head = _distinct(total, n_head, np.random.default_rng(head_seed))
    if n_head == size:
        return head
    # Rejection sampling would take forever to find the last free numbers: shuffle them instead.
    is_free = np.ones(total, bool)
    is_free[head] = False
    tail = np.random.default_rng(tail_seed).permutation(np.flatnonzero(is_free))
    return np.concatenate([head, tail[: size - n_head]])


def _distinct(total: int, size: int, stream: np.random.Generator) -> IndexArray:
    """The first `size` different numbers of the stream; `size` is at most half of `total`."""
    drawn = np.empty(0, np.int64)
    if size == 0:
        return drawn
    # Number of uniform draws that hold `size` different numbers on average.
    expected = -total * math.log1p(-size / total)
    n_blocks = math.ceil(1.01 * expected / _BLOCK)
    while True:
        blocks = [stream.integers(total, size=_BLOCK) for _ in range(n_blocks)]
        drawn = np.concatenate([drawn, *blocks])
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first) >= size:
            return drawn[first[:size]]
        n_blocks = 1


def n_unordered_pairs(n_rows: int) -> int:
    """Number of pairs of different rows."""
    return n_rows * (n_rows - 1) // 2


def unordered_pair(codes: IndexArray, n_rows: int) -> tuple[IndexArray, IndexArray]:
    """The pairs behind numbers 0 to n_rows * (n_rows - 1) / 2 - 1, one to one, smaller row first.

    Row r and row n - 1 - r of the strict upper triangle have n - 1 entries together, so the
    triangle folds into a rectangle and no square root has to be rounded.

    Examples
    --------
    >>> import numpy as np
    >>> left, right = unordered_pair(np.arange(6), 4)
    >>> list(zip(left.tolist(), right.tolist()))
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    """
    line, column = np.divmod(codes, max(n_rows - 1, 1))
    is_folded = column >= n_rows - 1 - line
    left = np.where(is_folded, n_rows - 1 - line, line)
    offset = np.where(is_folded, column - (n_rows - 1 - line), column)
    return left, left + 1 + offset


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A generator from a seed, a generator, a legacy generator, or fresh entropy for None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**32, dtype=np.uint64)))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            "random_state must be None, a seed of zero or more, or a NumPy generator; "
            f"got {quoted(random_state)} instead."
        ) from error


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as numbers.

    Parameters
    ----------
    codes : array of shape (n_rows,)
        Position of each label in `classes`; -1 where the label is unknown.
    classes : array of shape (n_classes,)
        The different labels, sorted.
    """

    codes: IndexArray
    classes: npt.NDArray[Any]


def encode_labels(y: Any) -> EncodedLabels:
    """Encode the labels of all rows; a missing one is an error."""
    labels = _as_vector(y, "y")
    unknown = _is_missing(labels)
    if unknown.any():
        raise InvalidConstraintsError(
            f"constraints: y[{unknown.argmax()}] is missing ({unknown.sum()} of {len(labels)}); "
            "from_labels needs the label of every row. Use from_groups for partial labels."
        )
    return _encode_known(labels, unknown, "y")


def encode_groups(groups: Any) -> EncodedLabels:
    """Encode the labels of some rows; None, NaN and -1 mean unknown."""
    labels = _as_vector(groups, "groups")
    unknown = _is_missing(labels)
    if labels.dtype.kind in "if":
        unknown = unknown | (labels == -1)
    elif labels.dtype.kind == "O":
        unknown = unknown | np.frompyfunc(_is_minus_one, 1, 1)(labels).astype(bool)
    return _encode_known(labels, unknown, "groups")


def _as_vector(values: Any, name: str) -> npt.NDArray[Any]:
    # A list stays a list of objects: NumPy would turn ["a", nan] into the texts "a" and "nan".
    array = np.asarray(values) if hasattr(values, "dtype") else _as_objects(values)
    if array.ndim != 1:
        raise InvalidConstraintsError(
            f"constraints: {name} must be one label per row, one-dimensional; got shape {array.shape}."
        )
    return array


def _as_objects(values: Any) -> npt.NDArray[Any]:
    array = np.array(list(values), dtype=object)
    return array if array.size else np.empty(0, np.int64)


def _is_missing(labels: npt.NDArray[Any]) -> BoolArray:
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "mM":
        return np.asarray(np.isnat(labels))
    if labels.dtype.kind == "O":
        return np.asarray(np.frompyfunc(is_missing, 1, 1)(labels).astype(bool))
    return np.zeros(labels.shape, bool)


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == -1


def _encode_known(labels: npt.NDArray[Any], unknown: BoolArray, name: str) -> EncodedLabels:
    codes = np.full(len(labels), -1, np.int64)
    classes, codes[~unknown] = np.unique(_of_one_type(labels[~unknown], name), return_inverse=True)
    return EncodedLabels(codes, classes)


def _of_one_type(known: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if known.dtype.kind != "O":
        return known
    kinds = sorted({kind.__name__ for kind in map(type, known)})
    if len(kinds) > 1 and any("str" in kind for kind in kinds):
        raise InvalidConstraintsError(
            f"constraints: {name} mixes text with other labels ({', '.join(kinds)}); use labels of one kind."
        )
    return np.asarray(known.tolist()) if len(known) else known

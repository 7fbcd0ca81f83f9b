"""Rows to place: each beside an example of a group that it may belong to.

Questions about borders, gaps and thin clusters run out where clusters are few. These do not before every row
has its group. Groups are those that the pairs prove to differ. A row that was set apart from some of them is
asked about again until it is in one or is one itself, so the answers build groups that all differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spherepair.asking.strategies import typical_rows
from spherepair.clustering.assigners import unit_rows
from spherepair.constraints import Constraints

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

#: Rows among which typical ones are looked for; of larger tables a sample.
_SAMPLE_ROWS = 5_000


@dataclass(frozen=True)
class PlacingQuestion:
    """A row, the example beside it, and from how many groups the row has been set apart."""

    row: int
    example: int
    n_apart: int


def rows_to_place(
    embedding: NDArray[np.floating], constraints: Constraints, *, examples: Integers, count: int
) -> list[PlacingQuestion]:
    """At most ``count`` rows in no proved group; those that somebody was asked about come first.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    constraints : Constraints
    examples : ndarray of shape (K,)
        Rows that stand for groups as long as the pairs prove none.
    count : int
    """
    vectors = unit_rows(np.asarray(embedding, dtype=np.float32))
    proved, components = constraints.proved_groups(), constraints.components()
    rows, groups = (proved.rows, proved.labels) if proved.n_groups else (examples, np.arange(len(examples)))
    shown = [_most_typical(vectors, rows[groups == group]) for group in np.unique(groups)]
    found: list[PlacingQuestion] = []
    if count < 1:
        return found
    for members in _waiting(vectors, components.rows, components.labels, rows, count):
        item = int(members[0])
        apart = set(groups[np.isin(rows, _rows_apart(constraints, members))].tolist())
        order = np.argsort(-(vectors[shown] @ vectors[item]), kind="stable").tolist()
        likely = [shown[group] for group in order if group not in apart and shown[group] not in members]
        found += [PlacingQuestion(item, example, len(apart)) for example in likely[:1]]
        if len(found) >= count:
            break
    return found


def _waiting(
    vectors: Floats, seen: Integers, component: Integers, placed: Integers, count: int
) -> Iterator[Integers]:
    """Components of rows in no group, the largest first; then rows in no pair."""
    is_open = ~np.isin(seen, placed)
    numbers, sizes = np.unique(component[is_open], return_counts=True)
    for number in numbers[np.argsort(-sizes, kind="stable")]:
        yield seen[component == number]
    yield from _fresh_rows(vectors, seen, count)[:, None]


def _most_typical(vectors: Floats, rows: Integers) -> int:
    return int(rows[(vectors[rows] @ vectors[rows].mean(axis=0)).argmax()])


def _rows_apart(constraints: Constraints, rows: Integers) -> Integers:
    """Other ends of the cannot-links of some rows."""
    left, right = (ends[~constraints.is_must_link] for ends in (constraints.left, constraints.right))
    return np.concatenate([right[np.isin(left, rows)], left[np.isin(right, rows)]])


def _fresh_rows(vectors: Floats, seen: Integers, count: int) -> Integers:
    """Rows in no pair: typical ones of the largest regions without a row in a pair, then the others."""
    random = np.random.default_rng(0)
    fresh = random.permutation(np.setdiff1d(np.arange(len(vectors)), seen))[:_SAMPLE_ROWS]
    if not len(fresh):
        return fresh
    known = random.permutation(seen)[:count]
    pool = np.concatenate([fresh, known])
    n_cells = min(len(pool), len(known) + count)
    cell, typical, mass = typical_rows(vectors[pool], np.ones(len(pool)), n_cells, random=random)
    mass[cell[len(fresh) :]] = 0.0
    order = np.argsort(-mass, kind="stable")[: np.count_nonzero(mass)]
    first = pool[typical[order]]
    return np.concatenate([first, fresh[~np.isin(fresh, first)]])

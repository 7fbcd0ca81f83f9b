"""What questions are chosen from: a sample of rows as the latest model sees them, and what is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from spherepair.asking.groups import Groups
from spherepair.asking.questions import Answer, ChoiceQuestion, PairQuestion, Question
from spherepair.clustering.assigners import kmeans, unit_rows

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

#: Rows among which questions are chosen; of larger tables a sample.
POOL_ROWS = 20_000
#: Rounds in which the centers of the groups move to the rows nearest to them.
CENTER_ROUNDS = 10


@dataclass(frozen=True)
class Snapshot:
    """A sample of rows in the embedding of the latest model.

    Parameters
    ----------
    pool : ndarray of shape (m,)
        Positions of the rows, in order; every row of an answer is among them.
    embedding : ndarray of shape (m, D)
        Unit vectors.
    roots : tuple of int
        One row of each group that was known when the model was fitted.
    centers : ndarray of shape (G, D)
        Unit vectors of these groups.
    queue : tuple of int
        Items worth placing, the most valuable first.
    is_fitted : bool
        Whether a model has learned from answers; if not, ``embedding`` is what the rows are without any.
    """

    pool: Rows
    embedding: Floats
    roots: tuple[int, ...] = ()
    centers: Floats | None = None
    queue: tuple[int, ...] = ()
    is_fitted: bool = False

    @cached_property
    def similarity(self) -> Floats:
        """Cosine of the pool's rows and the centers, (m, G)."""
        if self.centers is None:
            return np.zeros((len(self.pool), 0), dtype=np.float32)
        found: Floats = self.embedding @ self.centers.T
        return found

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Nearest center of each row of the pool."""
        found: NDArray[np.int64] = self.similarity.argmax(axis=1)
        return found

    @cached_property
    def probabilities(self) -> Floats:
        """How probable each group is for each row of the pool: clouds of one width about the centers."""
        assert self.centers is not None
        offsets = self.embedding - self.centers[self.labels]
        precision = 1.0 / max(float(np.square(offsets).mean()), 1e-6)
        scores = precision * (self.similarity - self.similarity.max(axis=1, keepdims=True))
        weights = np.exp(scores)
        found: Floats = weights / weights.sum(axis=1, keepdims=True)
        return found

    @cached_property
    def margin(self) -> Floats:
        """By how much the most probable group leads the second, (m,); zero before there is a model."""
        if self.similarity.shape[1] < 2:
            return np.zeros(len(self.pool), dtype=np.float32)
        best = np.partition(self.probabilities, -2, axis=1)
        found: Floats = best[:, -1] - best[:, -2]
        return found

    def places(self, rows: Sequence[int] | Rows) -> NDArray[np.intp]:
        """Where rows of the pool stand in it."""
        return np.searchsorted(self.pool, rows)

    def lacks(self, rows: Sequence[int]) -> bool:
        """Whether some of these rows are not in the pool."""
        return not np.isin(rows, self.pool).all()

    def vectors(self, rows: Sequence[int] | Rows) -> Floats:
        """Embeddings of rows of the pool."""
        found: Floats = self.embedding[self.places(rows)]
        return found


@dataclass(frozen=True)
class Situation:
    """All that a strategy may look at when it chooses the next question."""

    snapshot: Snapshot
    groups: Groups
    answers: Sequence[Answer]
    passed: frozenset[int]
    random: np.random.Generator

    def is_open(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether rows are neither in a group nor set aside as unsure or skipped."""
        settled = [row for row in self.groups.rows if self.groups.group_of(row) is not None]
        return ~np.isin(rows, [*settled, *self.passed])

    def undecided_groups(self, item: int) -> list[int]:
        """Roots of the groups that ``item`` may still belong to, the most likely first."""
        known = self.groups.differing(item)
        roots = [root for root in self.groups.roots if root not in known and root != self.groups.root(item)]
        likeness = self.likeness(item, roots)
        return [roots[place] for place in np.argsort(-likeness, kind="stable")]

    def likeness(self, item: int, roots: Sequence[int]) -> Floats:
        """How near an item is to groups: to their center, or to a member before a model knows them."""
        snapshot, vector = self.snapshot, self.snapshot.vectors([item])[0]
        center_of = {self.groups.root(root): place for place, root in enumerate(snapshot.roots)}
        found = np.zeros(len(roots), dtype=np.float32)
        for place, root in enumerate(roots):
            if root in center_of and snapshot.centers is not None:
                found[place] = snapshot.centers[center_of[root]] @ vector
            else:
                found[place] = (snapshot.vectors(self.groups.members(root)) @ vector).max()
        return found

    def exemplar(self, root: int) -> int:
        """The member that is most typical of a group."""
        members = self.groups.members(root)
        vectors = self.snapshot.vectors(members)
        return members[int((vectors @ vectors.mean(axis=0)).argmax())]


def draw_pool(n_rows: int, named: Iterable[int], *, seed: int) -> Rows:
    """Positions of all rows, or of a sample that holds every row that an answer names."""
    if n_rows <= POOL_ROWS:
        return np.arange(n_rows)
    sample = np.random.default_rng(seed).choice(n_rows, POOL_ROWS, replace=False)
    return np.unique(np.concatenate([np.fromiter(named, dtype=np.int64), sample]))


def view_of(snapshot: Snapshot, groups: Groups) -> Snapshot:
    """The same rows with the centers of the groups, where there are two or more."""
    if len(groups) < 2:
        return snapshot
    rows, numbers = groups.placed()
    centers = group_centers(snapshot.embedding, snapshot.places(rows), numbers)
    return replace(snapshot, roots=tuple(groups.roots), centers=centers, is_fitted=True)


def predict_answer(
    question: Question, snapshot: Snapshot, groups: Groups
) -> tuple[int | None, tuple[float, ...]]:
    """What the model of the snapshot would answer, and by what margins; nothing where it cannot tell."""
    if not snapshot.is_fitted or question.is_check or isinstance(question, PairQuestion):
        return None, ()
    if isinstance(question, ChoiceQuestion) and groups.differing(question.item):
        return None, ()  # a further card for the same item
    places = snapshot.places(question.subjects)
    margins = tuple(float(margin) for margin in snapshot.margin[places])
    return (question.exemplars[0] if isinstance(question, ChoiceQuestion) else None), margins


def typical_rows(
    vectors: Floats, weight: NDArray[np.floating], n_cells: int, *, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Cut vectors into cells of about equal weight and take the most typical row of each.

    Parameters
    ----------
    vectors : ndarray of shape (n, D)
    weight : ndarray of shape (n,)
        How much a row counts; not negative.
    n_cells : int
    random : Generator

    Returns
    -------
    cell : ndarray of shape (n,)
        The cell of each row.
    typical : ndarray of shape (C,)
        The row nearest to the center of each cell; -1 for an empty one.
    mass : ndarray of shape (C,)
        Weight of the cells.
    """
    n_cells = min(n_cells, len(vectors))
    # k-means on rows drawn in proportion to their weight is weighted k-means.
    drawn = random.choice(len(vectors), size=len(vectors), p=weight / weight.sum())
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    points = torch.from_numpy(vectors[drawn])
    centers = kmeans(points, n_cells, generator=generator, n_init=1, max_iter=15, tol=None).numpy()
    distance = np.square(centers).sum(axis=1) - 2.0 * vectors @ centers.T
    cell = distance.argmin(axis=1)
    order = np.argsort(-distance[np.arange(len(vectors)), cell], kind="stable")
    typical = np.full(n_cells, -1, dtype=np.int64)
    typical[cell[order]] = order  # the last one written is the nearest
    mass: NDArray[np.float64] = np.bincount(cell, weights=weight, minlength=n_cells).astype(np.float64)
    return cell, typical, mass


def group_centers(vectors: Floats, places: NDArray[np.intp], numbers: NDArray[np.int64]) -> Floats:
    """Centers (G, D) that start at the known members and move to the rows nearest to them.

    Parameters
    ----------
    vectors : ndarray of shape (m, D)
        Unit vectors of the pool.
    places : ndarray of shape (k,)
        Where the known members stand in the pool; they never change their group.
    numbers : ndarray of shape (k,)
        Their groups, 0 to G - 1.
    """
    centers = _means(vectors[places], numbers, int(numbers.max()) + 1)
    for _ in range(CENTER_ROUNDS):
        nearest = (vectors @ centers.T).argmax(axis=1)
        nearest[places] = numbers
        centers = _means(vectors, nearest, len(centers))
    return centers


def _means(vectors: Floats, numbers: NDArray[np.int64], n_groups: int) -> Floats:
    one_hot = np.zeros((len(vectors), n_groups), dtype=np.float32)
    one_hot[np.arange(len(vectors)), numbers] = 1.0
    return unit_rows((one_hot.T @ vectors) / np.maximum(one_hot.sum(axis=0)[:, None], 1.0))

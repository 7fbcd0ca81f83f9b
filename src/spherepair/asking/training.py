"""Models beside an interview: what they learn from, and how a refit takes seconds.

The network is pretrained once, without pairs; every refit starts from there. As many clusters are fitted as
the answers prove groups; where the answers build none (pairs at random), their number is inferred.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD

from spherepair.asking.groups import Groups, Settled
from spherepair.asking.questions import Link
from spherepair.asking.record import take_rows
from spherepair.clustering.answer_errors import FEWEST_PAIRS, Witnesses, judge_answers
from spherepair.clustering.assigners import unit_rows
from spherepair.clustering.suspects import Suspect, list_suspects
from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError, SpherePairWarning
from spherepair.estimators.spherepair import SpherePair
from spherepair.files.arrow_rows import as_table
from spherepair.terms.neighbor_search import nearest_neighbors
from spherepair.training.pretraining import JointPretraining, pretrain
from spherepair.validation import check_table

#: Pairs of one refit at most; drawn at random from those that follow from the answers.
MOST_PAIRS = 20_000
#: Epochs of pretraining on a GPU: refits do without it, so it may take seconds longer.
PRETRAINING_EPOCHS = 150
#: Dimensions of the embedding, until there are more groups than that.
FIRST_DIM = 20
#: Dimensions of the view before there is a model.
VIEW_DIM = 32
#: Neighbors that tell whether an answer about a row is wrong.
N_WITNESSES = 20


class RefitCancelledError(Exception):
    """A refit ended before its time because nobody waits for it."""


@dataclass(frozen=True)
class TrainingTask:
    """What a model is to learn from; it can be sent to another process.

    Parameters
    ----------
    groups : Groups
        What the answers prove.
    pairs : Constraints
        To train on.
    n_clusters : int or "auto"
    n_answers : int
        How many answers it holds.
    """

    groups: Groups
    pairs: Constraints
    n_clusters: int | str
    n_answers: int

    @classmethod
    def of(cls, settled: Settled, *, n_answers: int, seed: int) -> TrainingTask:
        """From all that stands.

        Where answers have been wrong, a group of one row is more often a mistake than a group: it is left
        out until a second row joins it, or a second look finds that it belongs with no other.
        """
        groups = settled.groups
        if settled.is_doubtful:
            groups = groups.without_single_rows(but=settled.confirmed)
        random = np.random.default_rng([seed, n_answers])
        pairs = training_pairs(groups, stated_pairs(settled), random)
        return cls(settled.groups, pairs, _n_clusters(groups, pairs), n_answers)


def _n_clusters(groups: Groups, pairs: Constraints) -> int | str:
    """As many as there are groups, where most rows in answers are in one; to be inferred otherwise."""
    rows, _ = groups.placed()
    if not len(pairs):
        return 2  # only the pretraining counts
    return max(2, len(groups)) if 2 * len(rows) >= len(groups.rows) else "auto"


class Training:
    """Fits the models of one interview; :meth:`cancel` ends a fit under way after its epoch.

    Parameters
    ----------
    X : array, CSR matrix or table
    template : SpherePair, optional
        Its parameters are used, but for ``n_clusters`` and ``embedding_dim``.
    seed : int
    """

    def __init__(self, X: Any, template: Any, *, seed: int) -> None:
        self._X, self._dim = X, FIRST_DIM
        self._template = template if template is not None else default_model(seed)
        self._pretraining = KeptPretraining(self._template.pretraining)
        self._is_cancelled = False

    def cancel(self) -> None:
        """End a fit under way, and every later one, with :class:`RefitCancelledError`."""
        self._is_cancelled = True

    def fit(self, task: TrainingTask) -> Any:
        """A model of all rows that has learned from the task, with as many clusters as there are groups."""
        if len(task.groups) > self._dim:  # D >= K
            self._dim = 2 * len(task.groups)
            self._pretraining = KeptPretraining(self._template.pretraining)
        pairs = task.pairs
        model = clone(self._template).set_params(
            n_clusters=task.n_clusters,
            embedding_dim=self._dim,
            pretraining=self._pretraining,
            progress=self._follow,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpherePairWarning)  # few pairs are what an interview begins with
            model.fit(self._X, constraints=pairs if len(pairs) else None, on_conflict="keep")
        return model.set_params(pretraining=self._template.pretraining, progress=self._template.progress)

    def _follow(self, state: Any) -> None:
        if self._is_cancelled:
            raise RefitCancelledError
        if callable(self._template.progress):
            self._template.progress(state)


class KeptPretraining:
    """A pretraining that is run once; later fits on the same rows start from its weights.

    Parameters
    ----------
    method : str, object or None
        As the ``pretraining`` parameter of an estimator.
    """

    def __init__(self, method: Any) -> None:
        self._method = method
        self._weights: dict[str, Any] | None = None

    def run(self, network: Any, rows: Any, session: Any) -> None:
        """Train ``network``, or give it the weights of the first time."""
        if self._weights is not None:
            network.load_state_dict(self._weights)
            return
        pretrain(network, rows, session, method=self._method)
        self._weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}


class BackgroundRefit:
    """One refit at a time, beside whatever else happens.

    Parameters
    ----------
    refit : callable without arguments
    """

    def __init__(self, refit: Callable[[], None]) -> None:
        self._refit = refit
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin, unless one is under way."""
        if self._thread is None or not self._thread.is_alive():
            self._error = None  # of an earlier refit, which this one replaces
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Until it is done; raises what it met."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        try:
            self._refit()
        except BaseException as error:
            self._error = error


def stated_pairs(settled: Settled) -> Constraints:
    """The pairs that answers state, with who said so and when; where nobody could tell, of value 0.5."""
    stated = [(*link, float(link[2]), answer) for link, answer in settled.stated]
    for answer in settled.unsure:
        left, right = answer.question.rows
        stated.append((left, right, False, 0.5, answer))
    if not stated:
        return Constraints.from_pairs()
    ends_left, ends_right, is_same, value, source = zip(*stated, strict=True)
    by, time = [answer.by for answer in source], [answer.time for answer in source]
    return Constraints.from_arrays(ends_left, ends_right, is_same, by=by, time=time, value=value)


def links_of(pairs: Constraints) -> Iterable[Link]:
    """Constraints as links, one after the other."""
    return zip(pairs.left.tolist(), pairs.right.tolist(), pairs.is_must_link.tolist(), strict=True)


def training_pairs(groups: Groups, stated: Constraints, random: np.random.Generator) -> Constraints:
    """Pairs that follow from the answers, all of them or as many as a refit takes.

    Those that somebody stated keep who said so and when. Pairs that nobody could tell come last, unless the
    answers prove them.
    """
    rows, component, differ = groups.components()
    left, right = _all_pairs(len(rows), random)
    is_same = component[left] == component[right]
    is_told = is_same | differ[component[left], component[right]]
    left, right, is_same = left[is_told], right[is_told], is_same[is_told]
    if len(left) > MOST_PAIRS:
        drawn = random.permutation(len(left))[:MOST_PAIRS]
        left, right, is_same = left[drawn], right[drawn], is_same[drawn]
    left, right = rows[left], rows[right]
    unsure, stated = stated[~stated.is_decided], stated[stated.is_decided]
    place = _find_pairs(left, right, stated)
    by, time = (
        np.where(place < 0, "", column[place]) if len(column) else None for column in (stated.by, stated.time)
    )
    known = Constraints.from_arrays(left, right, is_same, by=by, time=time)
    return known | unsure[_find_pairs(unsure.left, unsure.right, known) < 0] if len(unsure) else known


def _find_pairs(left: NDArray[np.int64], right: NDArray[np.int64], among: Constraints) -> NDArray[np.int64]:
    """Where pairs stand among others, whichever end comes first; -1 for those that do not."""
    if not len(among):
        return np.full(len(left), -1)
    base = 1 + max(
        int(left.max(initial=0)), int(right.max(initial=0)), int(among.left.max()), int(among.right.max())
    )
    wanted = np.minimum(left, right) * base + np.maximum(left, right)
    there = np.minimum(among.left, among.right) * base + np.maximum(among.left, among.right)
    order = np.argsort(there, kind="stable")
    found = order[np.minimum(np.searchsorted(there[order], wanted), len(order) - 1)]
    return np.where(there[found] == wanted, found, -1)


def check_rows(X: Any, items: Any) -> tuple[Any, Any]:
    """The rows, of a stream as a table, and the same as an array or CSR matrix, checked as by ``fit``."""
    X = as_table(X)
    table = check_table(SpherePair(), X, reset=True)
    n_rows = table.shape[0]
    if items is not None and len(items) != n_rows:
        raise InvalidDataError(f"items has {len(items)} entries, but X has {n_rows} rows; give one for each.")
    return X, table


class FirstView:
    """Rows before there is a model: their leading directions, as unit vectors.

    Parameters
    ----------
    X : array, CSR matrix or table
    pool : ndarray of shape (m,)
        Rows from which the directions are learned.
    seed : int
    """

    def __init__(self, X: Any, pool: NDArray[np.int64], *, seed: int) -> None:
        self._X = X
        rows = self._rows(pool)
        self._mean: Any = 0.0 if sparse.issparse(rows) else rows.mean(axis=0)
        n_dims = min(VIEW_DIM, rows.shape[1], len(pool))
        self._directions: Any = None
        if n_dims < rows.shape[1]:
            centered = rows if sparse.issparse(rows) else rows - self._mean
            self._directions = TruncatedSVD(n_dims, random_state=seed).fit(centered).components_.T

    def vectors(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        """Unit vectors of the rows at these positions."""
        rows = self._rows(index)
        rows = rows if sparse.issparse(rows) else rows - self._mean
        found = rows if self._directions is None else rows @ self._directions
        dense = found.toarray() if sparse.issparse(found) else found
        return unit_rows(np.ascontiguousarray(dense, dtype=np.float32))

    def _rows(self, index: NDArray[np.int64]) -> Any:
        rows = take_rows(self._X, index)
        return rows.astype(np.float32) if sparse.issparse(rows) else np.asarray(rows, dtype=np.float32)


def _all_pairs(n_rows: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every pair of positions, or so many at random that enough of them will be told by the answers."""
    if n_rows * (n_rows - 1) // 2 <= 50 * MOST_PAIRS:
        left, right = np.triu_indices(n_rows, k=1)
        return left, right
    left, right = random.integers(n_rows, size=(2, 4 * MOST_PAIRS))
    keep = left != right
    pairs = np.unique(np.sort(np.stack([left[keep], right[keep]]), axis=0), axis=1)
    return pairs[0], pairs[1]


def default_model(seed: int, *, scaling: str = "auto", progress: Any = False) -> Any:
    """The model of an interview that was given none."""
    # No judging: an interview asks again where an answer may be wrong.
    pretraining = JointPretraining(epochs=PRETRAINING_EPOCHS) if torch.cuda.is_available() else "joint"
    return SpherePair(
        pretraining=pretraining, wrong_answers=None, scaling=scaling, random_state=seed, progress=progress
    )


def find_suspects(
    pairs: Constraints,
    pool: NDArray[np.int64],
    plain: NDArray[np.float32],
    memberships: NDArray[Any],
    *,
    seed: int,
) -> list[Suspect]:
    """Answers that are more likely wrong than right; none where they are too few to tell.

    The embedding that an interview has is enough for it: nothing is trained.

    Parameters
    ----------
    pairs : Constraints
        What was answered; all its rows are in the pool.
    pool : ndarray of shape (m,)
        Positions of rows, sorted.
    plain : ndarray of shape (m, D)
        Vectors of these rows that no answer has changed.
    memberships : ndarray of shape (m, K)
        Probabilities of their clusters by the latest model.
    seed : int
    """
    n_must = int(np.count_nonzero(pairs.is_must_link))
    if len(pairs) < FEWEST_PAIRS or not 0 < n_must < len(pairs):
        return []
    generator = torch.Generator().manual_seed(seed)
    n_neighbors = min(N_WITNESSES, len(pool) - 1)
    found = nearest_neighbors(torch.from_numpy(plain), n_neighbors, generator=generator).numpy()
    ends, places = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
    witnesses = Witnesses(found[np.searchsorted(pool, ends)], *np.split(places, 2))
    judgment = judge_answers(pairs, witnesses.same(memberships, pairs.is_must_link, pairs.is_decided))
    return list_suspects(pairs, judgment, None)

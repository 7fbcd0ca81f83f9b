"""How far a model can be trusted: calibrated probabilities, unknown rows, scores on other pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from spherepair import validation
from spherepair.clustering import calibration
from spherepair.clustering.assigners import kmeans
from spherepair.clustering.calibration import Calibration
from spherepair.clustering.novelty import MOST_ROWS, NoveltyScale, learn_novelty
from spherepair.constraints import Constraints, RowPairs
from spherepair.errors import InvalidConstraintsError, ModelFileError
from spherepair.estimators.job import Job, map_checked_rows
from spherepair.metrics import pair_satisfaction
from spherepair.training.hardware import derive_seed, torch_generator

#: Label of rows that belong to no cluster.
UNKNOWN = -1
#: Entries of the rows that are looked at together (8 MiB), unless these are fewer rows than that.
MOST_ENTRIES, FEWEST_TOGETHER = 2**21, 512
#: Fewer rows outside of all pairs do not stand for new rows.
FEWEST_FREE_ROWS = 50
#: Rows that are moved to stand for new ones.
MOVED_ROWS = 1024


@dataclass(frozen=True, eq=False)
class RowAssessment:
    """Rows, and how far their labels can be trusted.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    confidence : ndarray of shape (n,)
        Probability that the label is right.
    novelty : ndarray of shape (n,)
        Share of the training rows that lie less far out; NaN where that was not asked for.
    embedding : ndarray of shape (n, embedding_dim) or None
    """

    labels: NDArray[np.int64]
    confidence: NDArray[np.float32]
    novelty: NDArray[np.float32]
    embedding: NDArray[np.float32] | None = None

    def known_labels(self, false_alarms: float | None) -> NDArray[np.int64]:
        """The labels, with -1 for rows in no cluster at this rate of false alarms, if there is one."""
        if false_alarms is None:
            return self.labels
        return np.where(self.novelty > 1.0 - false_alarms, UNKNOWN, self.labels)


class AssessedClusterer:
    """What every method says about how sure it is."""

    #: How sure probabilities may be; ``None`` where no pairs say so.
    calibration_: Calibration | None
    novelty_scale_: NoveltyScale | None

    def predict_proba(self: Any, X: Any) -> NDArray[np.float32]:
        """Probability of every cluster for rows, seen or not.

        Where the fit had pairs, probabilities are calibrated: of rows with a largest probability of 0.8 about
        80 % are right. ``calibration_`` has the temperature and the estimated accuracy.

        Parameters
        ----------
        X : as in fit, shape (n, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n, K)
        """
        probabilities = self._probabilities()
        return map_checked_rows(self, X, lambda x: probabilities(self._embed(self.network_, x)))

    def novelty(self: Any, X: Any) -> NDArray[np.float32]:
        """How far rows lie outside of all that the fit has seen, from 0 to 1.

        It is the share of the training rows that lie less far out. So of rows like those of the fit one in
        a hundred is above 0.99: that is the rate of false alarms where rows above 0.99 are taken for unknown.

        Parameters
        ----------
        X : as in fit, shape (n, n_features)

        Returns
        -------
        novelty : ndarray of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import make_blobs
        >>> from spherepair import Constraints, SpherePair
        >>> X, y = make_blobs(150, centers=3, random_state=0)
        >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
        >>> model = SpherePair(3, max_epochs=5, random_state=0).fit(X, constraints=pairs)
        >>> model.novelty([[100.0, -100.0]]) > 0.99
        array([ True])
        """
        return map_checked_rows(self, X, self._novelty_scale().novelty)

    def assess(self: Any, X: Any) -> RowAssessment:
        """Labels of rows, how sure they are and how new, in one pass over the rows.

        Parameters
        ----------
        X : as in fit, shape (n, n_features)

        Returns
        -------
        RowAssessment
            What :meth:`predict`, :meth:`predict_proba` and :meth:`novelty` say.

        Examples
        --------
        >>> from sklearn.datasets import make_blobs
        >>> from spherepair import Constraints, SpherePair
        >>> X, y = make_blobs(150, centers=3, random_state=0)
        >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
        >>> model = SpherePair(3, max_epochs=5, random_state=0).fit(X, constraints=pairs)
        >>> found = model.assess(X[:2])
        >>> bool((found.labels == model.predict(X[:2])).all()), found.confidence.shape
        (True, (2,))
        """
        return label_rows(self, X, novelty=True)

    def _probabilities(self: Any) -> Callable[[Tensor], Tensor]:
        """From embeddings (n, D) to calibrated probabilities of the clusters (n, K)."""
        check_is_fitted(self)
        logits, found = self._membership_logits(), self.calibration_
        sharpness = 1.0 if found is None else 1.0 / found.temperature
        return lambda z: (sharpness * logits(z)).softmax(dim=1)

    def _novelty_scale(self: Any) -> NoveltyScale:
        check_is_fitted(self)
        if self.novelty_scale_ is None:
            raise ModelFileError(
                "this model was saved by an older spherepair, which did not look for unknown rows; fit again."
            )
        return cast(NoveltyScale, self.novelty_scale_.to(self._hardware.device))

    def score(self: Any, X: Any, y: Any = None, constraints: Any = None) -> float:
        """Share of pairs of ``X`` that the labels satisfy; must-links count as much as cannot-links.

        For pairs that the fit has not seen, as in cross-validation, where no labels are known.

        Parameters
        ----------
        X : as in fit, shape (n, n_features)
        y : ignored
        constraints : Constraints or RowPairs
            Pairs of rows of ``X``.

        Returns
        -------
        float
            The mean of the shares of both kinds; that of one kind where there are no others.
        """
        validation.refuse_pairs_as_labels(y)
        labels = self.predict(X)
        pairs = validation.check_constraints(constraints, len(labels), on_conflict="keep")
        found = pair_satisfaction(labels, pairs)
        kinds = ((found.must_link, found.n_must_link), (found.cannot_link, found.n_cannot_link))
        shares = [share for share, count in kinds if count]
        if not shares:
            raise InvalidConstraintsError(
                "constraints: score needs pairs of these rows; give score(X, constraints=pairs), in "
                "cross-validation constraints.for_rows(len(X)) and set_score_request(constraints=True)."
            )
        return float(np.mean(shares))

    def score_pairs(self: Any, constraints: Constraints | RowPairs[Constraints], X: Any = None) -> float:
        """Share of the constraints, by weight, that the labels satisfy.

        Parameters
        ----------
        constraints : Constraints
            Pairs of training rows, or of rows of ``X`` where that is given.
        X : as in fit, optional
        """
        check_is_fitted(self)
        labels = self.labels_ if X is None else self.predict(X)
        pairs = validation.check_constraints(constraints, len(labels), on_conflict="keep")
        return float(pair_satisfaction(labels, pairs).total)

    def _trusts(self: Any) -> NDArray[np.bool_]:
        """Which pairs of the fit are more likely right than wrong, (n_pairs,)."""
        return np.asarray(self.pair_weights_ >= 0.5)

    def calibrate(self: Any, constraints: Constraints, X: Any = None) -> Any:
        """Calibrate the probabilities on pairs that the fit has not seen; no label changes.

        ``fit`` does so with pairs that it holds out of a short training of its own. With pairs that
        were kept apart the result is more exact.

        Parameters
        ----------
        constraints : Constraints
            Random pairs of training rows, or of rows of ``X`` where that is given.
        X : as in fit, optional

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import make_blobs
        >>> from spherepair import Constraints, SpherePair
        >>> X, y = make_blobs(150, centers=3, random_state=0)
        >>> pairs = Constraints.from_labels(y, n_pairs=400, random_state=0)
        >>> model = SpherePair(3, max_epochs=5, random_state=0).fit(X, constraints=pairs[:300])
        >>> model.calibrate(pairs[300:]).calibration_.n_pairs
        100
        """
        check_is_fitted(self)
        labels = self.labels_ if X is None else self.predict(X)
        embed = partial(self._embed, self.network_)
        z = self.embedding_ if X is None else map_checked_rows(self, X, embed)
        pairs = validation.check_constraints(constraints, len(labels), on_conflict="keep")
        pairs = pairs[(labels[pairs.left] >= 0) & (labels[pairs.right] >= 0)]
        if len(pairs) == 0 or self.n_clusters_ < 2:
            raise InvalidConstraintsError(
                "constraints: calibrate needs pairs of rows in two or more clusters."
            )
        is_same = labels[pairs.left] == labels[pairs.right]
        accuracy = calibration.estimate_accuracy(is_same, pairs.is_must_link, self.n_clusters_)
        rows = np.unique(np.concatenate([pairs.left, pairs.right]))[: calibration.TEMPERATURE_ROWS]
        self.calibration_ = Calibration(_temperature(self, z[rows], accuracy), accuracy, len(pairs))
        return self

    def _hold_out(self, job: Job) -> HoldOut | None:
        """Train shortly on some of the pairs, to be scored on the others; methods may do so."""
        return None

    @torch.no_grad()
    def _assess(self: Any, job: Job, hold_out: HoldOut | None = None) -> None:
        """Find out how sure the fitted model may be; no label changes."""
        rng = np.random.default_rng(derive_seed(self._seed, "assessment"))
        known = rng.permutation(np.flatnonzero(self.labels_ >= 0))
        before: Calibration | None = getattr(self, "calibration_", None)  # a refinement has that of the fit
        self.novelty_scale_ = _learn_novelty(self, job, known[: min(MOST_ROWS, _most_rows(job))])
        self.calibration_ = None
        if self.n_clusters_ < 2 or len(known) < 2:
            return
        found = before or _compare(self, job, hold_out, known)
        if found is not None:
            z = _embed_like_new(self, job, known)
            self.calibration_ = replace(found, temperature=_temperature(self, z, found.accuracy))


def label_rows(model: Any, X: Any, *, novelty: bool, embedding: bool = False) -> RowAssessment:
    """Labels of rows and how sure they are, and perhaps more, in one pass through the network."""
    probabilities, scores = model._probabilities(), model._label_scores()
    scale = model._novelty_scale() if novelty else None

    def describe(x: Tensor) -> Tensor:
        z = model._embed(model.network_, x)
        label = scores(z).argmax(dim=1)  # far below 2**24, so that float32 holds it
        confidence = probabilities(z).gather(1, label[:, None])[:, 0]
        new = confidence.new_full((len(z),), torch.nan) if scale is None else scale.novelty(x)
        columns = torch.stack([column.float() for column in (label, confidence, new)], dim=1)
        return torch.cat([columns, z], dim=1) if embedding else columns

    found = map_checked_rows(model, X, describe)
    rest = found[:, 3:] if embedding else None
    return RowAssessment(found[:, 0].astype(np.int64), found[:, 1].copy(), found[:, 2].copy(), rest)


@dataclass(frozen=True, eq=False)
class HoldOut:
    """The embedding of a short training, and the pairs that were held out of it.

    Attributes
    ----------
    held_out : ndarray of shape (n_held_out,)
        Positions of these pairs.
    rows : ndarray of shape (m,)
        Rows in these pairs and others, ascending.
    embedding : Tensor of shape (m, embedding_dim)
        Of these rows.
    """

    held_out: NDArray[np.int64]
    rows: NDArray[np.int64]
    embedding: Tensor


def _compare(model: Any, job: Job, hold_out: HoldOut | None, known: NDArray[np.int64]) -> Calibration | None:
    """How often new rows are right.

    Neighbors were trained together with the rows of the pairs, which makes them look too good; the short
    training has fewer epochs and pairs, which makes it look too bad. Where there are both, the mean is taken.
    """
    found = [_compare_neighbors(model, job, known), _compare_hold_out(model, hold_out)]
    known_ones = [one for one in found if one is not None]
    if not known_ones:
        return None
    accuracy = float(np.mean([one.accuracy for one in known_ones]))
    return Calibration(1.0, accuracy, max(one.n_pairs for one in known_ones))


def _compare_hold_out(model: Any, hold_out: HoldOut | None) -> Calibration | None:
    """What the held-out pairs say of the clusters of the short training."""
    if hold_out is None:
        return None
    held_out = hold_out.held_out[model._trusts()[hold_out.held_out]]
    pairs, z = model.constraints_[held_out], hold_out.embedding.float()
    if len(pairs) == 0 or model.n_clusters_ > len(z):
        return None
    generator = torch_generator(model._seed, "hold-out clusters", device=z.device)
    centers = kmeans(z, model.n_clusters_, generator=generator)
    labels = torch.cdist(z, centers).argmin(dim=1).cpu().numpy()
    left, right = (labels[np.searchsorted(hold_out.rows, end)] for end in (pairs.left, pairs.right))
    accuracy = calibration.estimate_accuracy(left == right, pairs.is_must_link, model.n_clusters_)
    return Calibration(1.0, accuracy, len(pairs))


def _learn_novelty(model: Any, job: Job, rows: NDArray[np.int64]) -> NoveltyScale:
    labels = torch.from_numpy(model.labels_[rows]).to(job.rows.device)
    generator = torch_generator(model._seed, "novelty", device=job.rows.device)
    return learn_novelty(_gather(job, rows), labels, generator=generator)


def _compare_neighbors(model: Any, job: Job, known: NDArray[np.int64]) -> Calibration | None:
    """What the pairs of the fit say of the labels that the neighbors of their rows have."""
    n_clusters, labels, device = model.n_clusters_, model.labels_, job.rows.device
    evidence = model._trusted_pairs()
    seed = derive_seed(model._seed, "calibration")
    pairs = evidence[calibration.choose_pairs(evidence, labels, seed=seed)]
    if len(pairs) == 0:
        return None
    ends, places = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
    voters = known[: min(calibration.MOST_ROWS, _most_rows(job))]
    voted = calibration.vote(
        _gather(job, ends),
        torch.from_numpy(ends).to(device),
        voters=_gather(job, voters),
        voter_numbers=torch.from_numpy(voters).to(device),
        votes=torch.from_numpy(labels[voters]).to(device),
        n_clusters=n_clusters,
    )
    left, right = np.split(voted.cpu().numpy()[places], 2)
    accuracy = calibration.estimate_accuracy(left == right, pairs.is_must_link, n_clusters)
    return Calibration(1.0, accuracy, len(pairs))


def _temperature(model: Any, embedding: NDArray[np.float32], accuracy: float) -> float:
    z = torch.from_numpy(embedding).to(model._hardware.device)
    return calibration.find_temperature(model._membership_logits()(z), accuracy)


def _embed_like_new(model: Any, job: Job, known: NDArray[np.int64]) -> NDArray[np.float32]:
    """Embeddings like those of new rows, which no answer has moved.

    Those of rows in no pair; where they are few, of rows that were moved as far as their neighbors are apart.
    """
    free = known[~np.isin(known, np.concatenate([job.pairs.left, job.pairs.right]))]
    if len(free) >= FEWEST_FREE_ROWS:
        found: NDArray[np.float32] = model.embedding_[free[: calibration.TEMPERATURE_ROWS]]
        return found
    x = _gather(job, known[:MOVED_ROWS])
    if len(x) < 3:
        return np.asarray(model.embedding_[known])
    first, second = torch.cdist(x, x).fill_diagonal_(torch.inf).topk(2, largest=False).indices.T
    moved = x + (x[first] - x[second]) / 2**0.5
    return np.asarray(model._embed(model.network_, moved).cpu().numpy())


def _most_rows(job: Job) -> int:
    """Rows that are looked at together, at most: fewer where they are wide."""
    return max(FEWEST_TOGETHER, MOST_ENTRIES // job.rows.n_features)


def _gather(job: Job, rows: NDArray[np.int64]) -> Tensor:
    """Scaled rows as the network sees them."""
    index = torch.from_numpy(rows)
    return job.rows.gather(index.to(job.rows.index_device)).float()

"""The story of ``fit``, shared by every method of the package.

    check the table and the pairs -> build a network -> pretrain it -> train it on the pairs
    -> embed all rows -> cut the embedding into clusters

A method supplies a network, an objective and an assigner, and nothing else. Two kinds differ in the
last step: ``estimators/embedding.py`` cuts the embedding afterwards (SpherePair, AutoEmbedder), in
``estimators/assigning.py`` the network itself knows the clusters (the other methods).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils._param_validation import InvalidParameterError as SklearnInvalidParameterError
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spherepair.clustering.assigners import Assignment
from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError, TrainingDivergedError
from spherepair.estimators import inputs
from spherepair.estimators.fingerprints import fingerprint_fit
from spherepair.estimators.parameters import hidden_sizes
from spherepair.estimators.same_rows import training_table
from spherepair.estimators.saving import save_estimator
from spherepair.metrics import pair_satisfaction
from spherepair.training.batches import Batches, PairTensors
from spherepair.training.checkpoint import Checkpoint
from spherepair.training.embedding import map_rows
from spherepair.training.engine import Monitor, Objective, Recipe, Record
from spherepair.training.hardware import choose_hardware
from spherepair.training.pretraining import load_ahead
from spherepair.training.progress import resolve_progress
from spherepair.training.randomness import derive_seed, resolve_seed
from spherepair.training.rows import RowSource, open_rows
from spherepair.training.scaling import learn_scaling
from spherepair.training.session import Session
from spherepair.training.stopping import StoppingRule, resolve_stopping

#: Gradients of the pair stage are clipped to this norm. Differs from the paper: it has no clipping; the
#: authors' published code has.
CLIP_NORM = 1.0
PAIRS_STAGE, REFINE_STAGE = "pairs", "refining"
#: Epochs of a refinement: from weights that know most pairs already, a few are enough.
REFINE_EPOCHS = 8

#: From embeddings (n, D) to unnormalised log-probabilities of the clusters (n, K).
Logits = Callable[[Tensor], Tensor]


@dataclass
class Job:
    """Everything one fit works with."""

    rows: RowSource
    pairs: Constraints
    network: Any
    session: Session
    companions: Tensor | None = None  # of rows, where the objective has terms on them (see Batches)

    def pair_tensors(self, which: NDArray[np.bool_] | None = None) -> PairTensors:
        """The pairs, or those of them where ``which`` is true, as tensors."""
        pairs = self.pairs
        parts = (pairs.left, pairs.right, pairs.is_must_link, pairs.weight)
        kept = slice(None) if which is None else which
        return PairTensors(*(torch.from_numpy(np.array(part[kept])) for part in parts))


class DeepConstrainedClusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Base of all estimators: fit, predict, predict_proba, transform, score_pairs, refine, save."""

    #: Whether there is nothing to train on where there are no pairs.
    _needs_pairs: bool = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        *,
        on_conflict: str | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Learn an embedding and clusters from rows and pairs.

        Parameters
        ----------
        X : array, memory map, CSR matrix, tensor or table of shape (n_rows, n_features)
        y : ignored
            Labels never take part.
        constraints : Constraints, optional
            Must-links and cannot-links between rows of ``X``.
        on_conflict : {"raise", "drop", "keep"}, optional
            Overrides the parameter of that name for this call.
        checkpoint : path, optional
            Overrides the parameter of that name for this call.

        Returns
        -------
        self
        """
        self._check_parameters()
        inputs.refuse_pairs_as_labels(y)
        self._forget()
        table = inputs.check_table(self, X, reset=True)
        pairs = inputs.check_constraints(
            constraints, table.shape[0], on_conflict=on_conflict or self.on_conflict
        )
        inputs.warn_about_losses(pairs, self.batch_size)
        self._start(table)
        job = self._prepare(table, pairs, checkpoint if checkpoint is not None else self.checkpoint)
        self._pretrain(job)
        self._train(job, PAIRS_STAGE, self._recipe(), self.max_epochs, resolve_stopping(self.stopping))
        self._finish(job)
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:
        """Fit, and the labels of the rows; ``constraints=`` and the rest as in :meth:`fit`."""
        return self.fit(X, y, **kwargs).labels_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels of rows, seen or not: the most probable cluster.

        Parameters
        ----------
        X : like in fit, shape (n, n_features)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        network, closeness = self._fitted_network(), self._closeness()
        labels: NDArray[np.int64] = self._map(
            X, lambda x: closeness(self._embed(network, x)).argmax(dim=1), dtype=np.int64
        )
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Probability of every cluster for rows, seen or not.

        Parameters
        ----------
        X : like in fit, shape (n, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n, n_clusters_)
        """
        network, logits = self._fitted_network(), self._membership_logits()
        return self._map(X, lambda x: logits(self._embed(network, x)).softmax(dim=1))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Embeddings of rows.

        Parameters
        ----------
        X : like in fit, shape (n, n_features)

        Returns
        -------
        embedding : ndarray of shape (n, embedding_dim)
        """
        network = self._fitted_network()
        return self._map(X, lambda x: self._embed(network, x))

    def score_pairs(self, constraints: Constraints, X: Any = None) -> float:
        """Share (by weight) of the constraints that the labels satisfy.

        Parameters
        ----------
        constraints : Constraints
            On rows of the training table, or of ``X`` where that is given.
        X : like in fit, optional
        """
        check_is_fitted(self)
        labels = self.labels_ if X is None else self.predict(X)
        pairs = inputs.check_constraints(constraints, len(labels), on_conflict="keep")
        kept = pair_satisfaction(labels, pairs.left, pairs.right, pairs.is_must_link, weight=pairs.weight)
        return float(kept.total)

    def refine(self, constraints: Constraints, X: Any = None, *, on_conflict: str | None = None) -> Self:
        """Go on from here with more pairs: a short training from the present weights.

        It stays near the solution it has; fitting again may find a better one, the more so the more pairs
        are new.

        Parameters
        ----------
        constraints : Constraints
            New pairs; those of the fit are kept as well.
        X : like in fit, optional
            The training table; needed only for a model that was loaded from a file.
        on_conflict : {"raise", "drop", "keep"}, optional

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._check_parameters()
        table = training_table(self, X)
        self._refuse_too_many_clusters(table.shape[0])
        policy = on_conflict or self.on_conflict
        new = inputs.check_constraints(constraints, table.shape[0], on_conflict=policy)
        pairs = inputs.check_constraints(self.constraints_ | new, table.shape[0], on_conflict=policy)
        rows = open_rows(table, self._scaling, self._hardware.device)
        seed = derive_seed(self._seed, REFINE_STAGE, len(pairs))
        network = copy.deepcopy(self.network_)  # an interrupted call leaves the model as it was
        job = Job(rows, pairs, network, Session(network, self._hardware, seed, monitors=self._monitors()))
        share_wrong = 1.0 - self.score_pairs(pairs - self.constraints_)
        recipe, n_epochs = self._refine_recipe(share_wrong), self._refine_epochs(len(pairs), share_wrong)
        self._train(job, REFINE_STAGE, recipe, n_epochs, resolve_stopping("fixed"))
        job.session.history = [*self.history_, *job.session.history]
        self._finish(job, before=self.labels_)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder: ``model.json`` and ``weights.safetensors``.

        The rows themselves are not saved, only their labels and embedding.
        """
        check_is_fitted(self)
        save_estimator(self, folder)

    # What a method supplies; without a body here, every method has to.

    def _choose_embedding_dim(self, n_features: int) -> int:
        """How many dimensions the embedding has."""
        raise NotImplementedError

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> nn.Module:
        """The network with fresh weights."""
        raise NotImplementedError

    def _pretrain(self, job: Job) -> None:
        """Prepare the network before it sees pairs; nothing by default."""

    def _initialise(self, job: Job) -> None:
        """Set up what training on pairs starts from, such as centres; nothing by default."""

    def _build_objective(self, job: Job) -> Objective:
        """What training on pairs minimises."""
        raise NotImplementedError

    def _sweeps(self, job: Job, stage: str) -> list[Batches]:
        """What makes an epoch of that stage."""
        raise NotImplementedError

    def _recipe(self) -> Recipe:
        return Recipe(learning_rate=self.learning_rate, clip_norm=CLIP_NORM)

    def _refine_recipe(self, share_wrong: float) -> Recipe:
        """Of a refinement with new pairs of which the labels have that share wrong."""
        return self._recipe()

    def _refine_epochs(self, n_pairs: int, share_wrong: float) -> int:
        """Likewise, with so many pairs, old and new."""
        return max(1, min(REFINE_EPOCHS, int(self.max_epochs) // 4))

    def _embed(self, network: Any, x: Tensor) -> Tensor:
        """Rows (n, n_features) to embeddings (n, embedding_dim) in float32."""
        z: Tensor = network.encode(x)
        return z.float()

    def _cluster(self, job: Job, embedding: NDArray[np.float32]) -> tuple[Assignment, ClusterNumber | None]:
        """Labels and centres of the training rows, and how many there are where that was asked."""
        raise NotImplementedError

    def _membership_logits(self) -> Logits:
        """How probable each cluster is, given an embedding, after fit."""
        raise NotImplementedError

    def _closeness(self) -> Logits:
        """Greatest for the most probable cluster; to be had for less than how probable it is by some."""
        return self._membership_logits()

    # The steps of fit.

    def _check_parameters(self) -> None:
        try:
            validate_parameter_constraints(
                self._parameter_constraints,
                self.get_params(deep=False),
                caller_name=type(self).__name__,
            )
        except SklearnInvalidParameterError as error:
            raise InvalidParameterError(str(error)) from error
        hidden_sizes(self.hidden_dims)
        resolve_stopping(self.stopping)

    def _refuse_too_many_clusters(self, n_rows: int) -> None:
        if self.n_clusters != "auto" and self.n_clusters > n_rows:
            raise InvalidParameterError(f"n_clusters={self.n_clusters} is more than the {n_rows} rows of X.")

    def _forget(self) -> None:
        """Drop an earlier fit: one that fails half-way must not leave a mixture of two models."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _start(self, table: Any) -> None:
        """Settle device, seed, scaling and the size of the embedding."""
        self._refuse_too_many_clusters(table.shape[0])
        own = getattr(self, "encoder", None)
        method = getattr(self, "pretraining", None) if own is None else None
        load_ahead(self.device, self.precision, method=method)
        self._hardware = choose_hardware(self.device, self.precision)
        self._seed = resolve_seed(self.random_state)
        self._scaling = learn_scaling(table, self.scaling)
        self._embedding_dim = self._choose_embedding_dim(table.shape[1])
        self._table = table

    def _prepare(self, table: Any, pairs: Constraints, checkpoint: str | Path | None) -> Job:
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(checkpoint, fingerprint_fit(self, table, pairs))
            self._seed = saved.seed(self._seed)
        network = self._build_network(table.shape[1], self._embedding_dim, self._seed)
        network = network.to(self._hardware.device)
        rows = open_rows(table, self._scaling, self._hardware.device)
        session = Session(network, self._hardware, self._seed, checkpoint=saved, monitors=self._monitors())
        return Job(rows, pairs, network, session)

    def _train(self, job: Job, stage: str, recipe: Recipe, max_epochs: int, stopping: StoppingRule) -> None:
        if len(job.pairs) == 0 and self._needs_pairs:
            return
        job.session.run_stage(
            self._build_objective(job),
            self._sweeps(job, stage),
            stage=stage,
            recipe=recipe,
            max_epochs=max_epochs,
            stopping=stopping,
            initialise=partial(self._initialise, job) if stage == PAIRS_STAGE else None,
        )

    def _finish(self, job: Job, *, before: NDArray[np.int64] | None = None) -> None:
        """Embed all rows, find how many clusters there are, and assign."""
        network = job.network.eval()
        embedding = map_rows(lambda x: self._embed(network, x), job.rows, self._hardware)
        if not np.isfinite(embedding).all():
            raise TrainingDivergedError(
                "training diverged in its last step: some embeddings are not finite; lower learning_rate or "
                "check the scale of the data."
            )
        found, number = self._cluster(job, embedding)
        if before is not None:
            found = self._keep_numbers(found, before)
        # All at once and last: an interruption must not leave half of an older model.
        self.network_, self.constraints_, self.cluster_number_ = network, job.pairs, number
        self.history_: list[Record] = job.session.history
        self.embedding_, self.labels_, self.cluster_centers_ = embedding, found.labels, found.centers
        self.n_clusters_ = len(found.centers)

    def _keep_numbers(self, found: Assignment, before: NDArray[np.int64]) -> Assignment:
        """Clusters keep their numbers when a fit goes on; in the network of most methods they do anyway."""
        return found

    def _fitted_network(self) -> Any:
        check_is_fitted(self)
        return self.network_

    def _map(self, X: Any, function: Callable[[Tensor], Tensor], *, dtype: Any = np.float32) -> NDArray[Any]:
        """Apply a function to rows a block at a time, looking for NaN in the same pass over the data."""
        table = self._checked_rows(X)
        device = self._hardware.device
        rows = open_rows(table, self._scaling, device, keep=False)
        is_clean = torch.ones((), dtype=torch.bool, device=device)

        def careful(x: Tensor) -> Tensor:
            is_clean.logical_and_(x.sum().isfinite())  # one pass; a sum that overflows only looks bad
            return function(x)

        result = map_rows(careful, rows, self._hardware, dtype=dtype)
        if not bool(is_clean):
            inputs.check_table(self, X, reset=False)  # says where they are
            is_usable = map_rows(lambda x: x.isfinite().all(dim=1), rows, self._hardware, dtype=np.bool_)
            inputs.refuse_overflow(is_usable)
        return result

    def _checked_rows(self, X: Any) -> Any:
        if isinstance(X, Tensor) and X.is_cuda and X.layout == torch.strided:
            return inputs.check_tensor(self, X)
        return inputs.check_table(self, X, reset=False, finite=False)

    def _monitors(self) -> list[Monitor]:
        monitor = resolve_progress(self.progress)
        return [] if monitor is None else [monitor]

    # What scikit-learn asks for.

    @property
    def _n_features_out(self) -> int:
        return int(self._embedding_dim)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # A pickled or copied model does not drag the whole training table along.
        return (
            {**super().__getstate__(), "_table": None} if hasattr(self, "_table") else super().__getstate__()
        )

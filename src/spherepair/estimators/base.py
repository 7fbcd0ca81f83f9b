"""The story of ``fit``, shared by every method of the package.

    check the table and the pairs -> build a network -> pretrain it -> train it on the pairs
    -> embed all rows -> cut the embedding into clusters

A method supplies a network, an objective and an assigner, and nothing else.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
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
from torch.nn import functional as F  # noqa: N812

from spherepair.clustering.assigners import Assigner, keep_numbers, nearest_direction, resolve_assigner
from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.estimators import inputs
from spherepair.estimators.saving import save_estimator
from spherepair.metrics import pair_satisfaction
from spherepair.networks import Autoencoder
from spherepair.training.batches import Batches
from spherepair.training.checkpoint import Checkpoint
from spherepair.training.embedding import map_rows
from spherepair.training.engine import Monitor, Objective, Recipe, Record
from spherepair.training.hardware import choose_hardware
from spherepair.training.progress import resolve_progress
from spherepair.training.randomness import derive_seed, resolve_seed
from spherepair.training.rows import RowSource, open_rows
from spherepair.training.scaling import learn_scaling
from spherepair.training.session import Session
from spherepair.training.stopping import StoppingRule, resolve_stopping
from spherepair.version import __version__

#: Gradients of the pair stage are clipped to this norm, as in the authors' published code.
CLIP_NORM = 1.0
#: The same row on another device or in another precision comes out closer than this to where it was.
SAME_ROW_COSINE = 0.99
PAIRS_STAGE, REFINE_STAGE = "pairs", "refining"


@dataclass
class Job:
    """Everything one fit works with."""

    rows: RowSource
    pairs: Constraints
    network: Autoencoder
    session: Session


class DeepConstrainedClusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Base of all estimators: fit, predict, transform, score_pairs, refine, save."""

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
        self._forget()
        table = inputs.check_table(self, X, reset=True)
        pairs = inputs.check_constraints(
            constraints, table.shape[0], on_conflict=on_conflict or self.on_conflict
        )
        inputs.warn_about_losses(pairs, self.batch_size)
        self._start(table)
        job = self._prepare(table, pairs, checkpoint if checkpoint is not None else self.checkpoint)
        self._pretrain(job)
        self._train(job, PAIRS_STAGE, self.max_epochs, resolve_stopping(self.stopping))
        self._finish(job)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels of rows, seen or not: the cluster whose centre has the smallest angle.

        Parameters
        ----------
        X : like in fit, shape (n, n_features)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return nearest_direction(self._embed(X), self.cluster_centers_)

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Unit vectors of rows on the sphere.

        Parameters
        ----------
        X : like in fit, shape (n, n_features)

        Returns
        -------
        embedding : ndarray of shape (n, embedding_dim)
        """
        return self._embed(X)

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

    def count_clusters(
        self,
        constraints: Constraints | None = None,
        *,
        method: str = "consensus",
        random_state: int | None = None,
    ) -> ClusterNumber:
        """How many clusters the embedding of the training rows has, whatever number was used.

        Parameters
        ----------
        constraints : Constraints, optional
            Pairs of training rows; those of the fit if not given.
        method : {"consensus", "tail-angle", "silhouette", "lifetime"}, default="consensus"
        random_state : int, optional
            Of the resamples; that of the fit if not given, so that the same pairs get the same answer.
        """
        check_is_fitted(self)
        pairs = self.constraints_ if constraints is None else constraints
        pairs = inputs.check_constraints(pairs, len(self.labels_), on_conflict="keep")
        return self._infer_n_clusters(self.embedding_, pairs, method=method, random_state=random_state)

    def refine(self, constraints: Constraints, X: Any = None, *, on_conflict: str | None = None) -> Self:
        """Go on from here with more pairs: a short training from the present weights.

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
        table = self._training_table(X)
        policy = on_conflict or self.on_conflict
        new = inputs.check_constraints(constraints, table.shape[0], on_conflict=policy)
        pairs = inputs.check_constraints(self.constraints_ | new, table.shape[0], on_conflict=policy)
        rows = open_rows(table, self._scaling, self._hardware.device)
        seed = derive_seed(self._seed, REFINE_STAGE, len(pairs))
        network = copy.deepcopy(self.network_)  # an interrupted call leaves the model as it was
        job = Job(rows, pairs, network, Session(network, self._hardware, seed, monitors=self._monitors()))
        self._train(job, REFINE_STAGE, self._refine_epochs(), resolve_stopping("fixed"))
        job.session.history = [*self.history_, *job.session.history]
        self._finish(job, before=self.labels_)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder: ``model.json`` and ``weights.safetensors``.

        The rows themselves are not saved, only their labels and embedding.
        """
        check_is_fitted(self)
        save_estimator(self, folder)

    # What a method supplies.

    def _choose_embedding_dim(self, n_features: int) -> int:
        raise NotImplementedError

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> Autoencoder:
        raise NotImplementedError

    def _build_objective(self, job: Job) -> Objective:
        raise NotImplementedError

    def _pretrain(self, job: Job) -> None:
        raise NotImplementedError

    def _batches(self, job: Job, stage: str) -> Batches:
        raise NotImplementedError

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
        resolve_stopping(self.stopping)
        if isinstance(self.clustering, type):
            raise InvalidParameterError(
                f"clustering must be an instance, got the class {self.clustering.__name__} instead; "
                f"write {self.clustering.__name__}()."
            )
        resolve_assigner(self.clustering)

    def _forget(self) -> None:
        """Drop an earlier fit: one that fails half-way must not leave a mixture of two models."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _start(self, table: Any) -> None:
        """Settle device, seed, scaling and the size of the embedding."""
        if self.n_clusters != "auto" and self.n_clusters > table.shape[0]:
            raise InvalidParameterError(
                f"n_clusters={self.n_clusters} is more than the {table.shape[0]} rows of X."
            )
        self._hardware = choose_hardware(self.device, self.precision)
        self._seed = resolve_seed(self.random_state)
        self._scaling = learn_scaling(table, self.scaling)
        self._embedding_dim = self._choose_embedding_dim(table.shape[1])
        self._table = table

    def _prepare(self, table: Any, pairs: Constraints, checkpoint: str | Path | None) -> Job:
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(checkpoint, self._fingerprint(table, pairs))
            self._seed = saved.seed(self._seed)
        network = self._build_network(table.shape[1], self._embedding_dim, self._seed)
        network = network.to(self._hardware.device)
        rows = open_rows(table, self._scaling, self._hardware.device)
        session = Session(network, self._hardware, self._seed, checkpoint=saved, monitors=self._monitors())
        return Job(rows, pairs, network, session)

    def _train(self, job: Job, stage: str, max_epochs: int, stopping: StoppingRule) -> None:
        if len(job.pairs) == 0 and job.session.history:
            return  # pretraining has done all that can be done without pairs
        job.session.run_stage(
            self._build_objective(job),
            self._batches(job, stage),
            stage=stage,
            recipe=Recipe(learning_rate=self.learning_rate, clip_norm=CLIP_NORM),
            max_epochs=max_epochs,
            stopping=stopping,
        )

    def _finish(self, job: Job, *, before: NDArray[np.int64] | None = None) -> None:
        """Embed all rows, find how many clusters there are, and assign."""
        network = job.network.eval()
        embedding = self._encode(network, job.rows)
        number = self._infer_n_clusters(embedding, job.pairs) if self.n_clusters == "auto" else None
        n_clusters = self.n_clusters if number is None else number.value
        assigner: Assigner = resolve_assigner(self.clustering, device=self._hardware.device)
        seed = derive_seed(self._seed, "clustering") % 2**32  # scikit-learn's clusterers take no more
        found = assigner.assign(embedding, n_clusters, seed=seed)
        if before is not None:
            found = keep_numbers(found, before)
        # All at once and last: an interruption must not leave half of an older model.
        self.network_, self.constraints_, self.cluster_number_ = network, job.pairs, number
        self.history_: list[Record] = job.session.history
        self.embedding_, self.labels_, self.cluster_centers_ = embedding, found.labels, found.centers
        self.n_clusters_ = len(found.centers)

    def _infer_n_clusters(
        self,
        embedding: NDArray[np.float32],
        pairs: Constraints,
        *,
        method: Any = "consensus",
        random_state: int | None = None,
    ) -> ClusterNumber:
        seed = derive_seed(self._seed, "number of clusters") % 2**32 if random_state is None else random_state
        return infer_n_clusters(
            embedding, pairs, method=method, tail_ratio=self.tail_ratio, random_state=seed
        )

    def _encode(self, network: Autoencoder, rows: RowSource) -> NDArray[np.float32]:
        def directions(x: torch.Tensor) -> torch.Tensor:
            return F.normalize(network.encode(x).float(), dim=-1, eps=1e-12)

        return map_rows(directions, rows, self._hardware)

    def _embed(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        table = inputs.check_table(self, X, reset=False)
        return self._encode(self.network_, open_rows(table, self._scaling, self._hardware.device, keep=False))

    def _monitors(self) -> list[Monitor]:
        monitor = resolve_progress(self.progress)
        return [] if monitor is None else [monitor]

    def _refine_epochs(self) -> int:
        return max(1, int(self.max_epochs) // 20)

    def _training_table(self, X: Any) -> Any:
        if X is None:
            if self._table is None:
                raise InvalidDataError(
                    "this model was loaded or copied, and so does not hold the rows: give the table it was "
                    "fitted on, refine(constraints, X)."
                )
            return self._table
        table = inputs.check_table(self, X, reset=False)
        if table.shape[0] != len(self.labels_):
            raise InvalidDataError(
                f"X has {table.shape[0]} rows, but the model was fitted on {len(self.labels_)}; refine needs "
                "the same rows in the same order."
            )
        self._refuse_other_rows(table)
        return table

    def _refuse_other_rows(self, table: Any) -> None:
        """Embed some rows: those of the fit come out where they were then."""
        sample = np.unique(np.linspace(0, table.shape[0] - 1, 256).astype(np.int64))
        rows = open_rows(table[sample], self._scaling, self._hardware.device, keep=False)
        cosine = np.sum(self._encode(self.network_, rows) * self.embedding_[sample], axis=1)
        if cosine.min() < SAME_ROW_COSINE:
            raise InvalidDataError(
                f"row {int(sample[cosine.argmin()])} of X is not the row that the model was fitted on; "
                "refine needs the same rows in the same order."
            )

    def _fingerprint(self, table: Any, pairs: Constraints) -> dict[str, str]:
        """What must agree for a fit to go on from a checkpoint."""
        irrelevant = {
            "checkpoint",
            "progress",
            "on_conflict",
            "clustering",
            "tail_ratio",
        }
        parameters = {k: _describe(v) for k, v in self.get_params(deep=False).items() if k not in irrelevant}
        return {
            "version of spherepair": __version__,
            "data": inputs.fingerprint_table(table),
            "constraints": inputs.fingerprint_constraints(pairs),
            "weights of the encoder": inputs.fingerprint_module(self.encoder),
            **parameters,
        }

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


def _describe(parameter: Any) -> str:
    """A parameter in words that another process would use too: without addresses in memory."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(parameter))

"""The story of ``fit``, shared by every method of the package.

    check the table and the pairs -> build a network -> pretrain it -> train it on the pairs
    -> embed all rows -> cut the embedding into clusters

A method supplies a network, a plan (objective, batches, recipe) and an assigner. Two families
differ in the last step (``method_families.py``): the embedding is cut after training (SpherePair,
AutoEmbedder), or the network itself assigns rows to clusters (the other methods).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spherepair import validation
from spherepair.clustering import ClusterNumber
from spherepair.clustering.assigners import Assignment
from spherepair.constraints import Constraints
from spherepair.encoders import pack_encoder
from spherepair.errors import InvalidParameterError, TrainingDivergedError
from spherepair.estimators.fitted_state import FittedState, pack_assessment
from spherepair.estimators.job import (
    FIT,
    REFINING,
    Job,
    Refinement,
    Stage,
    encode_rows,
    joined_labels,
    joined_table,
    map_checked_rows,
    refuse_unclear_index,
    takes_raw_rows,
)
from spherepair.estimators.trust import AssessedClusterer
from spherepair.estimators.trust.explaining import ExplainedClusterer, propose_names
from spherepair.metrics import pair_satisfaction
from spherepair.persistence import save_model
from spherepair.settings import check_parameters
from spherepair.training import Monitor, Plan, Record
from spherepair.training.hardware import (
    choose_effort,
    choose_hardware,
    derive_seed,
    limit_threads,
    refuse_without_memory,
    resolve_seed,
)
from spherepair.training.optimization import RULES, StoppingRule, resolve_stopping
from spherepair.training.pretraining import JointPretraining, StackedPretraining
from spherepair.training.rows import map_rows, open_rows
from spherepair.training.scaling import ColumnStatistics, learn_scaling
from spherepair.training.session import Checkpoint, Session, checkpoint_lock, resolve_progress

#: Gradients on pairs are clipped to this norm. Differs from the paper: it has no clipping; the authors'
#: published code has.
CLIP_NORM = 1.0
#: Most epochs of a refinement: the weights know most pairs already.
REFINE_EPOCHS = 8

#: From embeddings (n, D) to unnormalized log-probabilities of the clusters (n, K).
Logits = Callable[[Tensor], Tensor]


class DeepConstrainedClusterer(AssessedClusterer, ExplainedClusterer, FittedState):
    """Base of all estimators: fit, predict, transform, refine, save; and how far they can be trusted."""

    _needs_pairs: bool = True  # whether training is skipped where there are none
    #: Dataclasses that parameters may hold and that are saved with the model.
    _settings: ClassVar[tuple[type, ...]] = (*RULES.values(), JointPretraining, StackedPretraining)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    #: Layers as wide as a row: the first of the encoder, and the last of the decoder if there is one.
    _n_wide_layers: ClassVar[int] = 2
    _seed: int
    _scaling: Any

    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        *,
        on_conflict: str = "weigh",
        checkpoint: str | Path | None = None,
        columns: ColumnStatistics | None = None,
    ) -> Self:
        """Learn an embedding and clusters from rows and pairs.

        Parameters
        ----------
        X : array, memory map, CSR matrix, tensor or table of shape (n_rows, n_features)
            Or whatever ``encoder`` takes, if there is one.
        y : ignored
            Labels are never used.
        constraints : Constraints, optional
            Must-links and cannot-links between rows of ``X``.
        on_conflict : {"weigh", "raise", "drop", "keep"}, default="weigh"
            What to do with constraints that contradict each other: find out which are wrong (methods that
            cannot judge answers leave out the fewest that resolve it), raise an error, drop the
            cannot-links, or keep all.
        checkpoint : path, optional
            Folder in which the fit is saved after every epoch. A later fit with the same data, constraints
            and parameters resumes from there.
        columns : ColumnStatistics, optional
            Of a larger table that ``X`` is a sample of, as ``spherepair.scale.fit`` learns them; columns are
            scaled by these.

        Returns
        -------
        self
        """
        self._check_parameters()
        validation.refuse_pairs_as_labels(y)
        refuse_unclear_index(X, constraints)
        self._reset()
        table = validation.check_table(self, encode_rows(self, X, reset=True), reset=True)
        pairs = self._checked_pairs(constraints, table.shape[0], on_conflict)
        validation.warn_about_few_pairs(pairs, self.batch_size)
        validation.warn_about_few_clusters(pairs, self.n_clusters)
        self._settle(table, columns)
        with checkpoint_lock(checkpoint):
            job = self._start(table, pairs, checkpoint, columns)
            with limit_threads(job.network, self._hardware):
                self._pretrain(job)
                hold_out = self._hold_out(job)
                try:
                    self._learn(job)
                    self._assess(job, hold_out)
                    self.group_names_ = propose_names(self, X, table)
                except BaseException:
                    self._reset()  # no model that has labels and does not know how sure they are
                    raise
        return self

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:
        """Fit and return the labels of the rows; takes the arguments of :meth:`fit`."""
        return self.fit(X, y, **kwargs).labels_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels of rows, seen or not: the most probable cluster.

        Parameters
        ----------
        X : as in fit, shape (n, n_features)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        network, score = self._fitted_network(), self._label_scores()
        labels: NDArray[np.int64] = self._map(
            X, lambda x: score(self._embed(network, x)).argmax(dim=1), dtype=np.int64
        )
        return labels

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Embeddings of rows, seen or not.

        Parameters
        ----------
        X : as in fit, shape (n, n_features)

        Returns
        -------
        embedding : ndarray of shape (n, embedding_dim)
        """
        network = self._fitted_network()
        return self._map(X, lambda x: self._embed(network, x))

    def refine(
        self, constraints: Constraints, X: Any = None, *, X_new: Any = None, on_conflict: str = "weigh"
    ) -> Self:
        """Continue with more pairs, and with new rows: a short training from the present weights.

        The result stays near the present one. A new fit may find a better one, the more so the more pairs
        are new.

        Parameters
        ----------
        constraints : Constraints
            New pairs; those of the fit are used as well. New rows have the numbers after those of the fit.
        X : as in fit, optional
            The training table: a loaded model needs the original rows in the same order. New rows may
            follow them.
        X_new : as in fit, optional
            New rows, which join the model.
        on_conflict : {"weigh", "raise", "drop", "keep"}, default="weigh"
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._check_parameters()
        table = joined_table(self, X, X_new)
        before = joined_labels(self, table)
        self._refuse_too_many_clusters(table.shape[0])
        new = validation.check_constraints(constraints, table.shape[0], on_conflict=on_conflict)
        pairs = self._checked_pairs(self.constraints_ | new, table.shape[0], on_conflict)
        validation.warn_about_few_clusters(pairs, self.n_clusters)
        share_wrong = 1.0 - pair_satisfaction(before, pairs - self.constraints_).total
        network = copy.deepcopy(self.network_)  # an interrupted call leaves the model as it was
        seed = derive_seed(self._seed, REFINING, len(pairs))
        session = Session(network, self._hardware, seed, monitors=self._monitors())
        rows = open_rows(table, self._scaling, self._hardware.device)
        job = Job(rows, pairs, network, session, worth=self._known_worth(pairs))
        with limit_threads(network, self._hardware):
            self._train(job, Stage(REFINING, Refinement(share_wrong, self.cluster_centers_)))
            session.history = [*self.history_, *session.history]
            if len(before) > len(self.labels_):
                self._table = table
            known = self.constraints_
            self._finish(job, before=before)
            self._carry_over(known)
            self._assess(job)
        self._keep_names()
        return self

    def save(self, folder: str | Path, *, rows: bool = True) -> None:
        """Write the fitted model to a folder: ``model.json`` and ``weights.safetensors``.

        The rows are not saved, only their labels, embedding and pairs. Read by :func:`spherepair.load`.

        Parameters
        ----------
        folder : path
        rows : bool, default=True
            Without it these are not saved either: as small as the network, the model predicts but cannot be
            refined.
        """
        check_is_fitted(self)
        parts = (pack_encoder(getattr(self, "encoder_", None)), pack_assessment(self))
        entries, arrays = ({**first, **second} for first, second in zip(*parts, strict=True))
        save_model(self, folder, further=(entries, arrays), rows=rows)

    # What a method supplies. Those without a body have to be written.

    def _choose_embedding_dim(self, n_features: int) -> int:
        """Dimensions of the embedding."""
        raise NotImplementedError

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> nn.Module:
        """The network with fresh weights."""
        raise NotImplementedError

    def _pretrain(self, job: Job) -> None:
        """Train the network without pairs; nothing by default."""

    def _initialize(self, job: Job) -> None:
        """Set what a fit on pairs starts from, such as centers; nothing by default."""

    def _plan(self, job: Job, stage: Stage) -> Plan:
        """Objective, batches and recipe of training on pairs, in a fit or a refinement."""
        raise NotImplementedError

    def _max_epochs(self, job: Job, stage: Stage) -> int:
        """Upper limit of epochs on pairs; a refinement has few."""
        if stage.refinement is None:
            return int(self.max_epochs)
        return max(1, min(REFINE_EPOCHS, int(self.max_epochs) // 4))

    def _stopping_rule(self, stage: Stage) -> StoppingRule:
        """When training on pairs stops before the last epoch; a refinement never does."""
        return resolve_stopping(self.stopping if stage.refinement is None else "fixed")

    def _can_judge(self, pairs: Constraints) -> bool:
        """Whether this method finds out which of these answers are wrong."""
        return False

    def _known_worth(self, pairs: Constraints) -> NDArray[np.float32] | None:
        """What each answer is worth, as an earlier fit has found out; ``None`` where all count in full."""
        return None

    def _carry_over(self, known: Constraints) -> None:
        """After a refinement, keep what is known of the pairs that there were; nothing by default."""

    def _embed(self, network: Any, x: Tensor) -> Tensor:
        """Rows (n, n_features) to embeddings (n, embedding_dim) in float32."""
        z: Tensor = network.encode(x)
        return z.float()

    def _cluster(self, job: Job, embedding: NDArray[np.float32]) -> tuple[Assignment, ClusterNumber | None]:
        """Labels and centers of the training rows, and the number of clusters where it was to be found."""
        raise NotImplementedError

    def _keep_numbers(self, found: Assignment, before: NDArray[np.int64]) -> Assignment:
        """Give clusters the numbers they had before a refinement; the network of most methods does so."""
        return found

    def _membership_logits(self) -> Logits:
        """Unnormalized log-probabilities of the clusters, given embeddings, after fit."""
        raise NotImplementedError

    def _spread(self) -> float | None:
        """Width of the clusters, where the logits need it besides the centers; none by default."""
        return None

    def _label_scores(self) -> Logits:
        """Scores whose argmax is the label; may be cheaper than the logits."""
        return self._membership_logits()

    # The steps of fit.

    def _check_parameters(self) -> None:
        check_parameters(self)
        validation.hidden_sizes(self.hidden_dims)
        resolve_stopping(self.stopping)

    def _refuse_too_many_clusters(self, n_rows: int) -> None:
        if self.n_clusters != "auto" and self.n_clusters > n_rows:
            raise InvalidParameterError(f"n_clusters={self.n_clusters} is more than the {n_rows} rows of X.")

    def _checked_pairs(self, constraints: Any, n_rows: int, on_conflict: str) -> Constraints:
        """Pairs that fit the table, with contradictions settled as asked."""
        pairs = validation.check_constraints(constraints, n_rows, on_conflict=on_conflict)
        if on_conflict == "weigh" and not self._can_judge(pairs):
            return validation.take_back_contradictions(pairs)
        return pairs

    def _settle(self, table: Any, columns: ColumnStatistics | None = None) -> None:
        """Choose device, seed, scaling and the sizes of the network."""
        self._refuse_too_many_clusters(table.shape[0])
        self._hardware = choose_hardware(self.device, self.precision)
        self._table, self._seed = table, resolve_seed(self.random_state)
        self._hidden_dims = list(choose_effort(table.shape[0], self._hardware).hidden_dims)
        is_weighed = takes_raw_rows(self) and self.scaling == "auto"  # its columns are in one unit already
        self._scaling = learn_scaling(table, "common" if is_weighed else self.scaling, columns)
        self._embedding_dim = self._choose_embedding_dim(table.shape[1])
        sizes = validation.hidden_sizes(self.hidden_dims, auto=self._hidden_dims)
        if sizes and not isinstance(getattr(self, "encoder", None), nn.Module):
            refuse_without_memory(self._n_wide_layers * table.shape[1] * sizes[0], self._hardware)

    def _start(self, table: Any, pairs: Constraints, folder: str | Path | None, columns: Any) -> Job:
        """Build the network and open rows and checkpoint."""
        checkpoint = None if folder is None else Checkpoint.of(self, folder, table, pairs, columns)
        if checkpoint is not None:
            self._seed = checkpoint.seed(self._seed)
        device = self._hardware.device
        network = self._build_network(table.shape[1], self._embedding_dim, self._seed).to(device)
        session = Session(
            network, self._hardware, self._seed, checkpoint=checkpoint, monitors=self._monitors()
        )
        return Job(open_rows(table, self._scaling, device), pairs, network, session)

    def _learn(self, job: Job) -> None:
        """Train a pretrained network on the pairs, and cluster."""
        self._train(job, FIT)
        self._finish(job)

    def _train(self, job: Job, stage: Stage) -> None:
        if len(job.pairs) == 0 and self._needs_pairs:
            return
        job.session.run_stage(
            self._plan(job, stage),
            stage=stage.name,
            max_epochs=self._max_epochs(job, stage),
            stopping=self._stopping_rule(stage),
            initialize=partial(self._initialize, job) if stage == FIT else None,
        )

    def _finish(self, job: Job, *, before: NDArray[np.int64] | None = None) -> None:
        """Embed all rows, find the number of clusters where it is unknown, and assign."""
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

    def _fitted_network(self) -> Any:
        check_is_fitted(self)
        return self.network_

    def _map(self, X: Any, function: Callable[[Tensor], Tensor], *, dtype: Any = np.float32) -> NDArray[Any]:
        """Apply a function to rows a block at a time."""
        return map_checked_rows(self, X, function, dtype=dtype)

    def _monitors(self) -> list[Monitor]:
        return [monitor for monitor in [resolve_progress(self.progress)] if monitor is not None]

"""The two families of methods: those that embed and then cluster, and those whose network assigns clusters.

``EmbeddingClusterer`` learns an embedding first and cuts it into clusters afterwards (SpherePair,
AutoEmbedder). ``AssigningClusterer`` gives every row a probability for each cluster; ``CenterClusterer`` is
the base of those with learned centers in an embedding (CIDEC, SDEC, DCGMM), ``SelfTrainingClusterer`` of
CIDEC and SDEC:

    pretrain the autoencoder -> centers from k-means -> before every epoch, sharpen the memberships of
    all rows into a target -> train memberships towards it, together with the pairs
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from spherepair.clustering import ClusterNumber, infer_n_clusters
from spherepair.clustering.assigners import Assignment, keep_numbers, kmeans, mean_centers, resolve_assigner
from spherepair.constraints import Constraints
from spherepair.constraints.graph import ProvedGroups
from spherepair.errors import InvalidParameterError, SpherePairWarning, quoted
from spherepair.estimators.base import Logits
from spherepair.estimators.job import Job, Stage
from spherepair.estimators.judging import JudgingClusterer
from spherepair.losses.soft_assignments import target_distribution, target_divergence
from spherepair.metrics import match_labels
from spherepair.networks import build_autoencoder
from spherepair.networks.baseline_networks import ClusteredAutoencoder
from spherepair.training import Objective, TrainingState
from spherepair.training.batches import Batch
from spherepair.training.hardware import Hardware, derive_seed, torch_generator
from spherepair.training.optimization import LABELS, StableLabels, StoppingRule, resolve_stopping
from spherepair.training.pretraining import pretrain
from spherepair.training.rows import RowSource, map_rows_on_device
from spherepair.validation import (
    CLUSTERING_PARAMETERS,
    EMBEDDING_PARAMETERS,
    POSITIVE,
    PRETRAINING_PARAMETERS,
    TRAINING_PARAMETERS,
    check_constraints,
    embedding_size,
    hidden_sizes,
)

#: Share of the rows in pairs that groups must hold for k-means to start from their means.
LEAST_GROUPED = 0.5
#: Most rows whose distances to their centers measure how wide clusters are.
VARIANCE_ROWS = 2**16


class EmbeddingClusterer(JudgingClusterer):
    """An embedding that an assigner (k-means, Ward, any scikit-learn clusterer) cuts into clusters."""

    #: Whether embeddings are unit vectors; if so, ``_embed`` has to normalize them.
    _is_spherical: ClassVar[bool] = False
    #: Share of the smallest angles that is averaged to infer the number of clusters.
    tail_ratio: float = 0.05
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EMBEDDING_PARAMETERS,
        **TRAINING_PARAMETERS,
        **CLUSTERING_PARAMETERS,
    }

    def count_clusters(
        self,
        constraints: Constraints | None = None,
        *,
        method: str = "consensus",
        random_state: int | None = None,
    ) -> ClusterNumber:
        """Estimate the number of clusters in the embedding of the training rows, whatever number was used.

        Parameters
        ----------
        constraints : Constraints, optional
            Pairs of training rows; by default those of the fit.
        method : {"consensus", "tail-angle", "silhouette", "lifetime"}, default="consensus"
        random_state : int, optional
            Random seed of the resamples; by default fixed by that of the fit.
        """
        check_is_fitted(self)
        pairs = self._trusted_pairs() if constraints is None else constraints
        pairs = check_constraints(pairs, len(self.labels_), on_conflict="keep")
        may_be_wrong = constraints is None and self._is_weighed()
        return self._infer_n_clusters(
            self.embedding_, pairs, method=method, random_state=random_state, may_be_wrong=may_be_wrong
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.clustering, type):
            raise InvalidParameterError(
                f"clustering must be an instance, got the class {self.clustering.__name__} instead; "
                f"write {self.clustering.__name__}()."
            )
        resolve_assigner(self.clustering)
        if resolve_stopping(self.stopping).watches == LABELS:
            raise InvalidParameterError(
                f"stopping={quoted(self.stopping)} watches rows change their cluster, but "
                f"{type(self).__name__} cuts its embedding into clusters only after training; use 'settled', "
                "'paper', 'released-code', 'fixed' or a StoppingRule that watches the loss."
            )

    def _choose_embedding_dim(self, n_features: int) -> int:
        return embedding_size(self.embedding_dim, self.n_clusters)

    def _cluster(self, job: Job, embedding: NDArray[np.float32]) -> tuple[Assignment, ClusterNumber | None]:
        pairs, doubt = job.trusted, {"may_be_wrong": job.worth is not None}
        number = self._infer_n_clusters(embedding, pairs, **doubt) if self.n_clusters == "auto" else None
        n_clusters = self.n_clusters if number is None else number.value
        assigner = resolve_assigner(
            self.clustering, device=self._hardware.device, spherical=self._is_spherical
        )
        seed = derive_seed(self._seed, "clustering") % 2**32  # the range of scikit-learn's clusterers
        start = self._proved_centers(embedding, pairs.proved_groups(**doubt), n_clusters)
        found = assigner.assign(embedding, n_clusters, seed=seed, start=start)
        if isinstance(self.clustering, str):  # a clusterer of the user's own may find fewer
            _warn_about_empty_clusters(found.labels, n_clusters)
        return found, number

    def _proved_centers(
        self, embedding: NDArray[np.float32], proved: ProvedGroups, n_clusters: int
    ) -> NDArray[np.float32] | None:
        """Means of the groups that the pairs prove to differ, where these are all clusters.

        Only where most rows in pairs are in these groups: the two rows of one cannot-link are a poor start.
        """
        if proved.n_groups != n_clusters or proved.share_grouped < LEAST_GROUPED:
            return None
        return mean_centers(embedding[proved.rows], proved.labels, spherical=self._is_spherical)

    def _infer_n_clusters(
        self, embedding: NDArray[np.float32], pairs: Constraints, **settings: Any
    ) -> ClusterNumber:
        if settings.get("random_state") is None:
            settings["random_state"] = derive_seed(self._seed, "number of clusters") % 2**32
        return infer_n_clusters(embedding, pairs, tail_ratio=self.tail_ratio, **settings)

    def _keep_numbers(self, found: Assignment, before: NDArray[np.int64]) -> Assignment:
        return keep_numbers(found, before)

    def _membership_logits(self) -> Logits:
        """Clusters as round clouds of one common width about their centers.

        log p(k | z) = -|z - c_k|² / 2σ² + const, with σ² the mean squared distance per dimension of the
        training rows (of a sample if they are many) to their own centers. On the sphere that is a mixture of
        von Mises-Fisher distributions of one concentration. The most probable cluster is the nearest.
        """
        scores = self._label_scores()
        precision = 1.0 / max(self._spread(), torch.finfo(torch.float32).tiny)
        return lambda z: precision * scores(z)

    def _label_scores(self) -> Logits:
        """Minus half the squared distance to each center, without |z|², which is the same for all."""
        check_is_fitted(self)
        # A copy: torch warns about arrays that it may not write to, as they come out of a shared store.
        centers = torch.tensor(self.cluster_centers_, device=self._hardware.device)
        half_square = centers.square().sum(dim=1) / 2
        exact = replace(self._hardware, precision="float32")  # as in the labels of the fit

        def scores(z: Tensor) -> Tensor:
            with exact.autocast(), exact.matrix_products():
                return torch.addmm(-half_square, z, centers.T)

        return scores

    def _spread(self) -> float:
        """Mean squared distance per dimension of the training rows to their own centers."""
        if not hasattr(self, "labels_"):
            return float(self._saved_spread)
        step = -(-len(self.labels_) // VARIANCE_ROWS)
        labels = self.labels_[::step]
        assigned = labels >= 0
        offsets = self.embedding_[::step][assigned] - self.cluster_centers_[labels[assigned]]
        return float(np.square(offsets).mean(dtype=np.float64)) if offsets.size else 0.0


def _warn_about_empty_clusters(labels: Any, n_clusters: int) -> None:
    """Warn where some of the clusters that were asked for have no rows."""
    n_filled = len(np.unique(labels[labels >= 0]))
    if n_filled < n_clusters:
        warnings.warn(
            f"{n_clusters - n_filled} of {n_clusters} clusters are empty: the rows do not differ in so many "
            "ways; lower n_clusters, or check the rows.",
            SpherePairWarning,
            stacklevel=5,
        )


class AssigningObjective(Objective):
    """An objective over a network with ``encode(x)`` and ``logits(z)``.

    Parameters
    ----------
    network : nn.Module
        ``encode`` maps rows (n, n_features) to embeddings (n, D), ``logits`` maps these to unnormalized
        log-probabilities of the clusters (n, K).
    rows : RowSource
        All training rows.
    hardware : Hardware
    matched : bool, default=False
        Whether clusters may swap their numbers between epochs without that counting as changed labels.
    """

    labels: Tensor

    def __init__(self, network: Any, rows: RowSource, hardware: Hardware, *, matched: bool = False) -> None:
        super().__init__()
        self.network = network
        self._rows, self._hardware, self._matched = rows, hardware, matched
        # A buffer, so that a resumed fit has it from its checkpoint and stops at the same epoch.
        self.register_buffer("labels", torch.full((rows.n_rows,), -1, device=rows.device))

    @torch.no_grad()
    def memberships(self) -> Tensor:
        """Probabilities of the clusters for all training rows by the present network, (n_rows, K)."""
        was_training = self.network.training
        self.network.eval()
        found = map_rows_on_device(self._soft_labels, self._rows, self._hardware)
        self.network.train(was_training)
        return found

    def changed_labels(self) -> float:
        """Share of the rows that changed their cluster since the last call."""
        found = self.memberships().argmax(dim=1)
        before = self.labels.clone()
        self.labels.copy_(found)
        if bool((before < 0).any()):
            return 1.0
        if self._matched:
            found = torch.from_numpy(match_labels(before.cpu().numpy(), found.cpu().numpy())).to(found)
        return float((found != before).float().mean())

    def _soft_labels(self, x: Tensor) -> Tensor:
        q: Tensor = self.network.logits(self.network.encode(x).float()).softmax(dim=1)
        return q


class AssigningClusterer(JudgingClusterer):
    """A method whose network has ``logits``; the number of clusters has to be known."""

    @classmethod
    def paper(cls, n_clusters: int = 8, **overrides: Any) -> Self:
        """The protocol of the paper's experiments: rows as ``load_dataset`` gives them, else the defaults.

        Examples
        --------
        >>> from spherepair.baselines import DCGMM, VanillaDCC
        >>> VanillaDCC.paper(10).scaling, DCGMM.paper(10).max_epochs
        ('none', 500)
        """
        return cls(n_clusters, **({"scaling": "none"} | overrides))

    def _choose_embedding_dim(self, n_features: int) -> int:
        return int(self.n_clusters)

    def _cluster(self, job: Job, embedding: NDArray[np.float32]) -> tuple[Assignment, ClusterNumber | None]:
        logits = self._logits_of(job.network)
        z = torch.from_numpy(embedding)
        parts = [
            logits(part.to(self._hardware.device)).argmax(dim=1).cpu() for part in torch.split(z, 65_536)
        ]
        labels = torch.cat(parts).numpy()
        return Assignment(labels, self._centers(job.network, embedding, labels)), None

    def _centers(
        self, network: Any, embedding: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Mean embedding of each cluster; zero for a cluster without rows."""
        centers = np.zeros((int(self.n_clusters), embedding.shape[1]), dtype=np.float32)
        means = mean_centers(embedding, labels, spherical=False)
        centers[: len(means)] = means
        return centers

    def _membership_logits(self) -> Logits:
        return self._logits_of(self._fitted_network())

    def _logits_of(self, network: Any) -> Logits:
        @torch.no_grad()
        def logits(z: Tensor) -> Tensor:
            with torch.autocast(z.device.type, enabled=False):
                found: Tensor = network.logits(z.float())
            return found

        return logits


class CenterClusterer(AssigningClusterer):
    """A method whose network has ``centers`` in its embedding; it can train without pairs."""

    _needs_pairs: bool = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**EMBEDDING_PARAMETERS, **TRAINING_PARAMETERS}

    def _choose_embedding_dim(self, n_features: int) -> int:
        return embedding_size(self.embedding_dim, self.n_clusters)

    def _centers(
        self, network: Any, embedding: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        centers: NDArray[np.float32] = network.centers.detach().cpu().numpy().copy()
        return centers


class SelfTrainingObjective(AssigningObjective):
    """Holds the target distribution of all rows and updates it before every epoch.

    Parameters
    ----------
    network : ClusteredAutoencoder
    rows : RowSource
    hardware : Hardware
    """

    target: Tensor

    def __init__(self, network: ClusteredAutoencoder, rows: RowSource, hardware: Hardware) -> None:
        super().__init__(network, rows, hardware)
        # It keeps its address: captured steps read it. A resumed fit computes it again, so no file holds it.
        target = torch.zeros(rows.n_rows, len(network.centers), device=rows.device)
        self.register_buffer("target", target, persistent=False)
        self._memberships: Tensor | None = None

    def memberships(self) -> Tensor:
        """Probabilities of the clusters for all training rows by the present network, (n_rows, K)."""
        self._memberships = super().memberships()
        return self._memberships

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Sharpen the present memberships into the target of this epoch."""
        # A rule that watches labels has just asked for the same memberships.
        found = self.memberships() if self._memberships is None else self._memberships
        self.target.copy_(target_distribution(found))
        self._memberships = None

    def divergence(self, batch: Batch, z: Tensor) -> Tensor:
        """Divergence of the target from the memberships of the batch's rows, whose embeddings are ``z``."""
        wanted = self.target.index_select(0, batch.row_index)
        return target_divergence(self.network.logits(z), wanted, weight=batch.row_weight)


class SelfTrainingClusterer(CenterClusterer):
    """A method that follows its own target distribution: CIDEC, SDEC."""

    #: Epochs before the method's own rule may stop training.
    _min_epochs: ClassVar[int] = 0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CenterClusterer._parameter_constraints,
        **PRETRAINING_PARAMETERS,
        "exponent": [POSITIVE],
    }

    @classmethod
    def paper(cls, n_clusters: int = 8, **overrides: Any) -> Self:
        """The protocol of the paper's experiments: stacked pretraining, rows as ``load_dataset`` gives them.

        Examples
        --------
        >>> from spherepair.baselines import CIDEC
        >>> CIDEC.paper(10).pretraining
        'stacked'
        """
        return super().paper(n_clusters, **({"pretraining": "stacked"} | overrides))

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> ClusteredAutoencoder:
        autoencoder = build_autoencoder(
            n_features,
            embedding_dim,
            hidden_dims=hidden_sizes(self.hidden_dims),
            spherical=False,
            generator=torch_generator(seed, "network"),
        )
        return ClusteredAutoencoder(
            autoencoder, int(self.n_clusters), embedding_dim, exponent=float(self.exponent)
        )

    def _pretrain(self, job: Job) -> None:
        pretrain(job.network.autoencoder, job.rows, job.session, method=self.pretraining)

    @torch.no_grad()
    def _initialize(self, job: Job) -> None:
        """Centers from k-means on the embedding of all rows."""
        network = job.network.eval()
        z = map_rows_on_device(lambda x: self._embed(network, x), job.rows, self._hardware)
        generator = torch_generator(self._seed, "centres", device=z.device)  # spelling fixes the draws
        network.centers.copy_(kmeans(z, int(self.n_clusters), generator=generator))

    def _stopping_rule(self, stage: Stage) -> StoppingRule:
        if stage.refinement is None and self.stopping == "stable-labels":
            return StableLabels(min_epochs=self._min_epochs)
        return super()._stopping_rule(stage)

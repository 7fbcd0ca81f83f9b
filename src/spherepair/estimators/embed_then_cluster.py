"""Methods that learn an embedding first and cut it into clusters afterwards: SpherePair, AutoEmbedder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from spherepair.clustering.assigners import Assignment, keep_numbers, mean_centers, resolve_assigner
from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError
from spherepair.estimators.base import DeepConstrainedClusterer, Logits
from spherepair.estimators.job import Job
from spherepair.training.hardware import derive_seed
from spherepair.training.optimization import LABELS, resolve_stopping
from spherepair.validation import (
    CLUSTERING_PARAMETERS,
    EMBEDDING_PARAMETERS,
    TRAINING_PARAMETERS,
    check_constraints,
    embedding_size,
)

#: Share of the rows in pairs that groups must hold for k-means to start from their means.
LEAST_GROUPED = 0.5
#: Most rows whose distances to their centers measure how wide clusters are.
VARIANCE_ROWS = 2**16


class EmbeddingClusterer(DeepConstrainedClusterer):
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
        pairs = self.constraints_ if constraints is None else constraints
        pairs = check_constraints(pairs, len(self.labels_), on_conflict="keep")
        return self._infer_n_clusters(self.embedding_, pairs, method=method, random_state=random_state)

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
                f"stopping={self.stopping!r} watches rows change their cluster, but {type(self).__name__} "
                "cuts its embedding into clusters only after training; use 'settled', 'paper', "
                "'released-code', 'fixed' or a StoppingRule that watches the loss."
            )

    def _choose_embedding_dim(self, n_features: int) -> int:
        return embedding_size(self.embedding_dim, self.n_clusters)

    def _cluster(self, job: Job, embedding: NDArray[np.float32]) -> tuple[Assignment, ClusterNumber | None]:
        number = self._infer_n_clusters(embedding, job.pairs) if self.n_clusters == "auto" else None
        n_clusters = self.n_clusters if number is None else number.value
        assigner = resolve_assigner(
            self.clustering, device=self._hardware.device, spherical=self._is_spherical
        )
        seed = derive_seed(self._seed, "clustering") % 2**32  # the range of scikit-learn's clusterers
        start = self._proved_centers(embedding, job.pairs, n_clusters)
        return assigner.assign(embedding, n_clusters, seed=seed, start=start), number

    def _proved_centers(
        self, embedding: NDArray[np.float32], pairs: Constraints, n_clusters: int
    ) -> NDArray[np.float32] | None:
        """Means of the groups that the pairs prove to differ, where these are all clusters.

        Only where most rows in pairs are in these groups: the two rows of one cannot-link are a poor start.
        """
        proved = pairs.proved_groups()
        if proved.n_groups != n_clusters or proved.share_grouped < LEAST_GROUPED:
            return None
        return mean_centers(embedding[proved.rows], proved.labels, spherical=self._is_spherical)

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

    def _keep_numbers(self, found: Assignment, before: NDArray[np.int64]) -> Assignment:
        return keep_numbers(found, before)

    def _membership_logits(self) -> Logits:
        """Clusters as round clouds of one common width about their centers.

        log p(k | z) = -|z - c_k|² / 2σ² + const, with σ² the mean squared distance per dimension of the
        training rows (of a sample if they are many) to their own centers. On the sphere that is a mixture of
        von Mises-Fisher distributions of one concentration. The most probable cluster is the nearest.
        """
        scores = self._label_scores()
        precision = 1.0 / max(self._cloud_variance(), torch.finfo(torch.float32).tiny)
        return lambda z: precision * scores(z)

    def _label_scores(self) -> Logits:
        """Minus half the squared distance to each center, without |z|², which is the same for all."""
        check_is_fitted(self)
        centers = torch.from_numpy(self.cluster_centers_).to(self._hardware.device)
        half_square = centers.square().sum(dim=1) / 2
        exact = replace(self._hardware, precision="float32")  # as in the labels of the fit

        def scores(z: Tensor) -> Tensor:
            with exact.autocast(), exact.matrix_products():
                return torch.addmm(-half_square, z, centers.T)

        return scores

    def _cloud_variance(self) -> float:
        step = -(-len(self.labels_) // VARIANCE_ROWS)
        labels = self.labels_[::step]
        assigned = labels >= 0
        offsets = self.embedding_[::step][assigned] - self.cluster_centers_[labels[assigned]]
        return float(np.square(offsets).mean(dtype=np.float64)) if offsets.size else 0.0

"""Methods whose network assigns rows to clusters: it gives every row a probability for each of them.

``AssigningClusterer`` is the base of all of them, ``CenterClusterer`` of those with learned centers in an
embedding (CIDEC, SDEC, DCGMM), ``SelfTrainingClusterer`` of CIDEC and SDEC:

    pretrain the autoencoder -> centers from k-means -> before every epoch, sharpen the memberships of
    all rows into a target -> train memberships towards it, together with the pairs
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherepair.clustering.assigners import Assignment, kmeans, mean_centers
from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.estimators.base import DeepConstrainedClusterer, Logits
from spherepair.estimators.job import Job, Stage
from spherepair.losses.soft_assignments import target_distribution, target_divergence
from spherepair.metrics import match_labels
from spherepair.networks import build_autoencoder
from spherepair.networks.baseline_networks import ClusteredAutoencoder
from spherepair.training.batches import Batch
from spherepair.training.engine import Objective, TrainingState
from spherepair.training.hardware import Hardware, torch_generator
from spherepair.training.optimization import StableLabels, StoppingRule
from spherepair.training.pretraining import pretrain
from spherepair.training.rows import RowSource, map_rows_on_device
from spherepair.validation import (
    EMBEDDING_PARAMETERS,
    POSITIVE,
    PRETRAINING_PARAMETERS,
    TRAINING_PARAMETERS,
    embedding_size,
    hidden_sizes,
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


class AssigningClusterer(DeepConstrainedClusterer):
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

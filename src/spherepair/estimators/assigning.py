"""Methods whose network itself knows the clusters: it gives every row a probability for each of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherepair.clustering.assigners import Assignment, mean_centers
from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.estimators.base import DeepConstrainedClusterer, Job, Logits
from spherepair.metrics import match_labels
from spherepair.training.embedding import map_rows_on_device
from spherepair.training.engine import Objective
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource


class AssigningObjective(Objective):
    """An objective over a network with ``encode(x)`` and ``logits(z)``.

    Parameters
    ----------
    network : nn.Module
        ``encode`` maps rows (n, n_features) to embeddings (n, D), ``logits`` maps these to unnormalised
        log-probabilities of the clusters (n, K).
    rows : RowSource
        All training rows, for what has to look at the whole table once per epoch.
    hardware : Hardware
    matched : bool, default=False
        Whether clusters may swap their numbers from one epoch to the next without that counting as a
        change of labels.
    """

    labels: Tensor

    def __init__(self, network: Any, rows: RowSource, hardware: Hardware, *, matched: bool = False) -> None:
        super().__init__()
        self.network = network
        self._rows, self._hardware, self._matched = rows, hardware, matched
        # A buffer, so that a checkpoint holds it and a resumed fit stops at the same epoch.
        self.register_buffer("labels", torch.full((rows.n_rows,), -1, device=rows.device))

    @torch.no_grad()
    def memberships(self) -> Tensor:
        """Probabilities of the clusters for all training rows as the network stands, (n_rows, K)."""
        was_training = self.network.training
        self.network.eval()
        found = map_rows_on_device(self._soft_labels, self._rows, self._hardware)
        self.network.train(was_training)
        return found

    def changed_labels(self) -> float:
        """Share of the rows that are in another cluster than when this was asked last."""
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
        """The protocol of the paper's experiments: rows as ``load_dataset`` gives them, the rest by default.

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

"""What CIDEC, SDEC and DCGMM share: learnable centres (anchors) in the embedding of an autoencoder.

CIDEC and SDEC also share how they train themselves:

pretrain the autoencoder -> centres from k-means -> before every epoch, sharpen the memberships of
all rows into a target -> train memberships towards it, together with the pairs
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spherepair.clustering.kmeans import kmeans
from spherepair.estimators.assigning import AssigningClusterer, AssigningObjective
from spherepair.estimators.base import Job
from spherepair.estimators.parameters import (
    EMBEDDING_PARAMETERS,
    POSITIVE,
    PRETRAINING_PARAMETERS,
    TRAINING_PARAMETERS,
    embedding_size,
    hidden_sizes,
)
from spherepair.losses.target_distribution import target_distribution, target_divergence
from spherepair.networks import build_autoencoder
from spherepair.networks.clustered import ClusteredAutoencoder
from spherepair.training.batches import Batch
from spherepair.training.embedding import map_rows_on_device
from spherepair.training.engine import Recipe, TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.pretraining import pretrain
from spherepair.training.randomness import torch_generator
from spherepair.training.rows import RowSource
from spherepair.training.stopping import StableLabels, StoppingRule


class AnchoredClusterer(AssigningClusterer):
    """A method whose network has ``centers`` in its embedding; pairs are welcome but not needed."""

    _needs_pairs: bool = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EMBEDDING_PARAMETERS,
        **TRAINING_PARAMETERS,
    }

    def _choose_embedding_dim(self, n_features: int) -> int:
        return embedding_size(self.embedding_dim, self.n_clusters)

    def _centers(
        self, network: Any, embedding: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        centers: NDArray[np.float32] = network.centers.detach().cpu().numpy().copy()
        return centers


class SelfTrainingObjective(AssigningObjective):
    """Holds the target distribution of all rows and refreshes it before every epoch.

    Parameters
    ----------
    network : ClusteredAutoencoder
    rows : RowSource
    hardware : Hardware
    """

    target: Tensor

    def __init__(self, network: ClusteredAutoencoder, rows: RowSource, hardware: Hardware) -> None:
        super().__init__(network, rows, hardware)
        # Its address stays: captured steps read it. A resumed fit makes it anew, so no file holds it.
        target = torch.zeros(rows.n_rows, len(network.centers), device=rows.device)
        self.register_buffer("target", target, persistent=False)
        self._seen: Tensor | None = None

    def memberships(self) -> Tensor:
        """Probabilities of the clusters for all training rows as the network stands, (n_rows, K)."""
        self._seen = super().memberships()
        return self._seen

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Sharpen the present memberships into the target of this epoch."""
        # A rule that watches labels has asked for the same memberships a moment ago.
        found = self.memberships() if self._seen is None else self._seen
        self.target.copy_(target_distribution(found))
        self._seen = None

    def divergence(self, batch: Batch, z: Tensor) -> Tensor:
        """Of the target from the memberships of the batch's rows, whose embeddings are ``z``."""
        wanted = self.target.index_select(0, batch.row_index)
        return target_divergence(self.network.logits(z), wanted, weight=batch.row_weight)


class SelfTrainingClusterer(AnchoredClusterer):
    """A method that follows its own target distribution: CIDEC, SDEC."""

    #: Epochs before the method's own rule may stop training.
    _least_epochs: ClassVar[int] = 0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AnchoredClusterer._parameter_constraints,
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
    def _initialise(self, job: Job) -> None:
        """Centres from k-means on the embedding of all rows."""
        network = job.network.eval()
        z = map_rows_on_device(lambda x: self._embed(network, x), job.rows, self._hardware)
        generator = torch_generator(self._seed, "centres", device=z.device)
        network.centers.copy_(kmeans(z, int(self.n_clusters), generator=generator))

    def _train(self, job: Job, stage: str, recipe: Recipe, max_epochs: int, stopping: StoppingRule) -> None:
        if self.stopping == "stable-labels" and isinstance(stopping, StableLabels):
            stopping = StableLabels(min_epochs=self._least_epochs)
        super()._train(job, stage, recipe, max_epochs, stopping)

"""VanillaDCC: a plain classifier trained on nothing but the likelihood of pairs.

    minimize  mean of -log s over must-links and -log(1 - s) over cannot-links,   s = Σ_k q_ak q_bk

Reference: Hsu et al., "Multi-class classification without multi-class labels", ICLR 2019; in the
SpherePair paper's appendix "Baselines".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from spherepair.estimators.base import CLIP_NORM
from spherepair.estimators.end_to_end import AssigningClusterer, AssigningObjective
from spherepair.estimators.job import Job, Stage
from spherepair.losses.pair_losses import pair_likelihood_loss
from spherepair.networks.baseline_networks import Classifier, classifier_body
from spherepair.training.batches import Batch, PairTensors, pair_batches
from spherepair.training.engine import Plan, Recipe
from spherepair.training.hardware import Hardware, torch_generator
from spherepair.training.optimization import StoppingRule
from spherepair.training.rows import RowSource
from spherepair.validation import TRAINING_PARAMETERS, hidden_sizes, store_parameters


class VanillaDCCObjective(AssigningObjective):
    """One named term: ``pairs``, the pair likelihood loss.

    Parameters
    ----------
    network : Classifier
    rows : RowSource
    hardware : Hardware
    batch_norm : bool
        Whether the network has batch normalization; the left and the right ends of the pairs then have
        statistics of their own.
    """

    def __init__(self, network: Classifier, rows: RowSource, hardware: Hardware, *, batch_norm: bool) -> None:
        # Differs from the paper: as in the authors' code, labels are watched after matching, not memberships.
        super().__init__(network, rows, hardware, matched=True)
        self._batch_norm = batch_norm

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Likelihood of the links, given the cluster probabilities of their ends."""
        left, right, _ = batch.split(self.encode(batch))
        return {
            "pairs": pair_likelihood_loss(left, right, batch.is_must_link, weight=batch.pair_weight),
        }

    def encode(self, batch: Batch) -> Tensor:
        """Logits of all rows of a batch, in one pass unless batch normalization forbids it."""
        # A single pair leaves one row on either side, and one row has no variance.
        if not self._batch_norm or len(batch.is_must_link) < 2:
            logits: Tensor = self.network.encode(batch.x)
            return logits
        return torch.cat([self.network.encode(part) for part in batch.split(batch.x) if len(part)])


class VanillaDCC(AssigningClusterer):
    """Deep constrained clustering by the likelihood of pairs alone.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters (K).
    hidden_dims : sequence of int, default=(512, 512)
        Sizes of the hidden layers.
    batch_norm : bool, default=False
        Normalize hidden layers by the statistics of the batch.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are scaled; learned on fit and saved with the model.
    batch_size : int, default=256
        Pairs per step.
    max_epochs : int, default=300
        Upper limit of epochs.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    stopping : {"stable-labels", "fixed", …} or StoppingRule, default="stable-labels"
        When to stop before ``max_epochs``: once less than 0.1 % of the rows change their cluster.
    device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    labels_, n_clusters_, history_, constraints_, network_
        As in :class:`spherepair.SpherePair`.
    embedding_ : ndarray of shape (n_rows, n_clusters)
        Unnormalized log-probabilities of the clusters.
    cluster_centers_ : ndarray of shape (n_clusters, n_clusters)
        Mean embedding of each cluster.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = VanillaDCC(3, hidden_dims=(32,), random_state=0).fit(X, constraints=pairs)
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TRAINING_PARAMETERS,
        "batch_norm": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        hidden_dims: Sequence[int] | str = (512, 512),
        batch_norm: bool = False,
        scaling: str = "auto",
        batch_size: int = 256,
        max_epochs: int = 300,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "stable-labels",
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> Classifier:
        return Classifier(
            classifier_body(
                n_features,
                embedding_dim,
                hidden_dims=hidden_sizes(self.hidden_dims),
                batch_norm=self.batch_norm,
                generator=torch_generator(seed, "network"),
            )
        )

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = VanillaDCCObjective(job.network, job.rows, self._hardware, batch_norm=self.batch_norm)
        batches = pair_batches(
            job.rows,
            PairTensors.of(job.pairs),
            batch_size=self.batch_size,
            seed=job.session.seed,
            stream=stage.name,
        )
        return Plan(objective, (batches,), Recipe(learning_rate=self.learning_rate, clip_norm=CLIP_NORM))

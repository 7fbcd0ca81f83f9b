"""SDEC: deep embedded clustering (DEC) with a pull on must-links and a push on cannot-links.

    minimise  KL(p || q) + λ / |C| [Σ_must |z_a - z_b|² - Σ_cannot |z_a - z_b|²]

Without constraints it is DEC. The decoder serves pretraining only.

Reference: Ren et al., "Semi-supervised deep embedded clustering", Neurocomputing 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from spherepair.estimators.anchored import SelfTrainingClusterer, SelfTrainingObjective
from spherepair.estimators.base import CLIP_NORM, Job
from spherepair.estimators.parameters import NOT_NEGATIVE, store_parameters
from spherepair.estimators.sweeps import sweep
from spherepair.losses.pair_likelihood import weighted_mean
from spherepair.networks.clustered import ClusteredAutoencoder
from spherepair.training.batches import Batch, Batches
from spherepair.training.engine import Objective, Recipe
from spherepair.training.hardware import Hardware
from spherepair.training.rows import RowSource
from spherepair.training.stopping import StoppingRule

MOMENTUM = 0.9
#: With few pairs the rows of an epoch would all fall into one step; more than this take several. Differs
#: from the paper: there steps are as many as batches of pairs, however many rows that puts into each.
LARGEST_STEP = 16_384


class SDECObjective(SelfTrainingObjective):
    """Named terms of the loss: ``clustering`` (the target distribution) and ``pairs`` (distances).

    Parameters
    ----------
    network : ClusteredAutoencoder
    rows : RowSource
    hardware : Hardware
    pair_weight : float
    """

    def __init__(
        self, network: ClusteredAutoencoder, rows: RowSource, hardware: Hardware, *, pair_weight: float
    ) -> None:
        super().__init__(network, rows, hardware)
        self._pair_weight = pair_weight

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Both ends of the pairs and the rows go through the encoder in one pass."""
        # In half precision the distance of two ends close to each other would be mostly rounding.
        left, right, rows = batch.split(self.network.encode(batch.x).to(self.network.centers.dtype))
        squares = (left - right).square().sum(dim=1)
        signed = torch.where(batch.is_must_link, squares, -squares.clamp(max=self._farthest()))
        return {
            "clustering": self.divergence(batch, rows),
            "pairs": self._pair_weight * weighted_mean(signed, batch.pair_weight),
        }

    @torch.no_grad()
    def _farthest(self) -> Tensor:
        """Squared distance of the two centres farthest apart: no cannot-link is pushed beyond it."""
        # Differs from the paper: there the push has no end. The pull of the centres does not grow with the
        # embedding but the push does, so that a wide embedding (FashionMNIST after stacked pretraining)
        # flies apart: `python bench/rival_variants.py SDEC --variants published`.
        centers: Tensor = self.network.centers
        return (centers[:, None] - centers).square().sum(dim=2).amax()

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Encoder and centres; there is no reconstruction, so the decoder stays as it is."""
        encoder = self.network.autoencoder.encoder
        return [([*encoder.parameters(), self.network.centers], 1.0)]


class SDEC(SelfTrainingClusterer):
    """Deep embedded clustering with squared distances of pairs.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters (K).
    embedding_dim : int or "auto", default="auto"
        Dimensions of the embedding (D); ``"auto"`` is K, at least 10.
    hidden_dims : sequence of int or {"compact", "standard", "deep"}, default=(500, 500, 2000)
        Sizes of the encoder's hidden layers.
    pair_weight : float, default=1e-5
        Weight of the pairs (λ). So small a value leaves them little to say. Cannot-links push until they
        are as far apart as the two farthest centres.
    exponent : float, default=2.0
        Memberships fall off as (1 + squared distance)^-exponent; 1 is DEC's Student's t-distribution, 2 is
        what the published results were made with.
    pretraining : {"joint", "stacked"} or None, default="joint"
        How the encoder is prepared.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are put on a common footing.
    batch_size : int, default=256
        Pairs per step; the rows are shared out over the steps of an epoch.
    max_epochs : int, default=300
        Upper limit of epochs after pretraining.
    learning_rate : float, default=0.01
        Of gradient descent with momentum 0.9.
    stopping : str or StoppingRule, default="stable-labels"
        ``"stable-labels"`` stops when less than 0.1 % of the rows change their cluster in an epoch, be it
        the first.
    on_conflict, checkpoint, device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_rows, embedding_dim)
    cluster_centers_ : ndarray of shape (n_clusters, embedding_dim)
        The learned centres.
    labels_, history_, constraints_, network_, n_clusters_, n_features_in_, feature_names_in_
        As in :class:`spherepair.SpherePair`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> from spherepair.estimators.sdec import SDEC
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SDEC(3, hidden_dims=(32,), max_epochs=5, random_state=0).fit(X, constraints=pairs)
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelfTrainingClusterer._parameter_constraints,
        "pair_weight": [NOT_NEGATIVE],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        embedding_dim: int | str = "auto",
        hidden_dims: Sequence[int] | str = (500, 500, 2000),
        pair_weight: float = 1e-5,
        # Differs from the paper: it cites DEC, whose exponent is 1; the authors' code squares it.
        exponent: float = 2.0,
        pretraining: Any = "joint",
        scaling: str = "auto",
        batch_size: int = 256,
        max_epochs: int = 300,
        learning_rate: float = 0.01,
        stopping: str | StoppingRule = "stable-labels",
        on_conflict: str = "raise",
        checkpoint: str | Path | None = None,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _build_objective(self, job: Job) -> Objective:
        return SDECObjective(job.network, job.rows, self._hardware, pair_weight=self.pair_weight)

    def _recipe(self) -> Recipe:
        # Differs from the paper: its text does not mention the momentum of the authors' code, neither
        # clips; clipping keeps the first steps of a wide embedding finite.
        return Recipe("sgd", learning_rate=self.learning_rate, momentum=MOMENTUM, clip_norm=CLIP_NORM)

    def _sweeps(self, job: Job, stage: str) -> list[Batches]:
        n_pairs, n_rows = len(job.pairs), job.rows.n_rows
        n_steps = self._steps_per_epoch(n_pairs, n_rows)
        pairs_per_step, rows_per_step = min(int(self.batch_size), n_pairs), max(1, n_rows // n_steps)
        return [
            sweep(job, stage, pairs_per_step=pairs_per_step, rows_per_step=rows_per_step, n_steps=n_steps)
        ]

    def _steps_per_epoch(self, n_pairs: int, n_rows: int) -> int:
        """One pass over the pairs; without pairs, one over the rows in steps of the same size."""
        if n_pairs == 0:
            return int(-(-n_rows // self.batch_size))
        return int(max(-(-n_pairs // self.batch_size), -(-n_rows // LARGEST_STEP)))

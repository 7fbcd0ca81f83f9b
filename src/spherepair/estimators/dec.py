"""Deep embedded clustering (DEC) with pairs: SDEC and CIDEC.

SDEC pulls must-links together and pushes cannot-links apart; only pretraining uses the decoder, and without
constraints it is DEC:

    minimize  KL(p || q) + λ / |C| [Σ_must |z_a - z_b|² - Σ_cannot |z_a - z_b|²]

CIDEC is improved DEC (IDEC) with pairs as likelihoods of shared clusters, in every epoch one after the other;
without constraints only the first is left, IDEC:

    rows          λ₁ γ KL(p || q) + reconstruction error,   γ = 0.1 as in IDEC
    must-links    -λ₂ log(q_a · q_b) + reconstruction error of both ends
    cannot-links  -log(1 - q_a · q_b)

References: Ren et al., "Semi-supervised deep embedded clustering", Neurocomputing 2019; Zhang et al., "A
framework for deep constrained clustering", Data Mining and Knowledge Discovery 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from spherepair.estimators.base import CLIP_NORM
from spherepair.estimators.job import Job, Stage
from spherepair.estimators.method_families import SelfTrainingClusterer, SelfTrainingObjective
from spherepair.losses import reconstruction_loss
from spherepair.losses.pair_losses import pair_likelihood_loss, weighted_mean
from spherepair.networks.baseline_networks import ClusteredAutoencoder
from spherepair.training import Plan, Recipe
from spherepair.training.batches import Batch, Batches, PairTensors, pair_batches, row_batches
from spherepair.training.hardware import Hardware
from spherepair.training.optimization import StoppingRule
from spherepair.training.rows import RowSource
from spherepair.validation import NOT_NEGATIVE, store_parameters

MOMENTUM = 0.9
#: Most rows in a step: with few pairs all rows of an epoch would fall into one. Differs from the paper:
#: there an epoch has as many steps as batches of pairs, however many rows that puts into each.
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
        """Pass both ends of the pairs and the rows through the encoder at once."""
        # In half precision the distance between two close rows would be mostly rounding.
        left, right, rows = batch.split(self.network.encode(batch.x).to(self.network.centers.dtype))
        squares = (left - right).square().sum(dim=1)
        signed = torch.where(batch.is_must_link, squares, -squares.clamp(max=self._farthest()))
        return {
            "clustering": self.divergence(batch, rows),
            "pairs": self._pair_weight * weighted_mean(signed, batch.pair_weight),
        }

    @torch.no_grad()
    def _farthest(self) -> Tensor:
        """Squared distance of the two centers farthest apart: no cannot-link is pushed beyond it."""
        # Differs from the paper: there the push has no limit. It grows with the embedding and the pull of the
        # centers does not, so that a wide embedding (FashionMNIST after stacked pretraining) flies apart.
        centers: Tensor = self.network.centers
        return (centers[:, None] - centers).square().sum(dim=2).amax()

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Encoder and centers; without reconstruction the decoder is not trained."""
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
        Weight of the pairs (λ); the default gives them little influence. Cannot-links push until they are as
        far apart as the two farthest centers.
    exponent : float, default=2.0
        Memberships fall off as (1 + squared distance)^-exponent; 1 is DEC's Student's t-distribution, 2 is
        what the published results used.
    pretraining : {"joint", "stacked"} or None, default="joint"
        How the encoder is prepared.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are scaled.
    batch_size : int, default=256
        Pairs per step; the rows are divided among the steps of an epoch.
    max_epochs : int, default=300
        Upper limit of epochs after pretraining.
    learning_rate : float, default=0.01
        Learning rate of gradient descent with momentum 0.9.
    stopping : str or StoppingRule, default="stable-labels"
        ``"stable-labels"`` stops when less than 0.1 % of the rows change their cluster in an epoch, even the
        first.
    robust : bool, default=False
        Whether to estimate which answers are wrong and to train once more on what each is worth, see
        ``wrong_answers`` of :class:`spherepair.SpherePair`.
    device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_rows, embedding_dim)
    cluster_centers_ : ndarray of shape (n_clusters, embedding_dim)
        The learned centers.
    labels_, history_, constraints_, network_, n_clusters_, n_features_in_, feature_names_in_
        As in :class:`spherepair.SpherePair`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> from spherepair.estimators.dec import SDEC
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SDEC(3, hidden_dims=(32,), max_epochs=5, random_state=0).fit(X, constraints=pairs)
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelfTrainingClusterer._parameter_constraints,
        "robust": ["boolean"],
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
        robust: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = SDECObjective(job.network, job.rows, self._hardware, pair_weight=self.pair_weight)
        # Differs from the paper: its text does not mention the momentum of the authors' code, and neither
        # clips; clipping keeps the first steps of a wide embedding finite.
        recipe = Recipe("sgd", learning_rate=self.learning_rate, momentum=MOMENTUM, clip_norm=CLIP_NORM)
        return Plan(objective, (self._batches(job, stage.name),), recipe)

    def _batches(self, job: Job, stage: str) -> Batches:
        n_pairs, n_rows = len(job.trusted), job.rows.n_rows
        n_steps = self._steps_per_epoch(n_pairs, n_rows)
        return Batches(
            job.rows,
            PairTensors.of(job.trusted),
            pairs_per_step=min(int(self.batch_size), n_pairs),
            rows_per_step=max(1, n_rows // n_steps),
            n_steps=n_steps,
            seed=job.session.seed,
            stream=stage,
        )

    def _steps_per_epoch(self, n_pairs: int, n_rows: int) -> int:
        """One pass over the pairs; without pairs, one over the rows in steps of the same size."""
        if n_pairs == 0:
            return int(-(-n_rows // self.batch_size))
        return int(max(-(-n_pairs // self.batch_size), -(-n_rows // LARGEST_STEP)))


#: Weight of clustering against reconstruction in IDEC (γ). Differs from the paper: it does not print
#: this factor, but the authors' published code has it.
IDEC_WEIGHT = 0.1
ROWS, MUST_LINKS, CANNOT_LINKS = "rows", "must-links", "cannot-links"


class CIDECObjective(SelfTrainingObjective):
    """Named terms of each part of an epoch: clustering and reconstruction, must-links, cannot-links.

    Parameters
    ----------
    network : ClusteredAutoencoder
    rows : RowSource
    hardware : Hardware
    clustering_weight, must_link_weight : float
    """

    def __init__(
        self,
        network: ClusteredAutoencoder,
        rows: RowSource,
        hardware: Hardware,
        *,
        clustering_weight: float,
        must_link_weight: float,
    ) -> None:
        super().__init__(network, rows, hardware)
        self._clustering_weight = clustering_weight * IDEC_WEIGHT
        self._must_link_weight = must_link_weight

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Terms of the part of the epoch that this batch belongs to."""
        z = self.network.encode(batch.x)
        if batch.part == ROWS:
            error = reconstruction_loss(self.network.decode(z), batch.x, weight=batch.row_weight)
            return {
                "clustering": self._clustering_weight * self.divergence(batch, z),
                "reconstruction": error,
            }
        left, right, _ = batch.split(self.network.logits(z))
        loss = pair_likelihood_loss(left, right, batch.is_must_link, weight=batch.pair_weight)
        if batch.part == CANNOT_LINKS:
            return {"cannot_links": loss}
        is_real = (batch.pair_weight > 0).float().repeat(2)
        ends = len(is_real)
        error = reconstruction_loss(self.network.decode(z[:ends]), batch.x[:ends], weight=is_real)
        return {"must_links": self._must_link_weight * loss, "pair_reconstruction": 2.0 * error}


class CIDEC(SelfTrainingClusterer):
    """Deep embedded clustering with an autoencoder, learnable centers and pair likelihoods.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters (K).
    embedding_dim : int or "auto", default="auto"
        Dimensions of the embedding (D); ``"auto"`` is K, at least 10.
    hidden_dims : sequence of int or {"compact", "standard", "deep"}, default=(500, 500, 2000)
        Sizes of the encoder's hidden layers; the decoder mirrors them.
    clustering_weight : float, default=1.0
        Weight of the target distribution (λ₁), on top of IDEC's own factor of 0.1.
    must_link_weight : float, default=0.1
        Weight of must-links (λ₂); that of cannot-links is one.
    exponent : float, default=2.0
        Memberships fall off as (1 + squared distance)^-exponent; 1 is DEC's Student's t-distribution, 2 is
        what the published results used.
    pretraining : {"joint", "stacked"} or None, default="joint"
        How the autoencoder is prepared.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are scaled.
    batch_size : int, default=256
        Rows, and pairs, per step.
    max_epochs : int, default=300
        Upper limit of epochs after pretraining.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    stopping : str or StoppingRule, default="stable-labels"
        ``"stable-labels"`` stops when less than 0.1 % of the rows change their cluster in an epoch, after
        30 epochs at the earliest.
    robust : bool, default=False
        Whether to estimate which answers are wrong and to train once more on what each is worth, see
        ``wrong_answers`` of :class:`spherepair.SpherePair`.
    device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_rows, embedding_dim)
    cluster_centers_ : ndarray of shape (n_clusters, embedding_dim)
        The learned centers.
    labels_, history_, constraints_, network_, n_clusters_, n_features_in_, feature_names_in_
        As in :class:`spherepair.SpherePair`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> from spherepair.estimators.dec import CIDEC
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = CIDEC(3, hidden_dims=(32,), max_epochs=5, random_state=0).fit(X, constraints=pairs)
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    # Differs from the paper: it has no minimum of epochs; the authors' code has this one.
    _min_epochs: ClassVar[int] = 30
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SelfTrainingClusterer._parameter_constraints,
        "robust": ["boolean"],
        "clustering_weight": [NOT_NEGATIVE],
        "must_link_weight": [NOT_NEGATIVE],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        embedding_dim: int | str = "auto",
        hidden_dims: Sequence[int] | str = (500, 500, 2000),
        clustering_weight: float = 1.0,
        must_link_weight: float = 0.1,
        # Differs from the paper: it cites DEC, whose exponent is 1; the authors' code squares it.
        exponent: float = 2.0,
        pretraining: Any = "joint",
        scaling: str = "auto",
        batch_size: int = 256,
        max_epochs: int = 300,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "stable-labels",
        robust: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = CIDECObjective(
            job.network,
            job.rows,
            self._hardware,
            clustering_weight=self.clustering_weight,
            must_link_weight=self.must_link_weight,
        )
        return Plan(objective, self._batches(job, stage.name), Recipe(learning_rate=self.learning_rate))

    def _batches(self, job: Job, stage: str) -> tuple[Batches, ...]:
        """Rows, must-links, cannot-links; a kind of pairs without any is left out."""
        size, seed, given = int(self.batch_size), job.session.seed, PairTensors.of(job.trusted)
        # As in the authors' code rows are never shuffled: an epoch that always ends on the same rows has the
        # same effect, so that labels settle and the rule that watches them can stop.
        stream = f"{stage} {ROWS}"
        rows = row_batches(job.rows, batch_size=size, seed=seed, stream=stream, shuffled=False, part=ROWS)
        kinds = {MUST_LINKS: given.of_kind(must=True), CANNOT_LINKS: given.of_kind(must=False)}
        pairs = [
            pair_batches(
                job.rows,
                links,
                batch_size=size,
                seed=seed,
                stream=f"{stage} {part}",
                part=part,
            )
            for part, links in kinds.items()
            if len(links)
        ]
        return (rows, *pairs)

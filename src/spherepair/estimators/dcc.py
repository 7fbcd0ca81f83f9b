"""Classifiers trained on the likelihood of pairs: VanillaDCC and VolMaxDCC.

VanillaDCC, with s = Σ_k q_ak q_bk:

    minimize  mean of -log s over must-links and -log(1 - s) over cannot-links

VolMaxDCC allows for wrong pairs; its volume keeps clusters from collapsing, with p = q_a' B q_b and B
learned as well:

    minimize  mean of -log p over must-links and -log(1 - p) over cannot-links - λ log det(Q'Q + 1e-6 I)

References: Hsu et al., "Multi-class classification without multi-class labels", ICLR 2019; Nguyen, Ibrahim
and Fu, "Deep clustering with incomplete noisy pairwise annotations: a geometric regularization approach",
ICML 2023; both in the SpherePair paper's appendix "Baselines".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from spherepair.estimators.base import CLIP_NORM
from spherepair.estimators.job import Job, Stage
from spherepair.estimators.method_families import AssigningClusterer, AssigningObjective
from spherepair.estimators.setting_search import search_settings
from spherepair.losses.pair_losses import noisy_pair_loss, pair_likelihood_loss
from spherepair.losses.soft_assignments import log_volume
from spherepair.networks.baseline_networks import Classifier, NoisyLinkClassifier, classifier_body
from spherepair.training import Plan, Recipe
from spherepair.training.batches import Batch, PairTensors, pair_batches
from spherepair.training.hardware import Hardware, torch_generator
from spherepair.training.optimization import StoppingRule
from spherepair.training.rows import RowSource
from spherepair.validation import NOT_NEGATIVE, POSITIVE, TRAINING_PARAMETERS, hidden_sizes, store_parameters

#: Dimensions of the view in which neighbors judge answers.
VIEW_DIM = 64


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
    robust : bool, default=False
        Whether to estimate which answers are wrong and to train once more on what each is worth, see
        ``wrong_answers`` of :class:`spherepair.SpherePair`.
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

    _n_wide_layers: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TRAINING_PARAMETERS,
        "robust": ["boolean"],
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
        robust: bool = False,
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

    def _view_before_pairs(self, pretrained: Any) -> Callable[[Tensor], Tensor]:
        """A random projection of the rows: there is no pretraining from which they could be told."""
        generator = torch_generator(self._seed, "view")
        projection = torch.randn(self.n_features_in_, VIEW_DIM, generator=generator)
        projection = projection.to(self._hardware.device)
        return lambda x: x @ projection

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = VanillaDCCObjective(job.network, job.rows, self._hardware, batch_norm=self.batch_norm)
        batches = pair_batches(
            job.rows,
            PairTensors.of(job.trusted),
            batch_size=self.batch_size,
            seed=job.session.seed,
            stream=stage.name,
        )
        return Plan(objective, (batches,), Recipe(learning_rate=self.learning_rate, clip_norm=CLIP_NORM))


#: The values that the paper tried, in its order, and the one it chose most often.
VOLUME_WEIGHTS = (0.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
USUAL_WEIGHT = 1e-4


class VolMaxDCCObjective(VanillaDCCObjective):
    """Named terms: ``pairs`` (through the matrix B) and ``volume``.

    Parameters
    ----------
    network : NoisyLinkClassifier
    rows : RowSource
    hardware : Hardware
    batch_norm : bool
    link_rate_factor : float
        Learning rate of B relative to that of the network.
    """

    network: NoisyLinkClassifier

    def __init__(
        self,
        network: NoisyLinkClassifier,
        rows: RowSource,
        hardware: Hardware,
        *,
        batch_norm: bool,
        link_rate_factor: float,
    ) -> None:
        super().__init__(network, rows, hardware, batch_norm=batch_norm)
        self._link_rate_factor = link_rate_factor

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Pass pairs and the rows for the volume through the network together."""
        left, right, rows = batch.split(self.encode(batch))
        pairs = noisy_pair_loss(
            left,
            right,
            batch.is_must_link,
            link_logits=self.network.link_logits,
            weight=batch.pair_weight,
        )
        volume = log_volume(rows, weight=batch.row_weight)
        return {"pairs": pairs, "volume": -self.network.volume_weight * volume}

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """The network, and B with its own learning rate."""
        return [
            (list(self.network.body.parameters()), 1.0),
            ([self.network.link_logits], self._link_rate_factor),
        ]


class VolMaxDCC(VanillaDCC):
    """Deep constrained clustering of noisy pairs with volume maximization.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters (K).
    hidden_dims : sequence of int, default=(512, 512)
        Sizes of the hidden layers.
    volume_weight : float or "search", default=1e-4
        Weight of the volume (λ). The paper has 1e-2 for MNIST and STL-10, 1e-5 for ImageNet-10 and
        1e-4 for its other data; ``"search"`` tries its grid and keeps the value whose clusters
        satisfy most of the pairs that were held out, see ``volume_weight_``.
    volume_rows : int, default=10_000
        Number of rows whose volume is computed, drawn for every step.
    batch_norm : bool, default=False
        Normalize hidden layers by the statistics of the batch.
    batch_size : int, default=128
        Pairs per step.
    learning_rate : float, default=0.5
        Learning rate of plain stochastic gradient descent, for the network.
    link_learning_rate : float, default=0.1
        Learning rate for the matrix B.
    precision : {"auto", "float32", "tf32", "bfloat16"}, default="auto"
        Precision of matrix products. Steps this large make rounding matter: in bfloat16, which ``"auto"``
        chooses where it is fast, more random states lose a cluster than in float32.
    scaling, max_epochs, stopping, robust, device, random_state, progress
        As in :class:`VanillaDCC`.

    Attributes
    ----------
    volume_weight_ : float
        The weight of the volume that was used.
    labels_, n_clusters_, history_, constraints_, network_, embedding_, cluster_centers_
        As in :class:`VanillaDCC`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = VolMaxDCC(3, hidden_dims=(32,), random_state=0).fit(X, constraints=pairs)
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **VanillaDCC._parameter_constraints,
        "volume_weight": [NOT_NEGATIVE, StrOptions({"search"})],
        "volume_rows": [Interval(Integral, 2, None, closed="left")],
        "link_learning_rate": [POSITIVE],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        hidden_dims: Sequence[int] | str = (512, 512),
        volume_weight: float | str = USUAL_WEIGHT,
        volume_rows: int = 10_000,
        batch_norm: bool = False,
        scaling: str = "auto",
        batch_size: int = 128,
        max_epochs: int = 300,
        learning_rate: float = 0.5,
        link_learning_rate: float = 0.1,
        stopping: str | StoppingRule = "stable-labels",
        robust: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    @property
    def volume_weight_(self) -> float:
        """The weight of the volume that was used, given or found."""
        return float(self._fitted_network().volume_weight)

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> NoisyLinkClassifier:
        body = classifier_body(
            n_features,
            embedding_dim,
            hidden_dims=hidden_sizes(self.hidden_dims),
            batch_norm=self.batch_norm,
            generator=torch_generator(seed, "network"),
        )
        weight = USUAL_WEIGHT if self.volume_weight == "search" else float(self.volume_weight)
        return NoisyLinkClassifier(body, embedding_dim, volume_weight=weight)

    def _initialize(self, job: Job) -> None:
        search_settings(self, job, {"volume_weight": VOLUME_WEIGHTS})

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = VolMaxDCCObjective(
            job.network,
            job.rows,
            self._hardware,
            batch_norm=self.batch_norm,
            link_rate_factor=self.link_learning_rate / self.learning_rate,
        )
        # Differs from the paper: the volume is that of 10,000 random rows in a step, as in the authors' code,
        # not that of all rows.
        batches = pair_batches(
            job.rows,
            PairTensors.of(job.trusted),
            batch_size=self.batch_size,
            seed=job.session.seed,
            stream=stage.name,
            rows_per_step=int(self.volume_rows),
        )
        # Differs from the paper: it has no clipping; the authors' code clips network and B' together.
        return Plan(
            objective, (batches,), Recipe("sgd", learning_rate=self.learning_rate, clip_norm=CLIP_NORM)
        )

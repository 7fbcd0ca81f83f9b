"""AutoEmbedder: a Euclidean embedding by truncated margins, cut into clusters afterwards.

    minimize  mean of min(d, α₂)² over must-links and (α₁ - min(d, α₁))² over cannot-links

then k-means or Ward. Reference: Ohi et al., "AutoEmbedder: a semi-supervised DNN embedding system for
clustering", Knowledge-Based Systems 2020; in the SpherePair paper's appendix "Baselines".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import StrOptions
from torch import Tensor, nn

from spherepair.estimators.job import Job, Stage
from spherepair.estimators.method_families import EmbeddingClusterer
from spherepair.estimators.setting_search import search_settings
from spherepair.losses.pair_losses import margin_pair_loss
from spherepair.networks.baseline_networks import TwinEncoder, build_twin
from spherepair.training import Objective, Plan, Recipe
from spherepair.training.batches import Batch, PairTensors, pair_batches
from spherepair.training.hardware import torch_generator
from spherepair.training.optimization import StoppingRule
from spherepair.training.pretraining import pretrain
from spherepair.validation import POSITIVE, PRETRAINING_PARAMETERS, hidden_sizes, store_parameters

#: The values that the paper tried (α₁ and α₂), and those it chose for MNIST.
MARGINS, CAPS = (1, 10, 50, 100, 500, 1000, 5000), (100, 1000, 10_000)
USUAL_MARGIN, USUAL_CAP = 100.0, 10_000.0


class AutoEmbedderObjective(Objective):
    """One named term: ``pairs``, the margin loss between the two branches.

    Parameters
    ----------
    network : TwinEncoder
    """

    def __init__(self, network: TwinEncoder) -> None:
        super().__init__()
        self.network = network

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """Left ends through the first branch, right ends through the second."""
        left, right, _ = batch.split(batch.x)
        network = self.network
        loss = margin_pair_loss(
            network.encode(left),
            network.encode_right(right),
            batch.is_must_link,
            margin=network.margin,
            cap=network.cap,
            weight=batch.pair_weight,
        )
        return {"pairs": loss}

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Both encoders; nothing is reconstructed."""
        return [(list(self.network.encoder_parameters()), 1.0)]


class AutoEmbedder(EmbeddingClusterer):
    """Constrained clustering with a Euclidean pair embedding.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters (K).
    embedding_dim : int or "auto", default="auto"
        Dimensions of the embedding (D); ``"auto"`` is at least ten and at least K.
    hidden_dims : sequence of int or {"compact", "standard", "deep"}, default=(500, 500, 2000)
        Sizes of the encoder's hidden layers; the decoder of the pretraining mirrors them.
    margin : float or "search", default=100.0
        Cannot-linked rows are pushed at least this far apart (α₁). The paper has 100 for MNIST, 50 for
        FashionMNIST and STL-10, 10 for ImageNet-10 and RCV1-10, 500 for its other data.
    cap : float or "search", default=10_000.0
        Must-linked rows farther apart than this are ignored (α₂). ``"search"`` tries the paper's grid and
        chooses the values whose clusters satisfy most of the held-out pairs; see ``margin_`` and ``cap_``.
    tied : bool, default=False
        Whether both ends of a pair pass through the same encoder. The published experiments have two, and
        pretraining trains the first only; a tied encoder is the fairer baseline.
    pretraining : {"joint", "stacked"} or None, default="joint"
        How the first encoder is trained before it sees pairs.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are scaled; learned on fit and saved with the model.
    clustering : {"kmeans", "ward"} or scikit-learn clusterer, default="kmeans"
        What cuts the embedding into clusters.
    batch_size, max_epochs, learning_rate
        As in :class:`spherepair.SpherePair`.
    stopping : {"fixed", "paper", …} or StoppingRule, default="fixed"
        When to stop before ``max_epochs``.
    robust : bool, default=False
        Whether to estimate which answers are wrong and to train once more on what each is worth, see
        ``wrong_answers`` of :class:`spherepair.SpherePair`.
    device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    margin_, cap_ : float
        The margins that were used.
    labels_, n_clusters_, embedding_, cluster_centers_, history_, constraints_, network_
        As in :class:`spherepair.SpherePair`; embeddings and centers may have any length.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = AutoEmbedder(3, hidden_dims=(32,), margin=10.0, max_epochs=50, random_state=0)
    >>> model.fit(X, constraints=pairs).predict(X[:5]).shape
    (5,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EmbeddingClusterer._parameter_constraints,
        "robust": ["boolean"],
        **PRETRAINING_PARAMETERS,
        "margin": [POSITIVE, StrOptions({"search"})],
        "cap": [POSITIVE, StrOptions({"search"})],
        "tied": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        embedding_dim: int | str = "auto",
        hidden_dims: Sequence[int] | str = (500, 500, 2000),
        margin: float | str = USUAL_MARGIN,
        cap: float | str = USUAL_CAP,
        # Differs from the paper: it has "the same encoder as SpherePair"; the authors' code has two, untied.
        tied: bool = False,
        pretraining: Any = "joint",
        scaling: str = "auto",
        clustering: Any = "kmeans",
        batch_size: int = 256,
        max_epochs: int = 300,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "fixed",
        robust: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    @classmethod
    def paper(cls, n_clusters: int = 8, **overrides: Any) -> Self:
        """The protocol of the paper's experiments: stacked pretraining, no scaling, 300 epochs.

        Examples
        --------
        >>> AutoEmbedder.paper(10).pretraining
        'stacked'
        """
        # Differs from the paper: it stops as SpherePair does; the rule of the authors' code can never hold.
        protocol = {"pretraining": "stacked", "scaling": "none", "stopping": "fixed"}
        return cls(n_clusters, **(protocol | overrides))

    @property
    def margin_(self) -> float:
        """The distance to which cannot-linked rows were pushed apart (α₁), given or found."""
        return float(self._fitted_network().margin)

    @property
    def cap_(self) -> float:
        """The distance beyond which must-linked rows were ignored (α₂), given or found."""
        return float(self._fitted_network().cap)

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> TwinEncoder:
        return build_twin(
            n_features,
            embedding_dim,
            hidden_dims=hidden_sizes(self.hidden_dims),
            tied=self.tied,
            margin=USUAL_MARGIN if self.margin == "search" else float(self.margin),
            cap=USUAL_CAP if self.cap == "search" else float(self.cap),
            generator=torch_generator(seed, "network"),
        )

    def _pretrain(self, job: Job) -> None:
        pretrain(job.network.autoencoder, job.rows, job.session, method=self.pretraining)

    def _initialize(self, job: Job) -> None:
        search_settings(self, job, {"margin": MARGINS, "cap": CAPS})

    def _plan(self, job: Job, stage: Stage) -> Plan:
        seed = job.session.seed
        pairs = _shuffle_sides(PairTensors.of(job.trusted), torch_generator(seed, "sides"))
        batches = pair_batches(job.rows, pairs, batch_size=self.batch_size, seed=seed, stream=stage.name)
        recipe = Recipe(learning_rate=self.learning_rate)
        return Plan(AutoEmbedderObjective(job.network), (batches,), recipe)


def _shuffle_sides(pairs: PairTensors, generator: torch.Generator) -> PairTensors:
    """Swap the ends of half of the pairs: lists of pairs often have the smaller position on the left."""
    is_swapped = torch.rand(len(pairs), generator=generator) < 0.5
    left = torch.where(is_swapped, pairs.right, pairs.left)
    right = torch.where(is_swapped, pairs.left, pairs.right)
    return PairTensors(left, right, pairs.is_must_link, pairs.weight)

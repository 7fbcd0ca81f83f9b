"""SpherePair: an autoencoder whose embedding lives on a sphere, trained on the angles of pairs.

    minimise  L_ang + λ L_recon                                          (Eq. 4 of the paper)

then k-means or Ward on the sphere. Reference: Zhang and Chen, "Angular Constraint Embedding via
SpherePair Loss for Constrained Clustering", NeurIPS 2025.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.errors import EmbeddingDimensionWarning, InvalidParameterError
from spherepair.estimators.base import Job
from spherepair.estimators.embedding import EmbeddingClusterer
from spherepair.estimators.entailed_pairs import with_entailed
from spherepair.estimators.must_link_weight import rarity_factor, weigh_must_links
from spherepair.estimators.neighbor_term import NeighborAttraction, sample_rows
from spherepair.estimators.parameters import (
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    PRETRAINING_PARAMETERS,
    SMALLEST_DIM,
    hidden_sizes,
    store_parameters,
)
from spherepair.estimators.pseudo_pairs import FIRST_EPOCH, PseudoPairs
from spherepair.estimators.refining import effort, enough_epochs
from spherepair.estimators.rehearsal import rehearsing
from spherepair.estimators.spherepair_objective import SemiSupervisedObjective, SpherePairObjective
from spherepair.networks import Autoencoder, build_autoencoder
from spherepair.theory import valid_omega_range
from spherepair.training.batches import Batches, PairTensors
from spherepair.training.engine import Objective, Recipe
from spherepair.training.pretraining import pretrain
from spherepair.training.randomness import torch_generator
from spherepair.training.stopping import StoppingRule

#: Dimensions of the embedding when the number of clusters is unknown: room for about 30 clusters.
ROOMY_DIM = 32


class SpherePair(EmbeddingClusterer):
    """Constrained clustering with angular pair embeddings.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters (K); ``"auto"`` reads it from the geometry of the embedding.
    embedding_dim : int or "auto", default="auto"
        Dimensions of the embedding (D). ``"auto"`` is at least K, and roomy when K is unknown.
    hidden_dims : sequence of int or {"compact", "standard", "deep"}, default=(500, 500, 2000)
        Sizes of the encoder's hidden layers; the decoder mirrors them.
    omega : float, default=2.0
        Cannot-linked pairs are pushed out of a zone of angle π/ω (ω in the paper).
    reconstruction_weight : float, default=0.02
        Weight of the reconstruction error (λ).
    pretraining : {"joint", "stacked"} or None, default="joint"
        How the autoencoder is prepared before it sees pairs.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are put on a common footing; learned on fit and saved with the model.
    clustering : {"kmeans", "ward"} or scikit-learn clusterer, default="kmeans"
        What cuts the embedding into clusters.
    must_link_weight : float or "auto", default="auto"
        What the weight of must-links is multiplied by. Of random pairs most are cannot-links, which say less
        each; ``"auto"`` is the square root of how much more weight they have together, one at least, and
        one where the number of clusters is to be found: there the geometry of all pairs is the evidence.
    neighbor_weight : float, default=0.2
        Weight of the attraction between rows that were neighbours before training on pairs; without effect
        in a fit without pretraining. Neighbours also speak for the rows of pairs where pseudo-pairs ask them.
        Beside more than 1,000 true pairs the weight falls in proportion for neighbours in different clusters,
        where pseudo-pairs look at clusters.
    pseudo_pair_weight : float, default=0.5
        Weight of pairs among rows that the present clusters place with confidence; full beside 1,000 true
        pairs, less in proportion beside fewer and beside more. Without effect where the number of clusters
        is to be found.
    entailed_weight : float, default=0.0
        Weight of pairs that follow from the given ones, against theirs; 0 leaves them out.
    averaging : bool, default=True
        Whether the network ends with the average of its weights over the last epochs.
    tail_ratio : float, default=0.05
        Share of the smallest angles that is averaged to infer the number of clusters (ρ).
    batch_size : int, default=256
        Pairs per step.
    reconstruction_rows : int, "auto" or "all", default="auto"
        Rows reconstructed per step: a number, as many as ``batch_size``, or all rows shared out over
        the steps of an epoch as in the paper.
    max_epochs : int, default=45
        Upper limit of epochs on pairs.
    min_steps : int, default=20
        Least number of steps in an epoch; few pairs are shown several times in one.
    learning_rate : float, default=1e-3
        Of Adam, in the stage on pairs; ``refine`` takes less where it has little to change.
    stopping : {"settled", "paper", "released-code", "fixed"} or StoppingRule, default="settled"
        When to stop before ``max_epochs``.
    encoder : torch.nn.Module, optional
        An encoder of your own, (n, n_features) to (n, embedding_dim); copied, never changed.
    on_conflict : {"raise", "drop", "keep"}, default="raise"
        What to do with constraints that contradict each other.
    checkpoint : path, optional
        Folder in which the fit is kept after every epoch; a later fit with the same data,
        constraints and parameters goes on from there.
    device : str or torch.device, default="auto"
        Where to train and predict; ``"auto"`` takes a GPU when there is one.
    precision : {"auto", "float32", "tf32", "bfloat16"}, default="auto"
        Of matrix products; losses and angles are always in float32.
    random_state : int, RandomState or None, default=None
        The same number gives the same labels on the same machine and versions.
    progress : {"auto"}, bool or callable, default="auto"
        Show progress on the terminal; a callable gets the training state after every epoch.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each training row.
    embedding_ : ndarray of shape (n_rows, embedding_dim)
        Training rows as unit vectors.
    n_clusters_ : int
        Number of clusters.
    cluster_centers_ : ndarray of shape (n_clusters_, embedding_dim)
        Unit vectors of the clusters (μ_k).
    cluster_number_ : ClusterNumber or None
        How the number of clusters was found and how sure that is; ``None`` where it was given.
    history_ : list of dict
        One record per epoch: stage, epoch, loss, each named term, seconds.
    constraints_ : Constraints
        The pairs that were used.
    network_ : Autoencoder
        The trained network.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints, SpherePair
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SpherePair(3, hidden_dims=(32,), random_state=0).fit(X, constraints=pairs)
    >>> model.predict(X[:5]).shape
    (5,)
    """

    _is_spherical: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EmbeddingClusterer._parameter_constraints,
        **PRETRAINING_PARAMETERS,
        "n_clusters": [AT_LEAST_ONE, StrOptions({"auto"})],
        "omega": [Interval(Real, 1.0, None, closed="left")],
        "reconstruction_weight": [NOT_NEGATIVE],
        "must_link_weight": [POSITIVE, StrOptions({"auto"})],
        "neighbor_weight": [NOT_NEGATIVE],
        "pseudo_pair_weight": [NOT_NEGATIVE],
        "entailed_weight": [NOT_NEGATIVE],
        "averaging": ["boolean"],
        "tail_ratio": [Interval(Real, 0.0, 0.5, closed="right")],
        "reconstruction_rows": [AT_LEAST_ONE, StrOptions({"auto", "all"})],
        "min_steps": [AT_LEAST_ONE],
        "encoder": [nn.Module, None],
    }

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        embedding_dim: int | str = "auto",
        hidden_dims: Sequence[int] | str = (500, 500, 2000),
        omega: float = 2.0,
        reconstruction_weight: float = 0.02,
        pretraining: Any = "joint",
        scaling: str = "auto",
        clustering: Any = "kmeans",
        must_link_weight: float | str = "auto",
        neighbor_weight: float = 0.2,
        pseudo_pair_weight: float = 0.5,
        entailed_weight: float = 0.0,
        averaging: bool = True,
        tail_ratio: float = 0.05,
        batch_size: int = 256,
        reconstruction_rows: int | str = "auto",
        max_epochs: int = 45,
        min_steps: int = 20,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "settled",
        encoder: nn.Module | None = None,
        on_conflict: str = "raise",
        checkpoint: str | Path | None = None,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    @classmethod
    def paper(cls, n_clusters: int | str = "auto", **overrides: Any) -> Self:
        """The protocol of the paper's experiments, with the details its text leaves out.

        Stacked pretraining, no scaling (``load_dataset`` gives the paper's), pairs and reconstruction
        as the only terms, one pass over the pairs per epoch with all rows shared out over its steps,
        and the stopping rule of the authors' published code. Any parameter can be overridden.

        Examples
        --------
        >>> SpherePair.paper(10).pretraining
        'stacked'
        """
        protocol: dict[str, Any] = {
            "pretraining": "stacked",
            "scaling": "none",
            "must_link_weight": 1.0,
            "neighbor_weight": 0.0,
            "pseudo_pair_weight": 0.0,
            "entailed_weight": 0.0,
            "averaging": False,
            "reconstruction_rows": "all",
            "max_epochs": 300,
            "min_steps": 1,
            "stopping": "released-code",
        }
        return cls(n_clusters, **(protocol | overrides))

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> Autoencoder:
        return build_autoencoder(
            n_features,
            embedding_dim,
            hidden_dims=hidden_sizes(self.hidden_dims),
            encoder=self.encoder,
            generator=torch_generator(seed, "network"),
        )

    def _choose_embedding_dim(self, n_features: int) -> int:
        """D: what the encoder gives, what was asked for, at least K, or roomy."""
        known = None if self.n_clusters == "auto" else int(self.n_clusters)
        if self.encoder is not None:
            chosen = _output_size(self.encoder, n_features)
            if self.embedding_dim not in ("auto", chosen):
                raise InvalidParameterError(
                    f"embedding_dim={self.embedding_dim}, but the encoder gives {chosen} dimensions; leave "
                    "embedding_dim at 'auto' with an encoder of your own."
                )
        elif self.embedding_dim != "auto":
            chosen = int(self.embedding_dim)
        else:
            chosen = ROOMY_DIM if known is None else max(SMALLEST_DIM, known)
        if known is not None and chosen < known and not self._is_exact_fit(known, chosen):
            warnings.warn(
                f"embedding_dim={chosen} is below n_clusters={known}: that many cannot all be the same "
                f"{180 / self.omega:.0f} degrees apart (theorem: D >= K); raise embedding_dim to {known}.",
                EmbeddingDimensionWarning,
                stacklevel=4,
            )
        return chosen

    def _is_exact_fit(self, n_clusters: int, embedding_dim: int) -> bool:
        """Whether D = K - 1 and ω is the one value that lets a regular simplex fill it."""
        valid = valid_omega_range(n_clusters, embedding_dim)
        return valid is not None and math.isclose(self.omega, valid.low, rel_tol=1e-3)

    def _pretrain(self, job: Job) -> None:
        with rehearsing(self, job):
            pretrain(job.network, job.rows, job.session, method=self.pretraining)

    def _build_objective(self, job: Job) -> Objective:
        weights = {"omega": self.omega, "reconstruction_weight": self.reconstruction_weight}
        further = self._further_terms(job)
        if not further and not self.averaging:
            return SpherePairObjective(job.network, **weights)
        return SemiSupervisedObjective(
            job.network, job.rows, job.session.hardware, further=further, averaging=self.averaging, **weights
        )

    def _further_terms(self, job: Job) -> dict[str, nn.Module]:
        """Terms on rows without pairs, where they are wanted and make sense."""
        further: dict[str, nn.Module] = {}
        n_rows, seed = job.rows.n_rows, job.session.seed
        is_refined = self.__sklearn_is_fitted__()
        pairs, neighbors = job.pair_tensors(), None
        ends = torch.cat([pairs.left, pairs.right])
        rows = sample_rows(n_rows, ends, seed=seed, device=job.rows.index_device)
        # Neighbours in the embedding of a network that has learned nothing yet would mean nothing.
        if self.neighbor_weight > 0 and n_rows > 2 and (is_refined or self.pretraining is not None):
            neighbors = NeighborAttraction(rows, weight=self.neighbor_weight, seed=seed)
            # Before the pseudo-pairs, which ask neighbours: in a refinement both look before the first epoch.
            further["neighbors"], job.companions = neighbors, neighbors.table
        # Not where the number of clusters is to be found: it would find what it was trained with. Nor without
        # cannot-links: nothing holds clusters apart then, and what is seen as one may be all of them.
        n_clusters = 0 if self.n_clusters == "auto" else int(self.n_clusters)
        if self.pseudo_pair_weight > 0 and n_clusters > 1 and not job.pairs.is_must_link.all():
            pseudo_pairs = PseudoPairs(
                n_rows,
                rows,
                pairs,
                weight=self.pseudo_pair_weight,
                n_clusters=n_clusters,
                first_epoch=0 if is_refined else FIRST_EPOCH,
                seed=seed,
                device=job.rows.device,
                neighbors=None if neighbors is None else neighbors.table,
                centers=self._known_centers(n_clusters),
            )
            further["pseudo_pairs"] = pseudo_pairs
            if neighbors is not None:
                neighbors.let_go_where(pseudo_pairs.differ, len(job.pairs))
        return further

    def _known_centers(self, n_clusters: int) -> Tensor | None:
        """Of the clusters from which a refinement starts, where these are so many."""
        centers = getattr(self, "cluster_centers_", ())
        return torch.tensor(centers) if len(centers) == n_clusters else None

    @property
    def _needs_pairs(self) -> bool:  # type: ignore[override]
        """Without pairs there is reconstruction, which pretraining has done already."""
        return self.pretraining is not None

    def _embed(self, network: Autoencoder, x: Tensor) -> Tensor:
        return F.normalize(network.encode(x).float(), dim=-1, eps=1e-12)

    def _sweeps(self, job: Job, stage: str) -> list[Batches]:
        pairs = with_entailed(job.pair_tensors(), job.pairs, self.entailed_weight)
        n_pairs, n_rows = len(pairs), job.rows.n_rows
        pairs_per_step = min(self.batch_size, n_pairs)
        n_steps = self._steps_per_epoch(n_pairs, pairs_per_step)
        joint = Batches(
            job.rows,
            self._weighted(pairs),
            pairs_per_step=pairs_per_step,
            rows_per_step=self._rows_per_step(n_rows, n_steps),
            n_steps=n_steps,
            seed=job.session.seed,
            stream=stage,
            companions=job.companions,
        )
        return [joint]

    def _weighted(self, pairs: PairTensors) -> PairTensors:
        """The pairs with the weight of must-links against cannot-links in theirs."""
        if self.must_link_weight != "auto":
            return weigh_must_links(pairs, float(self.must_link_weight))
        return pairs if self.n_clusters == "auto" else weigh_must_links(pairs, rarity_factor(pairs))

    def _steps_per_epoch(self, n_pairs: int, pairs_per_step: int) -> int:
        """Whole passes over the pairs, as many as ``min_steps`` needs; no step is left without pairs."""
        if n_pairs == 0:
            return int(self.min_steps)
        n_passes = (int(self.min_steps) - 1) * pairs_per_step // n_pairs + 1
        return -(-n_passes * n_pairs // pairs_per_step)

    def _refine_recipe(self, share_wrong: float) -> Recipe:
        """A lower rate where there is little to change.

        Adam has forgotten its moments, and its first steps at the full rate throw a trained network further
        off than a few epochs bring it back.
        """
        recipe = self._recipe()
        return replace(recipe, learning_rate=effort(share_wrong) * recipe.learning_rate)

    def _refine_epochs(self, n_pairs: int, share_wrong: float) -> int:
        """As many as are enough, by the steps they hold."""
        n_steps = self._steps_per_epoch(n_pairs, min(self.batch_size, n_pairs))
        return min(super()._refine_epochs(n_pairs, share_wrong), enough_epochs(share_wrong, n_steps))

    def _rows_per_step(self, n_rows: int, n_steps: int) -> int:
        if self.reconstruction_rows == "all":
            return max(1, n_rows // n_steps)
        size = self.batch_size if self.reconstruction_rows == "auto" else self.reconstruction_rows
        return min(int(size), n_rows)


@torch.no_grad()
def _output_size(encoder: nn.Module, n_features: int) -> int:
    """Ask an encoder for the size of its embedding by showing it two rows of zeros."""
    parameter = next(encoder.parameters(), None)
    device = parameter.device if parameter is not None else torch.device("cpu")
    was_training = encoder.training
    try:
        output = encoder.eval()(torch.zeros(2, n_features, device=device))
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"encoder does not accept rows of {n_features} features: {error}"
        ) from error
    finally:
        encoder.train(was_training)
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 2:
        raise InvalidParameterError("encoder must map (n, n_features) to (n, embedding_dim).")
    return int(output.shape[1])

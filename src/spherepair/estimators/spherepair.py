"""SpherePair: an autoencoder whose embedding lives on a sphere, trained on the angles of pairs.

    minimize  L_ang + λ L_recon                                          (Eq. 4 of the paper)

then k-means or Ward on the sphere. ``terms/`` has what is added to this loss. Reference: Zhang and Chen,
"Angular Constraint Embedding via SpherePair Loss for Constrained Clustering", NeurIPS 2025.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from spherepair.errors import EmbeddingDimensionWarning, InvalidParameterError
from spherepair.estimators.base import CLIP_NORM
from spherepair.estimators.job import Job, Stage
from spherepair.estimators.method_families import EmbeddingClusterer
from spherepair.networks import ARCHITECTURES, Autoencoder, build_autoencoder
from spherepair.terms import (
    SemiSupervisedObjective,
    SpherePairObjective,
    Terms,
    build_terms,
    weigh_must_links,
)
from spherepair.terms.row_terms import FIRST_EPOCH
from spherepair.theory import valid_omega_range
from spherepair.training import Plan, Recipe
from spherepair.training.batches import Batches, PairTensors, Schedule
from spherepair.training.hardware import Effort, choose_effort, torch_generator
from spherepair.training.optimization import StoppingRule
from spherepair.training.pretraining import JointPretraining, pretrain
from spherepair.validation import (
    AT_LEAST_ONE,
    LARGEST_WEIGHT,
    NOT_NEGATIVE,
    PRETRAINING_PARAMETERS,
    REAL_SHARE,
    embedding_size,
    hidden_sizes,
    store_parameters,
)

#: Dimensions of the embedding when the number of clusters is unknown: room for about 30 clusters.
ROOMY_DIM = 32
#: Steps of further pretraining where answers are wrong, in multiples of what a small table has by default.
FURTHER_PRETRAINING = 3


class SpherePair(EmbeddingClusterer):
    """Constrained clustering with angular pair embeddings.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters (K); ``"auto"`` infers it from the geometry of the embedding.
    embedding_dim : int or "auto", default="auto"
        Dimensions of the embedding (D); ``"auto"`` is K, at least 10, or 32 if K is unknown.
    hidden_dims : sequence of int or {"auto", "small", "compact", "standard", "deep"}, default="auto"
        Sizes of the encoder's hidden layers; the decoder mirrors them. ``"auto"`` is (500, 500, 2000), and
        (256, 128) for tables of less than 20,000 rows on a CPU.
    omega : float, default=2.0
        Cannot-linked pairs are pushed out of a zone of angle π/ω (ω in the paper).
    reconstruction_weight : float, default=0.02
        Weight of the reconstruction error (λ).
    terms : Terms, optional
        Weights of what is added to the paper's loss; ``None`` is ``Terms()``.
    pretraining : {"joint", "stacked"} or None, default="joint"
        How the autoencoder is trained before it sees pairs.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are scaled; learned on fit and saved with the model.
    clustering : {"kmeans", "ward"} or scikit-learn clusterer, default="kmeans"
        What cuts the embedding into clusters.
    tail_ratio : float, default=0.05
        Share of the smallest angles that is averaged to infer the number of clusters (ρ).
    batch_size : int, default=256
        Most pairs per step. With ``hidden_dims="auto"`` a CPU takes 128 for tables of less than 20,000 rows
        and 64 below 1,000.
    max_epochs : int, default=45
        Upper limit of epochs on pairs.
    learning_rate : float, default=1e-3
        Learning rate of Adam on pairs; ``refine`` uses less where there is little to change.
    stopping : {"settled", "paper", "released-code", "fixed"} or StoppingRule, default="settled"
        When to stop before ``max_epochs``.
    schedule : Schedule, optional
        Steps and rows of an epoch, and averaging of weights; ``None`` is ``Schedule()``.
    wrong_answers : "auto", float or None, default="auto"
        How many answers are wrong: ``"auto"`` estimates it and trains on what each answer is worth, a
        number is the share, ``None`` takes all answers for right. Where none seem wrong, ``"auto"`` gives
        what ``None`` does.
    encoder : TextEncoder, ImageEncoder, TableEncoder or torch.nn.Module, optional
        What turns your rows into numbers, fitted and saved with the model. Or a network of your own,
        (n, n_features) to (n, embedding_dim); copied, never changed.
    device : str or torch.device, default="auto"
        Where to train and predict; ``"auto"`` is a GPU if there is one.
    precision : {"auto", "float32", "tf32", "bfloat16"}, default="auto"
        Precision of matrix products; losses and angles are always in float32.
    random_state : int, RandomState or None, default=None
        Random seed.
    progress : {"auto"}, bool or callable, default="auto"
        Whether to show progress on the terminal; a callable gets the training state after every epoch.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each training row.
    embedding_ : ndarray of shape (n_rows, embedding_dim)
        Training rows as unit vectors.
    n_clusters_ : int
        Number of clusters.
    cluster_centers_ : ndarray of shape (K, embedding_dim)
        Unit vectors of the clusters (μ_k).
    cluster_number_ : ClusterNumber or None
        How the number of clusters was inferred, and its confidence; ``None`` if it was given.
    history_ : list of dict
        One record per epoch: stage, epoch, loss, each named term, seconds.
    constraints_ : Constraints
        The pairs that were used.
    wrong_answers_ : WrongAnswers or None
        Estimated shares of wrong answers, by kind of link and by person; ``None`` if they were not judged.
    pair_weights_ : ndarray of shape (n_pairs,)
        What each answer counted: the probability that it is right, one where none seems wrong. Below one
        half it was left out.
    judgment_ : Judgment or None
        How likely each answer is right, and what the neighbors of its rows say; see :meth:`suspects`.
    network_ : Autoencoder
        The trained network.
    encoder_ : TextEncoder, ImageEncoder or TableEncoder
        The fitted encoder of the rows, if there is one.
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
    _settings: ClassVar[tuple[type, ...]] = (*EmbeddingClusterer._settings, Terms, Schedule)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EmbeddingClusterer._parameter_constraints,
        **PRETRAINING_PARAMETERS,
        "n_clusters": [AT_LEAST_ONE, StrOptions({"auto"})],
        "hidden_dims": ["array-like", StrOptions({"auto", *ARCHITECTURES})],
        "omega": [Interval(Real, 1.0, LARGEST_WEIGHT, closed="both")],
        "reconstruction_weight": [NOT_NEGATIVE],
        "terms": [Terms, None],
        "tail_ratio": [Interval(Real, 0.0, 0.5, closed="right")],
        "wrong_answers": [StrOptions({"auto"}), REAL_SHARE, None],
        "schedule": [Schedule, None],
        "encoder": [nn.Module, HasMethods(["fit_transform", "transform"]), None],
    }

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        embedding_dim: int | str = "auto",
        hidden_dims: Sequence[int] | str = "auto",
        omega: float = 2.0,
        reconstruction_weight: float = 0.02,
        terms: Terms | None = None,
        pretraining: Any = "joint",
        scaling: str = "auto",
        clustering: Any = "kmeans",
        tail_ratio: float = 0.05,
        batch_size: int = 256,
        max_epochs: int = 45,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "settled",
        schedule: Schedule | None = None,
        wrong_answers: float | str | None = "auto",
        encoder: Any = None,
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
        as the only terms, one pass over the pairs per epoch with all rows divided among its steps,
        and the stopping rule of the authors' published code. Any parameter can be overridden.

        Examples
        --------
        >>> SpherePair.paper(10).schedule
        Schedule(min_steps=1, reconstruction_rows='all', ema=False)
        """
        protocol: dict[str, Any] = {
            "hidden_dims": (500, 500, 2000),
            "terms": Terms(must_link_weight=1.0, neighbor_weight=0.0, pseudo_pair_weight=0.0),
            "pretraining": "stacked",
            "scaling": "none",
            "max_epochs": 300,
            "stopping": "released-code",
            "schedule": Schedule(min_steps=1, reconstruction_rows="all", ema=False),
            "wrong_answers": None,
        }
        return cls(n_clusters, **(protocol | overrides))

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> Autoencoder:
        return build_autoencoder(
            n_features,
            embedding_dim,
            hidden_dims=hidden_sizes(self.hidden_dims, auto=self._hidden_dims),
            encoder=self._own_network(),
            generator=torch_generator(seed, "network"),
        )

    def _choose_embedding_dim(self, n_features: int) -> int:
        known = self._known_number()
        network = self._own_network()
        if network is not None:
            chosen = _output_size(network, n_features)
            if self.embedding_dim not in ("auto", chosen):
                raise InvalidParameterError(
                    f"embedding_dim={self.embedding_dim}, but the encoder gives {chosen} dimensions; leave "
                    "embedding_dim at 'auto' with an encoder of your own."
                )
        else:
            chosen = embedding_size(self.embedding_dim, ROOMY_DIM if known is None else known)
        if known is not None and chosen < known and not self._is_exact_fit(known, chosen):
            warnings.warn(
                f"embedding_dim={chosen} is below n_clusters={known}: that many cannot all be the same "
                f"{180 / self.omega:.0f} degrees apart (theorem: D >= K); raise embedding_dim to {known}.",
                EmbeddingDimensionWarning,
                stacklevel=4,
            )
        return chosen

    def _is_exact_fit(self, n_clusters: int, embedding_dim: int) -> bool:
        """Whether D = K - 1 and ω is the one value for which a regular simplex fills it."""
        valid = valid_omega_range(n_clusters, embedding_dim)
        return valid is not None and math.isclose(self.omega, valid.low, rel_tol=1e-3)

    def _own_network(self) -> nn.Module | None:
        return self.encoder if isinstance(self.encoder, nn.Module) else None

    def _known_number(self) -> int | None:
        return None if self.n_clusters == "auto" else int(self.n_clusters)

    @property
    def _needs_pairs(self) -> bool:  # type: ignore[override]
        """Without pairs there is only reconstruction, which pretraining has done already."""
        return self.pretraining is not None

    def _pretrain(self, job: Job) -> None:
        pretrain(job.network, job.rows, job.session, method=self.pretraining)

    def _pretrain_further(self, job: Job, stage: Stage) -> bool:
        # Small tables on a CPU have little by default; but neighbors who judge have to be right.
        effort = choose_effort(job.rows.n_rows, job.session.hardware)
        if self.pretraining != "joint" or effort == Effort():
            return False
        n_steps = FURTHER_PRETRAINING * effort.pretraining_steps
        JointPretraining(min_steps=n_steps).run(job.network, job.rows, job.session, stage.name)
        return True

    def _has_time_for_draft(self, job: Job) -> bool:
        return choose_effort(job.rows.n_rows, job.session.hardware) == Effort()

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = self._objective(job, stage)
        batches = self._batches(job, stage, neighbor_table=objective.neighbor_table)
        # Adam has lost its moments: at the full rate its first steps would throw a trained network further
        # off than the few epochs of a refinement bring it back.
        effort = 1.0 if stage.refinement is None else stage.refinement.effort
        recipe = Recipe(learning_rate=effort * self.learning_rate, clip_norm=CLIP_NORM)
        return Plan(objective, (batches,), recipe)

    def _objective(self, job: Job, stage: Stage) -> SpherePairObjective:
        weights = {"omega": self.omega, "reconstruction_weight": self.reconstruction_weight}
        refinement = stage.refinement
        centers = None
        if refinement is not None and len(refinement.centers) == self._known_number():
            centers = torch.tensor(refinement.centers)
        further = build_terms(
            self._terms(),
            job.rows,
            PairTensors.of(job.trusted),
            n_clusters=self._known_number(),
            n_informative=job.trusted.informative_pairs(self._known_number() or 1),
            is_trained=refinement is not None or self.pretraining is not None,
            first_epoch=FIRST_EPOCH if refinement is None else 0,
            centers=centers,
            seed=job.session.seed,
        )
        ema = self._schedule().ema
        if not further and not ema:
            return SpherePairObjective(job.network, **weights)
        return SemiSupervisedObjective(
            job.network, job.rows, job.session.hardware, further=further, ema=ema, **weights
        )

    def _batches(self, job: Job, stage: Stage, *, neighbor_table: Tensor | None) -> Batches:
        pairs = self._weigh(PairTensors.of(job.weighed))
        schedule, batch_size = self._steps(job, stage)
        pairs_per_step = min(batch_size, len(pairs))
        n_steps = schedule.steps_per_epoch(len(pairs), pairs_per_step)
        return Batches(
            job.rows,
            pairs,
            pairs_per_step=pairs_per_step,
            rows_per_step=schedule.rows_per_step(job.rows.n_rows, n_steps=n_steps, batch_size=batch_size),
            n_steps=n_steps,
            seed=job.session.seed,
            stream=stage.name,
            neighbor_table=neighbor_table,
        )

    def _weigh(self, pairs: PairTensors) -> PairTensors:
        """The pairs with must-links weighed against cannot-links."""
        weight = self._terms().must_link_weight
        return pairs if weight == "auto" and self._known_number() is None else weigh_must_links(pairs, weight)

    def _max_epochs(self, job: Job, stage: Stage) -> int:
        limit = super()._max_epochs(job, stage)
        if stage.refinement is None:
            return limit
        n_pairs = len(job.pairs)
        schedule, batch_size = self._steps(job, stage)
        n_steps = schedule.steps_per_epoch(n_pairs, min(batch_size, n_pairs))
        return min(limit, stage.refinement.enough_epochs(n_steps))

    def _terms(self) -> Terms:
        return Terms() if self.terms is None else self.terms

    def _steps(self, job: Job, stage: Stage) -> tuple[Schedule, int]:
        """Schedule and pairs per step: as given, or as the table deserves."""
        effort, schedule = choose_effort(job.rows.n_rows, job.session.hardware), self._schedule()
        if schedule.min_steps == "auto":
            # A refinement has few epochs, whatever the table.
            n_steps = effort.epoch_steps if stage.refinement is None else Effort.epoch_steps
            schedule = replace(schedule, min_steps=n_steps)
        follows_table = isinstance(self.hidden_dims, str) and self.hidden_dims == "auto"
        return schedule, int(min(self.batch_size, effort.batch_size) if follows_table else self.batch_size)

    def _schedule(self) -> Schedule:
        return Schedule() if self.schedule is None else self.schedule

    def _embed(self, network: Autoencoder, x: Tensor) -> Tensor:
        return F.normalize(network.encode(x).float(), dim=-1, eps=1e-12)


@torch.no_grad()
def _output_size(encoder: nn.Module, n_features: int) -> int:
    """Ask an encoder for the size of its embedding by passing two rows of zeros."""
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

"""DCGMM: a variational autoencoder whose prior is a Gaussian mixture conditioned on the pairs.

    minimise  reconstruction error + KL[q(z, c | x) || p(z, c)] - Σ_pairs W_ab (g_a · g_b)

with g the responsibilities of the components, W = +|W| for must-links and -|W| for cannot-links. Without
constraints it is VaDE.

Reference: Manduchi et al., "Deep conditional Gaussian mixture model for constrained clustering",
NeurIPS 2021. Derived from the model; ``losses/mixture.py`` has the equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils._param_validation import StrOptions
from torch import Tensor

from spherepair.estimators.anchored import AnchoredClusterer
from spherepair.estimators.assigning import AssigningObjective
from spherepair.estimators.base import Job
from spherepair.estimators.mixture_start import AutoencodingObjective, fit_mixture, pixel_ceiling
from spherepair.estimators.parameters import AT_LEAST_ONE, NOT_NEGATIVE, hidden_sizes
from spherepair.losses.mixture import mixture_divergence, mixture_pair_loss, row_error
from spherepair.losses.pair_likelihood import weighted_mean
from spherepair.networks.mixture import MixtureVAE, mean_and_log_variance, precisions
from spherepair.training.batches import Batch, Batches, PairTensors, row_batches
from spherepair.training.compiling import WORTH_COMPILING, compiled
from spherepair.training.embedding import map_rows
from spherepair.training.engine import Objective, Recipe, TrainingState
from spherepair.training.hardware import Hardware
from spherepair.training.randomness import derive_seed, torch_generator
from spherepair.training.rows import RowSource
from spherepair.training.stopping import StoppingRule

PRETRAINING_BATCH = 32
ROWS, PAIRS = "rows", "pairs"


class DCGMMObjective(AssigningObjective):
    """Named terms: reconstruction and divergence of rows; the same of the ends of pairs, and the pairs.

    Parameters
    ----------
    network : MixtureVAE
    rows : RowSource
    hardware : Hardware
    pair_weight : float
    compiles : bool, default=False
        Whether training is long enough to wait for torch's compiler.
    """

    passes_once = True

    def __init__(
        self,
        network: MixtureVAE,
        rows: RowSource,
        hardware: Hardware,
        *,
        pair_weight: float,
        compiles: bool = False,
    ) -> None:
        super().__init__(network, rows, hardware)
        self._pair_weight = pair_weight
        self._is_bernoulli = bool(network.is_bernoulli)
        self._generator: torch.Generator | None = None
        self._compiled = tuple(compiled(f) for f in FUNCTIONS) if compiles else FUNCTIONS

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Take the noise of this epoch."""
        self._generator = state.generator

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """The evidence bound of all rows of the batch, and the agreement of pairs where it has some."""
        weight = batch.row_weight
        if batch.part == PAIRS:
            weight = (batch.pair_weight > 0).float().repeat(2)
        draw, bound, agree = self._compiled if self.training else FUNCTIONS
        target = batch.x / self.network.ceiling
        answer = self.network.answer(target)
        z = draw(answer, self._noise(answer))
        prior = {"centers": self.network.centers, "log_variances": self.network.log_variances}
        error, divergence, logits = bound(
            z, answer, self.network.decode(z), target, weight, is_bernoulli=self._is_bernoulli, **prior
        )
        if batch.part == ROWS:
            return {"reconstruction": error, "divergence": divergence}
        left, right, _ = batch.split(logits)
        agreement = agree(left, right, batch.is_must_link, weight=batch.pair_weight)
        return {
            "pairs": self._pair_weight * agreement,
            "pair_reconstruction": error,
            "pair_divergence": divergence,
        }

    def _noise(self, answer: Tensor) -> Tensor:
        """Standard normal; none while the network is evaluated."""
        noise = answer.new_empty(len(answer), answer.shape[1] // 2)
        return noise.normal_(generator=self._generator) if self.training else noise.zero_()


def _draw(answer: Tensor, noise: Tensor) -> Tensor:
    """Embeddings drawn from the encoder's answer."""
    mean, log_variance = mean_and_log_variance(answer)
    return mean + (0.5 * log_variance).exp() * noise


def _bound(
    z: Tensor,
    answer: Tensor,
    decoded: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    centers: Tensor,
    log_variances: Tensor,
    is_bernoulli: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Reconstruction error and divergence, each a weighted mean, and the responsibilities as logits."""
    error = row_error(decoded, target, weight=weight, is_bernoulli=is_bernoulli)
    logits, divergence = mixture_divergence(
        z, *mean_and_log_variance(answer), centers=centers, precisions=precisions(log_variances)
    )
    return error, weighted_mean(divergence, weight), logits


#: What a step computes beside the passes of the network: many small operations.
FUNCTIONS: tuple[Any, Any, Any] = (_draw, _bound, mixture_pair_loss)


# Differs from the paper: labels come from the mean of a row's embedding; the authors draw it at random,
# which gives the same row another label now and then.
class DCGMM(AnchoredClusterer):
    """Variational deep embedding with a Gaussian mixture that takes pairs as prior knowledge.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters (K).
    embedding_dim : int or "auto", default="auto"
        Dimensions of the embedding (D); ``"auto"`` is K, at least 10.
    hidden_dims : sequence of int or {"compact", "standard", "deep"}, default=(500, 500, 2000)
        Sizes of the encoder's hidden layers; the decoder mirrors them.
    pair_weight : float, default=10_000
        Certainty of the pairs (the absolute value of W).
    likelihood : {"auto", "bernoulli", "gaussian"}, default="auto"
        Of rows given embeddings. ``"auto"`` takes Bernoulli for values such as pixels, that are never
        negative and whose columns share one maximum, by which they are divided; Gaussian otherwise.
    pretraining_epochs : int, default=10
        Epochs of the plain autoencoder before the mixture is fitted to its embedding.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are put on a common footing.
    batch_size : int, default=128
        Rows per step; steps on pairs take half as many pairs.
    max_epochs : int, default=500
        Epochs after pretraining.
    learning_rate : float, default=1e-3
        Of Adam; multiplied by 0.9 every 20 epochs.
    stopping : str or StoppingRule, default="fixed"
        When to stop before ``max_epochs``.
    on_conflict, checkpoint, device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each training row.
    embedding_ : ndarray of shape (n_rows, embedding_dim)
        Means of the rows' embeddings.
    cluster_centers_ : ndarray of shape (n_clusters, embedding_dim)
        Means of the components.
    history_, constraints_, network_, n_clusters_, n_features_in_, feature_names_in_
        As in :class:`spherepair.SpherePair`.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints
    >>> from spherepair.estimators.dcgmm import DCGMM
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = DCGMM(3, hidden_dims=(32,), max_epochs=5, random_state=0).fit(X, constraints=pairs)
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AnchoredClusterer._parameter_constraints,
        "pair_weight": [NOT_NEGATIVE],
        "likelihood": [StrOptions({"auto", "bernoulli", "gaussian"})],
        "pretraining_epochs": [AT_LEAST_ONE],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        embedding_dim: int | str = "auto",
        hidden_dims: Sequence[int] | str = (500, 500, 2000),
        pair_weight: float = 10_000.0,
        likelihood: str = "auto",
        pretraining_epochs: int = 10,
        scaling: str = "auto",
        batch_size: int = 128,
        max_epochs: int = 500,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "fixed",
        on_conflict: str = "raise",
        checkpoint: str | Path | None = None,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.embedding_dim = embedding_dim
        self.hidden_dims = hidden_dims
        self.pair_weight = pair_weight
        self.likelihood = likelihood
        self.pretraining_epochs = pretraining_epochs
        self.scaling = scaling
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.stopping = stopping
        self.on_conflict = on_conflict
        self.checkpoint = checkpoint
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(cls, n_clusters: int = 8, **overrides: Any) -> Self:
        """The protocol of the paper's experiments: rows as ``load_dataset`` gives them.

        Examples
        --------
        >>> DCGMM.paper(10).max_epochs
        500
        """
        return cls(n_clusters, **({"scaling": "none"} | overrides))

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> MixtureVAE:
        return MixtureVAE(
            n_features,
            embedding_dim,
            int(self.n_clusters),
            hidden_dims=hidden_sizes(self.hidden_dims),
            generator=torch_generator(seed, "network"),
        )

    def _pretrain(self, job: Job) -> None:
        ceiling = pixel_ceiling(job.rows, self.likelihood)
        job.network.is_bernoulli.fill_(ceiling is not None)
        job.network.ceiling.fill_(1.0 if ceiling is None else ceiling)
        stage = "pretraining"
        job.session.run_stage(
            AutoencodingObjective(job.network),
            row_batches(job.rows, batch_size=PRETRAINING_BATCH, seed=job.session.seed, stream=stage),
            stage=stage,
            recipe=Recipe(learning_rate=self.learning_rate),
            max_epochs=self.pretraining_epochs,
        )

    @torch.no_grad()
    def _initialise(self, job: Job) -> None:
        """Components from a Gaussian mixture fitted to the embedding."""
        network = job.network.eval()
        embedding = map_rows(lambda x: self._embed(network, x), job.rows, self._hardware)
        start = fit_mixture(embedding, int(self.n_clusters), seed=derive_seed(self._seed, "mixture"))
        network.centers.copy_(torch.from_numpy(start.centers))
        network.log_variances.copy_(torch.from_numpy(start.log_variances))

    def _build_objective(self, job: Job) -> Objective:
        n_steps = int(self.max_epochs) * sum(sweep.n_steps for sweep in self._sweeps(job, "pairs"))
        is_long = n_steps >= WORTH_COMPILING and not self.__sklearn_is_fitted__()  # refining is short
        return DCGMMObjective(
            job.network,
            job.rows,
            self._hardware,
            pair_weight=self.pair_weight,
            compiles=self._hardware.is_cuda and is_long,
        )

    def _recipe(self) -> Recipe:
        # Differs from the paper: the rate falls at epochs 20, 40, ...; in the authors' code one earlier.
        return Recipe(learning_rate=self.learning_rate, decay_every=20, decay_factor=0.9)

    def _sweeps(self, job: Job, stage: str) -> list[Batches]:
        """Rows, then pairs: half as many pairs as rows in a step, and a fresh half of them in an epoch."""
        # Differs from the paper: the authors' epochs end with the rows, so theirs are a little shorter, and
        # a step sees only its own pairs, not others that happen to join its rows.
        size, n_rows, n_pairs = int(self.batch_size), job.rows.n_rows, len(job.pairs)
        n_row_steps, n_pair_steps = max(1, n_rows // size), max(1, n_pairs // size)
        rows = _sweep(job, (0, min(size, n_rows), n_row_steps), stage=stage, part=ROWS)
        if n_pairs == 0:
            return [rows]
        half = min(max(1, size // 2), n_pairs)
        return [rows, _sweep(job, (half, 0, n_pair_steps), stage=stage, part=PAIRS)]


def _sweep(job: Job, shape: tuple[int, int, int], *, stage: str, part: str) -> Batches:
    pairs_per_step, rows_per_step, n_steps = shape
    return Batches(
        job.rows,
        job.pair_tensors() if pairs_per_step else PairTensors.none(),
        pairs_per_step=pairs_per_step,
        rows_per_step=rows_per_step,
        n_steps=n_steps,
        seed=job.session.seed,
        stream=f"{stage} {part}",
        part=part,
    )

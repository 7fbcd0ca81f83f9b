"""DCGMM: a variational autoencoder whose prior is a Gaussian mixture conditioned on the pairs.

    minimize  reconstruction error + KL[q(z, c | x) || p(z, c)] - Σ_pairs W_ab (g_a · g_b)

with g the responsibilities of the components, W = +|W| for must-links and -|W| for cannot-links. Without
constraints it is VaDE.

Reference: Manduchi et al., "Deep conditional Gaussian mixture model for constrained clustering",
NeurIPS 2021. Derived from the model; ``losses/soft_assignments.py`` has the equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from sklearn.utils._param_validation import StrOptions
from torch import Tensor

from spherepair.estimators.job import Job, Stage
from spherepair.estimators.method_families import AssigningObjective, CenterClusterer
from spherepair.estimators.mixture_start import choose_likelihood, fit_mixture, pretrain_autoencoder
from spherepair.losses.pair_losses import weighted_mean
from spherepair.losses.soft_assignments import mixture_divergence, mixture_pair_loss, row_error
from spherepair.networks.baseline_networks import MixtureVAE, mean_and_log_variance, precisions
from spherepair.training import Plan, Recipe, TrainingState
from spherepair.training.batches import Batch, Batches, PairTensors
from spherepair.training.hardware import Hardware, derive_seed, torch_generator
from spherepair.training.optimization import StoppingRule
from spherepair.training.rows import RowSource, map_rows
from spherepair.validation import AT_LEAST_ONE, NOT_NEGATIVE, hidden_sizes, store_parameters

ROWS, PAIRS = "rows", "pairs"


class Functions(NamedTuple):
    """The small operations of a step beside the network, as functions of tensors."""

    draw: Any
    bound: Any
    agree: Any


class DCGMMObjective(AssigningObjective):
    """Named terms: reconstruction and divergence of rows; the same of the ends of pairs, and the pairs.

    Parameters
    ----------
    network : MixtureVAE
    rows : RowSource
    hardware : Hardware
    pair_weight : float
    """

    def __init__(
        self, network: MixtureVAE, rows: RowSource, hardware: Hardware, *, pair_weight: float
    ) -> None:
        super().__init__(network, rows, hardware)
        self._pair_weight = pair_weight
        self.pure_functions = FUNCTIONS
        self._is_bernoulli = bool(network.is_bernoulli)
        self._generator: torch.Generator | None = None

    def on_epoch_start(self, epoch: int, state: TrainingState) -> None:
        """Take the noise of this epoch."""
        self._generator = state.generator

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """The evidence bound of all rows of the batch, and the agreement of its pairs."""
        if batch.part == ROWS:
            error, divergence, _ = self._evidence_bound(batch.x, batch.row_weight)
            return {"reconstruction": error, "divergence": divergence}
        is_real = (batch.pair_weight > 0).float().repeat(2)
        error, divergence, logits = self._evidence_bound(batch.x, is_real)
        left, right, _ = batch.split(logits)
        agreement = self.pure_functions.agree(left, right, batch.is_must_link, weight=batch.pair_weight)
        return {
            "pairs": self._pair_weight * agreement,
            "pair_reconstruction": error,
            "pair_divergence": divergence,
        }

    def _evidence_bound(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Reconstruction error and divergence, each a weighted mean, and the responsibilities as logits."""
        functions = self.pure_functions
        target = x / self.network.ceiling
        answer = self.network.posterior(target)
        z = functions.draw(answer, self._noise(answer))
        prior = {"centers": self.network.centers, "log_variances": self.network.log_variances}
        found: tuple[Tensor, Tensor, Tensor] = functions.bound(
            z, answer, self.network.decode(z), target, weight, is_bernoulli=self._is_bernoulli, **prior
        )
        return found

    def _noise(self, answer: Tensor) -> Tensor:
        """Standard normal noise; zero while the network is evaluated."""
        noise = answer.new_empty(len(answer), answer.shape[1] // 2)
        return noise.normal_(generator=self._generator) if self.training else noise.zero_()


def _draw(answer: Tensor, noise: Tensor) -> Tensor:
    """Embeddings drawn from the distribution that the encoder answers with."""
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
    """Error, divergence and logits from the network's answer, drawn embeddings and what they decode to."""
    error = row_error(decoded, target, weight=weight, is_bernoulli=is_bernoulli)
    logits, divergence = mixture_divergence(
        z, *mean_and_log_variance(answer), centers=centers, precisions=precisions(log_variances)
    )
    return error, weighted_mean(divergence, weight), logits


FUNCTIONS = Functions(_draw, _bound, mixture_pair_loss)


# Differs from the paper: labels come from the mean of a row's embedding. The authors draw the embedding at
# random, so that the same row may get different labels.
class DCGMM(CenterClusterer):
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
        Likelihood of rows given embeddings. ``"auto"`` is Bernoulli for values such as pixels, which are not
        negative and whose columns share one maximum, by which they are divided; Gaussian otherwise.
    pretraining_epochs : int, default=10
        Epochs of the plain autoencoder before the mixture is fitted to its embedding.
    start : {"likelihood", "pairs"}, default="likelihood"
        Which first mixture is used: the most likely of three, as published, or the one of twelve that
        satisfies most of the given pairs. Training seldom repairs a bad one.
    scaling : {"auto", "standard", "none"}, default="auto"
        How columns are scaled.
    batch_size : int, default=128
        Rows per step; steps on pairs have half as many pairs.
    max_epochs : int, default=500
        Epochs after pretraining.
    learning_rate : float, default=1e-3
        Learning rate of Adam; multiplied by 0.9 every 20 epochs.
    stopping : str or StoppingRule, default="fixed"
        When to stop before ``max_epochs``.
    robust : bool, default=False
        Whether to estimate which answers are wrong and to train once more on what each is worth, see
        ``wrong_answers`` of :class:`spherepair.SpherePair`.
    device, precision, random_state, progress
        As in :class:`spherepair.SpherePair`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_rows, embedding_dim)
        Means of the rows' embeddings.
    cluster_centers_ : ndarray of shape (n_clusters, embedding_dim)
        Means of the components.
    labels_, history_, constraints_, network_, n_clusters_, n_features_in_, feature_names_in_
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
        **CenterClusterer._parameter_constraints,
        "robust": ["boolean"],
        "pair_weight": [NOT_NEGATIVE],
        "likelihood": [StrOptions({"auto", "bernoulli", "gaussian"})],
        "pretraining_epochs": [AT_LEAST_ONE],
        "start": [StrOptions({"likelihood", "pairs"})],
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
        start: str = "likelihood",
        scaling: str = "auto",
        batch_size: int = 128,
        max_epochs: int = 500,
        learning_rate: float = 1e-3,
        stopping: str | StoppingRule = "fixed",
        robust: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: Any = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> MixtureVAE:
        return MixtureVAE(
            n_features,
            embedding_dim,
            int(self.n_clusters),
            hidden_dims=hidden_sizes(self.hidden_dims),
            generator=torch_generator(seed, "network"),
        )

    def _pretrain(self, job: Job) -> None:
        choose_likelihood(job.network, job.rows, self.likelihood)
        pretrain_autoencoder(
            job.network,
            job.rows,
            job.session,
            recipe=Recipe(learning_rate=self.learning_rate),
            epochs=self.pretraining_epochs,
        )

    def _initialize(self, job: Job) -> None:
        """Components from a Gaussian mixture fitted to the embedding."""
        network = job.network.eval()
        embedding = map_rows(lambda x: self._embed(network, x), job.rows, self._hardware)
        pairs = job.trusted if self.start == "pairs" else None
        seed = derive_seed(self._seed, "mixture")
        fit_mixture(embedding, int(self.n_clusters), seed=seed, pairs=pairs).write_into(network)

    def _plan(self, job: Job, stage: Stage) -> Plan:
        objective = DCGMMObjective(job.network, job.rows, self._hardware, pair_weight=self.pair_weight)
        # Differs from the paper: the rate falls at epochs 20, 40, ...; in the authors' code one earlier.
        recipe = Recipe(learning_rate=self.learning_rate, decay_every=20, decay_factor=0.9)
        return Plan(objective, self._batches(job, stage.name), recipe)

    def _batches(self, job: Job, stage: str) -> tuple[Batches, ...]:
        """Rows, then pairs: half as many pairs as rows in a step, and another half of them in every epoch."""
        # Differs from the paper: the authors' epochs end with the rows, so theirs are a little shorter, and
        # a step sees only its own pairs, not others that happen to join its rows.
        size, n_rows, n_pairs = int(self.batch_size), job.rows.n_rows, len(job.trusted)
        rows = Batches(
            job.rows,
            PairTensors.none(),
            pairs_per_step=0,
            rows_per_step=min(size, n_rows),
            n_steps=max(1, n_rows // size),
            seed=job.session.seed,
            stream=f"{stage} {ROWS}",
            part=ROWS,
        )
        if n_pairs == 0:
            return (rows,)
        half = min(max(1, size // 2), n_pairs)
        pairs = Batches(
            job.rows,
            PairTensors.of(job.trusted),
            pairs_per_step=half,
            rows_per_step=0,
            n_steps=max(1, n_pairs // size),
            seed=job.session.seed,
            stream=f"{stage} {PAIRS}",
            part=PAIRS,
        )
        return (rows, pairs)

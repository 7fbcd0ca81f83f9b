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
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import StrOptions
from torch import Tensor

from spherepair.estimators.anchored import AnchoredClusterer
from spherepair.estimators.base import Job
from spherepair.estimators.mixture_objective import FUNCTIONS, Functions, MixtureObjective
from spherepair.estimators.mixture_start import choose_likelihood, fit_mixture, pretrain_plainly
from spherepair.estimators.parameters import AT_LEAST_ONE, NOT_NEGATIVE, hidden_sizes, store_parameters
from spherepair.estimators.sweeps import sweep
from spherepair.networks.mixture import MixtureVAE
from spherepair.training.batches import Batch, Batches
from spherepair.training.compiling import WORTH_COMPILING, compiled
from spherepair.training.embedding import map_rows
from spherepair.training.engine import Objective, Recipe
from spherepair.training.hardware import Hardware
from spherepair.training.randomness import derive_seed, torch_generator
from spherepair.training.rows import RowSource
from spherepair.training.stopping import StoppingRule

ROWS, PAIRS = "rows", "pairs"


class DCGMMObjective(MixtureObjective):
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

    def __init__(
        self,
        network: MixtureVAE,
        rows: RowSource,
        hardware: Hardware,
        *,
        pair_weight: float,
        compiles: bool = False,
    ) -> None:
        functions = Functions(*map(compiled, FUNCTIONS)) if compiles else FUNCTIONS
        super().__init__(network, rows, hardware, functions=functions)
        self._pair_weight = pair_weight

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """The evidence bound of all rows of the batch, and the agreement of pairs where it has some."""
        if batch.part == ROWS:
            error, divergence, _ = self.bound(batch.x, batch.row_weight)
            return {"reconstruction": error, "divergence": divergence}
        is_real = (batch.pair_weight > 0).float().repeat(2)
        error, divergence, logits = self.bound(batch.x, is_real)
        left, right, _ = batch.split(logits)
        agreement = self.functions.agree(left, right, batch.is_must_link, weight=batch.pair_weight)
        return {
            "pairs": self._pair_weight * agreement,
            "pair_reconstruction": error,
            "pair_divergence": divergence,
        }


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
    start : {"likelihood", "pairs"}, default="likelihood"
        Which first mixture is taken: the likeliest of three, as published, or the one of a dozen that
        keeps most of the given pairs. Training seldom mends a bad one.
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
        **AnchoredClusterer._parameter_constraints,
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
        on_conflict: str = "raise",
        checkpoint: str | Path | None = None,
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
        recipe = Recipe(learning_rate=self.learning_rate)
        pretrain_plainly(job.network, job.rows, job.session, recipe=recipe, epochs=self.pretraining_epochs)

    def _initialise(self, job: Job) -> None:
        """Components from a Gaussian mixture fitted to the embedding."""
        network = job.network.eval()
        embedding = map_rows(lambda x: self._embed(network, x), job.rows, self._hardware)
        pairs = job.pairs if self.start == "pairs" else None
        seed = derive_seed(self._seed, "mixture")
        fit_mixture(embedding, int(self.n_clusters), seed=seed, pairs=pairs).write_into(network)

    def _build_objective(self, job: Job) -> Objective:
        n_steps = int(self.max_epochs) * sum(part.n_steps for part in self._sweeps(job, "pairs"))
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
        rows = sweep(
            job, f"{stage} {ROWS}", rows_per_step=min(size, n_rows), n_steps=max(1, n_rows // size), part=ROWS
        )
        if n_pairs == 0:
            return [rows]
        half, n_steps = min(max(1, size // 2), n_pairs), max(1, n_pairs // size)
        return [rows, sweep(job, f"{stage} {PAIRS}", pairs_per_step=half, n_steps=n_steps, part=PAIRS)]

"""What DCGMM does before it trains on pairs: choose a likelihood, train an autoencoder, fit a mixture."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError
from spherepair.losses.soft_assignments import row_error
from spherepair.metrics import pair_satisfaction
from spherepair.networks.baseline_networks import MixtureVAE, mean_and_log_variance
from spherepair.training import Objective, Plan, Recipe
from spherepair.training.batches import Batch, row_batches
from spherepair.training.rows import RowSource, blocks
from spherepair.training.session import Session

#: Number of mixtures of which the most likely is used, and of those among which pairs choose.
N_STARTS, N_CHOICES = 3, 12
#: Rows on which the mixture is fitted; more do not change it. Differs from the paper: the authors use all.
MIXTURE_ROWS = 20_000
#: Columns share a maximum if half of those that are not empty reach this share of it.
SHARED_MAXIMUM = 0.9
PRETRAINING_STAGE, PRETRAINING_BATCH = "pretraining", 32


class AutoencodingObjective(Objective):
    """The encoder's means and the decoder as a plain autoencoder, without noise and divergence.

    Parameters
    ----------
    network : MixtureVAE
    """

    def __init__(self, network: MixtureVAE) -> None:
        super().__init__()
        self.network = network
        self._is_bernoulli = bool(network.is_bernoulli)

    def terms(self, batch: Batch) -> dict[str, Tensor]:
        """One term, the mean error over features, for which the published learning rate was chosen."""
        target = batch.x / self.network.ceiling
        decoded = self.network.decode(mean_and_log_variance(self.network.posterior(target))[0])
        error = row_error(decoded, target, weight=batch.row_weight, is_bernoulli=self._is_bernoulli)
        return {"reconstruction": error / batch.x.shape[1]}

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """All but the mixture; the encoder's variances have no gradient in this stage."""
        parts = (self.network.encoder, self.network.decoder)
        return [([parameter for part in parts for parameter in part.parameters()], 1.0)]


def pretrain_autoencoder(
    network: MixtureVAE, rows: RowSource, session: Session, *, recipe: Recipe, epochs: int
) -> None:
    """Train the network in place as a plain autoencoder."""
    batches = row_batches(rows, batch_size=PRETRAINING_BATCH, seed=session.seed, stream=PRETRAINING_STAGE)
    plan = Plan(AutoencodingObjective(network), (batches,), recipe)
    session.run_stage(plan, stage=PRETRAINING_STAGE, max_epochs=epochs)


@dataclass(frozen=True)
class MixtureStart:
    """Components of a diagonal Gaussian mixture: centers and log-variances, each (K, D)."""

    centers: NDArray[np.float32]
    log_variances: NDArray[np.float32]

    @classmethod
    def of(cls, mixture: GaussianMixture) -> MixtureStart:
        """The components of a fitted mixture."""
        return cls(mixture.means_.astype(np.float32), np.log(mixture.covariances_).astype(np.float32))

    @torch.no_grad()
    def write_into(self, network: MixtureVAE) -> None:
        """Copy the components into the mixture of ``network``."""
        network.centers.copy_(torch.from_numpy(self.centers))
        network.log_variances.copy_(torch.from_numpy(self.log_variances))


def fit_mixture(
    embedding: NDArray[np.float32], n_clusters: int, *, seed: int, pairs: Constraints | None = None
) -> MixtureStart:
    """Fit a diagonal Gaussian mixture to (a sample of) embeddings.

    Parameters
    ----------
    embedding : ndarray of shape (n, D)
    n_clusters : int
    seed : int
    pairs : Constraints, optional
        Choose, of twelve mixtures, the one that satisfies most of these pairs, with must-links and
        cannot-links counting alike: the most likely one may have two classes in one component. Without
        pairs, or with pairs of one kind only, the most likely of three is used.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]], dtype=np.float32)
    >>> sorted(fit_mixture(rows, 2, seed=0).centers[:, 0].round(2).tolist())
    [0.05000000074505806, 5.050000190734863]
    """
    rng = np.random.RandomState(seed % 2**32)
    sample = embedding
    if len(embedding) > MIXTURE_ROWS:
        sample = embedding[np.sort(rng.permutation(len(embedding))[:MIXTURE_ROWS])]
    fit = partial(_fit, sample.astype(np.float64), n_clusters, rng)
    if pairs is None or not 0 < pairs.is_must_link.sum() < len(pairs):
        return MixtureStart.of(fit(n_init=N_STARTS))
    mixtures = [fit(n_init=1) for _ in range(N_CHOICES)]
    return MixtureStart.of(max(mixtures, key=lambda mixture: _satisfaction(mixture, embedding, pairs)))


def _fit(
    sample: NDArray[np.float64], n_clusters: int, rng: np.random.RandomState, *, n_init: int
) -> GaussianMixture:
    mixture = GaussianMixture(n_clusters, covariance_type="diag", n_init=n_init, random_state=rng)
    # One thread: scikit-learn's k-means inside sums centers in the order in which threads finish.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not be optimal
        return mixture.fit(sample)


def _satisfaction(mixture: GaussianMixture, embedding: NDArray[np.float32], pairs: Constraints) -> float:
    """Mean of the shares of must-links and of cannot-links that the components satisfy."""
    left, right = (mixture.predict(embedding[ends].astype(np.float64)) for ends in (pairs.left, pairs.right))
    ends = np.arange(len(pairs))
    found = pair_satisfaction(
        np.concatenate([left, right]), ends, ends + len(pairs), pairs.is_must_link, weight=pairs.weight
    )
    return 0.5 * (found.must_link + found.cannot_link)


def choose_likelihood(network: MixtureVAE, rows: RowSource, likelihood: str) -> None:
    """Set the likelihood of rows in the network, and the number by which rows are divided."""
    ceiling = pixel_ceiling(rows, likelihood)
    network.is_bernoulli.fill_(ceiling is not None)
    network.ceiling.fill_(1.0 if ceiling is None else ceiling)


def pixel_ceiling(rows: RowSource, likelihood: str) -> float | None:
    """The largest value, by which rows are divided for a Bernoulli likelihood; ``None`` for a Gaussian one.

    Parameters
    ----------
    rows : RowSource
    likelihood : {"auto", "bernoulli", "gaussian"}
    """
    if likelihood == "gaussian":
        return None
    smallest, largest = _column_ranges(rows)
    top = float(largest.max())
    if likelihood == "auto":
        return top if bool(smallest.min() >= 0) and _share_maximum(largest) else None
    if bool(smallest.min() < 0) or top <= 0:
        raise InvalidParameterError(
            "likelihood='bernoulli' needs rows without negative values and not all zero after scaling, got "
            f"values from {float(smallest.min()):g} to {top:g}; use scaling='none' or likelihood='gaussian'."
        )
    return top


def _column_ranges(rows: RowSource) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of every column."""
    smallest = torch.full((rows.n_features,), torch.inf, device=rows.device)
    largest = -smallest
    for start, stop in blocks(rows.n_rows, 8192):
        block = rows.block(start, stop)
        smallest = torch.minimum(smallest, block.amin(dim=0))
        largest = torch.maximum(largest, block.amax(dim=0))
    return smallest, largest


def _share_maximum(largest: Tensor) -> bool:
    used = largest[largest > 0]
    return len(used) > 0 and bool(used.median() >= SHARED_MAXIMUM * largest.max())

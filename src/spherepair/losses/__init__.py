"""Losses: pure functions of tensors, in the notation of the papers."""

from spherepair.losses.pair_losses import (
    margin_pair_loss,
    noisy_pair_loss,
    pair_likelihood_loss,
    weighted_mean,
)
from spherepair.losses.soft_assignments import (
    log_volume,
    mixture_divergence,
    mixture_pair_loss,
    row_error,
    target_distribution,
    target_divergence,
)
from spherepair.losses.spherepair_loss import (
    PairGroup,
    angular_losses,
    angular_pair_loss,
    pair_angles,
    reconstruction_loss,
    shares,
)

__all__ = [
    "PairGroup",
    "angular_losses",
    "angular_pair_loss",
    "log_volume",
    "margin_pair_loss",
    "mixture_divergence",
    "mixture_pair_loss",
    "noisy_pair_loss",
    "pair_angles",
    "pair_likelihood_loss",
    "reconstruction_loss",
    "row_error",
    "shares",
    "target_distribution",
    "target_divergence",
    "weighted_mean",
]

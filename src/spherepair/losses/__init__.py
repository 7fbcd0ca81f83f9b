"""Losses: pure functions of tensors, each the sum of a few lines of a paper."""

from spherepair.losses.angular import (
    PairGroup,
    angular_losses,
    angular_pair_loss,
    pair_angles,
    shares,
)
from spherepair.losses.reconstruction import reconstruction_loss

__all__ = [
    "PairGroup",
    "angular_losses",
    "angular_pair_loss",
    "pair_angles",
    "reconstruction_loss",
    "shares",
]

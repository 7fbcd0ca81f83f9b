"""Losses: pure functions of tensors, each the sum of a few lines of a paper."""

from spherepair.losses.angular import angular_pair_loss, pair_angles
from spherepair.losses.reconstruction import reconstruction_loss

__all__ = ["angular_pair_loss", "pair_angles", "reconstruction_loss"]

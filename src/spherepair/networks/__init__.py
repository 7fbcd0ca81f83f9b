"""Networks: torch modules that know nothing of constraints, training or clustering."""

from spherepair.networks.autoencoder import ARCHITECTURES, Autoencoder, build_autoencoder
from spherepair.networks.mlp import mlp

__all__ = ["ARCHITECTURES", "Autoencoder", "build_autoencoder", "mlp"]

"""Networks: torch modules that know nothing of constraints, training or clustering."""

from spherepair.networks.autoencoder import ARCHITECTURES, Autoencoder, build_autoencoder, mlp

__all__ = ["ARCHITECTURES", "Autoencoder", "build_autoencoder", "mlp"]

"""The six methods that the paper compares SpherePair with, on the same engine and interface."""

from spherepair.estimators.autoembedder import AutoEmbedder
from spherepair.estimators.dcc import VanillaDCC, VolMaxDCC
from spherepair.estimators.dcgmm import DCGMM
from spherepair.estimators.dec import CIDEC, SDEC

__all__ = ["CIDEC", "DCGMM", "SDEC", "AutoEmbedder", "VanillaDCC", "VolMaxDCC"]

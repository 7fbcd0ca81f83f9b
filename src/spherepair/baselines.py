"""The six methods that the paper compares SpherePair with, on the same engine and interface."""

from spherepair.estimators.autoembedder import AutoEmbedder
from spherepair.estimators.cidec import CIDEC
from spherepair.estimators.dcgmm import DCGMM
from spherepair.estimators.sdec import SDEC
from spherepair.estimators.vanilla_dcc import VanillaDCC
from spherepair.estimators.volmax_dcc import VolMaxDCC

__all__ = ["CIDEC", "DCGMM", "SDEC", "AutoEmbedder", "VanillaDCC", "VolMaxDCC"]

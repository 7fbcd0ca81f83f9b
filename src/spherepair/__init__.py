"""Constrained clustering on the sphere.

Group rows of features from must-link and cannot-link pairs, find how many clusters there are, and
label rows never seen. See :class:`SpherePair` and :class:`Constraints`.
"""

import os

# Threads of a matrix product wait for each other; OpenMP's way is to spin meanwhile. On a machine that has
# anything else to do, the one they wait for is then kept from running, and a step takes many times as long.
# Read when torch is loaded, so it has to be said before; whoever has set it keeps it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
from spherepair.constraints import Constraints
from spherepair.estimators.loading import load
from spherepair.estimators.spherepair import SpherePair
from spherepair.version import __version__

__all__ = ["ClusterNumber", "Constraints", "SpherePair", "__version__", "infer_n_clusters", "load"]

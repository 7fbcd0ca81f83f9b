"""Constrained clustering on the sphere.

Group rows of features from must-link and cannot-link pairs, find how many clusters there are, and
label rows never seen. See :class:`SpherePair` and :class:`Constraints`.
"""

from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
from spherepair.constraints import Constraints
from spherepair.estimators.loading import load
from spherepair.estimators.spherepair import SpherePair
from spherepair.version import __version__

__all__ = ["ClusterNumber", "Constraints", "SpherePair", "__version__", "infer_n_clusters", "load"]

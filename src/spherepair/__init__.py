"""Constrained clustering on the sphere.

Group rows of features from must-link and cannot-link pairs, find how many clusters there are, and
label rows never seen. See :class:`SpherePair` and :class:`Constraints`.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spherepair.version import __version__

if TYPE_CHECKING:
    from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters
    from spherepair.constraints import Constraints
    from spherepair.estimators.loading import load
    from spherepair.estimators.spherepair import SpherePair

# What follows is read when torch is loaded, so it has to be said before; whoever has set any of it keeps it.
# Threads of a matrix product wait for each other; OpenMP's way is to spin meanwhile. On a machine that has
# anything else to do, the one they wait for is then kept from running, and a step takes many times as long.
# GNU's OpenMP can spin for a moment and then sleep: most waits are so short that waking up takes longer.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
# Torch's own allocator (mimalloc, on ARM) keeps freed memory for so many milliseconds: steps reuse it.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")

__all__ = ["ClusterNumber", "Constraints", "SpherePair", "__version__", "infer_n_clusters", "load"]

#: Where these are; looked up when they are first asked for, since torch takes seconds to load.
_HOMES = {
    "ClusterNumber": "clustering.cluster_number",
    "Constraints": "constraints",
    "SpherePair": "estimators.spherepair",
    "infer_n_clusters": "clustering.cluster_number",
    "load": "estimators.loading",
}
_PARTS = (
    "baselines", "benchmark", "clustering", "constraints", "datasets", "errors", "estimators", "losses",
    "metrics", "networks", "plots", "report", "theory", "training",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"spherepair.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'spherepair' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"spherepair.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, *_PARTS))

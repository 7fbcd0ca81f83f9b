"""Constrained clustering on the sphere.

Group rows of features from must-link and cannot-link pairs, find the number of clusters, and label new
rows. See :class:`SpherePair` and :class:`Constraints`.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

#: That of ``typing``, which takes longer to load than all that the command line needs to notice Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from spherepair.asking import Interview
    from spherepair.clustering import ClusterNumber, infer_n_clusters
    from spherepair.constraints import Constraints
    from spherepair.estimators import load
    from spherepair.estimators.spherepair import SpherePair
    from spherepair.terms import Terms

__all__ = [
    "ClusterNumber",
    "Constraints",
    "Interview",
    "Schedule",
    "SpherePair",
    "Terms",
    "__version__",
    "infer_n_clusters",
    "load",
]

#: Modules of the public names; imported at first use, since torch takes seconds to load.
_MODULES = {
    "ClusterNumber": "clustering",
    "Constraints": "constraints",
    "Interview": "asking",
    "Schedule": "training.batches",
    "SpherePair": "estimators.spherepair",
    "Terms": "terms",
    "infer_n_clusters": "clustering",
    "load": "estimators",
}
_PACKAGES = (
    "asking", "baselines", "benchmark", "clustering", "constraints", "datasets", "encoders", "errors",
    "estimators", "losses", "metrics", "networks", "plots", "report", "scale", "terms", "theory", "training",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"spherepair.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'spherepair' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"spherepair.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, *_PACKAGES))

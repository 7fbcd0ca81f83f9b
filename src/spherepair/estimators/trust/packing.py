"""What a model knows of its limits, as it is saved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from spherepair.clustering.calibration import Calibration
from spherepair.clustering.novelty import NoveltyScale
from spherepair.estimators.trust.explaining import default_names

#: How the names of arrays begin that are saved.
ARRAYS = "novelty."


def pack_assessment(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a model knows of its limits: an entry for its description, and arrays."""
    found, scale = model.calibration_, model.novelty_scale_
    arrays = {} if scale is None else scale.to_arrays()
    return (
        {"calibration": None if found is None else asdict(found), "group_names": model.group_names_},
        {f"{ARRAYS}{name}": array for name, array in arrays.items()},
    )


def restore_assessment(model: Any, manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Take over what :func:`pack_assessment` gave; models of spherepair 0.1 say nothing of their limits."""
    found = manifest.get("calibration")
    model.calibration_ = None if found is None else Calibration(**found)
    own = {k.removeprefix(ARRAYS): array for k, array in arrays.items() if k.startswith(ARRAYS)}
    model.novelty_scale_ = NoveltyScale.from_arrays(own) if own else None
    model.group_names_ = manifest.get("group_names", default_names(model.n_clusters_))

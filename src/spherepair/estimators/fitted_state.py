"""What is left of a fit: all, nothing, or all but its rows; what scikit-learn asks of it, what is saved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from spherepair.clustering.calibration import Calibration
from spherepair.clustering.novelty import NoveltyScale
from spherepair.errors import MissingRowsError
from spherepair.estimators.trust.explaining import default_names

#: What a model has for each row or pair of its fit, and lacks if it was saved without them.
ROW_ATTRIBUTES = ("labels_", "embedding_", "constraints_", "judgment_", "wrong_answers_", "pair_weights_")
#: How the names of the arrays begin that tell how far new rows lie from those of the fit.
NOVELTY_ARRAYS = "novelty."


class FittedState(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Base of all estimators: whether they are fitted, and what they leave behind when they are copied."""

    def _reset(self) -> None:
        """Drop the results of an earlier fit: a fit that fails must not leave a mixture of two models."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    @property
    def _n_features_out(self) -> int:
        return int(self._embedding_dim)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_clusters_")  # the last that a fit sets

    def __getattr__(self, name: str) -> Any:
        if name in ROW_ATTRIBUTES and "n_clusters_" in vars(self):
            raise MissingRowsError(
                f"{name} is not there: this model was saved without the labels, embedding and pairs of its "
                "rows; it predicts, but whatever needs these needs a model saved with rows=True."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # A pickled or copied model leaves the training table behind.
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_table": None} if hasattr(self, "_table") else state


def pack_assessment(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a model knows of its limits: an entry for its description, and arrays."""
    found, scale = model.calibration_, model.novelty_scale_
    arrays = {} if scale is None else scale.to_arrays()
    return (
        {"calibration": None if found is None else asdict(found), "group_names": model.group_names_},
        {f"{NOVELTY_ARRAYS}{name}": array for name, array in arrays.items()},
    )


def restore_assessment(model: Any, manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Take over what :func:`pack_assessment` gave; models of spherepair 0.1 say nothing of their limits."""
    found = manifest.get("calibration")
    model.calibration_ = None if found is None else Calibration(**found)
    own = {
        k.removeprefix(NOVELTY_ARRAYS): array for k, array in arrays.items() if k.startswith(NOVELTY_ARRAYS)
    }
    model.novelty_scale_ = NoveltyScale.from_arrays(own) if own else None
    model.group_names_ = manifest.get("group_names", default_names(model.n_clusters_))

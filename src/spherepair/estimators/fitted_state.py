"""What scikit-learn asks of an estimator, and what is there of a fit: all, nothing, or all but its rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from spherepair.errors import MissingRowsError

#: What a model has for each row or pair of its fit, and lacks if it was saved without them.
ROW_ATTRIBUTES = ("labels_", "embedding_", "constraints_", "judgment_", "wrong_answers_", "pair_weights_")


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

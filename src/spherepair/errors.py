"""Every exception and warning that a user of spherepair can meet.

Errors derive from :class:`SpherePairError` and from the built-in class a scikit-learn user would
catch (``ValueError`` for bad input), so that existing handlers keep working.
"""

from __future__ import annotations


class SpherePairError(Exception):
    """Base class of all errors raised on purpose by spherepair."""


class InvalidDataError(SpherePairError, ValueError):
    """The feature table cannot be used: what is wrong, where, and what to do about it."""


class InvalidConstraintsError(SpherePairError, ValueError):
    """The pairs cannot be used; the message names the row of the file or the position of the pair."""


class ConflictError(InvalidConstraintsError):
    """The constraints contradict each other.

    Attributes
    ----------
    conflicts : ConflictReport or None
        Every contradiction with the chain of must-links that proves it.
    """

    def __init__(self, message: str, conflicts: object = None) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class InvalidParameterError(SpherePairError, ValueError):
    """A constructor or function parameter is out of its range."""


class ModelFileError(SpherePairError, ValueError):
    """A saved model or checkpoint is missing, truncated, altered or of an unknown version."""


class DatasetNotFoundError(SpherePairError, FileNotFoundError):
    """A benchmark data set is not on this machine; the message says which file to put where."""


class MissingDependencyError(SpherePairError, ImportError):
    """An optional package is needed for this; the message says how to install it."""


class DeviceMemoryError(SpherePairError, MemoryError):
    """The device has too little memory even for the smallest transfers that were tried."""


class TrainingDivergedError(SpherePairError, RuntimeError):
    """The loss became infinite or undefined during training."""


class SpherePairWarning(UserWarning):
    """Base class of all warnings issued by spherepair."""


class ConstraintWarning(SpherePairWarning):
    """The constraints can be used, but something is lost; the message says what."""


class EmbeddingDimensionWarning(SpherePairWarning):
    """The embedding has fewer dimensions than the number of clusters needs (theorem: D >= K)."""


class InvalidAnswerError(SpherePairError, ValueError):
    """An answer does not fit its question, or names a row or question that is not there."""


class RecordError(SpherePairError, ValueError):
    """A record of answers cannot be used: of other rows, in use elsewhere, damaged, or not writable."""

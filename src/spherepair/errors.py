"""Every exception and warning that a user of spherepair can meet.

Errors derive from :class:`SpherePairError` and from the built-in class a scikit-learn user would
catch (``ValueError`` for bad input), so that existing handlers keep working.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence

__all__ = [
    "ConflictError",
    "ConstraintWarning",
    "DatasetNotFoundError",
    "DeviceMemoryError",
    "EmbeddingDimensionWarning",
    "InvalidAnswerError",
    "InvalidConstraintsError",
    "InvalidDataError",
    "InvalidParameterError",
    "MissingDependencyError",
    "MissingRowsError",
    "ModelFileError",
    "PartError",
    "RecordError",
    "SpherePairError",
    "SpherePairWarning",
    "TrainingDivergedError",
    "UnusableColumnsError",
]

#: Most characters of a file, a value or a foreign message that an error of ours repeats.
LONGEST_QUOTE = 80
#: Most names that a message lists.
LISTED_NAMES = 8


def quoted(value: object, longest: int = LONGEST_QUOTE) -> str:
    r"""A value or a foreign error as a message shows it: on one line, printable, and not too long.

    Examples
    --------
    >>> print(quoted("left\n"), "and", quoted(ValueError("no  number.")))
    'left\n' and no number
    >>> len(quoted("x" * 1000))
    80
    """
    try:
        text = str(value) if isinstance(value, BaseException) else repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    if isinstance(value, BaseException):
        text = " ".join(text.split()).rstrip(".") or type(value).__name__
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:longest])
    return shown if len(text) <= longest else f"{shown[: longest - 1]}…"


def listed(names: Sequence[object]) -> str:
    """Names in quotes, the first eight of them.

    Examples
    --------
    >>> listed(["left", "right"]), listed(range(10))
    ("'left', 'right'", '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    shown = ", ".join(map(quoted, names[:LISTED_NAMES]))
    return shown if len(names) <= LISTED_NAMES else f"{shown} and {len(names) - LISTED_NAMES} more"


def bug_sentence(error: BaseException, doing: str) -> str:
    """What to say of a mistake of ours; its details go into a file, for a report, not onto the terminal.

    Parameters
    ----------
    error : BaseException
    doing : str
        The version, and what it happened in, for the file.
    """
    details = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="spherepair-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            file.write(f"spherepair {doing}\nPython {sys.version}\n\n{details}")
        place = f"details in {file.name}"
    except OSError:
        place = f"details could not be written; it is {quoted(error)}"
    return f"this is a bug of spherepair ({type(error).__name__}); {place}."


class SpherePairError(Exception):
    """Base class of all errors raised on purpose by spherepair."""


class InvalidDataError(SpherePairError, ValueError):
    """The feature table cannot be used: what is wrong, where, and what to do about it.

    Attributes
    ----------
    row : int or None
        The first row at fault, where the message speaks of a row.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class UnusableColumnsError(InvalidDataError):
    """Columns that look like numbers hold some words; all of them are named.

    Attributes
    ----------
    problems : list of (str, int, str, int, int)
        Column, first row that is no number, its value, how many there are, and of how many.
    """

    def __init__(
        self,
        problems: list[tuple[str, int, str, int, int]],
        locate: Callable[[int], str] = "row {}".format,
    ) -> None:
        self.problems = problems
        named = "; ".join(
            f"column {quoted(name)}: {count} of {total} values are no numbers, the first {quoted(value)} in "
            f"{locate(row)}"
            for name, row, value, count, total in problems
        )
        first = quoted(problems[0][0])
        super().__init__(
            f"{named}. Correct them, take them as missing with as_={{{first}: 'number'}}, or leave the "
            f"column out with drop=[{first}]."
        )


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


class MissingRowsError(SpherePairError, AttributeError):
    """A model that was saved without its rows has no labels, embedding or pairs of them."""


class DatasetNotFoundError(SpherePairError, FileNotFoundError):
    """A benchmark data set is not on this machine; the message says which file to put where."""


class PartError(SpherePairError, RuntimeError):
    """A part of a data set could not be done; the message names it. What is done stays."""


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

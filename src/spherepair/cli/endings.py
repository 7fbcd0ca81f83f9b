"""How a command ends when it cannot go on: an exit code and one sentence in the words of the options."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from safetensors import SafetensorError

from spherepair.errors import ConflictError, SpherePairError

DONE, BAD_INPUT, CONTRADICTORY, INTERRUPTED = 0, 2, 3, 130
#: Contradictions that are written out; all are counted.
SHOWN_CONFLICTS = 20

#: Remedies in the words of the library, and the options that stand for them here.
_OPTIONS = (
    ("Give ids= if the file names rows by an id.", "Give --id COLUMN if the file names rows by an id."),
    ('drop_conflicts() or on_conflict="drop"', "--on-conflict drop"),
    ("device='cpu'", "--device cpu"),
    ("device='auto'", "--device auto"),
    ("embedding_dim", "--embedding-dim"),
    ("n_clusters=", "--clusters "),
    ("max_epochs", "--max-epochs"),
    ("random_state", "--seed"),
)


#: How outputs are called until they are whole.
_TEMPORARY = re.compile(r"\.([^/\\]+)\.[0-9a-f]{8}\.tmp")


class InterruptedCommand(Exception):  # noqa: N818
    """Ctrl-C, with what to do next."""


class ReaderGone(Exception):  # noqa: N818
    """Whoever read our output (``head``, a pager) has had enough."""


@dataclass(frozen=True)
class Ending:
    """Why a command stopped.

    Attributes
    ----------
    code : int
        Exit code.
    kind : str
        Name of the error, for machines.
    sentence : str
        What a person reads; empty where nothing needs saying.
    details : dict
        More for machines.
    """

    code: int
    kind: str
    sentence: str
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        message = self.sentence.removeprefix("error: ")
        return {"type": self.kind, "message": message, "exit_code": self.code, **self.details}


def explain(error: Exception) -> Ending | None:
    """The ending for an error that a user can mend; ``None`` for a fault of ours.

    Examples
    --------
    >>> explain(FileNotFoundError(2, "No such file or directory", "rows.csv")).sentence
    'error: rows.csv: No such file or directory.'
    >>> explain(ZeroDivisionError()) is None
    True
    """
    for kinds, code, speak in _ENDINGS:
        if isinstance(error, kinds):
            return Ending(code, type(error).__name__, speak(error), _details(error))
    return None


def in_options(sentence: str) -> str:
    """The sentence on one line, with options instead of parameters.

    Examples
    --------
    >>> in_options("the GPU is full; use device='cpu'.")
    'the GPU is full; use --device cpu.'
    """
    line = " ".join(sentence.split())
    for parameter, option in _OPTIONS:
        # Not within a list: there an experiment may have the name of a parameter.
        line = re.sub(f"(?<!, ){re.escape(parameter)}(?!, )", option, line)
    return line


def _details(error: Exception) -> dict[str, Any]:
    report: Any = getattr(error, "conflicts", None)
    return {} if report is None else dict(report.to_dict(limit=SHOWN_CONFLICTS))


def _plain(error: Exception) -> str:
    return in_options(str(error))


def _sentence(error: Exception) -> str:
    return f"error: {in_options(str(error))}"


def _about_file(error: OSError) -> str:
    if error.strerror is None:
        return _sentence(error)
    name = "" if error.filename is None else f"{_final_name(error.filename)}: "
    return f"error: {name}{error.strerror}."


def _final_name(path: Any) -> str:
    """The file that was meant, where one under a temporary name could not be written."""
    return _TEMPORARY.sub(r"\1", str(path))


def _about_model(error: Exception) -> str:
    return f"error: the model could not be written or read: {in_options(str(error))}."


def _about_memory(error: Exception) -> str:
    return "error: there is too little memory; give fewer rows, or a .npy file, which is streamed."


#: The first that fits decides, so the more particular kinds come first.
_ENDINGS: tuple[tuple[type[Exception], int, Callable[[Any], str]], ...] = (
    (InterruptedCommand, INTERRUPTED, _plain),
    (ReaderGone, DONE, _plain),
    (ConflictError, CONTRADICTORY, _sentence),
    (SpherePairError, BAD_INPUT, _sentence),
    (OSError, BAD_INPUT, _about_file),
    (SafetensorError, BAD_INPUT, _about_model),
    (MemoryError, BAD_INPUT, _about_memory),
)

"""A report as a list of blocks, which Markdown and HTML render alike."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes
    ----------
    text : str
    tone : str
        "below" where we are below the paper, "clearly below" where by more than the spread of our seeds,
        "best" for the winner of a column, "missing" for what was not run; empty for the rest.
    """

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading of level 1, 2 or 3."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Command:
    """A command line to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of entries under a header; the first column names the rows."""

    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure in a file beside the report."""

    file: str
    caption: str
    content: bytes = field(repr=False)


Block = Heading | Paragraph | Command | Table | Picture

MISSING = Entry("missing", "missing")
NOTHING = Entry("")

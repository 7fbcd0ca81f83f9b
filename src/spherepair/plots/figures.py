"""New figures, and figures as files: matplotlib's object interface, without pyplot."""

from __future__ import annotations

import os
import secrets
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spherepair.errors import InvalidParameterError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Widths in inches of one and of both columns of a printed page; text is sized for them.
SINGLE_COLUMN, DOUBLE_COLUMN = 3.3, 6.8
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 9, 8, 7
_LETTERS_PER_INCH = 13
#: Kinds of picture files that can be written.
SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150
#: Dates and versions inside the file, like identifiers drawn at random, would make equal pictures differ.
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError('pictures need matplotlib; pip install "spherepair[plots]".') from error
    return Figure(figsize=(width, height), layout="constrained")


def quiet_axes(axes: Axes) -> None:
    """Take away the frame lines that carry no information."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=SMALL_SIZE, width=0.6, length=3)


def describe(axes: Axes, *, title: str, x: str = "", y: str = "", pad: float = 8.0) -> None:
    """Say what is shown, in sizes that can be read at the width of a column."""
    axes.set_title(wrapped(axes, title), fontsize=TITLE_SIZE, loc="left", pad=pad)
    axes.set_xlabel(x, fontsize=TEXT_SIZE)
    axes.set_ylabel(y, fontsize=TEXT_SIZE)


def wrapped(axes: Axes, title: str) -> str:
    """A title in lines that fit the width of the figure."""
    figure = axes.get_figure(root=True)
    width = figure.get_figwidth() if figure is not None else SINGLE_COLUMN
    return textwrap.fill(title, width=max(12, int(_LETTERS_PER_INCH * width)))


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = DOTS_PER_INCH) -> None:
    """Write a figure under another name first, so that no half of one is ever seen.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path
        The file; its ending (.png, .svg, .pdf) says what it becomes.
    dpi : int
        Dots per inch, where the picture has dots.
    """
    from matplotlib import rc_context

    target = check_picture_name(path)
    suffix = target.suffix.lower()
    with whole_file(target) as temporary, rc_context({"svg.hashsalt": "spherepair"}):
        figure.savefig(temporary, dpi=dpi, format=suffix[1:], facecolor="white", metadata=_METADATA[suffix])


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A temporary name beside the target, of the same ending, renamed at the end if all went well."""
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_picture_name(path: str | os.PathLike[str], *, suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """Refuse the name of a picture whose ending is of no known kind.

    Examples
    --------
    >>> check_picture_name("curve.png").name
    'curve.png'
    """
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise InvalidParameterError(
            f"{target} is no name for a picture; it must end in {', '.join(suffixes)}."
        )
    return target

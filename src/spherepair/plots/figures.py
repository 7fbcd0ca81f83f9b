"""New figures, and figures as files: matplotlib's object interface, without pyplot."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from spherepair.errors import InvalidParameterError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Kinds of picture files that can be written.
SUFFIXES = (".png", ".svg", ".pdf")
_DOTS_PER_INCH = 150
#: Dates and versions inside the file would make equal pictures differ.
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


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure under another name first, so that no half of one is ever seen.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path
        The file; its ending (.png, .svg, .pdf) says what it becomes.
    """
    target = check_picture_name(path)
    suffix = target.suffix.lower()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        figure.savefig(
            temporary, dpi=_DOTS_PER_INCH, format=suffix[1:], facecolor="white", metadata=_METADATA[suffix]
        )
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_picture_name(path: str | os.PathLike[str]) -> Path:
    """Refuse the name of a picture whose ending is of no known kind.

    Examples
    --------
    >>> check_picture_name("curve.png").name
    'curve.png'
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InvalidParameterError(
            f"{target} is no name for a picture; it must end in {', '.join(SUFFIXES)}."
        )
    return target

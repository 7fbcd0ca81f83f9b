"""How figures look and how they are saved: colors, sizes, axes and files, without pyplot.

Colors stay apart for color-blind readers (Okabe and Ito), and each comes with a second cue: clusters
differ in color and marker, lines in color, marker and dash. Sixty-four clusters have styles of their own.
"""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spherepair.errors import InvalidParameterError, MissingDependencyError
from spherepair.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK, YELLOW = "#56B4E9", "#CC79A7", "#222222", "#D8C400"
GRAY, PALE = "#777777", "#D5DAE0"

#: Okabe-Ito, its yellow a little darker so that it shows on white. The last two also draw constraints:
#: with six clusters or fewer no line has the color of a cluster.
_FIRST_COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, VERMILION, BLACK)
#: The same darker; black, which cannot be darker, becomes gray.
_DARKER_COLORS = ("#00446B", "#9A5F00", "#005F45", "#7A4964", "#346C8C", "#6B6A00", "#803800", "#8C8C8C")
COLORS = (*_FIRST_COLORS, *_DARKER_COLORS)
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)))
MUST_LINK: dict[str, Any] = {"color": BLACK, "linestyle": "-"}
CANNOT_LINK: dict[str, Any] = {"color": VERMILION, "linestyle": (0, (4, 2))}

#: Widths in inches of one and of both columns of a printed page; text is sized for them.
SINGLE_COLUMN, DOUBLE_COLUMN = 3.3, 6.8
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 9, 8, 7
_LETTERS_PER_INCH = 13
#: Share of a figure's width that a single subplot fills by default.
_SUBPLOT_WIDTH = 0.775

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
#: The second needs the program ffmpeg.
ANIMATION_SUFFIXES = (".gif", ".mp4")
DOTS_PER_INCH = 150
#: Dates, versions and random identifiers inside a file would make equal pictures differ.
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


@dataclass(frozen=True)
class ClusterStyle:
    """How the points of one cluster are drawn: positions in ``COLORS`` and ``MARKERS``."""

    color_index: int
    marker_index: int

    @property
    def color(self) -> str:
        """The color as a hexadecimal code."""
        return COLORS[self.color_index]

    @property
    def marker(self) -> str:
        """The marker in matplotlib's notation."""
        return MARKERS[self.marker_index]


def cluster_style(cluster: int) -> ClusterStyle:
    """Color and marker of a cluster; no two of the first 64 clusters share both.

    Examples
    --------
    >>> [(cluster_style(k).color, cluster_style(k).marker) for k in (0, 8, 16)]
    [('#0072B2', 'o'), ('#00446B', '^'), ('#0072B2', 's')]
    """
    rounds, place = divmod(cluster, len(MARKERS))
    return ClusterStyle(cluster % len(COLORS), (place + rounds) % len(MARKERS))


def line_style(series: int) -> dict[str, Any]:
    """Color, marker and dash of a line, as keywords of matplotlib's ``plot``.

    Examples
    --------
    >>> line_style(0)["marker"], line_style(8)["marker"]
    ('o', '^')
    """
    style = cluster_style(series)
    return {"color": style.color, "marker": style.marker, "linestyle": DASHES[series % len(DASHES)]}


def new_figure(width: float, height: float, *, layout: Any = "constrained") -> Figure:
    """An empty figure of a size in inches; with the layout "none", its axes stay where they are put."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError('plots need matplotlib; pip install "spherepair[plots]".') from error
    return Figure(figsize=(width, height), layout=layout)


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of a size in inches."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def figure_of(ax: Axes) -> Figure:
    """The whole figure that holds the axes, also when these are part of a subfigure."""
    found: Any = ax.figure
    figure: Figure = found.figure
    return figure


def hide_frame(ax: Axes) -> None:
    """Take away the frame lines that carry no information."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=SMALL_SIZE, width=0.6, length=3)


def describe(ax: Axes, *, title: str, x: str = "", y: str = "", pad: float = 8.0) -> None:
    """Title and axis labels, in sizes that can be read at the width of a column."""
    width = figure_of(ax).get_figwidth() * ax.get_position().width / _SUBPLOT_WIDTH
    wrapped = textwrap.fill(title, width=max(12, int(_LETTERS_PER_INCH * width)))
    ax.set_title(wrapped, fontsize=TITLE_SIZE, loc="left", pad=pad)
    ax.set_xlabel(x, fontsize=TEXT_SIZE)
    ax.set_ylabel(y, fontsize=TEXT_SIZE)


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = DOTS_PER_INCH) -> None:
    """Write a figure to a file, whole or not at all; equal figures make equal files.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        As every plot function returns it.
    path : path
        The file; its ending (.png, .svg, .pdf) is the format.
    dpi : int
        Dots per inch, for formats that have dots.

    Examples
    --------
    >>> import tempfile
    >>> from spherepair.plots import plot_sweep, save_figure
    >>> figure = plot_sweep([1, 2], [[0.5, 0.6]], labels=["a"], title="Accuracy", x_label="D")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(figure, f"{folder}/sweep.png")
    """
    from matplotlib import rc_context

    target = check_picture_name(path)
    suffix = target.suffix.lower()
    with atomic_write(target) as temporary, rc_context({"svg.hashsalt": "spherepair"}):
        figure.savefig(temporary, dpi=dpi, format=suffix[1:], facecolor="white", metadata=_METADATA[suffix])


def save_animation(
    animation: FuncAnimation, path: str | os.PathLike[str], *, fps: int = 8, dpi: int = 100
) -> None:
    """Write an animation to a file, whole or not at all.

    Parameters
    ----------
    animation : matplotlib.animation.FuncAnimation
        As :func:`spherepair.plots.animate_sphere` returns it.
    path : path
        The file; its ending is the format: .gif, or .mp4 if ffmpeg is installed.
    fps : int
        Snapshots per second.
    dpi : int
        Dots per inch.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from spherepair.plots import SphereEvolution, animate_sphere, save_animation
    >>> animation = animate_sphere(SphereEvolution([np.eye(3)] * 2, [0, 1, 2]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_animation(animation, f"{folder}/training.gif", dpi=20)
    """
    from matplotlib.animation import FFMpegWriter, PillowWriter

    target = check_picture_name(path, suffixes=ANIMATION_SUFFIXES)
    is_gif = target.suffix.lower() == ".gif"
    if not is_gif and not FFMpegWriter.isAvailable():
        raise MissingDependencyError(f"{target.name} needs the program ffmpeg; install it or write a .gif.")
    with atomic_write(target, suffix=target.suffix) as temporary:
        animation.save(temporary, writer=PillowWriter(fps=fps) if is_gif else FFMpegWriter(fps=fps), dpi=dpi)


def check_picture_name(path: str | os.PathLike[str], *, suffixes: tuple[str, ...] = PICTURE_SUFFIXES) -> Path:
    """Refuse a file name whose ending is not one of the formats.

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

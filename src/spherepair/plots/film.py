"""Training on the sphere as a film: one frame per snapshot, written whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from spherepair.errors import MissingDependencyError
from spherepair.plots.evolution import SphereEvolution, explain
from spherepair.plots.figures import check_picture_name, new_figure, whole_file
from spherepair.plots.sphere import draw_globe, draw_on_globe

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

#: Kinds of film files that can be written; the second needs the program ffmpeg.
FILM_SUFFIXES = (".gif", ".mp4")
_STILL_SECONDS = 1.5


def animate_sphere(
    evolution: SphereEvolution, *, title: str | None = None, n_pairs: int = 12, fps: int = 8
) -> FuncAnimation:
    """Make a film of training on the sphere; :func:`save_animation` writes it to a file.

    Parameters
    ----------
    evolution : SphereEvolution
    title : str, optional
        Written above the number of the epoch.
    n_pairs : int
        Constraints drawn, half of either kind as far as there are.
    fps : int
        Snapshots per second; the last one stays for a while.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        In a notebook: ``IPython.display.HTML(animation.to_jshtml())``.
    """
    from matplotlib.animation import FuncAnimation

    shown = evolution.turned(n_pairs=n_pairs)
    figure = new_figure(4.2, 4.8)
    # A layout that is settled anew for every picture would make the film tremble.
    figure.set_layout_engine("none")
    explain(figure, [shown], loc="lower center", columns=4)
    film = _Film(figure.add_axes((0.04, 0.10, 0.92, 0.80)), shown, title or shown.name)
    last = len(shown.frames) - 1
    order = [*range(last + 1), *[last] * round(_STILL_SECONDS * fps)]
    return FuncAnimation(figure, film.draw, frames=order, interval=1000 / fps, init_func=list)


def save_animation(
    animation: FuncAnimation, path: str | os.PathLike[str], *, fps: int = 8, dpi: int = 100
) -> None:
    """Write a film under another name first, so that no half of one is ever seen.

    Parameters
    ----------
    animation : matplotlib.animation.FuncAnimation
    path : path
        The file; its ending (.gif, or .mp4 where ffmpeg is installed) says what it becomes.
    fps : int
        Snapshots per second.
    dpi : int
        Dots per inch.
    """
    from matplotlib.animation import FFMpegWriter, PillowWriter

    target = check_picture_name(path, suffixes=FILM_SUFFIXES)
    is_gif = target.suffix.lower() == ".gif"
    if not is_gif and not FFMpegWriter.isAvailable():
        raise MissingDependencyError(f"{target.name} needs the program ffmpeg; install it or write a .gif.")
    with whole_file(target) as temporary:
        animation.save(temporary, writer=PillowWriter(fps=fps) if is_gif else FFMpegWriter(fps=fps), dpi=dpi)


class _Film:
    """One frame after the other on the same globe; clearing the axes each time would take twice as long."""

    def __init__(self, axes: Axes, evolution: SphereEvolution, title: str) -> None:
        self._axes, self._evolution, self._title = axes, evolution, title
        self._frames, self._times = evolution.frames, evolution.times()
        draw_globe(axes)
        self._globe = set(axes.get_children())
        self._shown = -1

    def draw(self, index: int) -> list[Artist]:
        if index != self._shown:
            self._clear()
            self._draw_rows(index)
            self._shown = index
        return []

    def _clear(self) -> None:
        for artist in set(self._axes.get_children()) - self._globe:
            artist.remove()

    def _draw_rows(self, index: int) -> None:
        shown, is_last = self._evolution, index == len(self._frames) - 1
        draw_on_globe(
            self._axes,
            self._frames[index],
            shown.groups,
            constraints=shown.constraints,
            centers=np.asarray(shown.centers) if shown.centers is not None and is_last else None,
            size=14,
        )
        words = [self._title] if self._title else []
        self._axes.set_title("\n".join([*words, f"epoch {self._times[index]}"]), fontsize=11)

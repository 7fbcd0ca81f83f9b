"""Training on the sphere: how rows in three dimensions move over the epochs, as a strip or an animation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.plots.globe import draw_globe, draw_on_globe, facing, plot_sphere
from spherepair.plots.style import (
    BLACK,
    CANNOT_LINK,
    DOUBLE_COLUMN,
    MUST_LINK,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    cluster_style,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How long the last frame of an animation stays.
_STILL_SECONDS = 1.5


@dataclass(frozen=True, eq=False)
class SphereEvolution:
    """Embeddings of the same rows after several epochs.

    Parameters
    ----------
    snapshots : array of shape (n_snapshots, n, 3)
        Unit vectors of the rows.
    labels : array of shape (n,)
        Class of each row, counted from 0.
    epochs : sequence of n_snapshots whole numbers, optional
        When they were taken; 0, 1, 2 … if not given.
    constraints : Constraints, optional
        Pairs of these rows; a few of each kind are drawn.
    centers : array of shape (n_clusters, 3), optional
        Unit vectors of the clusters that were found in the last snapshot.
    name : str
        Written beside the snapshots, for instance ``"K = 3"``.
    class_names : sequence of str, optional
        Names of the classes for the legend.

    Examples
    --------
    >>> SphereEvolution([np.eye(3)] * 2, [0, 1, 2], epochs=[0, 10]).times()
    [0, 10]
    """

    snapshots: ArrayLike
    labels: ArrayLike
    epochs: Sequence[int] | None = None
    constraints: Constraints | None = None
    centers: ArrayLike | None = None
    name: str = ""
    class_names: Sequence[str] | None = None

    @property
    def frames(self) -> NDArray[np.float64]:
        """The snapshots as an array (n_snapshots, n, 3)."""
        return np.asarray(self.snapshots, dtype=np.float64)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The labels as an array (n,)."""
        return np.asarray(self.labels).astype(np.int64)

    def times(self) -> list[int]:
        """The epoch of each snapshot."""
        return list(range(len(self.frames))) if self.epochs is None else [int(e) for e in self.epochs]

    def turned(self, *, n_pairs: int) -> Self:
        """The same, checked, rotated so that clusters face the viewer, with few constraints."""
        frames = self.frames
        if frames.ndim != 3 or frames.shape[1:] != (len(self.groups), 3) or not frames.size:
            raise InvalidDataError(
                "the snapshots must be of shape (n_snapshots, n, 3) with one label per row, got shape "
                f"{frames.shape} and {len(self.groups)} labels; fit with embedding_dim=3."
            )
        turn = facing(frames[-1], self.groups)
        centers = None if self.centers is None else np.asarray(self.centers, np.float64) @ turn
        constraints = None if self.constraints is None else _first_of_each_kind(self.constraints, n_pairs)
        return replace(self, snapshots=frames @ turn, centers=centers, constraints=constraints)


def plot_sphere_strip(
    evolutions: SphereEvolution | Sequence[SphereEvolution],
    *,
    title: str | None = None,
    n_snapshots: int = 5,
    n_pairs: int = 12,
) -> Figure:
    """Draw snapshots side by side, one line per evolution.

    Parameters
    ----------
    evolutions : SphereEvolution or sequence of them
        One line of panels each.
    title : str, optional
    n_snapshots : int
        Snapshots drawn per line, closer together at the start, where most happens.
    n_pairs : int
        Constraints drawn per line, half of each kind if there are enough.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = plot_sphere_strip(SphereEvolution([np.eye(3)] * 2, [0, 1, 2]))
    >>> [axes.get_title() for axes in figure.axes]
    ['epoch 0', 'epoch 1']
    """
    given = [evolutions] if isinstance(evolutions, SphereEvolution) else list(evolutions)
    lines = [evolution.turned(n_pairs=n_pairs) for evolution in given]
    columns = min(n_snapshots, max(len(line.frames) for line in lines))
    figure = new_figure(DOUBLE_COLUMN, len(lines) * (DOUBLE_COLUMN / columns + 0.1) + 0.6)
    panels = figure.subplots(len(lines), columns, squeeze=False)
    for row, line in zip(panels, lines, strict=True):
        _draw_line(row, line, columns=columns)
    add_legend(figure, lines)
    figure.suptitle(title or "Training pulls must-links together and cannot-links apart", fontsize=TITLE_SIZE)
    return figure


def animate_sphere(
    evolution: SphereEvolution, *, title: str | None = None, n_pairs: int = 12, fps: int = 8
) -> FuncAnimation:
    """Animate training on the sphere; :func:`save_animation` writes it to a file.

    Parameters
    ----------
    evolution : SphereEvolution
    title : str, optional
        Written above the number of the epoch.
    n_pairs : int
        Constraints drawn, half of each kind if there are enough.
    fps : int
        Snapshots per second; the last one stays for a moment.

    Returns
    -------
    matplotlib.animation.FuncAnimation
        In a notebook: ``IPython.display.HTML(animation.to_jshtml())``.

    Examples
    --------
    >>> import tempfile
    >>> from spherepair.plots import save_animation
    >>> animation = animate_sphere(SphereEvolution([np.eye(3)] * 2, [0, 1, 2]), title="Three rows")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_animation(animation, f"{folder}/training.gif", dpi=20)
    """
    from matplotlib.animation import FuncAnimation

    shown = evolution.turned(n_pairs=n_pairs)
    # A layout computed anew for every frame would make the animation tremble, and where there was one once,
    # matplotlib draws every frame twice.
    figure = new_figure(4.2, 4.8, layout="none")
    add_legend(figure, [shown], loc="lower center", columns=4)
    frames = _Frames(figure.add_axes((0.04, 0.10, 0.92, 0.80)), shown, title or shown.name)
    last = len(shown.frames) - 1
    order = [*range(last + 1), *[last] * round(_STILL_SECONDS * fps)]
    return FuncAnimation(figure, frames.draw, frames=order, interval=1000 / fps, init_func=list)


def add_legend(
    figure: Figure, lines: Sequence[SphereEvolution], *, loc: Any = "outside lower center", columns: int = 8
) -> None:
    """Add a legend of the classes, links and centers that are drawn."""
    from matplotlib.lines import Line2D

    widest = max(lines, key=lambda line: int(line.groups.max()))
    handles = []
    for group in np.unique(widest.groups).tolist():
        style = cluster_style(group)
        name = f"class {group}" if widest.class_names is None else widest.class_names[group]
        handles.append(Line2D([], [], marker=style.marker, linestyle="", color=style.color, label=name))
    if any(line.constraints is not None for line in lines):
        handles.append(Line2D([], [], label="must-link", **MUST_LINK))
        handles.append(Line2D([], [], label="cannot-link", **CANNOT_LINK))
    if any(line.centers is not None for line in lines):
        handles.append(Line2D([], [], marker="*", linestyle=":", color=BLACK, label="center"))
    figure.legend(
        handles=handles, loc=loc, ncols=columns, frameon=False, fontsize=SMALL_SIZE, markerscale=0.8
    )


def _first_of_each_kind(pairs: Constraints, count: int) -> Constraints:
    half = count // 2
    return pairs.must_links[:half] | pairs.cannot_links[: count - half]


def _draw_line(row: Any, line: SphereEvolution, *, columns: int) -> None:
    frames, times = line.frames, line.times()
    chosen = snapshot_positions(len(frames), columns)
    for axes in row[len(chosen) :]:
        axes.set_axis_off()
    for axes, index in zip(row, chosen, strict=False):
        centers = np.asarray(line.centers) if line.centers is not None and index == chosen[-1] else None
        plot_sphere(
            frames[index], line.groups, constraints=line.constraints, centers=centers, size=4, ax=axes
        )
        axes.set_title(f"epoch {times[index]}", fontsize=SMALL_SIZE, pad=3)
    if line.name:
        row[0].text(-1.2, 0, line.name, rotation=90, ha="right", va="center", fontsize=TEXT_SIZE)


def snapshot_positions(n_frames: int, count: int) -> list[int]:
    """At most ``count`` positions with the first and the last, closer together at the start.

    Examples
    --------
    >>> snapshot_positions(101, 5), snapshot_positions(3, 5)
    ([0, 2, 9, 31, 100], [0, 1, 2])
    """
    if n_frames <= count:
        return list(range(n_frames))
    steps = np.round(np.geomspace(1, n_frames, count)).astype(int) - 1
    # Rounding may make the first few equal: each must be at least one after the one before.
    return [int(s) for s in np.maximum.accumulate(np.maximum(steps, np.arange(count)))]


class _Frames:
    """Draws frame after frame on one globe; clearing the axes each time would take twice as long."""

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

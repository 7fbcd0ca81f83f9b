"""Training on the sphere: how rows in three dimensions move over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.plots.figures import (
    DOUBLE_COLUMN,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    new_figure,
)
from spherepair.plots.palette import BLACK, CANNOT_LINK, MUST_LINK, cluster_style
from spherepair.plots.sphere import draw_sphere, facing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        What it is, for instance ``"K = 3"``.
    class_names : sequence of names, optional
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
        """The same, checked, turned as a whole so that clusters face the viewer, with few constraints."""
        frames = self.frames
        if frames.ndim != 3 or frames.shape[1:] != (len(self.groups), 3) or not frames.size:
            raise InvalidDataError(
                "the snapshots must be of shape (n_snapshots, n, 3) with one label per row, got shape "
                f"{frames.shape} and {len(self.groups)} labels; fit with embedding_dim=3."
            )
        turn = facing(frames[-1], self.groups)
        centers = None if self.centers is None else np.asarray(self.centers, np.float64) @ turn
        constraints = None if self.constraints is None else _few(self.constraints, n_pairs)
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
        For instance for two, three and four clusters.
    title : str, optional
    n_snapshots : int
        Snapshots drawn of each, closer together at the start, where most happens.
    n_pairs : int
        Constraints drawn of each, half of either kind as far as there are.

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
    explain(figure, lines)
    figure.suptitle(title or "Training pulls must-links together and cannot-links apart", fontsize=TITLE_SIZE)
    return figure


def explain(
    figure: Figure, lines: Sequence[SphereEvolution], *, loc: Any = "outside lower center", columns: int = 8
) -> None:
    """A legend of classes, links and centres, as far as there are some."""
    from matplotlib.lines import Line2D

    widest = max(lines, key=lambda line: int(line.groups.max()))
    handles = []
    for group in np.unique(widest.groups).tolist():
        style = cluster_style(group)
        name = f"class {group}" if widest.class_names is None else widest.class_names[group]
        handles.append(Line2D([], [], marker=style.marker, linestyle="", color=style.colour, label=name))
    if any(line.constraints is not None for line in lines):
        handles.append(Line2D([], [], label="must-link", **MUST_LINK))
        handles.append(Line2D([], [], label="cannot-link", **CANNOT_LINK))
    if any(line.centers is not None for line in lines):
        handles.append(Line2D([], [], marker="*", linestyle=":", color=BLACK, label="centre"))
    figure.legend(
        handles=handles, loc=loc, ncols=columns, frameon=False, fontsize=SMALL_SIZE, markerscale=0.8
    )


def _few(pairs: Constraints, count: int) -> Constraints:
    half = count // 2
    return pairs.must_links[:half] | pairs.cannot_links[: count - half]


def _draw_line(row: Any, line: SphereEvolution, *, columns: int) -> None:
    frames, times = line.frames, line.times()
    chosen = early_steps(len(frames), columns)
    for axes in row[len(chosen) :]:
        axes.set_axis_off()
    for axes, index in zip(row, chosen, strict=False):
        centers = np.asarray(line.centers) if line.centers is not None and index == chosen[-1] else None
        draw_sphere(axes, frames[index], line.groups, constraints=line.constraints, centers=centers, size=4)
        axes.set_title(f"epoch {times[index]}", fontsize=SMALL_SIZE, pad=3)
    if line.name:
        row[0].text(-1.2, 0, line.name, rotation=90, ha="right", va="center", fontsize=TEXT_SIZE)


def early_steps(n_frames: int, count: int) -> list[int]:
    """At most ``count`` positions, first and last included, closer together at the start.

    Examples
    --------
    >>> early_steps(101, 5), early_steps(3, 5)
    ([0, 2, 9, 31, 100], [0, 1, 2])
    """
    if n_frames <= count:
        return list(range(n_frames))
    steps = np.round(np.geomspace(1, n_frames, count)).astype(int) - 1
    # Rounding may make the first few equal: each is at least one after the one before.
    return [int(s) for s in np.maximum.accumulate(np.maximum(steps, np.arange(count)))]

"""Which clusters the constraints are between: a heat map of their shares, one panel per set of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.plots.figures import (
    DOUBLE_COLUMN,
    SINGLE_COLUMN,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    new_figure,
)
from spherepair.plots.palette import BLACK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Floats = NDArray[np.float64]
#: Cells of fewer inches than this have no room for a number.
_READABLE_CELL = 0.24


def plot_constraint_heatmaps(
    constraint_sets: Mapping[str, Constraints],
    labels: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the share of constraints between each two clusters.

    With true labels the diagonal holds the must-links and the rest the cannot-links; with the labels
    of a model, must-links off the diagonal and cannot-links on it are the ones it breaks.

    Parameters
    ----------
    constraint_sets : mapping of title to Constraints
        One panel each, all on one scale of colours.
    labels : array-like of shape (n_rows,)
        Cluster of every row the constraints speak of.
    names : sequence of n_clusters names, optional
        Of the clusters, in sorted order of their labels; the labels themselves if not given.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(0, 2)])
    >>> figure = plot_constraint_heatmaps({"two pairs": pairs}, [0, 0, 1])
    >>> figure.axes[0].get_title(loc="left")
    'two pairs'
    """
    shares = [pair_shares(pairs, labels) for pairs in constraint_sets.values()]
    if not shares:
        raise InvalidDataError("there are no constraints to draw; give at least one set of them.")
    words = list(names) if names is not None else [str(c) for c in np.unique(np.asarray(labels)).tolist()]
    width = SINGLE_COLUMN if len(shares) == 1 else DOUBLE_COLUMN
    figure = new_figure(width, (width - 0.6) / len(shares) + 0.45)
    panels = figure.subplots(1, len(shares), squeeze=False)[0]
    highest = max(float(share.max()) for share in shares) or 1.0
    cell = (width - 1.2) / len(shares) / len(words)
    for axes, name, share in zip(panels, constraint_sets, shares, strict=True):
        image = _draw_panel(axes, share, words, highest=highest, with_numbers=cell >= _READABLE_CELL)
        axes.set_title(name, fontsize=TEXT_SIZE, loc="left")
    _add_scale(figure, image, list(panels))
    figure.suptitle(title or "Share of the constraints between each two clusters", fontsize=TITLE_SIZE)
    return figure


def pair_shares(constraints: Constraints, labels: ArrayLike) -> Floats:
    """Share of the constraints between clusters (n_clusters, n_clusters), in the upper triangle.

    Examples
    --------
    >>> pairs = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(2, 0), (1, 2), (3, 2)])
    >>> pair_shares(pairs, ["a", "a", "b", "b"])
    array([[0.25, 0.5 ],
           [0.  , 0.25]])
    """
    clusters, codes = np.unique(np.asarray(labels), return_inverse=True)
    constraints.validate(len(codes))
    ends = np.sort(np.stack([codes[constraints.left], codes[constraints.right]]), axis=0)
    cells = np.bincount(ends[0] * len(clusters) + ends[1], minlength=len(clusters) ** 2)
    return np.asarray(cells.reshape(len(clusters), -1) / max(len(constraints), 1))


def _draw_panel(
    axes: Axes, share: Floats, words: Sequence[str], *, highest: float, with_numbers: bool
) -> AxesImage:
    upper = np.where(np.triu(np.ones_like(share)) > 0, share, np.nan)
    image = axes.imshow(upper, cmap=_blues(), vmin=0.0, vmax=highest)
    places = np.arange(len(words))
    axes.set_xticks(places, words, rotation=90 if max(map(len, words)) > 2 else 0)
    axes.set_yticks(places, words)
    axes.tick_params(labelsize=SMALL_SIZE, length=0)
    axes.spines[:].set_visible(False)
    if with_numbers:
        _write_numbers(axes, share, highest=highest)
    return image


def _blues() -> ListedColormap:
    """Blues whose lightest still shows on white: a share of zero is a cell too."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["Blues"](np.linspace(0.1, 1.0, 256)))


def _write_numbers(axes: Axes, share: Floats, *, highest: float) -> None:
    for row, column in np.argwhere(np.triu(np.ones_like(share))).tolist():
        dark = share[row, column] > 0.5 * highest
        axes.text(
            column,
            row,
            f"{100 * share[row, column]:.1f}".removesuffix(".0"),
            ha="center",
            va="center",
            fontsize=SMALL_SIZE - 1,
            color="white" if dark else BLACK,
        )


def _add_scale(figure: Figure, image: AxesImage, panels: list[Axes]) -> None:
    bar = figure.colorbar(image, ax=panels, shrink=0.8, aspect=25, pad=0.02)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL_SIZE, length=0)

"""Which clusters the constraints connect: a heat map of their shares, one panel per set of constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.plots.scatter import given_panels
from spherepair.plots.style import (
    BLACK,
    DOUBLE_COLUMN,
    SINGLE_COLUMN,
    SMALL_SIZE,
    TEXT_SIZE,
    TITLE_SIZE,
    figure_of,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Floats = NDArray[np.float64]
#: Cells of fewer inches than this have no room for a number.
_READABLE_CELL = 0.3


def plot_constraint_heatmaps(
    constraints: Any,
    labels: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw the share of constraints between each two clusters.

    With true labels the diagonal holds the must-links and the rest the cannot-links. With the labels
    of a model, must-links off the diagonal and cannot-links on it are violated.

    Parameters
    ----------
    constraints : fitted estimator, Constraints, or mapping of title to Constraints
        A model with the constraints of its fit, or one or several sets of constraints: one panel each,
        all on one scale of colors.
    labels : array-like of shape (n_rows,), optional
        Cluster of every row; the labels of the model if not given.
    names : sequence of n_clusters str, optional
        Names of the clusters, in sorted order of their labels; the labels themselves if not given.
    title : str, optional
        Title of a new figure.
    ax : matplotlib.axes.Axes or sequence of them, optional
        One for each panel; a new figure if not given.

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
    sets, clusters = _sets_and_labels(constraints, labels)
    shares = [pair_shares(pairs, clusters) for pairs in sets.values()]
    words = [str(c) for c in np.unique(clusters).tolist()] if names is None else list(names)
    heading = title or "Share of the constraints between each two clusters"
    panels = _new_panels(len(shares), heading) if ax is None else given_panels(ax, len(shares))
    highest = max(float(share.max()) for share in shares) or 1.0
    cell = figure_of(panels[0]).get_figwidth() * panels[0].get_position().width / len(words)
    for axes, name, share in zip(panels, sets, shares, strict=True):
        image = _draw_panel(axes, share, words, highest=highest, with_numbers=cell >= _READABLE_CELL)
        axes.set_title(name, fontsize=TEXT_SIZE, loc="left")
    _add_scale(figure_of(panels[0]), image, panels)
    return figure_of(panels[0])


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


def _sets_and_labels(constraints: Any, labels: ArrayLike | None) -> tuple[dict[str, Constraints], Any]:
    if hasattr(constraints, "fit"):
        check_is_fitted(constraints)
        labels = constraints.labels_ if labels is None else labels
        constraints = constraints.constraints_
    sets = {"": constraints} if isinstance(constraints, Constraints) else dict(constraints)
    if not sets:
        raise InvalidDataError("there are no constraints to draw; give at least one set of them.")
    if labels is None:
        raise InvalidDataError("labels are missing; give one per row, or a fitted model.")
    return sets, np.asarray(labels)


def _new_panels(count: int, title: str) -> list[Axes]:
    width = SINGLE_COLUMN if count == 1 else DOUBLE_COLUMN
    figure = new_figure(width, (width - 0.6) / count + 0.45)
    figure.suptitle(title, fontsize=TITLE_SIZE)
    panels: list[Axes] = figure.subplots(1, count, squeeze=False)[0].tolist()
    return panels


def _draw_panel(
    ax: Axes, share: Floats, words: Sequence[str], *, highest: float, with_numbers: bool
) -> AxesImage:
    upper = np.where(np.triu(np.ones_like(share)) > 0, share, np.nan)
    image = ax.imshow(upper, cmap=_blues(), vmin=0.0, vmax=highest)
    places = np.arange(len(words))
    ax.set_xticks(places, words, rotation=90 if max(map(len, words)) > 2 else 0)
    ax.set_yticks(places, words)
    ax.tick_params(labelsize=SMALL_SIZE, length=0)
    ax.spines[:].set_visible(False)
    if with_numbers:
        _write_numbers(ax, share, highest=highest)
    return image


def _blues() -> ListedColormap:
    """Blues whose lightest still shows on white: a share of zero is a cell too."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["Blues"](np.linspace(0.1, 1.0, 256)))


def _write_numbers(ax: Axes, share: Floats, *, highest: float) -> None:
    for row, column in np.argwhere(np.triu(np.ones_like(share))).tolist():
        dark = share[row, column] > 0.5 * highest
        number = f"{100 * share[row, column]:.1f}".removesuffix(".0")
        color = "white" if dark else BLACK
        ax.text(column, row, number, ha="center", va="center", fontsize=SMALL_SIZE - 1, color=color)


def _add_scale(figure: Figure, image: AxesImage, panels: list[Axes]) -> None:
    bar = figure.colorbar(image, ax=panels, shrink=0.8, aspect=25, pad=0.02)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL_SIZE, length=0)

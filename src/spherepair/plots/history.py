"""The course of training: each named term of the loss over the epochs of all stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spherepair.errors import InvalidDataError
from spherepair.plots.figures import SMALL_SIZE, describe, new_figure, quiet_axes
from spherepair.plots.palette import GREY, line_style
from spherepair.plots.series import name_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
_NO_TERMS = frozenset({"stage", "epoch", "loss", "seconds"})


def training_history(history: Sequence[Mapping[str, Any]], *, title: str | None = None) -> Figure:
    """Draw the terms of the loss over epochs, one stage after the other.

    Parameters
    ----------
    history : sequence of dict
        As ``model.history_``: one record per epoch with stage, epoch, loss and each named term.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> records = [{"stage": "pairs", "epoch": e, "pairs": 1 / (e + 1)} for e in range(3)]
    >>> training_history(records).axes[0].get_xlabel()
    'epoch'
    """
    if not history:
        raise InvalidDataError("the history is empty; fit the model first.")
    figure = new_figure(5.2, 2.9)
    axes = figure.add_subplot()
    quiet_axes(axes)
    terms = _terms(history)
    lines = [_draw_term(axes, history, term, series=index) for index, term in enumerate(terms)]
    _set_scale(axes, lines)
    _mark_stages(axes, history)
    name_ends(axes, lines, terms)
    heading = title or "Terms of the loss during training"
    describe(axes, title=heading, x="epoch", y="term of the loss", pad=18)
    return figure


def _terms(history: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for record in history for key in record if key not in _NO_TERMS))


def _draw_term(
    axes: Axes, history: Sequence[Mapping[str, Any]], term: str, *, series: int
) -> tuple[Floats, Floats]:
    values = np.array([record.get(term, np.nan) for record in history], dtype=np.float64)
    stages = np.array([str(record["stage"]) for record in history])
    starts = np.flatnonzero(stages[1:] != stages[:-1]) + 1
    # Stages weigh their terms differently: a line across two of them would show a fall that is none.
    epochs = np.insert(np.arange(1.0, len(history) + 1), starts, np.nan)
    heights = np.insert(values, starts, np.nan)
    style = line_style(series) | {"marker": "none"}
    axes.plot(epochs, heights, linewidth=1.4, label=term, **style)
    return epochs, heights


def _set_scale(axes: Axes, lines: Sequence[tuple[Floats, Floats]]) -> None:
    """Logarithmic; with room for both signs where a term, such as minus a volume, is below zero."""
    if any((heights < 0).any() for _, heights in lines):
        axes.set_yscale("symlog", linthresh=1e-2)
    else:
        axes.set_yscale("log")


def _mark_stages(axes: Axes, history: Sequence[Mapping[str, Any]]) -> None:
    start = 0
    for stage, records in groupby(history, key=lambda record: record["stage"]):
        length = sum(1 for _ in records)
        if start:
            axes.axvline(start + 0.5, color=GREY, linewidth=0.8, linestyle=":")
        axes.text(
            start + length / 2 + 0.5,
            1.02,
            stage,
            transform=axes.get_xaxis_transform(),
            ha="center",
            color=GREY,
            fontsize=SMALL_SIZE,
        )
        start += length

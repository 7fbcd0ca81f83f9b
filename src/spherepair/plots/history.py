"""The course of training: each named term of the loss over the epochs of all stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from spherepair.errors import InvalidDataError
from spherepair.plots.figures import new_figure, quiet_axes
from spherepair.plots.palette import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    figure = new_figure(6.0, 3.6)
    axes = figure.add_subplot()
    quiet_axes(axes)
    for index, term in enumerate(_terms(history)):
        _draw_term(axes, history, term, colour=COLOURS[index % len(COLOURS)])
    _mark_stages(axes, history)
    axes.set_yscale("log")
    axes.set_xlabel("epoch")
    axes.set_ylabel("term of the loss")
    axes.set_title(title or "Terms of the loss during training", pad=18)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _terms(history: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for record in history for key in record if key not in _NO_TERMS))


def _draw_term(axes: Axes, history: Sequence[Mapping[str, Any]], term: str, *, colour: str) -> None:
    values = np.array([record.get(term, np.nan) for record in history], dtype=np.float64)
    stages = np.array([str(record["stage"]) for record in history])
    starts = np.flatnonzero(stages[1:] != stages[:-1]) + 1
    # Stages weigh their terms differently: a line across two of them would show a fall that is none.
    epochs = np.insert(np.arange(1.0, len(history) + 1), starts, np.nan)
    axes.plot(epochs, np.insert(values, starts, np.nan), color=colour, linewidth=1.5, label=term)


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
            fontsize=8,
        )
        start += length

"""``spherepair clusters``: how many clusters a fitted embedding has, the curve, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from spherepair.cli.charts import bar_chart
from spherepair.cli.options import (
    PAIR_KINDS,
    DataOption,
    IdOption,
    JsonOption,
    Method,
    ModelArgument,
)
from spherepair.cli.outputs import check_output
from spherepair.cli.reporting import reporting
from spherepair.cli.tables import read_rows
from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.estimators.loading import load
from spherepair.estimators.spherepair import SpherePair
from spherepair.plots import save_figure, tail_angle_curve
from spherepair.plots.figures import check_picture_name
from spherepair.plots.number import ANGLE_METHODS

NAME = "clusters"
EXAMPLE = "Example: spherepair clusters model/ --constraints pairs.csv --plot curve.png"
_SHOWN_CANDIDATES = 5


def command(
    model: ModelArgument,
    *,
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints", "-c", metavar="PAIRS", help=f"{PAIR_KINDS}; those of the fit when missing."
        ),
    ] = None,
    data: DataOption = None,
    id_column: IdOption = None,
    method: Annotated[Method, typer.Option("--method", help="How to infer it.")] = Method.CONSENSUS,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, help="Of the resamples; that of the fit if not given."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Picture of the curve: .png, .svg or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many clusters there are, why, and how sure that is."""
    if (id_column is None) != (data is None):
        raise typer.BadParameter("--data and --id go together: the file, and its column of ids.")
    with reporting(NAME, as_json=as_json) as report:
        if plot is not None:
            check_output(check_picture_name(plot), [constraints, data])
        with report.working("looking at the angles"):
            fitted = load(model)
            pairs = _pairs_of(fitted, constraints, data=data, id_column=id_column)
            number = fitted.count_clusters(pairs, method=method.value, random_state=seed)
        if plot is not None:
            save_figure(tail_angle_curve(number), plot)
        fields = {"model": str(model), **number.to_dict(), "plot": None if plot is None else str(plot)}
        report.finish(fields, [number.explanation, "", *_candidates(number), "", *_chart(number)])


def _pairs_of(
    model: SpherePair, constraints: Path | None, *, data: Path | None, id_column: str | None
) -> Constraints:
    """The pairs of the file, or those the model was fitted with."""
    if constraints is None:
        return model.constraints_
    ids = None if data is None else read_rows(data, id_column=id_column).ids
    pairs = Constraints.read(constraints, ids=ids)
    pairs.validate(len(model.labels_))
    return pairs


def _candidates(number: ClusterNumber) -> list[str]:
    shown = number.candidates[:_SHOWN_CANDIDATES]
    return ["candidates  " + ", ".join(f"{c.value} ({100 * c.weight:.0f} %)" for c in shown)]


def _chart(number: ClusterNumber) -> list[str]:
    if len(number.curve) == 0:
        return []
    is_angle = number.method in ANGLE_METHODS
    values = np.degrees(number.curve) if is_angle else 100 * number.curve
    first, onset = (1, number.value - 1) if is_angle else (2, number.value)
    # The plateau goes on and on: show it as far again as the rise.
    shown = values[: max(12, 2 * number.value + 2)].tolist()
    title = "degrees between cannot-linked rows, by dimensions kept" if is_angle else "score in percent"
    names = [str(place + first) for place in range(len(shown))]
    return [title, *bar_chart(names, shown, remarks={onset - first: f"<- {number.value} clusters"})]

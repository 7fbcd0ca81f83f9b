"""``spherepair clusters``, ``report`` and ``explain``: what a saved model has found, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spherepair.cli.options import (
    DATA_KINDS,
    PAIR_KINDS,
    DataArgument,
    DataOption,
    DeviceOption,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    RowOption,
    check_output,
)
from spherepair.cli.raw_rows import read_rows_for
from spherepair.cli.terminal import command_terminal
from spherepair.clustering import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError, InvalidParameterError, quoted
from spherepair.estimators import load
from spherepair.estimators.job import takes_raw_rows
from spherepair.estimators.spherepair import SpherePair
from spherepair.estimators.trust.explaining import Explanation
from spherepair.files.array_files import ARRAY_SUFFIXES
from spherepair.files.data_tables import Table, read_rows
from spherepair.plots import plot_cluster_number, save_figure
from spherepair.plots.model_curves import ANGLE_METHODS
from spherepair.plots.style import check_picture_name
from spherepair.report import Report, ReportOptions, write_report

PAGE_SUFFIXES = (".html", ".htm")
_DEFAULTS = ReportOptions()
#: A row farther out than all but this share of the fit is said to be new.
NEW_SHARE = 0.01
_SHOWN_CANDIDATES = 5
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Method(StrEnum):
    """How the number of clusters is estimated."""

    CONSENSUS = "consensus"
    TAIL_ANGLE = "tail-angle"
    SILHOUETTE = "silhouette"
    LIFETIME = "lifetime"


def clusters(
    model: ModelArgument,
    *,
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints",
            "-c",
            metavar="PAIRS",
            help=f"Pairs: {PAIR_KINDS}.",
            show_default="those of the fit",
        ),
    ] = None,
    data: DataOption = None,
    id_column: IdOption = None,
    method: Annotated[
        Method, typer.Option("--method", help="How the number is estimated.")
    ] = Method.CONSENSUS,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            metavar="N",
            min=0,
            help="Random seed of the resampling.",
            show_default="that of the fit",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Also draw the curve: .png, .svg or .pdf."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the number of clusters, with reasons and confidence."""
    if (id_column is None) != (data is None):
        raise typer.BadParameter("--data and --id go together: a file and its ID column.")
    with command_terminal("clusters", as_json=as_json) as terminal:
        if plot is not None:
            check_output(check_picture_name(plot), [constraints, data])
        with terminal.spinner("estimating the number of clusters"):
            fitted = load(model)
            pairs = _pairs_for(fitted, constraints, data=data, id_column=id_column)
            number = fitted.count_clusters(pairs, method=method.value, random_state=seed)
        if plot is not None:
            save_figure(plot_cluster_number(number), plot)
        fields = {"model": str(model), **number.to_dict(), "plot": None if plot is None else str(plot)}
        terminal.print_result(fields, [number.explanation, "", _candidates(number), "", *_curve(number)])


def _pairs_for(
    model: SpherePair, constraints: Path | None, *, data: str | None, id_column: str | None
) -> Constraints:
    """The pairs of the file, or those of the fit."""
    if constraints is None:
        return model.constraints_
    ids = None if data is None else read_rows(data, id_column=id_column).ids
    pairs = Constraints.read(constraints, ids=ids)
    pairs.validate(len(model.labels_))
    return pairs


def _candidates(number: ClusterNumber) -> str:
    shown = number.candidates[:_SHOWN_CANDIDATES]
    return "candidates  " + ", ".join(f"{c.value} ({100 * c.weight:.0f} %)" for c in shown)


def _curve(number: ClusterNumber) -> list[str]:
    if len(number.curve) == 0:
        return []
    is_angle = number.method in ANGLE_METHODS
    values = np.degrees(number.curve) if is_angle else 100 * number.curve
    # The plateau is long: show as much of it as of the rise.
    shown = values[: max(12, 2 * number.value + 2)].tolist()
    title = f"{'tail angle in degrees' if is_angle else 'score in percent'}, by number of clusters"
    # The curve begins at two clusters: K clusters need K - 1 principal components.
    names = [str(place + 2) for place in range(len(shown))]
    return [title, *bar_chart(names, shown, remarks={number.value - 2: f"<- {number.value} clusters"})]


def bar_chart(
    names: Sequence[str], values: Sequence[float], *, remarks: dict[int, str] | None = None, width: int = 40
) -> list[str]:
    """Horizontal bars for a terminal, one line each.

    Parameters
    ----------
    names : sequence of str
    values : sequence of float
        Negative values have no bar.
    remarks : dict of int to str, optional
        Text after the bar at a position.
    width : int
        Characters of the longest bar.

    Examples
    --------
    >>> for line in bar_chart(["a", "b"], [1.0, 0.5], remarks={1: "half"}, width=8):
    ...     print(line)
    a   1.0 ████████
    b   0.5 ████ half
    """
    largest = max([*values, 0.0])
    pad = max(map(len, names), default=0)
    lines = []
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        length = width * max(value, 0.0) / largest if largest > 0 else 0.0
        remark = f" {remarks[place]}" if remarks and place in remarks else ""
        lines.append(f"{name:>{pad}} {value:5.1f} {_bar(length)}{remark}")
    return lines


def _bar(length: float) -> str:
    if not _can_print_blocks():
        return "#" * round(length)
    whole, eighth = divmod(round(8 * length), 8)
    return "█" * whole + _EIGHTHS[eighth].strip()


def _can_print_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        _EIGHTHS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def report(
    model: ModelArgument,
    *,
    data: Annotated[
        str,
        typer.Option("--data", metavar="DATA", help=f"The rows of the fit, or new ones: {DATA_KINDS}."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file: .html.")],
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints",
            "-c",
            metavar="PAIRS",
            help=f"Pairs: {PAIR_KINDS}.",
            show_default="those of the fit, if DATA holds its rows",
        ),
    ] = None,
    id_column: IdOption = None,
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="COLUMN", help="Text column to show; texts of the fit are shown anyway."
        ),
    ] = None,
    drop: DropOption = None,
    feature_names: Annotated[
        Path | None,
        typer.Option(
            "--feature-names",
            metavar="FILE",
            help="Names of nameless columns, one a line.",
        ),
    ] = None,
    image: Annotated[
        str, typer.Option("--image", metavar="HxW", help="Image size such as 28x28, or auto or none.")
    ] = _DEFAULTS.image,
    title: Annotated[str, typer.Option("--title", help="Title of the page.")] = _DEFAULTS.title,
    points: Annotated[
        int,
        typer.Option("--points", metavar="N", min=1, help="Maximum number of rows on the map."),
    ] = _DEFAULTS.n_points,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Maximum number of violated pairs to list.")
    ] = _DEFAULTS.n_violated,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write an HTML report: clusters, map, violated pairs, examples, what to label next."""
    with command_terminal("report", as_json=as_json, quiet=quiet) as terminal:
        _check_report_paths(out, text, data=data, constraints=constraints)
        settings = ReportOptions(title=title, image=image, n_points=points, n_violated=limit)
        with terminal.spinner(f"reading {data}"):
            fitted = load(model, device=device)
            shown_only = [] if text is None or takes_raw_rows(fitted) else [text]
            table = read_rows_for(fitted, data, id_column=id_column, drop=[*(drop or ()), *shown_only])
            pairs = (
                None
                if constraints is None
                else Constraints.read(constraints, ids=table.ids, n_rows=table.n_rows)
            )
            texts = None if text is None else read_rows(data, id_column=text).ids
        with terminal.spinner("writing the report"):
            found = write_report(
                fitted,
                table.X,
                pairs,
                out,
                ids=table.ids,
                texts=texts,
                feature_names=None if feature_names is None else _read_names(feature_names),
                options=settings,
            )
        fields = {"report": str(out), "model": str(model), **_report_fields(found)}
        terminal.print_result(fields, _report_lines(found, out))


def _read_names(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8-sig").splitlines()


def _check_report_paths(out: Path, text: str | None, *, data: str, constraints: Path | None) -> None:
    """Refuse wrong names before anything is read."""
    if out.suffix.lower() not in PAGE_SUFFIXES:
        raise InvalidParameterError(f"{out}: the name of a report must end in .html.")
    check_output(out, [data, constraints])
    if text is not None and data.lower().endswith(ARRAY_SUFFIXES):
        raise InvalidParameterError(
            f"--text needs a file with named columns (.csv, .parquet); {Path(data).name} has none."
        )


def _report_fields(found: Report) -> dict[str, Any]:
    total = found.satisfaction.total
    return {
        "n_rows": found.n_rows,
        "n_rows_drawn": len(found.points.rows),
        "n_clusters": found.number.n_clusters,
        "inferred": found.number.inferred,
        "confidence": found.number.confidence,
        "cluster_sizes": [card.n_rows for card in found.clusters],
        "n_pairs": total.n_pairs,
        "n_violated": total.n_violated,
        "share_kept": total.share,
        "n_borderline": found.n_borderline,
        "shown_as": found.kind,
        "to_label": [[pair.left.name, pair.right.name] for pair in found.questions],
    }


def _report_lines(found: Report, out: Path) -> list[str]:
    total = found.satisfaction.total
    pairs = f"{total.n_satisfied:,} of {total.n_pairs:,} satisfied" if total.n_pairs else "none"
    return [
        f"clusters    {found.number.n_clusters} in the model. {found.number.explanation}",
        f"pairs       {pairs}",
        f"borderline  {found.n_borderline:,} of {found.n_rows:,} rows",
        f"label next  pairs suggested: {len(found.questions)}",
        f"report      {out}",
    ]


def explain(
    model: ModelArgument,
    data: DataArgument,
    *,
    row: RowOption,
    id_column: IdOption = None,
    drop: DropOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Say why a row is in its cluster: typical rows, answers, values or words that mattered.

    DATA holds the row. Where it holds the rows of the fit, typical rows and answers are named by their IDs.
    """
    with command_terminal("explain", as_json=as_json) as terminal:
        with terminal.spinner(f"reading {data}"):
            fitted = load(model, device=device)
            table = read_rows_for(fitted, data, id_column=id_column, drop=drop or ())
            place = _find_row(table, row, data)
        X = table.X.slice(place, 1) if hasattr(table.X, "slice") else table.X[place : place + 1]
        why = fitted.explain(X)
        is_fit = table.n_rows == len(fitted.labels_) and table.ids is not None
        ids = table.ids.to_pylist() if is_fit else None
        fields = {"row": row, **asdict(why), "runner_up_name": _group_name(fitted, why.runner_up)}
        if ids is not None:
            fields["typical_ids"] = [ids[typical] for typical in why.typical_rows]
        terminal.print_result(fields, _reasons(fitted, why, row, ids))


def _reasons(model: SpherePair, why: Explanation, row: str, ids: list[Any] | None) -> list[str]:
    """An explanation for people."""

    def name(place: int) -> str:
        return str(place) if ids is None else str(ids[place])

    lines = [
        f"row {row}: cluster {why.label} ({why.name}), {100 * why.confidence:.0f} % sure",
        f"next        {_group_name(model, why.runner_up)}" if why.runner_up >= 0 else "",
        f"like        rows {', '.join(map(name, why.typical_rows))} of the fit" if why.typical_rows else "",
        *(f"answer      {one.link} ({name(one.left)}, {name(one.right)})" for one in why.answers),
        *(
            f"{'for' if one.effect > 0 else 'against':<11} {one.name} ({one.effect:+.2f})"
            for one in why.influences
        ),
    ]
    if why.novelty > 1.0 - NEW_SHARE:
        lines.append(f"new         farther out than {100 * why.novelty:.1f} % of the rows of the fit")
    return [line for line in lines if line]


def _group_name(model: SpherePair, cluster: int) -> str | None:
    return f"cluster {cluster} ({model.group_names_[cluster]})" if cluster >= 0 else None


def _find_row(table: Table, row: str, data: str) -> int:
    if table.ids is not None:
        import pyarrow as pa
        import pyarrow.compute as pc

        place = pc.index(table.ids.cast(pa.string()), row).as_py()
        if place < 0:
            raise InvalidDataError(f"{data} has no row with the ID {quoted(row)}.")
        return int(place)
    if not row.isdecimal() or int(row) >= table.n_rows:
        raise InvalidDataError(
            f"--row {quoted(row)}: {data} has rows 0 to {table.n_rows - 1}; to name a row by ID, give "
            "--id COLUMN."
        )
    return int(row)

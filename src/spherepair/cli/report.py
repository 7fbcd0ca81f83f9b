"""``spherepair report``: a page about a fitted model that can be sent round."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spherepair.cli import tables
from spherepair.cli.options import (
    DATA_KINDS,
    PAIR_KINDS,
    DeviceOption,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    QuietOption,
)
from spherepair.cli.outputs import check_output
from spherepair.cli.predict import read_rows_for
from spherepair.cli.reporting import reporting
from spherepair.cli.tables import Table, read_rows
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError
from spherepair.estimators.loading import load
from spherepair.report import Report, ReportOptions, write_report

NAME = "report"
EXAMPLE = (
    "Example: spherepair report model/ --data rows.csv --id id --constraints pairs.csv --out report.html"
)
SUFFIXES = (".html", ".htm")
_DEFAULTS = ReportOptions()


def command(
    model: ModelArgument,
    *,
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DATA", help=f"The rows of the fit, or new ones: {DATA_KINDS}."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Page to write: .html.")],
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints",
            "-c",
            metavar="PAIRS",
            help=f"{PAIR_KINDS}; those of the fit when missing and DATA holds its rows.",
        ),
    ] = None,
    id_column: IdOption = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="COLUMN", help="Column of texts to show; no feature."),
    ] = None,
    drop: DropOption = None,
    image: Annotated[
        str, typer.Option("--image", metavar="HxW", help="Size of images, such as 28x28; auto or none.")
    ] = _DEFAULTS.image,
    title: Annotated[str, typer.Option("--title", help="Heading of the page.")] = _DEFAULTS.title,
    points: Annotated[
        int,
        typer.Option("--points", metavar="N", min=1, help="Rows on the map; of more, a sample is drawn."),
    ] = _DEFAULTS.n_points,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Violated constraints that are listed.")
    ] = _DEFAULTS.n_violated,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file: clusters, a map, constraints kept and violated, examples, what to label next."""
    with reporting(NAME, as_json=as_json, quiet=quiet) as report:
        _check_names(out, text, data=data, constraints=constraints)
        options = ReportOptions(title=title, image=image, n_points=points, n_violated=limit)
        with report.working(f"looking at {data}"):
            fitted = load(model, device=device)
            table = read_rows_for(fitted, data, id_column=id_column, drop=[*(drop or ()), *_one(text)])
            found = write_report(
                fitted,
                table.X,
                _read_pairs(constraints, table),
                out,
                ids=table.ids,
                texts=None if text is None else read_rows(data, id_column=text).ids,
                options=options,
            )
        report.finish({"report": str(out), "model": str(model), **_fields(found)}, _lines(found, out))


def _check_names(out: Path, text: str | None, *, data: Path, constraints: Path | None) -> None:
    """What can be refused before anything is read."""
    if out.suffix.lower() not in SUFFIXES:
        raise InvalidParameterError(f"{out} is no name for a report; it must end in .html.")
    check_output(out, [data, constraints])
    if text is not None and data.name.lower().endswith(tables.ARRAY_SUFFIXES):
        raise InvalidParameterError(
            f"--text needs a file with named columns (.csv, .parquet); {data.name} has none. "
            "Leave the option out, or give the rows as such a file."
        )


def _one(text: str | None) -> list[str]:
    return [] if text is None else [text]


def _read_pairs(path: Path | None, table: Table) -> Constraints | None:
    return None if path is None else Constraints.read(path, ids=table.ids, n_rows=table.n_rows)


def _fields(found: Report) -> dict[str, Any]:
    total = found.kept.total
    return {
        "n_rows": found.n_rows,
        "n_rows_drawn": len(found.points.rows),
        "n_clusters": found.evidence.n_clusters,
        "inferred": found.evidence.inferred,
        "confidence": found.evidence.confidence,
        "cluster_sizes": [card.n_rows for card in found.clusters],
        "n_pairs": total.n_pairs,
        "n_violated": total.n_violated,
        "share_kept": total.share,
        "n_borderline": found.n_borderline,
        "shown_as": found.kind,
        "to_label": [[pair.left.name, pair.right.name] for pair in found.questions],
    }


def _lines(found: Report, out: Path) -> list[str]:
    total = found.kept.total
    kept = f"{total.n_kept:,} of {total.n_pairs:,} kept" if total.n_pairs else "none"
    return [
        f"clusters     {found.evidence.n_clusters}; {found.evidence.explanation}",
        f"constraints  {kept}",
        f"borderline   {found.n_borderline:,} of {found.n_rows:,} rows",
        f"label next   {len(found.questions)} pairs proposed",
        f"written      {out}",
    ]

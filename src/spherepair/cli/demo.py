"""``spherepair demo``: the main job from end to end on the digits that ship with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from spherepair.cli.demo_files import (
    ID_COLUMN,
    IMAGE_SIZE,
    N_PAIRS,
    DemoFiles,
    Truth,
    next_commands,
    write_inputs,
    write_result,
)
from spherepair.cli.fit import describe, fit_model, outcome, read_inputs
from spherepair.cli.options import JsonOption, QuietOption, SeedOption, layer_sizes
from spherepair.cli.outputs import write_labels
from spherepair.cli.predict import predict_blocks, read_rows_for
from spherepair.cli.reporting import Report, reporting
from spherepair.cli.tables import Table
from spherepair.clustering.cluster_number import ClusterNumber
from spherepair.constraints import Constraints
from spherepair.estimators.spherepair import SpherePair
from spherepair.metrics import clustering_accuracy
from spherepair.plots import demo_picture, save_figure
from spherepair.report import ReportOptions, write_report

NAME = "demo"
EXAMPLE = "Example: spherepair demo --out demo-output"
#: Smaller than the default network, which would take minutes where this takes seconds.
HIDDEN_DIMS, QUICK_HIDDEN_DIMS = "compact", "64,64"


def command(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for what it makes.")] = Path(
        "demo-output"
    ),
    seed: SeedOption = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny network: seconds, and less exact.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Pairs, a fit with unknown number of clusters, new rows labelled, a report; a minute or two."""
    with reporting(NAME, as_json=as_json, quiet=quiet) as report:
        files = DemoFiles.under(out)
        truth = write_inputs(files, seed)
        report.note(
            f"{N_PAIRS:,} random pairs of {len(truth.seen):,} images of digits say 'same' or 'different'; "
            f"{len(truth.held_out)} images are held out; how many digits there are is not told."
        )
        hidden_dims = QUICK_HIDDEN_DIMS if quick else HIDDEN_DIMS
        fields, text = _run(files, truth, seed=seed, hidden_dims=hidden_dims, report=report)
        write_result(files, {"is_finished": True, **fields})
        report.finish(fields, text)


def _run(
    files: DemoFiles, truth: Truth, *, seed: int, hidden_dims: str, report: Report
) -> tuple[dict[str, Any], list[str]]:
    """Fit, save, predict, draw, report, and say what was found to machines and to people."""
    table, pairs = read_inputs(files.rows, files.pairs, id_column=ID_COLUMN, drop=(), report=report)
    model = SpherePair(hidden_dims=layer_sizes(hidden_dims), random_state=seed)
    seconds = fit_model(model, table, pairs=pairs, report=report)
    model.save(files.model)
    new = read_rows_for(model, files.new_rows, id_column=ID_COLUMN, drop=())
    labels = predict_blocks(model, new, report)
    write_labels(files.predictions, labels, ids=new.ids, id_name=ID_COLUMN)
    _draw(files.picture, model, rows=new.X, labels=labels)
    _write_page(files.report, model, table=table, pairs=pairs, report=report)
    accuracy = float(clustering_accuracy(truth.held_out, labels))
    commands = next_commands(files, seed=seed, hidden_dims=hidden_dims)
    score = {"test_accuracy": accuracy, "n_test_rows": len(labels)}
    fields = {
        "folder": str(files.folder),
        "report": str(files.report),
        **outcome(model, pairs),
        **score,
        "seed": seed,
    }
    fields |= {"seconds": round(seconds, 3), "commands": commands}
    return fields, _text(files, describe(model, pairs, seconds=seconds), accuracy, commands)


def _draw(path: Path, model: SpherePair, *, rows: Any, labels: Any) -> None:
    number = cast(ClusterNumber, model.cluster_number_)  # there is one, as no number was given
    title = f"{len(labels)} held-out rows and their clusters"
    picture = demo_picture(
        model.transform(rows), labels, number, centers=model.cluster_centers_, map_title=title
    )
    save_figure(picture, path)


def _write_page(path: Path, model: SpherePair, *, table: Table, pairs: Constraints, report: Report) -> None:
    options = ReportOptions(title="Digits: what the clusters look like", image=IMAGE_SIZE)
    with report.working("writing the report"):
        write_report(model, table.X, pairs, path, ids=table.ids, options=options)


def _text(files: DemoFiles, found: list[str], accuracy: float, commands: list[str]) -> list[str]:
    return [
        *found,
        f"new rows    {100 * accuracy:.1f} % of the held-out images are in the right cluster",
        "            (labels made the pairs and this score; the fit has not seen them)",
        f"written     {files.predictions}, {files.picture}, {files.model}",
        f"report      {files.report}: open it in a browser",
        "",
        "Next, the same in single commands:",
        *(f"  {line}" for line in commands),
    ]

"""``spherepair refine``: a saved model, the rows it was fitted on, and more pairs become a better model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spherepair.cli import fit_options as options
from spherepair.cli.columns import column_names
from spherepair.cli.fit import describe, outcome, training
from spherepair.cli.options import (
    DataArgument,
    DeviceOption,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    OnConflict,
    QuietOption,
)
from spherepair.cli.outputs import check_label_file, check_model_folder, refuse_within, write_labels
from spherepair.cli.predict import read_rows_for
from spherepair.cli.reporting import Report, reporting
from spherepair.cli.tables import Table
from spherepair.constraints import Constraints
from spherepair.errors import ConflictError, InvalidConstraintsError
from spherepair.estimators.loading import load
from spherepair.estimators.same_rows import training_table

NAME = "refine"
EXAMPLE = "Example: spherepair refine model/ rows.csv --constraints more_pairs.csv --id id --out model/"

FolderOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="MODEL", help="Folder for the new model, or that of the old.")
]


def command(
    model: ModelArgument,
    data: DataArgument,
    *,
    constraints: options.ConstraintsOption,
    out: FolderOption,
    id_column: IdOption = None,
    drop: DropOption = None,
    labels_out: options.LabelsOption = None,
    on_conflict: options.ConflictOption = OnConflict.RAISE,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go on from a saved model with more pairs, in a fraction of the time of a fit.

    DATA are the rows it was fitted on, in the same order; its pairs are kept, so that PAIRS need not name
    them again.
    """
    with reporting(NAME, as_json=as_json, quiet=quiet) as report:
        check_model_folder(out)
        if labels_out is not None:
            check_label_file(labels_out, [data, constraints])
            for folder in (out, model):
                refuse_within(labels_out, folder, option="--labels-out")
        with report.working(f"reading {data} and {constraints}"):
            fitted = load(model, device=device)
            table = read_rows_for(fitted, data, id_column=id_column, drop=drop or ())
            training_table(fitted, table.X)  # before pairs are looked up in a table that is not it
            if id_column is None:
                warn_of_unused(data, table, report)
            given = Constraints.read(constraints, ids=table.ids, n_rows=table.n_rows)
        if len(given) == 0:
            raise InvalidConstraintsError(f"{constraints} has no pairs; there is nothing to go on with.")
        known = fitted.constraints_
        new, all_pairs = given - known, known | given
        if len(new) == 0:
            raise InvalidConstraintsError(f"the model knows all pairs of {constraints}; give it new ones.")
        report.note(f"{table.n_rows:,} rows, {len(known):,} pairs and {len(new):,} new ones")
        if on_conflict is OnConflict.RAISE:
            refuse_conflicts(known, given, path=constraints, ids=table.ids)
        before = fitted.score_pairs(new)
        with training(fitted, report) as seconds:
            fitted.refine(given, table.X, on_conflict=on_conflict.value)
        took = seconds()
        fitted.save(out)
        report.wrote(out)
        if labels_out is not None:
            write_labels(labels_out, fitted.labels_, ids=table.ids, id_name=table.id_name)
        after = fitted.score_pairs(new)
        fields = {
            "model": str(out),
            "labels": None if labels_out is None else str(labels_out),
            **outcome(fitted, all_pairs),
            "n_new_pairs": len(new),
            "new_pairs_kept_before": before,
            "new_pairs_kept": after,
            "seconds": round(took, 3),
        }
        lines = describe(fitted, all_pairs, seconds=took)
        lines.insert(-1, f"new pairs   {100 * after:.1f} % of {len(new):,}, {100 * before:.1f} % before")
        report.finish(fields, [*lines, f"model       {out}"])


def warn_of_unused(data: Path, table: Table, report: Report) -> None:
    """Pairs that name rows by a column would be taken for positions if nobody said so."""
    unused = [] if table.names is None else sorted(set(column_names(data)) - set(table.names))
    if unused:
        report.warn(
            f"pairs are taken to name rows by their position; give --id {unused[0]} if they name them by "
            "that column."
        )


def refuse_conflicts(known: Constraints, given: Constraints, *, path: Path, ids: Any) -> None:
    """An error for contradictions among pairs of a model and those of a file, whose rows alone it names."""
    nowhere = np.full(len(known), -1)
    elsewhere = Constraints.from_arrays(
        known.left, known.right, known.is_must_link, weight=known.weight, source_row=nowhere
    )
    conflicts = (elsewhere | given).conflicts()
    if conflicts:
        error = conflicts.to_error(None if ids is None else ids.to_pylist())
        where = (
            f"Rows are those of {path}; what is given without one is a pair of the model, which only a fit "
            "without it can mend."
        )
        raise ConflictError(f"{error} {where}", conflicts=conflicts)

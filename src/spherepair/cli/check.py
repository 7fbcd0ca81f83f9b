"""``spherepair check``: what pairs say, and whether they contradict each other."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from spherepair.cli.columns import Rows
from spherepair.cli.endings import CONTRADICTORY
from spherepair.cli.options import DataOption, IdOption, JsonOption, PairsArgument, QuietOption
from spherepair.cli.reporting import reporting
from spherepair.cli.tables import read_rows
from spherepair.constraints import ConflictReport, Constraints, ConstraintSummary

NAME = "check"
EXAMPLE = "Example: spherepair check pairs.csv --data rows.csv --id id. Exit code 3 means contradictions."


def command(
    pairs: PairsArgument,
    *,
    data: DataOption = None,
    id_column: IdOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=0, help="Write out so many contradictions; all if not given."
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what pairs cover, what follows from them, and where they contradict each other."""
    if id_column is not None and data is None:
        raise typer.BadParameter("it needs --data, the file with that column.", param_hint="--id")
    with reporting(NAME, as_json=as_json, quiet=quiet) as report:
        with report.working(f"checking {pairs}"):
            rows = Rows(0, None) if data is None else read_rows(data, id_column=id_column)
            n_rows = None if data is None else rows.n_rows
            given = Constraints.read(pairs, ids=rows.ids, n_rows=n_rows)
            summary, conflicts = given.summary(), given.conflicts()
        names = None if rows.ids is None else rows.ids.to_pylist()
        fields = {
            "pairs": str(pairs),
            **asdict(summary),
            "n_rows": n_rows,
            "coverage": summary.n_rows_covered / n_rows if n_rows else None,
            "is_consistent": not conflicts,
            "conflicts": [_named(conflict, names) for conflict in conflicts[:limit]],
        }
        report.finish(fields, _lines(summary, conflicts, n_rows=n_rows, names=names, limit=limit))
    if conflicts:
        raise typer.Exit(CONTRADICTORY)


def _named(conflict: Any, names: list[Any] | None) -> dict[str, Any]:
    ids = {} if names is None else {"chain_ids": [names[row] for row in conflict.chain]}
    return {**asdict(conflict), **ids, "explanation": conflict.explain(names)}


def _lines(
    summary: ConstraintSummary,
    conflicts: ConflictReport,
    *,
    n_rows: int | None,
    names: list[Any] | None,
    limit: int | None,
) -> list[str]:
    lines = str(summary).splitlines()
    if n_rows:
        share = 100 * summary.n_rows_covered / n_rows
        lines.append(f"coverage        {share:.1f} % of {n_rows:,} rows are in some pair")
    if conflicts:
        lines += ["", conflicts.summary(limit=len(conflicts) if limit is None else limit, ids=names)]
    return lines

"""``spherepair check`` and ``datasets``: what pairs say, and which benchmark datasets there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from spherepair.cli.options import DataOption, IdOption, JsonOption, PairsArgument, QuietOption, check_output
from spherepair.cli.terminal import CONTRADICTORY, as_text, command_terminal
from spherepair.constraints import ConflictReport, Constraints, ConstraintSummary
from spherepair.datasets import DatasetInfo, list_datasets
from spherepair.files.columns import write_columns
from spherepair.files.data_tables import Rows, read_rows

if TYPE_CHECKING:
    from spherepair.clustering.suspects import Suspect

#: People named in the summary; all are counted.
SHOWN_PEOPLE = 5
#: Suspicious answers that are listed; a file has all.
SHOWN_SUSPECTS = 20


def check(
    pairs: PairsArgument,
    *,
    data: DataOption = None,
    id_column: IdOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=0,
            help="Maximum number of contradictions to list.",
            show_default="all",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", metavar="MODEL", help="Model fitted on the pairs: list answers that may be wrong."
        ),
    ] = None,
    suspects_out: Annotated[
        Path | None,
        typer.Option(
            "--suspects", metavar="FILE", help="Also write these answers: .csv, .parquet or .jsonl."
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Summarize pairs: counts, coverage, implied pairs, contradictions, and with --model wrong answers.

    Exit code 3 means that there are contradictions.
    """
    if id_column is not None and data is None:
        raise typer.BadParameter("needs --data, the file with that column.", param_hint="--id")
    if suspects_out is not None and model is None:
        raise typer.BadParameter("needs --model, which judges the answers.", param_hint="--suspects")
    with command_terminal("check", as_json=as_json, quiet=quiet) as terminal:
        if suspects_out is not None:
            check_output(suspects_out, [pairs, data])
        with terminal.spinner(f"checking {pairs}"):
            rows = Rows(0, None) if data is None else read_rows(data, id_column=id_column)
            n_rows = None if data is None else rows.n_rows
            given = Constraints.read(pairs, ids=rows.ids, n_rows=n_rows)
            summary, conflicts = given.summary(), given.conflicts()
            suspects = None if model is None else _suspects(model, given)
        ids = None if rows.ids is None else rows.ids.to_pylist()
        people = dict(Counter(name for name in given.by.tolist() if name).most_common())
        fields = {
            "pairs": str(pairs),
            **asdict(summary),
            "n_rows": n_rows,
            "coverage": summary.n_rows_covered / n_rows if n_rows else None,
            "people": people,
            "is_consistent": not conflicts,
            "conflicts": [_conflict_fields(conflict, ids) for conflict in conflicts[:limit]],
        }
        lines = _lines(summary, people, conflicts, n_rows=n_rows, ids=ids, limit=limit)
        if suspects is not None:
            fields["suspects"] = [asdict(suspect) for suspect in suspects]
            lines += ["", *_suspect_lines(suspects, ids)]
        if suspects_out is not None:
            write_columns(suspects_out, _suspect_columns(suspects or [], ids))
        terminal.print_result(fields, lines)
    if conflicts:
        raise typer.Exit(CONTRADICTORY)


def _suspects(model: Path, given: Constraints) -> list[Suspect]:
    """Given answers that the model holds for wrong or violates, with their rows in the file."""
    from spherepair.clustering.suspects import answers_to_look_at  # torch takes seconds to load
    from spherepair.estimators import load

    fitted = load(model, device="cpu")
    given.validate(len(fitted.labels_))
    judgment = getattr(fitted, "judgment_", None)
    return answers_to_look_at(given, fitted.labels_, fitted.constraints_, judgment)


def _suspect_columns(suspects: list[Suspect], ids: list[Any] | None) -> dict[str, Any]:
    """Columns of a file that is read as pairs again: rows by ID where they have one."""
    names = ("left", "right", "link", "by", "probability", "reason", "source_row")
    columns = {name: [getattr(suspect, name) for suspect in suspects] for name in names}
    if ids is not None:
        columns |= {end: [ids[row] for row in columns[end]] for end in ("left", "right")}
    return columns


def _suspect_lines(suspects: list[Suspect], ids: list[Any] | None) -> list[str]:
    if not suspects:
        return ["no answer seems wrong"]
    lines = [f"{len(suspects)} answers to look at again:"]
    for suspect in suspects[:SHOWN_SUSPECTS]:
        left, right = (row if ids is None else ids[row] for row in (suspect.left, suspect.right))
        by = f" by {suspect.by}" if suspect.by else ""
        doubt = "" if suspect.probability is None else f"wrong with {100 * suspect.probability:.0f} %; "
        lines.append(
            f"  {suspect.link} ({left}, {right}) at row {suspect.source_row}{by}: {doubt}{suspect.reason}"
        )
    more = len(suspects) - SHOWN_SUSPECTS
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _conflict_fields(conflict: Any, ids: list[Any] | None) -> dict[str, Any]:
    chain = {} if ids is None else {"chain_ids": [ids[row] for row in conflict.chain]}
    return {**asdict(conflict), **chain, "explanation": conflict.explain(ids)}


def _lines(
    summary: ConstraintSummary,
    people: dict[str, int],
    conflicts: ConflictReport,
    *,
    n_rows: int | None,
    ids: list[Any] | None,
    limit: int | None,
) -> list[str]:
    lines = str(summary).splitlines()
    if people:
        said = ", ".join(f"{name} ({count})" for name, count in list(people.items())[:SHOWN_PEOPLE])
        more = f" and {len(people) - SHOWN_PEOPLE} more" if len(people) > SHOWN_PEOPLE else ""
        lines.append(f"given by        {len(people)}: {said}{more}")
    if n_rows:
        share = 100 * summary.n_rows_covered / n_rows
        lines.append(f"coverage        {share:.1f} % of {n_rows:,} rows are in at least one pair")
    if conflicts:
        lines += ["", conflicts.summary(limit=len(conflicts) if limit is None else limit, ids=ids)]
    return lines


def datasets(as_json: JsonOption = False) -> None:
    """List the benchmark datasets and how to get the missing ones."""
    with command_terminal("datasets", as_json=as_json) as terminal:
        found = list_datasets()
        missing = [f"{info.name}: {info.how_to_get}" for info in found if not info.available]
        text = [as_text(_dataset_table(found))]
        if missing:
            text += ["", "How to get the missing ones:", *missing]
        terminal.print_result({"datasets": [asdict(info) for info in found]}, text)


def _dataset_table(found: list[DatasetInfo]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "rows", "features", "classes", "in the paper", "location"):
        table.add_column(heading, justify="right" if heading in {"rows", "features", "classes"} else "left")
    for info in found:
        table.add_row(
            info.name,
            f"{info.rows:,}",
            f"{info.features:,}",
            str(info.classes),
            "yes" if info.in_paper else "",
            info.location or "missing",
        )
    return table

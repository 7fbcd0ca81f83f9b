"""``spherepair check``, ``datasets`` and ``bench``: what pairs say, benchmark data and experiments."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from spherepair.cli.options import (
    AddressOption,
    DataOption,
    Engine,
    EngineOption,
    EscapeOption,
    IdOption,
    JsonOption,
    PairsArgument,
    QuietOption,
    WorkersOption,
    check_output,
)
from spherepair.cli.terminal import CONTRADICTORY, Terminal, as_text, command_terminal
from spherepair.constraints import ConflictReport, Constraints, ConstraintSummary
from spherepair.errors import InvalidParameterError
from spherepair.files.columns import write_columns
from spherepair.files.data_tables import Rows, read_rows

if TYPE_CHECKING:
    from spherepair.benchmark import GridOutcome, GridProgress
    from spherepair.clustering.suspects import Suspect
    from spherepair.datasets import DatasetInfo

#: People named in the summary; all are counted.
SHOWN_PEOPLE = 5
#: Suspicious answers that are listed; a file has all.
SHOWN_SUSPECTS = 20
#: Exit code if some runs failed; the same command tries them again.
SOME_FAILED = 1


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
    escape: EscapeOption = False,
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
            write_columns(suspects_out, _suspect_columns(suspects or [], ids), escape=escape)
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
        from spherepair.datasets import list_datasets  # loads scikit-learn

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


bench = typer.Typer(
    name="bench", help="Run the paper's experiments and report the results.", no_args_is_help=True
)


@bench.command(epilog="Example: spherepair bench run main --out results --data mnist --data fashion_mnist")
def run(
    experiment: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Name of an experiment (see bench list) or a .toml file.")
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")],
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="NAME", help="Only this dataset; can be repeated.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", metavar="NAME", help="Only this method; can be repeated.")
    ] = None,
    pairs: Annotated[
        list[int] | None,
        typer.Option("--pairs", metavar="N", help="Only this number of pairs; can be repeated."),
    ] = None,
    wrong: Annotated[
        list[float] | None,
        typer.Option("--wrong", metavar="SHARE", help="Only this share of wrong answers; can be repeated."),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", metavar="N", help="Only this seed; can be repeated.")
    ] = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    workers: WorkersOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the part of an experiment that is not done yet.

    After an interruption the same command continues. Several processes may share one folder. With --engine,
    processes or a Ray cluster whose machines share the folder do the runs. Exit code 1: some runs failed.
    """
    from spherepair.benchmark import read_experiment, run_grid  # loads torch

    continues = "interrupted; run the same command again to continue."
    with command_terminal("bench run", as_json=as_json, quiet=quiet, interrupted=continues) as terminal:
        with terminal.progress_bar("runs") as bar:

            def show(state: GridProgress) -> None:
                bar.show("runs", state.n_finished, total=state.n_runs, remark=state.title)

            outcome = run_grid(
                read_experiment(experiment),
                out,
                datasets=tuple(data or ()),
                methods=tuple(methods or ()),
                pairs=tuple(pairs or ()),
                wrong_answers=tuple(wrong or ()),
                seeds=tuple(seeds or ()),
                progress=show,
                carry=_carrier(engine, workers, address),
            )
        _print_outcome(terminal, outcome, out)
    if outcome.failures:
        raise typer.Exit(SOME_FAILED)


def _carrier(engine: Engine | None, workers: int | None, address: str | None) -> Any:
    """Who does the runs; ``None`` is this process."""
    if engine is None:
        used = [name for name, value in (("--address", address), ("--workers", workers)) if value is not None]
        if used:
            raise InvalidParameterError(f"{used[0]} is for --engine local or --engine ray.")
        return None
    from spherepair.scale.engines import carrier  # loads torch

    return carrier(engine.value, workers, address)


@bench.command(name="report", epilog="Example: spherepair bench report results")
def write(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the results of bench run.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the report.", show_default="DIR"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write report.md with its figures, and report.html as a single file."""
    from spherepair.benchmark import write_report

    with command_terminal("bench report", as_json=as_json) as terminal:
        with terminal.spinner("drawing and writing"):
            written = write_report(folder, out=out)
        fields = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(written).items()}
        missing = written.n_expected - written.n_done
        text = [
            f"{written.markdown}\n{written.html}",
            f"{written.n_done} of {written.n_expected} runs are in the report.",
        ]
        text += [f"{missing} are missing, of which {written.n_failed} failed."] if missing else []
        terminal.print_result(fields, text)


@bench.command(name="list", epilog="Example: spherepair bench list --json")
def list_all(as_json: JsonOption = False) -> None:
    """List the experiments that come with the package."""
    from spherepair.benchmark import list_experiments

    with command_terminal("bench list", as_json=as_json) as terminal:
        found = list_experiments()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("name", "title", "in the paper"):
            table.add_column(heading)
        for entry in found:
            table.add_row(entry.id, entry.title, entry.paper)
        fields = [{"name": e.id, "title": e.title, "paper": e.paper, "command": e.command} for e in found]
        terminal.print_result({"experiments": fields}, [as_text(table)])


def _print_outcome(terminal: Terminal, outcome: GridOutcome, out: Path) -> None:
    fields = {**asdict(outcome), "out": str(out)}
    text = [*(f"failed: {name}: {error}" for name, error in outcome.failures), outcome.sentence()]
    if outcome.failures:
        text.append("Run the same command again to retry the failed runs.")
    text.append(f"Report: spherepair bench report {out}")
    terminal.print_result(fields, text)

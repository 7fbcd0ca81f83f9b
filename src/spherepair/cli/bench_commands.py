"""``spherepair bench``: repeat the paper's experiments and report the results beside the paper's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from spherepair.benchmark import (
    GridOutcome,
    GridProgress,
    list_experiments,
    read_experiment,
    run_grid,
    write_report,
)
from spherepair.cli.options import JsonOption, QuietOption
from spherepair.cli.terminal import Terminal, as_text, command_terminal

#: Exit code if some runs failed; the same command tries them again.
SOME_FAILED = 1

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
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the part of an experiment that is not done yet.

    After an interruption the same command continues. Several processes may share one folder. Exit code 1
    means that some runs failed.
    """
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
            )
        _print_outcome(terminal, outcome, out)
    if outcome.failures:
        raise typer.Exit(SOME_FAILED)


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

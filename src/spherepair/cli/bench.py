"""``spherepair bench``: the paper's experiments again, and a report that stands beside the paper."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from spherepair.benchmark import GridOutcome, list_experiments, read_experiment, run_grid, write_report
from spherepair.benchmark.runner import Step
from spherepair.cli.options import JsonOption, QuietOption
from spherepair.cli.reporting import Report, as_text, reporting

NAME = "bench"
EXAMPLE = "Example: spherepair bench run toy --out results, then spherepair bench report results"
#: Exit code where some runs failed; they are tried again by the same command.
SOME_FAILED = 1

app = typer.Typer(
    name=NAME,
    help="Run the paper's experiments and report on them.",
    epilog=EXAMPLE,
    no_args_is_help=True,
)


@app.command(epilog="Example: spherepair bench run main --out results --data mnist --data fashion_mnist")
def run(
    experiment: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Name of an experiment (see list) or a .toml file.")
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the results.")],
    data: Annotated[
        list[str] | None, typer.Option("--data", metavar="NAME", help="Only this data set; may be repeated.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", metavar="NAME", help="Only this method; may be repeated.")
    ] = None,
    pairs: Annotated[
        list[int] | None,
        typer.Option("--pairs", metavar="N", help="Only this number of pairs; may be repeated."),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option("--seed", metavar="N", help="Only this seed; may be repeated.")
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Do the runs of an experiment that are not done yet.

    Killed or interrupted, the same command goes on; several may work on one folder. Exit code 1: some failed.
    """
    goes_on = "interrupted; run the same command again to go on."
    with reporting(f"{NAME} run", as_json=as_json, quiet=quiet, interrupted=goes_on) as report:
        with report.bar("runs") as bar:

            def show(step: Step) -> None:
                bar.show("runs", step.n_settled, total=step.n_runs, remark=step.name)

            outcome = run_grid(
                read_experiment(experiment),
                out,
                datasets=tuple(data or ()),
                methods=tuple(methods or ()),
                pairs=tuple(pairs or ()),
                seeds=tuple(seeds or ()),
                watch=show,
            )
        _finish(report, outcome, out)
    if outcome.failures:
        raise typer.Exit(SOME_FAILED)


@app.command(name="report", epilog="Example: spherepair bench report results")
def write(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that bench run has filled.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where to write; DIR if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write report.md with its figures, and report.html, one page that needs nothing else."""
    with reporting(f"{NAME} report", as_json=as_json) as report:
        with report.working("drawing and writing"):
            written = write_report(folder, out=out)
        fields = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(written).items()}
        missing = written.n_expected - written.n_done
        text = [
            f"{written.markdown}\n{written.html}",
            f"{written.n_done} of {written.n_expected} runs are in it.",
        ]
        text += [f"{missing} are missing, of which {written.n_failed} failed."] if missing else []
        report.finish(fields, text)


@app.command(name="list", epilog="Example: spherepair bench list --json")
def list_all(as_json: JsonOption = False) -> None:
    """List the experiments that ship with the package."""
    with reporting(f"{NAME} list", as_json=as_json) as report:
        found = list_experiments()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("name", "title", "in the paper"):
            table.add_column(heading)
        for entry in found:
            table.add_row(entry.id, entry.title, entry.paper)
        fields = [{"name": e.id, "title": e.title, "paper": e.paper, "command": e.command} for e in found]
        report.finish({"experiments": fields}, [as_text(table)])


def _finish(report: Report, outcome: GridOutcome, out: Path) -> None:
    fields = {**asdict(outcome), "out": str(out)}
    text = [*(f"failed: {name}: {error}" for name, error in outcome.failures), outcome.sentence()]
    if outcome.failures:
        text.append("Run the same command again to try the failed ones once more.")
    text.append(f"Report: spherepair bench report {out}")
    report.finish(fields, text)

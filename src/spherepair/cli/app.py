"""The commands put together, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Annotated, Any

import typer

from spherepair.cli import bench, check, clusters, datasets, demo, fit, predict, report
from spherepair.cli.endings import BAD_INPUT, INTERRUPTED, Ending, explain
from spherepair.cli.reporting import write_json
from spherepair.version import __version__

app = typer.Typer(
    name="spherepair",
    help="Group rows from must-link and cannot-link pairs, even when the number of clusters is unknown.",
    epilog="Exit codes: 0 done, 2 bad input, 3 contradictory pairs, 130 interrupted. With --json a command "
    'prints one JSON object, for errors {"error": {"type", "message", "exit_code"}}. '
    "Try it: spherepair demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, fit, predict, check, clusters, report, datasets):
    app.command(name=module.NAME, epilog=module.EXAMPLE)(module.command)
app.add_typer(bench.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spherepair {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run(argv: list[str]) -> int:
    """Run a command; whatever a user can mend ends in one sentence on stderr and an exit code."""
    _never_fail_to_print()
    try:
        typer.main.get_command(app)(args=argv, prog_name="spherepair")
    except SystemExit as end:
        return _after_typer(end, as_json="--json" in argv)
    except Exception as error:
        ending = explain(error)
        if ending is None:
            raise
        _print(ending, as_json="--json" in argv)
        return ending.code
    return 0


def _after_typer(end: SystemExit, *, as_json: bool) -> int:
    """The exit code of a command that typer has ended; usage errors are on stderr already."""
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if isinstance(end.__context__, typer.Abort):
        return INTERRUPTED
    if code == BAD_INPUT and as_json:
        usage: Any = end.__context__
        message = usage.format_message() if hasattr(usage, "format_message") else "wrong usage"
        write_json({"error": Ending(code, "UsageError", message).to_dict()})
    return code


def _print(ending: Ending, *, as_json: bool) -> None:
    if ending.sentence:
        sys.stderr.write(f"{ending.sentence}\n")
    if as_json:
        write_json({"error": ending.to_dict()})


def _never_fail_to_print() -> None:
    """Replace what a terminal's encoding lacks, rather than end in a UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(io.UnsupportedOperation, ValueError):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")

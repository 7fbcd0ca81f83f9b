"""The commands put together, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from spherepair.cli.endings import BAD_INPUT, INTERRUPTED, Ending, explain
from spherepair.cli.reporting import write_json
from spherepair.version import __version__

#: The commands, in the order of the help, and their first sentence. The module of a command is loaded when
#: it is called: most need torch, for which nobody should wait who asks for help or mistypes a name.
COMMANDS = {
    "demo": "Pairs, a fit with unknown number of clusters, new rows labelled, a report; a minute or two.",
    "fit": "Learn clusters from rows and pairs, and save the model.",
    "refine": "Go on from a saved model with more pairs, in a fraction of the time of a fit.",
    "predict": "Label rows with a saved model.",
    "check": "Say what pairs cover, what follows from them, and where they contradict each other.",
    "clusters": "Say how many clusters there are, why, and how sure that is.",
    "report": "Write one HTML file: clusters, a map, constraints kept and violated, examples, what to "
    "label next.",
    "datasets": "List the data sets of the benchmarks and how to get those that are not here.",
    "bench": "Run the paper's experiments and report on them.",
}


def build_app(called: str | None) -> typer.Typer:
    """The command line with the command ``called`` as it is, and of all others the name and a sentence."""
    app = typer.Typer(
        name="spherepair",
        help="Group rows from must-link and cannot-link pairs, even when the number of clusters is unknown.",
        epilog="Exit codes: 0 done, 2 bad input, 3 contradictory pairs, 130 interrupted. With --json a "
        'command prints one JSON object, for errors {"error": {"type", "message", "exit_code"}}. '
        "Try it: spherepair demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, sentence in COMMANDS.items():
        if name != called:
            app.command(name=name, help=sentence)(_not_called)
            continue
        module = import_module(f"spherepair.cli.{name}")
        if isinstance(getattr(module, "app", None), typer.Typer):
            app.add_typer(module.app)
        else:
            app.command(name=name, epilog=module.EXAMPLE)(module.command)
    return app


def _not_called() -> None:
    """Stands for the other commands."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spherepair {__version__}")
        raise typer.Exit()


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
        app = build_app(argv[0] if argv and argv[0] in COMMANDS else None)
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

"""The commands put together, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from safetensors import SafetensorError

from spherepair import __version__
from spherepair.cli import ending_code, ending_word, was_ended
from spherepair.cli.terminal import (
    BAD_INPUT,
    BUG,
    CONTRADICTORY,
    DONE,
    INTERRUPTED,
    InterruptedCommand,
    ReaderGone,
    in_options,
    write_json,
)
from spherepair.errors import ConflictError, SpherePairError, bug_sentence

#: Contradictions listed in the JSON of an error; all are counted.
SHOWN_CONFLICTS = 20
#: Most characters of an error on the terminal.
LONGEST_LINE = 2_000


@dataclass(frozen=True)
class Command:
    """A command: the module that defines it, its first sentence and an example for its help."""

    module: str
    summary: str
    example: str


#: The commands in the order of the help. A command's module is imported only when it is called:
#: most need torch, which takes seconds to load.
COMMANDS = {
    "demo": Command(
        "demo_command",
        "Try the whole workflow on images of digits; takes a minute or two.",
        "spherepair demo --out demo-output",
    ),
    "ask": Command(
        "ask_command",
        "Ask a person or a program which rows belong together.",
        "spherepair ask rows.csv --id id --out answers.jsonl",
    ),
    "label": Command(
        "label_command",
        "Group rows in a browser: answer questions, look at the groups, mend and name them.",
        "spherepair label messages.csv --text message --id id",
    ),
    "fit": Command(
        "model_commands",
        "Learn clusters from rows and pairs and save the model.",
        "spherepair fit rows.csv --constraints pairs.csv --id id --out model/",
    ),
    "refine": Command(
        "model_commands",
        "Continue training a saved model with more pairs; much faster than a new fit.",
        "spherepair refine model/ rows.csv --constraints more_pairs.csv --id id --out model/",
    ),
    "predict": Command(
        "predict_command",
        "Label rows with a saved model, a file or a data set of any size, and say how sure each label is.",
        "spherepair predict model/ new_rows.csv --id id --out labels.csv",
    ),
    "explain": Command(
        "inspect_commands",
        "Say why a row is in its cluster: typical rows, answers, values or words that mattered.",
        "spherepair explain model/ rows.csv --id id --row m-17",
    ),
    "check": Command(
        "data_commands",
        "Summarize pairs: counts, coverage, implied pairs, contradictions, and with --model wrong answers.",
        "spherepair check pairs.csv --data rows.csv --id id",
    ),
    "clusters": Command(
        "inspect_commands",
        "Estimate the number of clusters, with reasons and confidence.",
        "spherepair clusters model/ --constraints pairs.csv --plot curve.png",
    ),
    "report": Command(
        "inspect_commands",
        "Write an HTML report: clusters, map, violated pairs, examples, what to label next.",
        "spherepair report model/ --data rows.csv --id id --constraints pairs.csv --out report.html",
    ),
    "datasets": Command(
        "data_commands",
        "List the benchmark datasets and how to get the missing ones.",
        "spherepair datasets --json",
    ),
    "bench": Command(
        "data_commands",
        "Run the paper's experiments and report the results.",
        "spherepair bench run toy --out results, then spherepair bench report results",
    ),
}


def prepare(argv: list[str]) -> Callable[[], int]:
    """Load what a command needs; returns a function that runs it and gives its exit code."""
    _replace_unprintable()
    try:
        app = build_app(argv[0] if argv and argv[0] in COMMANDS else None)
        return partial(run, typer.main.get_command(app), argv)
    except Exception as error:
        return partial(_fail, error, argv)


def run(command: Any, argv: list[str]) -> int:
    """Run a command; whatever goes wrong becomes one sentence on stderr and an exit code."""
    try:
        command(args=argv, prog_name="spherepair")
    except SystemExit as end:
        return _exit_code(end, as_json="--json" in argv)
    except Exception as error:
        return _fail(error, argv)
    return DONE


def _fail(error: Exception, argv: list[str]) -> int:
    failure = explain(error) or (_ended() if was_ended() else _bug(error, argv))
    _print(failure, as_json="--json" in argv)
    return failure.code


def _ended() -> Failure:
    return Failure(ending_code(), "Interrupted", f"{ending_word()}; what was not finished was not written.")


def _bug(error: Exception, argv: list[str]) -> Failure:
    return Failure(
        BUG, type(error).__name__, f"error: {bug_sentence(error, f'{__version__}: {shlex.join(argv)}')}"
    )


def build_app(called: str | None) -> typer.Typer:
    """The command line with the command `called` in full; the other commands only have a summary."""
    app = typer.Typer(
        name="spherepair",
        help="Cluster rows from must-link and cannot-link pairs, even if the number of clusters is unknown.",
        epilog="Exit codes: 0 done, 2 bad input, 3 contradictory pairs, 70 a bug, 130 interrupted. With "
        '--json a command prints one JSON object, for errors {"error": {"type", "message", "exit_code"}}. '
        "Try it: spherepair demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        if name != called:
            app.command(name=name, help=command.summary)(_not_called)
            continue
        function = getattr(import_module(f"spherepair.cli.{command.module}"), name)
        if isinstance(function, typer.Typer):
            app.add_typer(function, epilog=f"Example: {command.example}")
        else:
            app.command(name=name, epilog=f"Example: {command.example}")(function)
    return app


def _not_called() -> None:
    """Placeholder of a command that is not called."""


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


def _exit_code(end: SystemExit, *, as_json: bool) -> int:
    """The exit code of a command ended by typer, which has printed usage errors to stderr."""
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if isinstance(end.__context__, typer.Abort):
        return ending_code()
    if code == BAD_INPUT and as_json:
        usage: Any = end.__context__
        message = usage.format_message() if hasattr(usage, "format_message") else "wrong usage"
        write_json({"error": Failure(code, "UsageError", message).to_dict()})
    return code


@dataclass(frozen=True)
class Failure:
    """Why a command stopped.

    Attributes
    ----------
    code : int
        Exit code.
    kind : str
        Name of the error, for machines.
    sentence : str
        What a person reads; may be empty.
    details : dict
        More entries for the JSON.
    """

    code: int
    kind: str
    sentence: str
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        message = self.sentence.removeprefix("error: ")
        return {"type": self.kind, "message": message, "exit_code": self.code, **self.details}


def explain(error: Exception) -> Failure | None:
    """Describe an error that the user can fix; ``None`` for a bug of ours.

    Examples
    --------
    >>> explain(FileNotFoundError(2, "No such file or directory", "rows.csv")).sentence
    'error: rows.csv: No such file or directory.'
    >>> explain(ZeroDivisionError()) is None
    True
    """
    for kinds, usual, describe in _FAILURES:
        if isinstance(error, kinds):
            code = ending_code() if usual == INTERRUPTED else usual
            return Failure(code, type(error).__name__, _shortened(describe(error)), _details(error))
    return None


def _details(error: Exception) -> dict[str, Any]:
    report: Any = getattr(error, "conflicts", None)
    return {} if report is None else dict(report.to_dict(limit=SHOWN_CONFLICTS))


def _plain(error: Exception) -> str:
    return in_options(str(error))


def _shortened(line: str) -> str:
    """The line as a terminal can show it: printable, and not longer than a person reads."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in line[:LONGEST_LINE])
    return shown if len(line) <= LONGEST_LINE else f"{shown[:-1]}… ({len(line):,} characters)"


def _sentence(error: Exception) -> str:
    return f"error: {in_options(str(error))}"


def _about_file(error: OSError) -> str:
    if error.strerror is None:
        return _sentence(error)
    name = "" if error.filename is None else f"{error.filename}: "
    return f"error: {name}{error.strerror}."


def _about_model(error: Exception) -> str:
    return f"error: the model could not be written or read: {in_options(str(error))}."


def _about_memory(error: Exception) -> str:
    return "error: not enough memory; give fewer rows, or a .npy file, which is read in blocks."


#: The first match decides, so specific errors come first.
_FAILURES: tuple[tuple[type[Exception], int, Callable[[Any], str]], ...] = (
    (InterruptedCommand, INTERRUPTED, _plain),
    (ReaderGone, DONE, _plain),
    (ConflictError, CONTRADICTORY, _sentence),
    (SpherePairError, BAD_INPUT, _sentence),
    (OSError, BAD_INPUT, _about_file),
    (SafetensorError, BAD_INPUT, _about_model),
    (MemoryError, BAD_INPUT, _about_memory),
)


def _print(failure: Failure, *, as_json: bool) -> None:
    if failure.sentence:
        sys.stderr.write(f"{failure.sentence}\n")
    if as_json:
        write_json({"error": failure.to_dict()})


def _replace_unprintable() -> None:
    """Replace characters that the terminal's encoding lacks instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(io.UnsupportedOperation, ValueError):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")

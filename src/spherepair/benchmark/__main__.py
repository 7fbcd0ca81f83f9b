"""``python -m spherepair.benchmark``: the benchmark where the command line's packages are not installed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spherepair.benchmark.experiments import list_experiments, read_experiment
from spherepair.benchmark.reporting import write_report
from spherepair.benchmark.runner import Step, run_grid
from spherepair.errors import SpherePairError

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run, report or list; exit codes as for ``spherepair bench``."""
    options = _parser().parse_args(argv)
    try:
        return int(options.work(options))
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to go on.\n")
        return INTERRUPTED
    except (SpherePairError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spherepair.benchmark", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="do the runs of an experiment that are not done yet")
    run.add_argument("experiment", help="name of an experiment (see list) or a .toml file")
    run.add_argument("--out", required=True, help="folder of the results")
    run.add_argument("--data", nargs="+", default=(), help="only these data sets")
    run.add_argument("--method", nargs="+", default=(), help="only these methods")
    run.add_argument("--pairs", nargs="+", type=int, default=(), help="only these numbers of pairs")
    run.add_argument("--seed", nargs="+", type=int, default=(), help="only these seeds")
    run.set_defaults(work=_run)
    report = commands.add_parser("report", help="write report.md and report.html")
    report.add_argument("folder")
    report.add_argument("--out", help="where to write; the same folder if not given")
    report.set_defaults(work=_report)
    commands.add_parser("list", help="the experiments that ship with the package").set_defaults(work=_list)
    return parser


def _run(options: argparse.Namespace) -> int:
    outcome = run_grid(
        read_experiment(options.experiment),
        options.out,
        datasets=tuple(options.data),
        methods=tuple(options.method),
        pairs=tuple(options.pairs),
        seeds=tuple(options.seed),
        watch=_say,
    )
    for name, error in outcome.failures:
        sys.stderr.write(f"failed: {name}: {error}\n")
    sys.stdout.write(f"{outcome.sentence()}\n")
    return FAILED if outcome.failures else 0


def _say(step: Step) -> None:
    if step.name:
        sys.stderr.write(f"{step.n_settled} of {step.n_runs} settled; now {step.name}\n")
        sys.stderr.flush()


def _report(options: argparse.Namespace) -> int:
    written = write_report(options.folder, out=options.out)
    sys.stdout.write(
        f"{written.markdown} and {written.html}: {written.n_done} of {written.n_expected} runs.\n"
    )
    return 0


def _list(options: argparse.Namespace) -> int:
    for experiment in list_experiments():
        sys.stdout.write(f"{experiment.id:16s} {experiment.title}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Damaged and hostile files for every reader: a result or an error of ours, nothing else, within ten seconds.

And requests for every route of the page, see routes.py.

    python -m tests.fuzz.fuzzing --seconds 600 [--seed 0] [--target pairs] [--memory 1024]

Inputs are whole files that were altered at random: bytes, numbers, brackets, pieces of other files. Models
and checkpoints are signed again, so that the altered content is looked at. The readers run in a second
process. An input that crashes it, hangs, takes too much memory or raises anything that is no error of ours is
kept in ``fuzz-output``, to be made smaller and put into ``tests/fuzz/corpus/TARGET``. Exit code 1 if there is
one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.fuzz.postgresql import SERVER, find_postgresql, running_postgresql
from tests.fuzz.targets import TARGETS

from spherepair.errors import SpherePairError

#: The target that reads no files.
ROUTES = "routes"
CORPUS = Path(__file__).parent / "corpus"
#: Longest time for one input, in seconds, and the longest message.
LONGEST, LONGEST_MESSAGE = 10, 3000
#: Longest time until a process has the whole files to start from: some are fitted.
LONGEST_START = 600


def try_input(target: str, files: dict[str, bytes], folder: Path) -> str:
    """Read altered files; "read" or the name of our error. Anything else is raised."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TARGETS[target].read(folder)
    except SpherePairError as error:
        if len(str(error)) > LONGEST_MESSAGE:
            raise AssertionError(f"a message of {len(str(error))} characters") from error
        return type(error).__name__
    return "read"


def inputs(target: str, seed: int) -> Iterator[dict[str, bytes]]:
    """Altered files without end; the same seed gives the same."""
    source, whole = random.Random(f"{target} {seed}"), TARGETS[target].seeds()
    while True:
        yield TARGETS[target].alter(source, source.choice(whole))


def corpus() -> list[tuple[str, dict[str, bytes]]]:
    """Inputs that were found once: folders of files, or single files, by target."""
    found = []
    for path in sorted(CORPUS.glob("*/*")):
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found.append((path.parent.name, {file.name: file.read_bytes() for file in files}))
    return found


class HangError(KeyboardInterrupt):
    """An input takes too long; readers take everything but an interruption for a damaged file."""


def work(target: str, seed: int, seconds: float, memory: int, folder: Path, pipe: Any) -> None:
    """Read inputs until the time is over; runs in a process of its own."""

    def too_long(*_: object) -> None:
        raise HangError(f"longer than {LONGEST} s")

    signal.signal(signal.SIGALRM, too_long)
    started, counts = time.monotonic(), Counter[str]()
    for number, files in enumerate(inputs(target, seed)):
        if number == 0:
            resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        if time.monotonic() - started > seconds:
            break
        pipe.send(("trying", files, counts))
        signal.alarm(LONGEST)
        try:
            counts[try_input(target, files, folder)] += 1
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - resident
            if grown > memory:
                pipe.send(("found", files, f"{grown} MiB of memory"))
                resident += grown
        except BaseException:
            pipe.send(("found", files, traceback.format_exc()))
            counts["FOUND"] += 1
        finally:
            signal.alarm(0)
    pipe.send(("end", {}, counts))


def fuzz(target: str, *, seed: int, seconds: float, memory: int, out: Path) -> tuple[Counter[str], int]:
    """Read altered inputs for some seconds; counts of outcomes, and how many were wrong."""
    counts, n_wrong, end = Counter[str](), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        mine, theirs = multiprocessing.Pipe(duplex=False)
        with tempfile.TemporaryDirectory() as folder:
            left = end - time.monotonic()
            process = multiprocessing.Process(
                target=work, args=(target, seed, left, memory, Path(folder) / "input", theirs)
            )
            process.start()
            theirs.close()
            last: dict[str, bytes] = {}
            so_far = Counter[str]()
            try:
                while True:
                    if not mine.poll(3 * LONGEST if last else LONGEST_START):
                        process.kill()
                    what, files, said = mine.recv()
                    if what == "found":
                        n_wrong += 1
                        keep(out, target, files, said)
                    else:
                        last, so_far = files or last, said
                    if what == "end":
                        break
            except EOFError:
                n_wrong += 1
                process.join()
                keep(out, target, last, f"the process died (exit code {process.exitcode})")
            process.join()
            counts += so_far
        seed += 1
    return counts, n_wrong


def fuzz_page(*, seed: int, seconds: float, out: Path) -> tuple[Counter[str], int]:
    """Send requests for some seconds; counts of statuses, and how many replies were wrong."""
    from tests.fuzz.routes import fuzz_routes

    with ProcessPoolExecutor(1) as pool:
        try:
            outcome = pool.submit(fuzz_routes, seed, seconds).result()
        except BrokenProcessPool as error:
            keep(out, ROUTES, {}, str(error))
            return Counter(), 1
    for name, why in outcome.faults.items():
        keep(out, ROUTES, {}, f"{why}\n{name}")
    counts = Counter[str]()
    for (_, status), count in outcome.replies.items():
        counts[str(status)] += count
    return counts, len(outcome.faults)


def keep(out: Path, target: str, files: dict[str, bytes], why: str) -> None:
    """Keep an input that should not have done what it did."""
    folder = Path(tempfile.mkdtemp(prefix=f"{target}-", dir=out))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "WHY.txt").write_text(why, encoding="utf-8", errors="replace")
    sys.stderr.write(f"{folder}: {why.strip().splitlines()[-1][:200]}\n")


def _cpu_seconds() -> float:
    """Of this process and of the readers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> int:
    """Fuzz all targets, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=sorted([*TARGETS, ROUTES]), action="append")
    parser.add_argument(
        "--memory", type=int, default=1024, help="most MiB beyond what a process has at its start"
    )
    parser.add_argument("--out", type=Path, default=Path("fuzz-output"))
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    multiprocessing.set_start_method("fork")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    targets = options.target or sorted([*TARGETS, ROUTES])
    with ExitStack() as stack:
        if "servers" in targets and find_postgresql() is None:
            sys.stdout.write("servers: left out, PostgreSQL's server is not installed\n")
            targets = [target for target in targets if target != "servers"]
        elif "servers" in targets:
            os.environ[SERVER] = str(stack.enter_context(running_postgresql()))
        n_wrong = sum(_fuzz_and_tell(target, options, len(targets)) for target in targets)
    return int(n_wrong > 0)


def _fuzz_and_tell(target: str, options: argparse.Namespace, n_targets: int) -> int:
    """Fuzz one target, print what came of it; how many inputs were wrong."""
    before, seconds = _cpu_seconds(), options.seconds / n_targets
    if target == ROUTES:
        counts, wrong = fuzz_page(seed=options.seed, seconds=seconds, out=options.out)
    else:
        counts, wrong = fuzz(
            target, seed=options.seed, seconds=seconds, memory=options.memory, out=options.out
        )
    speed = counts.total() / max(1e-9, _cpu_seconds() - before)
    sys.stdout.write(
        f"{target}: {counts.total()} inputs, {speed:.0f} per CPU second, {wrong} wrong; {dict(counts)}\n"
    )
    sys.stdout.flush()
    return wrong


if __name__ == "__main__":
    sys.exit(main())

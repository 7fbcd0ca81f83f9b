"""Kills commands at random moments, fills their disk, lets two write at once, and looks at what is left.

    python bench/chaos.py [--kills 100] [--seed 0] [--only save] [--disk FOLDER]

After every kill the old or the new result must be whole, a command that is run again must end with the result
of an uninterrupted run, and once it has ended no temporary file may be left. Disks are filled on a small file
system of our own (``mount -t tmpfs``, which needs root); elsewhere on ``--disk``, a folder on a small file
system, or else no file may become longer than some bytes (RLIMIT_FSIZE). What is killed is in
``chaos_trials.py``; the page is in ``label_kills.py``. Exit code 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos_disk import REFUSED, small_disk, too_little_room
from chaos_label import kill_label, label_on_full_disk
from chaos_ray import RayJob
from chaos_trials import Run, Trial, Workshop

from spherepair.errors import SpherePairError

#: What commands load, so that forks of this process have it.
LOADED = (
    *("cli.app", "cli.model_commands", "cli.predict_command", "cli.inspect_commands", "cli.ask_command"),
    *("cli.data_commands", "cli.label_command", "app.server", "report", "benchmark", "scale", "baselines"),
)
#: Bytes that are left on the small disk when it is full, and pairs of runs at once.
ROOMS, N_TWICE = (0, 0, 4096, 8192, 30_000, 100_000), 4


def kill_again_and_again(
    workshop: Workshop, trial: Trial, out: Path, kills: int, source: random.Random
) -> Counter[str]:
    """Kill one command at moments spread over its whole run, then let it end."""
    counts = Counter[str]()
    seconds = 0.05 if trial.is_endless else _measure(workshop, trial)
    while counts["kills"] < kills and counts["ended before"] <= 2 * kills:
        trial.prepare()
        run = Run(trial.work, workshop.log)
        if run.kill_after(source.uniform(0, 1.05 * seconds)):
            counts["kills"] += 1
        else:
            counts["ended before"] += 1
            seconds = min(seconds, time.monotonic() - run.started)
        counts["not whole"] += not _holds(trial.is_whole)
    if not trial.is_endless:
        counts += _run_to_the_end(workshop, trial)
    else:
        workshop.do(lambda: workshop.save_once(out / "model"))
    return counts + _left_behind(out)


def _measure(workshop: Workshop, trial: Trial) -> float:
    trial.prepare()
    started = time.monotonic()
    workshop.do(trial.work)
    return time.monotonic() - started


def _run_to_the_end(workshop: Workshop, trial: Trial) -> Counter[str]:
    trial.prepare()
    run = Run(trial.work, workshop.log)
    code = run.wait()
    if code:
        print(f"  exit code {code} at the end: {run.said[-500:]}")
    return Counter({"not resumed": int(code != 0 or not _holds(trial.is_complete))})


def _holds(is_so: Callable[[], bool]) -> bool:
    try:
        return is_so()
    except (SpherePairError, OSError, ValueError, KeyError) as error:
        print(f"  not whole: {error!r}")
        return False


def _left_behind(out: Path) -> Counter[str]:
    """Temporary files that nobody uses any more; a lock file stays."""
    left = [path for path in out.rglob(".*") if path.suffix != ".lock"]
    for path in left[:3]:
        print(f"  left behind: {path}")
    return Counter({"left behind": len(left)})


def run_twice_at_once(workshop: Workshop, trial: Trial, out: Path) -> Counter[str]:
    """Two runs of one command with the same output: both end, or one is told of the other."""
    counts = Counter[str]()
    for _ in range(N_TWICE):
        trial.prepare()
        runs = [Run(trial.work, workshop.log.with_name(f"log-{number}.txt")) for number in range(2)]
        if trial.is_endless:
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                counts["reads"] += 1
                counts["not whole"] += not _holds(trial.is_whole)
            for run in runs:
                run.kill_after(0)
            continue
        codes = sorted(run.wait() for run in runs)
        counts[f"exit codes {codes}"] += 1
        is_right = codes[0] == 0 and codes[1] in trial.second
        if not is_right:
            print(f"  {codes}: {' | '.join(run.said[-300:] for run in runs)}")
        counts["not whole"] += not (is_right and _holds(trial.is_complete))
    return counts + (_left_behind(out) if not trial.is_endless else Counter())


def run_on_full_disk(workshop: Workshop, trial: Trial, out: Path, *, is_disk: bool) -> Counter[str]:
    """Runs with too little room, each followed by one with enough."""
    counts = Counter[str]()
    for room in ROOMS:
        trial.prepare()
        with too_little_room(out, room, is_disk=is_disk) as most_bytes:
            run = Run(trial.work, workshop.log, most_bytes=most_bytes)
            code = run.wait()
            counts["refused" if code else "had room"] += 1
            if code not in (0, *REFUSED) or "Traceback" in run.said:
                counts["not a sentence"] += 1
                print(f"  exit code {code}: {run.said[-600:]}")
            counts["not whole"] += not _holds(trial.is_whole)
        counts += _run_to_the_end(workshop, trial)
    return counts + _left_behind(out)


def _sections(workshop: Workshop, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Counter]]]:
    """Names of all trials, and what does them."""
    source, out = random.Random(options.seed), workshop.at / "out"
    out.mkdir()
    has_ray = importlib.util.find_spec("ray") is not None
    for name, trial in workshop.trials(out).items():
        yield name, lambda t=trial: kill_again_and_again(workshop, t, out, options.kills, source)
        yield f"two at once: {name}", lambda t=trial: run_twice_at_once(workshop, t, out)
    with small_disk(options.disk) as (folder, is_disk):
        for name, trial in workshop.trials(folder).items():
            if not trial.is_endless:
                yield (
                    f"full disk: {name}",
                    lambda t=trial: run_on_full_disk(workshop, t, folder, is_disk=is_disk),
                )
        if is_disk:
            yield "full disk: label", lambda: label_on_full_disk(workshop, folder)
        if is_disk and has_ray:
            yield "full disk: predict --engine ray", RayJob(workshop, folder).run_on_full_disk
    yield "label", lambda: kill_label(workshop, options.kills, options.seed)
    if has_ray:
        job = RayJob(workshop, out)
        yield "two at once: predict --engine ray", job.run_twice_at_once
        yield "predict --engine ray", lambda: job.kill_drivers(options.kills, source)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="the name of a trial; can be repeated")
    parser.add_argument("--disk", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for module in LOADED:
        importlib.import_module(f"spherepair.{module}")
    is_bad = False
    # In memory where that is possible: kills do not empty it, and waiting for a disk takes most of the time.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        workshop = Workshop(Path(folder))
        for name, work in _sections(workshop, options):
            if options.only and name not in options.only:
                continue
            started = time.monotonic()
            counts = work()
            wrong = {word: counts[word] for word in WRONG if counts[word]}
            is_bad |= bool(wrong)
            shown = {word: count for word, count in counts.items() if count and word not in WRONG}
            print(
                f"{name}: {shown} {wrong or 'nothing wrong'}, {time.monotonic() - started:.1f} s", flush=True
            )
    return int(is_bad)


#: Counts that must be zero.
WRONG = (
    "not whole",
    "not resumed",
    "left behind",
    "not a sentence",
    "lost",
    "twice",
    "renumbered",
    "nobody answered",
)

if __name__ == "__main__":
    sys.exit(main())

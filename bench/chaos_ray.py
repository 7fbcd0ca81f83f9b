"""``spherepair predict --engine ray`` for ``chaos.py``: killed with its Ray, two at once, on full disks."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from chaos_disk import REFUSED, too_little_room
from chaos_trials import N_FILES, Workshop

#: Bytes that are left on a full disk. A job takes ten seconds, so these are few.
ROOMS = (0, 8192)
LONGEST_SECONDS = 300


class RayJob:
    """A job on a cluster of its own.

    Parameters
    ----------
    workshop : Workshop
    out : Path
        The folder for its labels.
    """

    def __init__(self, workshop: Workshop, out: Path) -> None:
        self._workshop, self._out, self._labels = workshop, out, out / "labels"
        words = ["predict", workshop.at / "one", workshop.at / "set", "--out", self._labels, "-q"]
        further = ["--engine", "ray", "--workers", "2", "--device", "cpu"]
        self._command = [sys.executable, "-m", "spherepair", *map(str, words), *further]

    def kill_drivers(self, kills: int, source: random.Random) -> Counter[str]:
        """Kill a job at random moments; then it goes on and ends with the same labels."""
        counts = Counter[str]()
        self._forget()
        started = time.monotonic()
        self._finish(self._start(0))
        seconds = time.monotonic() - started
        for _ in range(kills):
            if len(list(self._labels.glob("*.parquet"))) >= N_FILES:
                self._forget()
            process = self._start(0)
            try:
                process.wait(timeout=source.uniform(0.2, 1.05) * seconds)
                counts["ended before"] += 1
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                counts["kills"] += 1
            counts["not whole"] += not self._workshop.is_whole("predict", self._out)
        return counts + self._run_to_the_end()

    def run_twice_at_once(self) -> Counter[str]:
        """Two jobs with the same output: both end, or one is told of the other."""
        self._forget()
        codes = sorted(map(self._finish, [self._start(number) for number in range(2)]))
        is_right = codes[0] == 0 and codes[1] in (0, 2)
        if not is_right:
            print(f"  {codes}: {' | '.join(self._said(number)[-300:] for number in range(2))}")
        counts = Counter({f"exit codes {codes}": 1, "not whole": int(not is_right)})
        return counts + self._run_to_the_end()

    def run_on_full_disk(self) -> Counter[str]:
        """Jobs with too little room, each followed by one with enough."""
        counts = Counter[str]()
        for room in ROOMS:
            self._forget()
            with too_little_room(self._out, room):
                code = self._finish(self._start(0))
                counts["refused" if code else "had room"] += 1
                if code not in (0, *REFUSED) or "Traceback" in self._said(0):
                    counts["not a sentence"] += 1
                    print(f"  exit code {code}: {self._said(0)[-600:]}")
                counts["not whole"] += not self._workshop.is_whole("predict", self._out)
            counts += self._run_to_the_end()
        return counts

    def _forget(self) -> None:
        shutil.rmtree(self._labels, ignore_errors=True)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        with self._log(number).open("wb") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def _finish(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise

    def _log(self, number: int) -> Path:
        return self._workshop.log.with_name(f"ray-{number}.txt")

    def _said(self, number: int) -> str:
        return self._log(number).read_text(errors="replace")

    def _run_to_the_end(self) -> Counter[str]:
        code = self._finish(self._start(0))
        if code:
            print(f"  exit code {code} at the end: {self._said(0)[-500:]}")
        workshop = self._workshop
        is_same = code == 0 and workshop.result("predict", self._out) == workshop.expected["predict"]
        left = sum(path.suffix != ".lock" for path in self._labels.rglob(".*"))
        return Counter({"not resumed": int(not is_same), "left behind": left})

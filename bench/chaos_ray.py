"""``spherepair predict --engine ray`` for ``chaos.py``: drivers are killed, and Ray with them."""

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

from chaos_trials import N_FILES, Workshop


def kill_ray_drivers(workshop: Workshop, out: Path, kills: int, source: random.Random) -> Counter[str]:
    """Kill a job on a cluster of its own a few times; then it goes on and ends with the same labels."""
    labels, counts = out / "labels", Counter[str]()
    shutil.rmtree(labels, ignore_errors=True)
    words = ["predict", workshop.at / "one", workshop.at / "set", "--out", labels, "-q", "--engine", "ray"]
    command = [sys.executable, "-m", "spherepair", *map(str, words), "--workers", "2", "--device", "cpu"]
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    for _ in range(kills):
        if len(list(labels.glob("*.parquet"))) >= N_FILES:
            shutil.rmtree(labels)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            process.wait(timeout=source.uniform(0.2, 1.05) * seconds)
            counts["ended before"] += 1
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            counts["kills"] += 1
        counts["not whole"] += not workshop.is_whole("predict", out)
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    is_same = done.returncode == 0 and workshop.result("predict", out) == workshop.expected["predict"]
    counts["not resumed"] = int(not is_same)
    counts["left behind"] = sum(path.suffix != ".lock" for path in labels.rglob(".*"))
    return counts

"""Faults of a job in parts, each at random moments: what is left must be whole, and a second run ends it.

Called by ``scale.py --only faults``. A worker is killed; the driver is killed and started again; the disk is
full in one part; a part of the input is damaged. Kills come while parts are being done: a job that was killed
before its first or after its last part does not count. A job ends with all outputs equal to those of an
undisturbed run, file by file, or with one sentence that names the part.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_FILES, FILE_ROWS = 24, 4000
#: What a damaged file gets in the place of its own bytes.
DAMAGE_BYTES = 512
SETTINGS = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
JOB = """
import resource, sys
from spherepair import scale
from spherepair.errors import SpherePairError
if __name__ == "__main__":
    model, rows, out, workers, limit, address = sys.argv[1:]
    carried = {"workers": int(workers)} if address == "None" else {"engine": "ray", "address": address}
    if limit != "None":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        done = scale.predict(rows, model=model, out=out, id_column="id", **carried)
    except SpherePairError as error:
        sys.exit(str(error))
    print(done.n_kept, done.n_rows)
"""


@dataclass(frozen=True)
class Process:
    """A process of this machine."""

    pid: int
    parent: int
    cpu: float  # seconds
    resident: int  # bytes
    peak: int  # bytes


def processes_below(pid: int) -> list[Process]:
    """A process and all below it."""
    found = [process for process in map(_look_up, Path("/proc").glob("[0-9]*")) if process is not None]
    chosen = {pid}
    while more := {one.pid for one in found if one.parent in chosen} - chosen:
        chosen |= more
    return [process for process in found if process.pid in chosen]


def _look_up(folder: Path) -> Process | None:
    try:
        said = (folder / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    except (OSError, ValueError):
        return None  # it is over
    ticks = os.sysconf("SC_CLK_TCK")
    cpu, resident = (int(said[11]) + int(said[12])) / ticks, int(said[21]) * os.sysconf("SC_PAGE_SIZE")
    peak = 1024 * int(status.get("VmHWM", "0 kB").split()[0])
    return Process(int(folder.name), int(said[1]), cpu, resident, peak)


@dataclass
class Trial:
    """A job with its rows, its outputs and those of an undisturbed run."""

    model: Path
    folder: Path
    rows: Path
    expected: dict[str, bytes]
    seconds: float
    source: random.Random
    address: str | None = None  # of a Ray cluster

    @property
    def out(self) -> Path:
        return self.folder / "labels"

    def start(self, workers: int = 2, limit: int | None = None) -> subprocess.Popen[str]:
        """Start the job in processes of its own; files may be limited to so many bytes."""
        script = self.folder / "job.py"
        script.write_text(JOB)
        words = [sys.executable, script, self.model, self.rows, self.out, workers, limit, self.address]
        # A file and not a pipe: killed workers may leave children that keep a pipe open.
        with (self.folder / "said").open("w") as said:
            return subprocess.Popen(
                [str(word) for word in words],
                stdout=said,
                stderr=said,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for the job; its exit code and what it said."""
        code = process.wait(timeout=600)
        return code, (self.folder / "said").read_text().strip()

    def run(self, workers: int = 2, limit: int | None = None) -> tuple[int, str]:
        """Do the job to its end."""
        return self.end(self.start(workers, limit))

    def outputs(self) -> dict[str, bytes]:
        """Files that a user sees."""
        files = self.out.rglob("*.parquet") if self.out.exists() else ()
        return {file.name: file.read_bytes() for file in files if not file.name.startswith(".")}

    def is_whole(self) -> bool:
        """Whether all that is there is as it should be; some may be missing."""
        return self.outputs().items() <= self.expected.items()

    def is_done(self) -> bool:
        return self.outputs() == self.expected


def kill_worker(trial: Trial) -> bool:
    process = trial.start()
    n_there = wait_until_midway(trial, lambda: process.poll() is not None)
    workers = [one for one in processes_below(process.pid) if one.parent == process.pid and one.cpu > 0.5]
    os.kill(trial.source.choice(workers).pid, signal.SIGKILL)
    code, said = trial.end(process)
    print(f"    killed with {n_there} of {N_FILES} parts done; then: {said}", flush=True)
    is_told = "at part " in said and "Traceback" not in said
    is_good = (code == 0 and trial.is_done()) or (is_told and trial.is_whole())
    return 0 < n_there < N_FILES and is_good


def kill_driver(trial: Trial) -> bool:
    process = trial.start()
    wait_until_midway(trial, lambda: process.poll() is not None)
    os.killpg(process.pid, signal.SIGKILL)  # its workers too, as when a machine is switched off
    process.wait()
    n_there, is_whole = len(trial.outputs()), trial.is_whole()
    code, said = trial.run()
    print(f"    killed with {n_there} of {N_FILES} parts done; then: {said}", flush=True)
    # A cluster ends the parts that it was at when the driver died.
    most = n_there if trial.address is None else n_there + 2
    is_good = is_whole and code == 0 and trial.is_done() and n_there <= int(said.split()[0]) <= most
    return 0 < n_there < N_FILES and is_good


def wait_until_midway(trial: Trial, is_over: Callable[[], bool]) -> int:
    """Wait until a random number of parts is done and a moment longer; how many are done then."""
    wanted = trial.source.randrange(1, N_FILES - 4)
    while not is_over() and len(trial.outputs()) < wanted:
        time.sleep(0.005)
    time.sleep(trial.source.uniform(0.0, 0.1))
    return len(trial.outputs())


def fill_disk(trial: Trial) -> bool:
    """No file may be longer than most outputs are, and that of one part would be."""
    limit = int(1.5 * max(map(len, trial.expected.values())))
    with _one_changed(trial) as longer:
        rows = pq.read_table(longer)
        more = [
            rows.set_column(0, "id", pa.array(FILE_ROWS * N_FILES * k + rows["id"].to_numpy()))
            for k in range(4)
        ]
        pq.write_table(pa.concat_tables(more), longer, **SETTINGS)
        code, said = trial.run(workers=1, limit=limit)
        is_named = code != 0 and f"part {longer.name}" in said and "Traceback" not in said
        is_whole = trial.is_whole() and len(trial.outputs()) < N_FILES
    code, _ = trial.run(workers=1)
    return is_named and is_whole and code == 0 and trial.is_done()


def damage_part(trial: Trial) -> bool:
    """Some bytes of one input are others, or its end is missing."""
    with _one_changed(trial) as damaged:
        whole = damaged.read_bytes()
        place = trial.source.randrange(4, len(whole) - DAMAGE_BYTES)
        rest = whole[place + DAMAGE_BYTES :]
        cut, noisy = b"", trial.source.randbytes(DAMAGE_BYTES) + rest
        damaged.write_bytes(whole[:place] + trial.source.choice([cut, noisy, noisy]))
        code, said = trial.run(workers=1)
        is_named = code != 0 and damaged.name in said and "Traceback" not in said
        is_whole = trial.is_whole()
        if not (is_named and is_whole):
            print(f"    {damaged.name} damaged at byte {place} of {len(whole)}: {said}", flush=True)
    code, _ = trial.run(workers=1)
    return is_named and is_whole and code == 0 and trial.is_done()


@contextmanager
def _one_changed(trial: Trial) -> Iterator[Path]:
    """One of the inputs, which is as it was afterwards, with the time of its last change."""
    file = trial.rows / f"{trial.source.randrange(N_FILES):03d}.parquet"
    whole, changed = file.read_bytes(), file.stat().st_mtime_ns
    yield file
    file.write_bytes(whole)
    os.utime(file, ns=(changed, changed))


FAULTS: dict[str, Callable[[Trial], bool]] = {
    "worker killed": kill_worker,
    "driver killed, started again": kill_driver,
    "disk full in one part": fill_disk,
    "a part of the input damaged": damage_part,
}


def measure(model: Path, folder: Path, trials: int, n_features: int, show: Callable[[str], None]) -> None:
    """Do every fault so many times and say how often all was as it should be."""
    trial = prepare(model, folder, n_features, show)
    repeat(trial, FAULTS, trials, show)


def prepare(model: Path, folder: Path, n_features: int, show: Callable[[str], None]) -> Trial:
    """Write the rows and label them once, undisturbed."""
    rng, names = np.random.default_rng(1), [f"f{place}" for place in range(n_features)]
    place = Path(tempfile.mkdtemp(dir=folder))
    (place / "rows").mkdir()
    for number in range(N_FILES):
        X = rng.standard_normal((FILE_ROWS, n_features), dtype=np.float32)
        ids = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        pq.write_table(
            pa.table([ids, *X.T], names=["id", *names]), place / "rows" / f"{number:03d}.parquet", **SETTINGS
        )
    trial = Trial(model, place, place / "rows", {}, 0.0, random.Random(0))
    started = time.monotonic()
    code, said = trial.run()
    trial.seconds, trial.expected = time.monotonic() - started, trial.outputs()
    show(f"faults: {N_FILES} parts of {FILE_ROWS:,} rows, two processes, {trial.seconds:.1f} s undisturbed")
    if code or len(trial.expected) < N_FILES:
        raise SystemExit(said)
    return trial


def repeat(
    trial: Trial, faults: dict[str, Callable[..., bool]], trials: int, show: Callable[[str], None]
) -> None:
    """Do every fault so many times."""
    for name, fault in faults.items():
        found = []
        for _ in range(trials):
            shutil.rmtree(trial.out, ignore_errors=True)
            found.append(fault(trial))
        show(f"  {name}: {sum(found)} of {trials} as they should be")

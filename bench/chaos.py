"""Kills commands at random moments, fills their disk, lets two write at once, and looks at what is left.

    python bench/chaos.py [--kills 100] [--seed 0] [--only save] [--disk FOLDER]

After every kill the old or the new result must be whole, a command that is run again must end with the labels
of an uninterrupted run, and once it has ended no temporary file may be left. ``--disk`` names a folder on a
small file system (``mount -t tmpfs -o size=4m tmpfs FOLDER``) for the trials with a full disk. The page has a
script of its own, ``label_kills.py``, which is called as well. Exit code 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs

from spherepair import Constraints, SpherePair, load
from spherepair.errors import SpherePairError

BRIEF = ("--hidden-dims", "8", "--pretraining", "none", "--max-epochs", "30", "--seed", "0", "--quiet")
#: Saves one of two models over the other, without end.
SAVING = (
    "import sys; from spherepair import load\n"
    "models = [load(f'{sys.argv[1]}/{name}') for name in ('one', 'other')]\n"
    "print('in', flush=True)\n"
    "while True:\n    for model in models: model.save(f'{sys.argv[1]}/model')"
)


@dataclass
class Trial:
    """A command, what it writes, and whether what is there is whole."""

    command: list[str]
    is_whole: Callable[[], bool]
    #: Seconds after which it may be killed; drawn between the two.
    moments: tuple[float, float]
    #: Runs until it is killed.
    is_endless: bool = False


class Workshop:
    """A folder with rows, pairs, two models, and the results of uninterrupted runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        X, y = make_blobs(300, centers=3, n_features=6, random_state=0)
        np.save(folder / "rows.npy", X)
        pairs = Constraints.from_labels(y, 300, random_state=0)
        pairs.write(folder / "pairs.csv")
        Constraints.from_labels(y, 320, random_state=1).write(folder / "more.csv")
        self.X = X
        brief = {"hidden_dims": (8,), "pretraining": None, "max_epochs": 3, "progress": False}
        for seed, name in enumerate(("one", "other")):
            SpherePair(3, random_state=seed, **brief).fit(X, constraints=pairs).save(folder / name)
        shutil.copytree(folder / "one", folder / "model")
        self.known = [load(folder / name).embedding_ for name in ("one", "other")]

    def words(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "spherepair", *map(str, words)]

    def trials(self) -> dict[str, Trial]:
        """All commands that are killed."""
        at = self.folder
        fit = self.words("fit", at / "rows.npy", "-c", at / "pairs.csv", "-k", 3, "-o", at / "fitted", *BRIEF)
        fit += ["--checkpoint", str(at / "checkpoint")]
        refine = self.words(
            "refine", at / "model", at / "rows.npy", "-c", at / "more.csv", "-o", at / "model", "-q"
        )
        report = self.words("report", at / "one", "--data", at / "rows.npy", "-c", at / "pairs.csv")
        ask = self.words("ask", at / "rows.npy", "-o", at / "answers.jsonl", "--answers", 12, "-q")
        answerer = [sys.executable, str(Path(__file__).with_name("chaos_answerer.py"))]
        return {
            "fit --checkpoint": Trial(fit, self.resumes, (1.0, 6.0)),
            "save": Trial(
                [sys.executable, "-c", SAVING, str(at)], self.is_known, (0.0, 0.5), is_endless=True
            ),
            "refine": Trial(refine, self.loads, (1.0, 8.0)),
            "bench run": Trial(
                self.words("bench", "run", "toy", "--out", at / "results", "-q"),
                self.has_records,
                (2.0, 12.0),
            ),
            "report": Trial([*report, "-o", str(at / "report.html"), "-q"], self.has_report, (1.0, 8.0)),
            "ask": Trial([*ask, "--answerer", " ".join(answerer)], self.has_answers, (1.0, 8.0)),
        }

    def resumes(self) -> bool:
        """Whether a model that is there is that of an uninterrupted run."""
        if not (self.folder / "fitted").exists():
            return True
        found = load(self.folder / "fitted")
        shutil.rmtree(self.folder / "fitted")
        shutil.rmtree(self.folder / "checkpoint", ignore_errors=True)  # the next fit starts anew
        return bool(np.array_equal(found.labels_, self.labels))

    @property
    def labels(self) -> np.ndarray:
        """Labels of a fit that nobody killed; fitted once."""
        if not hasattr(self, "_labels"):
            at = self.folder
            words = self.words(
                "fit", at / "rows.npy", "-c", at / "pairs.csv", "-k", 3, "-o", at / "whole", *BRIEF
            )
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
            self._labels = load(at / "whole").labels_
        return self._labels

    def is_known(self) -> bool:
        found = load(self.folder / "model").embedding_
        return any(np.array_equal(found, one) for one in self.known)

    def loads(self) -> bool:
        return load(self.folder / "model").predict(self.X).shape == (300,)

    def has_records(self) -> bool:
        files = (self.folder / "results" / "runs").glob("*.json")
        return all(json.loads(file.read_text())["key"] == file.stem for file in files)

    def has_report(self) -> bool:
        file = self.folder / "report.html"
        return not file.exists() or file.read_text().rstrip().endswith("</html>")

    def has_answers(self) -> bool:
        file = self.folder / "answers.jsonl"
        return not file.exists() or not file.stat().st_size or len(Constraints.read(file)) >= 0

    def left_behind(self) -> list[str]:
        """Temporary files that nobody uses any more."""
        return [str(p) for p in self.folder.rglob(".*") if p.suffix in {".tmp", ".old", ".npz", ".npy"}]


def run_kills(workshop: Workshop, name: str, kills: int, source: random.Random) -> dict[str, int]:
    """Kill one command again and again, then let it end."""
    trial = workshop.trials()[name]
    counts = {"kills": 0, "ended before": 0, "not whole": 0, "left behind": 0}
    for _ in range(kills):
        process = subprocess.Popen(
            trial.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        if trial.is_endless and process.stdout is not None:
            process.stdout.readline()  # modules are loaded, writing begins
        try:
            process.communicate(timeout=source.uniform(*trial.moments))
            counts["ended before"] += 1
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            counts["kills"] += 1
        counts["not whole"] += not _holds(trial.is_whole)
    if not trial.is_endless:
        subprocess.run(trial.command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        load(workshop.folder / "one").save(workshop.folder / "model")
    counts["not whole"] += not _holds(trial.is_whole)
    left = workshop.left_behind()
    counts["left behind"] = len(left)
    for path in left[:3]:
        print(f"  left behind: {path}")
    return counts


def _holds(is_whole: Callable[[], bool]) -> bool:
    try:
        return is_whole()
    except (SpherePairError, OSError, ValueError, KeyError) as error:
        print(f"  not whole: {error}")
        return False


def run_two_writers(workshop: Workshop, seconds: float) -> dict[str, int]:
    """Three processes save over the same model while this one loads it."""
    command = [sys.executable, "-c", SAVING, str(workshop.folder)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    counts = {"loads": 0, "failed": 0}
    try:
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            counts["loads"] += 1
            counts["failed"] += not _holds(workshop.is_known)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    return counts


def run_full_disk(workshop: Workshop, disk: Path) -> dict[str, int]:
    """Save into a file system that has no room left: the older model must stay."""
    model = load(workshop.folder / "one")
    model.save(disk / "model")
    counts = {"saves": 0, "refused": 0, "not whole": 0}
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)):
                pass
        except OSError:
            pass
    for _ in range(20):
        counts["saves"] += 1
        try:
            load(workshop.folder / "other").save(disk / "model")
        except (SpherePairError, OSError):
            counts["refused"] += 1
        counts["not whole"] += not np.array_equal(load(disk / "model").labels_, model.labels_)
    counts["left behind"] = len([p for p in disk.iterdir() if p.name not in {"model", "filler"}])
    (disk / "filler").unlink()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--disk", type=Path)
    options = parser.parse_args()
    source, is_bad = random.Random(options.seed), False
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        for name in workshop.trials():
            if not options.only or name in options.only:
                counts = run_kills(workshop, name, options.kills, source)
                print(f"{name}: {counts}", flush=True)
                is_bad |= bool(counts["not whole"] or counts["left behind"])
        if not options.only or "two writers" in options.only:
            counts = run_two_writers(workshop, 20.0)
            print(f"two writers: {counts}", flush=True)
            is_bad |= bool(counts["failed"])
        if options.disk is not None:
            counts = run_full_disk(workshop, options.disk)
            print(f"full disk: {counts}", flush=True)
            is_bad |= bool(counts["not whole"] or counts["left behind"])
    if not options.only or "label" in options.only:
        script = str(Path(__file__).with_name("label_kills.py"))
        is_bad |= (
            subprocess.run([sys.executable, script, "--kills", str(options.kills)], check=False).returncode
            != 0
        )
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())

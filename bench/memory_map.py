"""Labels for rows that lie on disk and are never loaded as a whole.

    python bench/memory_map.py --rows 10000000 --features 784        # a file of 7.8 GB in a temporary folder

A process of its own loads a saved model of the default size and labels rows of bytes from a memory map.
Printed are rows per second and the most memory that was this process's own while it did (``RssAnon`` of
Linux). Pages of the file in the cache of the system are not its own: they are taken back when needed.
"""

from __future__ import annotations

import spherepair  # isort: skip  # before torch: it asks OpenMP not to spin for long

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from spherepair import Constraints, SpherePair, load
from spherepair.training.pretraining import JointPretraining

BLOCK_ROWS = 100_000


def write_rows(path: Path, n_rows: int, n_features: int) -> None:
    """Bytes about ten centres, a block at a time."""
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 200, (10, n_features), dtype=np.uint8)
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n_rows, n_features))
    noise = rng.integers(0, 56, (BLOCK_ROWS, n_features), dtype=np.uint8)
    for start in range(0, n_rows, BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        block[:] = centres[np.arange(start, start + len(block)) % 10] + noise[: len(block)]
    rows.flush()


def save_model(folder: Path, rows: Path) -> None:
    """A short fit on the first rows."""
    X = np.array(np.load(rows, mmap_mode="r")[:2000])
    pairs = Constraints.from_labels(np.arange(len(X)) % 10, 1000, random_state=0)
    short = JointPretraining(epochs=1, min_steps=20)
    SpherePair(10, pretraining=short, max_epochs=5, random_state=0, progress=False).fit(
        X, constraints=pairs
    ).save(folder)


def own_memory(process: int | str) -> float:
    """Memory of a process that is its own, in GiB; nothing of one that is over."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 2**20
    return 0.0


def label(folder: Path) -> None:
    model, rows = load(folder / "model"), np.load(folder / "rows.npy", mmap_mode="r")
    model.predict(np.array(rows[:5000]))  # sets things up
    before, started = own_memory("self"), time.perf_counter()
    labels = model.predict(rows)
    took = time.perf_counter() - started
    right = np.mean(labels == labels[np.arange(len(labels)) % 10])  # every tenth row has the same centre
    print(f"{len(rows) / took:,.0f} rows/s ({took:.0f} s), {100 * right:.1f} % of them with their like")
    print(f"memory of its own before that {before:.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--label", type=Path, help=argparse.SUPPRESS)  # the process of its own
    args = parser.parse_args()
    if args.label is not None:
        label(args.label)
        return
    where = (
        torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} threads"
    )
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows.npy", args.rows, args.features)
        save_model(folder / "model", folder / "rows.npy")
        print(
            f"{args.rows:,} x {args.features} bytes: {args.rows * args.features / 2**30:.2f} GiB", flush=True
        )
        child = subprocess.Popen([sys.executable, __file__, "--label", name])
        peak = 0.0
        while child.poll() is None:
            peak = max(peak, own_memory(child.pid))
            time.sleep(0.02)
    print(f"memory of its own at most {peak:.2f} GiB")
    sys.exit(child.returncode)


if __name__ == "__main__":
    main()

"""Ward on many rows: seconds and memory, against the matrix of all distances it does without.

python bench/ward.py --rows 60000
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from spherepair.clustering.assigners import WardAssigner, unit_rows
from spherepair.metrics import clustering_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=10)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, args.rows)
    embedding = unit_rows(np.eye(10, args.dim)[y] + 0.2 * rng.normal(size=(args.rows, args.dim)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.perf_counter()
    found = WardAssigner().assign(embedding, 10, seed=0)
    seconds = time.perf_counter() - started
    extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    matrix = args.rows**2 / 2 * 8 / 2**20
    accuracy = clustering_accuracy(y, found.labels)
    print(
        f"{args.rows} rows x {args.dim}: {seconds:.1f} s, {extra:.0f} MiB more than before "
        f"(all distances would take {matrix:.0f} MiB), accuracy {accuracy:.3f}"
    )


if __name__ == "__main__":
    main()

"""Seconds and memory of the tail angles, Algorithm 2, by the number of cannot-links; seconds of all methods.

    python bench/cluster_number_cost.py

`curve` is Algorithm 2 itself (one tail ratio), `answer` is the whole of `infer_n_clusters` by
tail angles: four ratios, bootstrap samples and the search for reasons to doubt. Best of three runs.
The second table has one run of each method on 60,000 rows with 10,000 pairs.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.cluster_number import infer_n_clusters
from spherepair.clustering.tail_angles import tail_angles

SIZES = ((10_000, 20), (100_000, 20), (1_000_000, 50))
N_CLUSTERS = 10
LARGEST_NUMBER_OF_ROWS = 100_000
REPEATS = 3
METHODS = ("tail-angle", "silhouette", "lifetime", "consensus")


def main() -> None:
    """Print one line for each size."""
    print("| cannot-links | D | curve, s | answer, s | memory of the curve, bytes per pair |")
    print("|---|---|---|---|---|")
    for n_pairs, n_components in SIZES:
        rows, pairs = draw(n_pairs, n_components, np.random.default_rng(0))

        def curve(rows: NDArray[np.float64] = rows, pairs: SimpleNamespace = pairs) -> object:
            return tail_angles(rows, pairs.left, right=pairs.right)

        def answer(rows: NDArray[np.float64] = rows, pairs: SimpleNamespace = pairs) -> object:
            return infer_n_clusters(rows, pairs, method="tail-angle", random_state=0)

        cells = f"{seconds(curve):.3f} | {seconds(answer):.3f} | {peak_bytes(curve) / n_pairs:.0f}"
        print(f"| {n_pairs:,} | {n_components} | {cells} |", flush=True)

    print_methods()


def print_methods() -> None:
    """Print the seconds of each method."""
    print("\n| method | D | seconds |\n|---|---|---|")
    for n_components in (20, 50):
        rows, pairs = draw(30_000, n_components, np.random.default_rng(0))
        few = SimpleNamespace(**{name: values[:10_000] for name, values in vars(pairs).items()})
        for method in METHODS:
            start = time.perf_counter()
            infer_n_clusters(rows, few, method=method, random_state=0)
            print(f"| {method} | {n_components} | {time.perf_counter() - start:.1f} |", flush=True)


def draw(
    n_pairs: int, n_components: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], SimpleNamespace]:
    """Draw noisy clusters (n, D) of unit rows, and cannot-links between them."""
    n_rows = min(2 * n_pairs, LARGEST_NUMBER_OF_ROWS)
    labels = np.arange(n_rows) % N_CLUSTERS
    rows = np.eye(N_CLUSTERS, n_components)[labels] + 0.05 * rng.normal(size=(n_rows, n_components))
    left = rng.integers(n_rows, size=n_pairs)
    right = (left + 1 + rng.integers(n_rows, size=n_pairs) // N_CLUSTERS * N_CLUSTERS) % n_rows
    link = np.zeros(n_pairs, dtype=bool)
    pairs = SimpleNamespace(left=left, right=right, is_must_link=link, weight=np.ones(n_pairs))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), pairs


def seconds(work: Callable[[], object]) -> float:
    """Shortest time of a few runs."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_bytes(work: Callable[[], object]) -> int:
    """Largest memory that a run held at one time."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    main()

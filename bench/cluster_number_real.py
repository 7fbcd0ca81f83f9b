"""The number of clusters inferred from trained embeddings, beside the truth.

    python bench/cluster_number_real.py embeddings --seeds 7 8 9 10 11

`embeddings` is a folder of `bench/cluster_number_embeddings.py`: one .npz per data set. Prints one
Markdown table of the inferred numbers by data set, number of pairs and method, and one of how often
an answer is right by its confidence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from spherepair.clustering.cluster_number import ClusterNumber, infer_n_clusters

Floats = NDArray[np.float64]

METHODS = ("tail-angle", "silhouette", "lifetime", "consensus")
BINS = ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0))


@dataclass(frozen=True)
class Run:
    """One trained embedding: rows in pairs and others, shape (n, D), and its pairs."""

    data: str
    n_classes: int
    n_pairs: int
    seed: int
    embedding: Floats
    pairs: SimpleNamespace


@dataclass(frozen=True)
class Answer:
    """What a method said about a run."""

    run: Run
    method: str
    found: ClusterNumber

    @property
    def error(self) -> int:
        """Inferred minus true number."""
        return self.found.value - self.run.n_classes


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, help="all when missing")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options = parser.parse_args()
    answers = []
    print("| data | K | pairs | method | inferred | exact | within 1 | confidence |")
    print("|---|---|---|---|---|---|---|---|")
    runs = trained_embeddings(options.folder, seeds=options.seeds)
    for _, same in groupby(runs, key=lambda run: (run.data, run.n_pairs)):
        level = list(same)
        for method in options.methods:
            said = [Answer(run, method, infer(run, method)) for run in level]
            print(table_line(said), flush=True)
            answers += said
    for method in options.methods:
        print_reliability(method, [answer for answer in answers if answer.method == method])


def trained_embeddings(folder: Path, *, seeds: list[int] | None = None) -> Iterator[Run]:
    """Yield the runs of all files by data set, number of pairs and seed."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            places = sorted({tuple(map(int, key.split("/")[1::-1])) for key in file if "/" in key})
            for n_pairs, seed in places:
                if seeds is None or seed in seeds:
                    yield read_run(file, path.stem, n_pairs=n_pairs, seed=seed)


def read_run(file: np.lib.npyio.NpzFile, data: str, *, n_pairs: int, seed: int) -> Run:
    """Read one run."""
    names = ("left", "right", "is_must_link")
    arrays = {name: file[f"{seed}/{n_pairs}/{name}"] for name in names}
    pairs = SimpleNamespace(**arrays, weight=np.ones(len(arrays["left"])))
    embedding = file[f"{seed}/{n_pairs}/embedding"].astype(float)
    return Run(data, int(file["n_classes"]), n_pairs, seed, embedding, pairs)


def infer(run: Run, method: str) -> ClusterNumber:
    """Infer the number of clusters of a run."""
    return infer_n_clusters(run.embedding, run.pairs, method=method, random_state=run.seed)


def table_line(said: list[Answer]) -> str:
    """Inferred numbers over the seeds, shares exact and within one, mean confidence."""
    run, errors = said[0].run, np.array([answer.error for answer in said])
    inferred = " ".join(str(answer.found.value) for answer in said)
    confidence = np.mean([answer.found.confidence for answer in said])
    shares = f"{np.mean(errors == 0):.0%} | {np.mean(abs(errors) <= 1):.0%}"
    return (
        f"| {run.data} | {run.n_classes} | {run.n_pairs} | {said[0].method} | {inferred} | {shares} "
        f"| {confidence:.2f} |"
    )


def print_reliability(method: str, said: list[Answer]) -> None:
    """Print how often answers are right, by confidence."""
    confidence = np.array([answer.found.confidence for answer in said])
    errors = np.array([answer.error for answer in said])
    print(f"\n{method}:\n\n| confidence | answers | right | within 1 |\n|---|---|---|---|")
    for low, high in BINS:
        inside = errors[(confidence > low) & (confidence <= high)]
        shares = f"{np.mean(inside == 0):.0%} | {np.mean(abs(inside) <= 1):.0%}" if len(inside) else "- | -"
        print(f"| {low} to {high} | {len(inside)} | {shares} |")


if __name__ == "__main__":
    main()

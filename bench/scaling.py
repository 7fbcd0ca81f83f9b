"""How the time grows with rows, pairs, features and clusters, step by step.

    python bench/scaling.py --figure research/figures/scaling.png         # some minutes on two cores
    python bench/scaling.py --only pairs --largest 100000

Networks are small, so that the growth shows rather than matrix products of a fixed size.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import torch
from pyarrow import parquet

import spherepair
from spherepair import Constraints, Schedule, SpherePair, infer_n_clusters
from spherepair.clustering.assigners import kmeans
from spherepair.files.data_tables import read_table
from spherepair.report import write_report
from spherepair.training.hardware import choose_hardware
from spherepair.training.pretraining import JointPretraining

Costs = dict[str, float]
SIZES = {
    "rows": [10**4, 10**5, 10**6, 10**7],
    "pairs": [10**3, 10**4, 10**5, 10**6],
    "features": [16, 64, 256, 1024, 4096],
    "clusters": [4, 16, 64, 256],
}
ONE_EPOCH = JointPretraining(epochs=1, min_steps=1)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def blobs(n_rows: int, n_features: int, n_clusters: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_clusters, n_rows)
    centers = rng.normal(size=(n_clusters, n_features)).astype(np.float32)
    return centers[y] + rng.standard_normal((n_rows, n_features), dtype=np.float32), y


def fitted(X: np.ndarray, pairs: Constraints) -> tuple[SpherePair, Costs]:
    """One epoch of pretraining and one on pairs."""
    model = SpherePair(
        10, hidden_dims=(64,), pretraining=ONE_EPOCH, max_epochs=1, stopping="fixed",
        schedule=Schedule(min_steps=1), random_state=0, progress=False,
    )  # fmt: skip
    whole = seconds(lambda: model.fit(X, constraints=pairs))
    return model, {record["stage"]: record["seconds"] for record in model.history_} | {"whole": whole}


def over_rows(n: int) -> Costs:
    X, y = blobs(n, 16)
    pairs = Constraints.from_labels(y, 1000, random_state=0)
    model, cost = fitted(X, pairs)
    device = choose_hardware().device
    z = torch.from_numpy(model.embedding_).to(device)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "rows.npy", X)
        parquet.write_table(pyarrow.table({f"x{i}": X[:, i] for i in range(16)}), folder / "rows.parquet")
        rows = np.load(folder / "rows.npy", mmap_mode="r")
        return {
            "epoch of pretraining": cost["pretraining"],
            "fit, one epoch of each": cost["whole"],
            "k-means": seconds(
                lambda: kmeans(z, 10, generator=torch.Generator(device).manual_seed(0), n_init=2)
            ),
            "number of clusters": seconds(lambda: infer_n_clusters(model.embedding_, pairs, random_state=0)),
            "labels from a memory map": seconds(lambda: model.predict(rows)),
            "reading parquet": seconds(lambda: read_table(folder / "rows.parquet")),
            "report": seconds(lambda: write_report(model, X, pairs, folder / "report.html")),
        }


def over_pairs(n: int) -> Costs:
    X, y = blobs(max(20_000, n), 16)
    pairs = Constraints.from_labels(y, n, random_state=0)
    model, cost = fitted(X, pairs)
    return {
        "epoch on pairs": cost["pairs"],
        "fit, one epoch of each": cost["whole"],
        "contradictions": seconds(pairs.conflicts),
        "closure": seconds(pairs.closure),
        "tail angles": seconds(lambda: infer_n_clusters(model.embedding_, pairs, method="tail-angle")),
    }


def over_features(n: int) -> Costs:
    X, y = blobs(20_000, n)
    model, cost = fitted(X, Constraints.from_labels(y, 1000, random_state=0))
    return {"epoch of pretraining": cost["pretraining"], "labels": seconds(lambda: model.predict(X))}


def over_clusters(n: int) -> Costs:
    X, y = blobs(50_000, 32, n)
    x, generator = torch.from_numpy(X), torch.Generator().manual_seed(0)
    pairs = Constraints.from_labels(y, 10_000, random_state=0)
    angles = seconds(lambda: infer_n_clusters(X, pairs, method="tail-angle"))
    found = seconds(lambda: kmeans(x, n, generator=generator, n_init=2, max_iter=10, tol=0.0))
    return {"k-means, 10 rounds": found, "tail angles": angles}


MEASURE = {"rows": over_rows, "pairs": over_pairs, "features": over_features, "clusters": over_clusters}


def table(kind: str, sizes: list[int], costs: list[Costs]) -> None:
    print(f"\n{kind:26s}" + "".join(f"{size:>12,d}" for size in sizes) + "   growth")
    for name in costs[0]:
        times = [cost[name] for cost in costs]
        slope = np.polyfit(np.log(sizes[-2:]), np.log(times[-2:]), 1)[0]
        print(f"{name:26s}" + "".join(f"{t:11.3f}s" for t in times) + f"   n^{slope:.2f}")


def draw(results: dict[str, tuple[list[int], list[Costs]]], path: Path) -> None:
    from spherepair.plots import plot_scaling, save_figure
    from spherepair.plots.style import new_figure

    figure = new_figure(8.6, 5.6)
    for place, (kind, (sizes, costs)) in enumerate(results.items()):
        axes = figure.add_subplot(2, 2, place + 1)
        names = list(costs[0])
        seconds = [[cost[name] for cost in costs] for name in names]
        plot_scaling(sizes, seconds, labels=names, title=f"Seconds over {kind}", x_label=kind, ax=axes)
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--largest", type=int, default=10**7)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    hardware = choose_hardware()
    where = torch.cuda.get_device_name() if hardware.is_cuda else f"{torch.get_num_threads()} CPU threads"
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}, {hardware.precision}")
    results = {}
    for kind in args.only:
        sizes = [size for size in SIZES[kind] if size <= args.largest]
        MEASURE[kind](sizes[0])  # warm-up
        costs = [MEASURE[kind](size) for size in sizes]
        results[kind] = sizes, costs
        table(kind, sizes, costs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory of the process {peak:.2f} GiB")
    if args.figure is not None:
        draw(results, args.figure)


if __name__ == "__main__":
    main()

"""Data sets larger than memory: memory and time of predict and fit as the rows grow, processes and Ray.

    python bench/scale.py                                             # 10⁵ and 10⁶ rows
    python bench/scale.py --rows 1000000 10000000 --folder /tmp       # 2.8 GB of rows
    python bench/scale.py --only engines faults --trials 10
    OMP_NUM_THREADS=1 python bench/scale.py --only core

Every command runs in a process of its own, with one thread, or SCALE_THREADS of them; a figure is printed as
soon as it is known.
CPU seconds and memory are those of the command and of all processes below it, looked up ten times a second;
CPU seconds hardly depend on what else runs on the machine, seconds do. "Without the start" is what the larger
data set takes more than the smaller one, in CPU seconds. Rows have 64 columns of float32.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scale_faults
import scale_ray

from spherepair import Constraints, SpherePair, load
from spherepair.estimators.trust import label_rows
from spherepair.files.data_sets import open_data_file
from spherepair.files.places import find_files
from spherepair.scale.labeling import model_needs

N_FEATURES, N_CLUSTERS, GROUP_ROWS, N_PAIRS = 64, 10, 20_000, 10_000
SEARCHED = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
THREADS = os.environ.get("SCALE_THREADS", "1")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": THREADS, "PYTHONPATH": SEARCHED}
SHORT = ("--device", "cpu", "--json")
#: Networks of the models; that in the middle is the default for so many rows.
NETWORKS = {"small": "64", "compact": "compact", "wide": "500,500,2000"}
#: The same rows in memory: what a batch from a file is compared with.
IN_MEMORY = """
import sys, time, numpy as np, pyarrow.parquet as pq, spherepair
from spherepair.estimators.trust import label_rows
model = spherepair.load(sys.argv[1], device="cpu")
X = np.ascontiguousarray(pq.read_table(sys.argv[2]).drop_columns(["id"]).to_pandas().to_numpy())
del model.feature_names_in_
label_rows(model, X[:1000], novelty=False)
started = time.process_time()
seen = []
for look in (time.process_time, time.perf_counter):
    started = look()
    model.predict(X)
    plain = look() - started
    label_rows(model, X, novelty=False)
    seen += [plain, look() - started - plain]
print(*seen)
"""
#: Between the time when a fifth of the parts are done, and all workers are at work, and the end.
IN_PARTS = """
import json, os, sys, time
import scale_faults
from spherepair import scale
seen = []
def look(state):
    if state.n_done in (state.n_parts // 5, state.n_parts):
        cpu = sum(process.cpu for process in scale_faults.processes_below(int(root)))
        seen.append((state.n_rows, time.monotonic(), cpu))
if __name__ == "__main__":
    model, rows, out, engine, workers, root, *address = sys.argv[1:]
    root = root if address else os.getpid()
    carried = {"engine": engine, "workers": None if address else int(workers), "address": (*address, None)[0]}
    done = scale.predict(rows, model=model, out=out, part_rows=20_000, progress=look, **carried)
    n_rows, seconds, cpu = (end - start for start, end in zip(*seen))
    print(json.dumps({"seconds": done.seconds, "wall": n_rows / seconds, "cpu": n_rows / cpu}))
"""


def show(text: str) -> None:
    print(text, flush=True)


@dataclass
class Cost:
    """What a command and the processes below it took."""

    seconds: float = 0.0
    cpu: float = 0.0
    mebibytes: float = 0.0
    said: str = ""
    _used: dict[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.seconds:7.1f} s {self.cpu:7.1f} CPU s {self.mebibytes:7.0f} MiB"

    def watch(self, pid: int, is_over: threading.Event) -> None:
        """Look up CPU seconds and memory until it is over."""
        while not is_over.wait(0.1):
            found = scale_faults.processes_below(pid)
            self._used |= {process.pid: process.cpu for process in found}
            # The system's own peak, of one process; not that of wait4, which has its parent's in it.
            peak = max((process.peak for process in found), default=0)
            self.mebibytes = max(self.mebibytes, peak / 2**20, sum(p.resident for p in found) / 2**20)
        self.cpu = sum(self._used.values())


def run(*words: object) -> Cost:
    cost, is_over, started = Cost(), threading.Event(), time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([str(word) for word in words], stdout=said, env=ENVIRONMENT)
        watcher = threading.Thread(target=cost.watch, args=(process.pid, is_over))
        watcher.start()
        _, status, used = os.wait4(process.pid, 0)
        cost.seconds = time.perf_counter() - started
        is_over.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        cost.said = said.read().decode()
    if process.returncode:
        raise SystemExit(f"{words} failed: {cost.said}")
    # The system knows more of what is over than looking ten times a second.
    cost.cpu = max(cost.cpu, used.ru_utime + used.ru_stime)
    return cost


def command(*arguments: object) -> Cost:
    return run(sys.executable, "-m", "spherepair", *arguments)


@dataclass(frozen=True)
class Workshop:
    """Files of rows, a model, and how large the samples of fits are."""

    folder: Path
    files: dict[int, Path]
    sample_rows: int
    trials: int
    rng: np.random.Generator

    networks: tuple[str, ...]
    faults: tuple[str, ...]

    def model_of(self, network: str) -> Path:
        return self.folder / network

    @property
    def wide(self) -> Path:
        return self.model_of("wide")

    @property
    def sizes(self) -> tuple[int, int]:
        return min(self.files), max(self.files)


def write_rows(file: Path, n_rows: int, rng: np.random.Generator, centers: np.ndarray) -> None:
    """Rows around centers; the cluster of a row is its ID modulo their number."""
    names = ["id", *(f"f{place}" for place in range(N_FEATURES))]
    writer = None
    for start in range(0, n_rows, GROUP_ROWS):
        ids = np.arange(start, min(start + GROUP_ROWS, n_rows))
        X = centers[ids % N_CLUSTERS] + rng.standard_normal((len(ids), N_FEATURES), dtype=np.float32)
        table = pa.table([ids, *X.T], names=names)
        writer = writer or pq.ParquetWriter(file, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table)
    writer.close()


def write_pairs(file: Path, n_rows: int, n_pairs: int, rng: np.random.Generator) -> None:
    ends = rng.integers(0, n_rows, (2, n_pairs))
    ends[1] = (ends[1] + (ends[0] == ends[1])) % n_rows
    links = np.where(ends[0] % N_CLUSTERS == ends[1] % N_CLUSTERS, "must-link", "cannot-link")
    pq.write_table(pa.table({"left": ends[0], "right": ends[1], "link": links}), file)


def fit(data: Path, pairs: Path, model: Path, *options: object) -> Cost:
    words = ("--constraints", pairs, "--id", "id", "--clusters", N_CLUSTERS, "--out", model)
    return command("fit", data, *words, *options)


def measure_model(shop: Workshop) -> None:
    show("models without rows")
    for folder in map(shop.model_of, shop.networks):
        stored = sum(file.stat().st_size for file in folder.iterdir())
        model = load(folder, device="cpu")  # without the decoder, which was trained as well
        whole = model._build_network(model.n_features_in_, model._embedding_dim, seed=0)
        weights = whole.state_dict().values()
        n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in weights)
        show(f"  {stored:>11,} bytes, {stored / n_bytes:.2f} times the {n_bytes:,} of the network")


def measure_predict(shop: Workshop) -> None:
    few, many = shop.sizes
    for network in shop.networks:
        show(f"predict, one parquet file, network {NETWORKS[network]}, {THREADS} threads")
        model, found = shop.model_of(network), {}
        for n_rows, file in shop.files.items():
            out = shop.folder / "labels.parquet"
            cost = found[n_rows] = command("predict", model, file, "--out", out, "--id", "id", "--quiet")
            show(f"  {n_rows:>10,} rows {cost}  {n_rows / cost.seconds:10,.0f} rows/s, with the start")
        memory = found[many].mebibytes / found[few].mebibytes
        show(f"  memory of {many:,} rows: {memory:.2f} times that of {few:,}")
        said = [
            float(word) for word in run(sys.executable, "-c", IN_MEMORY, model, shop.files[few]).said.split()
        ]
        for what, took, (plain, sure) in (
            ("CPU s", found[many].cpu - found[few].cpu, said[:2]),
            ("s", found[many].seconds - found[few].seconds, said[2:]),
        ):
            streamed, labels, both = (many - few) / took, few / plain, few / sure
            show(f"  rows a {what}: {streamed:,.0f} from file to file, with confidence, without the start;")
            show(
                f"    in memory {both:,.0f} with confidence ({streamed / both:.2f}), "
                f"{labels:,.0f} labels alone ({streamed / labels:.2f})"
            )


def measure_fit(shop: Workshop) -> None:
    show(f"fit with {N_PAIRS:,} pairs, sample of {shop.sample_rows:,} rows, {THREADS} threads")
    found = {}
    for n_rows, file in shop.files.items():
        write_pairs(shop.folder / "pairs.parquet", n_rows, N_PAIRS, shop.rng)
        given = (*SHORT, "--hidden-dims", "64", "--sample-rows", shop.sample_rows, "--max-epochs", 3)
        found[n_rows] = fit(file, shop.folder / "pairs.parquet", shop.folder / "fitted", *given)
        said = json.loads(found[n_rows].said)
        show(f"  {n_rows:>10,} rows {found[n_rows]}")
        beside = found[n_rows].seconds - said["seconds"]
        trained = f"trained on {said['n_rows']:,} rows in {said['seconds']:.1f} s, {beside:.1f} s beside it"
        show(f"    {trained}, {100 * said['pairs_kept']:.1f} % of the pairs kept")
    few, many = (found[size] for size in shop.sizes)
    ratios = (many.cpu / few.cpu, many.seconds / few.seconds, many.mebibytes / few.mebibytes)
    said = ", ".join(
        f"{r:.2f} times the {what}" for r, what in zip(ratios, ("CPU s", "s", "MiB"), strict=True)
    )
    show(f"  {shop.sizes[1]:,} rows: {said} of {shop.sizes[0]:,}")


def measure_engines(shop: Workshop) -> None:
    """One process first and last: what lies between them is what the machine's other work does."""
    many = shop.sizes[1]
    show(
        f"engines, network (500, 500, 2000), {many:,} rows in parts of 20,000; speeds are those after a fifth"
    )
    script = shop.folder / "in_parts.py"
    script.write_text(IN_PARTS)
    first: dict[str, float] = {}
    for engine, workers in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2), ("local", 1)):
        first = carry(shop, script, engine, workers, first=first)
    for n_nodes in (1, 2):
        with scale_ray.raylets(n_nodes) as cluster:
            carry(shop, script, "ray", n_nodes, cluster.address, first=first)


def carry(
    shop: Workshop, script: Path, engine: str, workers: int, *address: str, first: dict[str, float]
) -> dict[str, float]:
    """Label the rows with an engine and compare it with the first that did."""
    shutil.rmtree(shop.folder / "labels", ignore_errors=True)
    given = (shop.files[shop.sizes[1]], shop.folder / "labels", engine, workers, os.getpid(), *address)
    cost = run(sys.executable, script, shop.wide, *given)
    said = json.loads(cost.said)
    first = first or said
    where = f"on {workers} nodes" if address else f"with {workers} workers"
    show(f"  {engine} {where}: job {said['seconds']:.1f} s, command {cost}, load {os.getloadavg()[0]:.1f}")
    show(
        f"    {said['wall']:,.0f} rows/s ({said['wall'] / first['wall']:.2f} of one process), "
        f"{said['cpu']:,.0f} rows a CPU s ({said['cpu'] / first['cpu']:.2f})"
    )
    return first


def measure_faults(shop: Workshop) -> None:
    scale_faults.measure(shop.wide, shop.folder, shop.trials, N_FEATURES, show)


def measure_ray_faults(shop: Workshop) -> None:
    trial = scale_faults.prepare(shop.wide, shop.folder, N_FEATURES, show)
    scale_ray.measure(trial, shop.faults, shop.trials, show)


def measure_nodes(shop: Workshop) -> None:
    scale_ray.measure_scheduling(show)


def measure_core(shop: Workshop, n_rows: int = 40_000, n_features: int = 384) -> None:
    """Rows a CPU second of this process, with the default network, vectors in one column."""
    X = shop.rng.standard_normal((n_rows, n_features), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), n_features)
    file = shop.folder / "vectors.parquet"
    pq.write_table(pa.table({"v": vectors}), file, compression="none", use_dictionary=False)
    pairs = Constraints.from_labels(np.arange(2000) % N_CLUSTERS, n_pairs=300, random_state=0)
    wide = {"hidden_dims": (500, 500, 2000), "pretraining": None, "max_epochs": 1}
    model = SpherePair(N_CLUSTERS, **wide, random_state=0, device="cpu")
    model.fit(pa.table({"v": vectors.slice(0, 2000)}), constraints=pairs)
    opened, needs = open_data_file(find_files(file)[0]), model_needs(model)
    size = file.stat().st_size / n_rows
    show(f"one core, {n_features} features, network (500, 500, 2000), {size:,.0f} bytes a row: rows a CPU s")
    for _ in range(3):
        started = time.process_time()
        batches = list(opened.batches(needs))
        read = time.process_time() - started
        for batch in batches:
            label_rows(model, batch.X, novelty=False)
        both = time.process_time() - started
        show(f"  read {n_rows / read:,.0f}, label {n_rows / (both - read):,.0f}, both {n_rows / both:,.0f}")


PARTS: dict[str, Callable[[Workshop], None]] = {
    "core": measure_core,
    "model": measure_model,
    "predict": measure_predict,
    "fit": measure_fit,
    "engines": measure_engines,
    "faults": measure_faults,
    "ray-faults": measure_ray_faults,
    "nodes": measure_nodes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=[10**5, 10**6])
    parser.add_argument("--sample-rows", type=int, default=50_000, help="of every fit")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="of predict")
    parser.add_argument("--trials", type=int, default=10, help="of every fault")
    kinds = [name.split()[0] for name in scale_ray.FAULTS]
    parser.add_argument("--faults", nargs="+", choices=kinds, default=kinds, help="of Ray")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--keep", action="store_true", help="use the folder as it is, and leave it")
    options = parser.parse_args()
    kept = options.folder if options.keep else None
    folder, rng = kept or Path(tempfile.mkdtemp(dir=options.folder)), np.random.default_rng(0)
    files = {n_rows: folder / f"rows-{n_rows}.parquet" for n_rows in sorted(options.rows)}
    chosen = (tuple(options.networks), tuple(options.faults))
    shop = Workshop(folder, files, options.sample_rows, options.trials, rng, *chosen)
    try:
        show(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        if not {"core", "nodes"} >= {*options.only}:
            centers = rng.normal(size=(N_CLUSTERS, N_FEATURES)).astype(np.float32)
            for n_rows, file in files.items():
                if not file.exists():
                    write_rows(file, n_rows, rng, centers)
            write_pairs(folder / "pairs.parquet", min(files), 2000, rng)
            quick = ("--pretraining", "none", "--wrong-answers", "none", "--max-epochs", 3)
            first = ("--sample-rows", 5000, *quick)
            used = {*options.networks} if {"model", "predict"} & {*options.only} else set()
            used |= {"wide"} if {"engines", "faults", "ray-faults"} & {*options.only} else set()
            for network in sorted(used):
                given = ("--hidden-dims", NETWORKS[network], *first, *SHORT)
                if not shop.model_of(network).exists():
                    fit(files[min(files)], folder / "pairs.parquet", shop.model_of(network), *given)
        for name in options.only:
            PARTS[name](shop)
        show(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

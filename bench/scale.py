"""Data sets larger than memory: memory and time of predict and fit as the rows grow, processes and Ray.

    python bench/scale.py --rows 1000000 10000000 --folder /tmp/scale        # 2.8 GB of rows, some minutes
    python bench/scale.py --rows 100000 1000000 --only predict engines
    OMP_NUM_THREADS=1 python bench/scale.py --only core

Every command runs in a process of its own with one thread; its memory is the peak that the system reports.
CPU seconds hardly depend on what else runs on the machine, seconds do. Rows have 64 columns of float32.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spherepair import Constraints, SpherePair
from spherepair.estimators.job import label_rows
from spherepair.files.data_sets import open_data_file
from spherepair.files.places import find_files
from spherepair.scale.labeling import model_needs

N_FEATURES, N_CLUSTERS, GROUP_ROWS = 64, 10, 100_000
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
#: The same rows in memory: what a batch from a file is compared with.
IN_MEMORY = """
import sys, time, numpy as np, pyarrow.parquet as pq, spherepair
model = spherepair.load(sys.argv[1], device="cpu")
X = np.ascontiguousarray(pq.read_table(sys.argv[2]).drop_columns(["id"]).to_pandas().to_numpy())
del model.feature_names_in_
started = time.process_time()
model.predict(X)
print(time.process_time() - started)
"""


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    seconds: float
    cpu: float
    mebibytes: float
    said: str

    def __str__(self) -> str:
        return f"{self.seconds:7.1f} s {self.cpu:7.1f} CPU s {self.mebibytes:7.0f} MiB"


def run(*words: object) -> Cost:
    started = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([str(part) for part in words], stdout=said, env=ENVIRONMENT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode()
    if process.returncode:
        raise SystemExit(f"{words} failed: {text}")
    return Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text)


def command(*arguments: object) -> Cost:
    return run(sys.executable, "-m", "spherepair", *arguments)


def write_rows(file: Path, n_rows: int, rng: np.random.Generator, centers: np.ndarray) -> None:
    names = ["id", *(f"f{place:02d}" for place in range(N_FEATURES))]
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
    ends[1] += ends[0] == ends[1]
    links = np.where(ends[0] % N_CLUSTERS == ends[1] % N_CLUSTERS, "must-link", "cannot-link")
    pq.write_table(pa.table({"left": ends[0], "right": ends[1] % n_rows, "link": links}), file)


def fit(data: Path, pairs: Path, model: Path, *options: object) -> Cost:
    short = ("--clusters", N_CLUSTERS, "--hidden-dims", "64", "--max-epochs", 3, "--device", "cpu", "--json")
    return command("fit", data, "--constraints", pairs, "--id", "id", "--out", model, *short, *options)


def compare_predict(model: Path, files: dict[int, Path], folder: Path) -> None:
    print("predict, one parquet file, one thread")
    found = {}
    for n_rows, file in files.items():
        found[n_rows] = command("predict", model, file, "--out", folder / "l.parquet", "--id", "id")
        print(f"  {n_rows:>10,} rows {found[n_rows]}  {n_rows / found[n_rows].cpu:10,.0f} rows a CPU s")
    few, many = min(files), max(files)
    memory = found[many].mebibytes / found[few].mebibytes
    growth = (found[many].cpu - found[few].cpu) / (many - few)
    in_memory = float(run(sys.executable, "-c", IN_MEMORY, model, files[few]).said) / few
    print(f"  memory of {many:,} rows: {memory:.2f} times that of {few:,}")
    print(f"  speed without the start: {in_memory / growth:.2f} of predict on the same rows in memory")


def compare_fits(files: dict[int, Path], folder: Path, rng: np.random.Generator) -> None:
    print("fit with 10,000 pairs, sample of up to 1,000,000 rows, one thread")
    found = {}
    for n_rows, file in files.items():
        write_pairs(folder / "pairs.parquet", n_rows, 10_000, rng)
        sample = ("--sample-rows", 1_000_000)
        found[n_rows] = fit(file, folder / "pairs.parquet", folder / "fitted", *sample)
        kept = json.loads(found[n_rows].said)["pairs_kept"]
        print(f"  {n_rows:>10,} rows {found[n_rows]}  {100 * kept:.1f} % of the pairs kept")
    few, many = found[min(files)], found[max(files)]
    print(
        f"  {max(files):,} rows: {many.cpu / few.cpu:.2f} times the CPU seconds of {min(files):,}, ", end=""
    )
    print(f"{many.seconds / few.seconds:.2f} times the seconds")


def compare_engines(model: Path, file: Path, folder: Path) -> None:
    print("engines: seconds as the command says them, with its start")
    for engine, workers in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2)):
        out = folder / "labels"
        shutil.rmtree(out, ignore_errors=True)
        given = ("--engine", engine, "--workers", workers, "--json")
        said = json.loads(command("predict", model, file, "--out", out, *given).said)
        print(f"  {engine:>6} {workers} {said['seconds']:7.1f} s {said['rows_per_second']:10,.0f} rows/s")


def measure_core(folder: Path, rng: np.random.Generator, n_rows: int = 40_000, n_features: int = 384) -> None:
    """Rows a CPU second of this process, with the default network, vectors in one column."""
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), n_features)
    file = folder / "vectors.parquet"
    pq.write_table(pa.table({"v": vectors}), file, compression="none", use_dictionary=False)
    pairs = Constraints.from_labels(np.arange(2000) % N_CLUSTERS, n_pairs=300, random_state=0)
    model = SpherePair(N_CLUSTERS, pretraining=None, max_epochs=1, random_state=0, device="cpu")
    model.fit(pa.table({"v": vectors.slice(0, 2000)}), constraints=pairs)
    opened, needs = open_data_file(find_files(file)[0]), model_needs(model)
    started = time.process_time()
    batches = list(opened.batches(needs))
    read = time.process_time() - started
    for batch in batches:
        label_rows(model, batch.X)
    both = time.process_time() - started
    print(
        f"one core, {n_features} features, {file.stat().st_size / n_rows:,.0f} bytes a row: rows a CPU second"
    )
    print(f"  read {n_rows / read:,.0f}, label {n_rows / (both - read):,.0f}, both {n_rows / both:,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=[10**6, 10**7])
    parser.add_argument("--only", nargs="+", default=["core", "predict", "fit", "engines"])
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(N_CLUSTERS, N_FEATURES)).astype(np.float32)
    try:
        if "core" in options.only:
            measure_core(folder, rng)
        if options.only == ["core"]:
            return
        files = {n_rows: folder / f"rows-{n_rows}.parquet" for n_rows in options.rows}
        for n_rows, file in files.items():
            write_rows(file, n_rows, rng, centers)
        model, few = folder / "model", min(files)
        write_pairs(folder / "pairs.parquet", few, 2000, rng)
        fit(files[few], folder / "pairs.parquet", model, "--sample-rows", 20_000, "--pretraining", "none")
        print(f"model without rows: {sum(f.stat().st_size for f in model.iterdir()):,} bytes")
        if "predict" in options.only:
            compare_predict(model, files, folder)
        if "fit" in options.only:
            compare_fits(files, folder, rng)
        if "engines" in options.only:
            compare_engines(model, files[few], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

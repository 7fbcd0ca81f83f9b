"""The examples of the guide for Spark, Dask and DuckDB, run for real: labels equal those of ``predict``.

pip install pyspark dask duckdb   # Spark needs Java too
python bench/scale_elsewhere.py --rows 100000 --only spark dask duckdb
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spherepair import Constraints, SpherePair, scale

N_FILES, N_FEATURES = 4, 64


def with_spark(folder: Path) -> dict[str, pa.Table]:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import pandas_udf, struct

    told = "id long, label long, confidence float"
    label = scale.predict_fn(folder / "model", id_column="id")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.executorEnv.OMP_NUM_THREADS", "1").getOrCreate()

    @pandas_udf(told)
    def label_rows(rows: pd.DataFrame) -> pd.DataFrame:
        return label(rows)

    try:
        frame = spark.read.parquet(str(folder / "rows"))
        in_arrow = frame.mapInArrow(label, told).toPandas()
        labeled = frame.select(label_rows(struct(*frame.columns)).alias("found"))
        one_by_one = labeled.select("found.*").toPandas()
    finally:
        spark.stop()
    found = {"Spark, mapInArrow": in_arrow, "Spark, pandas_udf": one_by_one}
    return {name: pa.Table.from_pandas(one, preserve_index=False) for name, one in found.items()}


def with_dask(folder: Path) -> dict[str, pa.Table]:
    import dask
    import dask.dataframe as dd

    label = scale.predict_fn(folder / "model", id_column="id")
    # Dask makes texts of columns of lists unless it is told not to.
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.read_parquet(folder / "rows")
        meta = {"id": "i8", "label": "i8", "confidence": "f4"}
        found = frame.map_partitions(label, meta=meta).compute()
    return {"Dask": pa.Table.from_pandas(found, preserve_index=False)}


def with_duckdb(folder: Path) -> dict[str, pa.Table]:
    import duckdb

    label = scale.predict_fn(folder / "model", id_column="id")
    reader = duckdb.connect().sql(f"from '{folder}/rows/*.parquet'").to_arrow_reader(10_000)
    return {"DuckDB": pa.RecordBatchReader.from_batches(label.schema(pa.int64()), label(reader)).read_all()}


ENGINES: dict[str, Callable[[Path], dict[str, pa.Table]]] = {
    "spark": with_spark,
    "dask": with_dask,
    "duckdb": with_duckdb,
}


def prepare(folder: Path, n_rows: int) -> pa.Table:
    """Rows, a model, and its labels by ``spherepair.scale.predict``."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    X += rng.normal(size=(10, N_FEATURES)).astype(np.float32)[np.arange(n_rows) % 10]
    table = pa.table([np.arange(n_rows), *X.T], names=["id", *(f"f{place}" for place in range(N_FEATURES))])
    (folder / "rows").mkdir()
    for part in range(N_FILES):
        size = -(-n_rows // N_FILES)
        pq.write_table(table.slice(part * size, size), folder / "rows" / f"{part}.parquet")
    pairs = Constraints.from_labels(np.arange(2000) % 10, n_pairs=500, random_state=0)
    model = SpherePair(10, pretraining=None, max_epochs=3, random_state=0, device="cpu")
    model.fit(table.drop_columns(["id"]).slice(0, 2000), constraints=pairs).save(folder / "model", rows=False)
    scale.predict(folder / "rows", model=folder / "model", out=folder / "labels", id_column="id", workers=1)
    return pq.read_table(folder / "labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        expected = prepare(Path(name), options.rows)
        for engine in options.only:
            started = time.monotonic()
            for told, table in ENGINES[engine](Path(name)).items():
                show(told, table.sort_by("id"), expected)
            print(f"  {engine}: {time.monotonic() - started:.1f} s with its start", flush=True)


def show(told: str, found: pa.Table, expected: pa.Table) -> None:
    is_same = found["label"].to_pylist() == expected["label"].to_pylist()
    wide = np.abs(found["confidence"].to_numpy() - expected["confidence"].to_numpy()).max()
    said = (
        f"{'the labels of predict' if is_same else 'OTHER LABELS'}, confidence differs by {wide:.1e} at most"
    )
    print(f"{told}: {len(found):,} rows, {said}", flush=True)


if __name__ == "__main__":
    main()

"""``spherepair predict``: labels of rows, seen or not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.cli.options import (
    DataArgument,
    DeviceOption,
    DropOption,
    IdOption,
    JsonOption,
    ModelArgument,
    OutOption,
    QuietOption,
)
from spherepair.cli.outputs import check_label_file, write_labels
from spherepair.cli.reporting import Report, reporting
from spherepair.cli.tables import Table, read_table
from spherepair.errors import InvalidDataError
from spherepair.estimators.loading import load
from spherepair.estimators.spherepair import SpherePair

NAME = "predict"
EXAMPLE = "Example: spherepair predict model/ new_rows.csv --id id --out labels.csv"
#: Rows labelled at a time; memory does not grow with an .npy file, other kinds are read whole.
BLOCK_ROWS = 65_536


def command(
    model: ModelArgument,
    data: DataArgument,
    *,
    out: OutOption,
    id_column: IdOption = None,
    drop: DropOption = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Label rows with a saved model."""
    with reporting(NAME, as_json=as_json, quiet=quiet) as report:
        check_label_file(out, [data])
        started = time.monotonic()
        with report.working(f"reading {data}"):
            fitted = load(model, device=device)
            table = read_rows_for(fitted, data, id_column=id_column, drop=drop or ())
        labels = predict_blocks(fitted, table, report)
        write_labels(out, labels, ids=table.ids, id_name=table.id_name)
        sizes = np.bincount(labels, minlength=fitted.n_clusters_).tolist()
        fields = {
            "labels": str(out),
            "n_rows": len(labels),
            "n_clusters": fitted.n_clusters_,
            "cluster_sizes": sizes,
            "seconds": round(time.monotonic() - started, 3),
        }
        report.finish(fields, [f"{len(labels):,} rows in {fitted.n_clusters_} clusters: {out}"])


def read_rows_for(model: SpherePair, path: Path, *, id_column: str | None, drop: Any) -> Table:
    """New rows with the columns the model knows, whatever else the file holds."""
    names = getattr(model, "feature_names_in_", None)
    return read_table(
        path,
        id_column=id_column,
        drop=drop,
        features=None if names is None else [str(name) for name in names],
        n_features=model.n_features_in_,
    )


def predict_blocks(model: SpherePair, table: Table, report: Report) -> NDArray[np.int64]:
    """Labels of all rows, a block at a time."""
    labels = np.empty(table.n_rows, dtype=np.int64)
    if table.n_rows == 0:
        raise InvalidDataError("the file has no rows; there is nothing to label.")
    with report.bar("labelling") as bar:
        for start in range(0, table.n_rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, table.n_rows)
            labels[start:stop] = _predict_block(model, table.X, start, stop)
            bar.show("labelling", stop, total=table.n_rows)
    return labels


def _predict_block(model: SpherePair, X: Any, start: int, stop: int) -> NDArray[np.int64]:
    block = X.slice(start, stop - start) if hasattr(X, "slice") else X[start:stop]
    try:
        return model.predict(block)
    except InvalidDataError as error:
        if start == 0:
            raise
        raise InvalidDataError(f"counting rows from row {start} of the file: {error}") from error

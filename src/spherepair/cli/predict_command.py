"""``spherepair predict``: label the rows of a file, or of a data set of any size, with a saved model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from spherepair import scale
from spherepair.cli import options
from spherepair.cli.raw_rows import read_rows_for
from spherepair.cli.terminal import NOTHING_WRITTEN, Terminal, command_terminal
from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.estimators import load
from spherepair.estimators.job import takes_raw_rows
from spherepair.estimators.trust import RowAssessment
from spherepair.estimators.trust.explaining import default_names
from spherepair.files.columns import PARQUET_SUFFIXES
from spherepair.files.data_sets import RowBatch, open_data_file
from spherepair.files.data_tables import Table
from spherepair.files.label_files import open_labels
from spherepair.files.places import find_files, is_many
from spherepair.scale.labeling import model_needs

#: Rows labeled at a time. A .npy file is read block by block, so memory does not grow with it.
BLOCK_ROWS = 65_536
#: Label of rows that belong to no cluster.
UNKNOWN = -1


class Engine(StrEnum):
    """Who carries the parts of a data set."""

    LOCAL = "local"
    RAY = "ray"


RowsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help=f"Rows of features: {options.DATA_KINDS}; or a data set of .parquet, .csv or .npy files: "
        "several files, a folder, 'rows/*.parquet', s3://bucket/rows.",
        show_default=False,
    ),
]
OutOption = Annotated[
    str,
    typer.Option(
        "--out", "-o", metavar="LABELS", help="File: .csv, .parquet or .npy; for a data set a folder."
    ),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option("--engine", help="Label a data set in parts, by processes or by Ray.", show_default="local"),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT|auto", help="Ray cluster.", show_default="RAY_ADDRESS"),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Processes.", show_default="one for each core"),
]
EmbeddingOption = Annotated[bool, typer.Option("--embedding", help="Of a data set, write the embedding too.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say how many parts, rows and bytes a data set has; label nothing.")
]


def predict(
    model: options.ModelArgument,
    data: RowsArgument,
    *,
    out: OutOption,
    id_column: options.IdOption = None,
    drop: options.DropOption = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    workers: WorkersOption = None,
    embedding: EmbeddingOption = False,
    dry_run: DryRunOption = False,
    unknown: options.UnknownOption = False,
    false_alarms: options.FalseAlarmsOption = 0.01,
    device: options.DeviceOption = "auto",
    quiet: options.QuietOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Label rows with a saved model: one file, or a data set of any size.

    A file of labels says how sure each one is. A data set becomes a folder with a file of labels for each of
    its files, or parts of large ones; run the same command again to go on after an interruption.
    """
    given = {"--engine": engine, "--address": address, "--workers": workers, "--embedding": embedding or None}
    used = [option for option, value in {**given, "--dry-run": dry_run or None}.items() if value is not None]
    is_set = _is_data_set(data, out, used)
    left = "interrupted; run the same command again to go on." if is_set else NOTHING_WRITTEN
    with command_terminal("predict", as_json=as_json, quiet=quiet, interrupted=left) as terminal:
        if not is_set:
            options.check_label_file(Path(out), [Path(data[0])])
            fitted = load(model, device=device)
            alarms = false_alarms if unknown else None
            with terminal.spinner(f"reading {data[0]}"):
                opened = _open_rows(fitted, Path(data[0]), id_column, drop or ())
            _predict_file(fitted, opened, Path(out), false_alarms=alarms, terminal=terminal)
            return
        if unknown:
            raise InvalidParameterError("--unknown is for single files; predict the files one by one.")
        if drop:
            raise InvalidParameterError(
                "--drop is for single files; of a data set only what is needed is read."
            )
        source = data if len(data) > 1 else data[0]
        asked: dict[str, Any] = {"model": model, "out": out, "id_column": id_column, "embedding": embedding}
        if dry_run:
            _print_estimate(scale.estimate(source, **asked), terminal)
            return
        chosen = (engine or Engine.LOCAL).value
        carried: dict[str, Any] = {"engine": chosen, "workers": workers, "address": address, "device": device}
        with terminal.progress_bar("labeling") as bar:

            def show(state: scale.Progress) -> None:
                speed, left = state.rows_per_second, state.seconds_left
                remark = f"parts, {speed:,.0f} rows/s, about {left:,.0f} s left"
                bar.show("labeling", state.n_done, total=state.n_parts, remark=remark)

            done = scale.predict(source, progress=show, **asked, **carried)
        _print_summary(done, terminal)


def _is_data_set(data: Sequence[str], out: str, used: Sequence[str]) -> bool:
    """Whether rows are labeled in parts: there are several files, or the output is no file of labels."""
    named = out.lower().endswith(options.LABEL_SUFFIXES)
    is_folder = Path(data[0]).is_dir() and not named
    if len(data) > 1 or is_many(data[0]) or is_folder or (used and not named):
        return True
    if used:
        raise InvalidParameterError(
            f"{used[0]} is for data sets, whose labels go to a folder; {out} is a file."
        )
    return False


def _print_estimate(found: scale.Estimate, terminal: Terminal) -> None:
    rows = "an unknown number of" if found.n_rows is None else f"{found.n_rows:,}"
    lines = [
        f"{found.n_parts:,} parts, {rows} rows, {found.n_bytes:,} bytes; {found.n_kept:,} parts are done"
    ]
    terminal.print_result({"dry_run": True, **asdict(found)}, lines)


def _print_summary(done: scale.Summary, terminal: Terminal) -> None:
    fields = asdict(done)
    rounded = {name: round(fields.pop(name), 3) for name in ("seconds", "rows_per_second")}
    used = np.count_nonzero(done.cluster_sizes)
    lines = [
        f"{done.n_rows:,} rows labeled, {used} of {len(done.cluster_sizes)} clusters used",
        f"parts       {done.n_parts:,}, of which {done.n_kept:,} were there before",
        f"speed       {done.rows_per_second:,.0f} rows/s",
        f"labels      {done.out}",
    ]
    out = fields.pop("out")
    terminal.print_result({"labels": out, "n_clusters": len(done.cluster_sizes), **fields, **rounded}, lines)


def _predict_file(
    fitted: Any,
    opened: tuple[Iterator[RowBatch], int, str | None],
    out: Path,
    *,
    false_alarms: float | None,
    terminal: Terminal,
) -> None:
    """Write labels, how sure they are, and with a rate of false alarms which rows are in no cluster."""
    started, (batches, total, id_name) = time.monotonic(), opened
    sizes, n_rows, sure = np.zeros(fitted.n_clusters_, np.int64), 0, 0.0
    names = _names(fitted)
    columns = ("name",) * (names is not None) + ("confidence",) + ("novelty",) * (false_alarms is not None)
    with open_labels(out, id_name=id_name, further=columns) as write:
        for batch, found in label_batches(fitted, batches, total, terminal):
            labels = found.labels
            if false_alarms is not None:
                labels = np.where(found.novelty > 1.0 - false_alarms, UNKNOWN, labels)
            said = {"name": None if names is None else names[labels]}
            said |= {"confidence": found.confidence.round(4), "novelty": found.novelty.round(4)}
            ids = batch.first + np.arange(len(labels)) if batch.ids is None else batch.ids
            write(labels, ids, *(said[column] for column in columns))
            sizes += np.bincount(labels[labels >= 0], minlength=len(sizes))
            n_rows, sure = n_rows + len(labels), sure + float(found.confidence.sum())
    fields = {
        "labels": str(out),
        "n_rows": n_rows,
        "n_clusters": fitted.n_clusters_,
        "cluster_sizes": sizes.tolist(),
        "confidence": sure / n_rows,
        "n_unknown": None if false_alarms is None else n_rows - int(sizes.sum()),
        "false_alarms": false_alarms,
        "seconds": round(time.monotonic() - started, 3),
    }
    lines = [
        f"{n_rows:,} rows labeled, {np.count_nonzero(sizes)} of {len(sizes)} clusters used",
        f"confidence  {100 * sure / n_rows:.1f} % on average",
    ]
    if false_alarms is not None:
        lines.append(
            f"unknown     {n_rows - sizes.sum():,} rows in no cluster (label {UNKNOWN}); of rows like those "
            f"of the fit, {100 * false_alarms:g} % would be"
        )
    terminal.print_result(fields, [*lines, f"labels      {out}"])


def _names(model: Any) -> NDArray[Any] | None:
    """Names of groups of texts and mixed tables; those of plain numbers say little."""
    if not takes_raw_rows(model) or model.group_names_ == default_names(model.n_clusters_):
        return None
    return np.array([*model.group_names_, "unknown"], dtype=object)  # the last is that of UNKNOWN


def _open_rows(
    fitted: Any, data: Path, id_column: str | None, drop: Sequence[str]
) -> tuple[Iterator[RowBatch], int, str | None]:
    """Rows of a file batch by batch, how many there are, and the name of the IDs."""
    if data.is_file() and data.name.lower().endswith(PARQUET_SUFFIXES) and not takes_raw_rows(fitted):
        needs = model_needs(fitted, id_column)
        try:
            opened = open_data_file(find_files(data)[0])
            opened.check(needs)
            if not drop and needs.features is not None and id_column not in needs.features:
                return opened.batches(needs), sum(opened.group_sizes or ()), id_column
        except InvalidDataError:
            pass  # the reader of whole files says more about what is wrong
    table = read_rows_for(fitted, data, id_column=id_column, drop=drop)
    return table_batches(table), table.n_rows, table.id_name


def table_batches(table: Table) -> Iterator[RowBatch]:
    """A table in blocks."""
    for start in range(0, table.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, table.n_rows)
        X = table.X.slice(start, stop - start) if hasattr(table.X, "slice") else table.X[start:stop]
        yield RowBatch(X, None if table.ids is None else table.ids.slice(start, stop - start), start)


def label_batches(
    model: Any, batches: Iterator[RowBatch], total: int, terminal: Terminal
) -> Iterator[tuple[RowBatch, RowAssessment]]:
    """Labels of batch after batch, and how sure they are; ``total`` is the number of all rows."""
    if total == 0:
        raise InvalidDataError("the file has no rows; there is nothing to label.")
    with terminal.progress_bar("labeling") as bar:
        for batch in batches:
            found = _assess_batch(model, batch)
            bar.show("labeling", batch.first + len(found.labels), total=total)
            yield batch, found


def assess_blocks(model: Any, table: Table, terminal: Terminal) -> RowAssessment:
    """Labels of all rows of a table and how sure they are, predicted in blocks."""
    found = [one for _, one in label_batches(model, table_batches(table), table.n_rows, terminal)]
    parts = ("labels", "confidence", "novelty")
    return RowAssessment(*(np.concatenate([getattr(one, part) for one in found]) for part in parts))


def _assess_batch(model: Any, batch: RowBatch) -> RowAssessment:
    try:
        found: RowAssessment = model.assess(batch.X)
    except InvalidDataError as error:
        if batch.first == 0:
            raise
        raise InvalidDataError(f"counting from row {batch.first} of the file: {error}") from error
    return found

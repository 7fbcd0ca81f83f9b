"""``spherepair predict``: label the rows of a file, or of a data set of any size, with a saved model."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spherepair import scale
from spherepair.cli import options
from spherepair.cli.raw_rows import read_rows_for, refuse_stray_rows
from spherepair.cli.terminal import NOTHING_WRITTEN, Terminal, command_terminal
from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.estimators import load
from spherepair.estimators.job import takes_raw_rows
from spherepair.estimators.trust import UNKNOWN, RowAssessment, label_rows
from spherepair.estimators.trust.explaining import default_names
from spherepair.files.columns import CSV_SUFFIXES, PARQUET_SUFFIXES
from spherepair.files.data_sets import RowBatch, open_data_file, read_ahead
from spherepair.files.data_tables import Table
from spherepair.files.label_files import open_labels
from spherepair.files.places import (
    DATA_SET_SUFFIXES,
    Source,
    data_set_files,
    find_files,
    is_many,
    local_path,
)
from spherepair.scale.labeling import model_needs

#: Rows labeled at a time. A .npy file is read block by block, so memory does not grow with it.
BLOCK_ROWS = 65_536


OutOption = Annotated[
    str,
    typer.Option(
        "--out", "-o", metavar="LABELS", help="File: .csv, .parquet or .npy; for a data set a folder."
    ),
]
UnknownOption = Annotated[
    bool,
    typer.Option("--unknown", help="Label rows that belong to no cluster -1, and write how new each row is."),
]
FalseAlarmsOption = Annotated[
    float,
    typer.Option(
        "--false-alarms",
        metavar="SHARE",
        min=0.0001,
        max=0.5,
        help="With --unknown: share of ordinary rows that may be taken for unknown.",
    ),
]
EmbeddingOption = Annotated[bool, typer.Option("--embedding", help="Of a data set, write the embedding too.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say how many parts, rows and bytes a data set has; label nothing.")
]


def predict(
    model: options.ModelArgument,
    data: options.ManyArgument,
    *,
    out: OutOption,
    id_column: options.IdOption = None,
    drop: options.DropOption = None,
    unknown: UnknownOption = False,
    false_alarms: FalseAlarmsOption = 0.01,
    escape: options.EscapeOption = False,
    engine: options.EngineOption = None,
    address: options.AddressOption = None,
    workers: options.WorkersOption = None,
    embedding: EmbeddingOption = False,
    dry_run: DryRunOption = False,
    device: options.DeviceOption = "auto",
    quiet: options.QuietOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Label rows with a saved model, a file or a data set of any size, and say how sure each label is.

    A data set becomes a folder with a file of labels for each of its files, or parts of large ones. Run the
    same command again to go on after an interruption.
    """
    given = {"--engine": engine, "--address": address, "--workers": workers, "--embedding": embedding or None}
    used = [option for option, value in {**given, "--dry-run": dry_run or None}.items() if value is not None]
    data, out = [local_path(name) for name in data], local_path(out)
    is_set, rate = _is_data_set(data, out, used), false_alarms if unknown else None
    left = "interrupted; run the same command again to go on." if is_set else NOTHING_WRITTEN
    with command_terminal("predict", as_json=as_json, quiet=quiet, interrupted=left) as terminal:
        if not is_set:
            _check_label_file(out, data[0])
            reader = _FileReader(load(model, device=device), Path(data[0]), id_column, drop or ())
            _predict_file(reader, Path(out), false_alarms=rate, escape=escape, terminal=terminal)
            return
        if drop:
            raise InvalidParameterError(
                "--drop is for single files; of a data set only what is needed is read."
            )
        source = data if len(data) > 1 else data[0]
        asked: dict[str, Any] = {"model": model, "out": out, "id_column": id_column, "embedding": embedding}
        asked["false_alarms"] = rate
        if dry_run:
            _print_estimate(scale.estimate(source, **asked), terminal)
            return
        carried = carried_by(engine, workers, address)
        done = label_data_set(source, terminal, **asked, **carried, device=device)
        _print_summary(done, rate, terminal)


def check_labels_out(
    labels_out: Path | None,
    is_sampled: bool,
    carried: dict[str, Any],
    inputs: Iterable[Source | None],
    model: Path,
) -> None:
    """Refuse a place for the labels of a fit that is not a file, or of a fit on a sample not a folder."""
    used = [option for option, value in carried.items() if value is not None]
    if used and (labels_out is None or not is_sampled):
        raise InvalidParameterError(f"{used[0]} is for --labels-out of a data set of many rows or files.")
    if labels_out is None:
        return
    options.refuse_within(labels_out, model, option="--labels-out")
    if not is_sampled:
        options.check_label_file(labels_out, inputs)
    elif labels_out.suffix.lower() in options.LABEL_SUFFIXES:
        raise InvalidParameterError(
            f"--labels-out {labels_out} must be a folder: labels of many rows or files are written in parts."
        )
    else:
        engine, (*data, _) = carried["--engine"] or options.Engine.LOCAL, inputs
        scale.check_labels(data, labels_out, engine.value, carried["--address"])


def carried_by(engine: options.Engine | None, workers: int | None, address: str | None) -> dict[str, Any]:
    """The options of engines for functions of ``spherepair.scale``."""
    return {"engine": (engine or options.Engine.LOCAL).value, "workers": workers, "address": address}


def label_data_set(source: Any, terminal: Terminal, **asked: Any) -> scale.Summary:
    """Label a data set and show how far it is; takes the arguments of ``scale.predict``."""
    with terminal.progress_bar("labeling") as bar:

        def show(state: scale.Progress) -> None:
            speed, left = state.rows_per_second, state.seconds_left
            remark = f"parts, {speed:,.0f} rows/s, about {left:,.0f} s left"
            bar.show("labeling", state.n_done, total=state.n_parts, remark=remark)

        return scale.predict(source, progress=show, **asked)


def _is_data_set(data: Sequence[str], out: str, used: Sequence[str]) -> bool:
    """Whether rows are labeled in parts: there are several files, or the output is no file of labels."""
    named, several = out.lower().endswith(options.LABEL_SUFFIXES), len(data) > 1 or is_many(data[0])
    if not several and not os.path.exists(data[0]):
        raise InvalidDataError(f"{data[0]} does not exist; check the path.")
    if several or (named and data_set_files(data[0])):
        if named:
            if not several:
                refuse_stray_rows(data[0])
            raise InvalidParameterError(
                f"{out} has the name of a file, but labels of a folder, a glob, a URI or several files are "
                "written to a folder in parts; name a folder."
            )
        return True
    if not named and (used or Path(data[0]).is_dir()):
        return True
    if used:
        raise InvalidParameterError(
            f"{used[0]} is for data sets, whose labels go to a folder; {out} is a file."
        )
    return False


def _check_label_file(out: str, data: str) -> None:
    """Refuse a label file, and say how labels are written to a folder where the rows can be read in parts."""
    has_parts = data.lower().endswith(DATA_SET_SUFFIXES)
    if has_parts and not out.lower().endswith(options.LABEL_SUFFIXES):
        raise InvalidParameterError(
            f"{out}: the name of a label file must end in .csv, .parquet or .npy; with --workers 1, labels "
            "are written to a folder in parts."
        )
    options.check_label_file(Path(out), [Path(data)])


def _print_estimate(found: scale.Estimate, terminal: Terminal) -> None:
    rows = "an unknown number of" if found.n_rows is None else f"{found.n_rows:,}"
    lines = [
        f"{found.n_parts:,} parts, {rows} rows, {found.n_bytes:,} bytes; {found.n_kept:,} parts are done"
    ]
    terminal.print_result({"dry_run": True, **asdict(found)}, lines)


def _print_summary(done: scale.Summary, false_alarms: float | None, terminal: Terminal) -> None:
    fields = asdict(done) | _unknown_fields(done.n_unknown, false_alarms)
    rounded = {name: round(fields.pop(name), 3) for name in ("seconds", "rows_per_second")}
    used = np.count_nonzero(done.cluster_sizes)
    lines = [
        f"{done.n_rows:,} rows labeled, {used} of {len(done.cluster_sizes)} clusters used",
        f"parts       {done.n_parts:,}, of which {done.n_kept:,} were there before",
        *([f"speed       {done.rows_per_second:,.0f} rows/s"] if done.n_kept < done.n_parts else []),
        *_unknown_lines(done.n_unknown, false_alarms),
        f"labels      {done.out}",
    ]
    out = fields.pop("out")
    terminal.print_result({"labels": out, "n_clusters": len(done.cluster_sizes), **fields, **rounded}, lines)


def _unknown_fields(n_unknown: int, false_alarms: float | None) -> dict[str, Any]:
    return {"n_unknown": None if false_alarms is None else n_unknown, "false_alarms": false_alarms}


def _unknown_lines(n_unknown: int, false_alarms: float | None) -> list[str]:
    if false_alarms is None:
        return []
    return [
        f"unknown     {n_unknown:,} rows in no cluster (label {UNKNOWN}); of rows like those of the fit, "
        f"{100 * false_alarms:g} % would be"
    ]


@dataclass(frozen=True)
class _FileReader:
    """A model, and the file whose rows it labels."""

    model: Any
    data: Path
    id_column: str | None
    drop: Sequence[str]

    def open(self) -> tuple[Iterator[RowBatch], int | None, str | None]:
        """Rows of the file batch by batch, how many there are if it says so, and the name of the IDs."""
        has_batches = self.data.name.lower().endswith((*PARQUET_SUFFIXES, *CSV_SUFFIXES))
        if has_batches and self.data.is_file() and not takes_raw_rows(self.model):
            needs = model_needs(self.model, self.id_column)
            try:
                opened = open_data_file(find_files(self.data)[0])
                opened.check(needs)
                if not self.drop and needs.features is not None and self.id_column not in needs.features:
                    total = None if opened.group_sizes is None else opened.count()
                    return opened.batches(needs), total, self.id_column
            except InvalidDataError:
                pass  # the reader of whole files says more about what is wrong
        table = read_rows_for(self.model, self.data, id_column=self.id_column, drop=self.drop)
        return _table_batches(table), table.n_rows, table.id_name


def _predict_file(
    reader: _FileReader, out: Path, *, false_alarms: float | None, escape: bool, terminal: Terminal
) -> None:
    started, model = time.monotonic(), reader.model
    with terminal.spinner(f"reading {reader.data}"):
        batches, total, id_name = reader.open()
    sizes, n_rows, sure = np.zeros(model.n_clusters_, np.int64), 0, 0.0
    with (
        open_labels(out, id_name=id_name, escape=escape) as write,
        closing(read_ahead(batches)) as ahead,
        terminal.progress_bar("labeling") as bar,
    ):
        for batch in ahead:
            found = _assess_batch(model, batch, novelty=false_alarms is not None)
            labels = found.known_labels(false_alarms)
            ids = batch.first + np.arange(len(labels)) if batch.ids is None else batch.ids
            write(labels, ids, _columns(model, found, labels, with_novelty=false_alarms is not None))
            sizes += np.bincount(labels[labels >= 0], minlength=len(sizes))
            n_rows, sure = n_rows + len(labels), sure + float(found.confidence.sum(dtype=np.float64))
            bar.show("labeling", n_rows, total=total)
        if n_rows == 0:
            raise InvalidDataError("the file has no rows; there is nothing to label.")
    n_unknown = n_rows - int(sizes.sum())
    fields = {
        "labels": str(out),
        "n_rows": n_rows,
        "n_clusters": model.n_clusters_,
        "cluster_sizes": sizes.tolist(),
        "confidence": sure / n_rows,
        **_unknown_fields(n_unknown, false_alarms),
        "seconds": round(time.monotonic() - started, 3),
    }
    lines = [
        f"{n_rows:,} rows labeled, {np.count_nonzero(sizes)} of {len(sizes)} clusters used",
        f"confidence  {100 * sure / n_rows:.1f} % on average",
        *_unknown_lines(n_unknown, false_alarms),
        f"labels      {out}",
    ]
    terminal.print_result(fields, lines)


def _columns(model: Any, found: RowAssessment, labels: Any, *, with_novelty: bool) -> dict[str, Any]:
    """How sure labels are, and names of groups; those of plain numbers say little and are left out."""
    columns: dict[str, Any] = {}
    if takes_raw_rows(model) and model.group_names_ != default_names(model.n_clusters_):
        columns["name"] = np.array([*model.group_names_, "unknown"], dtype=object)[labels]
    columns["confidence"] = found.confidence.round(4)
    return columns | ({"novelty": found.novelty.round(4)} if with_novelty else {})


def _table_batches(table: Table) -> Iterator[RowBatch]:
    """A table in blocks."""
    for start in range(0, table.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, table.n_rows)
        ids = None if table.ids is None else table.ids.slice(start, stop - start)
        yield RowBatch(_rows(table.X, start, stop), ids, start)


def _rows(X: Any, start: int, stop: int) -> Any:
    return X.slice(start, stop - start) if hasattr(X, "slice") else X[start:stop]


def _assess_batch(model: Any, batch: RowBatch, *, novelty: bool) -> RowAssessment:
    try:
        return label_rows(model, batch.X, novelty=novelty)
    except InvalidDataError as error:
        if batch.first == 0:
            raise
        raise InvalidDataError(f"counting from row {batch.first} of the file: {error}") from error

"""Downloads: labels, pairs, the model, a report, and the groups of new rows.

In csv files a cell that a spreadsheet would take for a formula gets a ' in front.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spherepair.app.open_project import Labeling
from spherepair.app.project_rows import Rows, Source, store_rows
from spherepair.app.projects import raw_rows, read_encoder
from spherepair.app.versions import NO_GROUP, Version
from spherepair.errors import InvalidDataError, InvalidParameterError, quoted
from spherepair.estimators import load
from spherepair.estimators.job import attach_encoder, takes_raw_rows
from spherepair.files.csv_files import escape_formulas


def export_labels(project: Labeling, kind: str, *, escape: bool) -> bytes:
    """Every row with its group, the group's name, how sure that is, and whether people placed it."""
    view = project.view
    labels = view.labels
    ids = pa.array([group.id for group in view.groups], pa.string())
    names = pa.array([project.name_of(group) for group in view.groups], pa.string())
    place = pa.array(labels.astype(np.int64), mask=labels == NO_GROUP)
    is_placed = np.zeros(len(project.rows), dtype=bool)
    is_placed[view.placed.rows] = True
    confidence = np.where(is_placed, 1.0, view.version.confidence / 255.0)
    table = pa.table(
        {
            "row": pa.array(np.arange(len(project.rows))),
            "id": project.rows.ids(),
            "cluster": pc.take(ids, place),
            "name": pc.take(names, place),
            "confidence": pa.array(np.round(confidence, 3), mask=labels == NO_GROUP),
            "placed_by_people": pa.array(is_placed),
        }
    )
    return _file(table, kind, escape=escape)


def export_pairs(project: Labeling, kind: str, *, escape: bool) -> bytes:
    """All pairs that the answers state, by the IDs of their rows."""
    with project.lock:
        answers = list(project.interview.answers)
    said = [(*link, answer.by, answer.time) for answer in answers for link in answer.links]
    left, right, same, by, time = (list(part) for part in zip(*said, strict=True)) if said else ([],) * 5
    name = project.rows.id
    table = pa.table(
        {
            "left": pa.array([name(row) for row in left], pa.string()),
            "right": pa.array([name(row) for row in right], pa.string()),
            "link": pa.array(["must" if one else "cannot" for one in same], pa.string()),
            "by": pa.array(by, pa.string()),
            "time": pa.array(time, pa.string()),
        }
    )
    return _file(table, kind, escape=escape)


def export_model(project: Labeling) -> bytes:
    """The latest model as a zip, for :func:`spherepair.load` and ``spherepair predict``."""
    stream = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(stream, "w") as archive:
        _model(project, project.version).save(Path(folder) / "model")
        for file in sorted(Path(folder, "model").iterdir()):
            archive.write(file, f"model/{file.name}", zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def export_report(project: Labeling) -> bytes:
    """The report of the latest model as one page."""
    from spherepair.report import write_report

    with project.lock:
        pairs = project.interview.constraints
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        model = _model(project, project.version)
        write_report(
            model,
            raw_rows(project.rows, takes_raw_rows(model)),
            pairs,
            path,
            ids=project.rows.ids().to_pylist(),
        )
        return path.read_bytes()


def predict_groups(project: Labeling, source: Source, *, escape: bool = True) -> bytes:
    """The groups of new rows as csv: id, cluster, name and confidence."""
    view = project.view  # once: answers and models may come in between
    version = view.version
    if not version.groups:
        raise InvalidDataError("there is no model of groups yet; answer more questions first.")
    model, layout = _model(project, version), project.rows.layout
    wanted = [name for name in (layout.text, layout.images) if name is not None]
    missing = [name for name in wanted if name not in source.table.column_names]
    if missing:
        raise InvalidDataError(f"the file has no column {quoted(missing[0])}, which the project is about.")
    with tempfile.TemporaryDirectory() as folder:
        store_rows(Path(folder), source, layout)
        fresh = Rows(Path(folder), layout)
        has_ids = layout.id is not None and layout.id in fresh.columns
        ids = fresh.ids() if has_ids else pc.cast(pa.array(np.arange(len(fresh))), pa.string())
        shares = model.predict_proba(raw_rows(fresh, takes_raw_rows(model), project.rows))
        best = shares.argmax(axis=1)
        groups = [view.groups[view.moves[place]] for place in range(len(version.groups))]
        table = pa.table(
            {
                "id": ids,
                "cluster": pc.take(pa.array([group.id for group in groups], pa.string()), pa.array(best)),
                "name": pc.take(
                    pa.array([project.name_of(group) for group in groups], pa.string()),
                    pa.array(best),
                ),
                "confidence": np.round(shares.max(axis=1).astype(np.float64), 3),
            }
        )
        return _file(table, "csv", escape=escape)


def _file(table: pa.Table, kind: str, *, escape: bool) -> bytes:
    stream = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, stream)
    elif kind == "jsonl":
        for batch in table.to_batches(max_chunksize=10_000):
            stream.writelines(json.dumps(line).encode() + b"\n" for line in batch.to_pylist())
    elif kind == "csv":
        pa_csv.write_csv(escape_formulas(table) if escape else table, stream)
    else:
        raise InvalidParameterError(f"format must be csv, parquet or jsonl, got {quoted(kind)} instead.")
    return stream.getvalue()


def _model(project: Labeling, version: Version) -> Any:
    """The model of a version, which takes rows as people have them."""
    folder = version.model_folder
    if folder is None:
        raise InvalidDataError("there is no model yet; the first one takes a moment.")
    model = load(folder)
    attach_encoder(model, read_encoder(project.folder))
    return model

"""What is fuzzed: whole files to start from, and what reads them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
from scipy import sparse
from tests.fuzz.alterations import alter_file, alter_json, alter_tensors
from tests.fuzz.databases import alter_database, database_seeds, read_database
from tests.fuzz.postgresql import alter_statements, read_server, statement_seeds
from tests.fuzz.uploads import read_upload, upload_seeds

from spherepair import Constraints, SpherePair, load
from spherepair.asking.record import (
    DENSE_FILE,
    RECORD_FILE,
    SETTINGS_FILE,
    FileRecord,
    fingerprint_rows,
    read_project,
)
from spherepair.benchmark.results_folder import ResultsFolder
from spherepair.encoders import ImageEncoder, TableEncoder, TextEncoder
from spherepair.estimators.trust import label_rows
from spherepair.files.data_sets import Needs, open_data_file
from spherepair.files.data_tables import read_rows, read_table
from spherepair.files.places import find_files
from spherepair.persistence import _json_digest, read_tensor_file, write_tensor_file
from spherepair.training.session import CHECKPOINT_FILE

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
PICTURES = np.random.default_rng(0).integers(0, 255, size=(60, 4, 4), dtype=np.uint8)
PAIRS = Constraints.from_labels(np.arange(24) % 3, 40, random_state=0)


@dataclass(frozen=True)
class Target:
    """A reader: whole files by name to start from, how they are altered, and what reads them."""

    seeds: Callable[[], list[dict[str, bytes]]]
    read: Callable[[Path], object]
    alter: Callable[[random.Random, dict[str, bytes]], dict[str, bytes]]


def _bytes_of(write: Callable[[Any], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def data_seeds() -> list[dict[str, bytes]]:
    """Tables of every kind."""
    text = "id,a,b\n" + "".join(f"r{n},{n / 7},{n % 3}\n" for n in range(20))
    matrix = sparse.csr_matrix(X * (X > 0))
    svmlight = "".join(f"1 1:{n} 3:{n / 2}\n" for n in range(20))
    columns = {"id": [f"r{n}" for n in range(20)], "a": np.arange(20.0), "b": np.arange(20)}
    table = pa.table(columns)
    days = pa.array(np.arange(20) * 10**6, pa.timestamp("ms"))
    others = table.append_column("when", days).append_column("word", table["id"].dictionary_encode())
    return [
        {"rows.csv": text.encode()},
        {"rows.csv": text.replace(",", ";").replace(".", ",").encode()},
        {"rows.csv.gz": gzip.compress(text.encode())},
        {"rows.tsv": text.replace(",", "\t").encode()},
        {"rows.npy": _bytes_of(lambda file: np.save(file, X))},
        {"rows.npz": _bytes_of(lambda file: np.savez(file, X=X))},
        {"rows.npz": _bytes_of(lambda file: np.savez_compressed(file, X=X, y=X[:, 0]))},
        {"rows.npz": _bytes_of(lambda file: sparse.save_npz(file, matrix))},
        {"rows.npz": _bytes_of(lambda file: sparse.save_npz(file, matrix.tocsc(), compressed=False))},
        {"rows.svmlight": svmlight.encode()},
        {"rows.parquet": _bytes_of(lambda file: pq.write_table(table, file))},
        {"rows.parquet": _bytes_of(lambda file: pq.write_table(others, file))},
        {"rows.xlsx": _workbook()},
    ]


def _workbook() -> bytes:
    """The smallest workbook with two columns and three rows."""
    rows = (("a", "b"), (1, 2.5), (0, -3))
    cells = "".join(
        f'<row r="{n}">'
        + "".join(
            f'<c r="{letter}{n}" t="inlineStr"><is><t>{cell}</t></is></c>'
            if isinstance(cell, str)
            else f'<c r="{letter}{n}"><v>{cell}</v></c>'
            for letter, cell in zip("AB", row, strict=True)
        )
        + "</row>"
        for n, row in enumerate(rows, start=1)
    )
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        f'ContentType="{types}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{types}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="S" sheetId="1" '
        'r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return stream.getvalue()


def read_data(folder: Path) -> object:
    """As ``fit`` reads a table, and as ``check --data`` counts its rows."""
    (path,) = folder.iterdir()
    table = read_table(path, mixed=True)
    read_rows(path)
    return table.locate(0) if table.n_rows else None, table.X.sum() if sparse.issparse(table.X) else None


def part_seeds() -> list[dict[str, bytes]]:
    """Files that can be parts of a data set."""
    return [
        files for files in data_seeds() if next(iter(files)).endswith((".csv", ".gz", ".npy", ".parquet"))
    ]


def read_part(folder: Path) -> object:
    """As ``predict`` reads a data set: the columns first, then all rows a batch at a time."""
    opened, needs = open_data_file(find_files(folder)[0], "id"), Needs(mixed=True)
    opened.check(needs)
    rows = sum(len(batch.X) for batch in opened.batches(needs))
    assert rows == opened.count(), "rows are not as many as they were counted"
    return rows


def pair_seeds() -> list[dict[str, bytes]]:
    """Pairs, labels and records."""
    rows = [
        (int(a), int(b), "must" if m else "cannot")
        for a, b, m in zip(PAIRS.left, PAIRS.right, PAIRS.is_must_link, strict=True)
    ]
    text = "left,right,link,weight,by,time,value\n" + "".join(
        f"{a},{b},{link},1,ann,2026-03-31T09:30:00+00:00,{int(link == 'must')}\n" for a, b, link in rows
    )
    lines = "".join(json.dumps({"left": a, "right": b, "link": link}) + "\n" for a, b, link in rows)
    table = pa.table(
        {name: [row[place] for row in rows] for place, name in enumerate(("left", "right", "link"))}
    )
    answers = [
        {"event": "answer", "number": n, "links": [[a, b, int(link == "must")]], "by": "ann", "time": ""}
        for n, (a, b, link) in enumerate(rows)
    ]
    record = [
        {"format": "spherepair answers", "version": 1, "rows": "x"},
        *answers,
        {"event": "undo", "number": 3},
    ]
    return [
        {"pairs.csv": text.encode()},
        {"pairs.csv.gz": gzip.compress(text.encode())},
        {"pairs.jsonl": lines.encode()},
        {"pairs.jsonl.gz": gzip.compress(lines.encode())},
        {"pairs.parquet": _bytes_of(lambda file: pq.write_table(table, file))},
        {"labels.csv": ("row,label\n" + "".join(f"{n},{n % 3}\n" for n in range(24))).encode()},
        {"record.jsonl": "".join(json.dumps(event) + "\n" for event in record).encode()},
    ]


def read_pairs(folder: Path) -> object:
    """As ``check`` reads pairs."""
    (path,) = folder.iterdir()
    found = Constraints.read(path, n_rows=24)
    return len(found.conflicts()), found.summary()


def model_seeds() -> list[dict[str, bytes]]:
    """Saved models of three methods."""
    brief = {"hidden_dims": (4,), "pretraining": None, "max_epochs": 1, "random_state": 0, "progress": False}
    names = [f"f{n}" for n in range(3)]
    found = []
    for settings in (brief, brief | {"wrong_answers": 0.1}):
        with tempfile.TemporaryDirectory() as folder:
            SpherePair(3, **settings).fit(
                pa.table(dict(zip(names, X.T, strict=True))), constraints=PAIRS
            ).save(f"{folder}/m")
            found.append({file.name: file.read_bytes() for file in Path(folder, "m").iterdir()})
    return found


def alter_model(source: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """A model altered as its owner could, with right checksums, or as an accident would."""
    if source.random() < 0.1:
        return alter_file(source, files)
    tensors = safetensors.torch.load(files["weights.safetensors"])
    manifest = json.loads(files["model.json"])
    if source.random() < 0.5:
        manifest = alter_json(source, manifest)
    else:
        alter_tensors(source, tensors)
    return _signed(manifest, tensors)


def _signed(manifest: Any, tensors: dict[str, Any]) -> dict[str, bytes]:
    """The files of a model, with right checksums."""
    weights = safetensors.torch.save(tensors)
    if isinstance(manifest, dict):
        manifest.pop("sha256", None)
        manifest["weights_sha256"] = hashlib.sha256(weights).hexdigest()
        manifest["sha256"] = _json_digest(manifest)
    return {"model.json": json.dumps(manifest).encode(), "weights.safetensors": weights}


def alter_encoder(source: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """A model with an encoder altered as its owner could: mostly what belongs to the encoder."""
    if source.random() < 0.1:
        return alter_model(source, files)
    tensors = safetensors.torch.load(files["weights.safetensors"])
    manifest = json.loads(files["model.json"])
    arrays = {name: tensor for name, tensor in tensors.items() if name.startswith("encoder.")}
    if arrays and source.random() < 0.3:
        alter_tensors(source, arrays)
        tensors = {name: t for name, t in tensors.items() if not name.startswith("encoder.")} | arrays
    else:
        manifest["row_encoder"] = alter_json(source, manifest["row_encoder"])
    return _signed(manifest, tensors)


def read_model(folder: Path) -> object:
    """As ``predict`` and ``predict --unknown`` do."""
    model = load(folder)
    return model.predict(X), label_rows(model, X, novelty=model.novelty_scale_ is not None)


def raw_table() -> Any:
    """A table of every kind of column."""
    count = np.arange(60)
    return pa.table(
        {
            "note": [f"my card {n} was stolen" if n % 2 else f"a loan for house {n % 9}" for n in count],
            "age": [None if n == 7 else float(n % 31) for n in count],
            "mostly": [float(max(0, n - 50)) for n in count],
            "city": [None if n % 9 == 0 else "abc"[n % 3] for n in count],
            "code": [f"0{n}" for n in count],
            "since": [f"20{10 + n % 9}-0{1 + n % 9}-1{n % 9}" for n in count],
            "street": [f"{n % 45} street" for n in count],
        }
    )


@cache
def encoder_seeds() -> list[dict[str, bytes]]:
    """Saved models that hold an encoder: tf-idf, a mixed table, pixels."""
    table, kinds = raw_table(), {"note": "text", "code": "category"}
    pairs = Constraints.from_labels(np.arange(60) % 2, 30, random_state=0)
    encoders = (
        (TextEncoder("tfidf"), table["note"].to_pylist()),
        (TableEncoder(kinds, text_model="tfidf", progress=False), table),
        (TableEncoder(columns=["age", "city"], progress=False), table),
        (ImageEncoder("pixels", progress=False), PICTURES),
    )
    brief = {"hidden_dims": (4,), "pretraining": None, "max_epochs": 1, "random_state": 0, "progress": False}
    found = []
    for encoder, rows in encoders:
        with tempfile.TemporaryDirectory() as folder:
            model = SpherePair(2, encoder=encoder, **brief).fit(rows, constraints=pairs)
            model.save(f"{folder}/m", rows=False)
            found.append({file.name: file.read_bytes() for file in Path(folder, "m").iterdir()})
    return found


def read_encoder_model(folder: Path) -> object:
    """As ``predict`` does, with rows of the kind that the model says it takes."""
    model = load(folder)
    encoder = getattr(model, "encoder_", None)
    if isinstance(encoder, TableEncoder):
        return model.predict(raw_table())
    return model.predict(PICTURES if isinstance(encoder, ImageEncoder) else raw_table()["note"].to_pylist())


def checkpoint_seeds() -> list[dict[str, bytes]]:
    """The checkpoint of a finished fit."""
    with tempfile.TemporaryDirectory() as folder:
        _fit(Path(folder))
        return [{CHECKPOINT_FILE: Path(folder, CHECKPOINT_FILE).read_bytes()}]


def _fit(folder: Path) -> object:
    settings = {
        "hidden_dims": (4,),
        "pretraining": None,
        "max_epochs": 2,
        "random_state": 0,
        "progress": False,
    }
    return SpherePair(3, **settings).fit(X, constraints=PAIRS, checkpoint=folder).labels_


def alter_checkpoint(source: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """A checkpoint altered with a right digest, or by an accident."""
    if source.random() < 0.3:
        return alter_file(source, files)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, CHECKPOINT_FILE)
        file.write_bytes(files[CHECKPOINT_FILE])
        manifest, tensors = read_tensor_file(file)
        if source.random() < 0.5:
            manifest = alter_json(source, manifest)
        else:
            alter_tensors(source, tensors)
        write_tensor_file(file, manifest, tensors)
        return {CHECKPOINT_FILE: file.read_bytes()}


def read_checkpoint(folder: Path) -> object:
    """As a fit with the same checkpoint does."""
    return _fit(folder)


def project_seeds() -> list[dict[str, bytes]]:
    """The folder of an interview."""
    with tempfile.TemporaryDirectory() as folder:
        record = FileRecord(Path(folder) / RECORD_FILE, fingerprint=fingerprint_rows(X))
        for number, (a, b) in enumerate(zip(PAIRS.left[:9], PAIRS.right[:9], strict=True)):
            record.append(
                {"event": "answer", "number": number, "links": [[int(a), int(b), 1]], "by": "ann", "time": ""}
            )
        record.close()
        content = Path(folder, RECORD_FILE).read_bytes()
    settings = json.dumps({"strategy": "cards", "random_state": 0}).encode()
    return [
        {RECORD_FILE: content, DENSE_FILE: _bytes_of(lambda file: np.save(file, X)), SETTINGS_FILE: settings}
    ]


def read_interview(folder: Path) -> object:
    """As ``Interview.open`` does."""
    project, record = read_project(folder)
    record.close()
    return len(list(record)), project.X.shape


def result_seeds() -> list[dict[str, bytes]]:
    """Results of a benchmark."""
    record = json.dumps({"key": "abc", "spec": {"seed": 0}, "accuracy": 0.9, "time": 1.0}).encode()
    return [{"runs.json": record, "arrays.npz": _bytes_of(lambda file: np.savez(file, embedding=X))}]


def read_results(folder: Path) -> object:
    """As ``bench report`` reads the records."""
    results = ResultsFolder.create(folder / "results")
    shutil.copy(folder / "runs.json", results.folder / "runs" / "abc.json")
    shutil.copy(folder / "arrays.npz", results.folder / "arrays" / "abc.npz")
    return results.record("abc"), results.failure("abc"), results.arrays("abc"), results.write_lines()


TARGETS = {
    "data": Target(data_seeds, read_data, alter_file),
    "parts": Target(part_seeds, read_part, alter_file),
    "pairs": Target(pair_seeds, read_pairs, alter_file),
    "models": Target(model_seeds, read_model, alter_model),
    "encoders": Target(encoder_seeds, read_encoder_model, alter_encoder),
    "checkpoints": Target(checkpoint_seeds, read_checkpoint, alter_checkpoint),
    "interviews": Target(project_seeds, read_interview, alter_file),
    "databases": Target(database_seeds, read_database, alter_database),
    "results": Target(result_seeds, read_results, alter_file),
    "uploads": Target(upload_seeds, read_upload, alter_file),
    # Needs a server; see postgresql.py.
    "servers": Target(statement_seeds, read_server, alter_statements),
}

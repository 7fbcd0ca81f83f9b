"""One part of a job: read its rows batch by batch, label them, write the output whole or not at all."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.encoders.table import parse_kinds
from spherepair.errors import InvalidDataError, InvalidParameterError, ModelFileError, SpherePairError
from spherepair.estimators import load
from spherepair.estimators.job import takes_raw_rows
from spherepair.estimators.trust import RowAssessment, label_rows
from spherepair.files.arrow_rows import as_table, stored_columns
from spherepair.files.data_sets import Needs, RowBatch, open_data_file, read_ahead
from spherepair.files.label_files import label_columns, open_writer
from spherepair.files.pictures import holds_bytes
from spherepair.files.places import OutputFolder
from spherepair.persistence import MODEL_FILE, WEIGHTS_FILE
from spherepair.scale.parts import COUNTS_KEY, INPUT_KEY, MODEL_KEY, Outcome, Part

#: Kinds of columns that are read as text, whatever the values look like.
TEXT_KINDS = ("category", "boolean", "date", "text", "image", "words")
PREDICT, TRANSFORM = "predict", "transform"


@dataclass(frozen=True)
class ModelFiles:
    """The files of a saved model as bytes, for machines that do not see its folder."""

    description: bytes  # holds the digest of the weights
    weights: bytes = field(compare=False, repr=False)

    @classmethod
    def read(cls, folder: Path) -> ModelFiles:
        """Read them."""
        return cls((folder / MODEL_FILE).read_bytes(), (folder / WEIGHTS_FILE).read_bytes())


@dataclass(frozen=True)
class Work:
    """What is done with every part.

    Attributes
    ----------
    folder : str
        Folder of the model.
    digest : str
        Of the model's description, which holds that of its weights.
    needs : Needs
    out : OutputFolder
    operation : {"predict", "transform"}
    embedding : bool
        Whether ``predict`` writes the embedding too.
    device : str
    false_alarms : float or None
        Share of ordinary rows that may be taken for unknown; ``None`` where unknown rows are not looked for.
    """

    folder: str
    digest: str
    needs: Needs
    out: OutputFolder
    operation: str = PREDICT
    embedding: bool = False
    device: str = "auto"
    false_alarms: float | None = None

    @property
    def fingerprint(self) -> str:
        """The model and what is asked of it."""
        told = f"{self.digest} {self.operation} {self.embedding} {self.needs.id_column} {self.false_alarms}"
        return hashlib.sha256(told.encode()).hexdigest()[:32]

    @property
    def has_novelty(self) -> bool:
        """Whether it is written how new each row is."""
        return self.false_alarms is not None and self.operation == PREDICT

    @property
    def has_embedding(self) -> bool:
        """Whether the embedding is written."""
        return self.embedding or self.operation == TRANSFORM

    def label(self, model: Any, X: Any) -> RowAssessment:
        """What the model says of rows."""
        return label_rows(model, X, novelty=self.has_novelty, embedding=self.has_embedding)


def model_digest(folder: str | Path) -> str:
    """Digest of a saved model."""
    file = Path(folder) / MODEL_FILE
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def model_needs(model: Any, id_column: str | None = None) -> Needs:
    """What a model reads of every file."""
    names = getattr(model, "feature_names_in_", None)
    if not takes_raw_rows(model):
        features = None if names is None else tuple(map(str, names))
        return Needs(features, model.n_features_in_, id_column)
    encoder = model.encoder_
    if not hasattr(encoder, "used_columns"):
        raise InvalidDataError(
            "this model takes texts or pictures without named columns; only models of numbers and of tables "
            "label data sets of many files. Label one file at a time with its predict."
        )
    return Needs(
        tuple(encoder.used_columns()),
        model.n_features_in_,
        id_column,
        mixed=True,
        text=tuple(name for kind in TEXT_KINDS for name in encoder.used_columns(kind)),
        pictures=tuple(encoder.used_columns("image")),
    )


def training_needs(estimator: Any) -> Needs:
    """What an estimator that is not fitted reads of every file: numbers, or what its encoder takes."""
    if not takes_raw_rows(estimator):
        return Needs()
    if not hasattr(estimator.encoder, "used_columns"):
        raise InvalidParameterError(
            "a fit on a data set takes a TableEncoder, which names the columns of texts and pictures; "
            f"got {type(estimator.encoder).__name__} instead."
        )
    kinds = parse_kinds(estimator.encoder.as_)
    return Needs(
        mixed=True,
        text=tuple(name for name, kind in kinds.items() if kind in TEXT_KINDS),
        pictures=tuple(name for name, kind in kinds.items() if kind == "image"),
    )


def checked_rate(model: Any, false_alarms: float | None) -> float | None:
    """A rate of false alarms, refused where it is none or the model cannot tell which rows are unknown."""
    if false_alarms is None:
        return None
    if not 0 < false_alarms < 1:
        raise InvalidParameterError(f"false_alarms must be between 0 and 1, got {false_alarms!r} instead.")
    model._novelty_scale()  # says if there is none
    return false_alarms


def do_part(work: Work, part: Part, files: ModelFiles | None = None) -> Outcome:
    """Read, label and write one part; what a user can mend comes back as a sentence that names the part."""
    try:
        return _write_part(work, part, _open_model(work.folder, work.digest, work.device, files))
    except (SpherePairError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        return Outcome(part, error=f"part {part.output} of {part.file} could not be done: {reason}.")


@lru_cache(maxsize=1)
def _open_model(folder: str, digest: str, device: str, files: ModelFiles | None) -> Any:
    """The model, loaded once in every process."""
    if files is None:
        if model_digest(folder) != digest:
            raise ModelFileError(f"{folder} was replaced while it was in use; run the command again.")
        return load(folder, device=device)
    with tempfile.TemporaryDirectory() as copied:
        (Path(copied) / MODEL_FILE).write_bytes(files.description)
        (Path(copied) / WEIGHTS_FILE).write_bytes(files.weights)
        return load(copied, device=device)


def _write_part(work: Work, part: Part, model: Any) -> Outcome:
    counts, n_rows, opened = np.zeros(model.n_clusters_, np.int64), 0, open_data_file(part.file)
    schema = output_schema(work, model, opened.check(work.needs))
    with (
        work.out.write(part.output) as stream,
        open_writer(stream, schema) as writer,
        closing(read_ahead(opened.batches(work.needs, part.groups))) as ahead,
    ):
        for batch in ahead:
            _refuse_missing_ids(work, batch)
            found = _label(work, model, batch)
            labels = found.known_labels(work.false_alarms)
            writer.write_table(output_table(work, schema, batch, found))
            counts += np.bincount(labels[labels >= 0], minlength=len(counts))
            n_rows += len(labels)
        if part.n_rows is not None and n_rows != part.n_rows:
            raise InvalidDataError(f"it has {n_rows} rows, but had {part.n_rows} when the job began")
        sizes = counts.tolist() if work.operation == PREDICT else []
        said = {MODEL_KEY: work.fingerprint, INPUT_KEY: part.fingerprint, COUNTS_KEY: str(sizes)}
        writer.add_key_value_metadata(said)
    return Outcome(part, n_rows, tuple(sizes))


def _refuse_missing_ids(work: Work, batch: RowBatch) -> None:
    if (row := batch.row_without_id()) is not None:
        raise InvalidDataError(f"row {row} has no ID in column {work.needs.id_column!r}; every row needs one")


def _label(work: Work, model: Any, batch: RowBatch) -> RowAssessment:
    try:
        return work.label(model, batch.X)
    except InvalidDataError as error:
        if batch.first == 0:
            raise
        raise InvalidDataError(f"counting from row {batch.first} of the file: {error}") from error


def output_schema(work: Work, model: Any, id_type: Any) -> Any:
    """Columns of an output: the ID or the row of the file, then what the model says."""
    import pyarrow as pa

    further: dict[str, Any] = {"confidence": pa.float32()}
    if work.has_novelty:
        further["novelty"] = pa.float32()
    if work.has_embedding:
        further["embedding"] = pa.list_(pa.float32(), model._embedding_dim)
    named = work.needs.id_column
    types = [pa.int64() if named is None else id_type, pa.int64(), *further.values()]
    fields = [pa.field(*field) for field in zip(label_columns(named, further), types, strict=True)]
    return pa.schema(fields if work.operation == PREDICT else [fields[0], fields[-1]])


def output_table(work: Work, schema: Any, batch: RowBatch, found: RowAssessment) -> Any:
    """The rows of an output."""
    import pyarrow as pa

    first = batch.first + np.arange(len(found.labels)) if batch.ids is None else batch.ids
    columns = [first]
    if work.operation == PREDICT:
        columns += [found.known_labels(work.false_alarms), found.confidence]
    if work.has_novelty:
        columns.append(found.novelty)
    if found.embedding is not None:
        flat = pa.array(found.embedding.reshape(-1))
        columns.append(pa.FixedSizeListArray.from_arrays(flat, found.embedding.shape[1]))
    return pa.table(columns, schema=schema)


class LabelBatches:
    """Labels of Arrow or pandas batches; see :func:`spherepair.scale.predict_fn`.

    It can be sent to other processes: the model is loaded where it is first used.
    """

    def __init__(
        self,
        folder: str,
        id_column: str | None,
        *,
        embedding: bool,
        false_alarms: float | None,
        device: str,
    ) -> None:
        self._folder, self._digest, self._device = str(folder), model_digest(folder), device
        self._work = Work(
            self._folder,
            self._digest,
            model_needs(self._model(), id_column),
            OutputFolder(""),
            embedding=embedding,
            device=device,
            false_alarms=checked_rate(self._model(), false_alarms),
        )

    def __call__(self, batches: Any) -> Any:
        """Label a pandas table, an Arrow table or batch, or each batch of a stream of them."""
        is_one = any(hasattr(batches, name) for name in ("iloc", "__array__", "num_rows"))
        if is_one or not isinstance(batches, Iterable):
            return self._label_batch(batches)
        return (self._label_batch(batch) for batch in batches if len(batch))

    def schema(self, id_type: Any = None) -> Any:
        """Arrow schema of what comes back, for an ID column of that type."""
        return output_schema(self._work, self._model(), id_type)

    def _label_batch(self, batch: Any) -> Any:
        import pyarrow as pa

        if hasattr(batch, "iloc"):  # pandas
            found = self._label(pa.Table.from_pandas(batch, preserve_index=False)).to_pandas()
            return found.set_index(batch.index)
        if isinstance(batch, pa.RecordBatch):
            found = self._label(as_table(batch)).combine_chunks()
            return [*found.to_batches(), pa.RecordBatch.from_pylist([], found.schema)][0]
        if isinstance(batch, pa.Table):
            return self._label(batch)
        raise InvalidDataError(
            f"a batch is a pandas table, an Arrow table or a record batch, not {type(batch).__name__}."
        )

    def _label(self, table: Any) -> Any:
        needs, names = self._work.needs, table.column_names
        wanted = names if needs.features is None else stored_columns(needs.features, names)
        wanted = [name for name in wanted if name != needs.id_column]
        if missing := [name for name in (*wanted, needs.id_column) if name and name not in names]:
            raise InvalidDataError(f"the batch has no column {missing[0]!r}.")
        ids = None if needs.id_column is None else table[needs.id_column]
        if not len(table):  # Spark and Dask hand out empty partitions
            return self.schema(_type_of(ids)).empty_table()
        if named := [name for name in needs.pictures if not holds_bytes(table[name].type)]:
            raise InvalidDataError(
                f"a batch has no folder in which to look up the names of column {named[0]!r}; give the "
                "contents of the pictures."
            )
        batch, schema = RowBatch(table.select(wanted), ids, 0), self.schema(_type_of(ids))
        return output_table(self._work, schema, batch, self._work.label(self._model(), batch.X))

    def _model(self) -> Any:
        return _open_model(self._folder, self._digest, self._device, None)


def _type_of(ids: Any) -> Any:
    """Type of IDs; no rows of pandas have none where they would be texts."""
    import pyarrow as pa

    if ids is None:
        return None
    return pa.string() if pa.types.is_null(ids.type) and not len(ids) else ids.type

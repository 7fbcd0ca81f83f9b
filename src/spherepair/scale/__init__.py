"""Past one machine: data sets larger than memory, labeled in parts by processes or by a Ray cluster.

A part is a file of the data set, or some row groups of a large one, and becomes one file of labels, which is
there whole or not at all. A job that was killed goes on where it was: run it again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError, InvalidParameterError, PartError
from spherepair.estimators import load
from spherepair.estimators.spherepair import SpherePair
from spherepair.files import TEMPORARY_NAME, file_lock
from spherepair.files.arrow_rows import stored
from spherepair.files.places import OutputFolder, list_sources
from spherepair.persistence import refuse_foreign_folder
from spherepair.scale.engines import ENGINES, Task, check_engine
from spherepair.scale.labeling import (
    PREDICT,
    TRANSFORM,
    LabelBatches,
    ModelFiles,
    Work,
    checked_rate,
    do_part,
    model_digest,
    model_needs,
    training_needs,
)
from spherepair.scale.parts import (
    PART_ROWS,
    Estimate,
    Part,
    Progress,
    Summary,
    check_out,
    find_done,
    plan_parts,
)
from spherepair.scale.row_samples import SAMPLE_ROWS, choose_sample, draw_sample, fit_sample
from spherepair.training.hardware import choose_hardware

__all__ = ["Estimate", "Progress", "Summary", "estimate", "fit", "predict", "predict_fn", "transform"]

_LOCK = ".lock"
_logger = logging.getLogger(__name__)


def predict(
    source: Any,
    *,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    engine: str = "local",
    id_column: str | None = None,
    embedding: bool = False,
    false_alarms: float | None = None,
    workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    part_rows: int = PART_ROWS,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Label a data set of any size with a saved model.

    Parameters
    ----------
    source : path, URI, glob, folder, or a sequence of these
        Files of rows: parquet, csv or .npy, also at ``s3://`` and the like. A record batch reader or DuckDB
        relation is copied to a temporary file of this machine first, and labeled anew each time.
    model : path
        Folder of a saved model.
    out : path or URI
        Folder for the labels: for every part a parquet file with the columns ``row`` (its position in the
        file) or the ID, ``label`` and its calibrated ``confidence``, in the order of the rows.
    engine : {"local", "ray"}, default="local"
    id_column : str, optional
        Column with the ID of each row, which the output carries.
    embedding : bool, default=False
        Whether to write the embedding too.
    false_alarms : float, optional
        Share of ordinary rows that may be taken for unknown, such as 0.01. Where given, rows that belong to
        no cluster have the label -1, and a column ``novelty`` says how new each row is.
    workers : int, optional
        Processes of the engine "local", or of a Ray that is started on this machine; by default one for each
        core.
    address : str, optional
        Address of a Ray cluster, such as "auto"; by default that of the variable ``RAY_ADDRESS``. Without
        either Ray is started on this machine.
    device : str, default="auto"
    part_rows : int, default=1_000_000
        Larger parquet files are divided at their row groups.
    progress : callable, optional
        Called with a :class:`Progress` after every part.

    Returns
    -------
    Summary

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints, SpherePair, scale
    >>> X, y = make_blobs(150, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    >>> model = SpherePair(3, max_epochs=5, random_state=0).fit(table, constraints=pairs)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model", rows=False)
    ...     for part in range(3):
    ...         pq.write_table(table.slice(50 * part, 50), f"{folder}/rows-{part}.parquet")
    ...     done = scale.predict(
    ...         f"{folder}/rows-*.parquet", model=f"{folder}/model", out=f"{folder}/labels", workers=1
    ...     )
    ...     labels = pq.read_table(f"{folder}/labels")["label"].to_numpy()
    >>> done.n_parts, done.n_rows, bool((labels == model.labels_).all())
    (3, 150, True)
    """
    work = _work(
        model, out, id_column, PREDICT, embedding=embedding, device=device, false_alarms=false_alarms
    )
    return _run(work, source, engine, workers, address, part_rows=part_rows, progress=progress)


def transform(
    source: Any,
    *,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    engine: str = "local",
    id_column: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    part_rows: int = PART_ROWS,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Embed a data set of any size with a saved model; takes the arguments of :func:`predict`.

    The output has the columns ``row`` or the ID, and ``embedding``, a vector.
    """
    work = _work(model, out, id_column, TRANSFORM, embedding=True, device=device)
    return _run(work, source, engine, workers, address, part_rows=part_rows, progress=progress)


def estimate(
    source: Any,
    *,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    id_column: str | None = None,
    embedding: bool = False,
    false_alarms: float | None = None,
    part_rows: int = PART_ROWS,
) -> Estimate:
    """What :func:`predict` would have to do; nothing is written.

    Parameters
    ----------
    source, model, out, id_column, embedding, false_alarms, part_rows
        As in :func:`predict`, but no stream: to count its rows would use it up.
    """
    work = _work(model, out, id_column, PREDICT, embedding=embedding, false_alarms=false_alarms)
    parts = _planned(work, source, part_rows)
    done = find_done(parts, work.out, work.fingerprint)
    known = [part.n_rows for part in parts if part.n_rows is not None]
    n_rows = sum(known) if len(known) == len(parts) else None
    return Estimate(len(parts), len(done), n_rows, sum(part.n_bytes for part in parts))


def fit(
    source: Any,
    constraints: Constraints | str | os.PathLike[str] | None = None,
    *,
    model: str | os.PathLike[str],
    estimator: Any = None,
    id_column: str | None = None,
    drop: str | Sequence[str] = (),
    sample_rows: int | str = SAMPLE_ROWS,
    keep: str = "none",
    out: str | os.PathLike[str] | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    progress: Callable[[Progress], None] | None = None,
) -> Any:
    """Fit a model on a data set of any size, save it without rows, and label the data set if asked for.

    It is trained on the rows in pairs and on others drawn at random, which are all that is held in memory.

    Parameters
    ----------
    source : path, URI, glob, folder, or a sequence of these
        As in :func:`predict`.
    constraints : Constraints or path, optional
        Pairs of positions in the data set, counted through all files; or a file of pairs, which names rows by
        ID if there is an ID column.
    model : path
        Folder for the model.
    estimator : estimator, optional
        The method with its parameters, not fitted; by default ``SpherePair()``.
    id_column : str, optional
    drop : str or sequence of str
        Columns that are no features.
    sample_rows : int or "auto", default=1_000_000
        Rows drawn at random. With "auto" as many as help: they grow until pairs that are held out are
        satisfied no better; the choice is logged.
    keep : {"none", "labels", "all"}, default="none"
        What is written to ``out`` for all rows: nothing, labels, or labels and embedding.
    out : path or URI, optional
        Folder for the labels.
    engine, workers, address, device, progress
        Of :func:`predict`, which labels the rows.

    Returns
    -------
    fitted estimator
        Its ``labels_`` and ``embedding_`` are those of the sample.
    """
    if keep not in ("none", "labels", "all") or (keep == "none") != (out is None):
        raise InvalidParameterError(
            f"keep must be 'none', or 'labels' or 'all' with a folder out for them, got keep={keep!r} and "
            f"out={out!r} instead."
        )
    pairs = constraints if constraints is None or isinstance(constraints, Constraints) else Path(constraints)
    n_sample = SAMPLE_ROWS if sample_rows == "auto" else sample_rows
    if not isinstance(n_sample, int | np.integer) or n_sample < 2:
        raise InvalidParameterError(
            f"sample_rows must be a whole number of at least 2 or 'auto', got {sample_rows!r} instead."
        )
    refuse_foreign_folder(Path(model))
    if engine == "local":  # workers elsewhere may have a GPU that this machine lacks
        choose_hardware(device)
    if out is not None and os.path.abspath(os.fspath(out)) == os.path.abspath(os.fspath(model)):
        raise InvalidParameterError(f"out and model are both {model}; choose two folders.")
    fresh = SpherePair() if estimator is None else clone(estimator)
    dropped = (drop,) if isinstance(drop, str) else tuple(drop)
    needs = replace(training_needs(fresh), id_column=id_column, drop=dropped)
    with stored(source) as found:
        files = list_sources(found)
        if out is not None:
            check_labels(files, out, engine, address)
        sample = draw_sample(files, pairs, needs=needs, n_sample=int(n_sample))
        if sample_rows == "auto":
            chosen = choose_sample(fresh, sample)
            _logger.info(chosen.sentence())
            sample = chosen.sample
        fitted = fit_sample(fresh, sample)
        fitted.save(model, rows=False)
        if out is not None:
            how: dict[str, Any] = {"engine": engine, "workers": workers, "address": address, "device": device}
            how |= {"id_column": id_column, "embedding": keep == "all", "progress": progress}
            predict(files, model=model, out=out, **how)
    return fitted


def check_labels(source: Any, out: str | os.PathLike[str], engine: str, address: str | None) -> None:
    """Refuse before a fit what would stop :func:`predict` after it."""
    check_engine(engine, address)
    check_out(source, OutputFolder(os.fspath(out)))
    if there := sorted(OutputFolder(os.fspath(out)).names()):
        raise InvalidParameterError(
            f"{out} holds {there[0]}; choose an empty or new folder. Where a fit was interrupted while it "
            "wrote labels, its model is saved: go on with spherepair predict."
        )


def predict_fn(
    model: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    embedding: bool = False,
    false_alarms: float | None = None,
    device: str = "auto",
) -> LabelBatches:
    """A saved model as a function of batches, for Spark, Dask, DuckDB and whatever else hands out batches.

    It takes a pandas table, an Arrow table or record batch, or an iterator of these, and gives back the same
    kind with the columns of :func:`predict`; a pandas table keeps its index. It can be pickled; the model is
    loaded where it is first used.

    Parameters
    ----------
    model, id_column, embedding, false_alarms, device
        As in :func:`predict`.
    """
    return LabelBatches(
        os.fspath(model), id_column, embedding=embedding, false_alarms=false_alarms, device=device
    )


def _work(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    id_column: str | None,
    operation: str,
    *,
    embedding: bool,
    device: str = "auto",
    false_alarms: float | None = None,
) -> Work:
    folder = os.path.abspath(os.fspath(model))
    fitted = load(folder, device="cpu")
    needs, rate = model_needs(fitted, id_column), checked_rate(fitted, false_alarms)
    target = OutputFolder(os.fspath(out))
    return Work(folder, model_digest(folder), needs, target, operation, embedding, device, rate)


def _run(
    work: Work,
    source: Any,
    engine: str,
    workers: int | None,
    address: str | None,
    *,
    part_rows: int,
    progress: Callable[[Progress], None] | None,
) -> Summary:
    check_engine(engine, address)
    started = time.monotonic()
    with ExitStack() as stack:
        parts = _planned(work, stack.enter_context(stored(source)), part_rows)
        if all(part.n_rows == 0 for part in parts):
            raise InvalidDataError("the data set has no rows; there is nothing to label.")
        if work.out.folder is not None:
            _claim(stack, work.out.folder)
        kept = find_done(parts, work.out, work.fingerprint)
        if work.out.folder is not None:
            _remove_leftovers(work.out.folder, parts)
            stack.callback(_remove_leftovers, work.out.folder, parts)
        found, n_rows = list(kept.values()), 0
        left = [part for part in parts if part.output not in kept]
        share = partial(ModelFiles.read, Path(work.folder))
        task = Task(partial(do_part, work), attrgetter("output"), share, work.device)
        for outcome in ENGINES[engine](task, left, workers, address) if left else ():
            if outcome.error is not None:
                raise PartError(outcome.error)
            found.append(outcome)
            n_rows += outcome.n_rows
            if progress is not None:
                so_far = (len(parts), len(found), len(kept), n_rows)
                progress(Progress(*so_far, time.monotonic() - started))
    seconds = time.monotonic() - started
    return Summary(
        out=work.out.source,
        n_parts=len(found),
        n_kept=len(kept),
        n_rows=sum(outcome.n_rows for outcome in found),
        cluster_sizes=np.array([outcome.counts for outcome in found], np.int64).sum(axis=0).tolist(),
        seconds=seconds,
        rows_per_second=n_rows / max(seconds, 1e-9),
    )


def _planned(work: Work, source: Any, part_rows: int) -> list[Part]:
    sources = list_sources(source)
    check_out(sources, work.out)
    return plan_parts(sources, work.needs, part_rows=part_rows)


def _claim(stack: ExitStack, folder: Path) -> None:
    """Lock the folder for this job; a new one in which nothing is written is removed again."""
    if not folder.exists():
        stack.callback(_remove_empty, folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not stack.enter_context(file_lock(folder / _LOCK)):
        raise InvalidParameterError(f"another job is writing to {folder}; wait, or choose another folder.")


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # of a folder with labels
        folder.rmdir()


def _remove_leftovers(folder: Path, parts: Sequence[Part]) -> None:
    """Remove what killed processes, of this machine or others, left of the outputs of this job."""
    outputs = {folder / part.output for part in parts}
    for place in {output.parent for output in outputs}:
        for found in place.glob(".*.tmp"):
            target = TEMPORARY_NAME.fullmatch(found.name)
            if target is not None and place / target[1] in outputs:
                found.unlink(missing_ok=True)

"""``spherepair fit``: a table of features and a file of pairs become a model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from spherepair.cli import fit_options as options
from spherepair.cli.options import (
    DataArgument,
    DeviceOption,
    DropOption,
    IdOption,
    JsonOption,
    OnConflict,
    Preset,
    QuietOption,
    SeedOption,
)
from spherepair.cli.outputs import (
    check_checkpoint_folder,
    check_label_file,
    check_model_folder,
    refuse_within,
    write_labels,
)
from spherepair.cli.reporting import INTERRUPTED, Report, reporting
from spherepair.cli.tables import Table, read_table
from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.estimators.spherepair import SpherePair
from spherepair.persistence import MODEL_FILE
from spherepair.training.checkpoint import CHECKPOINT_FILE

NAME = "fit"
EXAMPLE = "Example: spherepair fit rows.csv --constraints pairs.csv --id id --out model/"


def command(
    data: DataArgument,
    *,
    constraints: options.ConstraintsOption,
    out: options.ModelOption,
    clusters: options.ClustersOption = "auto",
    id_column: IdOption = None,
    drop: DropOption = None,
    labels_out: options.LabelsOption = None,
    on_conflict: options.ConflictOption = OnConflict.RAISE,
    seed: SeedOption = 0,
    checkpoint: options.CheckpointOption = None,
    preset: options.PresetOption = Preset.DEFAULT,
    embedding_dim: options.DimensionOption = "auto",
    hidden_dims: options.HiddenOption = None,
    max_epochs: options.EpochsOption = None,
    clustering: options.ClusteringOption = None,
    pretraining: options.PretrainingOption = None,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Learn clusters from rows and pairs, and save the model."""
    model = options.build_model(
        clusters,
        preset,
        embedding_dim=embedding_dim,
        hidden_dims=hidden_dims,
        pretraining=pretraining,
        max_epochs=max_epochs,
        clustering=None if clustering is None else clustering.value,
        on_conflict=on_conflict.value,
        checkpoint=checkpoint,
        device=device,
        random_state=seed,
    )
    with reporting(NAME, as_json=as_json, quiet=quiet, interrupted=_after_interruption(checkpoint)) as report:
        check_model_folder(out)
        if (out / MODEL_FILE).exists():
            report.note(f"{out} holds a model, which the new one will replace")
        if checkpoint is not None:
            check_checkpoint_folder(checkpoint, out)
        if labels_out is not None:
            check_label_file(labels_out, [data, constraints])
            refuse_within(labels_out, out, option="--labels-out")
        table, pairs = read_inputs(data, constraints, id_column=id_column, drop=drop or (), report=report)
        if on_conflict is OnConflict.RAISE and (conflicts := pairs.conflicts()):
            raise conflicts.to_error(None if table.ids is None else table.ids.to_pylist())
        if checkpoint is not None and (checkpoint / CHECKPOINT_FILE).exists():
            report.note(f"going on from {checkpoint}")
        seconds = fit_model(model, table, pairs=pairs, report=report)
        model.save(out)
        report.wrote(out)
        if labels_out is not None:
            write_labels(labels_out, model.labels_, ids=table.ids, id_name=table.id_name)
        written = {"model": str(out), "labels": None if labels_out is None else str(labels_out)}
        fields = {**written, **outcome(model, pairs), "seed": seed, "seconds": round(seconds, 3)}
        report.finish(fields, [*describe(model, pairs, seconds=seconds), f"model       {out}"])


def read_inputs(
    data: Path, constraints: Path, *, id_column: str | None, drop: Sequence[str], report: Report
) -> tuple[Table, Constraints]:
    """The rows, and the pairs on them."""
    with report.working(f"reading {data} and {constraints}"):
        table = read_table(data, id_column=id_column, drop=drop)
        if table.n_rows == 0:
            raise InvalidDataError(f"{data} has no rows.")
        pairs = Constraints.read(constraints, ids=table.ids, n_rows=table.n_rows)
    report.note(f"{table.n_rows:,} rows of {table.n_features:,} features, {len(pairs):,} pairs")
    return table, pairs


def fit_model(model: SpherePair, table: Table, *, pairs: Constraints, report: Report) -> float:
    """Fit with a progress bar and say how many seconds it took."""
    with training(model, report) as seconds:
        model.fit(table.X, constraints=pairs)
    return seconds()


@contextmanager
def training(model: SpherePair, report: Report) -> Iterator[Callable[[], float]]:
    """A progress bar for what the model is trained with within, and how many seconds it has taken."""
    started = time.monotonic()
    with report.bar("starting") as bar:
        model.set_params(progress=bar.follow)
        try:
            yield lambda: time.monotonic() - started
        finally:
            model.set_params(progress="auto")  # the bar is gone, and no part of a saved model


def outcome(model: SpherePair, pairs: Constraints) -> dict[str, Any]:
    """What a fit found, for JSON."""
    number = model.cluster_number_
    return {
        "n_rows": len(model.labels_),
        "n_features": model.n_features_in_,
        "n_pairs": len(pairs),
        "n_duplicates": pairs.n_duplicates,
        "n_dropped": len(pairs) - len(model.constraints_),
        "n_clusters": model.n_clusters_,
        "cluster_sizes": np.bincount(model.labels_, minlength=model.n_clusters_).tolist(),
        "cluster_number": None if number is None else number.to_dict(),
        "pairs_kept": model.score_pairs(pairs) if len(pairs) else None,
        "epochs": dict(Counter(record["stage"] for record in model.history_)),
    }


def describe(model: SpherePair, pairs: Constraints, *, seconds: float) -> list[str]:
    """What a fit found, for people."""
    number = model.cluster_number_
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_).tolist()
    found = f"{model.n_clusters_} clusters, as asked." if number is None else number.explanation
    lines = [found, f"rows        {', '.join(map(str, sizes))} in the clusters 0 to {len(sizes) - 1}"]
    if len(pairs):
        dropped = len(pairs) - len(model.constraints_)
        left_out = f"; {dropped} contradictory ones were left out" if dropped else ""
        lines.append(f"pairs kept  {100 * model.score_pairs(pairs):.1f} % of {len(pairs):,}{left_out}")
    return [*lines, f"time        {seconds:.1f} s"]


def _after_interruption(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return f"{INTERRUPTED} With --checkpoint DIR the next fit goes on from where this one stopped."
    return f"interrupted; run the same command again to go on from {checkpoint}."

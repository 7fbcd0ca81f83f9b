"""``spherepair fit`` and ``refine``: make a model from files, and improve it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spherepair.cli import options
from spherepair.cli.options import (
    OnConflict,
    Preset,
    Pretraining,
    check_checkpoint_folder,
    check_label_file,
    check_model_folder,
    count_or_auto,
    layer_sizes,
    refuse_within,
)
from spherepair.cli.predict_command import carried_by, check_labels_out, label_data_set
from spherepair.cli.raw_rows import (
    ColumnChoice,
    SampleInputs,
    encode,
    is_large,
    joined_tables,
    read_raw,
    read_rows_for,
    read_sample,
    trust_weights,
)
from spherepair.cli.terminal import NOTHING_WRITTEN, Terminal, command_terminal
from spherepair.constraints import Constraints
from spherepair.encoders import TableEncoder
from spherepair.errors import (
    ConflictError,
    InvalidConstraintsError,
    InvalidDataError,
    quoted,
)
from spherepair.estimators import load
from spherepair.estimators.job import attach_encoder, detach_encoder, joined_labels, training_table
from spherepair.estimators.spherepair import SpherePair
from spherepair.files.data_tables import Table, column_names
from spherepair.files.label_files import write_labels
from spherepair.files.places import Source
from spherepair.metrics import pair_satisfaction
from spherepair.persistence import MODEL_FILE
from spherepair.scale.row_samples import SAMPLE_ROWS, Sample, fit_sample
from spherepair.training.session import CHECKPOINT_FILE

RefinedOption = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="MODEL", help="Folder for the new model; may be the old one's."),
]
NewRowsOption = Annotated[
    str | None,
    typer.Option("--new", metavar="DATA", help="New rows, which join the model after those of DATA."),
]


def fit(
    data: options.ManyArgument,
    *,
    constraints: options.OptionalPairsOption = None,
    out: options.ModelOption,
    clusters: options.ClustersOption = "auto",
    id_column: options.IdOption = None,
    text: options.TextOption = None,
    images: options.ImagesOption = None,
    as_: options.AsOption = None,
    drop: options.DropOption = None,
    keep_empty: options.KeepEmptyOption = False,
    labels_out: options.LabelsOption = None,
    escape: options.EscapeOption = False,
    sample_rows: options.SampleOption = None,
    engine: options.EngineOption = None,
    address: options.AddressOption = None,
    workers: options.WorkersOption = None,
    on_conflict: options.ConflictOption = OnConflict.WEIGH,
    seed: options.SeedOption = 0,
    checkpoint: options.CheckpointOption = None,
    preset: options.PresetOption = Preset.DEFAULT,
    embedding_dim: options.DimensionOption = "auto",
    hidden_dims: options.HiddenOption = None,
    max_epochs: options.EpochsOption = None,
    wrong_answers: options.WrongAnswersOption = None,
    clustering: options.ClusteringOption = None,
    pretraining: options.PretrainingOption = None,
    device: options.DeviceOption = "auto",
    quiet: options.QuietOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Learn clusters from rows and pairs and save the model."""
    interrupted = _after_interruption(checkpoint)
    with command_terminal("fit", as_json=as_json, quiet=quiet, interrupted=interrupted) as terminal:
        model = build_model(
            clusters,
            preset,
            embedding_dim=embedding_dim,
            hidden_dims=hidden_dims,
            pretraining=pretraining,
            max_epochs=max_epochs,
            wrong_answers=wrong_answers,
            clustering=None if clustering is None else clustering.value,
            device=device,
            random_state=seed,
        )
        check_model_folder(out)
        if (out / MODEL_FILE).exists():
            terminal.note(f"the model in {out} will be replaced")
        if checkpoint is not None:
            check_checkpoint_folder(checkpoint, out)
        choice = ColumnChoice.of(text=text, images=images, as_=as_, drop=drop, keep_empty=keep_empty)
        source = data if len(data) > 1 else data[0]
        is_sampled = sample_rows is not None or is_large(source)
        carried = {"--engine": engine, "--workers": workers, "--address": address}
        check_labels_out(labels_out, is_sampled, carried, [*data, constraints], out)
        how: dict[str, Any] = {"on_conflict": on_conflict, "checkpoint": checkpoint, "terminal": terminal}
        if is_sampled:
            size = count_or_auto(sample_rows or str(SAMPLE_ROWS), "--sample-rows")
            inputs = SampleInputs(source, constraints, choice, id_column, seed)
            sample, raw, encoder = read_sample(inputs, size, model, terminal)
            took = _train(model, sample, encoder, raw, **how)
            model.save(out, rows=False)
            terminal.wrote(out)
            if labels_out is not None:
                asked = {"model": out, "out": labels_out, "id_column": id_column, "device": device}
                label_data_set(source, terminal, **asked, **carried_by(engine, workers, address))
        else:
            table, pairs, encoder = read_inputs(
                data[0], constraints, id_column=id_column, choice=choice, terminal=terminal
            )
            sample = Sample(table.X, None, pairs, table.n_rows, table.ids)
            took = _train(model, sample, encoder, table.raw, **how)
            save_outputs(model, out, labels_out, table=table, escape=escape, terminal=terminal)
        written = {"model": str(out), "labels": None if labels_out is None else str(labels_out)}
        found = {"n_rows_in_data": sample.n_rows, **result_fields(model, sample.pairs)}
        fields = {**written, **found, "seed": seed, "seconds": round(took, 3)}
        said = f"model       {out}{', without rows' if is_sampled else ''}"
        lines = [*result_lines(model, sample.pairs, seconds=took), said]
        terminal.print_result(fields, lines)


def _train(
    model: SpherePair,
    sample: Sample,
    encoder: TableEncoder | None,
    raw: Any,
    *,
    on_conflict: OnConflict,
    checkpoint: Path | None,
    terminal: Terminal,
) -> float:
    """Fit the model on encoded rows, give it its encoder, and return the seconds."""
    if on_conflict is OnConflict.RAISE and (conflicts := sample.pairs.conflicts()):
        raise conflicts.to_error(None if sample.ids is None else sample.ids.to_pylist())
    if checkpoint is not None and (checkpoint / CHECKPOINT_FILE).exists():
        terminal.note(f"continuing from {checkpoint}")
    trust_weights(model, encoder)
    with training_progress(model, terminal) as seconds:
        fit_sample(model, sample, on_conflict=on_conflict.value, checkpoint=checkpoint)
    took = seconds()
    attach_encoder(model, encoder)
    if encoder is not None:
        model.name_groups(X=raw)
    return took


def refine(
    model: options.ModelArgument,
    data: options.DataArgument,
    *,
    constraints: options.ConstraintsOption,
    out: RefinedOption,
    new_rows: NewRowsOption = None,
    id_column: options.IdOption = None,
    drop: options.DropOption = None,
    labels_out: options.LabelsOption = None,
    escape: options.EscapeOption = False,
    on_conflict: options.ConflictOption = OnConflict.WEIGH,
    device: options.DeviceOption = "auto",
    quiet: options.QuietOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Continue training a saved model with more pairs; much faster than a new fit.

    DATA must hold the rows of the fit in the same order; new ones may follow, or come from a file of their
    own (--new). The model remembers its earlier pairs, so PAIRS needs only the new ones.
    """
    with command_terminal("refine", as_json=as_json, quiet=quiet) as terminal:
        check_model_folder(out)
        if labels_out is not None:
            check_label_file(labels_out, [data, new_rows, constraints])
            for folder in (out, model):
                refuse_within(labels_out, folder, option="--labels-out")
        with terminal.spinner(f"reading {data} and {constraints}"):
            fitted = load(model, device=device)
            table = read_rows_for(fitted, data, id_column=id_column, drop=drop or ())
            if id_column is None:
                _warn_about_unused_columns(data, table, terminal)
            if new_rows is not None:
                further = read_rows_for(fitted, new_rows, id_column=id_column, drop=drop or ())
                table = joined_tables(table, further, n_known=len(fitted.labels_), data=data)
            rows = training_table(fitted, table.X)  # refuses other rows before pairs are looked up in them
            encoder = detach_encoder(fitted)
            given = Constraints.read(constraints, ids=table.ids, n_rows=table.n_rows)
        known = fitted.constraints_
        new, all_pairs = _new_pairs(known, given, path=constraints), known | given
        terminal.note(f"{table.n_rows:,} rows, {len(known):,} known pairs, {len(new):,} new pairs")
        if on_conflict is OnConflict.RAISE:
            _refuse_conflicts(known, given, path=constraints, ids=table.ids)
        before = pair_satisfaction(joined_labels(fitted, rows), new).total
        with training_progress(fitted, terminal) as seconds:
            fitted.refine(given, table.X if encoder is None else rows, on_conflict=on_conflict.value)
        took = seconds()
        attach_encoder(fitted, encoder)
        save_outputs(fitted, out, labels_out, table=table, escape=escape, terminal=terminal)
        after = fitted.score_pairs(new)
        fields = {
            "model": str(out),
            "labels": None if labels_out is None else str(labels_out),
            **result_fields(fitted, all_pairs),
            "n_new_pairs": len(new),
            "new_pairs_kept_before": before,
            "new_pairs_kept": after,
            "seconds": round(took, 3),
        }
        lines = result_lines(fitted, all_pairs, seconds=took)
        change = f"{100 * before:.1f} % before, {100 * after:.1f} % now"
        lines.insert(-1, f"new pairs   {len(new):,}, of which satisfied: {change}")
        terminal.print_result(fields, [*lines, f"model       {out}"])


def build_model(
    clusters: str,
    preset: Preset,
    *,
    embedding_dim: str,
    hidden_dims: str | None,
    pretraining: Pretraining | None,
    wrong_answers: str | None = None,
    **settings: Any,
) -> SpherePair:
    """The estimator for the options of ``fit``; the preset decides what is not given."""
    settings["embedding_dim"] = count_or_auto(embedding_dim, "--embedding-dim")
    settings["hidden_dims"] = None if hidden_dims is None else layer_sizes(hidden_dims)
    given = {name: value for name, value in settings.items() if value is not None}
    if pretraining is not None:
        given["pretraining"] = None if pretraining is Pretraining.NONE else pretraining.value
    if wrong_answers is not None:
        given["wrong_answers"] = options.share_or_auto(wrong_answers)
    make = SpherePair.paper if preset is Preset.PAPER else SpherePair
    return make(count_or_auto(clusters, "--clusters"), **given)


def read_inputs(
    data: Source,
    constraints: Path | None,
    *,
    id_column: str | None,
    choice: ColumnChoice,
    terminal: Terminal,
) -> tuple[Table, Constraints, TableEncoder | None]:
    """Read the rows and the pairs of a fit; no file of pairs is no pairs."""
    with terminal.spinner(f"reading {data}" if constraints is None else f"reading {data} and {constraints}"):
        table, encoder = read_raw(data, choice, id_column=id_column)
        if table.n_rows == 0:
            raise InvalidDataError(f"{data} has no rows.")
        pairs = (
            Constraints.from_pairs()
            if constraints is None
            else Constraints.read(constraints, ids=table.ids, n_rows=table.n_rows)
        )
    if encoder is not None:
        table = encode(table, encoder, terminal)
    terminal.note(f"{table.n_rows:,} rows, {table.n_features:,} features, {len(pairs):,} pairs")
    return table, pairs, encoder


@contextmanager
def training_progress(model: SpherePair, terminal: Terminal) -> Iterator[Callable[[], float]]:
    """Show a progress bar while the model trains; yields a function that returns the seconds so far."""
    started = time.monotonic()
    with terminal.progress_bar("starting") as bar:
        model.set_params(progress=bar.follow)
        try:
            yield lambda: time.monotonic() - started
        finally:
            model.set_params(progress="auto")  # the bar must not be saved with the model


def save_outputs(
    model: SpherePair, out: Path, labels_out: Path | None, *, table: Table, escape: bool, terminal: Terminal
) -> None:
    """Save the model, and the labels of its rows if asked for."""
    model.save(out)
    terminal.wrote(out)
    if labels_out is not None:
        write_labels(labels_out, model.labels_, ids=table.ids, id_name=table.id_name, escape=escape)


def result_fields(model: SpherePair, pairs: Constraints) -> dict[str, Any]:
    """The result of a fit for JSON."""
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
        "wrong_answers": None if (wrong := model.wrong_answers_) is None else wrong.to_dict(),
        "epochs": dict(Counter(record["stage"] for record in model.history_)),
    }


def result_lines(model: SpherePair, pairs: Constraints, *, seconds: float) -> list[str]:
    """The result of a fit for people."""
    number = model.cluster_number_
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_).tolist()
    found = f"{model.n_clusters_}, as requested" if number is None else number.explanation
    lines = [
        f"clusters    {found}",
        f"sizes       {', '.join(map(str, sizes))} rows in clusters 0 to {len(sizes) - 1}",
    ]
    if len(pairs):
        dropped = len(pairs) - len(model.constraints_)
        remark = f"; {dropped} contradictory pair{'s' * (dropped > 1)} dropped" if dropped else ""
        lines.append(f"satisfied   {100 * model.score_pairs(pairs):.1f} % of {len(pairs):,} pairs{remark}")
    said = [f"answers     {wrong}"] if (wrong := model.wrong_answers_) and wrong.n_suspects else []
    return [*lines, *said, f"time        {seconds:.1f} s"]


def _warn_about_unused_columns(data: Source, table: Table, terminal: Terminal) -> None:
    """Warn that pairs are read as positions if the file has a column that may hold IDs."""
    unused = [] if table.names is None else sorted(set(column_names(data)) - set(table.names))
    if unused:
        terminal.warn(
            f"pairs are read as row positions; if they refer to the column {quoted(unused[0])}, give "
            f"--id {unused[0]}."
        )


def _new_pairs(known: Constraints, given: Constraints, *, path: Path) -> Constraints:
    if len(given) == 0:
        raise InvalidConstraintsError(f"{path} has no pairs; refining needs new ones.")
    if len(new := given - known) == 0:
        raise InvalidConstraintsError(
            f"the model already knows all pairs of {path}; refining needs new ones."
        )
    return new


def _refuse_conflicts(known: Constraints, given: Constraints, *, path: Path, ids: Any) -> None:
    """Raise if the new pairs contradict each other or those of the model."""
    unnumbered = np.full(len(known), -1)  # row numbers in the message are those of the new file
    earlier = Constraints.from_arrays(
        known.left, known.right, known.is_must_link, weight=known.weight, source_row=unnumbered
    )
    conflicts = (earlier | given).conflicts()
    if conflicts:
        error = conflicts.to_error(None if ids is None else ids.to_pylist())
        where = (
            f"Row numbers refer to {path}; pairs without one are the model's own, which only a new fit "
            "without them can remove."
        )
        raise ConflictError(f"{error} {where}", conflicts=conflicts)


def _after_interruption(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return f"{NOTHING_WRITTEN} With --checkpoint DIR an interrupted fit can be continued."
    return f"interrupted; run the same command again to continue from {checkpoint}."

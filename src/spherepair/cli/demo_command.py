"""``spherepair demo``: the whole workflow on the images of digits that come with scikit-learn."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from spherepair.cli.model_commands import read_inputs, result_fields, result_lines, training_progress
from spherepair.cli.options import JsonOption, QuietOption, SeedOption, layer_sizes
from spherepair.cli.raw_rows import ColumnChoice, read_rows_for
from spherepair.cli.terminal import Terminal, command_terminal
from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError
from spherepair.estimators.spherepair import SpherePair
from spherepair.files import atomic_write_text
from spherepair.files.columns import write_columns
from spherepair.files.label_files import write_labels
from spherepair.metrics import clustering_accuracy
from spherepair.plots import plot_cluster_number, plot_embedding, save_figure
from spherepair.plots.style import new_figure
from spherepair.report import ReportOptions, write_report

HIDDEN_DIMS, QUICK_HIDDEN_DIMS = "auto", "64,64"
N_PAIRS = 1000
ID_COLUMN = "id"
IMAGE_SIZE = "8x8"


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "demo-output"
    ),
    seed: SeedOption = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use a tiny network: takes seconds, less accurate.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Try the whole workflow on images of digits; takes a minute or two."""
    with command_terminal("demo", as_json=as_json, quiet=quiet) as terminal:
        files = DemoFiles.under(out)
        truth = write_inputs(files, seed)
        terminal.note(
            f"{len(truth.seen):,} images of digits, with {N_PAIRS:,} random pairs marked 'same digit' or "
            f"'different digit'; {len(truth.held_out)} more images are held out. The number of digits is "
            "not given."
        )
        hidden_dims = QUICK_HIDDEN_DIMS if quick else HIDDEN_DIMS
        fields, text = _run(files, truth, seed=seed, hidden_dims=hidden_dims, terminal=terminal)
        write_result(files, {"is_finished": True, **fields})
        terminal.print_result(fields, text)


def _run(
    files: DemoFiles, truth: Truth, *, seed: int, hidden_dims: str, terminal: Terminal
) -> tuple[dict[str, Any], list[str]]:
    """Fit, save, predict, draw and report; returns the result for JSON and for people."""
    table, pairs, _ = read_inputs(
        files.rows, files.pairs, id_column=ID_COLUMN, choice=ColumnChoice(), terminal=terminal
    )
    model = SpherePair(hidden_dims=layer_sizes(hidden_dims), random_state=seed)
    with training_progress(model, terminal) as elapsed:
        model.fit(table.X, constraints=pairs)
    seconds = elapsed()
    model.save(files.model)
    new = read_rows_for(model, files.new_rows, id_column=ID_COLUMN, drop=())
    found = model.assess(new.X)
    labels, columns = found.labels, {"confidence": found.confidence.round(4)}
    write_labels(files.predictions, labels, ids=new.ids, id_name=ID_COLUMN, further=columns)
    with terminal.spinner("writing the picture and the report"):
        _draw(files.picture, model, rows=new.X, labels=labels)
        settings = ReportOptions(title="Digits: what the clusters look like", image=IMAGE_SIZE)
        write_report(model, table.X, pairs, files.report, ids=table.ids, options=settings)
    accuracy = float(clustering_accuracy(truth.held_out, labels))
    commands = next_commands(files, seed=seed, hidden_dims=hidden_dims)
    fields = {
        "folder": str(files.folder),
        "report": str(files.report),
        **result_fields(model, pairs),
        "test_accuracy": accuracy,
        "n_test_rows": len(labels),
        "seed": seed,
        "seconds": round(seconds, 3),
        "commands": commands,
    }
    return fields, _text(files, result_lines(model, pairs, seconds=seconds), accuracy, commands)


def _draw(path: Path, model: SpherePair, *, rows: Any, labels: Any) -> None:
    figure = new_figure(9.6, 4.4)
    left, right = figure.subplots(1, 2)
    title = f"{len(labels)} held-out rows and their clusters"
    plot_embedding(model.transform(rows), labels, centers=model.cluster_centers_, title=title, ax=left)
    plot_cluster_number(model, ax=right)
    save_figure(figure, path)


def _text(files: DemoFiles, found: list[str], accuracy: float, commands: list[str]) -> list[str]:
    return [
        *found,
        f"accuracy    {100 * accuracy:.1f} % of the held-out images are in the right cluster",
        "            (the true digits made the pairs and this score; the fit has not seen them)",
        f"written     {files.predictions}, {files.picture}, {files.model}",
        f"report      {files.report}: open it in a browser",
        "",
        "The same in single commands:",
        *(f"  {line}" for line in commands),
    ]


@dataclass(frozen=True)
class DemoFiles:
    """The files that the demo writes."""

    folder: Path
    rows: Path
    pairs: Path
    new_rows: Path
    model: Path
    predictions: Path
    picture: Path
    report: Path
    result: Path

    @classmethod
    def under(cls, folder: Path) -> DemoFiles:
        """The files in a folder, which is created if missing; a folder with other files is refused."""
        files = cls(
            folder,
            rows=folder / "rows.csv",
            pairs=folder / "pairs.csv",
            new_rows=folder / "new_rows.csv",
            model=folder / "model",
            predictions=folder / "predictions.csv",
            picture=folder / "picture.png",
            report=folder / "report.html",
            result=folder / "demo.json",
        )
        if folder.exists() and not folder.is_dir():
            raise InvalidParameterError(f"{folder} is a file; --out must be a folder.")
        if folder.is_dir() and any(folder.iterdir()) and not files.result.exists():
            raise InvalidParameterError(
                f"{folder} holds files that are not from a demo; choose an empty or a new folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        return files


@dataclass(frozen=True)
class Truth:
    """The true digits: they make the pairs and the score, and no fit sees them."""

    seen: NDArray[np.int64]
    held_out: NDArray[np.int64]


def write_inputs(files: DemoFiles, seed: int) -> Truth:
    """Hold out 20 % of the images, draw pairs among the others, and write all three files."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    ids = np.array([f"image-{number:04d}" for number in range(len(X))])
    seen, new = train_test_split(np.arange(len(X)), test_size=0.2, random_state=seed, stratify=y)
    write_result(files, {"is_finished": False})
    Constraints.from_labels(y[seen], N_PAIRS, random_state=seed).write(files.pairs, ids=ids[seen])
    _write_rows(files.rows, ids[seen], X[seen])
    _write_rows(files.new_rows, ids[new], X[new])
    return Truth(y[seen], y[new])


def write_result(files: DemoFiles, content: dict[str, Any]) -> None:
    """Write the result; this file also marks the folder as one of a demo."""
    atomic_write_text(files.result, json.dumps(content, indent=2) + "\n")


def next_commands(files: DemoFiles, *, seed: int, hidden_dims: str) -> list[str]:
    """The same workflow as commands to copy."""
    model, labels = files.folder / "my-model", files.folder / "my-predictions.csv"
    page = files.folder / "my-report.html"
    pairs = ["--constraints", files.pairs, "--id", ID_COLUMN]
    network = [] if hidden_dims == HIDDEN_DIMS else ["--hidden-dims", hidden_dims]
    lines: list[list[Any]] = [
        ["check", files.pairs, "--data", files.rows, "--id", ID_COLUMN],
        ["fit", files.rows, *pairs, *network, "--seed", seed, "--out", model],
        ["predict", model, files.new_rows, "--id", ID_COLUMN, "--out", labels],
        ["clusters", model],
        ["report", model, "--data", files.rows, *pairs, "--image", IMAGE_SIZE, "--out", page],
    ]
    return [" ".join([_program(), *(shlex.quote(str(word)) for word in line)]) for line in lines]


def _write_rows(path: Path, ids: NDArray[np.str_], pixels: NDArray[np.float64]) -> None:
    columns = {f"pixel_{place}": column for place, column in enumerate(pixels.astype(np.int64).T)}
    write_columns(path, {ID_COLUMN: ids, **columns})


def _program() -> str:
    """How this program was called, so that copied commands work."""
    called = sys.argv[0]
    if Path(called).name != "spherepair":
        return f"{shlex.quote(sys.executable)} -m spherepair"
    found = shutil.which("spherepair")
    is_on_path = found is not None and Path(found).resolve() == Path(called).resolve()
    return "spherepair" if is_on_path else shlex.quote(called)

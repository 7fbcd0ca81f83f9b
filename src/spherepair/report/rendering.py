"""The report as one HTML page: no network, no library, and nothing from the data is ever markup."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import secrets
from functools import cache
from pathlib import Path
from typing import Any

from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError, MissingDependencyError
from spherepair.plots.palette import BLACK, BLUE, COLOURS, GREEN, SKY, VERMILION
from spherepair.report.building import Report, ReportOptions, build_report
from spherepair.report.evidence import HEIGHT, WIDTH
from spherepair.report.placement import BORDERLINE

_PAGE = Path(__file__).parent / "page"
#: Colours of the palette that are too dark for a dark page, and what stands for them there.
_ON_DARK = {BLUE: "#3f97da", GREEN: "#1fb98a", VERMILION: "#ee7433", SKY: "#a3dcff", BLACK: "#e6e6e6"}


def write_report(
    model: Any,
    X: Any,
    constraints: Constraints | None,
    path: str | os.PathLike[str],
    *,
    ids: Any = None,
    texts: Any = None,
    options: ReportOptions | None = None,
) -> Report:
    """Write a report on a fitted model as one self-contained HTML file.

    Parameters
    ----------
    model : fitted estimator
        Of this package, fitted here or loaded with :func:`spherepair.load`.
    X : like in fit, shape (n_rows, n_features)
        The rows of the fit, or others, which are labelled by the model then.
    constraints : Constraints or None
        Pairs of rows of ``X``; ``None`` takes those of the fit where these are its rows.
    path : path
        The file to write; it appears whole or not at all.
    ids : sequence of shape (n_rows,), optional
        Name of each row; else rows are called by their positions.
    texts : sequence of shape (n_rows,), optional
        A text to show for each row.
    options : ReportOptions, optional
        Title, size of images, how much to show.

    Returns
    -------
    Report
        Everything the page says, as plain values.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints, SpherePair
    >>> from spherepair.report import write_report
    >>> X, y = make_blobs(120, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SpherePair(3, hidden_dims=(16,), pretraining=None, max_epochs=5, random_state=0)
    >>> model = model.fit(X, constraints=pairs)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(model, X, pairs, f"{folder}/report.html")
    >>> report.kept.total.n_pairs, len(report.clusters)
    (300, 3)
    """
    target = Path(path)
    _refuse_bad_place(target)
    report = build_report(model, X, constraints=constraints, ids=ids, texts=texts, options=options)
    _write_whole(target, render_report(report))
    return report


def render_report(report: Report) -> str:
    """The HTML of a report."""
    script = (_PAGE / "report.js").read_text(encoding="utf-8")
    page: str = (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            points=_plain(report),
            script_hash=_hash(script),
            colours=COLOURS,
            dark_colours=[_ON_DARK.get(colour, colour) for colour in COLOURS],
            width=WIDTH,
            height=HEIGHT,
            borderline=BORDERLINE,
        )
    )
    return page


def _plain(report: Report) -> dict[str, Any]:
    """What the script of the page reads."""
    questions = [[pair.left.row, pair.right.row] for pair in report.questions]
    names = [[pair.left.name, pair.right.name] for pair in report.questions]
    is_named = report.points.names is not None
    return {
        **dataclasses.asdict(report.points),
        "n_clusters": len(report.clusters),
        "questions": names if is_named else questions,
    }


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependencyError('a report needs jinja2; pip install "spherepair[report]".') from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        autoescape=True,  # always, whatever a template is called
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["thousands"] = _thousands
    environment.filters["percent"] = _percent
    return environment


def _thousands(number: int) -> str:
    return f"{number:,}"


def _percent(share: float | None) -> str:
    """A share in percent; never a round 100 or 0 where a little is missing or there.

    Examples
    --------
    >>> [_percent(share) for share in (1.0, 0.9996, 0.5, 0.0004, 0.0, None)]
    ['100 %', '> 99.9 %', '50.0 %', '< 0.1 %', '0 %', '–']
    """
    if share is None:
        return "–"
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    if share > 0.9995:
        return "> 99.9 %"
    return "< 0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def _hash(script: str) -> str:
    """What the page's policy allows to run: this script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _refuse_bad_place(target: Path) -> None:
    if target.is_dir():
        raise InvalidParameterError(f"{target} is a folder; give the name of a file.")
    if not target.parent.is_dir():
        raise InvalidParameterError(
            f"{target} cannot be written: the folder {target.parent} does not exist; make it first."
        )


def _write_whole(target: Path, text: str) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)

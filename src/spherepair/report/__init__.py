"""A report on a fitted model as one HTML page: no network, no library, and data never becomes markup."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from spherepair.constraints import Constraints
from spherepair.errors import InvalidParameterError, MissingDependencyError
from spherepair.files import atomic_write_text
from spherepair.plots.style import COLORS, cluster_style
from spherepair.report.building import Report, ReportOptions, build_report
from spherepair.report.number_chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from spherepair.report.row_cards import BORDERLINE

__all__ = ["Report", "ReportOptions", "build_report", "render_report", "write_report"]


_PAGE = Path(__file__).parent / "page"
_CHART = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
#: The colors of clusters on a dark page, where those of the plots would be too dark.
_DARK_COLORS = (
    *("#3f97da", "#e69f00", "#1fb98a", "#cc79a7", "#a3dcff", "#d8c400", "#ee7433", "#e6e6e6"),
    *("#2a72ad", "#a87400", "#128763", "#9b5a80", "#6f9db8", "#948f2a", "#b0501c", "#949494"),
)
#: With more clusters than this their cards are folded; pictures take less room than tables.
_MOST_OPEN_CARDS = {"image": 12, "text": 6, "values": 6}


def write_report(
    model: Any,
    X: Any,
    constraints: Constraints | None = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    ids: Any = None,
    texts: Any = None,
    feature_names: Sequence[str] | None = None,
    options: ReportOptions | None = None,
) -> Report:
    """Write a report on a fitted model as one self-contained HTML file.

    The arguments are those of :func:`build_report`, and the file.

    Parameters
    ----------
    model : fitted estimator
        Of this package, fitted here or loaded with :func:`spherepair.load`.
    X : as in fit, shape (n_rows, n_features)
        The rows of the fit, or other rows, which the model labels first.
    constraints : Constraints or None
        Pairs of rows of ``X``. ``None`` stands for those of the fit if ``X`` holds its rows, else for none.
    path : path
        The file to write; it appears whole or not at all.
    ids : sequence of shape (n_rows,), optional
        Name of each row; without them rows are named by their positions.
    texts : sequence of shape (n_rows,), optional
        A text to show for each row.
    feature_names : sequence of str, optional
        Names of the columns where ``X`` has none, such as the words of a tf-idf matrix.
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
    >>> report.satisfaction.total.n_pairs, len(report.clusters)
    (300, 3)
    """
    target = Path(path)
    _refuse_bad_path(target)
    report = build_report(
        model, X, constraints, ids=ids, texts=texts, feature_names=feature_names, options=options
    )
    atomic_write_text(target, render_report(report))
    return report


def render_report(report: Report) -> str:
    """The HTML of a report.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints, SpherePair
    >>> from spherepair.report import build_report, render_report
    >>> X, y = make_blobs(120, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SpherePair(3, hidden_dims=(16,), pretraining=None, max_epochs=5, random_state=0)
    >>> page = render_report(build_report(model.fit(X, constraints=pairs), X))
    >>> page.lstrip()[:15]
    '<!DOCTYPE html>'
    """
    script = (_PAGE / "report.js").read_text(encoding="utf-8")
    page: str = (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            data=_script_data(report),
            script_hash=_hash(script),
            colors=COLORS,
            dark_colors=_DARK_COLORS,
            style_of=cluster_style,
            chart=_CHART,
            borderline=BORDERLINE,
            are_cards_open=len(report.clusters) <= _MOST_OPEN_CARDS[report.kind],
        )
    )
    return page


def _script_data(report: Report) -> dict[str, Any]:
    """What the script of the page reads."""
    questions = [[pair.left.row, pair.right.row] for pair in report.questions]
    names = [[pair.left.name, pair.right.name] for pair in report.questions]
    styles = [cluster_style(card.cluster) for card in report.clusters]
    return {
        **dataclasses.asdict(report.points),
        "styles": [[style.color_index, style.marker_index] for style in styles],
        "questions": questions if report.points.names is None else names,
        "again": report.look_again,
    }


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependencyError('a report needs jinja2; pip install "spherepair[report]".') from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        autoescape=True,  # for every template, whatever its name
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["thousands"] = _thousands
    environment.filters["percent"] = _percent
    environment.filters["breakable"] = _breakable
    return environment


def _thousands(number: int) -> str:
    return f"{number:,}"


def _breakable(name: str) -> str:
    """A column name that a narrow table may break after an underscore, a slash or a dot."""
    return re.sub(r"(?<=[_/.])", "\u200b", name)


def _percent(share: float | None) -> str:
    """A share in percent; 100 and 0 only if nothing is missing or there.

    Examples
    --------
    >>> [_percent(share) for share in (1.0, 0.9996, 0.5, 0.0004, 0.0, None)]
    ['100%', '> 99.9%', '50.0%', '< 0.1%', '0%', '–']
    """
    if share is None:
        return "–"
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}%"
    if share > 0.9995:
        return "> 99.9%"
    return "< 0.1%" if share < 0.0005 else f"{100 * share:.1f}%"


def _hash(script: str) -> str:
    """Hash by which the page's policy allows this script to run, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _refuse_bad_path(target: Path) -> None:
    if target.is_dir():
        raise InvalidParameterError(f"{target} is a folder; give a file name.")
    if not target.parent.is_dir():
        raise InvalidParameterError(
            f"{target} cannot be written: the folder {target.parent} does not exist; create it first."
        )

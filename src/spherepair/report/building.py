"""Collect everything that a report says from a model, its rows and its constraints."""

from __future__ import annotations

import platform
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import scipy
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from spherepair import __version__
from spherepair.clustering.suspects import Suspect, answers_to_look_at
from spherepair.constraints import Constraints
from spherepair.errors import InvalidDataError
from spherepair.estimators.job import first_moved_row
from spherepair.estimators.trust.explaining import default_names
from spherepair.estimators.trust.profiles import profile_columns
from spherepair.report.cluster_cards import (
    ClusterCard,
    Membership,
    describe_clusters,
    measure_membership,
)
from spherepair.report.number_chart import NumberEvidence, find_evidence
from spherepair.report.pair_cards import (
    PairCard,
    Satisfaction,
    choose_questions,
    count_satisfied,
    is_violated,
    pick_violated,
    question_cards,
    suspect_cards,
    violated_cards,
)
from spherepair.report.row_cards import RowDisplay, as_texts, find_image_shape, shown_rows
from spherepair.report.row_map import MapPoints, Marks, map_points, rows_on_map
from spherepair.validation import check_constraints, check_table

Integers = NDArray[np.int64]
_PROBED_ROWS = 256
#: Parameters that a report leaves out: local paths, and whether a progress bar was shown.
_PRIVATE_PARAMETERS = ("checkpoint", "progress")


@dataclass(frozen=True)
class ReportOptions:
    """How much a report shows.

    Parameters
    ----------
    title : str
    image : str
        Whether rows are images, and of which size: "auto", "none", "HxW" or "HxWx3".
    n_points : int
        Points on the map; of more rows a sample is drawn.
    n_violated : int
        Violated constraints that are listed.
    n_examples : int
        Typical and borderline rows of each cluster.
    n_questions : int
        Pairs proposed for labeling.
    n_suspects : int
        Answers shown to be looked at again.

    Examples
    --------
    >>> ReportOptions(title="Handwritten digits", image="8x8").n_questions
    18
    """

    title: str = "Clusters at a glance"
    image: str = "auto"
    n_points: int = 3000
    n_violated: int = 100
    n_examples: int = 6
    n_questions: int = 18
    n_suspects: int = 30


@dataclass(frozen=True)
class Settings:
    """How the model was made, as names and values ready to be shown.

    Attributes
    ----------
    method : str
        Class of the model.
    parameters, training, versions : tuple of (str, str)
    """

    method: str
    parameters: tuple[tuple[str, str], ...]
    training: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Report:
    """Everything a report says.

    Attributes
    ----------
    title : str
    n_rows, n_features : int
    n_without_cluster, n_borderline : int
        Rows in no cluster, and rows that nearly belong to another one.
    are_training_rows : bool
        Whether these are the rows the model was fitted on.
    kind : str
        What rows are shown as: "image", "text" or "values".
    clusters : tuple of ClusterCard
    number : NumberEvidence
        How many clusters there are, and why.
    satisfaction : Satisfaction
        The constraints against the clusters.
    points : MapPoints
    questions : tuple of PairCard
        Pairs proposed for labeling.
    suspects : tuple of PairCard
        Answers that are more likely wrong than right; at most as many as asked for.
    look_again : tuple of tuples
        All of these, then the constraints that the clusters violate, as lines of a file: left, right, link,
        by, source_row, reason.
    settings : Settings
    """

    title: str
    n_rows: int
    n_features: int
    n_without_cluster: int
    n_borderline: int
    are_training_rows: bool
    kind: str
    # Left out of the repr: they hold every row that is shown.
    clusters: tuple[ClusterCard, ...] = field(repr=False)
    number: NumberEvidence = field(repr=False)
    satisfaction: Satisfaction = field(repr=False)
    points: MapPoints = field(repr=False)
    questions: tuple[PairCard, ...] = field(repr=False)
    suspects: tuple[PairCard, ...] = field(repr=False)
    look_again: tuple[tuple[Any, ...], ...] = field(repr=False)
    settings: Settings = field(repr=False)


def build_report(
    model: Any,
    X: Any,
    constraints: Constraints | None = None,
    *,
    ids: Any = None,
    texts: Any = None,
    feature_names: Sequence[str] | None = None,
    options: ReportOptions | None = None,
) -> Report:
    """Collect everything a report says; :func:`spherepair.report.write_report` also writes the page.

    Parameters
    ----------
    model : fitted estimator
        Of this package, fitted here or loaded with :func:`spherepair.load`.
    X : as in fit, shape (n_rows, n_features)
        The rows of the fit, or other rows, which the model labels first.
    constraints : Constraints or None
        Pairs of rows of ``X``. ``None`` stands for those of the fit if ``X`` holds its rows, else for none.
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

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from spherepair import Constraints, SpherePair
    >>> from spherepair.report import build_report
    >>> X, y = make_blobs(120, centers=3, random_state=0)
    >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    >>> model = SpherePair(3, hidden_dims=(16,), pretraining=None, max_epochs=5, random_state=0)
    >>> report = build_report(model.fit(X, constraints=pairs), X)
    >>> report.satisfaction.total.n_pairs, len(report.clusters)
    (300, 3)
    """
    options = ReportOptions() if options is None else options
    check_is_fitted(model)
    shown = shown_rows(model, X)
    if shown is not None:
        model, X, texts = shown.model, shown.encoded, shown.texts if texts is None else texts
    table = check_table(model, X, reset=False)
    rows = _embed_rows(model, table)
    pairs = _pairs_of(model, constraints, rows)
    membership = measure_membership(rows.embedding, rows.labels, centers=np.asarray(model.cluster_centers_))
    names, image = _column_names(model, X, feature_names), options.image
    if shown is not None:
        table, names, image = shown.table, shown.names, shown.image
    display = _make_display(table, membership, names=names, ids=ids, texts=texts, image=image)
    return _assemble(model, display, membership, rows=rows, pairs=pairs, options=options)


@dataclass(frozen=True, eq=False)
class _EmbeddedRows:
    """Rows as the model sees them: an embedding (n, D) and labels (n,)."""

    embedding: NDArray[Any]
    labels: Integers
    are_training_rows: bool


def _embed_rows(model: Any, table: Any) -> _EmbeddedRows:
    """Embedding and labels of the fit if these are its rows, else new ones."""
    if table.shape[0] == len(model.labels_) and _are_training_rows(model, table):
        return _EmbeddedRows(np.asarray(model.embedding_), np.asarray(model.labels_, np.int64), True)
    embedding = _call_without_names(model.transform, table)
    return _EmbeddedRows(embedding, np.asarray(_call_without_names(model.predict, table), np.int64), False)


def _are_training_rows(model: Any, table: Any) -> bool:
    probed = np.unique(np.linspace(0, table.shape[0] - 1, _PROBED_ROWS).astype(np.int64))
    found = _call_without_names(model.transform, table[probed])
    return first_moved_row(found, np.asarray(model.embedding_)[probed]) is None


def _call_without_names(method: Any, table: Any) -> NDArray[Any]:
    with warnings.catch_warnings():
        # The column names were checked on the table as it was given.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(method(table))


def _pairs_of(model: Any, constraints: Constraints | None, rows: _EmbeddedRows) -> Constraints:
    """The given pairs, or those of the fit if these are its rows."""
    if constraints is None and rows.are_training_rows:
        constraints = model.constraints_
    return check_constraints(constraints, len(rows.labels), on_conflict="keep")


def _column_names(model: Any, X: Any, given: Sequence[str] | None) -> Any:
    if given is not None:
        if len(given) != X.shape[1]:
            raise InvalidDataError(f"feature_names has {len(given)} names, but X has {X.shape[1]} columns.")
        return given
    return getattr(X, "column_names", getattr(X, "columns", getattr(model, "feature_names_in_", None)))


def _make_display(
    table: Any, membership: Membership, *, names: Any, ids: Any, texts: Any, image: str
) -> RowDisplay:
    if names is None:
        names = [f"column {place}" for place in range(table.shape[1])]
    written = as_texts(texts, table.shape[0], what="texts")
    return RowDisplay(
        table=table,
        columns=[str(name) for name in names],
        ids=as_texts(ids, table.shape[0], what="ids"),
        texts=written,
        image_shape=find_image_shape(table, image if written is None or image != "auto" else "none"),
        labels=membership.labels,
        next_clusters=membership.next_clusters,
        silhouettes=membership.silhouettes,
    )


def _assemble(
    model: Any,
    display: RowDisplay,
    membership: Membership,
    *,
    rows: _EmbeddedRows,
    pairs: Constraints,
    options: ReportOptions,
) -> Report:
    centers, labels = np.asarray(model.cluster_centers_), rows.labels
    profiles = profile_columns(display.table, labels, n_clusters=len(centers))
    listed = pick_violated(rows.embedding, labels, constraints=pairs, limit=options.n_violated)
    asked = choose_questions(
        rows.embedding, membership, centers=centers, constraints=pairs, count=options.n_questions
    )
    again = _look_again(model, rows, pairs)
    return Report(
        title=options.title,
        n_rows=display.table.shape[0],
        n_features=display.table.shape[1],
        n_without_cluster=int((labels < 0).sum()),
        n_borderline=int(membership.is_borderline.sum()),
        are_training_rows=rows.are_training_rows,
        kind=display.kind,
        clusters=_named(
            model,
            describe_clusters(
                display, membership, profiles=profiles, constraints=pairs, n_examples=options.n_examples
            ),
        ),
        number=find_evidence(
            model, rows.embedding, constraints=pairs, are_training_rows=rows.are_training_rows
        ),
        satisfaction=count_satisfied(labels, pairs, violated=violated_cards(display, profiles, listed)),
        points=map_points(
            display,
            membership,
            rows.embedding,
            centers=centers,
            profiles=profiles,
            rows=rows_on_map(membership, count=options.n_points, wanted=_ends(listed)),
            marks=_marks(labels, pairs, listed),
        ),
        questions=question_cards(display, profiles, asked),
        suspects=suspect_cards(display, profiles, again, limit=options.n_suspects),
        look_again=tuple(_line(suspect, display.ids) for suspect in again),
        settings=_describe_model(model),
    )


def _look_again(model: Any, rows: _EmbeddedRows, pairs: Constraints) -> tuple[Suspect, ...]:
    judgment = getattr(model, "judgment_", None) if rows.are_training_rows else None
    return tuple(answers_to_look_at(pairs, rows.labels, model.constraints_, judgment))


def _line(suspect: Suspect, ids: Any) -> tuple[Any, ...]:
    ends = (suspect.left, suspect.right) if ids is None else (ids[suspect.left], ids[suspect.right])
    return (*ends, suspect.link, suspect.by, suspect.source_row, suspect.reason)


def _named(model: Any, cards: tuple[ClusterCard, ...]) -> tuple[ClusterCard, ...]:
    """The clusters with their names; numbers are no names."""
    plain = default_names(len(cards))
    names = getattr(model, "group_names_", plain)
    return tuple(
        replace(card, name="" if name == default else name)
        for card, name, default in zip(cards, names, plain, strict=True)
    )


def _ends(pairs: Constraints) -> Integers:
    return np.concatenate([pairs.left, pairs.right])


def _marks(labels: Integers, pairs: Constraints, listed: Constraints) -> Marks:
    lines = np.column_stack([listed.left, listed.right, listed.is_must_link.astype(np.int64)])
    return Marks(linked=_ends(pairs), violated=_ends(pairs[is_violated(labels, pairs)]), lines=lines)


def _describe_model(model: Any) -> Settings:
    """Parameters, stages of training and versions."""
    given = {} if not hasattr(model, "get_params") else model.get_params(deep=False)
    parameters = tuple(
        (name, _as_words(value)) for name, value in given.items() if name not in _PRIVATE_PARAMETERS
    )
    return Settings(type(model).__name__, parameters, _stages(getattr(model, "history_", [])), _versions())


def _stages(history: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """One line per stage of training."""
    found = []
    for stage, records in groupby(history, key=lambda record: str(record.get("stage", "training"))):
        epochs = list(records)
        seconds = sum(float(record.get("seconds", 0.0)) for record in epochs)
        loss = epochs[-1].get("loss")
        end = "" if loss is None else f", loss {float(loss):.4g} at the end"
        found.append((stage, f"{len(epochs)} epochs in {seconds:.1f} s{end}"))
    return tuple(found)


def _versions() -> tuple[tuple[str, str], ...]:
    return (
        ("spherepair", __version__),
        ("Python", platform.python_version()),
        ("torch", torch.__version__),
        ("numpy", np.__version__),
        ("scipy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
    )


def _as_words(value: Any) -> str:
    """A parameter as text, without memory addresses."""
    text = value if isinstance(value, str) else repr(value)
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", text)

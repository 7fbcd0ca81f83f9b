"""From a model, its rows and its constraints to everything a report says."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from spherepair.constraints import Constraints
from spherepair.estimators.inputs import check_constraints, check_table
from spherepair.estimators.same_rows import first_other_row
from spherepair.report.clusters import ClusterCard, describe_clusters
from spherepair.report.evidence import Evidence, find_evidence
from spherepair.report.gallery import Gallery, as_texts
from spherepair.report.images import find_image_shape
from spherepair.report.kept import Kept, PairCard, is_violated, judge_constraints, pair_cards, pick_violated
from spherepair.report.placement import Placement, place_rows
from spherepair.report.points import MapPoints, Marks, map_points, sample_rows
from spherepair.report.profiles import Profiles, profile_columns
from spherepair.report.questions import choose_questions
from spherepair.report.settings import Settings, describe_model

Integers = NDArray[np.int64]
_PROBED_ROWS = 256


@dataclass(frozen=True)
class ReportOptions:
    """How much a report shows.

    Attributes
    ----------
    title : str
    image : str
        "auto", "none", "HxW" or "HxWx3": whether rows are images, and of which size.
    n_points : int
        Points on the map; more rows are sampled.
    n_violated : int
        Violated constraints that are listed.
    n_examples : int
        Typical and borderline rows of each cluster.
    n_questions : int
        Pairs proposed for labelling.
    """

    title: str = "Clusters at a glance"
    image: str = "auto"
    n_points: int = 3000
    n_violated: int = 100
    n_examples: int = 6
    n_questions: int = 18


@dataclass(frozen=True)
class Report:
    """Everything a report says.

    Attributes
    ----------
    title : str
    n_rows, n_features : int
    n_without_cluster, n_borderline : int
        Rows that no cluster took, and rows that nearly belong to another.
    are_training_rows : bool
        Whether these are the rows the model was fitted on.
    kind : str
        What rows are shown as: "image", "text" or "values".
    evidence : Evidence
    kept : Kept
    clusters : tuple of ClusterCard
    points : MapPoints
    questions : tuple of PairCard
    settings : Settings
    """

    title: str
    n_rows: int
    n_features: int
    n_without_cluster: int
    n_borderline: int
    are_training_rows: bool
    kind: str
    # Not in what a notebook shows of it: they hold every row that is drawn.
    evidence: Evidence = field(repr=False)
    kept: Kept = field(repr=False)
    clusters: tuple[ClusterCard, ...] = field(repr=False)
    points: MapPoints = field(repr=False)
    questions: tuple[PairCard, ...] = field(repr=False)
    settings: Settings = field(repr=False)


def build_report(
    model: Any,
    X: Any,
    *,
    constraints: Constraints | None = None,
    ids: Any = None,
    texts: Any = None,
    options: ReportOptions | None = None,
) -> Report:
    """Find out everything a report says about a model; see :func:`spherepair.report.write_report`."""
    options = ReportOptions() if options is None else options
    check_is_fitted(model)
    table = check_table(model, X, reset=False)
    rows = _embed_rows(model, table)
    pairs = _pairs_of(model, constraints, rows)
    centers = np.asarray(model.cluster_centers_)
    placement = place_rows(rows.embedding, rows.labels, centers=centers)
    gallery = _hang(model, table, placement, X=X, ids=ids, texts=texts, image=options.image)
    return _assemble(model, gallery, rows=rows, pairs=pairs, options=options)


@dataclass(frozen=True, eq=False)
class EmbeddedRows:
    """Rows as the model sees them: unit vectors or other points (n, D), and labels (n,)."""

    embedding: NDArray[Any]
    labels: Integers
    are_training_rows: bool


def _embed_rows(model: Any, table: Any) -> EmbeddedRows:
    """The embedding and labels of the fit where these are the rows of the fit, else new ones."""
    if table.shape[0] == len(model.labels_) and _are_the_same(model, table):
        return EmbeddedRows(np.asarray(model.embedding_), np.asarray(model.labels_, np.int64), True)
    embedding = _without_names(model.transform, table)
    return EmbeddedRows(embedding, np.asarray(_without_names(model.predict, table), np.int64), False)


def _are_the_same(model: Any, table: Any) -> bool:
    probed = np.unique(np.linspace(0, table.shape[0] - 1, _PROBED_ROWS).astype(np.int64))
    found = _without_names(model.transform, table[probed])
    return first_other_row(found, np.asarray(model.embedding_)[probed]) is None


def _without_names(method: Any, table: Any) -> NDArray[Any]:
    with warnings.catch_warnings():
        # The names of the columns were checked on the table as it was given.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(method(table))


def _pairs_of(model: Any, constraints: Constraints | None, rows: EmbeddedRows) -> Constraints:
    """The given pairs, or those of the fit where these are its rows."""
    if constraints is None and rows.are_training_rows:
        constraints = model.constraints_
    return check_constraints(constraints, len(rows.labels), on_conflict="keep")


def _hang(
    model: Any, table: Any, placement: Placement, *, X: Any, ids: Any, texts: Any, image: str
) -> Gallery:
    names = getattr(X, "column_names", getattr(X, "columns", getattr(model, "feature_names_in_", None)))
    if names is None:
        names = [f"column {place}" for place in range(table.shape[1])]
    written = as_texts(texts, table.shape[0], what="texts")
    return Gallery(
        table=table,
        placement=placement,
        columns=[str(name) for name in names],
        ids=as_texts(ids, table.shape[0], what="ids"),
        texts=written,
        image_shape=find_image_shape(table, image if written is None or image != "auto" else "none"),
    )


def _assemble(
    model: Any, gallery: Gallery, *, rows: EmbeddedRows, pairs: Constraints, options: ReportOptions
) -> Report:
    profiles = profile_columns(gallery.table, rows.labels, n_clusters=len(model.cluster_centers_))
    show = _Showing(gallery, profiles, rows, pairs, np.asarray(model.cluster_centers_))
    listed = pick_violated(rows.embedding, rows.labels, constraints=pairs, limit=options.n_violated)
    return Report(
        title=options.title,
        n_rows=gallery.table.shape[0],
        n_features=gallery.table.shape[1],
        n_without_cluster=int((rows.labels < 0).sum()),
        n_borderline=int(gallery.placement.is_borderline.sum()),
        are_training_rows=rows.are_training_rows,
        kind=gallery.kind,
        evidence=find_evidence(
            model, rows.embedding, constraints=pairs, are_training_rows=rows.are_training_rows
        ),
        kept=judge_constraints(rows.labels, pairs, violated=show.violated(listed)),
        clusters=describe_clusters(gallery, profiles, constraints=pairs, n_examples=options.n_examples),
        points=show.points(listed, options.n_points),
        questions=show.questions(options.n_questions),
        settings=describe_model(model),
    )


@dataclass(frozen=True, eq=False)
class _Showing:
    """What the parts of a report with rows in them have in common."""

    gallery: Gallery
    profiles: Profiles
    rows: EmbeddedRows
    pairs: Constraints
    centers: NDArray[Any]

    def violated(self, listed: Constraints) -> tuple[PairCard, ...]:
        links = np.where(listed.is_must_link, "must-link", "cannot-link").tolist()
        return self._cards(listed.left, listed.right, links=links, reasons=[""] * len(listed))

    def questions(self, count: int) -> tuple[PairCard, ...]:
        asked = choose_questions(
            self.rows.embedding,
            self.gallery.placement,
            centers=self.centers,
            constraints=self.pairs,
            count=count,
        )
        ends = np.array([(question.left, question.right) for question in asked], np.int64).reshape(-1, 2)
        reasons = [question.reason for question in asked]
        return self._cards(ends[:, 0], ends[:, 1], links=[""] * len(asked), reasons=reasons)

    def points(self, listed: Constraints, count: int) -> MapPoints:
        broken = self.pairs[is_violated(self.rows.labels, self.pairs)]
        marks = Marks(
            linked=np.concatenate([self.pairs.left, self.pairs.right]),
            violated=np.concatenate([broken.left, broken.right]),
            lines=np.column_stack([listed.left, listed.right, listed.is_must_link.astype(np.int64)]),
        )
        return map_points(
            self.gallery,
            self.rows.embedding,
            centers=self.centers,
            profiles=self.profiles,
            rows=sample_rows(self.gallery.placement, count=count, wanted=marks.lines[:, :2].ravel()),
            marks=marks,
        )

    def _cards(
        self, left: Integers, right: Integers, *, links: list[str], reasons: list[str]
    ) -> tuple[PairCard, ...]:
        return pair_cards(
            self.gallery,
            self.profiles,
            embedding=self.rows.embedding,
            left=left,
            right=right,
            links=links,
            reasons=reasons,
        )

"""What a report says about a model: numbers, examples, pairs, other rows."""

from __future__ import annotations

import copy
import inspect
import re

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from spherepair import Constraints
from spherepair.clustering.answer_errors import Judgment
from spherepair.clustering.error_rates import WrongAnswers
from spherepair.errors import InvalidDataError
from spherepair.report import ReportOptions, build_report, render_report, write_report

ALL = ReportOptions(n_violated=10_000)


def text_of(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def named(X, model, names):
    """The same rows and model with names for the columns."""
    same = copy.copy(model)
    same.feature_names_in_ = np.array(names, dtype=object)
    same.transform = lambda table: model.transform(np.asarray(table))
    return pa.table(dict(zip(names, X.T, strict=True))), same


@pytest.fixture(scope="module")
def report(digits):
    return build_report(digits.model, digits.X, digits.other_pairs, options=ALL)


def test_building_and_writing_take_the_same_arguments_in_the_same_order():
    built, written = (list(inspect.signature(f).parameters.values()) for f in (build_report, write_report))
    assert [p.name for p in built] == [
        "model",
        "X",
        "constraints",
        "ids",
        "texts",
        "feature_names",
        "options",
    ]
    assert [p for p in written if p.name != "path"] == built
    assert [p.name for p in written][:4] == ["model", "X", "constraints", "path"]


def test_every_violated_constraint_is_shown_with_both_rows(digits, report):
    labels, pairs = digits.model.labels_, digits.other_pairs
    broken = (labels[pairs.left] == labels[pairs.right]) != pairs.is_must_link
    expected = set(zip(pairs.left[broken].tolist(), pairs.right[broken].tolist(), strict=True))
    assert {(pair.left.row, pair.right.row) for pair in report.satisfaction.violated} == expected
    assert all(pair.left.image and pair.right.image for pair in report.satisfaction.violated)


def test_typical_rows_are_closest_to_the_center_and_least_clear_rows_have_the_lowest_silhouette(
    digits, report
):
    model = digits.model
    card = report.clusters[0]
    members = np.flatnonzero(model.labels_ == 0)
    distance = np.linalg.norm(model.embedding_[members] - model.cluster_centers_[0], axis=1)
    assert [row.row for row in card.typical] == members[np.argsort(distance)][:6].tolist()
    assert max(row.silhouette for row in card.borderline) <= min(row.silhouette for row in card.typical)


def test_without_constraints_those_of_the_fit_are_used(digits, report):
    assert report.satisfaction.total.n_pairs == 700
    given = build_report(digits.model, digits.X, digits.pairs)
    assert build_report(digits.model, digits.X).satisfaction == given.satisfaction


def test_other_rows_are_labeled_by_the_model_and_said_to_be_others(digits):
    found = build_report(digits.model, digits.X[100:200])
    assert not found.are_training_rows
    assert found.satisfaction.total.n_pairs == 0
    assert sum(card.n_rows for card in found.clusters) == 100
    said = text_of(render_report(found))
    assert "not the rows the model was fitted on" in said
    assert "it needs cannot-links" in said


def test_row_near_the_origin_that_moved_a_little_is_still_a_row_of_the_fit(plain_model):
    X = np.random.default_rng(0).normal(size=(60, 3)) + 10.0
    X[7] = 0.001
    labels = np.arange(60) % 2
    pairs = Constraints.from_pairs(cannot_link=[(0, 1)])
    model = plain_model().fit(X, labels, centers=X[:2], constraints=pairs)
    moved = X.copy()
    moved[7] += 0.01
    assert build_report(model, moved).are_training_rows
    moved[7] += 10.0
    assert not build_report(model, moved).are_training_rows


def test_tables_show_values_of_named_columns(blobs):
    X, _, model = blobs
    table, model = named(X, model, [f"f{place}" for place in range(5)])
    found = build_report(model, table, ids=[f"wine {place}" for place in range(90)])
    assert found.kind == "values"
    assert found.clusters[0].columns[0].name == "f0"
    assert found.clusters[0].typical[0].name == "wine 0"
    assert found.satisfaction.violated[0].columns[0] in {"f0", "f1"}
    assert found.points.names[3] == "wine 3"


def test_sparse_rows_and_rows_without_a_cluster_work(blobs, plain_model):
    X, labels, model = blobs
    some = np.where(np.arange(90) < 85, labels, -1)
    noisy = plain_model().fit(X, some, centers=model.cluster_centers_, constraints=model.constraints_)
    found = build_report(noisy, X)
    assert found.n_without_cluster == 5
    assert "rows without a cluster" in text_of(render_report(found))
    assert build_report(digits_like(plain_model), sparse.csr_matrix(np.eye(6))).n_rows == 6


def test_one_cluster_without_constraints_works(plain_model):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = plain_model().fit(
        X, np.zeros(20, int), centers=np.zeros((1, 3)), constraints=Constraints.from_pairs()
    )
    found = build_report(model, X)
    assert (found.n_borderline, len(found.clusters)) == (0, 1)
    assert "There are none." in text_of(render_report(found))


def test_inputs_are_left_as_they_are(blobs):
    X, _, model = blobs
    before = X.copy(), model.embedding_.copy(), model.labels_.copy()
    build_report(model, X)
    for was, now in zip(before, (X, model.embedding_, model.labels_), strict=True):
        assert (was == now).all()


def digits_like(plain_model):
    dense = np.eye(6)
    model = plain_model().fit(
        dense, np.arange(6) % 2, centers=dense[:2], constraints=Constraints.from_pairs()
    )
    model.transform = lambda X: np.asarray(X.toarray(), dtype=np.float32)
    return model


def test_answers_to_look_at_again_are_shown_with_both_rows_and_then_the_violated_ones(blobs):
    X, _, model = blobs
    model = copy.copy(model)
    right = np.array([0.9, 0.9, 0.9, 0.1, 0.9])  # the cannot-link (0, 2), which the clusters satisfy
    wrong = WrongAnswers(0.2, 0.0, 0.5, 1)
    model.judgment_ = Judgment(right, np.full(5, 0.9), wrong, np.ones(5, bool))
    report = build_report(model, X, ids=[f"row {n}" for n in range(90)])
    (card,) = report.suspects
    assert (card.left.name, card.right.name, card.link) == ("row 0", "row 2", "cannot-link")
    assert card.reason.startswith("Wrong with 90 %, row 3 of the pairs: the rows' neighbors")
    assert [line[:3] for line in report.look_again] == [
        ("row 0", "row 2", "cannot-link"),
        ("row 0", "row 1", "must-link"),
        ("row 2", "row 5", "cannot-link"),
    ]
    assert "Answers to look at again" in render_report(report)


def test_columns_of_a_nameless_table_get_names(digits):
    words = [f"word{place}" for place in range(64)]
    options = ReportOptions(image="none", n_points=50)
    report = build_report(digits.model, digits.X, feature_names=words, options=options)
    shown = {note.name for card in report.clusters for note in card.columns}
    assert shown
    assert shown <= set(words)
    with pytest.raises(InvalidDataError, match="feature_names has 2 names"):
        build_report(digits.model, digits.X, feature_names=words[:2])


def test_groups_have_their_names(digits):
    model = copy.copy(digits.model).name_groups({0: "<first>"})
    report = build_report(model, digits.X, options=ReportOptions(n_points=50))
    assert report.clusters[0].name == "<first>"
    assert report.clusters[1].name == ""
    assert "&lt;first&gt;" in render_report(report)

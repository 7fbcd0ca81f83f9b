"""The page: what it says, that data never becomes markup, and that it stays small and quick."""

from __future__ import annotations

import copy
import json
import re
import time

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from spherepair import Constraints, SpherePair, load
from spherepair.errors import InvalidConstraintsError, InvalidDataError, InvalidParameterError
from spherepair.report import ReportOptions, build_report, render_report, write_report

ALL = ReportOptions(n_violated=10_000)
SECTIONS = ["overview", "number", "map", "constraints", "clusters", "next", "settings"]
NASTY = "</script><script>window.harm=1</script><img src=x onerror=window.harm=2>"


def data_of(page):
    """The JSON that the page's script reads."""
    return json.loads(re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)[1])


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
    return build_report(digits.model, digits.X, constraints=digits.other_pairs, options=ALL)


@pytest.fixture(scope="module")
def page(report):
    return render_report(report)


def test_every_section_is_there_once(page):
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS


def test_numbers_are_those_of_the_model(digits, report, page):
    labels, pairs = digits.model.labels_, digits.other_pairs
    kept = (labels[pairs.left] == labels[pairs.right]) == pairs.is_must_link
    assert report.kept.total.n_kept == kept.sum()
    assert report.kept.total.n_violated == (~kept).sum() > 0
    assert [card.n_rows for card in report.clusters] == np.bincount(labels, minlength=10).tolist()
    said = text_of(page)
    assert "500 rows of 64 values in 10 clusters, found by SpherePair with 700 constraints." in said
    assert f"{report.kept.total.n_violated} constraint" in said
    assert "The number 10 was given." in said
    assert report.evidence.explanation in said.replace("&#39;", "'")


def test_every_violated_constraint_is_shown_with_both_rows(digits, report):
    labels, pairs = digits.model.labels_, digits.other_pairs
    broken = (labels[pairs.left] == labels[pairs.right]) != pairs.is_must_link
    expected = set(zip(pairs.left[broken].tolist(), pairs.right[broken].tolist(), strict=True))
    assert {(pair.left.row, pair.right.row) for pair in report.kept.violated} == expected
    assert all(pair.left.image and pair.right.image for pair in report.kept.violated)


def test_list_of_violated_constraints_is_capped_and_says_how_many_more(digits):
    few = build_report(
        digits.model, digits.X, constraints=digits.other_pairs, options=ReportOptions(n_violated=2)
    )
    assert len(few.kept.violated) == 2
    assert f"{few.kept.total.n_violated - 2} more are not." in text_of(render_report(few))


def test_typical_rows_are_closest_to_the_centre_and_least_sure_rows_are_least_sure(digits, report):
    model = digits.model
    card = report.clusters[0]
    members = np.flatnonzero(model.labels_ == 0)
    distance = np.linalg.norm(model.embedding_[members] - model.cluster_centers_[0], axis=1)
    assert [row.row for row in card.typical] == members[np.argsort(distance)][:6].tolist()
    assert max(row.sureness for row in card.borderline) <= min(row.sureness for row in card.typical)


def test_without_constraints_those_of_the_fit_are_used(digits, report):
    assert report.kept.total.n_pairs == 700
    given = build_report(digits.model, digits.X, constraints=digits.pairs)
    assert build_report(digits.model, digits.X).kept == given.kept


def test_loaded_model_gives_the_same_page(digits, page, tmp_path):
    digits.model.save(tmp_path / "model")
    loaded = build_report(load(tmp_path / "model"), digits.X, constraints=digits.other_pairs, options=ALL)
    ours = re.sub(r"<dt>device</dt><dd>.*?</dd>", "", page)
    theirs = re.sub(r"<dt>device</dt><dd>.*?</dd>", "", render_report(loaded))
    assert data_of(theirs) == data_of(ours)
    assert text_of(theirs.split('id="settings"')[0]) == text_of(ours.split('id="settings"')[0])


def test_inferred_number_shows_curve_and_confidence(digits):
    auto = SpherePair(hidden_dims=(32,), pretraining=None, max_epochs=5, random_state=0, progress=False)
    auto.fit(digits.X, constraints=digits.pairs)
    found = build_report(auto, digits.X)
    assert found.evidence.inferred == auto.cluster_number_.value
    assert not found.evidence.was_given
    page = render_report(found)
    assert f"confidence {auto.cluster_number_.confidence:.2f}" in page
    assert page.count('class="dot') == len(found.evidence.curve.dots) >= 12
    # New rows without pairs of their own say nothing about the number.
    assert build_report(auto, digits.X[100:200]).evidence == found.evidence
    assert len(repr(found)) < 300


def test_other_rows_are_labelled_by_the_model_and_said_to_be_others(digits):
    found = build_report(digits.model, digits.X[100:200])
    assert not found.are_training_rows
    assert found.kept.total.n_pairs == 0
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
    assert found.kept.violated[0].columns[0] in {"f0", "f1"}
    assert data_of(render_report(found))["names"][3] == "wine 3"


def test_sparse_rows_and_rows_without_a_cluster_work(blobs, plain_model):
    X, labels, model = blobs
    some = np.where(np.arange(90) < 85, labels, -1)
    noisy = plain_model().fit(X, some, centers=model.cluster_centers_, constraints=model.constraints_)
    found = build_report(noisy, X)
    assert found.n_without_cluster == 5
    assert "rows without a cluster" in text_of(render_report(found))
    assert build_report(digits_like(plain_model), sparse.csr_matrix(np.eye(6))).n_rows == 6


def digits_like(plain_model):
    dense = np.eye(6)
    model = plain_model().fit(
        dense, np.arange(6) % 2, centers=dense[:2], constraints=Constraints.from_pairs()
    )
    model.transform = lambda X: np.asarray(X.toarray(), dtype=np.float32)
    return model


def test_one_cluster_without_constraints_works(plain_model):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = plain_model().fit(
        X, np.zeros(20, int), centers=np.zeros((1, 3)), constraints=Constraints.from_pairs()
    )
    found = build_report(model, X)
    assert (found.n_borderline, len(found.clusters)) == (0, 1)
    assert "There are none." in text_of(render_report(found))


def test_data_never_becomes_markup(blobs):
    X, _, model = blobs
    table, model = named(X, model, [NASTY, "f1", "f2", "f3", "f4"])
    for texts in (None, [f"{NASTY} {place}" for place in range(90)]):
        page = render_report(
            build_report(
                model, table, ids=[NASTY] * 90, texts=texts, options=ReportOptions(title=NASTY, n_violated=9)
            )
        )
        assert "<script>window" not in page
        assert "<img src=x" not in page
        assert page.count("<script") == page.count("</script>") == 2
        assert data_of(page)["names"][0] == NASTY


def test_policy_allows_the_script_of_the_page_and_nothing_else(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_sampled_map_says_so(digits):
    few = build_report(digits.model, digits.X, options=ReportOptions(n_points=350))
    said = text_of(render_report(few))
    assert f"A sample: {len(few.points.rows)} of 500 rows are drawn" in said
    assert "A sample" not in text_of(render_report(build_report(digits.model, digits.X)))


def test_sixty_thousand_images_make_a_small_page_in_seconds(plain_model, tmp_path):
    rng = np.random.default_rng(0)
    centers = 100 * np.eye(10, 196)[:, :20]
    labels = np.arange(60_000) % 10
    X = rng.integers(0, 60, (60_000, 196)).astype(np.uint8)
    X[:, :20] += centers[labels].astype(np.uint8)
    pairs = Constraints.from_labels((labels + (rng.random(60_000) < 0.05)) % 10, 8000, random_state=0)
    model = plain_model().fit(X, labels, centers=centers, constraints=pairs)
    started = time.process_time()
    found = write_report(model, X, pairs, tmp_path / "r.html", options=ReportOptions(image="14x14"))
    assert time.process_time() - started < 20
    assert (tmp_path / "r.html").stat().st_size < 1_500_000
    assert len(found.points.rows) == 3000
    assert found.kept.n_more > 0


def test_same_input_gives_the_same_file(digits, page):
    assert (
        render_report(build_report(digits.model, digits.X, constraints=digits.other_pairs, options=ALL))
        == page
    )


def test_inputs_are_left_as_they_are(blobs):
    X, _, model = blobs
    before = X.copy(), model.embedding_.copy(), model.labels_.copy()
    build_report(model, X)
    for was, now in zip(before, (X, model.embedding_, model.labels_), strict=True):
        assert (was == now).all()


def test_bad_input_is_refused_and_nothing_is_written(digits, tmp_path):
    out = tmp_path / "r.html"
    spoilt = digits.X.copy()
    spoilt[7, 2] = np.nan
    for X, pairs, error, message in [
        (digits.X[:, :9], None, InvalidDataError, "9 features"),
        (spoilt, None, InvalidDataError, "row 7"),
        (digits.X, Constraints.from_pairs(must_link=[(0, 900)]), InvalidConstraintsError, "only 500 rows"),
    ]:
        with pytest.raises(error, match=message):
            write_report(digits.model, X, pairs, out)
    with pytest.raises(InvalidParameterError, match="does not exist"):
        write_report(digits.model, digits.X, None, tmp_path / "nowhere" / "r.html")
    with pytest.raises(InvalidParameterError, match="is a folder"):
        write_report(digits.model, digits.X, None, tmp_path)
    assert list(tmp_path.iterdir()) == []
